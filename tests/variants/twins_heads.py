# SPDX-License-Identifier: Apache-2.0
"""Twins of variants that differ in how logits become weights and in what heads tell each other."""

import numpy as np

from registry import variant
from twins_masks import attend, back, softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def logits_of(Q, K):
    return np.einsum("nhk,mhk->nmh", Q, K) / np.sqrt(Q.shape[-1])


def project(X, P):
    return np.einsum("nd,dhk->nhk", X, P)


@variant("n")
def differential(X, weights):
    w = weights
    initial = 0.8 - 0.6 * np.exp(-0.3 * (3 - 1))
    weight = np.exp(w["l_q1"] @ w["l_k1"]) - np.exp(w["l_q2"] @ w["l_k2"]) + initial
    maps = []
    for i in "12":
        L = logits_of(project(X, w[f"P_q{i}"]), project(X, w[f"P_k{i}"]))
        maps.append(softmax(np.where(back(len(X))[:, :, None] >= 0, L, -np.inf), 1))
    O = np.einsum("nmh,mhv->nhv", maps[0] - weight * maps[1], project(X, w["P_v"]))
    O = O / np.sqrt((O * O).mean(-1, keepdims=True) + 1e-5) * w["gain"] * (1 - initial)
    return np.einsum("nhv,hvd->nd", O, w["P_o"])


@variant("n", stored="shift cannot be streamed", c_q=(2, 3), c_k=(3, 5))
def multi_token(Q, K, V, theta, mix):
    n, (c_q, c_k, _) = len(Q), theta.shape
    S = np.where(back(n)[:, :, None] >= 0, logits_of(Q, K), 0)
    C = np.zeros_like(S)
    for i in range(n):
        for j in range(n):
            for a in range(c_q):
                for b in range(c_k):
                    u, v = i - a, j - b + c_k // 2
                    if 0 <= u < n and 0 <= v < n:
                        C[i, j] += theta[a, b] * S[u, v]
    W = softmax(np.where(back(n)[:, :, None] >= 0, C, -np.inf), 1)
    return np.einsum("nmh,ho,mok->nok", W, mix, V)


@variant("n")
def head_gating(X, P_q, P_k, P_v, P_o, route):
    O = attend(project(X, P_q), project(X, P_k), project(X, P_v))
    return np.einsum("nhv,nh,hvd->nd", O, softmax(X @ route, 1), P_o)


@variant("n m")
def sigmoid_attention(Q, K, V):
    return np.einsum("nmh,mhk->nhk", sigmoid(logits_of(Q, K) - np.log(len(K))), V)


@variant("n m")
def softmax_one(Q, K, V):
    E = np.exp(logits_of(Q, K))
    return np.einsum("nmh,mhk->nhk", E / (1 + E.sum(1, keepdims=True)), V)


@variant("n")
def sink_logits(Q, K, V, sink):
    L = np.where(back(len(Q))[:, :, None] >= 0, logits_of(Q, K), -np.inf)
    extra = np.broadcast_to(sink, (len(Q), 1, len(sink)))
    W = softmax(np.concatenate([L, extra], 1), 1)[:, :-1]
    return np.einsum("nmh,mhk->nhk", W, V)


@variant("y x", size=(2, 4), moved=(1, 2))
def swin_masked(Q, K, V, B, size, moved):
    y, x, h, k = Q.shape
    row, column = (a.ravel() for a in np.mgrid[:y, :x])
    flat = (a.reshape(y * x, h, k) for a in (Q, K, V))
    same = np.ones((y * x, y * x), bool)
    for at in (row, column):
        window = (at + moved) // size
        same &= window[:, None] == window
    offsets = (np.clip(a[:, None] - a + size - 1, 0, 2 * size - 2) for a in (row, column))
    return attend(*flat, same, B[tuple(offsets)]).reshape(y, x, h, k)
