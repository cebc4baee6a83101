# SPDX-License-Identifier: Apache-2.0
"""split and merge against NumPy: fused projections, patches, blocks, and what surrounds them."""

import ctypes
import json
import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc, write

WAYS = [
    ["-D", "n=24,m=33"],
    ["--dynamic", "n,d"],
    ["--threads", "2"],
    ["--interpret"],
    ["--oracle"],
    ["--plan=unfused"],
]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def heads(x, *shape):
    return x.reshape(*x.shape[:-1], *shape)


def fused(X, M, W, P):
    q, k, v = np.moveaxis(heads(X @ W, 3, 2, 3), 1, 0)
    A = softmax(np.einsum("nhk,mhk->hnm", q, k) / 3**0.5)
    return np.einsum("hnm,mhk->nhk", A, v).reshape(len(X), -1) @ P


def blocks(X, M, W, P):
    B = X.reshape(4, 6, -1)
    A = softmax(np.einsum("btd,bsd->bts", B, B))
    return np.einsum("bts,bsd->btd", A, B).reshape(X.shape)


def folded(X, M, W, P):
    return (X.reshape(4, 6, -1) + M[:6]).reshape(X.shape).cumsum(0)


QKV = "T[n, three, h, k] = split(einsum(X, W -> [n, f]), f -> three h k)\n    "
# name: body of a def of X[n, d], M[m, d], W[d, f], P[e, d] that gives R, and its twin.
CASES = {
    "split": ("R[n, a, r] = split(X, d -> a r)", lambda X, M, W, P: heads(X, 2, 5)),
    "split_other_order": (
        "R[r, n, a] = split(X, d -> a r)",
        lambda X, M, W, P: np.moveaxis(heads(X, 2, 5), 2, 0),
    ),
    "split_rows": ("R[b, t, d] = split(X, n -> b t)", lambda X, M, W, P: X.reshape(4, 6, -1)),
    "merge": ("R[all] = merge(X, n d -> all)", lambda X, M, W, P: X.ravel()),
    "merge_other_order": ("R[all] = merge(X, d n -> all)", lambda X, M, W, P: X.T.ravel()),
    "merge_of_product": (
        "R[n, q] = merge(relu(X) * W[d, 0], d -> q) + 1",
        lambda X, M, W, P: np.maximum(X, 0) * W[:, 0] + 1,
    ),
    "there_and_back": (
        "R[n, d] = merge(split(X, d -> a r), a r -> d) + X",
        lambda X, M, W, P: 2 * X,
    ),
    "regrouped": (
        "R[n, r', w] = split(merge(split(X, d -> a r), r a -> q), q -> r' w)",
        lambda X, M, W, P: heads(np.moveaxis(heads(X, 2, 5), 2, 1).reshape(len(X), -1), 5, 2),
    ),
    "columns": (
        "Q = split(W, f -> three h k)\n    R[d, h, k] = Q[d, 1, h, k]",
        lambda X, M, W, P: heads(W, 3, 2, 3)[:, 1],
    ),
    "both_ways": (
        "S = split(X, d -> a r)\n    T = split(X, d -> r' a')\n"
        "    R[n] = einsum(S, T, X[n, 0] -> [n])",
        lambda X, M, W, P: heads(X, 2, 5).sum((1, 2)) * heads(X, 5, 2).sum((1, 2)) * X[:, 0],
    ),
    "beside_itself": (
        "R[n, d] = X * merge(split(X, d -> a r) * split(M[0, d], d -> a r), a r -> d)",
        lambda X, M, W, P: X * X * M[0],
    ),
    "bias": (
        "R[n, h, k] = split(einsum(X, P -> [n, e]), e -> h k) + index(h)",
        lambda X, M, W, P: heads(X @ P.T, 2, 3) + np.arange(2)[:, None],
    ),
    "norm_of_heads": (
        "H = split(einsum(X, P -> [n, e]), e -> h k)\n    R[n, h, k] = softmax(H, reduced_dim=k)",
        lambda X, M, W, P: softmax(heads(X @ P.T, 2, 3)),
    ),
    "softmax_over_both": (
        "A = softmax(einsum(X, P -> [n, e]), reduced_dim=e)\n    R[n, h, k] = split(A, e -> h k)",
        lambda X, M, W, P: heads(softmax(X @ P.T), 2, 3),
    ),
    "maximum_of_both": (
        "R[n] = max(merge(split(X, d -> a r), r a -> q), reduced_dim=q)",
        lambda X, M, W, P: X.max(1),
    ),
    "contracted": (
        "O = split(X, d -> a r)\n    R[n, e] = einsum(merge(O, a r -> d), P)",
        lambda X, M, W, P: X @ P.T,
    ),
    "fused": (
        QKV + "L[n, n', h] = einsum(T[n, 0, h, k], T[n', 1, h, k]) / sqrt(k)\n"
        "    A[n, n', h] = softmax(L, reduced_dim=n')\n"
        "    O[n, h, k] = einsum(A, T[n', 2, h, k])\n"
        "    R[n, d] = einsum(merge(O, h k -> e), P)",
        fused,
    ),
    "blocks": (
        "B = split(X, n -> b t)\n"
        "    A = softmax(einsum(B, B[b, t', d] -> [b, t, t']), reduced_dim=t')\n"
        "    R[n, d] = merge(einsum(A, B[b, t', d] -> [b, t, d]), b t -> n)",
        blocks,
    ),
    "folded": (
        "S = slice(M, m, 0, 6 -> [t, d])\n"
        "    R[n, d] = cumsum(merge(split(X, n -> b t) + S, b t -> n), dim=n)",
        folded,
    ),
    "of_numbers": (
        "R[n, e] = merge([[1, 2, 3], [4, 5, 6]] -> [h, k], h k -> e) * X[n, 0]",
        lambda X, M, W, P: X[:, :1] * np.arange(1, 7),
    ),
    "whole_numbers": (
        "R[n, a, r]: i64 = split(index(n) * 7 + index(d), d -> a r)",
        lambda X, M, W, P: heads(np.arange(len(X))[:, None] * 7 + np.arange(10), 2, 5),
    ),
}
HEAD = "dim three = 3, h = 2, k = 3, e = 6, a = 2, b = 4\n"


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(tmp_path, case, way):
    body, twin = CASES[case]
    source = f"{HEAD}def F(X[n, d], M[m, d], W[d, f], P[e, d]):\n    {body}\n    return R\n"
    random = np.random.default_rng(7)
    shapes = {"X": (24, 10), "M": (33, 10), "W": (10, 18), "P": (6, 10)}
    arrays = {name: (random.standard_normal(s) / 2).astype("f4") for name, s in shapes.items()}
    result = tmp_path / "R.npy"
    attc("run", "-", "-w", *write(arrays, tmp_path), "-o", f"R={result}", *way, stdin=source)
    want = twin(**{name: array.astype(float) for name, array in arrays.items()})
    np.testing.assert_allclose(np.load(result), want, atol=2e-5, rtol=2e-5)


