# SPDX-License-Identifier: Apache-2.0
"""What hints say to write in place of forms of other languages is accepted, and is what NumPy
computes for them."""

import json
import math
import re
import subprocess

import numpy as np
import pytest
from attc import ATTC, attc

HEADER = "dim n = 5, d = 4, k = 3, e = 4, a = 2, b = 2, q = 2, p = 6\ndim m like n\n"
PARAMETERS = (
    "X[n, d], W[d, k], V[m, k], S[n, m], Z[n, d], A[k, e], T[n, a, k], c[]: f32, u[n], v[d], "
    "I[q]: i32, J[n, k]: i32"
)
SHAPES = {
    "X": (5, 4), "W": (4, 3), "V": (5, 3), "S": (5, 5), "Z": (5, 4), "A": (3, 4),
    "T": (5, 2, 3), "c": (), "u": (5,), "v": (4,), "I": (2,), "J": (5, 3),
}
WHOLE = {"I": 5, "J": 4}  # positions, from 0 up to these
# What stands in `Y = ...`, and what it is for NumPy; the same text where there is no second.
FORMS = {
    "X @ W": None,
    "X @ W @ A": None,
    "X @ W @ V.T": None,
    "(X + Z) @ W": None,
    "X @ (W @ A)": None,
    "S @ S": None,
    "S @ S.T": None,
    "S.T @ S": None,
    "S @ V": None,
    "X @ X.T": None,
    "X @ W + 1": None,
    "matmul(X, W)": "X @ W",
    "torch.matmul(X, X.transpose(0, 1))": "X @ X.T",
    "linear(X, W.T)": "X @ W",
    "np.dot(X, W) / np.sqrt(d)": "X @ W / 2",
    "(X * (X @ W).sum(-1, keepdim=True))": "X * (X @ W).sum(-1, keepdims=True)",
    'einsum("nd,dk->nk", X, W)': "X @ W",
    "np.einsum('ij,jk', X, W)": "X @ W",
    'einsum("nd,md->nm", X, Z)': "X @ Z.T",
    'einsum("ij,kj->ki", X, X)': "X @ X.T",
    'einsum("n d, d k -> k n", X, W)': "(X @ W).T",
    'einsum("...d,dk->...k", X, W)': "X @ W",
    'torch.einsum("... k, k j -> j ...", T, A)': "np.einsum('nak,kj->jna', T, A)",
    'np.einsum("...k,...k->...", T, T)': "(T * T).sum(2)",
    'np.einsum("n...k,...->n...", T, c)': "T.sum(2) * c",
    "X[:, 0:3]": None,
    "X[1:, :-1]": None,
    "X[:2]": None,
    "X[..., 1]": None,
    "S[-1, :]": None,
    "X[::2]": None,
    "X[1::2, 1:]": None,
    "X[:, ::3] * 2": None,
    "X[1:4:2]": None,
    "X[:-1:2]": None,
    "S[:-2:3, ::-1]": None,
    "X[:, -2:] * 2": None,
    "X.T": None,
    "transpose(X, (1, 0))": "X.T",
    "S.T": None,
    "S - S.transpose(0, 1)": "S - S.T",
    "S.T.T": "S",
    "X.permute(1, 0)": "X.T",
    "X.sum(dim=-1)": "X.sum(-1)",
    "X.sum()": None,
    "X.sum(dim=[0, 1])": "X.sum()",
    "sum(X, 0)": "X.sum(0)",
    "max(X, dim=1)": "X.max(1)",
    "X.mean(axis=0)": None,
    "max(X * X.shape[1], dim=-1) if c > 100 else X.sum(1)": "X.sum(1)",
    "np.maximum(X, 0)": "np.maximum(X, 0)",
    "clamp(X, -0.5, 0.5)": "np.clip(X, -0.5, 0.5)",
    "X.clamp(min=0)": "np.maximum(X, 0)",
    "X.clamp_min(0) + X.clamp_max(0)": "X",
    "einops.rearrange(T, 'n a k -> n (a k)')": "T.reshape(5, 6)",
    "einops.einsum(X, W, 'n d, d k -> n k')": "X @ W",
    "F.softmax(X, dim=-1)": "np.exp(X) / np.exp(X).sum(-1, keepdims=True)",
    "torch.exp(X) - X.exp()": "X * 0",
    "square(X + 1)": "(X + 1) ** 2",
    "pow(X, 2)": "X ** 2",
    "log2(abs(X) + 1)": "np.log2(np.abs(X) + 1)",
    "np.log10(abs(X))": "np.log10(np.abs(X))",
    "abs(X).log1p()": "np.log1p(np.abs(X))",
    "torch.expm1(X)": "np.expm1(X)",
    "exp10(X)": "10 ** X",
    "logit(sigmoid(X))": "X",
    "sinh(X - Z)": "np.sinh(X - Z)",
    "np.cosh(-X) * 2": "2 * np.cosh(X)",
    "np.arcsinh(X)": "np.arcsinh(X)",
    "acosh(abs(X) + 1)": "np.arccosh(np.abs(X) + 1)",
    "atanh(tanh(X) / 2)": "np.arctanh(np.tanh(X) / 2)",
    "tan(X)": "np.tan(X)",
    "np.radians(X) + np.degrees(X)": "np.radians(X) + np.degrees(X)",
    "np.sign(X) * Z": "np.sign(X) * Z",
    "np.sign(X * 0)": "X * 0",
    "ceil(X * 3)": "np.ceil(X * 3)",
    "np.round(3 * X) / 3": "np.round(3 * X) / 3",
    "trunc(X * 3)": "np.trunc(X * 3)",
    "torch.frac(3 * X)": "3 * X - np.trunc(3 * X)",
    "np.absolute(X)": "np.abs(X)",
    "Z - np.negative(X)": "Z + X",
    "np.cbrt(X)": "np.cbrt(X)",
    "reciprocal(1 + sigmoid(X))": "1 / (1 + 1 / (1 + np.exp(-X)))",
    "1 - torch.erfc(c * X)": "np.vectorize(math.erf)(c * X)",
    "F.logsigmoid(X)": "-np.log1p(np.exp(-X))",
    "mish(X)": "X * np.tanh(np.log1p(np.exp(X)))",
    "softsign(X)": "X / (1 + np.abs(X))",
    "tanhshrink(X)": "X - np.tanh(X)",
    "relu6(X * 5)": "np.clip(X * 5, 0, 6)",
    "F.hardtanh(X * 2)": "np.clip(X * 2, -1, 1)",
    "hardsigmoid(X * 3)": "np.clip(X / 2 + 0.5, 0, 1)",
    "hardswish(X)": "X * np.clip(X / 6 + 0.5, 0, 1)",
    "np.logical_not(X > 0)": "~(X > 0)",
    "isnan(X / 0 * 0)": "np.ones((5, 4))",
    "isinf(X / 0)": "np.ones((5, 4))",
    "where(np.isfinite(log(X)), X, 0)": "np.where(X > 0, X, 0)",
    "mod(X, 0.3)": "X % 0.3",
    "np.fmod(X, Z)": "np.fmod(X, Z)",
    "floor_divide(X, 0.3)": "X // 0.3",
    "np.greater(X, Z)": "X > Z",
    "where(np.less_equal(X, Z), X, Z)": "np.minimum(X, Z)",
    "hypot(X, Z)": "np.hypot(X, Z)",
    "np.logaddexp(X, Z)": "np.logaddexp(X, Z)",
    "xlogy(abs(X), abs(Z))": "np.abs(X) * np.log(np.abs(Z))",
    "np.heaviside(X, 1)": "np.heaviside(X, 1)",
    "lerp(X, Z, c)": "X + c * (Z - X)",
    "X.amax(dim=1)": "X.max(1)",
    "np.min(X, axis=0) + np.amin(X, 0)": "2 * X.min(0)",
    "X.max(-1)": None,
    "torch.min(X, 0)": "X.min(0)",
    "torch.max(X, Z)": "np.maximum(X, Z)",
    "X.max(d) + X.min(dim=1).values": "X.max(1) + X.min(1)",
    "np.max(X, axis=(0, 1))": "X.max()",
    "torch.min(X, 0).indices": "X.argmin(0)",
    "X.sort(0, descending=True).values": "-np.sort(-X, 0)",
    "max(X, 0) @ W": "np.maximum(X, 0) @ W",
    "X.argmin(dim=-1)": "X.argmin(1)",
    "np.average(X)": "X.mean()",
    "np.var(X, axis=-1)": "X.var(1)",
    "(X + Z).std(dim=0)": "(X + Z).std(0)",
    "torch.any(X > 0.5, dim=1)": "(X > 0.5).any(1)",
    "all(X > -1, 0)": "(X > -1).all(0)",
    "np.count_nonzero(X > 0)": "(X > 0).sum()",
    "np.sort(X, axis=-1)": "np.sort(X, -1)",
    "mean(X, reduced_dim=n, d)": "X.mean()",
    "sum(X, n, d)": "X.sum()",
    "X[I, :] * 2": None,
    "X[:, I]": None,
    "masked_fill(S, np.triu(S), 0)": "np.where(np.triu(S) != 0, 0, S)",
    "S.masked_fill(torch.triu(torch.ones(n, m)), 2)": "np.where(np.triu(np.ones((5, 5))), 2, S)",
    'rearrange(X, "n d -> d n")': "X.T",
    "full((n, d), 0.5)": "np.full((5, 4), 0.5)",
    "dropout(X, 0.1)": "X",
    "dropout(X @ W, 0.1)": "X @ W",
    "torch.clamp(X @ W, min=0)": "np.maximum(X @ W, 0)",
    "(X @ W).clip(-1, c)": "np.minimum(np.maximum(X @ W, -1), c)",
    "F.dropout(X, p=0.1) * 2": "2 * X",
    "tril(ones[n, m])": "np.tril(np.ones((5, 5)))",
    "F.one_hot(J, 4)": "np.eye(4)[J]",
    "sort(X, descending=True)": "-np.sort(-X, -1)",
    "X.argsort(dim=0)": "np.argsort(X, 0)",
    "softmax(X, reduced_dim=-1)": "np.exp(X) / np.exp(X).sum(-1, keepdims=True)",
    "cumsum(X, dim=0)": "np.cumsum(X, 0)",
    "multiply(X, Z)": "X * Z",
    "torch.tril(S)": "np.tril(S)",
    "triu(S)": "np.triu(S)",
    "masked_fill(S, S > 0, 0)": "np.where(S > 0, 0, S)",
    "X if c > 100 else Z": "Z",
    "c > 100 ? X : X + Z": "X + Z",
    "torch.cat([X, Z], dim=1)": "np.concatenate([X, Z], 1)",
    "cat((X, Z))": "np.concatenate([X, Z])",
    "concat(X, Z)": "np.concatenate([X, Z])",
    "concat(X, Z, -1)": "np.concatenate([X, Z], 1)",
    "concat(X, S)": "np.concatenate([X, S], 1)",
    "X.float() * np.pi": "X * np.pi",
    "X.unsqueeze(0) + Z": "X + Z",
    "X / X.size(-1)": "X / 4",
    "len(X)": None,
    "X.view(n, a, b)": "X.reshape(5, 2, 2)",
    "reshape(X, n, a, -1)": "X.reshape(5, 2, 2)",
    "reshape(X, (n, a, b))": "X.reshape(5, 2, 2)",
    "X.view(-1, a, b)": "X.reshape(5, 2, 2)",
    "X.reshape((X.shape[0], a, -1))": "X.reshape(5, 2, 2)",
    "T.view(-1, p)": "T.reshape(5, 6)",
    "T.reshape(n, -1)": "T.reshape(5, 6)",
    "rearrange(X, 'n (a b) -> n a b')": "X.reshape(5, 2, 2)",
    "T.reshape(n * a, k)": "T.reshape(10, 3)",
    "X.reshape(n * d)": "X.reshape(20)",
    "T.view(T.shape[0] * a, -1)": "T.reshape(10, 3)",
    "X.flatten()": None,
    "T.flatten(1)": "T.reshape(5, 6)",
    "torch.flatten(T, start_dim=0, end_dim=1)": "T.reshape(10, 3)",
    "np.ravel(T)": None,
    "X.unflatten(1, (a, -1))": "X.reshape(5, 2, 2)",
    "X[..., ::2] + X[..., 1::2]": None,
    "torch.cat([-X[..., 1:], X[..., :1]], dim=-1)": "np.concatenate([-X[:, 1:], X[:, :1]], 1)",
    "torch.cat([X[::2], X[1::4]])": "np.concatenate([X[::2], X[1::4]])",
    "np.transpose(T, axes=(0, 2, 1)).sum(1)": "T.sum(2)",
    "(T.permute(0, 2, 1) * T.transpose(1, 2)).sum(dim=1)": "(T * T).sum(2)",
    "S - S.permute((1, 0))": "S - S.T",
    'S - rearrange(S, "a b -> b a")': "S - S.T",
    "np.float64(X) / 2": "X / 2",
    "where(X > 0, X, np.nan) > 0": "X > 0",
    "S.mT": "S.T",
    "X.to(torch.double) / 2": "X / 2",
    "rearrange(T, 'n a k -> n (a k)')": "T.reshape(5, 6)",
    "torch.zeros(n, d) + X": "X",
    "ones((n, d))": "np.ones((5, 4))",
    "zeros_like(X)": "X * 0",
    "(X + Z).relu()": "np.maximum(X + Z, 0)",
    "-X.T": None,
    "X.norm()": "np.linalg.norm(X)",
    "torch.linalg.norm(X + Z, dim=-1)": "np.linalg.norm(X + Z, axis=-1)",
    "torch.outer(u, v)": "np.outer(u, v)",
    "np.outer(u, u)": "np.outer(u, u)",
    "X.gather(1, J)": "np.take_along_axis(X, J, 1)",
    "np.take_along_axis(X, J, axis=1)": "np.take_along_axis(X, J, 1)",
    "torch.gather(X, dim=1, index=J)": "np.take_along_axis(X, J, 1)",
    "gather(X, 0, I)": "np.take(X, I, 0)",
    "X.index_select(0, I)": "np.take(X, I, 0)",
    "np.take(X, I, axis=0)": None,
    "torch.take_along_dim(X, J, 1)": "np.take_along_axis(X, J, 1)",
    "np.trace(S)": "np.trace(S)",
    "np.diagonal(S)": "np.diagonal(S)",
    "torch.eye(n) @ X": "X",
    "np.eye(n)": "np.eye(5)",
    "np.flip(X, 0)": None,
    "X.flip(dims=-1)": "np.flip(X, -1)",
    "torch.roll(X, 2, 0)": "np.roll(X, 2, 0)",
    "np.roll(X, -1, axis=1)": None,
    "X.max(dim=-1)[0]": "X.max(-1)",
    "torch.min(X, 0)[1] + 0": "X.argmin(0)",
    "X.chunk(2, dim=-1)[1] * 2": "2 * X[:, 2:]",
    "nn.ReLU()(X)": "np.maximum(X, 0)",
    "nn.Softmax(dim=-1)(X) * 1": "np.exp(X) / np.exp(X).sum(-1, keepdims=True)",
    "torch.tril(torch.ones(n, n)) @ X": "np.tril(np.ones((5, 5))) @ X",
    "jnp.arange(n)[:, None] >= jnp.arange(m)": "np.tril(np.ones((5, 5)))",
    "where(np.arange(n)[:, None] - np.arange(m)[None, :] < 2, S, 0)":
        "np.where(np.subtract.outer(np.arange(5), np.arange(5)) < 2, S, 0)",
    "einops.reduce(X, 'n d -> n', 'mean')": "X.mean(1)",
    "reduce(T, 'n a k -> k', 'max') + 0": "T.max((0, 1))",
}
FORMS = {form: twin or form for form, twin in FORMS.items()}


