# SPDX-License-Identifier: Apache-2.0
"""--memory-limit: more is computed again until the workspace fits; gradients stay what they are."""

import numpy as np
import pytest

from attc import ROOT, attc, attc_json, write
from layers import ATTENTION, EXACT, RECURRENT

# No loop, and encoder results that all decoder blocks read.
BLOCKS = """dim n = 40, s = 24, d = 24, f = 72
def Part(X[n, d]):
    param W[d, f] ~ glorot, V[f, d] ~ glorot
    return X + einsum(tanh(einsum(X[n, d], W[d, f] -> [n, f])), V[f, d] -> [n, d])
def Cross(X[n, d], M[s, d]):
    param P[d, f] ~ glorot, R[d, f] ~ glorot
    A[n, s] = softmax(einsum(X[n, d], P[d, f], M[s, d], R[d, f]) * d ** -0.5, reduced_dim=s)
    return X + einsum(A, M[s, d] -> [n, d])
def Main(X[n, d], M[s, d]):
    E[s, d] = Part(Part(M))
    Y[n, d] = Part(Cross(Part(Cross(Part(Cross(X, E)), E)), E))
    return Y[n, d]
"""
# What the end of the forward pass is made of crosses no seam: checkpoints of the rounds take least.
TANH = """dim n = 64, d = 16, f = 48, layers = 3
def Main(X[n, d], param W[layers, d, f], param V[layers, f, d]):
    for layer in layers:
        H[n, f] = tanh(einsum(X[n, d], W[layer, d, f] -> [n, f]))
        G[n, f] = tanh(H * 2)
        X[n, d] = tanh(einsum(H * G, V[layer, f, d] -> [n, d]))
    return sum(X * X, reduced_dim=(n, d))
"""
# The gradients of a stretch take so much that seams between all layers are better than fewer.
GATED = """dim b = 64, n = 256, d = 64, f = 128, v = 512, layers = 12
def Main(X[b, n, d], param W[layers, d, f], param G[layers, d, f], param V[layers, f, d],
         param E[d, v], label[b, n]: i32):
    for layer in layers:
        N[b, n, d] = X * rsqrt(mean(X * X, reduced_dim=d) + 1e-5)
        A[b, n, f] = einsum(N[b, n, d], W[layer, d, f] -> [b, n, f])
        C[b, n, f] = einsum(N[b, n, d], G[layer, d, f] -> [b, n, f])
        X[b, n, d] = X + einsum(silu(A) * C, V[layer, f, d] -> [b, n, d])
    L[b, n, v] = einsum(X[b, n, d], E[d, v] -> [b, n, v])
    return mean(cross_entropy(L, label), reduced_dim=(b, n))
"""
NESTED = """dim n = 256, d = 32, f = 128, stages = 3, layers = 4
def Main(X[n, d], param E[d, f], param W[stages, layers, d, f], param V[stages, layers, f, d]):
    B[n, f] = tanh(einsum(X[n, d], E[d, f] -> [n, f]))
    for stage in stages:
        for layer in layers:
            H[n, f] = tanh(einsum(X[n, d], W[stage, layer, d, f] -> [n, f])) * B
            X[n, d] = tanh(einsum(H, V[stage, layer, f, d] -> [n, d]))
        X[n, d] = X - mean(X, reduced_dim=n)
    return sum(X * X, reduced_dim=(n, d))
"""
PROGRAMS = {
    "layers": ATTENTION.replace("n = 40", "n = 48").replace("BLOCK", "Block(X, seed)"),
    "blocks": BLOCKS,
    "recurrent": RECURRENT.replace("layers = 2", "layers = 3"),
    "tanh": TANH,
    "gated": GATED,
    "nested": NESTED,
}
PLANS = [("layers", []), ("layers", ["--plan=unfused"]), ("layers", ["--target=x86-64-v3"]),
         ("blocks", []), ("blocks", ["--interpret"]), ("recurrent", []), ("tanh", [])]


def source(folder, name):
    path = folder / f"{name}.attn"
    path.write_text(PROGRAMS[name])
    return [path, "-w", "--grad"]


def cost(arguments, *options):
    return attc_json("cost", *arguments, *options)


def least_bytes(arguments, *options):
    """What a limit that nothing fits says: the smallest workspace found."""
    _, err = attc("cost", *arguments, *options, "--memory-limit=1", status=1)
    assert "the workspace takes more, the least found is " in err
    return int(err.split("(")[1].split(" bytes")[0])


