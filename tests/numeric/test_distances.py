# SPDX-License-Identifier: Apache-2.0
"""Biases that are learned for each distance of two positions, or at other computed positions, and
their gradients: no logits, and no gradients of logits, are stored."""

import numpy as np
import pytest

from attc import attc, attc_json

HEAD = "dim h = 3, k = 8, buckets = 11, offsets = 600\n"
BODY = """
    return einsum(softmax(L, reduced_dim=m), V -> [n, h, k])
"""
ARGUMENTS = "Q[n, h, k], K[m, h, k], V[m, h, k]"
# What is added to the logits, and the table.
BIASES = {
    "clamped": ("gather(B, min(max(index(m) - index(n), -5), 5) + 5, dim=buckets)",
                "B[buckets, h]"),
    "outside": ("where(index(m) < index(n), 0,"
                " gather(B, min(index(m) - index(n), 10), dim=buckets))", "B[buckets, h]"),
    "logarithmic": ("gather(B, i32(min(2 * log(1 + abs(index(m) - index(n))), 10)), dim=buckets)",
                    "B[buckets, h]"),
    "floats": ("gather(B, i32(min(abs(f32(index(n)) - f32(index(m))) / 4, 10)), dim=buckets)",
               "B[buckets, h]"),
    "moved": ("gather(B, index(m) - index(n) + n - 1, dim=offsets)", "B[offsets, h]"),
    "turned": ("gather(B, index(n) - index(m) + m - 1, dim=offsets)", "B[offsets, h]"),
    "without_heads": ("gather(B, min(abs(index(n) - index(m)), 10), dim=buckets)", "B[buckets]"),
    "mixed": ("gather(B, (3 * index(n) + index(m)) % buckets, dim=buckets)", "B[buckets, h]"),
    "sum_of_positions": ("gather(B, min(index(n) + index(m), 10), dim=buckets)", "B[buckets, h]"),
}
MASKS = {"all": "S", "causal": "causal(S)"}


def program(bias, mask):
    added, table = BIASES[bias]
    return (
        f"{HEAD}def Biased({ARGUMENTS}, param {table}):\n"
        f"    bias = {added}\n"
        f"    S[n, m, h] = einsum(Q, K) / sqrt(k) + bias\n"
        f"    L = {MASKS[mask]}{BODY}"
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "biased.attn"


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bias", BIASES)
def test_gradients_equal_the_oracle(bias, mask, path):
    path.write_text(program(bias, mask))
    for extents in (["-D", "n=150,m=150"], ["-D", "n=37,m=90", "--dynamic", "n,m"]):
        attc("verify", path, "--grad", "--no-materialize", "--verify-passes", *extents)


@pytest.mark.parametrize(
    "option",
    ["--plan=resident", "--plan=two-pass:24:64", "--plan=spill:24:64", "--plan=unfused",
     "--interpret", "--target=x86-64-v3"],
)
@pytest.mark.parametrize("bias", ["clamped", "moved", "mixed"])
def test_every_plan(bias, option, path):
    path.write_text(program(bias, "causal"))
    attc("verify", path, "--grad", "-D", "n=50,m=170", option)


@pytest.mark.parametrize("bias", ["clamped", "mixed"])
def test_bits_are_the_same_for_any_number_of_threads(bias, path, tmp_path):
    """Several parts of the rows, and tasks for each."""
    path.write_text(program(bias, "all"))
    n, results = 600, ["dQ", "dK", "dV", "dB"]
    random = np.random.default_rng(7)
    np.save(tmp_path / "dY.npy", random.standard_normal((n, 3, 8)).astype(np.float32))
    runs = []
    for threads in (1, 2, 3):
        files = [tmp_path / f"{name}{threads}.npy" for name in results]
        outputs = [f"--output={name}={file}" for name, file in zip(results, files)]
        attc("run", path, "--grad", "-D", f"n={n},m={n}", "--seed", 3, "--threads", threads,
             f"dresult={tmp_path / 'dY.npy'}", *outputs)
        runs.append([file.read_bytes() for file in files])
    assert runs[0] == runs[1] == runs[2]


def test_nothing_is_stored_for_a_table_of_any_size(path):
    """Distances are summed in vectors whatever the table has for them."""
    path.write_text(program("moved", "all"))
    cost = attc_json("cost", path, "--grad", "-D", "n=512,m=512,offsets=65536")
    assert all(not {"n", "m"} <= set(buffer["dims"]) for buffer in cost["buffers"])


def test_a_large_table_at_other_positions_is_stored_for(path):
    """Asking for each position of it would take longer than storing what is added up."""
    path.write_text(program("mixed", "all"))
    options = ["cost", path, "--grad", "-D", "n=512,m=512"]

    def stored(*more):
        buffers = attc_json(*options, *more)["buffers"]
        return any({"n", "m"} <= set(buffer["dims"]) for buffer in buffers)

    assert not stored()
    assert stored("-D", "buckets=4096")
    assert not stored("-D", "buckets=4096", "--no-materialize")


def test_both_parts_of_a_library_recompute_the_bias(path):
    path.write_text(program("logarithmic", "all"))
    cost = attc_json("cost", path, "--grad", "-D", "n=512,m=512")
    assert all(not {"n", "m"} <= set(tensor["dims"]) for tensor in cost["saved"])
