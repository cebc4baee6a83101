# SPDX-License-Identifier: Apache-2.0
"""PyTorch: eager, torch.compile, scaled_dot_product_attention, FlexAttention, and talking heads
folded into scaled_dot_product_attention with wide heads.

Each function takes a task and gives what there is to time (see peers.py), or None when that way
cannot express it.
"""

import functools
import warnings

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from peers import Timed

torch.set_grad_enabled(False)
warnings.filterwarnings("ignore", module="torch")


def bound(task, compute, compile_it=False):
    """compute over the task's tensors. With a compiler a task is one program with known extents."""
    torch.set_num_threads(task.threads)
    tensors = {name: torch.from_numpy(array) for name, array in task.tensors.items()}
    if task.is_layer:
        compute = functools.partial(layer, compute, task.heads)
    if compile_it:
        torch._dynamo.reset()
        compute = torch.compile(compute, dynamic=False)
    if task.cotangent is not None:
        return differentiated(task, compute, tensors)
    return dict(results=Timed(lambda: dict(result=compute(tensors))))


def differentiated(task, compute, tensors):
    """Forward, backward and both by autograd, which drops what it has saved as it goes back."""
    cotangent = torch.from_numpy(task.cotangent)
    leaves = [tensor.requires_grad_() for tensor in tensors.values()]
    made = []

    def forward():
        with torch.enable_grad():
            made.append(compute(tensors))
        return dict(result=made[-1].detach())

    def backward():
        gradients = torch.autograd.grad(made.pop(), leaves, cotangent)
        return {f"d{name}": gradient for name, gradient in zip(tensors, gradients)}

    def begin_backward():
        made.clear()
        forward()

    return dict(
        forward=Timed(forward, made.clear),
        backward=Timed(backward, begin_backward),
        both=Timed(lambda: forward() | backward(), made.clear),
    )


def layer(core, h, t):
    n, m = t["X"].shape[0], t["M"].shape[0]
    values = dict(t)
    values["Q"] = (t["X"] @ t["P_q"]).view(n, h, -1)
    values["K"] = (t["M"] @ t["P_k"]).view(m, h, -1)
    values["V"] = (t["M"] @ t["P_v"]).view(m, h, -1)
    for source in ("X", "M"):
        for place in ("l", "w"):
            if f"P_{source}{place}" in t:
                mixing = t[source] @ t[f"P_{source}{place}"]
                values[f"R_{source}{place}"] = mixing.view(-1, h, h)
    return core(values).reshape(n, -1) @ t["P_o"]


def heads_first(t):
    return (t[name].transpose(0, 1) for name in ("Q", "K", "V"))


def scale_of(task, t):
    return t["Q"].shape[-1] ** -0.5 if task.scaled else 1.0


# ---- eager, also what torch.compile compiles -----------------------------------------------------
def eager_function(task):
    if task.core == "projection":
        return lambda t: t["X"] @ t["P"]
    mask = None
    if task.causal:
        n = task.tensors["Q"].shape[0]
        mask = torch.ones(n, n, dtype=torch.bool).tril().logical_not()
    core = eager_multi_head if task.core == "multi_head" else eager_talking_heads
    return lambda t: core(task, mask, t)


def attend(logits, mask):
    return torch.softmax(logits if mask is None else logits.masked_fill(mask, -torch.inf), dim=-1)


def eager_multi_head(task, mask, t):
    Q, K, V = heads_first(t)
    h, n, d = Q.shape
    g, m, _ = K.shape
    rows = (Q * scale_of(task, t)).reshape(g, h // g * n, d)
    W = attend((rows @ K.transpose(1, 2)).view(h, n, m), mask)
    return (W.view(g, h // g * n, m) @ V).view(h, n, -1).transpose(0, 1)


def eager_talking_heads(task, mask, t):
    Q, K, V = heads_first(t)
    J = Q @ K.transpose(1, 2)
    W = attend(mixed(J, t["P_l"], t.get("R_Xl"), t.get("R_Ml")), mask)
    U = mixed(W, t["P_w"], t.get("R_Xw"), t.get("R_Mw"))
    return (U @ V).transpose(0, 1)


def mixed(T, P, of_query, of_memory):
    """T[i, n, m] with its heads mixed by P[i, j] or by matrices of every position."""
    i, n, m = T.shape
    if of_query is None:
        return (P.T @ T.reshape(i, n * m)).view(-1, n, m)
    by_query = torch.einsum("inm,nij->jnm", T, P + of_query)
    return by_query + torch.einsum("inm,mij->jnm", T, of_memory)


def eager(task):
    return bound(task, eager_function(task))


def compiled(task):
    if task.core == "projection":
        return None
    return bound(task, eager_function(task), compile_it=True)


# ---- fused attention -----------------------------------------------------------------------------
def sdpa(task):
    if task.core != "multi_head":
        return None

    def compute(t):
        Q, K, V = (T[None] for T in heads_first(t))
        shared, scale = Q.shape[1] != K.shape[1], scale_of(task, t)
        O = scaled_dot_product_attention(
            Q, K, V, is_causal=task.causal, scale=scale, enable_gqa=shared
        )
        return O[0].transpose(0, 1)

    return bound(task, compute)


def flex(task):
    if task.core != "multi_head":
        return None
    mask = None
    if task.causal:
        n = task.tensors["Q"].shape[0]
        sees = lambda b, h, query, memory: query >= memory
        mask = create_block_mask(sees, None, None, n, n, device="cpu")

    torch._dynamo.reset()
    attention = torch.compile(flex_attention, dynamic=False)

    def compute(t):
        Q, K, V = (T[None] for T in heads_first(t))
        shared = Q.shape[1] != K.shape[1]
        O = attention(Q, K, V, block_mask=mask, scale=scale_of(task, t), enable_gqa=shared)
        return O[0].transpose(0, 1)

    return bound(task, compute)


def fold(task):
    """L[n, m, h] = (Q[n, i, d] P_l[i, h]) . K[m, i, d] is a dot product over (i, d), and mixing the
    weights commutes with the sum over m: h heads of h_k*d wide, whose keys are all the same."""
    if task.core != "talking_heads" or task.is_dynamic:
        return None

    def compute(t):
        Q, K, V, P_l, P_w = (t[name] for name in ("Q", "K", "V", "P_l", "P_w"))
        n, m = Q.shape[0], K.shape[0]
        (h, h_v), e = P_w.shape, V.shape[2]
        wide = (P_l.T[:, None, :, None] * Q[None]).reshape(1, h, n, -1)
        keys = K.reshape(1, 1, m, -1).expand(1, h, m, -1)
        values = V.reshape(1, 1, m, -1).expand(1, h, m, -1)
        O = scaled_dot_product_attention(wide, keys, values, is_causal=task.causal, scale=1.0)
        return torch.einsum("hnje,hj->nje", O.reshape(h, n, h_v, e), P_w)

    return bound(task, compute)
