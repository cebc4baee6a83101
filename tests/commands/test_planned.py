# SPDX-License-Identifier: Apache-2.0
"""What code is planned for: the extents of the arrays or of -D, dynamic ones as powers of two."""

import numpy as np
import pytest
from attc import EXAMPLES, MACHINES, attc, attc_json, write

ROWS = """dim d = 96, f = 80
def Rows(X[n, d], P[d, f]):
    return einsum(X[n, d], P[d, f] -> [n, f])
"""
HALVES = """dim d = 32, n = 2 * m
def Halves(X[n, d], A[n, m]):
    return einsum(X, A -> [m, d])
"""


def compiled(cache, rows, *options):
    """Runs ROWS on as many; the kernels that are kept afterwards."""
    arrays = {"X": np.ones((rows, 96), "f4"), "P": np.full((96, 80), 0.25, "f4")}
    out = cache / "y.npy"
    attc("run", "-", *write(arrays, cache), "-o", out, *options, "--cache", cache / "kept",
         stdin=ROWS)
    assert np.array_equal(np.load(out), np.full((rows, 80), 24, "f4"))
    return {path.name for path in (cache / "kept").iterdir()}


def test_near_lengths_have_the_same_kernels(tmp_path):
    first = compiled(tmp_path, 70)
    assert compiled(tmp_path, 128) == compiled(tmp_path, 65) == first
    assert compiled(tmp_path, 3, "--dynamic=n=100") == first
    assert compiled(tmp_path, 3) > first


def tile(*options, source=ROWS):
    return attc("emit", "-", "--stage=tile", "--target=x86-64-v4", *options, stdin=source)[0]


def test_code_is_planned_for_what_is_given(tmp_path):
    assert tile("--dynamic=n") == tile() == tile("-D", "n=512", "--dynamic=n")
    assert tile("-D", "n=3", "--dynamic=n") == tile("-D", "n=4", "--dynamic=n") != tile()
    assert tile("-D", "n=0", "--dynamic=n") == tile() == tile("--dynamic=n=300", "-D", "n=3")
    assert tile("--dynamic=n=3") == tile("-D", "n=3", "--dynamic=n")


def test_what_is_computed_follows():
    given = tile("-D", "m=3", "--dynamic=m", source=HALVES)
    assert given == tile("-D", "m=4", "--dynamic=m", source=HALVES) != tile(source=HALVES)


def test_cost_plans_for_the_extents_that_it_tells(tmp_path):
    loss = tmp_path / "loss.attn"
    loss.write_text("""dim d = 64
def Loss(X[t, d], param E[v, d], label[t]: i32):
    return mean(cross_entropy(einsum(X, E -> [t, v]), label), reduced_dim=t)
""")
    options = ["-D", "t=2048,v=30000", "--grad"]
    constant, dynamic = [
        attc_json("cost", loss, *options, *more)["workspace_bytes"]
        for more in ([], ["--dynamic=t,v"])
    ]
    assert dynamic < 1.2 * constant


MOST = 2**40  # positions of a dim


@pytest.mark.parametrize("example, extents", [
    ("multi_head", {"n": 64, "m": 64, "h": MOST, "d_v": MOST}),
    ("talking_heads", {"n": 64, "m": 64, "h": 10**8}),
    ("talking_heads", {"n": 64, "m": 64, "h_k": MOST}),
    ("talking_heads", dict.fromkeys(("n", "m", "h", "h_k", "h_v", "d_k", "d_v"), MOST)),
    ("dynamic_projections", {"n": 64, "m": 64, "h": MOST}),
    ("head_mask", {"n": MOST, "m": MOST, "h": 3 * 10**9, "d_k": MOST}),
])
def test_the_largest_extents_are_planned_for_in_a_moment(example, extents):
    """Products of them are counted up to what a number holds, and nothing takes as long as that."""
    dims = ",".join(f"{dim}={extent}" for dim, extent in extents.items())
    for command in (["cost"], ["cost", "--grad"], ["emit", "--stage=tile", "--grad"]):
        attc(*command, EXAMPLES / f"{example}.attn", "-D", dims, timeout=20)


def test_of_several_sizes_the_nearest_is_planned_for(tmp_path):
    for n, size in ((0, 1), (1, 1), (22, 1), (23, 512), (9999, 512)):
        assert tile("-D", f"n={n}", "--dynamic=n=1+512") == tile(f"--dynamic=n={size}")
    assert tile("--dynamic=n=1+512") == tile("--dynamic=n=512") != tile("--dynamic=n=1")
    assert compiled(tmp_path, 3, "--dynamic=n=1+100") == compiled(tmp_path, 3, "--dynamic=n=1")


