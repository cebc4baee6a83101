# SPDX-License-Identifier: Apache-2.0
"""NumPy twins of the examples, written directly from the formulas, in double precision.

TWINS maps the name of a file in examples/ to a function from a dict of input arrays (by argument
name) to a dict of results (by result name). Shapes are in the subscripts: the letters follow the
dims of the example, e for d_X, f for d_M, y for d_Y, k for d_k, v for d_v, i j l for h_k h h_v.
"""

import math

import numpy as np

TWINS = {}


def twin(*names):
    def register(function):
        for name in names:
            TWINS[name] = function
        return function

    return register


def softmax(logits, axis):
    """A row of -inf only gives zeros."""
    top = logits.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(logits - top)
    total = weights.sum(axis=axis, keepdims=True)
    return np.where(total == 0, 0.0, weights / np.where(total == 0, 1.0, total))


def positions(array):
    """Column of query positions and row of memory positions of self-attention over array's first
    axis."""
    n = np.arange(array.shape[0])
    return n[:, None], n[None, :]


@twin("dot_product")
def dot_product(X, M):
    W = softmax(np.einsum("nd,md->nm", X, M), 1)
    return {"Y": np.einsum("nm,md->nd", W, M)}


@twin("dot_product_projections")
def dot_product_projections(X, M, P_q, P_k, P_v, P_o):
    logits = np.einsum("nk,mk->nm", X @ P_q, M @ P_k)
    return {"Y": softmax(logits, 1) @ (M @ P_v) @ P_o.T}


def project(X, P):
    return np.einsum("ne,ekh->nkh", X, P)


def attend(Q, K, V, P_o, scale=1.0, mask=None, bias=None):
    """Q[n,k,h] K[m,k,h] V[m,v,h] P_o[y,v,h] -> Y[n,y]; mask and bias broadcast to [n,m,h]."""
    logits = np.einsum("nkh,mkh->nmh", Q, K) * scale
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = np.where(mask[..., None] if mask.ndim == 2 else mask, logits, -np.inf)
    return np.einsum("nmh,mvh,yvh->ny", softmax(logits, 1), V, P_o)


@twin("multi_head", "multi_head_concise", "bilinear_multi_head")
def multi_head(X, M, P_q, P_k, P_v, P_o):
    return {"Y": attend(project(X, P_q), project(M, P_k), project(M, P_v), P_o)}


@twin("multi_head_scaled")
def multi_head_scaled(X, M, P_q, P_k, P_v, P_o):
    scale = P_q.shape[1] ** -0.5
    return {"Y": attend(project(X, P_q), project(M, P_k), project(M, P_v), P_o, scale)}


@twin("fixed_head_size")
def fixed_head_size(X, M, P_q, P_k, P_v, P_o):
    return {"result": multi_head_scaled(X, M, P_q, P_k, P_v, P_o)["Y"]}


def talking(X, M, P_q, P_k, P_v, P_o, premix, postmix):
    """premix[n,m,i,j] and postmix[n,m,j,l]: the mixing matrices at every pair of positions."""
    J = np.einsum("nki,mki->nmi", project(X, P_q), project(M, P_k))
    W = softmax(np.einsum("nmi,nmij->nmj", J, premix), 1)
    U = np.einsum("nmj,nmjl->nml", W, postmix)
    return {"Y": np.einsum("nml,mvl,yvl->ny", U, project(M, P_v), P_o)}


def everywhere(X, M, P):
    """A static mixing matrix at every pair of positions."""
    return np.broadcast_to(P, (X.shape[0], M.shape[0]) + P.shape)


@twin("talking_heads", "talking_heads_concise", "bilinear_talking_heads")
def talking_heads(X, M, P_q, P_k, P_v, P_o, P_l, P_w):
    return talking(X, M, P_q, P_k, P_v, P_o, everywhere(X, M, P_l), everywhere(X, M, P_w))


@twin("talking_heads_logits")
def talking_heads_logits(X, M, P_q, P_k, P_v, P_o, P_l):
    identity = everywhere(X, M, np.eye(P_v.shape[2]))
    return talking(X, M, P_q, P_k, P_v, P_o, everywhere(X, M, P_l), identity)


@twin("talking_heads_weights")
def talking_heads_weights(X, M, P_q, P_k, P_v, P_o, P_w):
    identity = everywhere(X, M, np.eye(P_q.shape[2]))
    return talking(X, M, P_q, P_k, P_v, P_o, identity, everywhere(X, M, P_w))


