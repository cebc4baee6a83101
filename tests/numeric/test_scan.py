# SPDX-License-Identifier: Apache-2.0
"""Scans against NumPy loops: compiled with constant and run-time extents, and by the oracle."""
import re

import numpy as np
import pytest

from attc import attc, attc_json, extents_options
from scan_cases import CASES, EXTENTS


def run(tmp_path, source, arrays, results, *options):
    for argument, array in arrays.items():
        np.save(tmp_path / f"{argument}.npy", array)
    given = [f"{argument}={tmp_path / argument}.npy" for argument in arrays]
    outs = [option for r in results for option in ("-o", f"{r}={tmp_path / r}.npy")]
    attc("run", source, "--entry", "Main", *options, *outs, *given)
    return [np.load(tmp_path / f"{r}.npy") for r in results]


@pytest.mark.parametrize("how", ["run-time", "constant", "one thread", "oracle"])
@pytest.mark.parametrize("name", CASES)
def test_scan(name, how, tmp_path):
    text, returned, arrays, wanted = CASES[name]
    source = tmp_path / "scan.attn"
    source.write_text(f"{text}    return {returned}\n")
    results = [r.split("[")[0].strip() for r in returned.split("], ")]
    options = {
        "run-time": ["--threads", 2],
        "constant": [o for d, x in EXTENTS.items() for o in extents_options({d: x})],
        "one thread": ["--threads", 1],
        "oracle": ["--oracle"],
    }[how]
    if how == "constant":
        options = ["-w", *options]
    for got, want in zip(run(tmp_path, source, arrays, results, *options), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5)


TRAINED = """
dim d = 8, layers = 2
def Cell(s[d], x[d]):
    param W[d, d'], U[d, d']
    u[d'] = tanh(einsum(s[d], W[d, d']) + einsum(x[d], U[d, d']))
    return u[d]
def Main(X[n, d]):
    for i in layers:
        s[d] = 0 * sum(X, reduced_dim=n)
        scan t in n:
            s = Cell(s, X[t, d]) as cell
            Y[t, d] = s
        X = X + Y
    return X[n, d]
"""


def test_parameters_are_one_set(tmp_path):
    """All steps share what a call in the body has, layers do not."""
    source = tmp_path / "cells.attn"
    source.write_text(TRAINED)
    text = attc("emit", source, "--stage", "graph")[0]
    for name in ("i__0__t__cell__W", "i__1__t__cell__U"):
        assert name in text
    assert text.count("param ") == 4
    attc("verify", source, "-D", "n=9")


# Scans inside of others: carries of which some need those outside, results read in the same step,
# two one after the other; what is carried is read at other positions.
TANGLED = """
def F(X[n, d], Z[m, d], A[d], w[m]):
    a[d] = A
    scan t in n:
        s[d] = X[t, d]
        r[d] = zeros[d]
        scan u in m:
            r = r * 0.5 + Z[u, d]
            s = s * 0.3 + r * a
            P[u, d] = r * w[u]
            G[t, u, d] = r + s
        a = tanh(s)
        Y[t, d] = a + sum(P[m, d], reduced_dim=m) * X[t, d]
        Q[t, d] = r + X[t, d]
        R[t] = t * w[0]
    return Y[n, d], Q[n, d], G[n, m, d], R[n], a[d]
def H(X[n, d], Z[m, d], A[d]):
    a[d] = A
    scan t in n:
        a = a * 0.5 + X[t, d]
        b[d] = a * a
        s[d] = b
        scan u in m:
            s = s * Z[u, d] + b
        c[d] = exp(-b) + s
        r[d] = c
        scan u in m:
            r = r * 0.5 + c * Z[u, d]
            V[t, u] = sum(r, reduced_dim=d)
        a = tanh(r)
    return a[d], V[n, m]
def K(X[n, d], A[n, d]):
    S[n, d] = A
    scan t in n:
        L[n'] = einsum(S[n', d], X[t, d])
        W[n'] = softmax(L, reduced_dim=n')
        S[n, d] = S[n, d] + W[n] * X[t, d]
        Y[t] = max(W, reduced_dim=n')
    scan t in n:
        S[n, d] = S[n, d] * Y[t] + S[t, d]
    return S[n, d], Y[n]
"""


