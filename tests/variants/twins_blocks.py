# SPDX-License-Identifier: Apache-2.0
"""Twins of whole blocks and stacks."""

import math

import numpy as np

from registry import variant
from twins_heads import project, sigmoid
from twins_masks import attend, back, rotate, softmax

erf = np.vectorize(math.erf)


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def standardize(x):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def normed(x, w, path):
    return standardize(x) * w[f"{path}.gain"] + w[f"{path}.bias"]


def layer(X, M, w, path, seen=None):
    """Multi-head attention with the tensors of one call."""
    Q, K, V = (project(x, w[f"{path}.{p}"]) for x, p in ((X, "P_q"), (M, "P_k"), (M, "P_v")))
    return np.einsum("nhk,hkd->nd", attend(Q, K, V, seen), w[f"{path}.P_o"])


def feed_forward(X, w, path, act=gelu):
    return act(X @ w[f"{path}.W_in"]) @ w[f"{path}.W_out"]


@variant("n z")
def perceiver(X, weights):
    w = weights
    Z = w["latents"]
    Z = Z + layer(normed(Z, w, "norm"), normed(X, w, "layer_norm"), w, "read")
    for i in range(2):
        Z = Z + layer(*[normed(Z, w, f"i.{i}.layer_norm")] * 2, w, f"i.{i}.attend")
        Z = Z + feed_forward(normed(Z, w, f"i.{i}.layer_norm_1"), w, f"i.{i}.ffn")
    return Z


def rms(x, w, path):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[f"{path}.gain"]


@variant("n")
def attention_pooling(X, length, S, P_q, P_k, P_v, P_o):
    seen = np.broadcast_to(np.arange(len(X)) < length, (len(S), len(X)))
    O = attend(project(S, P_q), project(X, P_k), project(X, P_v), seen)
    return S + np.einsum("nhk,hkd->nd", O, P_o)


@variant("y x")
def axial(X, weights):
    X = X + np.stack([layer(row, row, weights, "rows") for row in X])
    columns = [layer(X[:, i], X[:, i], weights, "columns") for i in range(X.shape[1])]
    return X + np.stack(columns, 1)


def sinusoidal(n, d):
    at, pair = np.arange(n)[:, None], np.arange(d) // 2 * 2
    angle = at / 10000 ** (pair / d)
    return np.where(np.arange(d) % 2 == 0, np.sin(angle), np.cos(angle))


@variant("s t", v=(11, 50))
def encoder_decoder(source, target, weights):
    w = weights

    def embed(ids):
        X = w["E"][ids] * np.sqrt(w["E"].shape[1])
        return X + sinusoidal(*X.shape)

    def mlp(X, path):
        H = np.maximum(X @ w[f"{path}.W_in"] + w[f"{path}.b_in"], 0)
        return H @ w[f"{path}.W_out"] + w[f"{path}.b_out"]

    M, X = embed(source), embed(target)
    for i in ("i.0", "i.1"):
        M = normed(M + layer(M, M, w, f"{i}.Attend"), w, f"{i}.norm")
        M = normed(M + mlp(M, f"{i}.FeedForward"), w, f"{i}.norm_1")
    for i in ("i_1.0", "i_1.1"):
        X = normed(X + layer(X, X, w, f"{i}.SelfCausal", back(len(X)) >= 0), w, f"{i}.norm")
        X = normed(X + layer(X, M, w, f"{i}.Attend"), w, f"{i}.norm_1")
        X = normed(X + mlp(X, f"{i}.FeedForward"), w, f"{i}.norm_2")
    return X @ w["E"].T


@variant("n")
def latent_attention(X, weights):
    w, n = weights, len(X)
    C_q, C = rms(X @ w["D_q"], w, "q_norm"), rms(X @ w["D"], w, "kv_norm")
    Q = np.concatenate([project(C_q, w["U_q"]), rotate(project(C_q, w["R_q"]))], -1)
    shared = np.repeat(rotate(X @ w["R_k"])[:, None], Q.shape[1], 1)
    K = np.concatenate([project(C, w["U_k"]), shared], -1)
    O = attend(Q, K, project(C, w["U_v"]), back(n) >= 0)
    return np.einsum("nhv,hvd->nd", O, w["P_o"])


def multi_query(Q, K, V, P_o):
    """Causal, keys and values without heads."""
    K, V = (np.repeat(A[:, None], Q.shape[1], 1) for A in (K, V))
    return np.einsum("nhk,hkd->nd", attend(Q, K, V, back(len(Q)) >= 0), P_o)


