# SPDX-License-Identifier: Apache-2.0
"""Reductions of much to little in parts: errors, and the same bits for any number of threads."""

import numpy as np
import pytest

from attc import attc

SOURCE = """
def F(X[n, h], y[n], ids[n]: i32):
    V = mean(X, reduced_dim=n)
    C = X - V
    return V, mean(C * C, reduced_dim=n), logsumexp(X, reduced_dim=n), max(X, reduced_dim=(n, h)), \
        argmax(y, reduced_dim=n), sqrt(sum(y * y, reduced_dim=n)), min(y, reduced_dim=n), \
        einsum(y[n], X[n, h] -> [h]), einsum(y[n], y[n] -> []), sum(ids, reduced_dim=n), \
        f32(sum(bf16(y), reduced_dim=n))
""".replace("\\\n", "")
NAMES = ["V", *(f"result_{i}" for i in range(1, 11))]


def twin(X, y, ids):
    X, y = X.astype("f8"), y.astype("f8")
    top = X.max(0)
    half = (y.astype("f4").view("u4") + 0x8000 >> 16 << 16).astype("u4").view("f4").astype("f8")
    return [X.mean(0), X.var(0), top + np.log(np.exp(X - top).sum(0)), X.max(), y.argmax(),
            np.sqrt(y @ y), y.min(), y @ X, y @ y, ids.sum(), half.sum()]


def run(folder, arrays, *options):
    given = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        given.append(f"{name}={folder / name}.npy")
    outputs = [part for name in NAMES for part in ("-o", f"{name}={folder / name}.out.npy")]
    attc("run", "-", "-w", *given, *outputs, *options, stdin=SOURCE)
    return [np.load(folder / f"{name}.out.npy") for name in NAMES]


@pytest.mark.parametrize("n, h", [(1, 1), (7, 3), (31, 2), (33, 1), (100_000, 3)])
@pytest.mark.parametrize("way", [[], ["-D", "n={n},h={h}"], ["--interpret"]], ids=" ".join)
def test_equals_numpy(tmp_path, n, h, way):
    if way == ["--interpret"] and n > 100:
        pytest.skip("slow")
    random = np.random.default_rng(n)
    arrays = {
        "X": random.standard_normal((n, h)).astype("f4"),
        "y": (random.random(n) + 0.5).astype("f4"),
        "ids": random.integers(0, 100, n).astype("i4"),
    }
    way = [option.format(n=n, h=h) for option in way]
    for name, got, want in zip(NAMES, run(tmp_path, arrays, *way), twin(**arrays)):
        half = name == "result_10"
        np.testing.assert_allclose(
            got, want, rtol=5e-3 if half else 3e-6, atol=3e-6 * n**0.5, err_msg=name
        )


def test_threads_change_no_bit(tmp_path):
    random = np.random.default_rng(0)
    arrays = {
        "X": random.standard_normal((50_001, 2)).astype("f4"),
        "y": random.standard_normal(50_001).astype("f4"),
        "ids": random.integers(0, 100, 50_001).astype("i4"),
    }
    first = [a.tobytes() for a in run(tmp_path, arrays, "--threads", "1")]
    for threads in ("2", "3", "7"):
        assert [a.tobytes() for a in run(tmp_path, arrays, "--threads", threads)] == first


def test_long_sums_are_exact_to_a_millionth(tmp_path):
    """The sum of many positive numbers, constant and dynamic."""
    X = np.random.default_rng(1).random(4_000_000).astype("f4")
    np.save(tmp_path / "X.npy", X)
    source = "def F(X[n]):\n    return sum(X, reduced_dim=n)\n"
    for way in ([], ["-D", "n=4000000"]):
        attc("run", "-", f"X={tmp_path}/X.npy", "-o", f"{tmp_path}/s.npy", *way, stdin=source)
        want = X.astype("f8").sum()
        assert abs(np.load(tmp_path / "s.npy") - want) <= 1e-6 * want