# What needs no carry: alone in its scan, in a scan inside, read at other positions and summed.
FREE = """
def Alone(X[n, d]):
    scan t in n:
        Y[t, d] = X[t, d] * t
    return sum(Y, reduced_dim=n), Y[n, d]
def Beside(X[n, d], A[n, n', d]):
    S[d] = zeros[d]
    scan t in n:
        Y[t, d] = X[t, d] * 2
        Z[n', t, d] = A[t, n', d] * 3
        S = S + Y[t, d]
    q = einsum(Y[n, d], Y[n, d'] -> [d, d'])
    return S[d], Z[n', n, d], q[d, d']
def Inside(X[n, d], Z[m, d]):
    scan t in n:
        s[d] = X[t, d]
        scan u in m:
            P[t, u, d] = X[t, d] - Z[u, d]
            s = s * 0.5 + P[t, u, d]
        R[t, d] = s + max(P[t, m, d], reduced_dim=m)
    scan t in n:
        Q[d, t] = R[t, d] * sum(P[t, m, d], reduced_dim=m)
    return P[n, m, d], R[n, d], Q[d, n]
def Positions(X[n], Y[m]):
    scan t in n:
        i[t] = t
        scan u in m:
            j[t, u] = X[t] * u - t
    return i[n], j[n, m]
"""


def printed_again(source, *options):
    """The text of the graph, and of the graph of that text."""
    once, _ = attc("emit", source, "--stage=graph", "-w", *options)
    return once, attc("emit", "-", "--stage=graph", "-w", stdin=once)[0]


@pytest.mark.parametrize("entry", ["Alone", "Beside", "Inside", "Positions"])
def test_what_needs_no_carry(entry, tmp_path):
    source = tmp_path / "free.attn"
    source.write_text(FREE)
    once, again = printed_again(source, "--entry", entry)
    assert once == again
    printed = tmp_path / "printed.attn"
    printed.write_text(once)
    for path in (source, printed):
        attc("verify", path, "-w", "--entry", entry, "-D", "n=5,m=4,d=6")


@pytest.mark.parametrize("name", CASES)
def test_printed_scans_are_source(name, tmp_path):
    source = tmp_path / "scan.attn"
    source.write_text(f"{CASES[name][0]}    return {CASES[name][1]}\n")
    once, again = printed_again(source, "--entry", "Main")
    assert once == again


@pytest.mark.parametrize("entry", "FHK")
def test_printed_tangles_are_source(entry, tmp_path):
    source = tmp_path / "tangled.attn"
    source.write_text(TANGLED)
    once, again = printed_again(source, "--entry", entry)
    assert once == again


@pytest.mark.parametrize("order", ["", " reversed"])
@pytest.mark.parametrize("entry", "FHK")
@pytest.mark.parametrize("how", [["--threads", 2], ["--interpret"], ["--dynamic", "n,m,d"]])
def test_tangled_scans(entry, how, order, tmp_path):
    source = tmp_path / "tangled.attn"
    source.write_text(re.sub("(scan t in n|scan u in m)", rf"\1{order}", TANGLED))
    attc("verify", source, "-w", "--entry", entry, *how, "-D", "n=9,m=5,d=17")
    attc("verify", source, "-w", "--entry", entry, *how, "-D", "n=1,m=1,d=1")


def test_cost_counts_steps(tmp_path):
    """A scan's positions are those of its dim, and no dim of the user's."""
    source = tmp_path / "scan.attn"
    source.write_text(TANGLED)
    cost = [attc_json("cost", source, "--entry", "H", "-D", f"n={n},m=3,d=4") for n in (10, 20)]
    assert list(cost[0]["dims"]) == ["n", "d", "m"]
    assert 1.9 < cost[1]["flops"] / cost[0]["flops"] <= 2


# Halves, f64, whole numbers and bool are carried; tokens are taken one after the other.
TYPED = """
def G(X[n, d]: bf16, A[d]: f16, ids[n]: i32, B[d]: f64, E[v, d]):
    a[d]: f16 = A
    seen[v] = index(v) < 0
    count[v]: i32 = 0 * i32(index(v))
    z[d]: f64 = B
    token = 0 * v
    scan t in n:
        a = f16(tanh(f32(a) * 0.5 + f32(X[t, d])))
        seen = seen or index(v) == ids[t]
        count = count + i32(where(index(v) == ids[t], 1, 0))
        z = z * 0.25 + f64(a)
        logits[v] = where(seen, -inf, einsum(E[v, d], f32(a[d])))
        token = i64(argmax(logits, reduced_dim=v))
        Y[t, d]: bf16 = bf16(f32(a))
        T[t] = token
    return a[d], z[d], count[v], Y[n, d], T[n], where(seen[v], 1, 0)
"""


@pytest.mark.parametrize("how", [["--threads", 2], ["--interpret"], ["--dynamic", "n,v,d"]])
def test_element_types_that_are_carried(how, tmp_path):
    source = tmp_path / "typed.attn"
    source.write_text(TYPED)
    attc("verify", source, "-w", *how, "-D", "n=17,v=11,d=9")
