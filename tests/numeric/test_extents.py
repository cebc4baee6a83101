# SPDX-License-Identifier: Apache-2.0
"""Extents computed from those of the inputs, and extents of zero, against NumPy: run, verify, the
oracle, programs."""

import json
import math
import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc

# Transformer-XL: a segment attends to itself and to a memory of what came before; the memory of
# the next segment is the end of both.
TRANSFORMER_XL = """
dim t = p + n, d = 12, h = 3, k = d / h
dim e like d

def TransformerXL(X[n, d], M[p, d], param R[s, k, h], param u[k, h], param v[k, h],
                  param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h], param P_o[e, k, h]):
    C[t, d] = concat(M, X, dim=t)
    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])
    K[t, k, h] = einsum(C[t, d], P_k[d, k, h])
    V[t, k, h] = einsum(C[t, d], P_v[d, k, h])
    distance[n, t] = max(index(n) + p - index(t), 0)
    A[n, h, t] = einsum(Q + u, K[t, k, h] -> [n, h, t])
    B[n, h, s] = einsum(Q + v, R[s, k, h] -> [n, h, s])
    L[n, h, t] = (A + gather(B[n, h, s], distance[n, t], dim=s)) / sqrt(k)
    W[n, h, t] = softmax(where(index(t) <= index(n) + p, L, -inf), reduced_dim=t)
    Y[n, e] = einsum(W[n, h, t], V[t, k, h], P_o[e, k, h])
    return X + Y[n, d], slice(C, t, n, t -> [p, d])
"""


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def transformer_xl(X, M, R, u, v, P_q, P_k, P_v, P_o):
    n, p = len(X), len(M)
    C = np.concatenate([M, X])
    Q, K, V = (np.einsum("nd,dkh->nkh", x, P) for x, P in ((X, P_q), (C, P_k), (C, P_v)))
    distance = np.maximum(np.arange(n)[:, None] + p - np.arange(p + n)[None], 0)
    L = np.einsum("nkh,tkh->nht", Q + u, K)
    B = np.einsum("nkh,skh->nhs", Q + v, R)
    L = L + np.moveaxis(B[np.arange(n)[:, None], :, distance], 2, 1)
    seen = np.arange(p + n)[None] <= np.arange(n)[:, None] + p
    W = softmax(np.where(seen[:, None], L / 2.0, -np.inf)) if n else L
    return X + np.einsum("nht,tkh,ekh->ne", W, V, P_o), C[n:]


def shapes_of_transformer_xl(n, p):
    return dict(X=(n, 12), M=(p, 12), R=(n + p + 3, 4, 3), u=(4, 3), v=(4, 3), P_q=(12, 4, 3),
                P_k=(12, 4, 3), P_v=(12, 4, 3), P_o=(12, 4, 3))


