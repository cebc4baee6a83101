# SPDX-License-Identifier: Apache-2.0
"""topk, sort and argsort against NumPy: positions are exact, so are values."""

import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc

DTYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "i32": "i4", "i64": "i8"}
WAYS = [[], ["--threads", "2"], ["-D", "n={n},m={m}"], ["--interpret"], ["--oracle"]]
# rows, positions, how many are kept: few and many of short rows and long ones
SHAPES = [(3, 5, 2), (1, 1, 1), (7, 100, 8), (33, 129, 129), (2, 1500, 40), (3, 1100, 300)]


def draw(elem, kind, shape):
    """Values that repeat, that are special, that are in order already, and others."""
    random = np.random.default_rng(3)
    x = random.standard_normal(shape)
    if kind == "ties":
        x = np.round(2 * x)
    if kind == "falling":
        x = -np.sort(-x, axis=1)
    if kind == "rising":
        x = np.sort(x, axis=1)
    if elem.startswith("i"):
        return (x * (1 if kind == "ties" else 4e8)).astype(DTYPES[elem])
    if kind == "special":
        for special in (np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan):
            x[random.random(shape) < 0.1] = special
    return x.astype(DTYPES[elem])


def order(x, axis, kept, descending):
    """NaN is the largest, of equal ones the first comes first."""
    if not descending:
        return np.take(np.argsort(x, axis=axis, kind="stable"), range(kept), axis)
    back = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.take(x.shape[axis] - 1 - np.flip(back, axis), range(kept), axis)


