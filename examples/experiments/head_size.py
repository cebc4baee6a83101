# SPDX-License-Identifier: Apache-2.0
"""Should the size of a head be d / h, or stay what it is when there are more heads?"""

from compare import compare
from heads import HEADS
from tasks import WIDTH

FIXED = 32
RULES = {"d / h": "heads of d / h", "fixed": f"heads of {FIXED}"}


def model(task, rule, heads):
    size = FIXED if rule == "fixed" else WIDTH // heads
    return size, task.model(heads, size)


def run(lab, results):
    return compare(lab, results, "head_size", "rule", RULES, HEADS, model)
