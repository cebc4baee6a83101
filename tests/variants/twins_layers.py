# SPDX-License-Identifier: Apache-2.0
"""Twins of layers of many kinds: adapted, routed, pooled and convolved, and attention of other
uses."""

import numpy as np

from registry import variant
from twins_blocks import normed, sinusoidal
from twins_heads import logits_of, project, sigmoid, unit
from twins_masks import attend, back, rotate, softmax
from twins_positions import GATHERED, causal, softplus, weigh


@variant("n", p=(2, 5))
def prefix_tuning(X, P_q, P_k, P_v, P_o, K_0, V_0):
    n, p = len(X), len(K_0)
    K, V = np.concatenate([K_0, project(X, P_k)]), np.concatenate([V_0, project(X, P_v)])
    seen = np.concatenate([np.ones((n, p), bool), back(n) >= 0], 1)
    return np.einsum("nhk,hkd->nd", attend(project(X, P_q), K, V, seen), P_o)


@variant("n")
def realformer(X, L_0, weights):
    L = L_0
    for i in range(3):
        w = {p: weights[f"i.{i}.Layer.P_{p}"] for p in "qkvo"}
        N = normed(X, weights, f"i.{i}.Layer.layer_norm")
        L = logits_of(project(N, w["q"]), project(N, w["k"])) + L
        X = X + np.einsum("nhk,hkd->nd", weigh(L, project(N, w["v"])), w["o"])
    return X


@variant("n", r=(1, 3))
def lora(X, weights):
    w, r = weights, weights["query.A"].shape[1]

    def adapted(P, path):
        return project(X, P) + 6 / r * project(X @ w[f"{path}.A"], w[f"{path}.B"])

    L = logits_of(adapted(w["P_q"], "query"), project(X, w["P_k"]))
    return np.einsum("nhk,hkd->nd", weigh(causal(L), adapted(w["P_v"], "value")), w["P_o"])


@variant("n")
def universal(X, weights):
    w = {name.removeprefix("t.Block."): array for name, array in weights.items()}
    for t in range(3):
        X = X + sinusoidal(len(X), X.shape[1]) + sinusoidal(t + 2, X.shape[1])[t + 1]
        O = attend(*(project(X, w[p]) for p in ("P_q", "P_k", "P_v")))
        A = normed(X + np.einsum("nhk,hkd->nd", O, w["P_o"]), w, "layer_norm")
        X = normed(A + np.maximum(A @ w["W_in"], 0) @ w["W_out"], w, "layer_norm_1")
    return X


def different(random, counts, extents):
    return random.permutation(extents["n"])[: counts[0]]


@variant("n", draw={"chosen": different}, t=(4, 35, 256), stored="only what begins with an einsum")
def pointer_network(S, H, chosen, W_1, W_2, v):
    u = np.tanh((H @ W_1)[None] + (S @ W_2)[:, None]) @ v
    for t in range(len(S)):
        u[t, chosen[:t]] = -np.inf
    P = softmax(u, 1)
    return P, -np.log(P[np.arange(len(S)), chosen]).mean()


def squash(s):
    norm = np.linalg.norm(s, axis=-1, keepdims=True)
    return norm**2 / (1 + norm**2) * s / norm


@variant("b")
def capsules(U, W):
    H = np.einsum("bia,iajc->bijc", U, W)
    logits = np.zeros(H.shape[:3])
    for _ in range(3):
        V = squash(np.einsum("bij,bijc->bjc", softmax(logits, 2), H))
        logits = logits + np.einsum("bijc,bjc->bij", H, V)
    return squash(np.einsum("bij,bijc->bjc", softmax(logits, 2), H))


@variant("n", stored="its kernel would need that before it ends")
def sinkhorn(Q, K, V):
    A = np.exp(logits_of(Q, K))
    for _ in range(3):
        A = A / A.sum(0, keepdims=True)
        A = A / A.sum(1, keepdims=True)
    return np.einsum("nmh,mhk->nhk", A, V)


@variant("n", stored="only what begins with an einsum")
def vector_attention(X, at, P_q, P_k, P_v, T_1, T_2, G_1, G_2):
    def network(x, first, second):
        return np.maximum(x @ first, 0) @ second

    delta = network(at[:, None] - at[None], T_1, T_2)
    S = network((X @ P_q)[:, None] - (X @ P_k)[None] + delta, G_1, G_2)
    return (softmax(S / np.sqrt(X.shape[1]), 1) * ((X @ P_v)[None] + delta)).sum(1)


@variant("n m")
def deformable(X, V_in, W_off, W_a, P_v, P_o):
    V = project(V_in, P_v)
    spot = np.arange(len(X))[:, None, None] + 3 * np.tanh(np.einsum("nd,dhp->nhp", X, W_off))
    spot = np.clip(spot, 0, len(V) - 1)
    low = np.floor(spot).astype(int)
    share = (spot - low)[..., None]
    head = np.arange(V.shape[1])[None, :, None]
    right = V[np.minimum(low + 1, len(V) - 1), head]
    A = softmax(np.einsum("nd,dhp->nhp", X, W_a), 2)
    O = np.einsum("nhp,nhpk->nhk", A, V[low, head] * (1 - share) + right * share)
    return np.einsum("nhk,hkd->nd", O, P_o)


@variant("t j")
def bidaf(C, Q, w_c, w_q, w_m):
    S = (C @ w_c)[:, None] + Q @ w_q + (C * w_m) @ Q.T
    U = softmax(S, 1) @ Q
    h = softmax(S.max(1), 0) @ C
    return np.concatenate([C, U, C * U, C * h], 1)


