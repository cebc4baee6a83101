# SPDX-License-Identifier: Apache-2.0
"""Does it matter that logits are divided by sqrt(d_k)?"""

from compare import compare
from tasks import WIDTH

HEADS = 1, 4, 16
SCALE = " / sqrt(d_k)\n"
SCALED = {"yes": "with 1 / sqrt(d_k)", "no": "without 1 / sqrt(d_k)"}


def model(task, scaled, heads):
    size = WIDTH // heads
    return size, task.model(heads, size, replaced=() if scaled == "yes" else ((SCALE, "\n"),))


def run(lab, results):
    return compare(lab, results, "scaling", "scaled", SCALED, HEADS, model, across="head_size")
