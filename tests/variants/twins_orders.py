# SPDX-License-Identifier: Apache-2.0
"""Twins of variants that choose: the largest, the best experts, what is in order."""

import numpy as np

from registry import variant
from twins_blocks import gelu
from twins_heads import logits_of, project, sigmoid
from twins_masks import attend, back, softmax
from twins_positions import causal, weigh
from twins_states import silu


def largest(x, count, axis):
    """Positions of the largest, the largest first."""
    return np.take(np.argsort(-x, axis, kind="stable"), range(count), axis)


def only(logits, count, axis):
    """All but the largest are -inf."""
    out = np.full_like(logits, -np.inf)
    at = largest(logits, count, axis)
    np.put_along_axis(out, at, np.take_along_axis(logits, at, axis), axis)
    return out


# --no-materialize: what is put in order is stored.
ORDERED = "reads it in another kernel"


@variant("n", t=(3, 6), stored=ORDERED)
def topk_attention(Q, K, V, t):
    return weigh(only(causal(logits_of(Q, K)), t, 1), V)


@variant("n m", t=(3, 6), stored="its kernel would need that before it ends")
def topk_threshold(Q, K, V, t):
    return weigh(only(logits_of(Q, K), t, 1), V)


@variant("n")
def mixture_of_experts(X, W_r, W_in, W_gate, W_out):
    weight = softmax(only(X @ W_r, 2, 1), 1)
    H = np.einsum("nd,edf->nef", X, W_in) * silu(np.einsum("nd,edf->nef", X, W_gate))
    return np.einsum("ne,nef,efd->nd", weight, H, W_out)


@variant("n", c=(2, 5, 64))
def expert_choice(X, W_r, W_in, W_out, c):
    S = softmax(X @ W_r, 1)
    Y = np.zeros_like(X)
    for e, tokens in enumerate(largest(S, c, 0).T):
        Y[tokens] += S[tokens, e][:, None] * (gelu(X[tokens] @ W_in[e]) @ W_out[e])
    return Y


@variant("n")
def mixture_of_heads(X, P_q, P_k, P_v, P_o, W_s, W_r, W_b):
    O = attend(*(project(X, P) for P in (P_q, P_k, P_v)))
    balance, score = softmax(X @ W_b, 1), softmax(X @ W_r, 1)
    chosen = np.exp(only(np.log(score), 2, 1))
    gate = np.concatenate([balance[:, :1] * softmax(X @ W_s, 1), balance[:, 1:] * chosen], 1)
    return np.einsum("nhk,nh,hkd->nd", O, gate, P_o)


@variant("n", keys=(5, 10), stored="only what begins with an einsum")
def product_keys(X, W_1, W_2, K_1, K_2, V):
    scores = [X @ W @ K.T for W, K in ((W_1, K_1), (W_2, K_2))]
    pairs = only(scores[0], 3, 1)[:, :, None] + only(scores[1], 3, 1)[:, None, :]
    return softmax(pairs.reshape(len(X), -1), 1) @ V


@variant("n s", stored=ORDERED)
def memorizing(Q, K, V, K_old, V_old, b):
    far = weigh(only(logits_of(Q, K_old), 4, 1), V_old)
    return (
        sigmoid(b)[:, None] * far + (1 - sigmoid(b))[:, None] * weigh(causal(logits_of(Q, K)), V)
    )


@variant("n", c=(3, 6, 128))
def mixture_of_depths(X, weights, c):
    r = X @ weights["w_r"]
    at = largest(r, c, 0)
    Q, K, V = (project(X[at], weights[f"Block.{p}"]) for p in ("P_q", "P_k", "P_v"))
    O = attend(Q, K, V, at[None, :] <= at[:, None])
    Y = X.copy()
    Y[at] += sigmoid(r[at])[:, None] * np.einsum("nhk,hkd->nd", O, weights["Block.P_o"])
    return Y


@variant("n m", stored="sort cannot be streamed")
def sparsemax(Q, K, V):
    L = logits_of(Q, K)
    low, high = L.max(1, keepdims=True) - 1, L.max(1, keepdims=True)
    for _ in range(60):  # the threshold by bisection
        middle = (low + high) / 2
        more = np.maximum(L - middle, 0).sum(1, keepdims=True) >= 1
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.einsum("nmh,mhk->nhk", np.maximum(L - low, 0), V)


@variant("n m", kept=(4, 9), last=(2, 3))
def heavy_hitters(Q, K, V, kept, last):
    got = softmax(logits_of(Q, K), 1).sum(0)
    got[len(K) - last :] = np.inf
    at = np.sort(largest(got, kept, 0), 0)
    head = np.arange(K.shape[1])
    return K[at, head], V[at, head], at.T


@variant("n", t=(3, 5), stored=ORDERED)
def sparse_indexer(X, P_q, P_k, P_v, P_o, I_q, I_k, w, t):
    logits = np.einsum("nir,mr->nmi", project(X, I_q), X @ I_k)
    score = np.einsum("nmi,ni->nm", np.maximum(logits, 0), X @ w)
    seen = only(np.where(back(len(X)) >= 0, score, -np.inf), t, 1) > -np.inf
    K, V = (np.repeat((X @ P)[:, None], P_q.shape[1], 1) for P in (P_k, P_v))
    return np.einsum("nhk,hkd->nd", attend(project(X, P_q), K, V, seen), P_o)


def small(random, counts, extents):
    return 0.02 * random.standard_normal(counts)


@variant("n", t=(3, 6), draw={"W": small})
def graph_pooling(X, A, W, t):
    score = np.tanh(A @ X @ W)
    at = largest(score, t, 0)
    return X[at] * score[at][:, None], A[np.ix_(at, at)]


@variant("b", v=(7, 30), draw={"p": lambda random, counts, extents: 0.8})
def nucleus(logits, p):
    order = largest(logits, logits.shape[1], 1)
    P = np.take_along_axis(softmax(logits, 1), order, 1)
    kept = np.where(np.cumsum(P, 1) - P < p, P, 0)
    return kept / kept.sum(1, keepdims=True), order
