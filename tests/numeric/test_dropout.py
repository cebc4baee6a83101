# SPDX-License-Identifier: Apache-2.0
"""Random numbers and dropout against a twin of Philox 4x32-10 in NumPy."""

import numpy as np
import pytest

from attc import attc, attc_json, write

WAYS = [[], ["--dynamic=n,d"], ["--interpret"], ["--oracle"], ["--threads=1"], ["--threads=3"]]
PLANS = ["resident", "two-pass", "spill", "unfused"]
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def words(number):
    """The lower and the upper half of 64 bits."""
    number = np.asarray(number).astype(np.int64).view(np.uint64)
    return number & LOW, number >> HALF


def philox(seed, stream, block):
    """The four words of each block: int arrays of one shape, words last."""
    k0, k1 = words(seed)
    c0, c1 = words(block)
    c2, c3 = words(stream)
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> HALF) ^ c1 ^ k0, b & LOW, (a >> HALF) ^ c3 ^ k1, a & LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & LOW, (k1 + np.uint64(0xBB67AE85)) & LOW
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), -1)


def uniform(seed, stream, shape):
    """Numbers 0, 1, ... of a stream."""
    i = np.arange(np.prod(shape)).reshape(shape)
    word = np.take_along_axis(philox(seed, stream, i // 4), (i % 4)[..., None], -1)[..., 0]
    return (word >> np.uint64(8)).astype("f4") * np.float32(2**-24)


def dropped(x, rate, seed, stream):
    kept = uniform(seed, stream, x.shape) >= np.float32(rate)
    return np.where(kept, x / (1 - rate), 0)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def run(source, arrays, folder, *options):
    result = folder / "result.npy"
    attc("run", "-", "-w", *write(arrays, folder), "-o", f"R={result}", *options, stdin=source)
    return np.load(result)


# The published vectors (Random123, kat_vectors): key, stream, block, words.
VECTORS = [
    (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (-1, -1, -1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        0x299F31D0A4093822,
        0x0370734413198A2E,
        0x85A308D3243F6A88 - 2**64,
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize("seed, stream, block, want", VECTORS)
def test_twin_has_the_published_vectors(seed, stream, block, want):
    assert " ".join(f"{word:08x}" for word in philox(seed, stream, block)) == want


@pytest.mark.parametrize("seed", [0, 1, 2**31 + 5, 2**53 - 1, -3])
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_random(tmp_path, seed, way):
    source = (
        "def F(X[n, d], s[]: i64):\n    R[n, d] = X * random(s, d, index(n) * d + index(d))\n"
        "    return R\n"
    )
    arrays = {"X": np.ones((13, 41), "f4"), "s": np.int64(seed)}
    assert np.array_equal(run(source, arrays, tmp_path, *way), uniform(seed, 41, (13, 41)))


def test_random_of_large_numbers(tmp_path):
    """Beyond the whole numbers that the oracle holds."""
    source = (
        "def F(s[k]: i64, t[k]: i64, i[k]: i64):\n    R[k] = random(s, t, i)\n    return R\n"
    )
    drawn = np.random.default_rng(3).integers(-(2**63), 2**63, (3, 77))
    s, t, i = drawn
    block = (i.view(np.uint64) >> np.uint64(2)).view(np.int64)
    word = np.take_along_axis(philox(s, t, block), (i % 4)[:, None], -1)[:, 0]
    want = (word >> np.uint64(8)).astype("f4") * np.float32(2**-24)
    for way in ([], ["--interpret"]):
        assert np.array_equal(run(source, dict(s=s, t=t, i=i), tmp_path, *way), want)


def rounds(x, seed, streams):
    for stream in streams:
        x = dropped(x, 0.25, seed, stream)
    return x


def steps(x, seed):
    kept = np.where(uniform(seed, 0, x.shape) >= np.float32(0.25), 1 / 0.75, 0)
    state, rows = np.ones(x.shape[1]), []
    for t, row in enumerate(x):
        state = state * kept[t] + row
        rows.append(state)
    return np.stack(rows)


# name: body of a def of X[n, d], seed[]: i64 that gives R, and its twin.
CASES = {
    "plain": ("R = dropout(X, rate=0.25, seed=seed)", lambda x, s: dropped(x, 0.25, s, 0)),
    "number": ("R = dropout(X, rate=0.5, seed=7) * seed", lambda x, s: s * dropped(x, 0.5, 7, 0)),
    "rate_of_an_extent": (
        "R = dropout(X, rate=4 / n, seed=seed)",
        lambda x, s: dropped(x, 4 / len(x), s, 0),
    ),
    "none": ("R = dropout(X, rate=0, seed=seed)", lambda x, s: x),
    "streams": (
        "A = dropout(X, rate=0.25, seed=seed)\n    R = A - dropout(X, rate=0.25, seed=seed)",
        lambda x, s: dropped(x, 0.25, s, 0) - dropped(x, 0.25, s, 1),
    ),
    "loop": (
        "for i in three:\n        X = dropout(X, rate=0.25, seed=seed)\n    R = X",
        lambda x, s: rounds(x, s, range(3)),
    ),
    "calls": (
        "R = Half(Half(X, seed), seed + 1)",
        lambda x, s: dropped(dropped(x, 0.5, s, 0), 0.5, s + 1, 1),
    ),
    "scan": (
        "a[d] = ones[d]\n    scan t in n:\n        a = dropout(a, rate=0.25, seed=seed) + X[t, d]\n"
        "        R[t, d] = a",
        steps,
    ),
}


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(tmp_path, case, way):
    body, twin = CASES[case]
    source = (
        "dim three = 3\ndef Half(x[d], s[]: i64):\n    return dropout(x, rate=0.5, seed=s)\n"
        f"def F(X[n, d], seed[]: i64):\n    {body}\n    return R[n, d]\n"
    )
    x = np.random.default_rng(5).standard_normal((23, 37)).astype("f4")
    have = run(source, {"X": x, "seed": np.int64(11)}, tmp_path, *way)
    want = twin(x.astype(float), 11)
    assert np.array_equal(have == 0, want == 0)
    np.testing.assert_allclose(have, want, rtol=2e-6, atol=2e-6)


# The order in which positions are numbered, and statements on L[g, n, m] that make the `x` that is
# dropped, or return what is. Their operands have other orders.
ORDERS = {
    "mask": ("gnm", "M[g, n, m] = where(index(m) <= index(n), L, 7)\n    x = M"),
    "mask_in_place": ("gnm", "x = where(index(m) <= index(n), L, 7)"),
    "mask_of_two": ("gnm", "x = where(index(m) + index(g) <= index(n), 7, L)"),
    "number": ("gnm", "M[g, n, m] = index(m) + L\n    x = M + 1"),
    "broadcast": ("gnm", "x = index(m) + L"),
    "row": ("gnm", "x = softmax(index(m) - L, reduced_dim=m)"),
    "met": ("mgn", "x = (index(m) + 1) * sum(L, reduced_dim=m)"),
    "assigned": ("mgn", "M[m, g, n] = L * 3\n    x = M"),
    "brackets": ("mng", "M[m, g, n] = L * 3\n    x = M[m, n, g]"),
    "arrow": ("mng", "x = einsum(L[g, n, m] -> [m, n, g])"),
    "carried": ("gnm", "x = L\n    for i in two:\n        x = index(m) + x"),
    "mapped_last": ("gnm", "M[n, m, g] = index(m) + L\n    return Dropped(M, seed, n=n, m=m)"),
    "mapped_first": ("gmn", "return Dropped(index(n) + L, seed, n=m, m=n)"),
    "mapped_twice": ("mgn", "return Rows(index(n) + L, seed, n=n)"),
    "called": ("gnm", "return Masked(index(m) + L, seed)"),
}


def ordered(case):
    """The program of a case, whose entry G has the result over L's dims."""
    body = ORDERS[case][1]
    returns = "" if "return" in body else "\n    return dropout(x, rate=0.25, seed=seed)"
    return f"""
dim two = 2
dim m like n
def Dropped(A[n, m], seed[]: i64):
    return dropout(where(index(m) <= index(n), A, 7), rate=0.25, seed=seed)
def Row(Y[n], seed[]: i64):
    return dropout(index(n) + Y, rate=0.25, seed=seed)
def Rows(Y[g, n], seed[]: i64):
    return Row(Y[g, n], seed, n=n)
def Masked(L[g, n, m], seed[]: i64):
    M[g, n, m] = where(index(m) <= index(n), L, 7)
    return dropout(M, rate=0.25, seed=seed)
def F(L[g, n, m], seed[]: i64):
    {body}{returns}
def G(L[g, n, m], seed[]: i64):
    R[g, n, m] = F(L, seed)
    return R[g, n, m]
"""


def kept_in_order(order, batch=()):
    """Where a case drops nothing, over g, n and m."""
    extents = {"g": 3, "n": 7, "m": 7}
    numbers = uniform(5, 0, (*batch, *(extents[dim] for dim in order)))
    letters = "b" * len(batch)
    return np.einsum(f"{letters}{order}->{letters}gnm", numbers) >= np.float32(0.25)


@pytest.mark.parametrize("way", [[], ["--dynamic=g,n,m"], ["--oracle"], ["--map=b=L"]], ids=str)
@pytest.mark.parametrize("case", ORDERS)
def test_positions_are_numbered_in_the_order_of_the_dims(tmp_path, case, way):
    batch = (2,) if way == ["--map=b=L"] else ()
    x = np.random.default_rng(8).uniform(1, 2, (*batch, 3, 7, 7)).astype("f4")
    arrays = {"L": x, "seed": np.int64(5)}
    have = run(ordered(case), arrays, tmp_path, "--entry=G", *way)
    assert np.array_equal(have != 0, kept_in_order(ORDERS[case][0], batch))


@pytest.mark.parametrize("plan", [[], ["--plan=unfused"]], ids=str)
@pytest.mark.parametrize("case", ["number", "assigned", "mapped_last", "called"])
def test_gradients_are_dropped_where_values_are(tmp_path, case, plan):
    slope = {"assigned": 3}.get(case, 1)
    below = np.tri(7, dtype=bool) if case in ("mapped_last", "called") else True
    arrays = {"L": np.ones((3, 7, 7), "f4"), "seed": np.int64(5), "dR": np.ones((3, 7, 7), "f4")}
    words = [*write(arrays, tmp_path), "-w", "--entry=G", "--grad", *plan]
    attc("run", "-", *words, "-o", f"dL={tmp_path}/dL.npy", stdin=ordered(case))
    want = kept_in_order(ORDERS[case][0]) * below * slope / 0.75
    np.testing.assert_allclose(np.load(tmp_path / "dL.npy"), want, rtol=1e-6)


@pytest.mark.parametrize("seed", ["", ", seed=-1", ", seed=seed"])
def test_identity(tmp_path, seed):
    source = f"def F(X[n], seed[]: i64):\n    R[n] = dropout(X, rate=0.5{seed})\n    return R\n"
    x = np.random.default_rng(5).standard_normal(70).astype("f4")
    have = run(source, {"X": x, "seed": np.int64(-5)}, tmp_path, "-Wno-unused")
    assert np.array_equal(have, x)


@pytest.mark.parametrize("elem", ["f64", "f16", "bf16"])
def test_element_types(tmp_path, elem):
    path = tmp_path / "drop.attn"
    path.write_text(f"def F(X[n, d]: {elem}):\n    return dropout(X * 2, rate=0.1, seed=3)\n")
    attc("verify", path, "-D", "n=9,d=31", "--grad")


ATTENTION = """
dim m like n
def F(Q[n, h, k], K[m, h, k], V[m, h, k], param P[h, h_w], seed[]: i64):
    W[n, m, h] = softmax(einsum(Q[n, h, k], K[m, h, k]) / sqrt(k), reduced_dim=m)
    U[n, m, h_w] = dropout(%s, rate=0.25, seed=seed)
    R[n, h_w, k] = einsum(U[n, m, h_w], V[m, h_w, k])
    return R
""".replace("V[m, h, k]", "V[m, h_w, k]", 1)
MIXED = ATTENTION % "einsum(W[n, m, h], P[h, h_w])"
PLAIN = (ATTENTION % "W").replace("h_w", "h").replace(", param P[h, h]", "")


def drawn(plain):
    random = np.random.default_rng(2)
    shapes = {"Q": (29, 3, 8), "K": (29, 3, 8), "V": (29, 3, 8), "P": (3, 3)}
    arrays = {name: random.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    if plain:
        arrays.pop("P")
    return arrays | {"seed": np.int64(4)}


def attend(Q, K, V, seed, P=None):
    weights = np.moveaxis(softmax(np.einsum("nhk,mhk->nhm", Q, K) / 8**0.5), 1, 2)
    weights = weights if P is None else weights @ P
    return np.einsum("nmh,mhk->nhk", dropped(weights, 0.25, seed, 0), V)


@pytest.mark.parametrize("how", [f"--plan={p}" for p in PLANS] + ["--interpret", "--threads=1"])
@pytest.mark.parametrize("source", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_attention(tmp_path, source, how):
    arrays = drawn(source == PLAIN)
    np.testing.assert_allclose(run(source, arrays, tmp_path, how), attend(**arrays), atol=2e-6)
    path = tmp_path / "attention.attn"
    path.write_text(source)
    attc("verify", path, "-w", "--grad", *write(arrays, tmp_path), how)


@pytest.mark.parametrize("source", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_no_mask_is_stored(tmp_path, source):
    path = tmp_path / "attention.attn"
    path.write_text(source)
    extents = "n=1024,h=12,k=64" + (",h_w=12" if source == MIXED else "")
    report = attc_json("cost", path, "-D", extents, "--grad", "--no-materialize")
    stored = [b for b in report["buffers"] if not b["placement"].startswith("scratch")]
    assert stored and not any({"n", "m"} <= set(b["dims"]) for b in stored)