@twin("general_bilinear")
def general_bilinear(X, M, P, Q):
    W = softmax(np.einsum("ne,mf,efh->nmh", X, M, P, optimize=True), 1)
    return {"Y": np.einsum("nmh,mf,fyh->ny", W, M, Q, optimize=True)}


def generated(tensor, P, axis):
    """Mixing matrices generated from queries (axis 0) or from memory (axis 1), to be broadcast."""
    return np.expand_dims(np.einsum("ne,eij->nij", tensor, P), 1 - axis)


@twin("dynamic_projections")
def dynamic_projections(X, M, P_q, P_k, P_v, P_o, P_l, P_Xl, P_Ml, P_w, P_Xw, P_Mw):
    premix = P_l + generated(X, P_Xl, 0) + generated(M, P_Ml, 1)
    postmix = P_w + generated(X, P_Xw, 0) + generated(M, P_Mw, 1)
    return talking(X, M, P_q, P_k, P_v, P_o, premix, postmix)


@twin("dynamic_logits_query")
def dynamic_logits_query(X, M, P_q, P_k, P_v, P_o, P_l, P_w, P_Xl):
    premix = everywhere(X, M, P_l) + generated(X, P_Xl, 0)
    return talking(X, M, P_q, P_k, P_v, P_o, premix, everywhere(X, M, P_w))


@twin("dynamic_logits_memory")
def dynamic_logits_memory(X, M, P_q, P_k, P_v, P_o, P_l, P_w, P_Ml):
    premix = everywhere(X, M, P_l) + generated(M, P_Ml, 1)
    return talking(X, M, P_q, P_k, P_v, P_o, premix, everywhere(X, M, P_w))


@twin("dynamic_weights_query")
def dynamic_weights_query(X, M, P_q, P_k, P_v, P_o, P_l, P_w, P_Xw):
    postmix = everywhere(X, M, P_w) + generated(X, P_Xw, 0)
    return talking(X, M, P_q, P_k, P_v, P_o, everywhere(X, M, P_l), postmix)


@twin("dynamic_weights_memory")
def dynamic_weights_memory(X, M, P_q, P_k, P_v, P_o, P_l, P_w, P_Mw):
    postmix = everywhere(X, M, P_w) + generated(M, P_Mw, 1)
    return talking(X, M, P_q, P_k, P_v, P_o, everywhere(X, M, P_l), postmix)


@twin("shared_query_key")
def shared_query_key(X, M, P_qk, P_v, P_o):
    return multi_head_scaled(X, M, P_qk, P_qk, P_v, P_o)


@twin("tied_heads")
def tied_heads(X, M, P_q, P_k, mixing, P_v, P_o):
    logits = np.einsum("nk,kh,mk->nmh", X @ P_q, mixing, M @ P_k) / np.sqrt(P_q.shape[1])
    return {"Y": np.einsum("nmh,mvh,yvh->ny", softmax(logits, 1), project(M, P_v), P_o)}


@twin("factorised_output")
def factorised_output(X, M, P_q, P_k, P_v, A_o, B_o):
    P_o = np.einsum("vhr,ry->yvh", A_o, B_o)
    return multi_head_scaled(X, M, P_q, P_k, P_v, P_o)


@twin("no_output_projection")
def no_output_projection(X, M, P_q, P_k, P_v):
    scale = P_q.shape[1] ** -0.5
    W = softmax(np.einsum("nkh,mkh->nmh", project(X, P_q), project(M, P_k)) * scale, 1)
    return {"O": np.einsum("nmh,mvh->nhv", W, project(M, P_v))}


@twin("one_query")
def one_query(x, M, P_q, P_k, P_v, P_o):
    return {"y": multi_head_scaled(x[None], M, P_q, P_k, P_v, P_o)["Y"][0]}


@twin("grouped_key_value")
def grouped_key_value(X, M, P_q, P_k, P_v, P_o):
    d, k, g, q = P_q.shape
    repeat = lambda P: np.repeat(P, q, axis=2)
    flat = lambda P: P.reshape(d, -1, g * q)
    return multi_head_scaled(X, M, flat(P_q), repeat(P_k), repeat(P_v), flat(P_o))


