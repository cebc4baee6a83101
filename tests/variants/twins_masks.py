# SPDX-License-Identifier: Apache-2.0
"""Twins of variants that differ in where heads look: masks, windows, biases and positions."""

import numpy as np

from registry import variant


def softmax(logits, axis):
    """Rows of -inf give zeros."""
    top = logits.max(axis=axis, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=axis, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def back(n):
    """How far position j of the memory is before query i, [n, n]."""
    at = np.arange(n)
    return at[:, None] - at[None, :]


def attend(Q, K, V, seen=None, bias=0.0):
    """Q[n,h,k] K[m,h,k] V[m,h,v]: scaled attention, seen[n,m] and bias[n,m,h] where given."""
    logits = np.einsum("nhk,mhk->nmh", Q, K) / np.sqrt(Q.shape[-1]) + bias
    if seen is not None:
        logits = np.where(seen[:, :, None], logits, -np.inf)
    return np.einsum("nmh,mhv->nhv", softmax(logits, 1), V)


def rotate(x, base=10000.0):
    """Rotary positions of x[n, ..., k]: the halves of k are the two coordinates."""
    n, half = x.shape[0], x.shape[-1] // 2
    angle = np.arange(n)[:, None] * base ** (-np.arange(half) / half)
    angle = angle.reshape(n, *[1] * (x.ndim - 2), half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1
    )


@variant("n", k=(5, 16))
def grouped_query(X, P_q, P_k, P_v, P_o):
    n, (_, g, q, k) = X.shape[0], P_q.shape
    Q = np.einsum("nd,dgqk->ngqk", X, P_q).reshape(n, g * q, k)
    K, V = (np.repeat(np.einsum("nd,dgk->ngk", X, P), q, axis=1) for P in (P_k, P_v))
    O = attend(Q, K, V, back(n) >= 0).reshape(n, g, q, k)
    return np.einsum("ngqk,gqkd->nd", O, P_o)


@variant("n m")
def multi_query(X, M, P_q, P_k, P_v, P_o):
    h = P_q.shape[1]
    K, V = (np.repeat((M @ P)[:, None], h, axis=1) for P in (P_k, P_v))
    return np.einsum("nhk,hkd->nd", attend(np.einsum("nd,dhk->nhk", X, P_q), K, V), P_o)


@variant("b n", h=(3, 4))
def alibi_causal(Q, K, V):
    n, h = Q.shape[1:3]
    slope = 2.0 ** (-8.0 * (np.arange(h) + 1) / h)
    bias = -slope * np.abs(back(n))[:, :, None]
    return np.stack([attend(*one, back(n) >= 0, bias) for one in zip(Q, K, V)])


def t5_bucket(distance, buckets=32, reach=128):
    """Of memory position minus query position, bidirectional."""
    half = buckets // 2
    exact = half // 2
    far = np.maximum(np.abs(distance), 1)
    large = exact + (np.log(far / exact) / np.log(reach / exact) * (half - exact)).astype(int)
    near = np.where(np.abs(distance) < exact, np.abs(distance), np.minimum(large, half - 1))
    return np.where(distance > 0, half, 0) + near


@variant("n")
def t5_bias(X, weights):
    n = X.shape[0]
    Q, K, V = (np.einsum("nd,dhk->nhk", X, weights[p]) for p in ("P_q", "P_k", "P_v"))
    (table,) = (w for name, w in weights.items() if "relative_bias" in name)
    k = Q.shape[-1]
    table = table if table.shape[0] == 32 else table.T
    O = attend(Q * np.sqrt(k), K, V, bias=table[t5_bucket(-back(n))])
    return np.einsum("nhk,hkd->nd", O, weights["P_o"])


@variant("n")
def rotary_attention(Q, K, V):
    return attend(rotate(Q), rotate(K), V)


@variant("n")
def sliding_window(X, P_q, P_k, P_v, P_o):
    n, (_, g, q, k) = X.shape[0], P_q.shape
    Q = rotate(np.einsum("nd,dgqk->ngqk", X, P_q)).reshape(n, g * q, k)
    K = np.repeat(rotate(np.einsum("nd,dgk->ngk", X, P_k)), q, axis=1)
    V = np.repeat(np.einsum("nd,dgk->ngk", X, P_v), q, axis=1)
    O = attend(Q, K, V, (back(n) >= 0) & (back(n) < 5)).reshape(n, g, q, k)
    return np.einsum("ngqk,gqkd->nd", O, P_o)


@variant("n", reach=(4, 6), dilation=(2, 3))
def dilated_window(Q, K, V, reach, dilation):
    far = np.abs(back(len(Q)))
    return attend(Q, K, V, (far <= reach) & (far % dilation == 0))


@variant("n", stride=(3, 8))
def sparse_strided(Q, K, V, stride):
    far = back(len(Q))
    return attend(Q, K, V, (far >= 0) & ((far < stride) | (far % stride == 0)))


@variant("n", draw={"picked": lambda random, shape, extents: random.integers(0, shape[0], shape)})
def bigbird(Q, K, V, picked):
    at = np.arange(len(Q))
    seen = (np.abs(back(len(Q))) <= 3) | (at[:, None] < 2) | (at < 2)
    np.put_along_axis(seen, picked, True, axis=1)
    return attend(Q, K, V, seen)


# ---- talking heads, masked ----------------------------------------------------------------------


def talk(X, P_q, P_k, P_v, P_o, P_l, P_w, seen):
    Q, K, V = (np.einsum("nd,dkh->nkh", X, P) for P in (P_q, P_k, P_v))
    logits = np.einsum("nki,mki,ih->nmh", Q, K, P_l) / np.sqrt(P_q.shape[1])
    weights = softmax(np.where(seen[:, :, None], logits, -np.inf), 1) @ P_w
    return np.einsum("nmh,mvh,dvh->nd", weights, V, P_o)


@variant("n")
def talking_causal(X, P_q, P_k, P_v, P_o, P_l, P_w):
    return talk(X, P_q, P_k, P_v, P_o, P_l, P_w, back(len(X)) >= 0)


@variant("n")
def talking_window(X, P_q, P_k, P_v, P_o, P_l, P_w):
    return talk(X, P_q, P_k, P_v, P_o, P_l, P_w, np.abs(back(len(X))) <= 3)


@variant("n")
def talking_causal_window(X, P_q, P_k, P_v, P_o, P_l, P_w):
    seen = (back(len(X)) >= 0) & (back(len(X)) < 4)
    return talk(X, P_q, P_k, P_v, P_o, P_l, P_w, seen)


@variant("n")
def talking_prefix(X, length, P_q, P_k, P_v, P_o, P_l, P_w):
    seen = (back(len(X)) >= 0) | (np.arange(len(X)) < length)
    return talk(X, P_q, P_k, P_v, P_o, P_l, P_w, seen)


@variant("n", draw={"length": lambda random, shape, extents: extents["n"] // 2})
def talking_padding(X, length, P_q, P_k, P_v, P_o, P_l, P_w):
    seen = np.broadcast_to(np.arange(len(X)) < length, (len(X), len(X)))
    return talk(X, P_q, P_k, P_v, P_o, P_l, P_w, seen)
