# SPDX-License-Identifier: Apache-2.0
"""Programs of thousands of operations: on a small stack, in a time that grows with their length."""

import os
import resource
import subprocess
from math import inf

import pytest

from attc import SANITIZED, attc

STACK = 256 << 10
SECONDS = 60  # of a processor; each program takes less than a second
MEMORY = 512 << 20

# One kernel, 20,000 operations: a scan is never cut.
CHAIN = """
dim steps = 9900, n = 64
def Main(X[n], Y[n], Z[t, n]):
    scan s in t:
        X = X + Z[s, n]
        for i in steps:
            X = Y - X * 0.5
    return X[n]
"""

# Two values or three in each round.
TANH = {
    "pointwise": """
dim steps = 4000
def Main(X[n, d]):
    for i in steps:
        X = tanh(X * 1.01 + 0.01)
    return sum(X, reduced_dim=(n, d))
""",
    "rows": """
dim steps = 1000
def Main(X[n, d]):
    for i in steps:
        X = tanh(X - max(X, reduced_dim=d))
    return X
""",
}

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


def limited(*arguments, source, stack=STACK, memory=resource.RLIM_INFINITY, status=0):
    """attc on a small stack; its time and the time of its children is limited."""

    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

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


@pytest.mark.parametrize("options", [[], ["--grad"]], ids=str)
@pytest.mark.parametrize("kind", TANH)
def test_a_chain_is_cut_into_kernels(kind, options):
    """A kernel has 128 values at most, and what is joined to it counts."""
    tile = limited("emit", "-", "--stage=tile", *options, source=TANH[kind]).stdout
    rounds = [kernel.count("tanh(") for kernel in tile.split("\nkernel ")]
    assert 1 < max(rounds) <= 128 // 2
    assert sum(count > 1 for count in rounds) > 2


@pytest.mark.parametrize("options", [[], ["--grad"]], ids=str)
def test_a_pointwise_chain_is_compiled(tmp_path, options):
    """What LLVM takes for one kernel of all would be minutes."""
    limited("emit", "-", "--stage=obj", "-o", tmp_path / "chain.o", "--no-cache", *options,
            source=TANH["pointwise"])


@pytest.mark.parametrize("kind", TANH)
def test_results_of_kernels_that_a_chain_is_cut_into(kind, tmp_path):
    path = tmp_path / "tanh.attn"
    path.write_text(TANH[kind])
    attc("verify", path, "-D", "steps=100,n=9,d=11", "--grad")


# Weights that the backward pass computes in two sweeps, a long way from the logits: the gradient of
# a bias by distance is in parts, for which those of K and V are too large.
LOGITS = f"""
dim n = 1048576, m = n, d = 64, b = 32
def Main(Q[n, d], K[m, d], V[m, d], param B[b]):
    bias[n, m] = gather(B, min(max(index(m) - index(n), 0), 31), dim=b)
    L0[n, m] = einsum(Q[n, d], K[m, d]) + bias
{"".join(f"    L{i + 1} = tanh(L{i})" + chr(10) for i in range(6000))}
    return einsum(softmax(L6000, reduced_dim=m), V[m, d] -> [n, d])
"""


def test_a_chain_of_logits_needs_no_stack():
    fused = limited("emit", "-", "--stage=fused", "--grad", source=LOGITS).stdout
    assert fused.count("tanh") >= 2 * 6000


@pytest.mark.parametrize("name", DEEP)
def test_expressions_in_a_chain_need_no_stack_for_each_other(name):
    done = limited("check", "-", source=DEEP[name], stack=4 * STACK)  # enough for one of them
    assert done.stderr == ""


def test_an_entry_has_a_limit():
    """Calls are put in place of what they call, one around the other."""
    entry = ["check", "-", "--entry=F0"]
    done = limited(*entry, source=DEEP["calls"], stack=32 * STACK, status=1)
    assert "10:12: error: expressions and calls nest deeper than 2000 levels\n" in done.stderr


def test_top_level_params_are_not_copied():
    """Each def knows of all of them, and uses one."""
    count = 20000
    params = "".join(f"param p{i}[n] = 0\n" for i in range(count))
    defs = "".join(f"def F{i}(X[n]):\n    return X + p{i}\n" for i in range(count))
    assert limited("check", "-", source=params + defs).stderr == ""


@pytest.mark.parametrize("name", PATHS)
def test_paths_are_not_counted(name):
    assert "kernel" in limited("emit", "-", "-w", "--stage=tile", source=PATHS[name]).stdout


