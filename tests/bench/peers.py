# SPDX-License-Identifier: Apache-2.0
"""The peers by name, and the form in which they get a case's inputs.

Every family of cases comes down to one of two cores, so that a peer writes each only once:

    multi_head      Q[n, h, d] K[m, g, d] V[m, g, e]; h/g heads share a key (bilinear: g is 1)
    talking_heads   the same with P_l, P_w and, for dynamic projections, R_Xl R_Ml R_Xw R_Mw

Layers first project X and M. Peers get the weights in the order that their products like best,
before the clock runs: P_q, P_k, P_v as [d, h*k] and P_o as [h*k, d].

A maker gives what there is to time, by part (see cases.py): of results a function that returns
them as {"result": array}; of gradients also functions that return {"dQ": array, ...}.
"""

import importlib
from dataclasses import dataclass
from typing import Callable

import numpy as np

QUADRATIC = 4  # values over queries, memory and heads that a peer which stores them has at a time


@dataclass
class Timed:
    run: Callable
    before: Callable = lambda: None  # of every run, outside of the clock


class Peer:
    """A way to compute cases: its name and the function that makes it for a task."""

    def __init__(self, name, maker, stores=False, folds=False, differentiates=True):
        self.name, self.maker = name, maker
        self.stores, self.folds, self.differentiates = stores, folds, differentiates

    def make(self, task):
        """Timed by part, or None when this way cannot express the task."""
        if task.cotangent is not None and not self.differentiates:
            return None
        module, function = self.maker.split(".")
        return getattr(importlib.import_module(module), function)(task)

    def flops(self, case, part="results"):
        return case.work(part) * (case.fold_flops / case.flops if self.folds else 1)

    def bytes(self, case, part="results"):
        values = QUADRATIC if part == "results" else 2 * QUADRATIC
        return values * 4 * case.pairs if self.stores else 0


# Modules are loaded when they are used: the process that only reports needs none of them.
PEERS = [
    Peer("eager", "peers_torch.eager", stores=True),
    Peer("compile", "peers_torch.compiled", stores=True),
    Peer("sdpa", "peers_torch.sdpa"),
    Peer("flex", "peers_torch.flex", differentiates=False),
    Peer("fold", "peers_torch.fold", folds=True),
    Peer("jax", "peers_jax.jit", stores=True),
    Peer("numpy", "peers.numpy_product", differentiates=False),
]


def numpy_product(task):
    if task.core != "projection":
        return None
    return dict(results=Timed(lambda: dict(result=task.tensors["X"] @ task.tensors["P"])))


class Task:
    """A case as peers see it. cotangent: of the result, None where no gradients are asked for."""

    def __init__(self, case, inputs, threads, cotangent=None):
        self.cotangent = cotangent
        self.causal, self.threads = case.causal, threads
        family = case.family.removeprefix("decode_").removesuffix("_layer")
        self.is_layer = case.family.endswith("_layer")
        talks = family in ("talking_heads", "dynamic_projections")
        self.core = "talking_heads" if talks else "multi_head"
        if family == "projection":
            self.core = family
        self.is_dynamic = family == "dynamic_projections"
        self.scaled = not talks and not self.is_layer  # logits are divided by the root of d
        self.heads = case.extents.get("h")
        self.tensors = arrange(case.family, inputs)


def arrange(family, inputs):
    """Inputs of a case as the tensors of its core or layer; views where that will do."""
    t = dict(inputs)
    if family.startswith("decode"):
        t["Q"] = t["Q"][None]
    elif family == "bilinear":
        t["K"] = t["V"] = t.pop("M")[:, None]
    elif family == "grouped":
        n, g, q, d = t["Q"].shape
        t["Q"] = t["Q"].reshape(n, g * q, d)
    elif family.endswith("_layer"):
        d = t["X"].shape[1]
        for name in ("P_q", "P_k", "P_v"):
            t[name] = np.ascontiguousarray(t[name].transpose(0, 2, 1).reshape(d, -1))
        t["P_o"] = np.ascontiguousarray(t["P_o"].transpose(2, 1, 0).reshape(-1, d))
        for name in {"P_Xl", "P_Ml", "P_Xw", "P_Mw"} & set(t):
            t[name] = t[name].reshape(d, -1)
    return t
