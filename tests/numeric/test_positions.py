# SPDX-License-Identifier: Apache-2.0
"""One position of a dim, X[0, d], against NumPy."""

import numpy as np
import pytest

from attc import attc

WAYS = [[], ["-D", "n=33"], ["--interpret"], ["--oracle"], ["--plan=unfused"]]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def shifted(x, by):
    return np.concatenate([np.zeros_like(x[:by]), x[: len(x) - by]])


def fused_projection(X, W, w, S):
    q, k, v = (X @ W[:, i] for i in range(3))
    return softmax(q @ k.T) @ v


# name: body of a def of X[n, d], W[d, s, e], w[s], S[n, m] that gives R, and its twin.
CASES = {
    "first": ("R[d] = X[0, d]", lambda X, W, w, S: X[0]),
    "last": ("R[d] = X[n - 1, d] * w[s - 1]", lambda X, W, w, S: X[-1] * w[-1]),
    "any_order": ("R[n] = X[3, n]", lambda X, W, w, S: X[:, 3]),
    "in_place": ("R[k] = S[k, 2] - S[1, k]", lambda X, W, w, S: S[:, 2] - S[1]),
    "element": ("R = X[2, 3] + W[1, 2, 0]", lambda X, W, w, S: X[2, 3] + W[1, 2, 0]),
    "taps": (
        "R[n, d] = w[0] * X[n, d] + w[1] * shift(X, n, 1) + w[2] * shift(X, n, 2)",
        lambda X, W, w, S: w[0] * X + w[1] * shifted(X, 1) + w[2] * shifted(X, 2),
    ),
    "loop": (
        "Y = X\n    for i in s:\n        Y = Y + w[i] * shift(Y, n, i)\n    R = Y",
        lambda X, W, w, S: (lambda A: A + w[2] * shifted(A, 2))(
            (lambda A: A + w[1] * shifted(A, 1))(X + w[0] * X)
        ),
    ),
    "weights": ("R[n, e] = einsum(X[n, d], W[d, 1, e])", lambda X, W, w, S: X @ W[:, 1]),
    "of_a_product": (
        "T[n, s, e] = einsum(X[n, d], W[d, s, e])\n"
        "    R[n, e] = T[n, 0, e] * T[n, 2, e] - T[0, 1, e]",
        lambda X, W, w, S: (X @ W[:, 0]) * (X @ W[:, 2]) - (X @ W[:, 1])[0],
    ),
    "of_a_sum": (
        "A[n, m] = cumsum(S * w[2], dim=m)\n    R[m] = A[1, m] + max(A, reduced_dim=n)",
        lambda X, W, w, S: (lambda A: A[1] + A.max(0))(np.cumsum(S * w[2], 1)),
    ),
    "fused_projection": (
        "T[n, s, e] = einsum(X[n, d], W[d, s, e])\n"
        "    A[n, m] = softmax(einsum(T[n, 0, e], T[m, 1, e] -> [n, m]), reduced_dim=m)\n"
        "    R[n, e] = einsum(A[n, m], T[m, 2, e])",
        fused_projection,
    ),
    "row_of_attention": (
        "A[n, m] = softmax(einsum(X[n, d], X[m, d]), reduced_dim=m)\n    R[m] = A[n - 1, m]",
        lambda X, W, w, S: softmax(X @ X.T)[-1],
    ),
}


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(tmp_path, case, way):
    body, twin = CASES[case]
    source = (
        "dim d = 7, s = 3, e = 40\ndim m like n, k like n\n"
        f"def F(X[n, d], W[d, s, e], w[s], S[n, m]):\n    {body}\n    return R\n"
    )
    random = np.random.default_rng(7)
    shapes = {"X": (33, 7), "W": (7, 3, 40), "w": (3,), "S": (33, 33)}
    arrays = {name: random.standard_normal(shape) / 2 for name, shape in shapes.items()}
    given = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array.astype("f4"))
        given.append(f"{name}={tmp_path / name}.npy")
    result = tmp_path / "R.npy"
    attc("run", "-", "-w", *given, "-o", f"R={result}", *way, stdin=source)
    want = twin(**{name: array.astype("f4").astype(float) for name, array in arrays.items()})
    np.testing.assert_allclose(np.load(result), want, atol=2e-5, rtol=2e-5)