# What warnings ask of the names that a value was made of.
MADE_OF = {
    "outer": ("X + Y40", "[-Wouter]"),
    "extent": ("Y40 * (n - m)", "[-Wextent]"),
}


@pytest.mark.parametrize("kind", sorted(MADE_OF))
def test_names_are_followed_once(kind):
    result, warning = MADE_OF[kind]
    lines = [f"    Y{i}[m, d] = {' * '.join([f'Y{i - 1}'] * 4)}" for i in range(1, 41)]
    run = limited("check", "-", source="\n".join([
        "dim m like n", "def Main(X[n, d], W[n, m]):",
        "    Y0 = einsum(W[n, m], X[n, d] -> [m, d])", *lines, f"    return {result}"]))
    assert warning in run.stderr


def test_results_of_a_long_chain(tmp_path):
    path = tmp_path / "chain.attn"
    path.write_text(CHAIN)
    attc("verify", path, "-D", "steps=1000")


def processor_time(usage):
    """In programs and in the kernel for them: the sum is exact, its parts are counted by ticks."""
    return usage.ru_utime + usage.ru_stime


def processor_seconds(*arguments, runs=3, **options):
    """The least that a command takes of several times."""
    least = SECONDS
    for _ in range(runs):
        before = processor_time(resource.getrusage(resource.RUSAGE_CHILDREN))
        limited(*arguments, **options)
        after = processor_time(resource.getrusage(resource.RUSAGE_CHILDREN))
        least = min(least, after - before)
    return least


def wrong_ifs(count):
    lines = "".join(f"    if X > {i}:\n        Y[n] = X * 2\n" for i in range(count))
    return f"def F(X[n]):\n    Y[n] = X\n{lines}    return Y[n]\n"


def computed(count, extent):
    """A dim that the file computes in a chain of others, from another dim at each of two calls."""
    chain = "".join(f"dim a{i} = {extent.format(f'a{i - 1}')}\n" for i in range(1, count + 1))
    return f"""{chain}
def Of(X[a0, d]):
    A[a{count}] = index(a{count})
    return X * sum(A, reduced_dim=a{count})
def Main(X[b, d], Y[c, d]):
    A = Of(X)
    B = Of(Y)
    return A, B
"""


def slices(count):
    """Each says an extent of its own, and that it fits into n."""
    lines = "".join(f"    A{i}[r{i}] = slice(X, n, {i}, {i + 2})\n" for i in range(count))
    sums = "".join(f"    s{i + 1} = s{i} + sum(A{i}, reduced_dim=r{i})\n" for i in range(count))
    return f"def Main(X[n], s0[]):\n{lines}{sums}    return s{count}[]\n"


# Programs, and what becomes of them.
GROWING = {
    "mistakes": (wrong_ifs, 2500, 1),  # the hint for each looks back at the lines of the def
    "computed": (lambda count: computed(count, "{0} + 1"), 2500, 1),
    "slices": (slices, 500, 0),
}


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's time is not the compiler's")
@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_the_length(name):
    program, count, status = GROWING[name]
    few, many = (
        processor_seconds("check", "-", source=program(length), status=status, stack=4 * STACK)
        for length in (count, 8 * count)
    )
    assert many < 4 * 8 * few + 0.1  # its square would be 64 times as long


def test_what_a_computed_dim_is_made_of_is_not_counted():
    """60 doublings are more places than anyone can count, and nobody is shown them."""
    done = limited("check", "-", source=computed(60, "{0} + {0}"), status=1)
    assert "'a60' of 'Of' is computed from other dims here than elsewhere" in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 200


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is not the compiler's")
@pytest.mark.parametrize("function", ["frac", "trunc", "cbrt", "asinh"])
def test_texts_of_hints_do_not_double(function):
    """What each call means has what stands before it several times."""
    calls = f".{function}()" * 40
    source = f"def F(X[n]):\n    return X{calls}\n"
    done = limited("check", "-", source=source, memory=MEMORY, status=1)
    assert f"hint: {function}(x) is '" in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 500


NESTED = {
    "brackets": ("X[{}]", "0"),
    "products": ("(S @ {})", "S"),
    "calls": ("relu({})", "X.T"),
    "bounds": ("X.clamp({})", "0"),
    "pieces": ("{}.max(0)[0]", "X"),
    "shapes": ("X.view({}.shape[0], -1)", "X"),
    "steps": ("X[{}:n:2]", "0"),
}


