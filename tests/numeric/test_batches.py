# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention over batches, whose sums over rows go over the batch as well or do not."""

import pytest
from attc import MACHINES, attc

MIXED = """dim h = 3, g = 2, k = 5
def Mixed(Q[b, n, h, k], {memory}, param P[h, g], param R[g, h]):
    L[b, n, m, g] = {hidden}
    W[b, n, m, g] = softmax(L, reduced_dim=m)
    return einsum(W, R, V -> [b, n, h, k])
"""
LOGITS = "einsum(Q, K, P -> [b, n, m, g])"
MEMORIES = {
    "own": "K[b, m, h, k], V[b, m, h, k]",
    "shared by the batch": "K[m, h, k], V[m, h, k]",
    "shared by heads": "K[b, m, k], V[b, m, k]",
}
HIDDEN = {"all": LOGITS, "causal": f"where(index(m) <= index(n), {LOGITS}, -inf)"}
VOCABULARY = """dim d = 6, v = 90
def Loss(X[b, n, d], label[b, n]: i32, param E[v, d]):
    L[b, n, v] = einsum(X, E -> [b, n, v])
    return sum(cross_entropy(L, label), reduced_dim=(b, n))
"""
THREADS = [1, 2, 8]


def verify(source, *options):
    attc("verify", "-", "--grad", "--verify-passes", "--machine", MACHINES / "tiny.json", *options,
         stdin=source)


@pytest.mark.parametrize("extents", [["-D", "b=3,n=140,m=140"],
                                     ["-D", "b=9,n=70,m=70", "--dynamic", "b"],
                                     ["-D", "b=1,n=140,m=140", "--dynamic", "b=512"]], ids=" ".join)
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("memory", MEMORIES)
def test_heads_that_are_mixed(memory, hidden, extents):
    source = MIXED.format(memory=MEMORIES[memory], hidden=HIDDEN[hidden])
    for threads in THREADS:
        for plan in ([], ["--plan", "resident:8"], ["--plan", "unfused"]):
            verify(source, *extents, "--threads", threads, *plan)


@pytest.mark.parametrize("extents", ["b=2,n=270", "b=67,n=2", "b=1,n=130"])
def test_a_vocabulary(extents):
    for threads in THREADS:
        for dynamic in ([], ["--dynamic", "b"], ["--dynamic", "b,n"]):
            verify(VOCABULARY, "-D", extents, *dynamic, "--threads", threads)
