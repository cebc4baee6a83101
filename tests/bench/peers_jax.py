# SPDX-License-Identifier: Apache-2.0
"""JAX: tasks as einsums under jax.jit. XLA has as many threads as the process may use cores."""

import jax
import jax.numpy as jnp

from peers import Timed


def jit(task):
    tensors = {name: jnp.asarray(array) for name, array in task.tensors.items()}
    function = lambda t: compute(task, t)
    if task.cotangent is not None:
        return differentiated(task, function, tensors)
    return dict(results=Timed(ready(jax.jit(lambda t: dict(result=function(t))), tensors)))


def ready(compiled, *arguments):
    return lambda: jax.block_until_ready(compiled(*arguments))


def differentiated(task, function, tensors):
    """Forward and backward as two programs, with what one saves between them, and both as one."""
    cotangent = jnp.asarray(task.cotangent)
    forward = jax.jit(lambda t: jax.vjp(function, t))
    backward = jax.jit(lambda pull, cotangent: gradients(pull, cotangent))

    def both(t, cotangent):
        result, pull = jax.vjp(function, t)
        return dict(result=result) | gradients(pull, cotangent)

    made = []

    def run_forward():
        made[:] = jax.block_until_ready(forward(tensors))
        return dict(result=made[0])

    return dict(
        forward=Timed(run_forward, made.clear),
        backward=Timed(lambda: ready(backward, made[1], cotangent)(), run_forward),
        both=Timed(ready(jax.jit(both), tensors, cotangent), made.clear),
    )


def gradients(pull, cotangent):
    (found,) = pull(cotangent)
    return {f"d{name}": gradient for name, gradient in found.items()}


def compute(task, t):
    if task.core == "projection":
        return t["X"] @ t["P"]
    if not task.is_layer:
        return core(task, t)
    h = task.heads
    split = lambda T, P: (t[T] @ t[P]).reshape(t[T].shape[0], h, -1)
    values = t | dict(Q=split("X", "P_q"), K=split("M", "P_k"), V=split("M", "P_v"))
    for source in "XM":
        for place in "lw":
            if f"P_{source}{place}" in t:
                values[f"R_{source}{place}"] = split(source, f"P_{source}{place}")
    return core(task, values).reshape(t["X"].shape[0], -1) @ t["P_o"]


def core(task, t):
    return multi_head(task, t) if task.core == "multi_head" else talking_heads(task, t)


def attend(task, L):
    if task.causal:
        n, m = L.shape[-2:]
        L = jnp.where(jnp.tril(jnp.ones((n, m), bool)), L, -jnp.inf)
    return jax.nn.softmax(L, axis=-1)


def multi_head(task, t):
    (n, h, d), g = t["Q"].shape, t["K"].shape[1]
    Q = t["Q"].reshape(n, g, h // g, d) * (d**-0.5 if task.scaled else 1.0)
    W = attend(task, jnp.einsum("ngqd,mgd->gqnm", Q, t["K"]))
    return jnp.einsum("gqnm,mge->ngqe", W, t["V"]).reshape(n, h, -1)


def talking_heads(task, t):
    J = jnp.einsum("nid,mid->inm", t["Q"], t["K"])
    W = attend(task, mixed(J, t["P_l"], t.get("R_Xl"), t.get("R_Ml")))
    U = mixed(W, t["P_w"], t.get("R_Xw"), t.get("R_Mw"))
    return jnp.einsum("jnm,mje->nje", U, t["V"])


def mixed(T, P, of_query, of_memory):
    if of_query is None:
        return jnp.einsum("inm,ij->jnm", T, P)
    by_query = jnp.einsum("inm,nij->jnm", T, P + of_query)
    return by_query + jnp.einsum("inm,mij->jnm", T, of_memory)
