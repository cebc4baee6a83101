# SPDX-License-Identifier: Apache-2.0
"""Do more heads help, and does it help that they talk? Heads of d / h, parameters equal."""

from compare import compare
from tasks import WIDTH

HEADS = 4, 8, 16, 32
ATTENTIONS = {"MultiHead": "multi-head", "TalkingHeads": "talking heads"}


def hidden(attention, heads):
    """d_ff that makes up for two mixing matrices of a layer: a hidden value has 2 d + 1 numbers."""
    mixing = 2 * heads * heads if attention == "TalkingHeads" else 0
    return 4 * WIDTH - round(mixing / (2 * WIDTH + 1))


def model(task, attention, heads):
    size = WIDTH // heads
    return size, task.model(heads, size, attention, hidden(attention, heads))


def run(lab, results):
    return compare(lab, results, "heads", "attention", ATTENTIONS, HEADS, model)
