# SPDX-License-Identifier: Apache-2.0
"""Twins of recurrences: what is carried over positions by `scan`."""

import numpy as np

from registry import variant
from twins_blocks import rms
from twins_heads import project, sigmoid, unit
from twins_kernels import linear_of_past
from twins_layers import shifted
from twins_masks import back, softmax
from twins_positions import softplus


def silu(x):
    return x * sigmoid(x)


def states(update, state, *steps):
    """Every state of a recurrence: update(state, one of each step)."""
    every = []
    for at in zip(*steps):
        state = update(state, *at)
        every.append(state)
    return np.stack(every)


def read(S, Q):
    """S[n, h, k, v] with Q[n, h, k]."""
    return np.einsum("nhkv,nhk->nhv", S, Q)


def outer(K, V):
    return K[..., :, None] * V[..., None, :]


def delta(S, k, v, beta):
    """The delta rule: what the state says at k moves towards v."""
    return S + beta[..., None, None] * outer(k, v - np.einsum("...kv,...k->...v", S, k))


@variant("n")
def deltanet(X, weights):
    w = weights
    Q, K = (unit(silu(project(X, w[p]))) for p in ("P_q", "P_k"))
    V, beta = project(X, w["P_v"]), sigmoid(X @ w["w_beta"])
    S = states(delta, np.zeros((*K.shape[1:], V.shape[2])), K, V, beta)
    return np.einsum("nhv,hvd->nd", rms(read(S, Q), w, "rms_norm"), w["P_o"])


@variant("b n")
def gated_deltanet(Q, K, V, decay, beta):
    parts = Q, unit(K), V, sigmoid(decay), sigmoid(beta)
    Q, K, V, alpha, rate = (np.swapaxes(a, 0, 1) for a in parts)

    def update(S, k, v, a, b):
        return delta(a[..., None, None] * S, k, v, b)

    S = states(update, np.zeros((*K.shape[1:], V.shape[-1])), K, V, alpha, rate)
    return np.einsum("nbhkv,nbhk->bnhv", S, Q)


def decayed(K, V, G):
    """States that decay by G[n, h, k] and take in K and V."""
    initial = np.zeros((*K.shape[1:], V.shape[2]))
    return states(lambda S, k, v, g: g[:, :, None] * S + outer(k, v), initial, K, V, G)


@variant("n")
def gated_linear(X, weights):
    w = weights
    Q, K, V = (project(X, w[p]) for p in ("P_q", "P_k", "P_v"))
    G = sigmoid(project(X @ w["A"], w["B"])) ** (1 / 16)
    O = rms(read(decayed(K, V, G), Q / np.sqrt(Q.shape[2])), w, "rms_norm")
    return np.einsum("nhv,hvd->nd", O * silu(project(X, w["P_g"])), w["P_o"])


@variant("n")
def retention_recurrent(Q, K, V):
    gamma = 1 - 2.0 ** (-5 - np.arange(Q.shape[1]))
    far = back(len(Q))[:, :, None]
    D = np.where(far >= 0, gamma ** np.maximum(far, 0), 0)
    A = np.einsum("nhk,mhk->nmh", Q, K) * D / np.sqrt(Q.shape[2])
    return np.einsum("nmh,mhv->nhv", A, V)


@variant("n")
def hgrn(Q, F, V, low):
    bound = sigmoid(low)
    forget = bound + (1 - bound) * sigmoid(F)
    return read(decayed(1 - forget, V, forget), Q)


@variant("n")
def linear_recurrent(Q, K, V):
    return linear_of_past(Q, K, V)


@variant("n", draw={"w": lambda random, counts, extents: random.standard_normal(counts) - 2})
def rwkv(X, mu_r, mu_k, mu_v, W_r, W_k, W_v, W_o, w, u):
    before = shifted(X, 1)
    R, K, V = (
        (mu * X + (1 - mu) * before) @ W for mu, W in ((mu_r, W_r), (mu_k, W_k), (mu_v, W_v))
    )
    far = back(len(X))[:, :, None]
    A = np.where(far > 0, np.exp(-(far - 1) * np.exp(w) + K[None]), 0)
    A = np.where(far == 0, np.exp(u + K[None]), A)
    wkv = np.einsum("nme,me->ne", A, V) / A.sum(1)
    return sigmoid(R) * wkv @ W_o


@variant("n", taps=(2, 4))
def mamba(X, weights):
    w = weights
    U = sum(w["conv"][i] * shifted(X @ w["W_x"], i) for i in range(len(w["conv"])))
    U = silu(U + w["b_conv"])
    dt = softplus(U @ w["W_1"] @ w["W_2"] + w["b_dt"])
    B, C = U @ w["W_B"], U @ w["W_C"]

    def update(H, dt, b, u):
        return np.exp(-dt[:, None] * np.exp(w["A_log"])) * H + outer(dt * u, b)

    H = states(update, np.zeros(w["A_log"].shape), dt, B, U)
    Y = np.einsum("nes,ns->ne", H, C) + w["D"] * U
    return Y * silu(X @ w["W_z"]) @ w["W_o"]


