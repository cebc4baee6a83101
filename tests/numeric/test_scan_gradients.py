# SPDX-License-Identifier: Apache-2.0
"""Gradients through scans: central differences of the oracle, compiled code against the oracle."""

import re

import numpy as np
import pytest

from attc import Entry, attc, draw
from scan_cases import CASES, EXTENTS
from test_gradients import check_directional
from test_scan import TANGLED


def check(path, arrays, folder, *options):
    check_directional(path, arrays, folder, *options)
    for how in ([], ["--interpret"], ["--threads", 1]):
        attc("verify", path, "-w", "--grad", *options, *how)


def check_text(folder, text, sizes, seed=2):
    """The same of a source at these extents, with arguments drawn; returns its path."""
    path = folder / "scan.attn"
    path.write_text(text)
    primed = {f"{dim}'": size for dim, size in sizes.items()}
    arrays = draw(Entry(path), {**sizes, **primed}, seed)
    check(path, arrays, folder, "-D", ",".join(f"{dim}={size}" for dim, size in sizes.items()))
    return path


@pytest.mark.parametrize("case", CASES)
def test_case(case, tmp_path):
    body, results, arrays, _ = CASES[case]
    path = tmp_path / "case.attn"
    path.write_text(f"{body}    return {results}\n")
    open_dims = [d for d in EXTENTS if re.search(rf"\b{d}\b", body) and f"dim {d} =" not in body]
    given = ",".join(f"{dim}={EXTENTS[dim]}" for dim in open_dims)
    halved = {name: x / 2 if x.dtype == np.float32 else x for name, x in arrays.items()}
    check(path, halved, tmp_path, "-D", given)


@pytest.mark.parametrize("order", ["", " reversed"])
@pytest.mark.parametrize("entry", "FHK")
def test_tangled(entry, order, tmp_path):
    path = tmp_path / "tangled.attn"
    text = re.sub("(scan t in n|scan u in m)", rf"\1{order}", TANGLED)
    path.write_text(text[text.index(f"def {entry}") :].split("\ndef ")[0])
    sizes = {"n": 4, "m": 3, "d": 5}
    known = {dim: sizes[dim] for dim in Entry(path).dims}
    given = ",".join(f"{dim}={size}" for dim, size in known.items())
    check(path, draw(Entry(path), sizes, 1), tmp_path, "-D", given)
    attc("verify", path, "-w", "--grad", "--dynamic", "n,d", "-D", given)
    attc("verify", path, "-w", "--grad", "-D", ",".join(f"{dim}=1" for dim in known))


# What all steps share: a weight, a decay, a table, a number, what is read by an inner scan alone.
SHARED = {
    "weight": "s[d] = einsum(tanh(s), W[d', d] -> [d]) + X[t, d]",
    "decay": "s = s * tanh(w) + X[t, d]",
    "table": "s = s * 0.5 + gather(X, (index(d) + t) % n, dim=n) + gather(w, t // 2, dim=d)",
    "number": "s = tanh(s * a + X[t, d])",
    "inner": "scan u in m:\n            s = tanh(s * Z[u, d]) + X[t, d] * a",
    "position": "s = s * 0.5 + X[t, d] * t / n",
    "extremum": "s = s * max(X[t, d], reduced_dim=d) + prod(tanh(s), reduced_dim=d) * w",
    "rows": "s = softmax(s * 2, reduced_dim=d) + log_softmax(X[t, d], reduced_dim=d)",
    "moves": "s = shift(s, d, 1) * w + X[t, 0] * X[t, d]",
    "halves": "s = f32(bf16(s * 0.5)) + X[t, d]",
}


@pytest.mark.parametrize("name", SHARED)
def test_shared(name, tmp_path):
    check_text(
        tmp_path,
        "def F(X[n, d], Z[m, d], W[d', d], w[d], a[], s0[d]):\n    s = s0\n"
        f"    scan t in n:\n        {SHARED[name]}\n        Y[t, d] = s * w\n    return Y, s\n",
        {"n": 5, "m": 3, "d": 4},
    )


def test_what_is_the_same_for_all_positions_of_an_inner_scan(tmp_path):
    """X[u] depends on no step around, and each of its positions gets what reaches that alone."""
    check_text(
        tmp_path,
        """def F(X[m], A[n]):
    scan t in n:
        s[] = A[t]
        scan u in m:
            s = tanh(s)
            Y[u, t] = s - X[u]
    return sum(Y[m, n], reduced_dim=m)
""",
        {"n": 2, "m": 3}, seed=1,
    )


def test_what_is_not_asked_for(tmp_path):
    """Nothing is computed backwards for what is stopped or not asked for."""
    path = tmp_path / "scan.attn"
    path.write_text(
        "def F(X[n, d], W[d]):\n    s = zeros[d]\n    scan t in n:\n"
        "        s = s + stop_gradient(X[t, d])\n    return s * W + X[0, d]\n"
    )
    assert "reversed" not in attc("emit", path, "--grad", "--stage=graph")[0]
    attc("verify", path, "--grad", "-D", "n=3,d=2")


