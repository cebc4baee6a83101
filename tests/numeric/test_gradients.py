# SPDX-License-Identifier: Apache-2.0
"""Gradients: compiled code against the oracle, both against derivatives that the oracle finds by
forward mode (`verify --grad`), and every rule against differences of the oracle's results.

Central differences are taken in double precision along a random direction, so that one number tests
every gradient of a program.
"""

import re

import numpy as np
import pytest

from attc import EXAMPLES, ROOT, Entry, attc, attc_json, extents_options, write
from model_twins import MODELS
from pages import codes, numbers, table
from shapes import STATIC, extents

NAMES = sorted({path.stem for path in EXAMPLES.glob("*.attn")} - set(MODELS))  # test_models.py
STEP = 2.0**-13

# One program for each op and each rule that has cases: the body of F(X[n, d], Y[n, d], p[d]).
# X and Y are drawn from a grid without 0, so that no difference crosses a kink.
BODIES = {
    "add-broadcast": "return X + p",
    "sub": "return p - X",
    "mul": "return X * p * Y",
    "div": "return p / (X * X + 1)",
    "neg": "return -X * Y",
    "abs": "return abs(X) * Y",
    "exp": "return exp(X) + exp2(Y)",
    "log": "return log(X * X + 1)",
    "roots": "return sqrt(X * X + 1) * rsqrt(Y * Y + 1)",
    "tanh": "return tanh(X) * sigmoid(Y)",
    "erf": "return erf(X) * gelu(Y)",
    "waves": "return sin(X) * cos(Y)",
    "activations": "return silu(X) + softplus(Y) + relu(X * Y)",
    "floor": "return floor(X) * Y + X // 1",
    "mod": "return (X + 0.25) % 1.5",
    "power": "return (X * X + 1) ** p",
    "min-max": "return min(X, Y) * max(X, p)",
    "clamp": "return max(min(X, 0.75), -0.75)",
    "where": "return where(X < Y, X * p, Y)",
    "cast": "return f32(f64(X) * f64(Y))",
    "sum": "return sum(X * Y, reduced_dim=n)",
    "sum-of-all": "return sum(X * Y, reduced_dim=(n, d))",
    "sum-over-missing": "return sum(p[d] + 0 * X, reduced_dim=n)",
    "mean": "return mean(X, reduced_dim=d) * sum(Y, reduced_dim=d)",
    "prod": "return prod(X, reduced_dim=d)",
    "prod-two-dims": "return prod(X * p, reduced_dim=(n, d))",
    "extrema": "return max(X, reduced_dim=d) * min(Y, reduced_dim=d)",
    "max-number": "return max_number(X * Y, reduced_dim=d) * p",
    "max-of-all": "return max(X, reduced_dim=(n, d)) * X",
    "logsumexp": "return logsumexp(X * p, reduced_dim=d)",
    "softmax": "return softmax(X * p, reduced_dim=d) * Y",
    "log-softmax": "return log_softmax(X * p, reduced_dim=n) * Y",
    "softmax-constant-along-row": "return softmax(X, reduced_dim=d) * 1",
    "cumsum": "return cumsum(X * p, dim=n) * Y",
    "einsum": "return einsum(X[n, d], Y[n', d] -> [n, n'])",
    "einsum-three": "return einsum(X[n, d], Y[n', d], p[d] -> [n', n])",
    "einsum-same-twice": "return einsum(X[n, d], X[n', d] -> [n, n'])",
    "einsum-private": "return einsum(X[n, d], p[d] -> []) * sum(Y, reduced_dim=(n, d))",
    "rename": "Z[n', d] = X[n', d] * 2\n    return einsum(Z[n', d], Y[n, d] -> [n, n'])",
    "swap": "S[n, n'] = einsum(X[n, d], Y[n', d])\n    return S - swap(S, n, n') * S",
    "gather": "return gather(X, (index(n) * 2) % n, dim=n) * Y",
    "gather-rows": "return gather(X[n, d], index(d) % n, dim=n) * p",
    "gather-of-many": "return gather(X * p, (index(n) * index(two)) % n, dim=n)",
    "gather-in-a-row": "return gather(X, (index(n') * 2 + index(d)) % n, dim=n) * Y[n', d]",
    "scatter": "return scatter_add(X * Y, index(n) % 2, dim=two, reduced_dim=n) * p",
    "scatter-rows": "return scatter_add(X * Y, index(d) - 1, dim=two, reduced_dim=d)",
    "scatter-all": "return scatter_add(X, index(n) % 2, dim=two, reduced_dim=(n, d)) * p",
    "topk": "V, I = topk(X * p, two, dim=n)\n    return V * V",
    "sort": "return sort(X * Y, dim=n) * p",
    "take": "return X[0, d] * X[n - 1, d] * p",
    "slice": "return slice(X * Y, n, 1, 3 -> [two, d])",
    "slice-of-sum": "return slice(sum(X, reduced_dim=d), n, 1, 3 -> [two])",
    "concat": "A[n, both] = concat(X, Y * X, dim=both)\n    return A * A",
    "shift": "return shift(X, n, 1) * shift(Y, d, -2)",
    "split": "A = split(X * Y, d -> a one)\n    return sum(A, reduced_dim=a) * A",
    "merge": "return merge(X, d n -> t) * merge(Y, n d -> t)",
    "dims-of-a-mask": "return where(index(n) <= index(d), X, 0 * Y)",
    "two-results": "return X * Y, sum(X, reduced_dim=d)",
    "unused-argument": "return X * X",
}

