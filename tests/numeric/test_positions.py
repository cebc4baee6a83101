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
