# SPDX-License-Identifier: Apache-2.0
"""Programs of thousands of operations: on a small stack, in a time that grows with their length."""

import os
import resource
import subprocess

import pytest

from attc import attc

STACK = 256 << 10
SECONDS = 60  # of a processor; each program takes less than a second

# One kernel of pointwise values, 20,000 operations.
CHAIN = """
dim steps = 9900, n = 64
def Main(X[n], Y[n]):
    for i in steps:
        X = Y - X * 0.5
    return X[n]
"""

# Every value is used twice, so that the paths through the chain are more than anyone can count.
PATHS = {
    "scalars": """
dim steps = 5000
def Main(X[n]):
    s = f32(n) * 0.001
    for i in steps:
        s = s * s + s + i
    return X[n] * s
""",
    "rows": """
dim steps = 5000
def Main(X[n, d]):
    for i in steps:
        X = X * X + X
    return sum(X, reduced_dim=d)
""",
    "prologue": """
dim steps = 5000
def Main(X[n, d], P[d, k], s[]):
    for i in steps:
        s = s * s + s
    return einsum(X[n, d] * s, P[d, k] -> [n, k])
""",
    "epilogue": """
dim steps = 5000
def Main(X[n, d], P[d, k]):
    Y[n, k] = einsum(X[n, d], P[d, k])
    for i in steps:
        Y = Y * Y + Y
    return Y[n, k]
""",
    "logits": """
dim d = 32, k = 16, steps = 60
dim m like n
def Main(X[n, d], param P[d, k], param R[d, k]):
    L[n, m] = einsum(X[n, d], P[d, k], X[m, d], R[d, k])
    for i in steps:
        L = tanh(L * L + L)
        L = where(index(m) + i <= index(n) + 2 * i, L, -inf)
    return einsum(softmax(L[n, m], reduced_dim=m), X[m, d] -> [n, d])
""",
    "conditions": """
dim d = 32, k = 16, steps = 60
dim m like n
def Main(X[n, d], param P[d, k], param R[d, k]):
    L[n, m] = einsum(X[n, d], P[d, k], X[m, d], R[d, k])
    at[m] = index(m)
    c[n, m] = at[m] <= index(n)
    for i in steps:
        c = c and (at[m] <= index(n) + i or c)
        at = at + at
    W[n, m] = softmax(where(c[n, m], L[n, m], -inf), reduced_dim=m)
    return einsum(W[n, m], X[m, d] -> [n, d])
""",
}

LAYERS = """
dim n = 16, d = 8, k = 8
dim m like n
def Attend(X[n, d]):
    param P_q[d, k] ~ glorot, P_k[d, k] ~ glorot, P_v[d, k] ~ glorot, P_o[d, k] ~ glorot
    W[n, m] = softmax(einsum(X[n, d], P_q[d, k], X[m, d], P_k[d, k]), reduced_dim=m)
    O[n, k] = einsum(W[n, m], X[m, d], P_v[d, k])
    return einsum(O[n, k], P_o[d, k] -> [n, d])
def Main(X[n, d]):
    for i in layers:
        X = X + Attend(norm(X))
    return X[n, d]
"""


ONES = " + 1" * 490  # as deep as an expression may be, but for what stands before it

# Chains from one expression to the next: each is deep, and all together are deeper than any stack.
DEEP = {
    "calls": (
        "".join(f"def F{i}(X[n]):\n    return F{i + 1}(X){ONES}\n" for i in range(300))
        + "def F300(X[n]):\n    return X\n"
    ),
    "extents": (
        "".join(f"dim a{i} = a{i + 1}{ONES}\n" for i in range(300))
        + "dim a300 = 1\ndef F(X[a0]):\n    return X\n"
    ),
}


def limited(*arguments, source, stack=STACK, status=0):
    """attc on a small stack; its time and the time of its children is limited."""

    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    done = subprocess.run(
        [os.environ["ATTC"], *map(str, arguments)],
        input=source,
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert done.returncode == status, done.stderr[-2000:]
    return done


def test_a_chain_needs_no_stack():
    kernel = limited("emit", "-", "--stage=tile", source=CHAIN).stdout
    assert kernel.count("Y - ") == 9900


def test_a_chain_is_compiled_without_stack(tmp_path):
    out = tmp_path / "chain.o"
    limited("emit", "-", "--stage=obj", "-D", "steps=1500", "-o", out, "--no-cache", source=CHAIN)
    assert out.stat().st_size > 0


@pytest.mark.parametrize("name", DEEP)
def test_expressions_in_a_chain_need_no_stack_for_each_other(name):
    done = limited("check", "-", source=DEEP[name], stack=4 * STACK)  # enough for one of them
    assert done.stderr == ""


def test_an_entry_has_a_limit():
    """Calls are put in place of what they call, one around the other."""
    entry = ["check", "-", "--entry=F0"]
    done = limited(*entry, source=DEEP["calls"], stack=32 * STACK, status=1)
    assert "10:12: error: expressions and calls nest deeper than 2000 levels\n" in done.stderr


@pytest.mark.parametrize("name", PATHS)
def test_paths_are_not_counted(name):
    assert "kernel" in limited("emit", "-", "-w", "--stage=tile", source=PATHS[name]).stdout


def test_results_of_a_long_chain(tmp_path):
    path = tmp_path / "chain.attn"
    path.write_text(CHAIN)
    attc("verify", path, "-D", "steps=1000")


def milliseconds(layers):
    """What all passes up to fusion take."""
    stage = ["--stage=fused", "--time-passes", "-D", f"layers={layers}"]
    done = limited("emit", "-", "-w", *stage, source=LAYERS)
    return sum(float(line.split()[1]) for line in done.stderr.splitlines() if " ms" in line)


def test_time_grows_with_the_number_of_layers():
    few = min(milliseconds(100) for _ in range(3))
    many = min(milliseconds(800) for _ in range(3))
    assert many < 4 * 8 * few + 100  # its square would be 64 times as long