def run(folder, source, arrays, results, *options):
    given = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        given.append(f"{name}={folder / name}.npy")
    for name in results:
        given += ["-o", f"{name}={folder / name}.out.npy"]
    attc("run", "-", "-w", *given, *options, stdin=source)
    return [np.load(folder / f"{name}.out.npy") for name in results]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("dim", ["m", "n"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_topk(tmp_path, shape, dim, way):
    n, m, kept = shape
    x = draw("f32", "plain", (n, m) if dim == "m" else (m, n))
    axis = "nm".index(dim)
    way = [option.format(n=x.shape[0], m=x.shape[1]) for option in way]
    source = f"""
dim t = {kept}
def F(X[n, m]):
    V, I = topk(X, t, dim={dim})
    return V, I
"""
    V, I = run(tmp_path, source, {"X": x}, ["V", "I"], *way)
    want = order(x, axis, kept, True)
    np.testing.assert_array_equal(I, want)
    np.testing.assert_array_equal(V, np.take_along_axis(x, want, axis))
    assert I.dtype == np.int32


@pytest.mark.parametrize("kept", [1, 9, 50, 400])
@pytest.mark.parametrize("kind", ["ties", "falling", "rising", "special"])
@pytest.mark.parametrize("elem", DTYPES)
def test_types_and_values(tmp_path, elem, kind, kept):
    x = draw(elem, kind, (5, 400))
    source = f"""
dim t = {kept}
def F(X[n, m]: {elem}):
    V, I = topk(X, t, dim=m)
    return V, I, argsort(X, t, dim=m), sort(X, t, dim=m)
"""
    V, I, J, Y = run(tmp_path, source, {"X": x}, ["V", "I", "result_2", "result_3"])
    down, up = order(x, 1, kept, True), order(x, 1, kept, False)
    np.testing.assert_array_equal(I, down)
    np.testing.assert_array_equal(J, up)
    np.testing.assert_array_equal(V, np.take_along_axis(x, down, 1))
    np.testing.assert_array_equal(Y, np.take_along_axis(x, up, 1))


def test_bfloat16(tmp_path):
    x = np.round(draw("f32", "plain", (4, 300)) * 8) / 8  # exact in bf16
    source = "def F(X[n, m]):\n    return argsort(bf16(X), dim=m), f32(sort(bf16(X), dim=m))\n"
    J, Y = run(tmp_path, source, {"X": x}, ["result", "result_1"])
    np.testing.assert_array_equal(J, order(x, 1, 300, False))
    np.testing.assert_array_equal(Y, np.sort(x, axis=1))


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_inside_other_values(tmp_path, direction):
    """Of computed values, with batches in front, read by what follows; ranks by sorting twice."""
    random = np.random.default_rng(5)
    X, P = random.standard_normal((2, 6, 9)), random.standard_normal((9, 20))
    arrays = {"X": X.astype("f4"), "P": P.astype("f4")}
    source = f"""
def Ranks(s[k]):
    return argsort(argsort(s, dim=k, order={direction}), dim=k)
def F(X[b, n, d], P[d, k]):
    L[b, n, k] = einsum(X, P)
    R[b, n, k] = Ranks(L)
    Y[b, n] = sum(where(R < 3, L, 0), reduced_dim=k) + mean(sort(L, dim=k), reduced_dim=k)
    return Y, R
"""
    Y, R = run(tmp_path, source, arrays, ["Y", "R"])
    L = (arrays["X"] @ arrays["P"]).astype("f8")
    ranks = order(order(L, 2, 20, direction == "descending").astype("f8"), 2, 20, False)
    np.testing.assert_array_equal(R, ranks)
    want = np.where(ranks < 3, L, 0).sum(2) + L.mean(2)
    np.testing.assert_allclose(Y, want, atol=2e-5)


@pytest.mark.parametrize("way", [[], ["--interpret"], ["--oracle"]])
def test_inside_a_scan(tmp_path, way):
    """A beam: each step keeps the best of what is left and what is new."""
    X = draw("f32", "plain", (9, 2, 7))
    source = """
dim t = 3
def F(X[n, b, d], s[b, t]):
    scan i in n:
        Y[b, e] = concat(s, X[i, b, d], dim=e)
        s, at[b, t] = topk(Y, t, dim=e)
        J[i, b, t] = at
    return s, J
"""
    s = np.zeros((2, 3), "f4")
    got, J = run(tmp_path, source, {"X": X, "s": s}, ["s", "J"], *way)
    for i, x in enumerate(X):
        y = np.concatenate([s, x], 1)
        at = order(y, 1, 3, True)
        np.testing.assert_array_equal(J[i], at)
        s = np.take_along_axis(y, at, 1)
    np.testing.assert_array_equal(got, s)


def test_one_row_and_more_dims_than_rows(tmp_path):
    x = draw("f32", "ties", (1, 37))[0]
    source = "def F(x[m]):\n    return argsort(x, dim=m)\n"
    (I,) = run(tmp_path, source, {"x": x}, ["result"])
    np.testing.assert_array_equal(I, order(x, 0, 37, False))
    y = draw("f32", "ties", (6, 70)).reshape(2, 3, 7, 10)
    source = "dim t = 2\ndef F(x[a, b, c, d]):\n    _, I = topk(x, t, dim=b)\n    return I\n"
    (I,) = run(tmp_path, source, {"x": y}, ["I"])
    np.testing.assert_array_equal(I, order(y, 1, 2, True))


LIMIT = "dim t = 4\ndef F(X[n, m]):\n    V, _ = topk(X, t, dim=m)\n    return V\n"


@pytest.mark.parametrize("way", [[], ["--interpret"], ["--oracle"]])
def test_more_than_there_are(tmp_path, way):
    np.save(tmp_path / "X.npy", np.zeros((5, 3), "f4"))
    X = f"X={tmp_path / 'X.npy'}"
    _, errors = attc("run", "-", X, *way, status=1, stdin=LIMIT)
    assert errors.splitlines() == [
        "<stdin>:3:12: error: t must be at most m: they are 4 and 3",
        "        V, _ = topk(X, t, dim=m)",
        "               ^~~~~~~~~~~~~~~~~",
    ]


@pytest.mark.skipif(SANITIZED, reason="the product is linked without the sanitizer")
def test_more_than_there_are_in_a_program(tmp_path):
    source, program = tmp_path / "f.attn", tmp_path / "f"
    source.write_text(LIMIT)
    attc("build", source, "--exe", "-o", program)
    np.save(tmp_path / "X.npy", np.ones((5, 3), "f4"))
    arguments = [program, f"X={tmp_path / 'X.npy'}", "-o", f"V={tmp_path / 'V.npy'}"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 1
    assert "t must be at most m: they are 4 and 3" in done.stderr
    np.save(tmp_path / "X.npy", np.arange(20, dtype="f4").reshape(5, 4))
    subprocess.run(arguments, check=True)
    want = np.arange(20, dtype="f4").reshape(5, 4)[:, ::-1]
    np.testing.assert_array_equal(np.load(tmp_path / "V.npy"), want)


def test_extents_that_nothing_tells_are_enough():
    attc("verify", "-", stdin=LIMIT.replace("t = 4", "t = 40"))