DECLARED = "dim n = 5, d = 3, two = 2, one = 1, both = 2 * d\n"
DEF = "def F(X[n, d], Y[n, d], p[d]):\n    "

# How the text of a graph shows an op, where not as its name and a bracket. Copies are made by later
# passes, and scans are differentiated in test_scan_gradients.
SHOWN = {
    "NEG": r"= -",
    "ADD": r" \+ ",
    "SUB": r" - ",
    "MUL": r" \* ",
    "DIV": r" / ",
    "MOD": r" % ",
    "POW": r" \*\* ",
    "CAST": r"f32\(",
    "SELECT": r"where\(",
    "MIN": r"min\([^()]*\]\)",
    "MAX": r"max\([^()]*\]\)",
    "REDUCE_MIN": r"min\(.*reduced_dim",
    "REDUCE_MAX": r"max\(.*reduced_dim",
    "RENAME": r"= X\[n', d\]$",
    "TAKE": r"= X\[0, d\]$",
}
ELSEWHERE = {"COPY", "STACK", "LAST"}


# At points where a derivative does not exist, or is told not to: what PyTorch 2.13 gave for the
# functions that the reference names. Expressions of x, the numbers x has, their gradients under
# cotangents of 1.
CONVENTIONS = [
    pytest.param(form, numbers(row[1]), numbers(row[2]), id=f"{form} {row[1]}")
    for row in table("12.2").rows
    for form in codes(row[0])
]


def oracle(path, arrays, names, folder, *options):
    """Results in double precision, by name."""
    outputs = [option for name in names for option in ("-o", f"{name}={folder / name}.out.npy")]
    attc("run", path, "--oracle", "-w", *options, *write(arrays, folder), *outputs)
    return {name: np.load(folder / f"{name}.out.npy") for name in names}