@twin("fused_qkv")
def fused_qkv(X, W_qkv, b_qkv, W_o, b_o):
    n, d = X.shape
    T = (X @ W_qkv).reshape(n, *b_qkv.shape) + b_qkv
    Q, K, V = np.moveaxis(T, 1, 0)
    logits = np.einsum("nhk,mhk->nmh", Q, K) / math.sqrt(K.shape[-1])
    mask = np.tri(n, dtype=bool)[:, :, None]
    W = softmax(np.where(mask, logits, -np.inf), 1)
    return {"Y": np.einsum("nmh,mhk->nhk", W, V).reshape(n, d) @ W_o + b_o}


@twin("multi_query")
def multi_query(X, M, P_q, P_k, P_v, P_o):
    h = P_q.shape[2]
    repeat = lambda P: np.repeat(P[:, :, None], h, axis=2)
    return multi_head_scaled(X, M, P_q, repeat(P_k), repeat(P_v), P_o)


def self_attention(X, P_q, P_k, P_v, P_o, mask=None, bias=None):
    scale = P_q.shape[1] ** -0.5
    return {"Y": attend(project(X, P_q), project(X, P_k), project(X, P_v), P_o, scale, mask, bias)}


@twin("causal")
def causal(X, P_q, P_k, P_v, P_o):
    n, m = positions(X)
    return self_attention(X, P_q, P_k, P_v, P_o, m <= n)


@twin("window")
def window(X, P_q, P_k, P_v, P_o):
    n, m = positions(X)
    return self_attention(X, P_q, P_k, P_v, P_o, (m <= n) & (n - m < 128))


@twin("prefix")
def prefix_attention(X, prefix, P_q, P_k, P_v, P_o):
    n, m = positions(X)
    return self_attention(X, P_q, P_k, P_v, P_o, (m <= n) | (m < prefix))


@twin("padding")
def padding(X, length, P_q, P_k, P_v, P_o):
    n, m = positions(X)
    return self_attention(X, P_q, P_k, P_v, P_o, (m < length) & (n >= 0))


@twin("document")
def document(X, doc, P_q, P_k, P_v, P_o):
    return self_attention(X, P_q, P_k, P_v, P_o, doc[:, None] == doc[None, :])


@twin("alibi")
def alibi(X, P_q, P_k, P_v, P_o):
    n, m = positions(X)
    h = P_q.shape[2]
    slope = 2.0 ** (-8.0 * (np.arange(h) + 1) / h)
    return self_attention(X, P_q, P_k, P_v, P_o, m <= n, -slope * (n - m)[..., None])


@twin("relative_bias")
def relative_bias(X, P_q, P_k, P_v, P_o, bias):
    n, m = positions(X)
    half = bias.shape[0] / 2
    exact = half / 2
    size = np.abs(m - n)
    with np.errstate(divide="ignore"):
        far = exact + np.floor(
            np.log(np.maximum(size, 1) / exact) / np.log(128 / exact) * (half - exact)
        )
    bucket = np.where(size < exact, size, np.minimum(far, half - 1)) + np.where(m - n > 0, half, 0)
    logit_bias = bias[bucket.astype(int)]
    return {"Y": attend(project(X, P_q), project(X, P_k), project(X, P_v), P_o, bias=logit_bias)}


@twin("rotary")
def rotary(X, P_q, P_k, P_v, P_o):
    half = P_q.shape[1] // 2
    angle = np.arange(X.shape[0])[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, :, None], np.sin(angle)[:, :, None]

    def rotate(T):
        A, B = T[:, :half], T[:, half:]
        return np.concatenate([A * cos - B * sin, A * sin + B * cos], axis=1)

    n, m = positions(X)
    scale = P_q.shape[1] ** -0.5
    return {
        "Y": attend(
            rotate(project(X, P_q)), rotate(project(X, P_k)), project(X, P_v), P_o, scale, m <= n
        )
    }


@twin("head_mask")
def head_mask(X, M, xi, P_q, P_k, P_v, P_o):
    return multi_head_scaled(X, M, P_q, P_k, P_v, P_o * xi)


@twin("cross_attention")
def cross_attention(X, M, P_q, P_k, P_v, P_o):
    each = [multi_head_scaled(x, memory, P_q, P_k, P_v, P_o)["Y"] for x, memory in zip(X, M)]
    return {"Y": X + np.stack(each)}


def layer_norm(X, gain, bias):
    centred = X - X.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias


def sinusoids(n, d):
    """Positions n over channels d: sines at even channels, cosines at odd ones."""
    channel = np.arange(d)
    angle = np.arange(n)[:, None] * 10000.0 ** (-2.0 * (channel // 2) / d)
    return np.where(channel % 2 == 0, np.sin(angle), np.cos(angle))


@twin("encoder_block")
def encoder_block(
    tokens, E, P_q, P_k, P_l, P_v, P_o, P_w, W_in, b_in, W_out, b_out, gain_1, bias_1, gain_2,
    bias_2
):
    X = E[tokens] + sinusoids(tokens.shape[1], E.shape[1])
    A = layer_norm(X, gain_1, bias_1)
    Q, K, V = (np.einsum("bnd,dki->bnki", A, P) for P in (P_q, P_k, P_v))
    J = np.einsum("bnki,bmki->bnmi", Q, K) / math.sqrt(P_q.shape[1])
    W = softmax(np.einsum("bnmi,ij->bnmj", J, P_l), 2)
    O = np.einsum("bnmj,jl,bmvl->bnvl", W, P_w, V)
    Y = X + np.einsum("bnvl,dvl->bnd", O, P_o)
    H = layer_norm(Y, gain_2, bias_2) @ W_in + b_in
    H = 0.5 * H * (1 + np.vectorize(math.erf)(H / math.sqrt(2)))
    return {"Z": Y + H @ W_out + b_out, "W": W.transpose(0, 1, 3, 2)}


def largest(array, count, axis):
    """The positions of the largest along an axis, of equal ones the first."""
    order = np.argsort(-array, axis=axis, kind="stable")
    return np.take(order, range(count), axis)


@twin("topk_attention")
def topk_attention(X, M, P_q, P_k, P_v, P_o):
    L = np.einsum("nkh,mkh->nmh", project(X, P_q), project(M, P_k)) * P_q.shape[1] ** -0.5
    at = largest(L, 8, 1)
    W = softmax(np.take_along_axis(L, at, 1), 1)
    V = project(M, P_v)[at, :, np.arange(P_v.shape[2])]
    return {"result": np.einsum("nth,nthv,yvh->ny", W, V, P_o)}


@twin("mixture_of_experts")
def mixture_of_experts(X, P_r, W_in, W_out):
    R = X @ P_r
    expert = largest(R, 2, 1)
    S = softmax(np.take_along_axis(R, expert, 1), 1)
    Y = np.zeros_like(X)
    for n, x in enumerate(X):
        for i, e in enumerate(expert[n]):
            Y[n] += S[n, i] * np.maximum(x @ W_in[e], 0) @ W_out[e]
    return {"Y": Y}


@twin("expert_choice")
def expert_choice(X, P_r, W_in, W_out):
    R = softmax(X @ P_r, 1)
    Y = X.copy()
    for e, chosen in enumerate(largest(R, 4, 0).T):
        for n in chosen:
            Y[n] += R[n, e] * np.maximum(X[n] @ W_in[e], 0) @ W_out[e]
    return {"result": Y}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@twin("deltanet")
def deltanet(X, P_q, P_k, P_v, P_o, W_b):
    Q, K, V = project(X, P_q), project(X, P_k), project(X, P_v)
    K = K / np.sqrt((K**2).sum(axis=1, keepdims=True) + 1e-12)
    beta = sigmoid(X @ W_b)
    S, O = np.zeros((P_q.shape[2], P_q.shape[1], P_v.shape[1])), np.empty_like(V)
    for t in range(len(X)):
        new = V[t] - np.einsum("kh,hkv->vh", K[t], S)
        S = S + np.einsum("h,kh,vh->hkv", beta[t], K[t], new)
        O[t] = np.einsum("kh,hkv->vh", Q[t], S)
    return {"Y": np.einsum("nvh,dvh->nd", O, P_o)}


@twin("gated_linear")
def gated_linear(X, P_q, P_k, P_v, P_o, A, B):
    Q, K, V = project(X, P_q) / math.sqrt(P_q.shape[1]), project(X, P_k), project(X, P_v)
    g = sigmoid(np.einsum("nr,rkh->nkh", X @ A, B)) ** (1 / 16)
    S, O = np.zeros((P_q.shape[2], P_q.shape[1], P_v.shape[1])), np.empty_like(V)
    for t in range(len(X)):
        S = S * g[t].T[:, :, None] + np.einsum("kh,vh->hkv", K[t], V[t])
        O[t] = np.einsum("kh,hkv->vh", Q[t], S)
    return {"Y": np.einsum("nvh,dvh->nd", O, P_o)}