@variant("n")
def shared_kv(X, weights):
    w = weights
    for i in range(2):
        N = rms(X, w, f"i.{i}.rms_norm")
        K, V = (N @ w[f"i.{i}.KeysValues.{p}"] for p in ("P_k", "P_v"))
        for call in ("own", "borrowed"):
            N = N if call == "own" else rms(X, w, f"i.{i}.rms_norm_1")
            Q = project(N, w[f"i.{i}.{call}.P_q"])
            X = X + multi_query(Q, K, V, w[f"i.{i}.{call}.P_o"])
    return X


@variant("n", f=(10, 96))
def parallel_block(X, weights):
    w = weights
    N = normed(X, w, "layer_norm")
    A = multi_query(rotate(project(N, w["P_q"])), rotate(N @ w["P_k"]), N @ w["P_v"], w["P_o"])
    gate = N @ w["W_gate"]
    return X + A + (N @ w["W_in"] * gate * sigmoid(gate)) @ w["W_out"]


@variant("n s", stored="its kernel would need that before it ends")
def slot_attention(X, S, weights):
    w = weights
    N = normed(X, w, "layer_norm")
    K, V = N @ w["P_k"], N @ w["P_v"]
    for _ in range(3):
        Q = normed(S, w, "i.layer_norm") @ w["P_q"]
        A = softmax(Q @ K.T / np.sqrt(X.shape[1]), 0) + 1e-8
        U = A / A.sum(1, keepdims=True) @ V
        gate = {g: (U @ w[f"i.GRU.W_{g}"], S @ w[f"i.GRU.R_{g}"]) for g in "rzn"}
        r, z = (sigmoid(sum(gate[g])) for g in "rz")
        S = (1 - z) * np.tanh(gate["n"][0] + r * gate["n"][1]) + z * S
    return S


@variant("n")
def tensor_product(X, A_q, B_q, A_k, B_k, A_v, B_v, P_o):
    def made(A, B, turn):
        A, B = np.einsum("nd,drh->nrh", X, A), np.einsum("nd,drk->nrk", X, B)
        return np.einsum("nrh,nrk->nhk", A, turn(B)) / A.shape[1]

    Q, K, V = made(A_q, B_q, rotate), made(A_k, B_k, rotate), made(A_v, B_v, lambda x: x)
    return np.einsum("nhk,hkd->nd", attend(Q, K, V, back(len(X)) >= 0), P_o)


@variant("n")
def value_residual(X, weights):
    w = weights
    first = project(rms(X, w, "rms_norm"), w["V_first"])
    for i in range(3):
        N = rms(X, w, f"i.{i}.Layer.rms_norm")
        p = {name: w[f"i.{i}.Layer.{name}"] for name in ("P_q", "P_k", "P_v", "P_o")}
        V = (project(N, p["P_v"]) + first) / 2
        O = attend(project(N, p["P_q"]), project(N, p["P_k"]), V, back(len(X)) >= 0)
        X = X + np.einsum("nhk,hkd->nd", O, p["P_o"])
    return X


@variant("i", stored="quadratic in i and j")
def triangle_attention(Z, weights):
    w = {name.split(".", 1)[1]: array for name, array in weights.items() if "Multiply" in name}
    N = normed(Z, w, "layer_norm")
    a, b = (sigmoid(N @ w[f"{p}_g"]) * (N @ w[p]) for p in "AB")
    T = normed(np.einsum("ilc,jlc->ijc", a, b), w, "layer_norm_1")
    Z = Z + sigmoid(N @ w["G"]) * (T @ w["O"])
    w = {name.split(".", 1)[1]: array for name, array in weights.items() if "Attend" in name}
    N = normed(Z, w, "layer_norm")
    Q, K, V = (np.einsum("ijc,chk->ijhk", N, w[p]) for p in ("P_q", "P_k", "P_v"))
    bias = N @ w["P_b"]
    O = np.stack([attend(Q[i], K[i], V[i], bias=bias) for i in range(len(Z))])
    G = sigmoid(np.einsum("ijc,chk->ijhk", N, w["P_g"]))
    return Z + np.einsum("ijhk,hkc->ijc", G * O, w["P_o"])


@variant("n z")
def luna(X, P, weights):
    packed = layer(P, X, weights, "pack")
    unpacked = layer(X, packed, weights, "unpack")
    return normed(X + unpacked, weights, "layer_norm"), normed(P + packed, weights, "layer_norm_1")