@variant("n", draw={"log_dt": lambda random, counts, extents: random.standard_normal(counts) - 2})
def s4d(X, log_dt, a_re, a_im, c_re, c_im, D):
    dt, A = np.exp(log_dt), -np.exp(a_re) + 1j * a_im
    pole = np.exp(A * dt[:, None])
    B = (pole - 1) / A
    S = states(lambda S, x: pole * S + B * x[:, None], np.zeros(A.shape, complex), X)
    return 2 * ((c_re + 1j * c_im) * S).sum(2).real + D * X


@variant("n")
def mlstm(Q, K, V, I, F, O):
    log_f = np.cumsum(np.log(sigmoid(F)), 0)
    far = back(len(Q))[:, :, None]
    D = np.where(far >= 0, log_f[:, None] - log_f[None] + I[None], -np.inf)
    A = np.exp(D) * np.einsum("nhk,mhk->nmh", Q, K) / np.sqrt(Q.shape[2])
    below = np.maximum(np.abs(A.sum(1)), 1)
    return sigmoid(O) * np.einsum("nmh,mhv->nhv", A, V) / below[:, :, None]


@variant("b n")
def lstm(X, W, R, bias):
    h = c = np.zeros((len(X), R.shape[2]))
    every = []
    for t in range(X.shape[1]):
        f, i, g, o = np.einsum("bd,qde->qbe", X[:, t], W) + h @ R + bias[:, None]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        every.append(h)
    return np.stack(every, 1), h, c


@variant("b n")
def griffin(X, W_a, b_a, W_x, b_x, A):
    r, i = sigmoid(X @ W_a + b_a), sigmoid(X @ W_x + b_x)
    a = np.exp(-8 * softplus(A) * r)
    put = np.sqrt(1 - a * a) * i * X
    h = states(lambda h, a, x: a * h + x, np.zeros(X[:, 0].shape), *np.swapaxes([a, put], 1, 2))
    return np.swapaxes(h, 0, 1)


@variant("n")
def learned_at_test(Q, K, V, W_0, rate):
    def update(W, k, v):
        return delta(W, k, v, sigmoid(rate))

    return read(states(update, W_0, unit(K), V), Q)


@variant("m n")
def attention_rnn(H, X, W_s, W_h, v, weights):
    w = {name.split(".")[-1]: array for name, array in weights.items() if "GRU" in name}
    s, every, maps = np.zeros(X.shape[1]), [], []
    for x in X:
        A = softmax(np.tanh(s @ W_s + H @ W_h) @ v, 0)
        g = (x + A @ H) @ w["W"] + w["B"]
        a = s @ w["R"]
        r, z = sigmoid(g[0] + a[0]), sigmoid(g[1] + a[1])
        s = (1 - z) * np.tanh(g[2] + r * a[2]) + z * s
        every.append(s)
        maps.append(A)
    return np.stack(every), np.stack(maps)


@variant("b n")
def crf(E, T, start):
    a = best = np.broadcast_to(start, E[:, 0].shape)
    for t in range(E.shape[1]):
        a = np.logaddexp.reduce(a[:, :, None] + T, axis=1) + E[:, t]
        best = (best[:, :, None] + T).max(1) + E[:, t]
    return np.logaddexp.reduce(a, axis=1), best.max(1)


@variant("b n")
def mega_ema(X, alpha, delta, beta, eta):
    p = sigmoid(alpha)
    q = 1 - p * sigmoid(delta)
    h = np.zeros((len(X), *p.shape))
    every = states(lambda h, x: q * h + p * beta * x[:, :, None], h, np.swapaxes(X, 0, 1))
    return np.einsum("nbde,de->bnd", every, eta)


@variant("b", steps=(4, 9))
def greedy(first, s_0, E, W, R, steps):
    token, s, tokens = first, s_0, []
    for _ in range(steps):
        s = np.tanh(E[token] @ W + s @ R)
        token = (s @ E.T).argmax(1)
        tokens.append(token)
    return np.stack(tokens, 1)


@variant("n")
def min_gru(X, weights):
    for i in ("i.0", "i.1"):
        N = rms(X, weights, f"{i}.rms_norm")
        z, c = sigmoid(N @ weights[f"{i}.MinGRU.W_z"]), N @ weights[f"{i}.MinGRU.W_h"]
        X = X + states(lambda h, z, c: (1 - z) * h + z * c, np.zeros(X.shape[1]), z, c)
    return X