PATCHES = """dim p = 4, q = 4, channels = 3
def Patches(image[row, column, channels], param W[p, q, channels, d]):
    S = split(split(image, row -> i p), column -> j q)
    E[i, j, d] = einsum(S, W)
    return merge(E, i j -> n)
"""


def test_patches_of_an_image_of_any_size(tmp_path):
    random = np.random.default_rng(3)
    image = random.standard_normal((12, 20, 3)).astype("f4")
    W = random.standard_normal((4, 4, 3, 5)).astype("f4")
    result = tmp_path / "R.npy"
    files = write({"image": image, "W": W}, tmp_path)
    attc("run", "-", *files, "-o", f"result={result}", stdin=PATCHES)
    cut = image.reshape(3, 4, 5, 4, 3).transpose(0, 2, 1, 3, 4).reshape(15, -1)
    np.testing.assert_allclose(np.load(result), cut @ W.reshape(-1, 5), atol=2e-5, rtol=2e-5)
    files = write({"image": image[:10], "W": W}, tmp_path)
    _, err = attc("run", "-", *files, status=1, stdin=PATCHES)
    assert "i = row / 4: 10 is not divisible by 4" in err


def test_extents_of_a_call_that_do_not_fit():
    source = """def Heads(x[n, d]):
    return split(x, d -> h k)

def F(X[n, e]):
    return Heads(X, d=e)
"""
    attc("check", "-", stdin=source)
    _, err = attc("cost", "-", "-D", "n=2,e=10,h=4", status=1, stdin=source)
    assert "<stdin>:2:12: error: 'd' has 10 positions, no multiple of 4" in err
    assert "note: in this call of 'Heads'" in err
    _, err = attc("cost", "-", "-D", "n=2,e=10,h=4,k=2", status=1, stdin=source)
    assert "<stdin>:2:12: error: 'd' has 10 positions, the parts 8" in err
    attc("verify", "-", "-D", "n=2,e=12,h=4", stdin=source)


