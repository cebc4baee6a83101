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


@variant("n")
def gated_attention(X, P_q, P_k, P_v, P_g, P_o):
    O = attend(project(X, P_q), project(X, P_k), project(X, P_v)) * sigmoid(project(X, P_g))
    return np.einsum("nhk,hkd->nd", O, P_o)


def unit(x, axis=-1):
    return x / np.sqrt((x * x).sum(axis, keepdims=True))


@variant("n m", k=(5, 16))
def qk_norm(Q, K, V, g):
    L = g * np.einsum("nhk,mhk->nmh", unit(Q), unit(K))
    return np.einsum("nmh,mhk->nhk", softmax(L, 1), V)


@variant("n", width=(3, 8))
def soft_cap(Q, K, V, width):
    n, g, q, k = Q.shape
    K, V = np.repeat(K, q, 1), np.repeat(V, q, 1)
    L = 50 * np.tanh(logits_of(Q.reshape(n, g * q, k), K) / 50)
    seen = (back(n) >= 0) & (back(n) < width)
    W = softmax(np.where(seen[:, :, None], L, -np.inf), 1)
    return np.einsum("nmh,mhk->nhk", W, V).reshape(Q.shape)


@variant("n m")
def relu_attention(Q, K, V):
    return np.einsum("nmh,mhk->nhk", np.maximum(logits_of(Q, K), 0) / len(K), V)


@variant("n m")
def rbf_attention(Q, K, V, bandwidth):
    distance = ((Q[:, None] - K[None]) ** 2).sum(-1)
    return np.einsum("nmh,mhk->nhk", softmax(-distance / (2 * bandwidth**2), 1), V)


@variant("n m", stored="only what begins with an einsum over both is streamed")
def additive(S, H, W_s, W_h, v):
    scores = np.tanh((S @ W_s)[:, None] + (H @ W_h)[None]) @ v
    return softmax(scores, 1) @ H


def compose(A, X, w, path):
    """Mixes the heads of A[n, m, h] as its query and its key say."""
    p = {name.split(".")[1]: array for name, array in w.items() if name.startswith(path + ".")}
    query = np.einsum("nd,dhr,ne,erg->nhg", X, p["Q_in"], X, p["Q_out"])
    key = np.einsum("nd,dhr,ne,erg->nhg", X, p["K_in"], X, p["K_out"])
    gates = np.tanh(X @ p["Q_gate"])[:, None] + np.tanh(X @ p["K_gate"])[None]
    matrix = p["base"] + query[:, None] + key[None]
    return np.einsum("nmh,nmhg->nmg", A, matrix) + A * gates


def composable(X, w):
    L = compose(logits_of(project(X, w["P_q"]), project(X, w["P_k"])), X, w, "logits")
    L = np.where(back(len(X))[:, :, None] >= 0, L, -np.inf)
    U = compose(softmax(L, 1), X, w, "weights")
    return np.einsum("nmh,mhk,hkd->nd", U, project(X, w["P_v"]), w["P_o"])


@variant("n", stored="at once cannot be streamed")
def dcmha(X, weights):
    return composable(X, weights)


@variant("n")
def dcmha_diagonal(X, weights):
    return composable(X, weights)


@variant("n", stored="a streamed kernel is not worth it")
def cross_covariance(Q, K, V, tau):
    L = np.einsum("nhk,nhj->hkj", unit(Q, 0), unit(K, 0)) * tau[:, None, None]
    return np.einsum("hkj,nhj->nhk", softmax(L, 2), V)


def loops_and_some_edges(random, counts, extents):
    return np.eye(counts[0], dtype=bool) | (random.random(counts) < 0.3)


@variant("n", draw={"edge": loops_and_some_edges})
def graph_attention(X, edge, P, a, b):
    H = project(X, P)
    scores = (H * a).sum(-1)[:, None] + (H * b).sum(-1)[None]
    scores = np.where(edge[:, :, None], np.maximum(scores, 0.01 * scores), -np.inf)
    O = np.einsum("nmh,mhk->nhk", softmax(scores, 1), H)
    return np.where(O > 0, O, np.exp(np.minimum(O, 0)) - 1)
