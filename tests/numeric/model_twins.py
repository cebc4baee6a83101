# SPDX-License-Identifier: Apache-2.0
"""NumPy twins of the models among the examples, in double precision.

MODELS maps the name of a file in examples/ to a function from the data of its entry (by argument
name) and its trained tensors (by their names in checkpoints) to the loss.
"""

import math

import numpy as np

from twins import layer_norm, sinusoids, softmax

MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


class Part:
    """The trained tensors of a call, by the rest of their names."""

    def __init__(self, tensors, prefix):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name):
        return self.tensors[f"{self.prefix}.{name}"]

    def get(self, name):
        return self.tensors.get(f"{self.prefix}.{name}", 0)

    def part(self, name):
        return Part(self.tensors, f"{self.prefix}.{name}")

    def layers(self, count=None):
        """Its rounds of `for layer in layers:`; of a shared loop `count` times the one there is."""
        if count:
            return [self.part("layer")] * count
        start = f"{self.prefix}.layer."
        names = [name for name in self.tensors if name.startswith(start)]
        rounds = {name[len(start) :].split(".")[0] for name in names}
        return [self.part(f"layer.{i}") for i in range(len(rounds))]


def norm(X, part):
    return layer_norm(X, part["gain"], part["bias"])


def rms_norm(X, part):
    return X / np.sqrt((X**2).mean(axis=-1, keepdims=True) + 1e-6) * part["gain"]


def gelu(X):
    return 0.5 * X * (1 + np.vectorize(math.erf)(X / math.sqrt(2)))


def gelu_tanh(X):
    return 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))


def relu(X):
    return np.maximum(X, 0)


def attend(X, M, part, seen=None, bias=0, scaled=True):
    """X[b,p,d], M[b,q,d]; seen[b,p,q] or what broadcasts to it, bias[p,q,h]. With P_l and P_w heads
    talk."""
    Q, K, V = (
        np.einsum("bnd,dhk->bnhk", T, part["P_" + c]) + part.get("b_" + c)
        for T, c in ((X, "q"), (M, "k"), (M, "v"))
    )
    L = np.einsum("bphk,bqhk->bpqh", Q, K) / (math.sqrt(Q.shape[-1]) if scaled else 1)
    talking = np.ndim(part.get("P_l")) == 2
    L = (L @ part["P_l"] if talking else L) + bias
    if seen is not None:
        L = np.where(seen[..., None], L, -np.inf)
    W = softmax(L, 2)
    W = W @ part["P_w"] if talking else W
    return np.einsum("bpqh,bqhk,hkd->bpd", W, V, part["P_o"]) + part.get("b_o")


def feed(X, part, act):
    return act(X @ part["W_in"] + part.get("b_in")) @ part["W_out"] + part.get("b_out")


def log_softmax(X):
    X = X - X.max(axis=-1, keepdims=True)
    return X - np.log(np.exp(X).sum(axis=-1, keepdims=True))


def loss(logits, labels, smoothing=0.0):
    """The mean over labels that are not negative."""
    asked = labels >= 0
    logp = log_softmax(logits)
    right = np.take_along_axis(logp, np.maximum(labels, 0)[..., None], -1)[..., 0]
    nats = -(1 - smoothing) * right - smoothing * logp.mean(axis=-1)
    return np.where(asked, nats, 0).sum() / max(asked.sum(), 1)


def embed(E, ids):
    """-1 is nothing."""
    return np.where(ids[..., None] >= 0, E[ids], 0)


def upto(n):
    return np.tri(n, dtype=bool)


@model
def lm(data, tensors):
    p = Part(tensors, "Logits")
    X = tensors["E"][data["tokens"]] + tensors["position"]
    for layer in p.layers():
        A = norm(X, layer.part("norm"))
        X = X + attend(A, A, layer.part("attend"), upto(A.shape[1]))
        X = X + feed(norm(X, layer.part("norm_1")), layer.part("feed"), gelu)
    return loss(norm(X, p.part("norm")) @ tensors["E"].T, data["labels"])


MODELS["fixed_heads_lm"] = lm


