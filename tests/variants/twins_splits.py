# SPDX-License-Identifier: Apache-2.0
"""Twins of variants that cut a dim into several: heads, patches, windows, segments."""

import numpy as np

from registry import variant
from twins_blocks import layer
from twins_heads import logits_of
from twins_kernels import elu
from twins_layers import shifted
from twins_masks import attend, back, softmax
from twins_positions import rows_and_columns


# --no-materialize: windows and landmarks of a few positions.
FEW_ROWS = "8 rows are the least that is streamed"


@variant("n")
def fused_qkv(X, W_qkv, b_qkv, W_o, b_o, h, k):
    Q, K, V = np.moveaxis((X @ W_qkv + b_qkv).reshape(len(X), 3, h, k), 1, 0)
    return attend(Q, K, V, back(len(X)) >= 0).reshape(len(X), h * k) @ W_o + b_o


@variant("b")
def vit_patches(image, W, first, E):
    b, rows, columns, _ = image.shape
    p, q, _, d = W.shape
    patches = [
        np.einsum("bpqc,pqcd->bd", image[:, y : y + p, x : x + q], W)
        for y in range(0, rows, p)
        for x in range(0, columns, q)
    ]
    return np.stack([np.broadcast_to(first[0], (b, d)), *patches], 1) + E


@variant("y x", y=(8, 12, 32), x=(4, 8, 32))
def swin_windows(Q, K, V, B, size):
    at = rows_and_columns(Q)
    same = np.all([a[:, None] // size == a // size for a in at], axis=0)
    offsets = tuple(np.clip(a[:, None] - a + size - 1, 0, 2 * size - 2) for a in at)
    flat = (a.reshape(-1, *a.shape[2:]) for a in (Q, K, V))
    return attend(*flat, same, B[offsets]).reshape(V.shape)


@variant("n", n=(9, 66, 513))
def hourglass(X, weights):
    def read(X, path):
        return layer(X, X, weights, path, back(len(X)) >= 0)

    S = X.reshape(-1, 3, X.shape[1]).mean(1)
    A = S + read(S, "Attend")
    Y = X + shifted(np.repeat(A, 3, 0), 2)
    return Y + read(Y, "Attend_1")


@variant("n", n=(8, 64, 512), stored=FEW_ROWS)
def block_local(Q, K, V, w):
    at = np.arange(len(Q))
    return attend(Q, K, V, (back(len(Q)) >= 0) & (at[:, None] // w - at // w <= 1))


@variant("n", n=(10, 65, 515), stored=FEW_ROWS)
def infini(Q, K, V, beta, w):
    M, z, parts = np.zeros((Q.shape[1], Q.shape[2], Q.shape[2])), np.zeros(Q.shape[1:]), []
    for at in range(0, len(Q), w):
        q, k, v = (a[at : at + w] for a in (Q, K, V))
        f_q, f_k = elu(q) + 1, elu(k) + 1
        below = np.einsum("whk,hk->wh", f_q, z) + 1e-6
        far = np.einsum("whk,hkv->whv", f_q, M) / below[:, :, None]
        g = 1 / (1 + np.exp(-beta))[:, None]
        parts.append(g * far + (1 - g) * attend(q, k, v, back(w) >= 0))
        M, z = M + np.einsum("whk,whv->hkv", f_k, v), z + f_k.sum(0)
    return np.concatenate(parts)


@variant("n", n=(8, 64, 512), stored=FEW_ROWS)
def nystrom(Q, K, V):
    n, h, k = Q.shape
    Q_l, K_l = (a.reshape(4, n // 4, h, k).mean(1) for a in (Q, K))
    F, A, B = (
        np.moveaxis(softmax(logits_of(*pair), 1), 2, 0) for pair in ((Q, K_l), (Q_l, K_l), (Q_l, K))
    )
    one = np.eye(4)
    Z = np.swapaxes(A, 1, 2) / A.sum(1).max(1)[:, None, None]
    for _ in range(6):
        P = A @ Z
        Z = Z @ (13 * one - P @ (15 * one - P @ (7 * one - P))) / 4
    return np.moveaxis(F @ Z @ B @ np.moveaxis(V, 1, 0), 0, 1)