# What an inner loop computes without its carries is read by its own step and, for all positions at
# once, by the loop backwards.
WITHOUT_CARRIES = {
    "product": "c = c + w[u] * sum(a * G[u, k], reduced_dim=k)",
    "einsum": "c = c + w[u] * einsum(a[k], G[u, k] -> [])",
    "element": "c = c + G[u, 0] * sum(a * G[u, k], reduced_dim=k)",
    "square": "c = c + sum(a * G[u, k], reduced_dim=k)**2",
    "update": "c = sum(a * G[u, k], reduced_dim=k) * w[u]",
    "twice": "s = sum(a * G[u, k], reduced_dim=k)\n            c = tanh(c * s) + s * w[u]",
}


@pytest.mark.parametrize("name", WITHOUT_CARRIES)
def test_inner_values_without_carries(name, tmp_path):
    path = check_text(
        tmp_path,
        "def F(Q[n, k], G[m, k], w[m]):\n    a[k] = zeros[k]\n    scan t in n:\n"
        "        a = a + Q[t, k]\n        c = 0.0\n        scan u in m:\n"
        f"            {WITHOUT_CARRIES[name]}\n            R[t, u] = c\n    return R\n",
        {"n": 4, "m": 5, "k": 3},
    )
    for wrt in "QGw":
        attc("verify", path, "-w", "--grad", "-D", "n=4,m=5,k=3", "--wrt", wrt)


def test_results_without_carries(tmp_path):
    """Several results that the outer loop only repeats: each hands its adjoint to the body."""
    check_text(
        tmp_path,
        "def F(Q[n], w[m]):\n    a = 1.0\n    scan t in n:\n        a = a * 0.5 + Q[t]\n"
        "        c = 0.0\n        scan u in m:\n            T[u] = tanh(w[u])\n"
        "            c = c * 0.5 + T[u]\n            R[t, u] = c\n"
        "        Z[t] = sum(T[m] * w, reduced_dim=m)\n    return R, Z\n",
        {"n": 4, "m": 5},
    )


def test_inner_update_without_carry(tmp_path):
    """The square takes the place of what it is made of, which the loop backwards wants as well."""
    check_text(
        tmp_path,
        "def F(H[n, m, k], v[k]):\n    a[k] = v\n    scan t in n:\n        c = 0.0\n"
        "        scan u in m:\n            s = sum(a * H[t, u, k], reduced_dim=k)\n"
        "            c = s * s\n            R[t, u] = s * s\n        a = tanh(a * v) * c\n"
        "    return a, R\n",
        {"n": 3, "m": 2, "k": 4},
    )


def test_adjoint_without_the_inner_dim(tmp_path):
    """The outer steps backwards are tasks: a stage stores the carry and what has the inner dim."""
    check_text(
        tmp_path,
        "def F(Q[n, k], G[m, k]):\n    a[k] = zeros[k]\n    scan t in n:\n        c = 0.0\n"
        "        scan u in m:\n            c = c * 0.5 + sum(G[u, k] * a, reduced_dim=k)\n"
        "            R[t, u] = c\n        a = a + Q[t, k]\n    return R\n",
        {"n": 5, "m": 3, "k": 4},
    )


# More of them than one value may have: 19 with that of the scan.
def test_einsum_of_many_dims(tmp_path):
    letters = "abcdefghijklmopqrs"
    sizes = {dim: 2 if dim in "afkq" else 1 for dim in letters} | {"n": 3}
    groups = [", ".join(letters[i : i + 5]) for i in (0, 5, 10)]
    path = tmp_path / "many.attn"
    path.write_text(f"""
def F(X[n, {groups[0]}], Y[n, {groups[1]}], Z[n, {groups[2]}], W[q, r, s]):
    S = ones[q, r, s]
    scan t in n:
        S = 0.5 + einsum(X[t, {groups[0]}], Y[t, {groups[1]}], Z[t, {groups[2]}],
                         W[q, r, s], S[q, r, s] -> [q, r, s])
    return S[q, r, s]
""")
    given = ",".join(f"{dim}={size}" for dim, size in sizes.items())
    check(path, draw(Entry(path), sizes, 1), tmp_path, "-D", given)


# A scan for each layer: more than a value may have dims.
def test_many_scans(tmp_path):
    text = """dim layers = 40, d = 3
def Main(X[n, d], W[layers, d]):
    for layer in layers:
        s[d] = zeros[d]
        scan t in n:
            s[d] = s * W[layer, d] + X[t, d]
            Y[t, d] = tanh(s)
        X[n, d] = X + 0.1 * Y
    return X[n, d]
"""
    path = check_text(tmp_path, text, {"n": 5, "d": 3, "layers": 40})
    attc("verify", path, "-w", "-D", "n=5")


# Scans one after the other inside of another one, in one kernel.
def test_many_inner_scans(tmp_path):
    text = """dim layers = 15, d = 3
def Main(X[n, d], Z[m, d], W[layers, d]):
    s[d] = zeros[d]
    scan t in n:
        for layer in layers:
            scan u in m:
                s[d] = 0.5 * s + tanh(W[layer, d] * (X[t, d] + Z[u, d]))
        Y[t, d] = s
    return Y[n, d]
"""
    path = check_text(tmp_path, text, {"n": 3, "m": 2, "d": 3, "layers": 15})
    attc("verify", path, "-w", "-D", "n=3,m=2")
