# SPDX-License-Identifier: Apache-2.0
"""Element types against NumPy, on numbers at the edges of each: compiled, interpreted, oracle."""

import numpy as np
import pytest

from attc import attc

WAYS = [["--target=x86-64-v3"], ["--interpret"], ["--oracle"]]
I32 = np.array([0, 1, -1, 2, -3, 7, 100, 12345, -54321, 2**31 - 1, -(2**31)], np.int32)
I64 = np.concatenate([I32, [2**31, -(2**31) - 1, 2**40 + 1]]).astype(np.int64)
WHOLE = {"i32": I32, "i64": I64}
EDGES = np.array([0, -0.5, 1.5, 1e30, -1e30, 2.0**31, 1e-40, np.inf, -np.inf, np.nan, 7], "f4")


def run(folder, source, way, **inputs):
    """The result R of a source on these arrays."""
    given = []
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        given.append(f"{name}={folder / name}.npy")
    attc("run", "-", *given, "-o", f"R={folder / 'R.npy'}", *way, stdin=source)
    return np.load(folder / "R.npy")


def whole_divide(a, b):
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))


OPERATORS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": whole_divide,
    "%": lambda a, b: a - b * whole_divide(a, b),
    "<": np.less,
    "==": np.equal,
}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_i32_operators_wrap(tmp_path, operator, way):
    source = f"def F(X[n]: i32, Y[m]: i32):\n    R[n, m] = X {operator} Y\n    return R\n"
    with np.errstate(over="ignore"):
        want = OPERATORS[operator](I32[:, None], I32[None, :])
    np.testing.assert_array_equal(run(tmp_path, source, way, X=I32, Y=I32), want)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_casts_between_integers_wrap(tmp_path, way):
    source = "def F(X[n]: i64):\n    R[n] = i32(X)\n    return R\n"
    np.testing.assert_array_equal(run(tmp_path, source, way, X=I64), I64.astype(np.int32))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("elem", WHOLE)
def test_casts_of_floats_saturate(tmp_path, elem, way):
    source = f"def F(X[n]):\n    R[n] = {elem}(X)\n    return R\n"
    limits = np.iinfo(WHOLE[elem].dtype)
    want = [
        0 if np.isnan(x) else min(max(int(np.clip(x, -1e20, 1e20)), limits.min), limits.max)
        for x in EDGES
    ]
    np.testing.assert_array_equal(run(tmp_path, source, way, X=EDGES), want)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("function", ["max", "min", "argmax", "sum"])
def test_reductions_keep_nan(tmp_path, function, way):
    source = f"def F(X[n]):\n    R = {function}(X, reduced_dim=n)\n    return R\n"
    with np.errstate(invalid="ignore"):
        want = getattr(np, function)(EDGES)
    np.testing.assert_array_equal(run(tmp_path, source, way, X=EDGES), want)


EXPONENTS = {
    "f64": [0, 1, -2, 0.5, -1e-9, 20.25, 1000.5, -1060, 2000, -2000, np.inf, -np.inf, np.nan],
    "f32": [0, 1, -2, 0.5, -1e-9, 20.25, -149, -151, 127.5, -1e30, np.inf, -np.inf, np.nan],
    "f16": [0, 1, -2, 0.5, -0.125, 12.25, -14, -np.inf, np.nan],
    "bf16": [0, 1, -2, 0.5, -0.125, 12.25, -126, -np.inf, np.nan],
}
PRECISION = {"f64": 2.0**-51, "f32": 2.0**-22, "f16": 2.0**-10, "bf16": 2.0**-7}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("elem", EXPONENTS)
def test_exp2(tmp_path, elem, way):
    source = f"def F(X[n]: f64):\n    R[n] = f64(exp2({elem}(X)))\n    return R\n"
    given = np.array(EXPONENTS[elem])
    compiled = way[0].startswith("--target")
    with np.errstate(over="ignore"):
        want = np.exp2(given)
    if compiled:  # subnormal numbers count as zero
        want[want < (2.0**-1022 if elem == "f64" else 2.0**-126)] = 0
    error = 2.0**-150 if elem == "f32" and not compiled else 0  # half of the least number
    have = run(tmp_path, source, way, X=given)
    np.testing.assert_allclose(have, want, rtol=PRECISION[elem], atol=error)


