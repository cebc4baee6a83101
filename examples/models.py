# SPDX-License-Identifier: Apache-2.0
"""The models beside this file with another attention, by the lines that choose it."""

import re

CHOICE = re.compile(r"MultiHead(\(.*\) as (?:attend|cross))")


def with_attention(text, attention):
    """The text of a model in which `attention` stands for MultiHead, wherever a line chooses it."""
    changed, count = CHOICE.subn(rf"{attention}\1", text)
    if not count:
        raise ValueError("the text has no line that chooses its attention")
    return changed