def check_directional(path, arrays, folder, *options):
    """The gradients along a random direction, against a central difference of the results."""
    random = np.random.default_rng(len(arrays))
    shapes = attc_json("verify", path, "-w", *options)
    results = [output["name"] for output in shapes["outputs"]]
    plain = oracle(path, arrays, results, folder, *options)
    floats = [name for name in arrays if arrays[name].dtype == np.float32]
    cotangents = {
        f"d{name}": random.standard_normal(value.shape).astype(np.float32)
        for name, value in plain.items()
        if value.dtype.kind == "f"
    }
    gradients = oracle(
        path, {**arrays, **cotangents}, [f"d{name}" for name in floats], folder, "--grad", *options
    )
    moved = {}
    for sign in (1, -1):
        moved[sign] = dict(arrays)
    for name in floats:
        direction = STEP * random.standard_normal(arrays[name].shape)
        for sign in (1, -1):
            moved[sign][name] = (arrays[name] + sign * direction).astype(np.float32)
    ends = {sign: oracle(path, moved[sign], results, folder, *options) for sign in (1, -1)}
    difference = sum(
        np.sum(cotangents[f"d{name}"] * (ends[1][name] - ends[-1][name]))
        for name in results
        if f"d{name}" in cotangents
    )
    terms = [
        gradients[f"d{name}"] * (moved[1][name].astype(np.float64) - moved[-1][name])
        for name in floats
    ]
    slope = sum(np.sum(term) for term in terms)
    size = sum(np.sum(np.abs(term)) for term in terms)
    assert np.isfinite(slope)
    assert abs(slope - difference) <= 1e-4 * max(size, 1e-300), (slope, difference)


def grid(shape, seed):
    """Numbers between -2 and 2 that differ by 1/16 at least, none of them a whole number."""
    count = int(np.prod(shape, dtype=int))
    numbers = (np.arange(count) + 0.5) * (4 / max(count, 8)) - 2 + 1 / 64
    return np.random.default_rng(seed).permutation(numbers).reshape(shape).astype(np.float32)


@pytest.mark.parametrize("name", BODIES)
def test_rule(name, tmp_path):
    path = tmp_path / "rule.attn"
    body = f"{DEF}{BODIES[name]}\n"
    path.write_text(DECLARED + body)
    arrays = {"X": grid((5, 3), 1), "Y": grid((5, 3), 2), "p": grid((3,), 3)}
    check_directional(path, arrays, tmp_path)
    attc("verify", path, "-w", "--grad")
    if name not in ("slice", "slice-of-sum", "concat"):
        dynamic = tmp_path / "dynamic.attn"
        dynamic.write_text(f"dim two = 2, one = 1\n{body}")
        attc("verify", dynamic, "-w", "--grad", "-D", "n=5,d=3")


def test_every_op_has_a_program():
    """All that have a rule are in programs whose gradients are held to differences."""
    graph = ROOT / "compiler" / "graph"
    ops = re.findall(r"^OP\((\w+), (\w+),", (graph / "ops.def").read_text(), re.M)
    rules = (graph / "rewrite" / "grad_rules.c").read_text()
    ruled = [op for op in ops if f"[OP_{op[0]}] = gradient_of" in rules]
    assert len(ruled) > len(ops) / 2
    texts = [
        attc("emit", "-", "--stage=graph", "-w", stdin=f"{DECLARED}{DEF}{body}\n")[0]
        for body in BODIES.values()
    ]
    for op, name in ruled:
        shown = re.compile(SHOWN.get(op, rf"\b{name}\("), re.M)
        assert op in ELSEWHERE or any(map(shown.search, texts)), op


@pytest.mark.parametrize("way", [[], ["--oracle"]], ids=["compiled", "oracle"])
@pytest.mark.parametrize("expression, at, expected", CONVENTIONS)
def test_convention(expression, at, expected, way, tmp_path):
    path = tmp_path / "convention.attn"
    path.write_text(f"def F(x[n]):\n    y = {expression}\n    return y\n")
    arrays = {"x": np.array(at, np.float32)}
    arrays["dy"] = np.ones_like(oracle(path, arrays, ["y"], tmp_path)["y"], np.float32)
    given = write(arrays, tmp_path)
    attc("run", path, "--grad", *way, *given, "-o", f"dx={tmp_path / 'out.npy'}")
    judged = np.isfinite(expected).all()  # forward mode knows the same conventions
    out, _ = attc("verify", path, "--grad", *given, status=0 if judged else 1)
    assert ("NOT JUDGED" in out) != judged
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-6)