@pytest.mark.parametrize("name,options", PLANS)
def test_gradients_in_the_least_memory_are_right(tmp_path, name, options):
    arguments = source(tmp_path, name)
    planned = [o for o in options if o.startswith(("--plan", "--target"))]
    seed = write({"seed": np.array(7)}, tmp_path) if name == "layers" else []
    least = least_bytes(arguments, *planned)
    attc("verify", *arguments, *seed, *options, f"--memory-limit={least}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_less_memory_is_taken_the_smaller_the_limit(tmp_path, name):
    arguments = source(tmp_path, name)
    free, least = cost(arguments)["workspace_bytes"], least_bytes(arguments)
    assert least <= free
    before = free
    for part in range(1, 3):
        limit = free + (least - free) * part // 2
        figures = cost(arguments, f"--memory-limit={limit}")
        assert figures["memory_limit"] == limit
        assert figures["workspace_bytes"] <= min(limit, before)
        before = figures["workspace_bytes"]


def test_much_memory_is_saved_in_layers(tmp_path):
    arguments = [*source(tmp_path, "layers"), "-D", "layers=6,n=128,d=64,f=256"]
    free, blocks = cost(arguments), cost(arguments, "--checkpoint=layers")
    least = cost(arguments, f"--memory-limit={least_bytes(arguments)}")
    assert least["workspace_bytes"] < 0.55 * free["workspace_bytes"]
    assert least["workspace_bytes"] <= 1.02 * blocks["workspace_bytes"]
    assert least["recomputed_flops"] <= 1.02 * blocks["recomputed_flops"]
    half = cost(arguments, f"--memory-limit={2 * free['workspace_bytes'] // 3}")
    assert free["recomputed_flops"] < half["recomputed_flops"] < least["recomputed_flops"]


@pytest.mark.parametrize("name,loops", [("tanh", ["layers"]), ("gated", ["layers"]),
                                        ("nested", ["stages", "layers"])])
def test_no_checkpoint_of_a_loop_takes_less(tmp_path, name, loops):
    arguments = source(tmp_path, name)
    least = least_bytes(arguments)
    for loop in loops:
        assert least <= cost(arguments, f"--checkpoint={loop}")["workspace_bytes"]
    assert cost(arguments, f"--memory-limit={least}")["workspace_bytes"] == least


def test_rounds_that_are_checkpoints_are_told(tmp_path):
    arguments = source(tmp_path, "tanh")
    figures = cost(arguments, f"--memory-limit={least_bytes(arguments)}")
    taken, = (choice for choice in figures["choices"] if choice["taken"])
    assert (taken["rounds"], taken["stretches"]) == (1, 0)
    assert all(c["rounds"] == 0 for c in figures["choices"] if c is not taken)
    blocks = cost(arguments, "--checkpoint=layers")
    for name in ("workspace_bytes", "saved_bytes", "recomputed_flops"):
        assert figures[name] == blocks[name]


def test_choices_are_told(tmp_path):
    arguments = source(tmp_path, "layers")
    free, least = cost(arguments), least_bytes(arguments)
    assert "choices" not in free and "memory_limit" not in free
    figures = cost(arguments, f"--memory-limit={least}")
    choices = figures["choices"]
    assert 2 <= len(choices) <= 40 and not choices[0]["copies_each"]
    assert all(0 <= c["stretches"] <= c["stretches_in_all"] for c in choices)
    assert choices[0]["price"] == 0 and any(c["price"] is None for c in choices)
    assert choices[0]["workspace_bytes"] == free["workspace_bytes"]
    taken, = (choice for choice in choices if choice["taken"])
    for name in ("workspace_bytes", "saved_bytes", "recomputed_flops"):
        assert taken[name] == figures[name]
    assert taken["predicted_seconds"] == pytest.approx(
        sum(kernel["predicted_seconds"] for kernel in figures["kernels"]), rel=1e-6)
    fits = [choice["workspace_bytes"] <= least for choice in choices]
    assert fits.index(True) == choices.index(taken)
    assert cost(arguments, "--memory-limit=1.5GiB")["memory_limit"] == 3 << 29
    only, = cost(arguments, "--memory-limit=1G")["choices"]
    assert only["taken"] and only["stretches"] == 0


CORES = ROOT / "tests" / "bench" / "cores"


ALONE = [("multi_head", "n=67,m=81"), ("multi_head_causal", "n=40,m=40"),
         ("grouped", "n=33,m=70"), ("bilinear", "n=24,m=300,d=40")]
MIXED = [("talking_heads", "n=50,m=130"), ("talking_heads", "h_k=2,h=5,h_v=3,d=7,e=33,n=9,m=21"),
         ("dynamic_projections", "n=30,m=45")]


@pytest.mark.parametrize("name,sizes,plan", [
    *((*core, plan) for core in ALONE for plan in ([], ["--plan=stream:12:32"])),
    *((*core, plan) for core in MIXED for plan in ([], ["--plan=two-pass:8:64"])),
    *((*core, ["--plan=spill:12:32"]) for core in ALONE + MIXED)])
def test_tasks_make_their_own_copies(name, sizes, plan):
    """Keys and values are arguments: nothing has to be stored for a core of attention."""
    arguments = [CORES / f"{name}.attn", "-D", sizes, *plan]
    free = attc_json("cost", *arguments)
    assert free["workspace_bytes"] > 0 and free["program"]["copies"] == "size"
    none = attc_json("cost", *arguments, "--memory-limit=1")
    assert none["workspace_bytes"] == 0 and none["program"]["copies"] == "each"
    assert (free["program_from"], none["program_from"]) == ("predicted", "memory limit")
    assert len(none["kernels"]) == 1 and len(free["kernels"]) > 1
    attc("verify", *arguments, "--memory-limit=1", "--threads=2")


@pytest.mark.parametrize("name,limit", [("multi_head", "1"), ("grouped", "1"),
                                        ("talking_heads", "64K")])
def test_gradients_take_less_with_copies_of_tasks(name, limit):
    arguments = [CORES / f"{name}.attn", "-D", "n=45,m=70", "--grad", f"--memory-limit={limit}"]
    figures = attc_json("cost", *arguments)
    taken, = (choice for choice in figures["choices"] if choice["taken"])
    others = [c["workspace_bytes"] for c in figures["choices"] if not c["copies_each"]]
    assert taken["copies_each"] and figures["workspace_bytes"] < min(others) / 10
    attc("verify", *arguments)


def test_large_copies_are_not_stored():
    """The limit of 96 MiB is for what is known when it is compiled."""
    core = [CORES / "multi_head.attn", "-D", "n=64", "--threads=1"]
    small, large = (attc_json("cost", *core, "-D", f"m={m}") for m in (16384, 16385))
    assert (small["workspace_bytes"], large["workspace_bytes"]) == (96 << 20, 0)
    dynamic = attc_json("cost", *core, "-D", "m=16385", "--dynamic", "m=16385")
    assert dynamic["workspace_bytes"] >= 2 * 16385 * 12 * 64 * 4


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_of_a_thread_is_bounded(threads):
    """All that talking heads take beside arguments and results, at 16384 positions."""
    figures = attc_json("cost", CORES / "talking_heads.attn", "-D",
                        "n=16384,m=16384,h_k=16,h=16,h_v=16", f"--threads={threads}")
    scratch = threads * max(kernel["scratch_bytes"] for kernel in figures["kernels"])
    assert figures["workspace_bytes"] + scratch <= threads * (64 << 20)


def test_bits_are_the_same(tmp_path):
    random = np.random.default_rng(3)
    sizes = {"X": (24, 16), "W": (4, 16, 40), "V": (4, 40, 16), "dY": (24, 16)}
    given = {name: random.integers(-1, 2, shape).astype("f4") for name, shape in sizes.items()}
    results = ["Y", "dX", "dW", "dV"]
    outs = [option for name in results for option in ("-o", f"{name}={tmp_path / name}_out.npy")]
    (tmp_path / "exact.attn").write_text(EXACT)
    least = least_bytes([tmp_path / "exact.attn", "--grad"])
    runs = []
    for options in ([], [f"--memory-limit={least}"]):
        attc("run", tmp_path / "exact.attn", "--grad", *write(given, tmp_path), *outs, *options)
        runs.append([np.load(tmp_path / f"{name}_out.npy") for name in results])
    for kept, again in zip(*runs):
        assert np.any(kept) and kept.tobytes() == again.tobytes()


def test_a_forward_pass_is_judged_alone(tmp_path):
    (tmp_path / "exact.attn").write_text(EXACT)
    bytes_taken = cost([tmp_path / "exact.attn"])["workspace_bytes"]
    fine = cost([tmp_path / "exact.attn"], f"--memory-limit={bytes_taken}")
    assert fine["workspace_bytes"] == bytes_taken and "choices" not in fine
    _, err = attc("run", tmp_path / "exact.attn", f"--memory-limit={bytes_taken - 1}", status=1)
    assert f"the workspace takes {bytes_taken / 1024:.1f} KiB ({bytes_taken} bytes)\n" in err


def test_both_calls_of_bench_fit(tmp_path):
    arguments = source(tmp_path, "layers")
    limit = cost(arguments)["workspace_bytes"] * 4 // 5
    seed = write({"seed": np.array(7)}, tmp_path)
    figures = attc_json("bench", *arguments, *seed, f"--memory-limit={limit}")
    assert figures["workspace_bytes"] <= limit


def test_parts_that_bench_cannot_fit_are_told(tmp_path):
    """In two calls what the first one saves is held besides: one call may need less."""
    arguments = source(tmp_path, "layers")
    limit = f"--memory-limit={least_bytes(arguments)}"
    cost(arguments, limit)
    _, err = attc("bench", *arguments, limit, status=1)
    assert "the workspace of the forward and backward parts takes more, the least found is " in err