def post_norm_encoder(X, layers, act, seen=None):
    for layer in layers:
        X = norm(X + attend(X, X, layer.part("attend"), seen), layer.part("norm"))
        X = norm(X + feed(X, layer.part("feed"), act), layer.part("norm_1"))
    return X


@model
def bert(data, tensors):
    p = Part(tensors, "Logits")
    X = norm(tensors["E"][data["masked"]] + tensors["position"], p.part("embed"))
    X = post_norm_encoder(X, p.layers(), gelu)
    Y = norm(gelu(X @ p["W"] + p["b_d"]), p.part("head"))
    return loss(Y @ tensors["E"].T + p["b_v"], data["labels"])


@model
def albert(data, tensors):
    p = Part(tensors, "Logits")
    X = norm(tensors["E"][data["masked"]] + tensors["position"], p.part("embed"))
    X = post_norm_encoder(X @ p["widen"] + p["b_d"], p.layers(2), gelu_tanh)
    Y = norm(gelu_tanh(X @ p["W"] + p["b_e"]), p.part("head"))
    return loss(Y @ tensors["E"].T + p["b_v"], data["labels"])


def buckets(distance, near, count):
    """T5's: up to `near` exactly, then logarithmically up to 128; the last is count - 1."""
    share = np.log(np.maximum(distance, 1) / near) / math.log(128 / near)
    far = near + np.floor(share * (count - near))
    return np.where(distance < near, distance, np.minimum(far, count - 1)).astype(int)


@model
def t5(data, tensors):
    encoder, decoder = (Part(tensors, f"Logits.{side}") for side in ("encoder", "decoder"))
    X, Y = (embed(tensors["E"], data[name]) for name in ("source", "target"))
    there = data["source"][:, None, :] >= 0
    n, m = np.arange(X.shape[1]), np.arange(Y.shape[1])
    ahead, behind = n[None, :] - n[:, None], m[:, None] - m[None, :]
    both_ways = buckets(np.abs(ahead), 8, 16) + np.where(ahead > 0, 16, 0)
    bias = tensors["encoder_bias"][both_ways]
    for layer in encoder.layers():
        A = rms_norm(X, layer.part("rms_norm"))
        X = X + attend(A, A, layer.part("attend"), there, bias, scaled=False)
        X = X + feed(rms_norm(X, layer.part("rms_norm_1")), layer.part("feed"), relu)
    M = rms_norm(X, encoder.part("rms_norm"))
    bias = tensors["decoder_bias"][buckets(np.maximum(behind, 0), 16, 32)]
    for layer in decoder.layers():
        A = rms_norm(Y, layer.part("rms_norm"))
        Y = Y + attend(A, A, layer.part("attend"), upto(len(m)), bias, scaled=False)
        C = rms_norm(Y, layer.part("rms_norm_1"))
        Y = Y + attend(C, M, layer.part("cross"), there, scaled=False)
        Y = Y + feed(rms_norm(Y, layer.part("rms_norm_2")), layer.part("feed"), relu)
    Y = rms_norm(Y, decoder.part("rms_norm"))
    return loss(Y @ tensors["E"].T / math.sqrt(Y.shape[-1]), data["labels"])


@model
def transformer(data, tensors):
    """Without dropout: `seed` is negative."""
    encoder, decoder = (Part(tensors, f"Logits.{side}") for side in ("encoder", "decoder"))
    d = tensors["E"].shape[1]
    X, Y = (
        embed(tensors["E"], ids) * math.sqrt(d) + sinusoids(ids.shape[1], d)
        for ids in (data["source"], data["target"])
    )
    there = data["source"][:, None, :] >= 0
    X = post_norm_encoder(X, encoder.layers(), relu, there)
    for layer in decoder.layers():
        Y = norm(Y + attend(Y, Y, layer.part("attend"), upto(Y.shape[1])), layer.part("norm"))
        Y = norm(Y + attend(Y, X, layer.part("cross"), there), layer.part("norm_1"))
        Y = norm(Y + feed(Y, layer.part("feed"), relu), layer.part("norm_2"))
    return loss(Y @ tensors["E"].T, data["labels"], 0.1)