def program(values):
    """Every value in a def of its own, and an entry that gives all of them."""
    text = HEADER
    for i, value in enumerate(values):
        text += f"def F{i}({PARAMETERS}):\n    {value}\n    return Y\n"
    text += f"def All({PARAMETERS}):\n"
    names = ", ".join(SHAPES)
    for i in range(len(values)):
        text += f"    Y{i} = F{i}({names})\n"
    return text + "    return " + ", ".join(f"Y{i}" for i in range(len(values))) + "\n"


def diagnostics(text):
    run = subprocess.run([ATTC, "check", "-w", "--diagnostics=json", "-"], input=text,
                         capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return [json.loads(line) for line in run.stderr.splitlines()]


MOST = 60  # in one file, of which not all mistakes are told


def told_of(values):
    for first in range(0, len(values), MOST):
        for diag in diagnostics(program(values[first:first + MOST])):
            yield first + (diag["line"] - 3) // 3, diag


def hints_of(targets):
    """The statement that each form gets, and the dims that it wants beside it."""
    found = {}
    for number, diag in told_of([f"{target} = {form}" for target, form in zip(targets, FORMS)]):
        assert number not in found, f"two messages: {diag}"
        match = re.fullmatch(
            r"write '(.*?)'(?:, with '(dim .*)' at the top of the file|: dims are read by name)?"
            r"(?: \(.*\))?", diag["hint"])
        assert match, f"no line to write: {diag}"
        statement, beside = match.groups()
        # A call that is all of the value is told of by itself.
        start = f"{targets[number]} = "
        statement = statement if statement.startswith(start) else start + statement
        # Each is the only one of its program: dims that it makes a name for are its own.
        own = r"\b((?!one_hot)\w+_(?:part|all|step|hot))\b"
        found[number] = tuple(re.sub(own, rf"\g<1>{number}", text or "")
                              for text in (statement, beside))
    assert len(found) == len(FORMS)
    return [found[i] for i in range(len(FORMS))]


@pytest.fixture(scope="module")
def hints():
    return hints_of(["Y"] * len(FORMS))


def run_all(hints, folder):
    """The values of the statements, the dims of each, and the inputs."""
    rng = np.random.default_rng(1)
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    for name, end in WHOLE.items():
        values[name] = rng.integers(end, size=SHAPES[name], dtype=np.int32)
    source = folder / "all.attn"
    besides = [beside for _, beside in hints if beside]
    source.write_text("\n".join([program([line for line, _ in hints]), *besides, ""]))
    left = [d for d in diagnostics(source.read_text()) if d["severity"] == "error"]
    assert not left, [(d["message"], hints[(d["line"] - 3) // 3]) for d in left]
    for name, value in values.items():
        np.save(folder / f"{name}.npy", value)
    inputs = [f"{name}={folder}/{name}.npy" for name in SHAPES]
    outputs = [part for i in range(len(hints)) for part in ("-o", f"Y{i}={folder}/Y{i}.npy")]
    attc("run", source, "--oracle", *inputs, *outputs)
    told, _ = attc("run", source, "--oracle", *inputs)
    dims = [re.search(rf"^Y{i}(\[.*?\]): ", told, re.M).group(1) for i in range(len(hints))]
    return [np.load(folder / f"Y{i}.npy") for i in range(len(hints))], dims, values


def assert_same(found, hints, values):
    own = {"np": np, "len": len, "math": math, "n": SHAPES["X"][0], **values}
    for i, (form, twin) in enumerate(FORMS.items()):
        got, want = found[i], np.asarray(eval(twin, own))
        if got.shape != want.shape:  # names, not places, say which dim is which
            got = got.T
        assert got.shape == want.shape, (form, hints[i])
        assert np.allclose(got, want, atol=1e-5), (form, hints[i])


def test_what_hints_say_is_accepted_and_means_the_same(hints, tmp_path):
    found, _, values = run_all(hints, tmp_path)
    assert_same(found, hints, values)


def test_what_hints_say_for_stated_dims_means_the_same(hints, tmp_path):
    """Where the dims of the value have names in the program, the target says them."""
    _, dims, _ = run_all(hints, tmp_path)
    known = set("ndkeabqpm")
    targets = ["Y" + text if set(re.findall(r"\w+", text)) <= known else "Y" for text in dims]
    assert sum(target != "Y" for target in targets) > len(targets) / 2
    stated = hints_of(targets)
    found, _, values = run_all(stated, tmp_path)
    assert_same(found, stated, values)


def test_hints_end_with_the_mistakes_that_are_told():
    told = diagnostics(program(["Y = X.T"] * 150))
    hinted = [diag for diag in told if (diag["hint"] or "").startswith("write 'Y = X'")]
    assert len(hinted) == 100
    assert [diag["message"] for diag in told if diag not in hinted] == [
        "too many errors; the rest of this file is not reported"]


# Blocks in the place of one line, and what they leave in Y or return.
BLOCKS = {
    "Y = X\n    if c > 100:\n        Y = Z": "X",
    "Y = X\n    if c < 100: Y = Y + Z": "X + Z",
    "Y = X\n    for i in a:\n        if i > 0:\n            Y = Y + Z": "X + Z",
    "if c > 100:\n        Y[n, d] = X": "X * 0",
    "if c > 100: Y = X\n    elif c > 200:\n        Y = Z\n    else:\n        Y = X + Z": "X + Z",
    "if c < 100:\n        return X\n    return Z": "X",
    "if c > 100: return X\n    else: return Z + 1": "Z + 1",
    "if True: Y = X": "X",
    "if True:\n        return Z\n    return X": "Z",
}


@pytest.mark.parametrize("block, twin", BLOCKS.items())
def test_a_choice_of_lines_is_one_line(block, twin, tmp_path):
    """The line of the hint in place of the `if` and what belongs to it."""
    own = "return" not in block
    head = f"{HEADER}def F(X[n, d], Z[n, d], c[]):\n    "
    found, = diagnostics(head + block + ("\n    return Y\n" if own else "\n"))
    line, again = re.fullmatch(
        r"write '(.*?)'(?: and go on with '(.*)'|, with what it is otherwise for 0)?", found["hint"]
    ).groups()
    before = block[:block.index("if ")]
    source = tmp_path / "block.attn"
    source.write_text(head + before + line + (f"\n    return {again or 'Y'}\n" if own else "\n"))
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(2, 5, 4))
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    np.save(tmp_path / "Z.npy", Z.astype(np.float32))
    np.save(tmp_path / "c.npy", np.float32(1))
    inputs = [f"{name}={tmp_path}/{name}.npy" for name in "XZc"]
    attc("run", source, "--oracle", "-w", *inputs, "-o", tmp_path / "Y.npy")
    assert np.allclose(np.load(tmp_path / "Y.npy"), eval(twin), atol=1e-5)


@pytest.mark.parametrize("call, twins", {
    "X.max(-1)": ["X.max(1)", "X.argmax(1)"],
    "torch.min(X, dim=0)": ["X.min(0)", "X.argmin(0)"],
    "X.sort(-1, descending=True)": ["-np.sort(-X, 1)", "np.argsort(-X, 1)"],
    "X.chunk(2, dim=-1)": ["X[:, :2]", "X[:, 2:]"],
    "chunk(X, 4, 1)": ["X[:, :1]", "X[:, 1:2]", "X[:, 2:3]", "X[:, 3:]"],
    "T.chunk(3)": ["T[:2]", "T[2:4]", "T[4:]"],
    "torch.split(X, 3, dim=1)": ["X[:, :3]", "X[:, 3:]"],
    "X.split([1, 2, 1], -1)": ["X[:, :1]", "X[:, 1:3]", "X[:, 3:]"],
    "np.split(X, 2, axis=1)": ["X[:, :2]", "X[:, 2:]"],
    "T.split(2)": ["T[:2]", "T[2:4]", "T[4:]"],
    "torch.unbind(X, dim=1)": ["X[:, 0]", "X[:, 1]", "X[:, 2]", "X[:, 3]"],
}.items())
def test_several_values_are_lines_of_their_own(call, twins, tmp_path):
    """X is of known extents, T is not."""
    given = "T" if re.search(r"\bT\b", call) else "X"
    head = f"{HEADER}def F({'T[i, j]' if given == 'T' else 'X[n, d]'}):\n    "
    names = "ABCD"[:len(twins)]
    results = ", ".join(names)
    found, = diagnostics(f"{head}{results} = {call}\n    return {results}\n")
    assert found["hint"].startswith("write "), found
    lines = re.findall(r"'(\w = .*?)'(?:,| and|$)", found["hint"])
    assert len(lines) == len(twins), found
    source = tmp_path / "several.attn"
    source.write_text(head + "\n    ".join(lines) + f"\n    return {results}\n")
    rng = np.random.default_rng(1)
    X, T = (rng.normal(size=size).astype(np.float32) for size in ((5, 4), (6, 2)))
    np.save(tmp_path / f"{given}.npy", T if given == "T" else X)
    attc("run", source, "--oracle", f"{given}={tmp_path}/{given}.npy",
         *(part for name in names for part in ("-o", f"{name}={tmp_path}/{name}.npy")))
    for name, twin in zip(names, twins):
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), eval(twin))


@pytest.mark.parametrize("call", ["Attend(X, X, X)", "Attend(X[b, n, d], X[b, n, d], X[b, n, d])"])
def test_one_tensor_thrice_is_self_attention(call, tmp_path):
    """The last of the calls that the hint offers, for which names cannot say what is what."""
    head = ("dim b = 2, n = 5, d = 4\n"
            "def Attend(Q[i, k], K[j, k], V[j, v]):\n"
            "    A = softmax(einsum(Q, K -> [i, j]), reduced_dim=j)\n"
            "    return einsum(A, V -> [i, v])\n"
            "def Self(X[b, n, d]):\n    Y = ")
    found, = diagnostics(f"{head}{call}\n    return Y\n")
    line = re.findall(r"'(Attend\(.*?\))'(?: or |$)", found["hint"])[-1]
    source = tmp_path / "self.attn"
    source.write_text(f"{head}{line}\n    return Y\n")
    assert not diagnostics(source.read_text())
    X = np.random.default_rng(1).normal(size=(2, 5, 4)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    attc("run", source, "--oracle", "--entry", "Self", f"X={tmp_path}/X.npy", "-o",
         tmp_path / "Y.npy")
    A = np.exp(X @ X.swapaxes(1, 2))
    assert np.allclose(np.load(tmp_path / "Y.npy"), A / A.sum(-1, keepdims=True) @ X, atol=1e-5)


@pytest.mark.parametrize("line, twin", {
    "Y[n, k] = X[n, d] * W[d, k]": "X @ W",
    "Y[n] = X * (X + 1)": "(X * (X + 1)).sum(1)",
    "Y = torch.topk(X, 2)": "-np.sort(-X, 1)[:, :2]",
}.items())
def test_a_line_that_lacks_something_is_one_that_has_it(line, twin, tmp_path):
    head = "dim n = 5, d = 4, k = 3\ndef F(X[n, d], W[d, k]):\n    "
    found, = diagnostics(f"{head}{line}\n    return Y\n")
    write, beside = re.match(r"write '(.*?)'(?:, with '(.*?)')?", found["hint"]).groups()
    source = tmp_path / "line.attn"
    source.write_text(f"{beside or ''}\n{head}{write}\n    return Y\n")
    rng = np.random.default_rng(1)
    X, W = (rng.normal(size=size).astype(np.float32) for size in ((5, 4), (4, 3)))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "W.npy", W)
    attc("run", source, "--oracle", f"X={tmp_path}/X.npy", f"W={tmp_path}/W.npy",
         "-o", tmp_path / "Y.npy")
    assert np.allclose(np.load(tmp_path / "Y.npy"), eval(twin), atol=1e-5)