@variant("m", draw={"at": lambda random, counts, extents: extents["m"] // 2})
def decode_step(x, keys, values, at, P_q, P_k, P_v, P_o):
    K, V = keys.copy(), values.copy()
    q, K[at], V[at] = (np.einsum("d,dhk->hk", x, P) for P in (P_q, P_k, P_v))
    W = softmax(np.einsum("hk,mhk->mh", q, K[: at + 1]) / np.sqrt(q.shape[1]), 0)
    return np.einsum("mh,mhk,hkd->d", W, V[: at + 1], P_o), K, V


def shifted(X, by):
    """X moved by so many positions to later ones, zeros moving in."""
    at = np.arange(len(X)) - by
    inside = (at >= 0) & (at < len(X))
    return np.where(inside.reshape(-1, *[1] * (X.ndim - 1)), X[np.clip(at, 0, len(X) - 1)], 0)


@variant("n", taps=(2, 5))
def lightweight_conv(X, w):
    s = softmax(w, 0)
    return sum(s[t][:, None] * shifted(X, t) for t in range(len(w)))


@variant("n", taps=(2, 5))
def dynamic_conv(X, W):
    s = softmax(np.einsum("nhk,hktg->ntg", X, W), 1)
    return sum(s[:, t, :, None] * shifted(X, t) for t in range(W.shape[2]))


@variant("n", taps=(3, 5))
def conformer(X, weights):
    w = weights
    N = normed(X, w, "layer_norm")
    G = N @ w["W_a"] * sigmoid(N @ w["W_b"])
    C = sum(w["w"][t] * shifted(G, t - len(w["w"]) // 2) for t in range(len(w["w"])))
    C = C * w["scale"] + w["bias"]
    return X + C * sigmoid(C) @ w["W_o"]


@variant("n")
def turing_machine(M, key, beta, g, s, gamma, before):
    content = softmax(softplus(beta) * (unit(M) @ unit(key)), 0)
    gated = sigmoid(g) * content + (1 - sigmoid(g)) * before
    moved = sum(p * np.roll(gated, i - 1) for i, p in enumerate(softmax(s, 0)))
    sharp = np.abs(moved) ** (1 + softplus(gamma))
    w = sharp / sharp.sum()
    return w, w @ M


@variant(b=(3, 33, 64), stored="another value depends on it")
def clip_loss(I, T, W_i, W_t, t):
    L = np.exp(t) * unit(I @ W_i) @ unit(T @ W_t).T
    rows, columns = (np.log(np.diag(softmax(L, axis))) for axis in (0, 1))
    return -(rows + columns).sum() / (2 * len(I))


@variant("s i")
def row_attention(A, Z, weights):
    w = weights
    N = normed(A, w, "layer_norm")
    bias = normed(Z, w, "layer_norm_1") @ w["P_b"]
    rows = [[project(row, w[p]) for p in ("P_q", "P_k", "P_v")] for row in N]
    O = np.stack([attend(*row, bias=bias) for row in rows])
    G = sigmoid(np.einsum("sic,chk->sihk", N, w["P_g"]))
    return A + np.einsum("sihk,hkc->sic", G * O, w["P_o"])


@variant("n")
def ngpt(X, weights):
    X = unit(X)
    for i in ("i.0", "i.1"):
        w = {p.removeprefix(i + "."): a for p, a in weights.items()}
        Q, K = (unit(rotate(project(X, w[f"Attend.{p}"]))) * w["Attend.s"] for p in ("P_q", "P_k"))
        L = causal(np.sqrt(Q.shape[-1]) * np.einsum("nhk,mhk->nmh", Q, K))
        O = np.einsum("nhk,hkd->nd", weigh(L, project(X, w["Attend.P_v"])), w["Attend.P_o"])
        X = unit(X + w["a"] * (unit(O) - X))
        u = X @ w["FeedForward.W_u"] * w["FeedForward.s_u"]
        v = X @ w["FeedForward.W_v"] * w["FeedForward.s_v"] * np.sqrt(X.shape[1])
        F = u * v * sigmoid(v) @ w["FeedForward.W_o"]
        X = unit(X + w["b"] * (unit(F) - X))
    return X


@variant("b s w", v=(7, 30))
def memory_network(story, question, weights):
    u = weights["B"][question].sum(1)
    for i in range(3):
        A, C, H = (weights[f"i.{i}.Hop.{p}"] for p in "ACH")
        p = softmax(np.einsum("bd,bsd->bs", u, A[story].sum(2)), 1)
        u = u @ H + np.einsum("bs,bsd->bd", p, C[story].sum(2))
    return softmax(u @ weights["W"].T, 1)


@variant("s w")
def hierarchical(words, weights):
    def pool(H, path):
        U = np.tanh(H @ weights[f"{path}.W"] + weights[f"{path}.bias"])
        return softmax(U @ weights[f"{path}.query"], 0) @ H

    return pool(np.stack([pool(sentence, "words_") for sentence in words]), "sentences")


@variant("y x")
def squeeze_excite(X, W_1, W_2):
    return X * sigmoid(np.maximum(X.mean((0, 1)) @ W_1, 0) @ W_2)


@variant("n", stored=GATHERED)
def music(Q, K, V, E):
    n = len(Q)
    skewed = np.zeros((n, n, Q.shape[1]))
    for i in range(n):
        for j in range(i + 1):
            skewed[i, j] = (Q[i] * E[n - 1 - (i - j)]).sum(-1)
    L = np.einsum("nhk,mhk->nmh", Q, K) + skewed
    return weigh(causal(L / np.sqrt(Q.shape[-1])), V)


@variant("y x")
def non_local(X, T, F, G, Z):
    flat = X.reshape(-1, X.shape[2])
    A = softmax(flat @ T @ (flat @ F).T, 1)
    return X + (A @ (flat @ G) @ Z).reshape(X.shape)
