# SPDX-License-Identifier: Apache-2.0
"""Twins of variants with relative, contextual or two-dimensional positions."""

import numpy as np

from registry import variant
from twins_heads import logits_of, project, sigmoid
from twins_masks import attend, back, softmax

# --no-materialize: a bias that is taken from what queries make.
GATHERED = "only from an argument is gathered where it is needed"


def softplus(x):
    return np.logaddexp(0, x)


def causal(logits):
    """Of [n, n, h]."""
    return np.where(back(len(logits))[:, :, None] >= 0, logits, -np.inf)


def weigh(logits, V):
    return np.einsum("nmh,mhk->nhk", softmax(logits, 1), V)


def at_offsets(table, offset):
    """table[n, r, h] at offset[n, m] along r, [n, m, h]."""
    rows = np.arange(len(table))[:, None]
    return table[rows, offset]


def relative(X, M, R, w, distance):
    """Transformer-XL's attention of X to M; nothing is seen where distance[n, m] is negative."""
    Q, K, V = project(X, w["P_q"]), project(M, w["P_k"]), project(M, w["P_v"])
    content = np.einsum("nhk,mhk->nmh", Q + w["u"], K)
    far = np.einsum("nhk,rhk->nrh", Q + w["v"], project(R, w["P_r"]))
    logits = (content + at_offsets(far, np.maximum(distance, 0))) / np.sqrt(Q.shape[-1])
    logits = np.where(distance[:, :, None] >= 0, logits, -np.inf)
    return np.einsum("nhk,hkd->nd", weigh(logits, V), w["P_o"])


@variant("n", stored=GATHERED)
def transformer_xl(X, R, weights):
    return relative(X, X, R, weights, back(len(X)))


@variant("n p", stored=GATHERED)
def transformer_xl_memory(X, before, R, weights):
    M = np.concatenate([before, X])
    at = np.arange(len(M))
    return relative(X, M, R, weights, at[len(before) :, None] - at), M


@variant("n", reach=(2, 8), stored=GATHERED)
def deberta(X, R, P_q, P_k, P_v, P_qr, P_kr, P_o, reach):
    Q, K = project(X, P_q), project(X, P_k)
    offset = np.clip(back(len(X)) + reach, 0, 2 * reach - 1)
    content = np.einsum("nhk,mhk->nmh", Q, K)
    c2p = at_offsets(np.einsum("nhk,rhk->nrh", Q, project(R, P_kr)), offset)
    p2c = at_offsets(np.einsum("mhk,rhk->mrh", K, project(R, P_qr)), offset).transpose(1, 0, 2)
    O = weigh((content + c2p + p2c) / np.sqrt(3 * Q.shape[-1]), project(X, P_v))
    return np.einsum("nhk,hkd->nd", O, P_o)


@variant("n", reach=(2, 4))
def shaw(Q, K, V, A_k, A_v, reach):
    offset = np.clip(-back(len(Q)), -reach, reach) + reach
    pairs = np.einsum("nhk,nmk->nmh", Q, A_k[offset])
    W = softmax((np.einsum("nhk,mhk->nmh", Q, K) + pairs) / np.sqrt(Q.shape[-1]), 1)
    return np.einsum("nmh,mhk->nhk", W, V) + np.einsum("nmh,nmk->nhk", W, A_v[offset])


@variant("n")
def fire(Q, K, V, c, threshold, W_1, b_1, W_2):
    far, at = np.maximum(back(len(Q)), 0), np.arange(len(Q))[:, None]
    x = np.log(np.abs(c) * far + 1) / np.log(np.abs(c) * np.maximum(at, np.abs(threshold)) + 1)
    bias = np.maximum(x[:, :, None] * W_1 + b_1, 0) @ W_2
    return weigh(causal(logits_of(Q, K) + bias), V)


@variant("n")
def kerple(Q, K, V, r_1, r_2):
    far = np.abs(back(len(Q)))[:, :, None]
    return weigh(causal(logits_of(Q, K) - softplus(r_1) * np.log(1 + softplus(r_2) * far)), V)