@pytest.mark.parametrize("name", NESTED)
def test_hints_read_what_is_nested_once(name):
    form, value = NESTED[name]
    for _ in range(40):
        value = form.format(value)
    source = f"dim m like n\ndef F(X[n, d], S[n, m]):\n    Y = torch.tanh({value})\n    return Y\n"
    assert processor_seconds("check", "-", runs=1, source=source, status=1, stack=4 * STACK) < 2


# A block as in Gemma: grouped heads, rotary positions, capped logits, a gate, a norm on each side.
BLOCKS = """
dim d = 256, h = 4, g = 2, k = 64, f = 1024
dim m like n
def Attention(X[n, d]):
    param P_q[d, g, h, k] ~ glorot, P_k[d, g, k] ~ glorot, P_v[d, g, k] ~ glorot
    param P_o[g, h, k, d] ~ glorot
    Q[n, g, h, k] = rotary(einsum(X[n, d], P_q[d, g, h, k] -> [n, g, h, k]), d=k)
    K[n, g, k] = rotary(einsum(X[n, d], P_k[d, g, k] -> [n, g, k]), d=k)
    V[n, g, k] = einsum(X[n, d], P_v[d, g, k])
    L[n, m, g, h] = einsum(Q[n, g, h, k], K[m, g, k]) / sqrt(k)
    W[n, m, g, h] = softmax(where(index(m) <= index(n), softcap(L, 50), -inf), reduced_dim=m)
    return einsum(W[n, m, g, h], V[m, g, k], P_o[g, h, k, d] -> [n, d])
def FeedForward(X[n, d]):
    param W_g[d, f] ~ glorot, W_u[d, f] ~ glorot, W_o[f, d] ~ glorot
    H[n, f] = gelu_tanh(einsum(X[n, d], W_g[d, f] -> [n, f])) * einsum(X[n, d], W_u[d, f] -> [n, f])
    return einsum(H[n, f], W_o[f, d] -> [n, d])
def Main(X[n, d]):
    for layer in layers:
        X = X + rms_norm(Attention(rms_norm(X) as before)) as after_attention
        X = X + rms_norm(FeedForward(rms_norm(X) as before_ffn)) as after_ffn
    return X[n, d]
"""


# Scans that hand on what they carry, and what they write.
SCANS = """
dim n = 64, d = 8
def Main(X[n, d], C[d]):
    for i in layers:
        param A[d] ~ glorot
        scan t in n:
            C = C * A + X[t, d]
            Y[t, d] = tanh(C) * X[t, d]
        X = Y
    return X[n, d], C[d]
"""


def milliseconds(source, layers, options):
    """What each pass up to fusion takes, the least of three times."""
    stage = ["--stage=fused", "--time-passes", "-D", f"layers={layers}", *options]
    least = {}
    for _ in range(3):
        done = limited("emit", "-", "-w", *stage, source=source)
        for line in done.stderr.splitlines():
            if " ms" in line:
                name, time = line.split()[:2]
                least[name] = min(float(time), least.get(name, inf))
    return least


GROWING_LAYERS = {"layers": (LAYERS, 100), "blocks": (BLOCKS, 25), "scans": (SCANS, 64)}


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's time is not the compiler's")
@pytest.mark.parametrize("options", [[], ["--grad"]], ids=["forward", "gradients"])
@pytest.mark.parametrize("name", GROWING_LAYERS)
def test_time_grows_with_the_number_of_layers(name, options):
    source, count = GROWING_LAYERS[name]
    for _ in range(3):  # others may keep the processor
        few = milliseconds(source, count, options)
        many = milliseconds(source, 8 * count, options)
        # Its square would be 64 times as long.
        slow = [p for p in many if many[p] >= 4 * 8 * few[p] + 100]
        if not slow:
            break
    assert slow == []


def build_cost(source, out, layers):
    """Bytes and seconds of a processor that building a library for all levels takes."""
    command = ["build", source, "--object", "-o", out, "--no-cache", "-w", "-D", f"layers={layers}"]
    child = subprocess.Popen([os.environ["ATTC"], *command])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    assert status == 0
    return usage.ru_maxrss << 10, processor_time(usage)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is not the compiler's")
def test_layers_that_repeat_cost_little_to_build(tmp_path):
    source = tmp_path / "blocks.attn"
    source.write_text(BLOCKS)
    first, first_time = build_cost(source, tmp_path / "1.o", 1)
    all_bytes, all_time = build_cost(source, tmp_path / "200.o", 200)
    assert all_bytes < 150 << 20 and all_bytes - first < 90 << 20
    assert all_time < 4 * first_time + 1
