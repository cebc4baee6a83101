# SPDX-License-Identifier: Apache-2.0
"""Constants over dims: zeros, ones, full and arrays in the text, against NumPy."""

import numpy as np
import pytest

from attc import attc, attc_json, write

WAYS = [
    ["-D", "n=33"],
    ["--dynamic", "n,d"],
    ["--threads", "2"],
    ["--interpret"],
    ["--oracle"],
    ["--plan=unfused"],
]


def smoothed(X, w):
    padded = np.pad(X, [(len(w) - 1, 0), (0, 0)])
    return sum(w[i] * padded[len(w) - 1 - i : len(padded) - i] for i in range(len(w)))


# name: body of a def of X[n, d], S[n, m] and ids[n] that gives R, and its twin.
CASES = {
    "zeros": ("R[d, n] = zeros[n, d]", lambda X, S, ids: np.zeros_like(X.T)),
    "ones": ("R[n, d] = X + ones[n, d] - ones[d]", lambda X, S, ids: X),
    "full": ("R[n, t] = full(1.5 -> [n, t])", lambda X, S, ids: np.full((len(X), 3), 1.5)),
    "full_by_target": ("R[n, t] = 2 * full(-0.25)", lambda X, S, ids: np.full((len(X), 3), -0.5)),
    "full_of_a_tensor": (
        "R[n, t, d] = exp(full(X[n, d] -> [t, n, d]))",
        lambda X, S, ids: np.repeat(np.exp(X)[:, None], 3, axis=1),
    ),
    "whole": ("R[n]: i32 = ids * ones[n] + full(2 -> [n])", lambda X, S, ids: ids + 2),
    "count": (
        "R[d] = sum(ones[n, t, d], reduced_dim=(n, t))",
        lambda X, S, ids: np.full(X.shape[1], 3 * len(X)),
    ),
    "row_sums": ("R[n] = einsum(S, full(0.5 -> [m]))", lambda X, S, ids: S.sum(1) / 2),
    "counted": (
        "R[n] = einsum(X, ones[t], full(2 -> [d, m]) -> [n]) / m",
        lambda X, S, ids: 6 * X.sum(1),
    ),
    "kept": (
        "R[n, t] = einsum(X, ones[t, d])",
        lambda X, S, ids: np.repeat(X.sum(1)[:, None], 3, axis=1),
    ),
    "extrema": (
        "R[n] = max(full(X[n, 0] -> [n, t]), reduced_dim=t) + min(ones[n, m], reduced_dim=m)",
        lambda X, S, ids: X[:, 0] + 1,
    ),
    "uniform_attention": (
        "W[n, m] = softmax(zeros[n, m], reduced_dim=m)\n    R[n, d] = einsum(W, X[m, d])",
        lambda X, S, ids: np.repeat(X.mean(0)[None], len(X), axis=0),
    ),
    "sequence": ("R[n] = cumsum(ones[n], dim=n)", lambda X, S, ids: 1 + np.arange(len(X))),
    "carried": (
        "Y = zeros[n, d]\n    for i in t:\n        Y = Y / 2 + X * i\n    R = Y",
        lambda X, S, ids: 2.5 * X,
    ),
    "array": ("R[t] = [1, 2 / 3, -pi]", lambda X, S, ids: np.array([1, 2 / 3, -np.pi])),
    "matrix": (
        "R[q, t] = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [t, q, inf]]",
        lambda X, S, ids: np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 4, np.inf]]),
    ),
    "matrix_other_order": (
        "R[t, q] = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 0, 0]] -> [q, t]",
        lambda X, S, ids: np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 0, 0]]).T,
    ),
    "weights": (
        "R[n, t] = einsum(X, one_hot(index(d) % 3, t) -> [n, t]) * ([0.25, 0.5, 1] -> [t])",
        lambda X, S, ids: X @ np.eye(3)[np.arange(X.shape[1]) % 3] * [0.25, 0.5, 1],
    ),
    "contracted": (
        "A[n, d, t] = X * full(1 -> [t]) * index(t)\n"
        "    R[n, d] = einsum(A, [0.5, 1, 2] -> [t] -> [n, d])",
        lambda X, S, ids: 5 * X,
    ),
    "taps": (
        "w = [0.25, 0.5, 0.25] -> [t]\n    R = zeros[n, d]\n"
        "    for i in t:\n        R = R + w[i] * shift(X, n, i)",
        lambda X, S, ids: smoothed(X, [0.25, 0.5, 0.25]),
    ),
    "integers": ("R[t]: i64 = [9007199254740991, -7, 0]", lambda X, S, ids: [2**53 - 1, -7, 0]),
    "looked_up": (
        "w = [10, 20, 30] -> [t]\n    R[n] = gather(w, ids % 3, dim=t)",
        lambda X, S, ids: np.array([10, 20, 30])[ids % 3],
    ),
    "runs": (
        "R[r] = [0, 0, 0, 1, 1, 0, 2, 2, 2, 2, 0]",
        lambda X, S, ids: np.array([0, 0, 0, 1, 1, 0, 2, 2, 2, 2, 0]),
    ),
    "joined": (
        "A[q, d] = concat(zeros[t, d], full(X[0, d] -> [one, d]), dim=q)\n    R = A",
        lambda X, S, ids: np.concatenate([np.zeros((3, X.shape[1])), X[:1]]),
    ),
}
HEAD = "dim one = 1, t = 3, q = 4, r = 11\ndim m like n\n"


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(tmp_path, case, way):
    body, twin = CASES[case]
    source = f"{HEAD}def F(X[n, d], S[n, m], ids[n]: i32):\n    {body}\n    return R\n"
    random = np.random.default_rng(7)
    X, S = random.standard_normal((33, 7)), random.standard_normal((33, 33))
    ids = random.integers(0, 100, 33).astype("i4")
    arrays = {"X": X.astype("f4"), "S": S.astype("f4"), "ids": ids}
    result = tmp_path / "R.npy"
    given_files = write(arrays, tmp_path)
    attc("run", "-", "-w", *given_files, "-o", f"R={result}", *way, stdin=source)
    want = np.asarray(twin(arrays["X"].astype(float), arrays["S"].astype(float), ids))
    got = np.load(result)
    np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-5)
    assert case != "integers" or (got.dtype == np.int64 and np.array_equal(got, want))