@variant("n", stored="cumsum cannot be streamed")
def cope(Q, K, V, e):
    n, h, p = len(Q), Q.shape[1], len(e)
    L = np.einsum("nhk,mhk->nmh", Q, K)
    bias = np.zeros_like(L)
    gate = sigmoid(L)
    for i in range(n):
        for j in range(i + 1):
            position = np.minimum(gate[i, j : i + 1].sum(0), p - 1)
            for a in range(h):
                low = int(np.floor(position[a]))
                part = position[a] - low
                near = Q[i, a] @ e[low], Q[i, a] @ e[min(low + 1, p - 1)]
                bias[i, j, a] = (1 - part) * near[0] + part * near[1]
    return weigh(causal((L + bias) / np.sqrt(Q.shape[-1])), V)


@variant("n")
def forgetting(X, P_q, P_k, P_v, w_f, b_f, P_o):
    kept = np.cumsum(np.log(sigmoid(X @ w_f + b_f)), 0)
    L = logits_of(project(X, P_q), project(X, P_k)) + kept[:, None] - kept[None, :]
    return np.einsum("nhk,hkd->nd", weigh(causal(L), project(X, P_v)), P_o)


@variant("n", stored="cumsum cannot be streamed")
def stick_breaking(Q, K, V):
    beta = sigmoid(logits_of(Q, K))
    A = np.zeros_like(beta)
    for i in range(len(Q)):
        left = np.ones(Q.shape[1])
        for j in range(i - 1, -1, -1):
            A[i, j] = beta[i, j] * left
            left = left * (1 - beta[i, j])
    return np.einsum("nmh,mhk->nhk", A, V)


@variant("n", stored="'L[n, m, 0]' cannot be streamed")
def selective(Q, K, V):
    L = causal(logits_of(Q, K))
    S = np.maximum(L[:, :, 0], 0)
    S[:, 0] = 0
    np.fill_diagonal(S, 0)
    F = np.cumsum(S, 0)
    F = np.concatenate([np.zeros_like(F[:1]), F[:-1]])
    return weigh(L - F[:, :, None], V)


# ---- images -------------------------------------------------------------------------------------


def flattened(*arrays):
    """[y, x, h, k] as [y x, h, k]."""
    return [a.reshape(-1, *a.shape[2:]) for a in arrays]


def rows_and_columns(array):
    return [a.ravel() for a in np.mgrid[: array.shape[0], : array.shape[1]]]


@variant("y x", size=(2, 4), moved=(1, 2), stored="'rows' would be stored")
def swin_masked(Q, K, V, B, size, moved):
    at = rows_and_columns(Q)
    windows = [(a + moved) // size for a in at]
    same = np.all([a[:, None] == a for a in windows], axis=0)
    offsets = tuple(np.clip(a[:, None] - a + size - 1, 0, 2 * size - 2) for a in at)
    return attend(*flattened(Q, K, V), same, B[offsets]).reshape(V.shape)


@variant("y x")
def convit(Q, K, V, v, gate):
    dy, dx = (a - a[:, None] for a in rows_and_columns(Q))
    P = v[0] * (dy * dy + dx * dx)[:, :, None] + v[1] * dy[:, :, None] + v[2] * dx[:, :, None]
    Q, K, V_flat = flattened(Q, K, V)
    W = (1 - sigmoid(gate)) * softmax(logits_of(Q, K), 1) + sigmoid(gate) * softmax(P, 1)
    return np.einsum("nmh,mhk->nhk", W, V_flat).reshape(V.shape)


@variant("y x")
def neighbourhood(Q, K, V):
    near = np.ones((Q.shape[0] * Q.shape[1],) * 2, bool)
    for at, extent in zip(rows_and_columns(Q), Q.shape):
        first = np.clip(at - 1, 0, extent - 3)[:, None]
        near &= (at >= first) & (at < first + 3)
    return attend(*flattened(Q, K, V), near).reshape(V.shape)
