# SPDX-License-Identifier: Apache-2.0
"""Twins of variants without a softmax over all pairs: feature maps, decays, pooled and trained
weights."""

import numpy as np

from registry import variant
from twins_blocks import gelu, normed, standardize
from twins_heads import project, sigmoid
from twins_masks import back, softmax


def elu(x):
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def weighted(A, V):
    """Means of V[m, h, v] by weights A[n, m, h] that do not yet sum to one."""
    return np.einsum("nmh,mhv->nhv", A, V) / A.sum(1)[:, :, None]


def pairs(F_q, F_k):
    return np.einsum("nhk,mhk->nmh", F_q, F_k)


ONLY_DATA = "all arguments count as data"


@variant("n m", stored=ONLY_DATA)
def linear_attention(Q, K, V):
    return weighted(pairs(elu(Q) + 1, elu(K) + 1), V)


def linear_of_past(Q, K, V):
    A = pairs(elu(Q) + 1, elu(K) + 1)
    return weighted(np.where(back(len(Q))[:, :, None] >= 0, A, 0), V)


@variant("n")
def linear_causal(Q, K, V):
    return linear_of_past(Q, K, V)


@variant("n", stored=ONLY_DATA)
def linear_cumsum(Q, K, V):
    return linear_of_past(Q, K, V)


@variant("n m")
def performer(Q, K, V, omega):
    def features(x):
        x = x / x.shape[-1] ** 0.25
        return np.exp(x @ omega.T - (x * x).sum(-1, keepdims=True) / 2)

    return weighted(pairs(features(Q), features(K)), V)


@variant(n=(13, 64), r=(3, 12))
def linformer(X, P_q, P_k, P_v, P_o, E, F):
    Q, K, V = project(X, P_q), project(E.T @ X, P_k), project(F.T @ X, P_v)
    W = softmax(pairs(Q, K) / np.sqrt(Q.shape[-1]), 1)
    return np.einsum("nmh,mhk,hkd->nd", W, V, P_o)


@variant("n")
def external_attention(X, M_k, M_v):
    A = softmax(X @ M_k.T, 0)
    return A / A.sum(1, keepdims=True) @ M_v


@variant("n", stored=ONLY_DATA)
def retention(Q, K, V):
    gamma = 1 - 2.0 ** (-5 - np.arange(Q.shape[1]))
    far = back(len(Q))[:, :, None]
    A = pairs(Q, K) / np.sqrt(Q.shape[-1]) * np.where(far >= 0, gamma ** np.maximum(far, 0), 0)
    O = np.einsum("nmh,mhv->nhv", A, V) / np.maximum(np.abs(A.sum(1)), 1)[:, :, None]
    return standardize(O)


@variant(n=(7, 32))
def aft(X, W_q, W_k, W_v, w):
    E = np.exp((X @ W_k)[None] + w[:, :, None])
    return sigmoid(X @ W_q) * (E * (X @ W_v)[None]).sum(1) / E.sum(1)


@variant(n=(7, 32))
def gmlp(X, weights):
    w = weights
    N = normed(X, w, "layer_norm")
    gate = w["W"] @ normed(gelu(N @ w["V"]), w, "layer_norm_1") + w["b"][:, None]
    return X + (gelu(N @ w["U"]) * gate) @ w["O"]


@variant("n", d=(6, 32), stored="a streamed kernel is not worth it")
def fnet(X):
    return np.fft.fft2(X).real


@variant("n")
def fastformer(X, P_q, P_k, P_v, w_q, w_k, P_u):
    Q, K, V = (project(X, P) for P in (P_q, P_k, P_v))
    scale = np.sqrt(Q.shape[-1])
    q = np.einsum("nh,nhk->hk", softmax((Q * w_q).sum(-1) / scale, 0), Q)
    P = K * q
    k = np.einsum("nh,nhk->hk", softmax((P * w_k).sum(-1) / scale, 0), P)
    return np.einsum("nhk,hkd->nd", V * k + Q, P_u)


@variant("n m", stored=ONLY_DATA)
def hopfield(S, Y):
    for _ in range(3):
        S = softmax(2 * S @ Y.T, 1) @ Y
    return S


@variant(n=(7, 32), f=(5, 32))
def synthesizer_dense(X, W_1, W_2, P_v, P_o):
    H = np.maximum(np.einsum("nd,dfh->nfh", X, W_1), 0)
    A = softmax(np.einsum("nfh,fmh->nmh", H, W_2), 1)
    return np.einsum("nmh,mhk,hkd->nd", A, project(X, P_v), P_o)


@variant(n=(7, 32))
def synthesizer_random(X, R, P_v, P_o):
    return np.einsum("nmh,mhk,hkd->nd", softmax(R, 1), project(X, P_v), P_o)


@variant("n", v=(11, 100))
def mixture_of_softmaxes(X, W_h, W_p, E):
    H = np.tanh(np.einsum("nd,dre->nre", X, W_h))
    P = softmax(np.einsum("nre,ve->nrv", H, E), 2)
    return np.log(np.einsum("nr,nrv->nv", softmax(X @ W_p, 1), P))