def test_concat_of_many(tmp_path):
    """Each operand has a dim of its own: more than a value may have."""
    parts = range(20)
    path = tmp_path / "concat.attn"
    path.write_text(
        f"dim {', '.join(f'k{i} = {1 + i % 3}' for i in parts)}, t = 39\n"
        f"def F({', '.join(f'A{i}[n, k{i}]' for i in parts)}):\n"
        f"    return concat({', '.join(f'A{i}' for i in parts)}, dim=t)\n"
    )
    attc("verify", path, "-w", "--grad", "--verify-passes", "-D", "n=5")


def test_table_is_summed_in_one_order(tmp_path):
    """Tasks own rows of the table: of many equal positions the sum is that of the sources in order,
    whoever adds them."""
    path = tmp_path / "table.attn"
    path.write_text("def F(E[v, d], ids[n]: i32):\n    return gather(E, ids, dim=v)\n")
    random = np.random.default_rng(0)
    arrays = {
        "E": np.zeros((700, 64), np.float32),
        "ids": random.integers(0, 9, 5000).astype(np.int32),
        "dresult": random.standard_normal((5000, 64)).astype(np.float32),
    }
    wanted = np.zeros((700, 64), np.float32)
    np.add.at(wanted, arrays["ids"], arrays["dresult"])
    out = tmp_path / "out.npy"
    for threads in (1, 2, 3):
        options = ["--threads", threads, *write(arrays, tmp_path), "-o", f"dE={out}"]
        attc("run", path, "--grad", *options)
        np.testing.assert_array_equal(np.load(out), wanted)


@pytest.mark.parametrize("shape", ["ones", "primes", "vectors"])
@pytest.mark.parametrize("example", NAMES)
def test_compiled_equals_oracle(example, shape):
    path = EXAMPLES / f"{example}.attn"
    entry = Entry(path)
    given = extents(example, shape, entry.dims)
    dynamic = [dim for dim in given if dim not in STATIC.get(example, [])]
    options = ["verify", path, "--grad", *extents_options(given), "--seed", 1]
    attc(*options)
    if shape == "primes":
        attc(*options, "--dynamic", ",".join(dynamic))


# Two layers of attention with a norm before each: logits of queries and memory, from the weights of
# the layer. The cotangents of the first are made of its results.
LOGITS = {
    "plain": "causal(einsum(N[n, d], P_q[d, h, k], N[n', d'], P_k[d', h, k] -> [n, n', h]), m=n')",
    "own-values": "causal(einsum(Q[n, h, k], K[n', h, k] -> [n, n', h]), m=n')",
    "mixed": "einsum(Q[n, h, k], K[n', h, k], P_l[h, g] -> [n, n', g])",
    "capped": "4 * tanh(einsum(Q[n, h, k], K[n', h, k] -> [n, n', h]) / 4)",
}


def stack(logits):
    g = "g" if "g" in logits.split("->")[1] else "h"
    return f"""
dim h = 3, g = 3, d = 24, k = 8
def Layer(X[n, d], doc[n]: i32):
    param P_q[d, h, k]
    param P_k[d, h, k]
    param P_v[d, {g}, k]
    param P_o[{g}, k, d]
    param P_l[h, g]
    N[n, d] = rms_norm(X)
    Q[n, h, k] = einsum(N, P_q)
    K[n', h, k] = einsum(N[n', d], P_k)
    L[n, n', {g}] = {logits}
    W[n, n', {g}] = softmax(where(doc[n] == doc[n'], L, -inf), reduced_dim=n')
    O[n, {g}, k] = einsum(W, N[n', d], P_v)
    Y[n, d] = X + einsum(O, P_o)
    return Y
def Main(X[b, n, d], doc[n]: i32):
    return Layer(Layer(X, doc), doc)
"""


