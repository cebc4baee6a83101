# SPDX-License-Identifier: Apache-2.0
"""Calls against NumPy: dims bound by hand, by name, by kind and by place, several results."""
import numpy as np
import pytest

from attc import attc

N, K, H, D, B = 5, 6, 3, 4, 2
rng = np.random.default_rng(7)
Q = rng.standard_normal((N, K, H)).astype(np.float32)
X = rng.standard_normal((B, N, D)).astype(np.float32)
s = rng.standard_normal(D).astype(np.float32)
W = rng.standard_normal((D, D)).astype(np.float32)
S = rng.standard_normal((N, N, H)).astype(np.float32)

# Weights that tell every position from every other.
DEFS = """
def Weigh(x[n, d]):
    return x * (1 + index(n)) + index(d)

dim m like n

def Pairs(x[n, m]):
    return x * (1 + index(n)) + index(m)

def Mix(x[n, d], P[d, e]):
    return einsum(x[n, d], P[d, e] -> [n, e])

def Step(X[n, d], S[d]):
    T[d] = S + sum(X, reduced_dim=n)
    return X * T, T

dim w, half = n / 2, half_w = w / 2, tail_w = w - 1

def Halves(x[n, d]):
    A[half, d] = slice(x, n, 0, half)
    return sum(A, reduced_dim=half)

def BothHalves(x[n, d], y[w, d]):
    return Halves(x) - 2 * Halves(y, half=half_w)

def Tail(x[n, d]):
    A[tail, d] = slice(x, n, 1, n)
    return sum(A, reduced_dim=tail)
"""
n, k, h = np.ogrid[:N, :K, :H]


def step(x, state):
    state = state + x.sum(-2)
    return x * state[..., None, :], state


def loop(x, state):
    for _ in range(3):
        x, state = step(x, state)
    return x, state


# name -> (parameters, lines that end with the results R0, R1, ..., arrays, what these are)
CASES = {
    "hand": ("Q[n, k, h]", ["R0[n, k, h] = Weigh(Q, d=k)"], {"Q": Q}, [Q * (1 + n) + k]),
    "hand-all": ("Q[n, k, h]", ["R0[n, k, h] = Weigh(Q, n=h, d=k)"], {"Q": Q}, [Q * (1 + h) + k]),
    "name": ("Q[d, k, n]", ["R0[d, k, n] = Weigh(Q)"], {"Q": Q}, [Q * (1 + h) + n]),
    "brackets": ("Q[n, k, h]", ["R0[n, k, h] = Weigh(Q[h, n, k])"], {"Q": Q}, [Q * (1 + n) + k]),
    "kind": ("Q[m, k, h]", ["R0[m, k, h] = Weigh(Q, d=k)"], {"Q": Q}, [Q * (1 + n) + k]),
    "kind-of-primes": (
        "S[n, n', h]",
        ["R0[n, n', h] = Pairs(S)"],
        {"S": S},
        [S * (1 + n) + k[:, :N]],
    ),
    "place": ("A[t, f]", ["R0[t, f] = Weigh(A[f, t])"], {"A": Q[0]}, [Q[0] * (1 + h[0]) + k[0]]),
    "two": ("A[t, d], P[d, f]", ["R0[t, f] = Mix(A, P, n=t)"], {"A": X[0], "P": W}, [X[0] @ W]),
    "transposed": ("A[n, d], P[e, d]", ["R0 = Mix(A, P)"], {"A": X[0], "P": W}, [X[0] @ W.T]),
    "results": (
        "X[b, n, d], s[d]",
        ["R0[b, n, d], R1 = Step(X, s)"],
        {"X": X, "s": s},
        step(X, s),
    ),
    "one-of-the-results": (
        "X[b, n, d], s[d]",
        ["_, R0 = Step(X, s)"],
        {"X": X, "s": s},
        step(X, s)[1:],
    ),
    "carried-results": (
        "X[b, n, d], s[d]",
        [
            "R0[b, n, d] = X",
            "R1[b, d] = s + 0 * sum(X, reduced_dim=n)",
            "for i in rounds:",
            "    R0, R1 = Step(R0, R1)",
        ],
        {"X": X, "s": s},
        loop(X, s + np.zeros((B, D), np.float32)),
    ),
    "computed": ("G[w, d]", ["R0 = Halves(G)"], {"G": W}, [W[:2].sum(0)]),
    "computed-for-each": (
        "A[n, d], G[w, d]",
        ["R0 = Halves(A)", "R1 = Halves(G, half=half_w)"],
        {"A": Q[0], "G": W[:2, :3]},
        [Q[0, :3].sum(0), W[:1, :3].sum(0)],
    ),
    "computed-for-all": (
        "A[w, d], G[w, d]",
        ["R0 = Halves(A)", "R1 = Halves(G)"],
        {"A": W, "G": -W},
        [W[:2].sum(0), -W[:2].sum(0)],
    ),
    "computed-in-a-def": (
        "A[n, d], G[w, d]",
        ["R0 = BothHalves(A, G)", "R1 = BothHalves(G, A, half=half_w, half_w=half)"],
        {"A": Q[0], "G": W[:2, :3]},
        [Q[0, :3].sum(0) - 2 * W[0, :3], W[0, :3] - 2 * Q[0, :3].sum(0)],
    ),
    "own-for-each": (
        "A[n, d], G[w, d]",
        ["R0 = Tail(A)", "R1 = Tail(G, tail=tail_w)"],
        {"A": Q[0], "G": W[:, :3]},
        [Q[0, 1:].sum(0), W[1:, :3].sum(0)],
    ),
    "own-for-all": (
        "A[w, d], G[w, d]",
        ["R0 = Tail(A)", "R1 = Tail(G)"],
        {"A": W, "G": -W},
        [W[1:].sum(0), -W[1:].sum(0)],
    ),
}


@pytest.mark.parametrize("how", [[], ["--oracle"]], ids=["compiled", "oracle"])
@pytest.mark.parametrize("name", CASES)
def test_call(name, how, tmp_path):
    parameters, lines, arrays, wanted = CASES[name]
    results = [f"R{i}" for i in range(len(wanted))]
    lines = [f"def Main({parameters}):", *[f"    {line}" for line in lines]]
    source = tmp_path / "call.attn"
    source.write_text(
        f"dim rounds = 3\n{DEFS}\n" + "\n".join(lines) + f"\n    return {', '.join(results)}\n"
    )
    for argument, array in arrays.items():
        np.save(tmp_path / f"{argument}.npy", array)
    given = [f"{argument}={tmp_path / argument}.npy" for argument in arrays]
    outs = [option for r in results for option in ("-o", f"{r}={tmp_path / r}.npy")]
    attc("run", source, "--entry", "Main", *how, *outs, *given)
    for result, want in zip(results, wanted):
        np.testing.assert_allclose(np.load(tmp_path / f"{result}.npy"), want, rtol=2e-5, atol=2e-5)