def draw(folder, shapes):
    """Arrays as f4, saved: name -> array, and the words of the command line."""
    random = np.random.default_rng(11)
    arrays = {
        name: random.standard_normal(shape).astype("f4") / 2 for name, shape in shapes.items()
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    words = [f"{name}={folder / name}.npy" for name in arrays]
    return {name: array.astype(float) for name, array in arrays.items()}, words


def check(folder, results, run):
    """run(words for the outputs) must give the results, a dict of arrays."""
    paths = {name: folder / f"out_{name}.npy" for name in results}
    run([word for name, path in paths.items() for word in ("-o", f"{name}={path}")])
    for name, want in results.items():
        np.testing.assert_allclose(np.load(paths[name]), want, atol=3e-5, rtol=3e-5, err_msg=name)


WAYS = [["--threads", "1"], ["--threads", "2"], ["--oracle"], ["--interpret"],
        *(["--plan", plan] for plan in ("unfused", "resident:3", "stream:4:16"))]
LENGTHS = [(1, 1), (5, 3), (33, 70), (6, 0), (0, 4)]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_transformer_xl_equals_numpy(tmp_path, way, lengths):
    arrays, words = draw(tmp_path, shapes_of_transformer_xl(*lengths))
    Y, N = transformer_xl(**arrays)
    check(tmp_path, {"result": Y, "result_1": N},
          lambda out: attc("run", "-", *words, *out, *way, stdin=TRANSFORMER_XL))


def test_transformer_xl_of_constant_extents(tmp_path):
    arrays, words = draw(tmp_path, shapes_of_transformer_xl(9, 4))
    Y, N = transformer_xl(**arrays)
    check(tmp_path, {"result": Y, "result_1": N},
          lambda out: attc("run", "-", *words, *out, "-D", "n=9,p=4", stdin=TRANSFORMER_XL))


@pytest.mark.skipif(SANITIZED, reason="programs are linked without sanitizers")
def test_a_program_of_transformer_xl_serves_all_lengths(tmp_path):
    program = tmp_path / "program"
    (tmp_path / "xl.attn").write_text(TRANSFORMER_XL)
    attc("build", tmp_path / "xl.attn", "--exe", "-o", program)
    for lengths in LENGTHS:
        arrays, words = draw(tmp_path, shapes_of_transformer_xl(*lengths))
        Y, N = transformer_xl(**arrays)
        check(tmp_path, {"result": Y, "result_1": N},
              lambda out: subprocess.run([program, *words, *out], check=True))


# name: declarations, parameters, statements that give R, and the twin.
CASES = {
    "declared_and_only_counted": (
        "dim r = n - 1", "X[n, d]", "R[r] = f32(index(r)) * X[0, 0] + r",
        lambda X: np.arange(len(X) - 1) * X[0, 0] + len(X) - 1),
    "concat_says": (
        "", "X[n, d], M[p, d]", "R[t, d] = concat(X, M, dim=t) * index(t)",
        lambda X, M: np.concatenate([X, M]) * np.arange(len(X) + len(M))[:, None]),
    "concat_of_a_concat": (
        "dim s = t + n, t = p + n", "X[n, d], M[p, d]",
        "T[t, d] = concat(X, M, dim=t)\n    R[s, d] = concat(T, X, dim=s)",
        lambda X, M: np.concatenate([X, M, X])),
    "sum_over_a_computed_dim": (
        "", "X[n, d], M[p, d]",
        "T[t, d] = concat(X, M, dim=t)\n    R[d] = mean(T, reduced_dim=t) / t",
        lambda X, M: np.concatenate([X, M]).mean(0) / (len(X) + len(M))),
    "slice_from_a_dim": (
        "", "X[n, d], M[p, d]", "R[r, d] = slice(X, n, p, n)", lambda X, M: X[len(M):]),
    "slice_to_a_dim": (
        "", "X[n, d], M[p, d]", "R[r, d] = slice(X, n, p // 2, p + 1)",
        lambda X, M: X[len(M) // 2: len(M) + 1]),
    "slice_of_half": (
        "", "X[n, d]", "R[q, d] = slice(X, n, 0, n // 2) - slice(X, n, n - n // 2, n)",
        lambda X: X[: len(X) // 2] - X[len(X) - len(X) // 2:]),
    "differences": (
        "", "X[n, d]", "R[r, d] = slice(X, n, 1, n) - slice(X, n, 0, n - 1)",
        lambda X: np.diff(X, axis=0)),
    "shift_by_a_dim": (
        "", "X[n, d], M[p, d]", "R[n, d] = shift(X, n, p) + shift(X, n, -p)",
        lambda X, M: shifted(X, len(M)) + shifted(X[::-1], len(M))[::-1]),
    "in_a_def": (
        "def Join(A[n, d], B[m, d]):\n    return concat(A, B, dim=both)\n", "X[n, d], M[p, d]",
        "T[both, d] = Join(X, M)\n    U[all, d] = Join(X, X[n', d], both=all)\n"
        "    R[d] = sum(T, reduced_dim=both) - sum(U, reduced_dim=all)",
        lambda X, M: M.sum(0) - X.sum(0)),
    "computed_in_a_def": (
        "dim w = min(n, 4) * 2\n\n"
        "def Wide(A[n, d]):\n    return einsum(A[n, d], index(w) -> [d, w])\n", "X[n, d], M[p, d]",
        "R[d, w] = Wide(X)", lambda X, M: X.sum(0)[:, None] * np.arange(min(len(X), 4) * 2)),
    "attention_over_both": (
        "dim t = p + n", "X[n, d], M[p, d]",
        "T[t, d] = concat(M, X, dim=t)\n"
        "    R[n, d] = einsum(softmax(einsum(X[n, d], T[t, d] -> [n, t]), reduced_dim=t), T[t, d])",
        lambda X, M: softmax(X @ np.concatenate([M, X]).T) @ np.concatenate([M, X])),
}


def shifted(x, by):
    return np.concatenate([np.zeros_like(x[:by]), x[: max(len(x) - by, 0)]])[: len(x)]


def source_of(case):
    declared, parameters, body, _ = CASES[case]
    return f"{declared}\n\ndef F({parameters}):\n    {body}\n    return R\n"


@pytest.mark.parametrize("way", WAYS[:5], ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(tmp_path, case, way):
    shapes = {"X": (21, 5)} | ({"M": (6, 5)} if "M[" in CASES[case][1] else {})
    arrays, words = draw(tmp_path, shapes)
    check(tmp_path, {"R": CASES[case][3](**arrays)},
          lambda out: attc("run", "-", "-w", *words, *out, *way, stdin=source_of(case)))


@pytest.mark.parametrize("case", CASES)
def test_verify_finds_extents_that_fit(case):
    attc("verify", "-", "-w", stdin=source_of(case))


def test_cost_and_bench_know_them():
    source = source_of("attention_over_both")
    options = ["-", "-D", "n=24,p=40,d=16", "-w"]
    found = {}
    for command in ("cost", "bench"):
        text = attc(command, *options, "--json", stdin=source)[0]
        found[command] = json.loads(text)
    assert found["cost"]["dims"]["t"] == found["bench"]["dims"]["t"] == 64
    assert found["cost"]["multiplies"] == 2 * 24 * 64 * 16


# name: declarations and statements, options, and what run says.
WRONG = {
    "too_small": ("dim r = n - 30", "R[r] = f32(index(r))", [],
                  "r = n - 30 is -9 with n = 21; extents are from 0"),
    "too_small_by_two": ("dim r = n - p * p - n", "R[r] = f32(index(r))", [],
                         "r = n - p * p - n is -36 with n = 21, p = 6; extents are from 0"),
    "argmax_of_nothing": ("dim r = n - 21",
                          "R[d] = argmax(slice(X, n, 21, n -> [r, d]), reduced_dim=r)", [],
                          "argmax over r has nothing to choose from: r is 0"),
    "remainder": ("dim r = n / 4", "R[r] = f32(index(r))", [],
                  "r = n / 4: 21 is not divisible by 4"),
    "division_by_zero": ("dim r = n // (n - 21)", "R[r] = f32(index(r))", [],
                         "r = n // (n - 21): a division by zero"),
    "too_large": ("dim r = n ** 40", "R[r] = f32(index(r))", [],
                  "r = n ** 40: a number that does not fit in 63 bits"),
    "an_input_differs": ("dim p = n // 2", "R = sum(X) + sum(M)", [],
                         "p is 6, but n // 2 is 10"),
    "a_concat_differs": ("dim t = 2 * n", "R[t, d] = concat(X, M, dim=t)", [],
                         "t is 42, but n + p is 27"),
    "a_fixed_extent_differs": ("dim t = 2 * n", "R[t, d] = concat(X, M, dim=t)", ["-D", "t=30"],
                               "t is 30, but n + p is 27"),
    "slice_beyond": ("", "R[r, d] = slice(X, n, 10, 22)", [],
                     "a slice of n ends at 22, but n is 21"),
    "slice_before": ("", "R[r, d] = slice(X, n, p - 9, 4)", [],
                     "a slice of n begins at p - 9, which is -3"),
    "slice_of_another_length": ("", "R[p, d] = slice(X, n, 0, 7) + M", [], "p is 6, but must be 7"),
}


@pytest.mark.parametrize("built", [False, True], ids=["run", "program"])
@pytest.mark.parametrize("case", WRONG)
def test_a_computed_extent_that_is_wrong(tmp_path, case, built):
    declared, body, options, message = WRONG[case]
    body = body.replace("sum(X)", "sum(X, reduced_dim=(n, d))").replace(
        "sum(M)", "sum(M, reduced_dim=(p, d))")
    source = tmp_path / "f.attn"
    source.write_text(f"{declared}\n\ndef F(X[n, d], M[p, d]):\n    {body}\n    return R\n")
    _, words = draw(tmp_path, {"X": (21, 5), "M": (6, 5)})
    words += ["-o", f"R={tmp_path / 'R.npy'}"]
    if not built:
        assert message in attc("run", source, "-w", *options, *words, status=1)[1]
    elif not SANITIZED:
        program = tmp_path / "program"
        attc("build", source, "-w", "--exe", *options, "-o", program)
        run = subprocess.run([program, *words], capture_output=True, text=True)
        assert run.returncode == 1 and message in run.stderr, run.stderr


@pytest.mark.parametrize("given, place", [
    ("n=5,p=9", "1:12: error: r = n - p is -4 with n = 5, p = 9; extents are from 0 to"),
    ("n=9,p=5", "4:15: error: a slice of n ends at p + 5, which is 10, but n is 9"),
    ("n=20,p=5", "5:25: error: s is 10, but p + n is 25")], ids=["declared", "slice", "concat"])
def test_the_place_of_a_computed_extent_that_is_wrong(tmp_path, given, place):
    source = tmp_path / "f.attn"
    source.write_text("dim d = 2, r = n - p, s = n // 2\n\ndef F(X[n, d], M[p, d]):\n"
                      "    R[q, d] = slice(X, n, p, p + 5)\n"
                      "    return R, zeros[r], concat(M, X, dim=s -> [s, d])\n")
    error = attc("run", source, "-w", "--dynamic=n,p", "-D", given, status=1)[1]
    assert error.startswith(f"{source}:{place}"), error


# ---- extents of zero -----------------------------------------------------------------------------

def log_sum(x, axis):
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x).sum(axis))


def mean(x, axis):
    return x.sum(axis) / np.float64(x.shape[axis]) if x.shape[axis] else x.sum(axis) * np.nan


# Each is R of X[n, d] and W[d, e].
OVER_NOTHING = {
    "sum(X, reduced_dim=n)": lambda X, W: X.sum(0),
    "sum(X, reduced_dim=d)": lambda X, W: X.sum(1),
    "1 + sum(X * X, reduced_dim=(n, d))": lambda X, W: 1 + (X * X).sum(),
    "prod(X, reduced_dim=d)": lambda X, W: X.prod(1),
    "max(X, reduced_dim=n)": lambda X, W: X.max(0, initial=-np.inf),
    "max_number(X, reduced_dim=d)": lambda X, W: X.max(1, initial=-np.inf),
    "min(X, reduced_dim=n)": lambda X, W: X.min(0, initial=np.inf),
    "min(X, reduced_dim=(d, n))": lambda X, W: X.min(initial=np.inf),
    "mean(X, reduced_dim=n)": lambda X, W: mean(X, 0),
    "mean(X, reduced_dim=d)": lambda X, W: mean(X, 1),
    "logsumexp(X, reduced_dim=d)": lambda X, W: log_sum(X, 1),
    "softmax(X, reduced_dim=n)": lambda X, W: softmax(X.T).T if X.size else X,
    "cumsum(X, dim=n)": lambda X, W: X.cumsum(0),
    "einsum(X[n, d], W[d, e] -> [n, e])": lambda X, W: X @ W,
    "gelu(einsum(X[n, d], W[d, e] -> [n, e])) + 1": lambda X, W: (
        1 + np.vectorize(gelu, otypes="d")(X @ W)),
    "einsum(X[n, d], W[d, e], X[n', d'] -> [e, n', d'])": lambda X, W: np.einsum(
        "nd,de,mf->emf", X, W, X),
    "shift(X, n, 1)": lambda X, W: shifted(X, 1),
    "slice(X, n, 0, n // 2 -> [h, d])": lambda X, W: X[: len(X) // 2],
    "sum(i32(X), reduced_dim=n)": lambda X, W: X.astype(int).sum(0),
    "max(i32(X), reduced_dim=d)": lambda X, W: X.astype(int).max(1, initial=-(2**31)),
    "min(i64(X), reduced_dim=d)": lambda X, W: X.astype(int).min(1, initial=2**63 - 1),
    "gather(X, i32(index(e)), dim=n)": lambda X, W: gathered(X, W.shape[1]),
}
SIZES = [(0, 7, 3), (5, 0, 3), (0, 0, 2), (5, 7, 0), (40, 0, 20), (0, 70, 33), (3, 2, 4)]


def gelu(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def gathered(X, count):
    rows = np.full((count, X.shape[1]), np.nan)
    rows[: len(X)] = X[:count]
    return rows


@pytest.mark.parametrize("way", [[], ["--oracle"], ["--interpret"]], ids=" ".join)
@pytest.mark.parametrize("expression", OVER_NOTHING)
def test_over_nothing(tmp_path, expression, way):
    source = f"def F(X[n, d], W[d, e]):\n    R = {expression}\n    return R\n"
    for n, d, e in SIZES:
        arrays, words = draw(tmp_path, {"X": (n, d), "W": (d, e)})
        check(tmp_path, {"R": OVER_NOTHING[expression](**arrays)},
              lambda out: attc("run", "-", "-w", *words, *out, *way, stdin=source))


# A layer with heads that are mixed before what is not linear, which every plan can do.
HEADS = """
dim k = 4, h = 3, e = 3, g = 2

def Layer(X[n, d], M[m, d], P_q[d, k, h], P_k[d, k, h], P_v[d, k, g], A[h, e], B[e, g]):
    L[n, m, e] = einsum(X[n, d], P_q[d, k, h], M[m, d'], P_k[d', k, h], A[h, e])
    W[n, m, e] = softmax(L, reduced_dim=m)
    U[n, m, g] = relu(einsum(W[n, m, e], B[e, g]))
    Y[n, k, g] = einsum(U[n, m, g], M[m, d], P_v[d, k, g])
    return Y + 1
"""


def heads(X, M, P_q, P_k, P_v, A, B):
    logits = np.einsum("nd,dkh,mf,fkh,he->nem", X, P_q, M, P_k, A, optimize=True)
    weights = softmax(logits) if len(M) else logits
    mixed = np.maximum(np.einsum("nem,eg->ngm", weights, B), 0)
    return 1 + np.einsum("ngm,md,dkg->nkg", mixed, M, P_v, optimize=True)


@pytest.mark.parametrize("plan", [
    [], *(["--plan", plan] for plan in ("unfused", "resident", "two-pass", "spill:5:16"))],
    ids=" ".join)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_attention_over_nothing(tmp_path, plan, threads):
    for n, m, d in ((6, 0, 5), (0, 9, 5), (40, 0, 33), (0, 0, 3), (7, 5, 0), (9, 70, 4)):
        shapes = {"X": (n, d), "M": (m, d), "P_q": (d, 4, 3), "P_k": (d, 4, 3), "P_v": (d, 4, 2),
                  "A": (3, 3), "B": (3, 2)}
        arrays, words = draw(tmp_path, shapes)
        check(tmp_path, {"result": heads(**arrays)},
              lambda out: attc("run", "-", "-w", *words, *out, *plan, "--threads", threads,
                               stdin=HEADS))


def test_zero_on_the_command_line():
    """It is the extent of one run, not one that is compiled in."""
    assert "shape (0, 3)" in attc("run", "-", "-D", "n=0,d=3", "-w",
                                  stdin="def F(X[n, d]):\n    return X + 1\n")[0]
    attc("verify", "-", "-D", "m=0,p=0", "-w", stdin=HEADS)
    assert " m=0 " in attc("cost", "-", "-D", "m=0,n=4,d=8", "-w", stdin=HEADS)[0]


EMPTY_TAIL = """
dim u = n - 3, w = u + 1, t = n + u

def Tail(X[n, d]):
    return slice(X, n, 3, n -> [r, d])

def F(X[n, d]):
    A[u, d] = slice(X, n, 3, n)
    B[w, d] = slice(X, n, u, w)
    C[t, d] = concat(X, A, dim=t)
    S[d] = sum(Tail(X), reduced_dim=r)
    return A, B, C, S

def G(Y[m, d]):
    return Tail(Y)
"""


@pytest.mark.parametrize("given", [[], ["-D", "n=3"]], ids=["file", "file and -D"])
def test_an_extent_computed_from_a_given_one_may_be_zero(tmp_path, given):
    arrays, words = draw(tmp_path, {"X": (3, 2)})
    X = arrays["X"]
    check(tmp_path, {"A": X[3:], "B": X[:1], "C": X, "S": np.zeros(2)},
          lambda out: attc("run", "-", "--entry", "F", "-w", *words, *given, *out,
                           stdin=EMPTY_TAIL))
    assert " u=0 " in attc("cost", "-", "--entry", "F", "-D", "n=3,d=2", "-w",
                           stdin=EMPTY_TAIL)[0]
    assert "shape (0, 2)" in attc("run", "-", "-D", "m=3,d=2", "-w", stdin=EMPTY_TAIL)[0]


@pytest.mark.skipif(SANITIZED, reason="programs are linked without sanitizers")
def test_a_program_over_nothing(tmp_path):
    (tmp_path / "heads.attn").write_text(HEADS)
    attc("build", tmp_path / "heads.attn", "-w", "--exe", "-o", tmp_path / "program")
    out = tmp_path / "Y.npy"
    subprocess.run([tmp_path / "program", "--seed", "1", "-D", "n=3,m=0,d=4", "-o",
                    out], check=True)
    np.testing.assert_array_equal(np.load(out), np.ones((3, 4, 2)))