def test_constants_take_no_kernel(tmp_path):
    """What is over more dims than one would compute with is computed over those alone."""
    path = tmp_path / "layer.attn"
    layer = """def F(X[n, d], W[d, e]):
    H[n, e] = einsum(X[n, d]{times}, W[d, e]{more}){plus}
    return relu(H)
"""
    plain = attc_json("cost", path_of(path, layer, "", "", ""), "-D", "n=64,d=32,e=16")
    same = attc_json(
        "cost",
        path_of(path, layer, " * ones[d, n]", ", full(1 -> [n, e])", " + zeros[n, e]"),
        "-D",
        "n=64,d=32,e=16",
    )
    assert len(same["kernels"]) == 1
    for key in ["multiplies", "flops", "kernels", "buffers"]:
        assert same[key] == plain[key]


def path_of(path, text, times, more, plus):
    path.write_text(text.format(times=times, more=more, plus=plus))
    return path


def test_dim_of_a_call_without_extent():
    source = """dim t = 3

def Smooth(x[n, t]):
    return einsum(x[n, t], [1, 2, 1] -> [t] -> [n])

def F(X[n, m]):
    return Smooth(X, t=m)
"""
    attc("check", "-", stdin=source)
    attc("run", "-", "-D", "n=2,m=3", stdin=source)
    _, err = attc("cost", "-", status=1, stdin=source)
    assert "<stdin>:4:28: error: this array has 3 positions, 't' no known extent" in err
    assert "hint: give what it is here an extent, with 'dim' or -D" in err
    _, err = attc("cost", "-", "-D", "m=4", status=1, stdin=source)
    assert "<stdin>:4:28: error: this array has 3 positions, 't' has 4" in err
