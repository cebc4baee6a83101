# SPDX-License-Identifier: Apache-2.0
"""--memory-limit: more is computed again until the workspace fits; gradients stay what they are."""

import numpy as np
import pytest

from attc import attc, attc_json, write
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
PROGRAMS = {
    "layers": ATTENTION.replace("n = 40", "n = 48").replace("BLOCK", "Block(X, seed)"),
    "blocks": BLOCKS,
    "recurrent": RECURRENT.replace("layers = 2", "layers = 3"),
}
PLANS = [("layers", []), ("layers", ["--plan=unfused"]), ("layers", ["--target=x86-64-v3"]),
         ("blocks", []), ("blocks", ["--interpret"]), ("recurrent", [])]


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


def test_choices_are_told(tmp_path):
    arguments = source(tmp_path, "layers")
    free, least = cost(arguments), least_bytes(arguments)
    assert "choices" not in free and "memory_limit" not in free
    figures = cost(arguments, f"--memory-limit={least}")
    choices = figures["choices"]
    assert 2 <= len(choices) <= 12
    assert choices[0]["price"] == 0 and choices[-1]["price"] is None
    assert choices[0]["workspace_bytes"] == free["workspace_bytes"]
    taken, = (choice for choice in choices if choice["taken"])
    for name in ("workspace_bytes", "saved_bytes", "recomputed_flops"):
        assert taken[name] == figures[name]
    assert taken["predicted_seconds"] == pytest.approx(
        sum(kernel["predicted_seconds"] for kernel in figures["kernels"]), rel=1e-6)
    fits = [choice["workspace_bytes"] <= least for choice in choices]
    assert fits.index(True) == choices.index(taken)
    only, = cost(arguments, "--memory-limit=1G")["choices"]
    assert only["taken"] and only["stretches"] == 0


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
