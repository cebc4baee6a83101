# SPDX-License-Identifier: Apache-2.0
"""Layers over one sequence without parameters, where features count as positions, too: values are
read under the names of queries, of the memory, and of both."""

import pytest

from attc import attc

PROGRAMS = {
    "residual_of_means": """
def Main(x[n, d]):
    W[n, n'] = softmax(einsum(x[n, d], x[n', d] -> [n, n']), reduced_dim=n')
    a[n, d] = einsum(W[n, n'], x[n', d] -> [n, d])
    return a - mean(a, reduced_dim=d) + einsum(W[n, n'], a[n', d] -> [n, d])
""",
    "normalised_queries": """
def Main(x[n, d], P[d', d]):
    v[n, d] = einsum(x[n, d'], P[d', d])
    u = v * rsqrt(mean(v ** 2, reduced_dim=d) + 1e-6)
    W[n, n'] = softmax(einsum(u[n, d], u[n', d] -> [n, n']), reduced_dim=n')
    return einsum(W[n, n'], x[n', d] -> [n, d])
""",
    "linear": """
def Main(x[n, d]):
    W[n, n'] = einsum(x[n, d], x[n', d] -> [n, n'])
    a[n, d] = einsum(W[n, n'], x[n', d] -> [n, d])
    v[n, d] = a / sum(x ** 2, reduced_dim=d)
    S[n, n'] = einsum(v[n, d], a[n', d] -> [n, n'])
    return einsum(S[n, n'], x[n', d] -> [n, d])
""",
    "sum_of_residual": """
dim e like d
def Main(x[n, d], P[d, e]):
    y[n, e] = einsum(x[n, d], P[d, e])
    W[n, n'] = softmax(einsum(y[n, e], y[n', e] -> [n, n']), reduced_dim=n')
    return sum(y + einsum(W[n, n'], y[n', e] -> [n, e]), reduced_dim=(n, e))
""",
    "two_matrices": """
def Main(x[n, d], P[d', d], S[d', d]):
    v[n, d] = einsum(x[n, d'], P[d', d])
    t = tanh(v)
    w[n, d] = einsum(t[n, d'], S[d', d])
    return sum(w, reduced_dim=d)
""",
}


@pytest.mark.parametrize("sizes", ["n=16,d=8", "n=9,d=4", "n=40,d=3", "n=100,d=16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name, sizes, tmp_path):
    path = tmp_path / "one.attn"
    path.write_text(PROGRAMS[name])
    for options in [], ["--dynamic", "n"], ["--grad"]:
        attc("verify", path, "-w", "-D", sizes, *options)