EDGE = [0, 3, 150, 2**31 - 1, 2**58, 2**58 + 1, 2**60 - 7, 2**60 + 7, 2**62, 2**63 - 1]
LIMITS = np.array([*EDGE, -1, -100, *(-x for x in EDGE[3:]), -(2**63)], np.int64)
# At m, a row's limits A (above) and B (its opposite), and C, A's last bits as an i32.
CONDITIONS = {
    "index(m) <= A[n]": lambda m, a, b, c: m <= a,
    "A[n] < index(m)": lambda m, a, b, c: a < m,
    "-index(m) < A[n]": lambda m, a, b, c: -m < a,
    "index(m) - 3 <= A[n] + B[n] + A[n]": lambda m, a, b, c: m - 3 <= a + b + a,
    "index(m) + A[n] <= 7": lambda m, a, b, c: m + a <= 7,
    "A[n] - index(m) < 5": lambda m, a, b, c: a - m < 5,
    "index(m) + A[n] < B[n]": lambda m, a, b, c: m + a < b,
    "index(m) + A[n] + A[n] + A[n] + A[n] <= B[n]": lambda m, a, b, c: m + a + a + a + a <= b,
    "C[n] - index(m) <= A[n]": lambda m, a, b, c: c.astype(np.int64) - m <= a,
    "i32(index(m)) + C[n] <= 7": lambda m, a, b, c: m.astype(np.int32) + c <= np.int32(7),
}


@pytest.mark.parametrize("way", [[], *WAYS[:2]], ids=str)  # the oracle's i64 are doubles
@pytest.mark.parametrize("condition", CONDITIONS)
def test_masks_wrap(tmp_path, condition, way):
    """Vectors that are computed without their mask are those where it has one value."""
    x = np.arange(len(LIMITS) * 200, dtype=np.float32).reshape(len(LIMITS), 200)
    limits = {"A": LIMITS, "B": LIMITS[::-1].copy(), "C": LIMITS.astype(np.int32)}
    rows = (array[:, None] for array in limits.values())
    with np.errstate(over="ignore"):
        holds = CONDITIONS[condition](np.arange(200)[None, :], *rows)
    for choice, expected in (("X, -inf", holds), ("-inf, X", ~holds)):
        source = (
            "def F(X[n, m], A[n]: i64, B[n]: i64, C[n]: i32):\n"
            f"    R[n, m] = where({condition}, {choice})\n    return R\n"
        )
        have = run(tmp_path, source, way, X=x, **limits)
        np.testing.assert_array_equal(have, np.where(expected, x, -np.inf))


SPECIAL_ROWS = [
    [0, 1, 2, 3],
    [-np.inf, 1, -np.inf, 2],
    [-np.inf] * 4,
    [np.inf, 1, 2, 3],
    [-np.inf, 1, np.inf, np.inf],
    [np.nan, np.inf, 0, 1],
    [np.nan, 1, 2, -np.inf],
    [-60000, -60000, -60000, -60000],
]


def logsumexp(logits):
    """NaN of a row with a NaN, inf of one with inf, -inf of one with nothing else."""
    with np.errstate(invalid="ignore", divide="ignore"):
        top = logits.max(-1)
        finite = top[:, None] + np.log(np.exp(logits - top[:, None]).sum(-1, keepdims=True))
    return np.where(np.isinf(top), top, finite[:, 0])


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("elem", PRECISION)
def test_logsumexp_of_infinities(tmp_path, elem, way):
    source = f"""
def F(X[n, m]: f64):
    R[n] = f64(logsumexp({elem}(X), reduced_dim=m))
    return R
"""
    have = run(tmp_path, source, way, X=np.array(SPECIAL_ROWS))
    np.testing.assert_allclose(have, logsumexp(np.array(SPECIAL_ROWS)), rtol=2 * PRECISION[elem])


# In pieces, with the sum rescaled from one to the next: what is infinite may be in any of them.
@pytest.mark.parametrize("way", [*WAYS, ["--plan=stream"], ["--plan=resident"]], ids=str)
def test_streamed_logsumexp_of_infinities(tmp_path, way):
    source = """
dim n = 40, m = 1024, k = 16
def F(Q[n, k], K[m, k], bias[n, m]):
    L[n, m] = einsum(Q[n, k], K[m, k]) + bias[n, m]
    R[n] = logsumexp(L[n, m], reduced_dim=m)
    return R
"""
    draw = np.random.default_rng(1)
    Q, K = draw.standard_normal((2, 1024, 16)).astype("f4")
    Q, bias = Q[:40], np.zeros((40, 1024), "f4")
    for n in range(0, 40, 2):  # others stay finite
        bias[n, draw.integers(1024)] = [np.inf, -np.inf, np.nan][n // 2 % 3]
        bias[n, draw.integers(1024)] = np.inf
    bias[38] = -np.inf
    have = run(tmp_path, source, way, Q=Q, K=K, bias=bias)
    np.testing.assert_allclose(have, logsumexp((Q @ K.T + bias).astype("f8")), rtol=1e-5)


def test_numbers_too_large_for_a_cast(tmp_path):
    path = tmp_path / "large.attn"
    path.write_text("def F(x[n]):\n    return i32(1e20), i32(-1e20), i64(1e30), i32(2.9)\n")
    values = {"result": 2**31 - 1, "result_1": -(2**31), "result_2": 2**63 - 1, "result_3": 2}
    for name, value in values.items():
        attc("run", path, "-w", "-D", "n=1", "-o", f"{name}={tmp_path / name}.npy")
        assert np.load(tmp_path / f"{name}.npy") == value