def test_memory_before_a_known_length(tmp_path):
    """Pieces of t = p + n begin at whole blocks of the panels that the keys are stored in."""
    path = tmp_path / "memory.attn"
    path.write_text(
        "dim t = p + n\n"
        "def F(X[n, d], M[p, d], P_q[d, k, h], P_k[d, k, h], P_v[d, k, h]):\n"
        "    C[t, d] = concat(M, X, dim=t)\n"
        "    K[t, k, h] = einsum(C, P_k)\n"
        "    W[n, t, h] = softmax(einsum(einsum(X, P_q -> [n, k, h]), K), reduced_dim=t)\n"
        "    return einsum(W, einsum(C, P_v -> [t, k, h]) -> [n, k, h])\n"
    )
    for n in (7, 9, 20, 33, 48, 100):
        attc("verify", path, "-D", f"n={n},p=3,d=12,k=4,h=3", "--dynamic", "p")


def attention(X, K, V, at):
    seen = np.arange(len(K)) <= at[:, None]
    return softmax(np.where(seen, X @ K.T, -np.inf)) @ V


@pytest.mark.parametrize("way", [[], ["-D", "n=40,m=90,d=8"], ["--plan=unfused"]], ids=" ".join)
def test_masks_by_stored_positions(tmp_path, way):
    """Two masks of one form, by positions that lie in memory: each leaves out what it hides."""
    source = """
def Seen(X[n, d], K[m, d], V[m, d], at[n]: i64):
    L[n, m] = where(index(m) <= at, einsum(X[n, d], K[m, d]), -inf)
    Y[n, d] = einsum(softmax(L, reduced_dim=m), V[m, d])
    return Y
def F(X[n, d], Z[n, d], K[m, d], V[m, d]):
    near[n] = index(n) + 3
    far[n] = index(n) + 40
    A[n, d] = Seen(X, K, V, near)
    B[n, d] = Seen(Z, K, V, far)
    C[n, d] = gather(K, near, dim=m) + gather(K, far, dim=m)
    return A, B, C
"""
    random = np.random.default_rng(3)
    shapes = {"X": (40, 8), "Z": (40, 8), "K": (90, 8), "V": (90, 8)}
    arrays = {name: random.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    words = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        words.append(f"{name}={tmp_path / name}.npy")
    for name in "ABC":
        words += ["-o", f"{name}={tmp_path / name}.npy"]
    attc("run", "-", "--entry", "F", "-w", *words, *way, stdin=source)
    X, Z, K, V = (array.astype(float) for array in arrays.values())
    near, far = np.arange(40) + 3, np.arange(40) + 40
    wanted = {"A": attention(X, K, V, near), "B": attention(Z, K, V, far), "C": K[near] + K[far]}
    for name, want in wanted.items():
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), want, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("plan", ["", "unfused", "resident", "spill"])
@pytest.mark.parametrize("sizes", ["n=9,m=20", "n=40,m=90"])
def test_masks_by_logits(tmp_path, sizes, plan):
    """A mask by what the same kernel computes is no range of positions to search for."""
    path = tmp_path / "threshold.attn"
    path.write_text(
        "dim t = 4\n"
        "def F(Q[n, k], K[m, k], V[m, k]):\n"
        "    top = sort(einsum(Q, K -> [n, m]) / sqrt(k), t, dim=m, order=descending)\n"
        "    L[n, m] = einsum(Q * 2, K)\n"
        "    W = softmax(where(L >= top[n, 0] - 1, L, -inf), reduced_dim=m)\n"
        "    return einsum(W, V -> [n, k])\n"
    )
    given = ["-D", f"{sizes},k=4", *(["--plan", plan] if plan else [])]
    for more in ([], ["--grad"], ["--dynamic", "n,m"]):
        attc("verify", path, "-w", *given, *more)


@pytest.mark.parametrize("dynamic", ["n", "p", "n,p"])
@pytest.mark.parametrize("sizes", ["n=0,p=0", "n=0,p=3", "n=40,p=70"])
def test_gradient_by_memory_of_any_length(tmp_path, sizes, dynamic):
    """The gradient stores where X begins in C; the mask reads that, whose kernels know no p."""
    path = tmp_path / "memory.attn"
    path.write_text(
        "dim t = p + n\n"
        "def F(X[n, d], M[p, d]):\n"
        "    C[t, d] = concat(M, X, dim=t)\n"
        "    L[n, t] = where(index(t) <= index(n) + p, einsum(X[n, d], C[t, d]), -inf)\n"
        "    return einsum(softmax(L, reduced_dim=t), C[t, d] -> [n, d])\n"
    )
    attc("verify", path, "-w", "--grad", "-D", f"{sizes},d=3", "--dynamic", dynamic)
