# SPDX-License-Identifier: Apache-2.0
"""Tensors over dims that are alike, against NumPy: read in their order, exchanged, with primes."""

import numpy as np
import pytest

from attc import attc

WAYS = [[], ["-D", "n=33,d=7"], ["--interpret"], ["--oracle"], ["--plan=unfused"]]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def shifted(x):
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


def cube(S):
    return S[:, :, None] * np.arange(len(S)) + S[None, :, :]


GRAM = """def Gram(Y[t, e]):
    return einsum(Y[t, e], Y[t', e] -> [t, t']) / t''
"""

# name: body of a def of S[n, m], Z[n, d, m], X[n, d] that gives R, and its twin.
CASES = {
    "product": ("R[n, k] = einsum(S[n, m], S[m, k])", lambda S, Z, X: S @ S),
    "gram": ("R[n, k] = einsum(S[n, m], S[k, m])", lambda S, Z, X: S @ S.T),
    "difference": ("R = S - swap(S, n, m)", lambda S, Z, X: S - S.T),
    "inner": ("R[n, m, d] = swap(Z, m, n) / 2", lambda S, Z, X: np.einsum("ndm->mnd", Z) / 2),
    "memory_order": ("R[m, n] = S + 1", lambda S, Z, X: S.T + 1),
    "of_a_product": (
        "R[n, m] = swap(einsum(X[n, d], Z[n, d, m]), n, m)",
        lambda S, Z, X: np.einsum("nd,ndm->mn", X, Z),
    ),
    "twice": (
        "A[n, m] = exp(S)\n    R = swap(A * index(n), n, m) + swap(swap(A, n, m), m, n)",
        lambda S, Z, X: (np.exp(S) * np.arange(len(S))[:, None]).T + np.exp(S),
    ),
    "softmax": ("R = softmax(swap(S, n, m), reduced_dim=m)", lambda S, Z, X: softmax(S.T)),
    "symmetric_attention": (
        "J[n, m] = einsum(X[n, d], X[m, d])\n"
        "    W = softmax(J + swap(S + J, n, m), reduced_dim=m)\n"
        "    R[n, d] = einsum(W[n, m], X[m, d])",
        lambda S, Z, X: softmax(2 * X @ X.T + S.T) @ X,
    ),
    "cycle": (
        "A[n, m, k] = S[n, m] * index(k) + S[m, k]\n    R = swap(swap(A, n, m), m, k)",
        lambda S, Z, X: np.einsum("cab->abc", cube(S)),
    ),
    "primes": (
        "L[n, n', d''] = einsum(X[n, d], Z[n', d, n''], X[n'', d'], X[n', d''])\n"
        "    R[n', n] = sum(where(index(n') <= index(n), L, 0), reduced_dim=d'')",
        lambda S, Z, X: np.triu(np.einsum("nd,adb,be,af->an", X, Z, X, X)),
    ),
    "primes_of_a_square": (
        "A[n, n''] = einsum(S[n, n'], S[n', n''])\n    B[n, n'] = A[n, n']\n"
        "    R = softmax(B - swap(B, n, n'), reduced_dim=n') / sqrt(n'')",
        lambda S, Z, X: softmax(S @ S - (S @ S).T) / len(S) ** 0.5,
    ),
    "primes_of_a_def": (
        "R[m, n, n'] = Gram(Z, t=n, e=d) + Gram(X)",
        lambda S, Z, X: (np.einsum("ndm,kdm->mnk", Z, Z) + X @ X.T) / len(S),
    ),
    "moved": ("R = swap(shift(S, n, 1), n, m)", lambda S, Z, X: shifted(S).T),
    "masked": ("R = where(index(m) <= index(n), swap(S, n, m), 0)", lambda S, Z, X: np.tril(S.T)),
}


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(tmp_path, case, way):
    body, twin = CASES[case]
    source = f"dim m like n, k like n\n{GRAM}def F(S[n, m], Z[n, d, m], X[n, d]):\n    {body}\n"
    random = np.random.default_rng(7)
    shapes = {"S": (33, 33), "Z": (33, 7, 33), "X": (33, 7)}
    arrays = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    given = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array.astype("f4"))
        given.append(f"{name}={tmp_path / name}.npy")
    result = tmp_path / "R.npy"
    order = "    return R[m, n]\n" if case == "memory_order" else "    return R\n"
    attc("run", "-", "-w", *given, "-o", f"R={result}", *way, stdin=source + order)
    want = twin(**{name: array.astype("f4").astype(float) for name, array in arrays.items()})
    np.testing.assert_allclose(np.load(result), want, atol=2e-5, rtol=2e-5)
