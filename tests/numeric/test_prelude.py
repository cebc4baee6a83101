# SPDX-License-Identifier: Apache-2.0
"""Every def of the prelude against NumPy, written from the formulas of its sources."""
import math
import re

import numpy as np
import pytest

from attc import ROOT, attc

N, M, D, H, V = 7, 7, 8, 4, 11
erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def standardize(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)


def root_mean_square(x):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6)


def log_softmax(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def sinusoidal(n, d):
    table = np.zeros((n, d))
    for position in range(n):
        for i in range(0, d, 2):
            table[position, i] = math.sin(position / 10000 ** (i / d))
            table[position, i + 1] = math.cos(position / 10000 ** (i / d))
    return table


def rotary(x, halves):
    """A rotation of each pair of x[n, d] by position * 10000 ** (-2 pair / d)."""
    n, d = x.shape
    out = np.zeros_like(x)
    for position in range(n):
        for pair in range(d // 2):
            a, b = (pair, pair + d // 2) if halves else (2 * pair, 2 * pair + 1)
            angle = position * 10000 ** (-2 * pair / d)
            out[position, a] = x[position, a] * math.cos(angle) - x[position, b] * math.sin(angle)
            out[position, b] = x[position, b] * math.cos(angle) + x[position, a] * math.sin(angle)
    return out


def t5_bucket(distance, bidirectional, buckets=32, reach=128):
    """Mesh TensorFlow's relative_position_bucket; distance is memory - query position."""
    result, n = 0, -distance
    if bidirectional:
        buckets //= 2
        if n < 0:
            result += buckets
        n = abs(n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return result + n
    steps = int(math.log(n / exact) / math.log(reach / exact) * (buckets - exact))
    return result + min(exact + steps, buckets - 1)


def buckets(n, m, bidirectional):
    return np.array([[t5_bucket(j - i, bidirectional) for j in range(m)] for i in range(n)])


def masked(logits, keep):
    n, m = logits.shape
    i, j = np.mgrid[:n, :m]
    return np.where(keep(i, j), logits, -np.inf)


def alibi(logits):
    n, m, h = logits.shape
    slopes = 2.0 ** (-8 * (np.arange(h) + 1) / h)
    i, j = np.mgrid[:n, :m]
    return logits - slopes * abs(i - j)[:, :, None]


# name -> (arguments as declared, formula); pointwise ones are called with [n, d]
POINTWISE = {
    "gelu_tanh":
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "squared_relu": lambda x: np.maximum(x, 0) ** 2,
}
GATED = {
    "glu": lambda x, gate: x * sigmoid(gate),
    "reglu": lambda x, gate: x * np.maximum(gate, 0),
    "geglu": lambda x, gate: x * gate * (1 + erf(gate / math.sqrt(2))) / 2,
    "swiglu": lambda x, gate: x * gate * sigmoid(gate),
    "squared_error": lambda x, y: (x - y) ** 2,
}
CASES = {
    "norm": ("X[n, d]", "norm(X)", lambda X: standardize(X)),
    "layer_norm": ("X[n, d]", "layer_norm(X)", lambda X: standardize(X)),
    "standardize": ("X[n, d]", "standardize(X)", lambda X: standardize(X)),
    "rms_norm": ("X[n, d]", "rms_norm(X)", lambda X: root_mean_square(X)),
    "unit": ("X[n, d]", "unit(X)", lambda X: X / np.sqrt((X ** 2).sum(-1, keepdims=True) + 1e-12)),
    "softcap": ("X[n, d]", "softcap(X, 1.5)", lambda X: 1.5 * np.tanh(X / 1.5)),
    "causal": ("L[n, m]", "causal(L)", lambda L: masked(L, lambda i, j: j <= i)),
    "causal_window": ("L[n, m]", "causal_window(L, 3)",
                      lambda L: masked(L, lambda i, j: (j <= i) & (i - j < 3))),
    "window": ("L[n, m]", "window(L, 2)", lambda L: masked(L, lambda i, j: abs(i - j) <= 2)),
    "prefix": ("L[n, m]", "prefix(L, 3)", lambda L: masked(L, lambda i, j: (j <= i) | (j < 3))),
    "padding": ("L[n, m]", "padding(L, 5)", lambda L: masked(L, lambda i, j: j < 5)),
    "sinusoidal": ("X[n, d]", "sinusoidal(X)", lambda X: sinusoidal(*X.shape)),
    "rotary": ("X[n, d]", "rotary(X)", lambda X: rotary(X, True)),
    "rotary_pairs": ("X[n, d]", "rotary_pairs(X)", lambda X: rotary(X, False)),
    "alibi": ("L[n, m, h]", "alibi(L)", alibi),
    "relative_bucket": ("L[n, m]", "f32(relative_bucket(L))", lambda L: buckets(*L.shape, True)),
    "causal_bucket": ("L[n, m]", "f32(causal_bucket(L))", lambda L: buckets(*L.shape, False)),
    "cross_entropy": ("L[n, v], y[n]: i32", "cross_entropy(L, y)",
                      lambda L, y: -log_softmax(L)[np.arange(len(y)), y]),
    "smooth_cross_entropy": (
        "L[n, v], y[n]: i32", "smooth_cross_entropy(L, y, 0.1)",
        lambda L, y: -0.9 * log_softmax(L)[np.arange(len(y)), y] - 0.1 * log_softmax(L).mean(-1)),
    "correct": ("L[n, v], y[n]: i32", "correct(L, y)", lambda L, y: 1.0 * (L.argmax(-1) == y)),
    "sum_of_squares": ("X[d]", "sum_of_squares(X)", lambda X: (X ** 2).sum()),
}
CASES |= {name: ("X[n, d]", f"{name}(X)", f) for name, f in POINTWISE.items()}
CASES |= {name: ("X[n, d], Y[n, d]", f"{name}(X, Y)", f) for name, f in GATED.items()}
WITH_TABLE = {"relative_bias": True, "causal_relative_bias": False}


def run_oracle(folder, source, arrays, dims):
    (folder / "call.attn").write_text(source)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    given = [f"{name}={folder / name}.npy" for name in arrays]
    extents = ",".join(f"{dim}={extent}" for dim, extent in dims.items())
    attc("run", folder / "call.attn", "--oracle", "-D", extents, *given, "-o",
         f"result={folder / 'result.npy'}")
    return np.load(folder / "result.npy")


def draw(parameters, sizes, seed):
    random = np.random.default_rng(seed)
    arrays = {}
    for name, dims, elem in re.findall(r"(\w+)\[([^\]]*)\](?:: (\w+))?", parameters):
        shape = tuple(sizes[dim] for dim in dims.split(", "))
        if elem == "i32":
            arrays[name] = random.integers(0, V, shape).astype(np.int32)
        else:
            arrays[name] = random.standard_normal(shape).astype(np.float32)
    return arrays


def close(actual, expected):
    finite = np.isfinite(expected)
    assert actual.shape == expected.shape
    assert (np.isneginf(actual) == np.isneginf(expected)).all()
    scale = max(np.abs(expected[finite]).max(), 1e-300)
    assert np.abs(actual[finite] - expected[finite]).max() <= 1e-12 * scale


def test_every_def_of_the_prelude_is_here():
    text = (ROOT / "compiler/ast/read/prelude.attn").read_text()
    assert set(re.findall(r"^def (\w+)", text, re.M)) == set(CASES) | set(WITH_TABLE)


@pytest.mark.parametrize("name", sorted(CASES))
def test_prelude_equals_numpy(name, tmp_path):
    parameters, call, formula = CASES[name]
    sizes = {"n": N, "m": M, "d": D, "h": H, "v": V}
    arrays = draw(parameters, sizes, len(name))
    trained = {}
    if name in ("norm", "layer_norm", "rms_norm"):
        call += " as it"
        trained["it.gain"] = np.ones(D, np.float32)
    if name in ("norm", "layer_norm"):
        trained["it.bias"] = np.zeros(D, np.float32)
    source = f"def F({parameters}):\n    return {call}\n"
    used = {dim: size for dim, size in sizes.items() if re.search(rf"\b{dim}\b", parameters)}
    actual = run_oracle(tmp_path, source, arrays | trained, used)
    expected = formula(*(a.astype(np.float64) if a.dtype == np.float32 else a
                         for a in arrays.values()))
    close(actual, np.asarray(expected, np.float64))


@pytest.mark.parametrize("name", sorted(WITH_TABLE))
@pytest.mark.parametrize("n, m", [(5, 9), (150, 170)])
def test_relative_bias_equals_numpy(name, n, m, tmp_path):
    sizes = {"n": n, "m": m, "h": H}
    arrays = draw("L[n, m, h]", sizes, n)
    table = np.random.default_rng(1).standard_normal((32, H)).astype(np.float32)
    source = f"def F(L[n, m, h]):\n    return {name}(L) as it\n"
    actual = run_oracle(tmp_path, source, arrays | {"it.bias": table}, sizes)
    close(actual, arrays["L"].astype(np.float64) + table[buckets(n, m, WITH_TABLE[name])])