NOTHING = """
def Rows(X[n, d]):
    Y[b, d', d] = split(X[n, d], n -> b d')
    return Y[b, d', d], sum(Y, reduced_dim=d')
"""


@pytest.mark.parametrize("n, d, b", [(0, 3, 0), (6, 3, 2)])
def test_the_rest_of_nothing(n, d, b, tmp_path):
    """A dim without positions is no groups of three, and no groups of none; six positions are not
    any number of those."""
    given = write({"X": np.ones((n, d), np.float32)}, tmp_path)
    attc("run", "-", "-o", f"Y={tmp_path / 'Y.npy'}", *given, stdin=NOTHING)
    assert np.load(tmp_path / "Y.npy").shape == (b, d, d)
    if not n:
        attc("run", "-", "-D", "n=0,d=0", "-o", f"Y={tmp_path / 'Y.npy'}", stdin=NOTHING)
        assert np.load(tmp_path / "Y.npy").shape == (0, 0, 0)
        return
    _, err = attc("run", "-", "-D", f"n={n},d=0", status=1, stdin=NOTHING)
    assert f"b = {n} / d: a division by zero" in err


# A split whose parts are told by other tensors, both or one, and one of a merge. Where both are,
# one of them may have no positions.
TOLD = {
    "both": ("X[row], E[p], F[r]", "einsum(split(X, row -> r p), E[p] -> [r]) + F",
             lambda X, E, F: X.reshape(len(F), len(E)) @ E + F,
             [{"X": 0, "E": 0, "F": 3}, {"X": 0, "E": 2, "F": 0}, {"X": 12, "E": 4, "F": 3}]),
    "one": ("X[row], E[p]", "einsum(split(X, row -> r p), E[p] -> [r])",
            lambda X, E: X.reshape(len(X) // len(E), len(E)) @ E,
            [{"X": 0, "E": 2}, {"X": 12, "E": 4}]),
    "of_a_merge": ("X[b, f]", "split(merge(X, b f -> bf), bf -> c f)", lambda X: X,
                   [{"X": (0, 6)}, {"X": (4, 6)}]),
}


@pytest.mark.parametrize("way", ["run", "oracle", "interpret", "program"])
@pytest.mark.parametrize("case", TOLD)
def test_parts_that_tensors_tell(tmp_path, case, way):
    parameters, body, twin, sizes = TOLD[case]
    source, result = tmp_path / "f.attn", tmp_path / "R.npy"
    source.write_text(f"def T({parameters}):\n    R = {body}\n    return R\n")
    program = tmp_path / "program"
    if way == "program" and SANITIZED:
        pytest.skip("programs are linked without sanitizers")
    if way == "program":
        attc("build", source, "--exe", "-o", program)
    for shapes in sizes:
        random = np.random.default_rng(2)
        arrays = {name: random.standard_normal(shape).astype("f4")
                  for name, shape in shapes.items()}
        words = [*write(arrays, tmp_path), "-o", f"R={result}"]
        if way == "program":
            subprocess.run([program, *words], check=True)
        else:
            attc("run", source, *words, *([] if way == "run" else [f"--{way}"]))
        np.testing.assert_allclose(np.load(result), twin(**arrays), atol=2e-5, rtol=2e-5)


@pytest.mark.skipif(SANITIZED, reason="libraries are linked without sanitizers")
def test_a_library_computes_the_rest_of_nothing(tmp_path):
    parameters, body, _, _ = TOLD["one"]
    source = f"def T({parameters}):\n    R = {body}\n    return R\n"
    attc("build", "-", "--shared", "-o", tmp_path / "libt.so", stdin=source)
    header = (tmp_path / "libt.h").read_text()
    assert "    int64_t row;\n    int64_t p;\n    // r = row / p\n" in header
    assert "not divisible" in header.split("ATT_ARGUMENT     ")[1].split("ATT_MEMORY")[0]
    library = ctypes.CDLL(str(tmp_path / "libt.so"))
    library.att_context_new.restype = ctypes.c_void_p
    library.att_message.restype = ctypes.c_char_p
    context = ctypes.c_void_p(library.att_context_new(1))
    E, R = np.ones(2, "f4"), np.full(3, 9, "f4")

    def call(row, p):
        words = (ctypes.c_int64 * 8)(64, row, p, *(a.ctypes.data for a in (E, E, R)), 0, 0)
        return library.T(context, words), library.att_message(context).decode()

    for p in (0, 2):
        assert call(0, p)[0] == 0
        np.testing.assert_array_equal(R, 9)
    for row, p, message in ((1, 0, "r = row / p: a division by zero"),
                            (1, 2, "r = row / p: 1 is not divisible by 2")):
        assert call(row, p) == (1, message)


PARTS = """
def T(X[n, d]):
    B[c, i, d] = split(X, n -> c i)
    return sum(B, reduced_dim=i)
"""


@pytest.mark.parametrize("options, shape", [
    ("-D n=10,c=2,i=5,d=3 --dynamic n,c,i", (2, 3)),
    ("-D n=10,i=5,d=3 --dynamic n,i", (2, 3)),
    ("-D c=7,i=5,d=3 --dynamic c", (7, 3)),
    ("-D c=7,i=5,d=3 --dynamic c,i", (7, 3)),
    ("-D c=0,i=5,d=3", (0, 3)),
    ("-D c=0,i=0,d=3", (0, 3)),
])
def test_parts_that_the_command_line_tells_a_run(options, shape):
    words = ["-", *options.split()]
    assert f"shape ({shape[0]}, {shape[1]})" in attc("run", *words, stdin=PARTS)[0]
    attc("verify", *words, stdin=PARTS)
    attc("bench", *words, stdin=PARTS)


def test_what_is_drawn_fits_what_is_told():
    parameters, body, _, _ = TOLD["both"]
    source = f"def T({parameters}):\n    R = {body}\n    return R\n"
    for options in ("row=12,p=4", "r=3,p=4", "r=3,p=4,row=12"):
        words = ["-", "-D", options, "--dynamic", "row,r,p"]
        assert "shape (3)" in attc("run", *words, stdin=source)[0]


def test_parts_of_a_run_must_fit_the_whole(tmp_path):
    X = np.arange(24, dtype="f4").reshape(8, 3)
    files = write({"X": X}, tmp_path)
    result = tmp_path / "R.npy"
    attc("run", "-", *files, "-D", "c=2,i=4", "--dynamic", "c,i", "-o", f"result={result}",
         stdin=PARTS)
    np.testing.assert_array_equal(np.load(result), X.reshape(2, 4, 3).sum(1))
    for parts, message in (("c=3,i=4", "i = n / c: 8 is not divisible by 3"),
                           ("c=4,i=4", "i is 4, but n / c is 2")):
        _, err = attc("run", "-", *files, "-D", parts, "--dynamic", "c,i", status=1, stdin=PARTS)
        assert message in err
    _, err = attc("verify", "-", "-D", f"c={2**40},i=2", "--dynamic", "c,i", status=1, stdin=PARTS)
    assert f"n = c * i is {2**41} with c = {2**40}, i = 2; extents are from 0 to {2**40}" in err


@pytest.mark.skipif(SANITIZED, reason="programs are linked without sanitizers")
def test_a_program_makes_the_whole_of_the_parts(tmp_path):
    result = tmp_path / "R.npy"
    for name, options, told in (("fixed", ["-D", "i=4"], "c=2"),
                                ("open", ["-D", "c=7,i=4", "--dynamic", "c,i"], "c=2,i=4"),
                                ("none", ["-D", "i=4"], "c=0")):
        program = tmp_path / name
        attc("build", "-", "--exe", *options, "-o", program, stdin=PARTS)
        subprocess.run([program, "--seed", "1", "-D", f"{told},d=3", "-o", f"result={result}"],
                       check=True)
        assert np.load(result).shape == (int(told[2]), 3)
    wrong = subprocess.run([tmp_path / "open", "--seed", "1", "-D", f"c=2,i={2**40},d=3", "-o",
                            f"result={result}"], capture_output=True, text=True)
    assert wrong.returncode == 1
    message = f"n = c * i is {2**41} with c = 2, i = {2**40}; extents are from 0 to {2**40}"
    assert message in wrong.stderr


def test_cost_is_of_extents_that_fit():
    source = """
def F(W[n, e], A[p], B[q]):
    return split(W, e -> h k), concat(A, B, dim=e)
"""
    attc("cost", "-", "-D", "n=2,h=2,k=3,p=1,q=5", stdin=source)
    _, err = attc("cost", "-", "-D", "n=2,h=2,k=3,p=1,q=7", status=1, stdin=source)
    assert "e is 6, but must be 8" in err


def test_cost_takes_parts_that_are_given():
    """Whatever tells all extents will do, compiled in or not; what is lacking is named."""
    def figures(*given, source=PARTS, **options):
        return json.loads(attc("cost", "-", "--json", "-D", *given, stdin=source, **options)[0])

    compiled_in = figures("c=7,n=35,d=3")
    told = figures("c=7,n=35,d=3", "--dynamic", "c,n")
    assert told["dims"] == compiled_in["dims"] == {"n": 35, "d": 3, "c": 7, "i": 5}
    assert figures("c=7,i=5,d=3", "--dynamic", "c,i")["dims"] == told["dims"]
    assert sum(b["bytes"] for b in told["buffers"]) == sum(
        b["bytes"] for b in compiled_in["buffers"])
    for given in ("c=7,d=3", "i=7,d=3"):
        other = "i" if given[0] == "c" else "c"
        _, err = attc("cost", "-", "-D", given, "--dynamic", "c,i", status=1, stdin=PARTS)
        assert err == ("attc: error: the cost needs the extent of n: give -D n=N or "
                       f"-D {other}=N\n")
    assert figures("n=0,c=7,d=3")["flops"] == 0


# A part of nothing is whatever the other one says: b as before it was merged, or 0.
BACK = """
def F(X[n, b, f]):
    Y[n, bf] = merge(X, b f -> bf)
    return sum(split(Y, bf -> c f), reduced_dim=f)
"""
REST = """
def F(X[n, row], Y[p]):
    return split(X, row -> p r) * Y[p]
"""


def test_parts_of_nothing(tmp_path):
    result = tmp_path / "result.npy"
    attc("run", "-", "-D", "n=2,b=4,f=0", "-o", f"result={result}", stdin=BACK)
    assert (np.load(result) == np.zeros((2, 4))).all()
    attc("verify", "-", "-D", "n=2,b=4,f=0", stdin=BACK)
    attc("run", "-", "-D", "n=2,row=0,p=0", "-o", f"result={result}", stdin=REST)
    assert np.load(result).shape == (2, 0, 0)
    _, err = attc("run", "-", "-D", "n=2,row=6,p=0", "-o", result, status=1, stdin=REST)
    assert "r = 6 / p: a division by zero" in err


@pytest.mark.parametrize("source, given, shape", [
    (BACK, "n=2,b=4,f=0", (2, 4)), (BACK, "n=2,b=0,f=3", (2, 0)),
    (REST, "n=2,row=0,p=0", (2, 0, 0)), (REST, "n=2,row=0,p=0,r=5", (2, 0, 5)),
])
def test_programs_compute_parts_of_nothing(tmp_path, source, given, shape):
    program, result = tmp_path / "program", tmp_path / "result.npy"
    attc("build", "-", "--exe", "-o", program, stdin=source)
    subprocess.run([program, "--seed", "1", "-D", given, "-o", f"result={result}"], check=True)
    assert np.load(result).shape == shape
    wrong = subprocess.run([program, "--seed", "1", "-D", "n=2,row=6,p=0" if "row" in given else
                            "n=2,b=4,f=2,c=3", "-o", f"result={result}"], capture_output=True)
    assert wrong.returncode == 1


def test_verify_invents_extents_that_divide():
    """Several parts at once, no powers of two, and no extent larger than it has to be."""
    source = "def F(X[n, d], Z[e]):\n    return split(X, d -> i j), split(Z, e -> k l)\n"
    out, _ = attc("verify", "-", "--json", "-D", "i=3,k=7", stdin=source)
    assert json.loads(out)["dims"] == {"n": 5, "d": 21, "e": 21, "i": 3, "j": 7, "k": 7, "l": 3}
