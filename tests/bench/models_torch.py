# SPDX-License-Identifier: Apache-2.0
"""PyTorch twins of models among the examples, over the tensors of a checkpoint by their names.

Each function takes a batch by the names of the entry's data and gives the loss.
"""

import math

import torch
import torch.nn.functional as F

TWINS = {}


def twin(function):
    TWINS[function.__name__] = function
    return function


class Part:
    """The tensors of a call, by the rest of their names."""

    def __init__(self, tensors, prefix):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name):
        return self.tensors[f"{self.prefix}.{name}"]

    def get(self, name):
        return self.tensors.get(f"{self.prefix}.{name}")

    def part(self, name):
        return Part(self.tensors, f"{self.prefix}.{name}")

    def layers(self):
        start = f"{self.prefix}.layer."
        names = [name for name in self.tensors if name.startswith(start)]
        count = len({name[len(start) :].split(".")[0] for name in names})
        return [self.part(f"layer.{i}") for i in range(count)]


def norm(X, part):
    return F.layer_norm(X, X.shape[-1:], part["gain"], part["bias"])


def rms_norm(X, part):
    return X * torch.rsqrt((X * X).mean(-1, keepdim=True) + 1e-6) * part["gain"]


def project(X, part, name):
    """X[b, n, d] by P[d, h, k]: [b, h, n, k]."""
    P, bias = part["P_" + name], part.get("b_" + name)
    Y = X @ P.flatten(1)
    Y = Y if bias is None else Y + bias.flatten()
    return Y.unflatten(-1, P.shape[1:]).transpose(1, 2)


def mixed(T, P):
    """Heads of T[b, i, n, m] mixed by P[i, j]."""
    b, i, n, m = T.shape
    return (P.T @ T.reshape(b, i, n * m)).view(b, -1, n, m)


def attend(X, M, part, causal=False, bias=None, scaled=True):
    Q, K, V = project(X, part, "q"), project(M, part, "k"), project(M, part, "v")
    scale = Q.shape[-1] ** -0.5 if scaled else 1.0
    if part.get("P_l") is None:
        O = F.scaled_dot_product_attention(
            Q, K, V, attn_mask=bias, is_causal=causal and bias is None, scale=scale
        )
    else:
        L = mixed((Q * scale) @ K.transpose(2, 3), part["P_l"])
        L = L if bias is None else L + bias
        if causal and bias is None:
            after = torch.ones(L.shape[2:], dtype=torch.bool).triu(1)
            L = L.masked_fill(after, -torch.inf)
        O = mixed(torch.softmax(L, -1), part["P_w"]) @ V
    Y = O.transpose(1, 2).flatten(2) @ part["P_o"].flatten(0, 1)
    return Y if part.get("b_o") is None else Y + part["b_o"]


def feed(X, part, act):
    H, Y = X @ part["W_in"], part["W_out"]
    if part.get("b_in") is None:
        return act(H) @ Y
    return act(H + part["b_in"]) @ Y + part["b_out"]


def mean_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)


@twin
def lm(data, tensors):
    p = Part(tensors, "Logits")
    X = F.embedding(data["tokens"], tensors["E"]) + tensors["position"]
    for layer in p.layers():
        A = norm(X, layer.part("norm"))
        X = X + attend(A, A, layer.part("attend"), causal=True)
        X = X + feed(norm(X, layer.part("norm_1")), layer.part("feed"), F.gelu)
    return mean_loss(norm(X, p.part("norm")) @ tensors["E"].T, data["labels"])


@twin
def bert(data, tensors):
    p = Part(tensors, "Logits")
    X = norm(F.embedding(data["masked"], tensors["E"]) + tensors["position"], p.part("embed"))
    for layer in p.layers():
        X = norm(X + attend(X, X, layer.part("attend")), layer.part("norm"))
        X = norm(X + feed(X, layer.part("feed"), F.gelu), layer.part("norm_1"))
    Y = norm(F.gelu(X @ p["W"] + p["b_d"]), p.part("head"))
    return mean_loss(Y @ tensors["E"].T + p["b_v"], data["labels"])


def buckets(distance, near, count):
    """T5's: up to `near` exactly, then logarithmically up to 128; the last is count - 1."""
    share = (distance.clamp(min=1) / near).log() / math.log(128 / near)
    far = (near + (share * (count - near)).floor()).clamp(max=count - 1)
    return torch.where(distance < near, distance, far.long())


def bias_of(table, bucket):
    return F.embedding(bucket, table).permute(2, 0, 1)


@twin
def t5(data, tensors):
    """Of spans that leave nothing empty in the source."""
    encoder, decoder = (Part(tensors, f"Logits.{side}") for side in ("encoder", "decoder"))
    X, Y = (F.embedding(data[name].clamp(min=0), tensors["E"]) for name in ("source", "target"))
    n, m = torch.arange(X.shape[1]), torch.arange(Y.shape[1])
    ahead, behind = n[None, :] - n[:, None], m[:, None] - m[None, :]
    bias = bias_of(tensors["encoder_bias"], buckets(ahead.abs(), 8, 16) + 16 * (ahead > 0))
    for layer in encoder.layers():
        A = rms_norm(X, layer.part("rms_norm"))
        X = X + attend(A, A, layer.part("attend"), bias=bias, scaled=False)
        X = X + feed(rms_norm(X, layer.part("rms_norm_1")), layer.part("feed"), F.relu)
    M = rms_norm(X, encoder.part("rms_norm"))
    bias = bias_of(tensors["decoder_bias"], buckets(behind.clamp(min=0), 16, 32))
    bias = bias.masked_fill(behind < 0, -torch.inf)
    for layer in decoder.layers():
        A = rms_norm(Y, layer.part("rms_norm"))
        Y = Y + attend(A, A, layer.part("attend"), bias=bias, scaled=False)
        C = rms_norm(Y, layer.part("rms_norm_1"))
        Y = Y + attend(C, M, layer.part("cross"), scaled=False)
        Y = Y + feed(rms_norm(Y, layer.part("rms_norm_2")), layer.part("feed"), F.relu)
    Y = rms_norm(Y, decoder.part("rms_norm"))
    return mean_loss(Y @ tensors["E"].T / math.sqrt(Y.shape[-1]), data["labels"])