@pytest.mark.parametrize("plan", [[], ["--plan", "unfused"]], ids=["fused", "unfused"])
@pytest.mark.parametrize("logits", LOGITS)
def test_layers_on_layers(logits, plan, tmp_path):
    path = tmp_path / "stack.attn"
    path.write_text(stack(LOGITS[logits]))
    if not plan:
        attc("emit", path, "--stage=fused", "--grad", "--no-materialize", "-w")
    for extents in (["-D", "b=2,n=37"], ["-D", "b=1,n=70", "--dynamic", "b,n"]):
        attc("verify", path, "--grad", "-w", *extents, *plan)


# Logits that are normalised over heads and over the memory: weights do not take their place, for
# the sums over the memory are computed again from them.
BOTH_WAYS = """
def Main(G[], X[d, n], param B[n, n'], param F[v, d], param P_h[h, h2], param P_n[d, h2, h],
         J[n, h, n'], L[n, n'], V[n', v], U[v2, n', h2], M[h2, n', h]):
    s[] = 1.2 + 0.6 * tanh(G[])
    L1[n, n'] = L[n, n'] - (B[n, n'] * s)
    L2[n, n'] = 0.07292 * L1[n, n']
    L3[n, n'] = where((2 * index(n') < index(n) + 7), L2[n, n'], 0)
    W[n, n'] = L3[n, n'] / sqrt(n')
    O1[v, n] = einsum(V[v, n'], W[n, n'])
    Y1[d, n] = einsum(O1[n, v], F[v, d] -> [n, d])
    Y2[d, n] = Y1[n, d] + X[d, n]
    Y[n, d] = unit(Y2[n, d])
    N[h, h2, n] = einsum(Y[d, n], (P_n[h2, h, d] * s))
    S1[n, n', h2] = (einsum(J[n, n', h], P_h[h2, h] -> [n, h2, n'])
                     + einsum(N[h, h2, n], J[n, n', h] -> [n, n', h2])
                     + einsum(J[n, h, n'], M[h, h2, n'] -> [n, n', h2]))
    S2[n, n', h2] = 0.2365 * S1[n, h2, n']
    S[h2, n, n'] = where(((abs(index(n) - index(n')) <= 8 * index(h2)) and (index(n') != 5 - 1)),
        S2[n, h2, n'], -inf)
    A[n, h2, n'] = softmax(S[h2, n, n'], reduced_dim=h2)
    A1[h2, n, n'] = A[n, n', h2] - 1 / n'
    O[n, v2, h2] = einsum(U[h2, v2, n'], A1[n, n', h2])
    T[n, h2] = logsumexp(S[n, n', h2], reduced_dim=n')
    return O[h2, v2, n], T[h2, n]
"""


@pytest.mark.parametrize("options", [[], ["--plan=spill:17:1"], ["--interpret"]], ids=" ".join)
def test_logits_that_are_normalised_both_ways(options, tmp_path):
    path = tmp_path / "both.attn"
    path.write_text(BOTH_WAYS)
    extents = "n=17,d=32,h=6,h2=3,v=24,v2=65"
    attc("verify", path, "--grad", "-w", "-D", extents, *options)


@pytest.mark.parametrize("lengths", ["n=70,m=70", "n=9,m=90", "n=17,m=71"])
@pytest.mark.parametrize("dynamic", [[], ["--dynamic=n"]], ids=["known", "run-time"])
def test_contractions_that_run_head_by_head(lengths, dynamic):
    """What two of them read is larger than the caches of a tiny machine, a head of it is not."""
    core = ROOT / "tests" / "bench" / "cores" / "talking_heads.attn"
    heads = "d=16,e=16,h=4,h_k=4,h_v=4"
    tiny = ["--machine", ROOT / "tests" / "machines" / "tiny.json", "--plan=resident:8"]
    given = ["-D", f"{lengths},{heads}", *tiny, *dynamic]
    attc("verify", core, "--grad", *given)
    kernels = attc("emit", core, "--grad", "--stage=tile", "--threads=1", *given)[0]
    together = re.findall(r"loop (h_[kv]):1\n +contract .*\n +contract ", kernels)
    assert together == ["h_v", "h_k"]
