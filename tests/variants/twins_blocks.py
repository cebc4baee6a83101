# SPDX-License-Identifier: Apache-2.0
"""Twins of whole blocks and stacks."""

import math

import numpy as np

from registry import variant
from twins_heads import project
from twins_masks import attend

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