ALIKE = """dim m like n
def Alike(X[n, d], P[d, f], Y[m]):
    return einsum(X[n, d], P[d, f], Y[n] -> [n, f])
"""


def test_sizes_are_those_of_all_dims_that_are_alike():
    options = ["-D", "d=96,f=80"]
    several = tile(*options, "-D", "n=2", "--dynamic=m=1+512", source=ALIKE)
    assert several == tile(*options, "--dynamic=n=1", source=ALIKE)


@pytest.mark.parametrize("sizes, message", [
    ("n=512+1", "--dynamic n=512+1: sizes go from the smallest, at least 1, to the largest"),
    ("n=1+2+2", "--dynamic n=1+2+2: sizes go from the smallest, at least 1, to the largest"),
    ("n=0+2", "--dynamic n=0+2: sizes go from the smallest, at least 1, to the largest"),
    ("n=1+", "--dynamic n=1+: '' is no size: write them as in n=1+512"),
    ("n=+1", "--dynamic n=+1: '' is no size: write them as in n=1+512"),
    ("n=1+x", "--dynamic n=1+x: 'x' is no size: write them as in n=1+512"),
    ("n=1+2,n=3", "--dynamic n=3: n is given twice"),
])
def test_sizes_that_are_none_are_told(sizes, message):
    assert message in attc("check", "-", "--dynamic", sizes, stdin=ROWS, status=2)[1]


def test_too_many_sizes_are_told(tmp_path):
    sizes = "n=1+2+4+8+16,d=1+2+4+8"
    options = ["build", "-", "--dynamic", sizes, "-o", tmp_path / "rows.so"]
    _, err = attc(*options, stdin=ROWS, status=1)
    assert "--dynamic: more than 16 combinations of sizes" in err


LOSS = """dim d = 64, f = 80
def Loss(X[b, n, d], param P[d, f]):
    return sum(einsum(X, P -> [b, n, f]) ** 2, reduced_dim=(b, n, f))
"""


def test_sequences_that_nobody_tells_of_are_a_few():
    n = ["-D", "n=64", "--grad"]
    few = tile(*n, source=LOSS)
    assert few == tile(*n, "--dynamic=b=8", source=LOSS) != tile(*n, "--dynamic=b=512", source=LOSS)


def test_between_two_positions_that_data_tell_lies_half_of_what_there_is(tmp_path):
    attention = tmp_path / "attention.attn"
    attention.write_text("""dim n = 512, m = 512, h = 4, k = 32
def All(Q[n, h, k], K[m, h, k], V[m, h, k]):
    W[n, m, h] = softmax(einsum(Q, K -> [n, m, h]), reduced_dim=m)
    return einsum(W, V -> [n, h, k])
def Seen(Q[n, h, k], K[m, h, k], V[m, h, k], word[m]: i32):
    L[n, m, h] = where(word[m] >= 0, einsum(Q, K -> [n, m, h]), -inf)
    return einsum(softmax(L, reduced_dim=m), V -> [n, h, k])
""")
    every, seen = [
        max(kernel["predicted_seconds"]
            for kernel in attc_json("cost", attention, "--entry", entry, "--machine",
                                    MACHINES / "avx512.json")["kernels"])
        for entry in ("All", "Seen")]
    assert 0.4 * every < seen < 0.8 * every


SCAN = """dim d = 16
def Sums(X[n, d], param P[d, e]):
    Y[n, e] = tanh(einsum(X[n, d], P[d, e]))
    S = zeros[e]
    scan t in n:
        S = S * 0.5 + Y[t, e]
        Z[t, e] = S
    return Z[n, e]
"""


def test_steps_of_scans_are_planned_as_the_dim_that_they_go_through(tmp_path):
    source = tmp_path / "sums.attn"
    source.write_text(SCAN)
    spaces = attc_json("cost", source, "-D", "n=4096,e=8", "--dynamic", "n=4096", "--space",
                       "--no-db")["spaces"]
    assert all("512" not in space["extents"] for space in spaces), spaces
    assert any("~4096" in space["extents"] for space in spaces)


def test_one_of_dims_that_are_alike_tells_the_others(tmp_path):
    source = tmp_path / "sums.attn"
    source.write_text("dim m like n\n" + SCAN.replace("[n", "[m").replace("in n", "in m").replace(
        "def Sums(", "def Sums(A[n], ").replace("S = S * 0.5", "S = S * sum(A, reduced_dim=n)"))
    spaces = attc_json("cost", source, "-D", "m=4096,e=8", "--dynamic", "m=4096", "--space",
                       "--no-db")["spaces"]
    assert all("512" not in space["extents"] for space in spaces), spaces
