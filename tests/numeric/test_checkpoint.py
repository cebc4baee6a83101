# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: of a block only what it reads is kept for gradients, which stay what they are."""

import numpy as np
import pytest

from attc import attc, attc_json, write

ATTENTION = """dim layers = 3, n = 40, d = 32, h = 4, k = 8, f = 96
dim m like n
def Norm(X[n, d]):
    c[n, d] = X[n, d] - mean(X[n, d], reduced_dim=d)
    return c[n, d] * rsqrt(mean(c[n, d] * c[n, d], reduced_dim=d) + 1e-5)
def Block(X[n, d], seed[]: i64):
    param P_q[d, h, k] ~ glorot, P_k[d, h, k] ~ glorot, P_v[d, h, k] ~ glorot, P_o[h, k, d] ~ glorot
    param W[d, f] ~ glorot, V[f, d] ~ glorot
    N[n, d] = Norm(X)
    Q[n, h, k] = einsum(N[n, d], P_q)
    K[m, h, k] = einsum(N[m, d], P_k)
    U[m, h, k] = einsum(N[m, d], P_v)
    L[n, m, h] = einsum(Q, K) * k ** -0.5
    A[n, m, h] = softmax(where(index(m) <= index(n), L, -inf), reduced_dim=m)
    O[n, h, k] = einsum(A, U)
    Y[n, d] = X + einsum(O, P_o)
    B[n, d] = Norm(Y)
    H[n, f] = gelu(einsum(B, W))
    return Y + dropout(einsum(H, V -> [n, d]), rate=0.1, seed=seed)
def Main(X[n, d], seed[]: i64):
    for layer in layers:
        X = BLOCK
    return X
"""
# Sums of whole numbers are exact in any order.
EXACT = """dim n = 24, d = 16, f = 40, layers = 4
def Main(X[n, d], W[layers, d, f], V[layers, f, d]):
    for layer in layers:
        H[n, f] = relu(einsum(X[n, d], W[layer, d, f] -> [n, f]))
        X[n, d] = einsum(H[n, f], V[layer, f, d] -> [n, d]) % 5 - 2
    return X[n, d]
"""
RECURRENT = """dim n = 12, d = 16, e = 8, layers = 2
def Block(X[n, d]):
    param W[d, e] ~ glorot, V[e, d] ~ glorot
    s[d] = zeros[d]
    scan t in n:
        h[e] = tanh(einsum(s[d], W[d, e]))
        s = tanh(einsum(h[e], V[e, d]) + X[t, d])
        Y[t, d] = s * X[t, d]
    return X[n, d] + Y[n, d]
def Main(X[n, d]):
    for layer in layers:
        X = Block(X)
    return X[n, d]
"""
WAYS = {
    "option": ("Block(X, seed)", ["--checkpoint=layers"]),
    "expression": ("checkpoint(Block(X, seed))", []),
    "part": ("X + checkpoint(Block(Norm(X), seed) * 0.5)", []),
    "both": ("checkpoint(Block(X, seed))", ["--checkpoint=layers"]),
}
PLANS = [[], ["--plan=unfused"], ["--interpret"], ["--threads=3"], ["--target=x86-64-v3"]]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: "".join(plan)[2:] or "default")
@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_checkpoints_are_right(tmp_path, way, plan):
    block, options = WAYS[way]
    (tmp_path / "main.attn").write_text(ATTENTION.replace("BLOCK", block))
    given = write({"seed": np.array(7)}, tmp_path)
    attc("verify", tmp_path / "main.attn", "-w", "--grad", *given, *options, *plan)


def test_bits_of_checkpoints_are_the_same(tmp_path):
    source = EXACT.replace("return X[n, d]", "Y[n, d] = X\n    return Y[n, d]")
    random = np.random.default_rng(3)
    sizes = {"X": (24, 16), "W": (4, 16, 40), "V": (4, 40, 16), "dY": (24, 16)}
    given = {name: random.integers(-1, 2, shape).astype("f4") for name, shape in sizes.items()}
    results = ["Y", "dX", "dW", "dV"]
    outs = [option for name in results for option in ("-o", f"{name}={tmp_path / name}_out.npy")]
    runs = []
    for options in ([], ["--checkpoint=layers"]):
        attc("run", "-", "--grad", *write(given, tmp_path), *outs, *options, stdin=source)
        runs.append([np.load(tmp_path / f"{name}_out.npy") for name in results])
    for kept, again in zip(*runs):
        assert np.any(kept) and kept.tobytes() == again.tobytes()


def figures(folder, *options, block="Block(X, seed)"):
    (folder / "main.attn").write_text(ATTENTION.replace("BLOCK", block))
    return attc_json("cost", folder / "main.attn", "-w", "--grad", "-D", "layers=6,n=64", *options)


def test_only_what_blocks_read_is_saved(tmp_path):
    kept, again = figures(tmp_path), figures(tmp_path, "--checkpoint=layers")
    sizes = [buffer["bytes"] for buffer in again["saved"]]
    assert sizes == [4 * 64 * 32] * 5  # the first block reads the argument
    assert again["peak_bytes"] < kept["peak_bytes"] and again["saved_bytes"] < kept["saved_bytes"]
    block = kept["flops"] / 6 / 3  # about a third is the forward pass
    assert kept["recomputed_flops"] + 3 * block < again["recomputed_flops"]
    expression = figures(tmp_path, block="checkpoint(Block(X, seed))")
    assert expression["saved_bytes"] == again["saved_bytes"]


def test_weights_of_attention_are_computed_again_anyway(tmp_path):
    kept = figures(tmp_path)
    logits = 2 * 64 * 64 * 4 * 8
    assert kept["recomputed_flops"] >= 5 * logits  # the last layer's may be made with its gradient
    assert not any({"n", "m"} <= set(buffer["dims"]) for buffer in kept["saved"])


def distinct_kernels(folder, layers):
    options = ["--grad", "--checkpoint=layers", "-D", f"layers={layers}"]
    out, _ = attc("emit", "--stage=tile", folder / "main.attn", "-w", *options)
    return sum(line.startswith("kernel ") for line in out.splitlines())


def test_blocks_that_are_alike_have_the_same_kernels(tmp_path):
    # Without dropout, which has another stream in each of them.
    source = ATTENTION.replace("BLOCK", "Block(X, seed)").replace("rate=0.1, seed=seed", "rate=0")
    (tmp_path / "main.attn").write_text(source)
    assert distinct_kernels(tmp_path, 8) == distinct_kernels(tmp_path, 4)


def test_what_scans_leave_is_kept(tmp_path):
    (tmp_path / "main.attn").write_text(RECURRENT)
    attc("verify", tmp_path / "main.attn", "-w", "--grad", "--checkpoint=layers")
