# SPDX-License-Identifier: Apache-2.0
"""Libraries of `attc build --grad`: F_forward and F_backward, F_gradient, what is saved between."""

import json
import re
import subprocess

import numpy as np
import pytest

from attc import ATTC, EXAMPLES, SANITIZED, attc, attc_json
from library import Library, made_once
from programs import LOSS

pytestmark = pytest.mark.skipif(SANITIZED, reason="libraries of a sanitizer build do not load")

# One of the results is what the gradient is made of, one is not of floats, one has the name of an
# argument in another def.
TWO = """
dim d = 12, e = 7
def Two(X[n, d], param W[d, e], keep[n]: bool):
    Y[n, e] = tanh(einsum(X[n, d], W[d, e]))
    Z[n, e] = where(keep[n], exp(Y), 0)
    return Y, Z, sum(Z, reduced_dim=(n, e)), argmax(Z, reduced_dim=e)
"""
SCAN = """
dim d = 9
def Scan(X[n, d], G[n, d], param P[d, e]):
    state[d] = zeros[d]
    scan t in n:
        state[d] = state * sigmoid(G[t, d]) + X[t, d]
        S[t, d] = tanh(state)
    return einsum(S[n, d], P[d, e] -> [n, e])
"""
# An argument and a result have one name, and so have a cotangent and a gradient; what results are
# called beside the arguments is the name of another one.
REBOUND = """
dim layers = 3, d = 7
def Rebound(X[n, d], A[n, d]):
    for layer in layers:
        X[n, d] = tanh(X * A)
    X_out[n, d] = sigmoid(X + A)
    return X[n, d], X_out[n, d]
"""
# The names that results get beside the arguments are those of further arguments and results.
TAKEN = """
dim layers = 2
def Taken(X[n], X_out[n], X_out_2[n]):
    G[n] = tanh(X * X_out + X_out_2)
    for layer in layers:
        X[n] = exp(tanh(G + X))
    for layer in layers:
        X_out[n] = exp(tanh(G * X_out))
    for layer in layers:
        X_out_2[n] = exp(tanh(G - X_out_2))
    X_out_3[n] = exp(G * X)
    return X, X_out, X_out_2, X_out_3
"""
# Extents that follow from others, a position for each, and halves.
ODD = """
dim t = p + n, d = 5
def Odd(X[n, d], M[p, d], E[v, d]: bf16, ids[t]: i32):
    C[t, d] = concat(M, X, dim=t) * f32(gather(E, ids, dim=v))
    return einsum(C[t, d], C[t', d] -> [t, t']), sum(C[0, d] * C, reduced_dim=d)
"""
# What is stored is read in parts: these are the saved tensor.
SPLIT = """
dim s = 4
def Split(X[n, k], W[k, j]):
    Y = split(cumsum(X, dim=n), n -> c s)
    return einsum(Y[c, s, k], W[k, j] -> [c, s, j]), einsum(Y[c, s, k], Y[c, s', k] -> [c, s, s'])
"""
SMALL = ["-D", "d_X=16,d_M=12,d_Y=20,d_k=8,d_v=8"]
# Source or example, options, extents that callers tell.
CASES = {
    "multi_head": ("multi_head", [*SMALL, "-D", "h=3"], dict(n=37, m=41)),
    "talking_heads": ("talking_heads", [*SMALL, "-D", "h=3,h_k=2,h_v=4"], dict(n=37, m=41)),
    "one_position": ("talking_heads", [*SMALL, "-D", "h=3,h_k=2,h_v=4"], dict(n=1, m=1)),
    "by_one_argument": ("multi_head", [*SMALL, "-D", "h=3", "--wrt", "P_k"], dict(n=9, m=5)),
    "causal": ("causal", ["-D", "d=16,h=2,d_k=8"], dict(n=33, m=33)),
    "loss": (LOSS, [], dict(n=29, m=29)),
    "two_results": (TWO, [], dict(n=11)),
    "scan": (SCAN, [], dict(n=13, e=6)),
    "split": (SPLIT, [], dict(n=12, k=5, j=3, c=3)),
    "rebound": (REBOUND, [], dict(n=12)),
    "taken": (TAKEN, [], dict(n=21)),
    "odd": (ODD, [], dict(n=6, p=3, v=10, t=9)),
}


class Case:
    """A library in a folder, with random inputs and cotangents."""

    def __init__(self, folder, name, threads=2):
        text, self.options, self.extents = CASES[name]
        self.folder, self.source = folder, folder / f"{name}.attn"
        self.source.write_text(
            text if "\n" in text else (EXAMPLES / f"{text}.attn").read_text())
        self.path = folder / f"{name}.so"
        attc("build", self.source, "--grad", "-w", "--verify-passes", *self.options, "-o",
             self.path)
        self.header = self.path.with_suffix(".h").read_text()
        self.entry = re.search(r"ATTC_ENTRY_(\w+)_H", self.header).group(1)
        self.library = self.open(threads)
        self.inputs = self.draw()

    def open(self, threads):
        return Library(self.path, self.entry, threads)

    def sizes(self):
        dims = [d for f in self.library.functions.values() for d in f["dims"]]
        return {d["name"]: self.extents.get(d["like"], d["extent"]) for d in dims}

    def draw(self):
        random, sizes, inputs = np.random.default_rng(7), self.sizes(), {}
        for suffix in ("_forward", "_backward"):
            for tensor in self.library.functions[self.entry + suffix]["tensors"]:
                if tensor["role"] != "input" or tensor["use"] not in ("plain", "cotangent"):
                    continue
                shape = [sizes[d] for d in tensor["dims"]]
                if tensor["elem"] == "f32":
                    scale = 0.25 if tensor["is_param"] else 1
                    drawn = (scale * random.standard_normal(shape)).astype(np.float32)
                elif tensor["elem"] == "bf16":  # from 1 up to 2
                    drawn = (0x3F80 + random.integers(0, 127, shape)).astype(np.uint16)
                else:
                    drawn = random.integers(0, 2, shape)
                inputs.setdefault(tensor["name"], np.asarray(drawn))
        return inputs

    def backward(self, library=None, **more):
        """Outputs of F_forward, and the gradients."""
        library = library or self.library
        forward = library.call("_forward", self.extents, self.inputs)
        results = {name: forward.get(name, forward.get(re.sub(r"_out(_\d+)?$", "_", name)))
                   for name in library.tensors("_backward", use="result")}
        return forward, library.call("_backward", self.extents,
                                     {**self.inputs, **forward, **results, **more})

    def files(self):
        """The inputs for the command line, halves as floats."""
        given = []
        for name, array in self.inputs.items():
            if array.dtype == np.uint16:
                array = (array.astype(np.uint32) << 16).view(np.float32)
            np.save(self.folder / f"{name}.npy", array)
            given.append(f"{name}={self.folder / name}.npy")
        told = {d["name"] for f in self.library.functions.values() for d in f["dims"]
                if d["extent"] is None and "computed" not in d}
        told = ",".join(f"{d}={e}" for d, e in self.extents.items() if d in told)
        return [*given, "-w", *self.options, "-D", told, "--dynamic",
                re.sub(r"=\d+", "", told)]

    def expected(self, names):
        """Of the oracle: by name the array and what the error of an element may be."""
        outputs = [o for n in names for o in ("-o", f"{own_name(n)}={self.folder / n}.out.npy")]
        attc("run", self.source, "--grad", "--oracle", *self.files(), *outputs)
        verified = attc_json("verify", self.source, "--grad", *self.files())
        limits = {output["name"]: output["limit"] for output in verified["outputs"]}
        return {n: (np.load(self.folder / f"{n}.out.npy"), limits[own_name(n)]) for n in names}


def own_name(name):
    """In the source, of an output that an input has the name of."""
    return name.removesuffix("_")


def as_floats(array):
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    yield from made_once(tmp_path_factory, Case)


@pytest.mark.parametrize("name", CASES)
def test_two_calls_give_the_results_and_gradients_of_the_oracle(cases, name):
    case = cases(name)
    forward, gradients = case.backward()
    results = case.library.tensors("_forward", role="output", use="plain")
    assert list(gradients) == case.library.tensors("_backward", use="gradient")
    got = {**{result: forward[result] for result in results}, **gradients}
    for output, (expected, limit) in case.expected(list(got)).items():
        error = np.abs(as_floats(got[output]).astype(np.float64) - expected).max(initial=0)
        assert error <= limit, f"{output}: {error} above {limit}"


@pytest.mark.parametrize("name", CASES)
def test_bits_are_the_same_for_any_number_of_threads(cases, name):
    case = cases(name)
    forward, gradients = case.backward()
    for threads in (1, 3):
        library = case.open(threads)
        again = case.backward(library)
        library.close()
        for before, after in zip((forward, gradients), again):
            assert all(np.array_equal(before[n].view(np.uint8), after[n].view(np.uint8))
                       for n in before if before[n].ndim)
            assert all(before[n] == after[n] for n in before if not before[n].ndim)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_added_to_what_is_there(cases, name):
    case, random = cases(name), np.random.default_rng(3)
    _, gradients = case.backward()
    before = {n: random.standard_normal(g.shape).astype(g.dtype)
              for n, g in gradients.items() if g.dtype == np.float32}
    assert before
    kept = {n: array.copy() for n, array in before.items()}
    flags = {f"accumulate_{own_name(n)}": 1 for n in before}
    assert set(flags) <= set(case.library.tensors("_backward", use="flag"))
    _, added = case.backward(**before, **flags)
    for n in gradients:
        expected = kept[n] + gradients[n] if n in kept else gradients[n]
        assert np.array_equal(added[n], expected), n


def test_each_gradient_is_added_or_not(cases):
    case = cases("multi_head")
    _, gradients = case.backward()
    before = {n: np.ones_like(g) for n, g in gradients.items()}
    _, added = case.backward(**before, accumulate_dX=0, accumulate_dP_v=-5)
    assert np.array_equal(added["dX"], gradients["dX"])
    assert np.array_equal(added["dP_v"], gradients["dP_v"] + 1)


def test_a_scalar_has_both_in_one_call(cases):
    case = cases("loss")
    inputs = {n: a for n, a in case.inputs.items() if not n.startswith("d")}
    forward, gradients = case.backward(dresult=None)
    both = case.library.call("_gradient", case.extents, inputs)
    assert both["result"] == forward["result"]
    assert set(both) == {"result", *gradients}
    assert all(np.array_equal(both[n], gradients[n]) for n in gradients)
    half = case.library.call("_gradient", case.extents, {**inputs, "dresult": np.float32(0.5)})
    assert all(np.array_equal(half[n], gradients[n] / 2) for n in gradients)
    before = {n: g.copy() for n, g in gradients.items()}
    flags = {f"accumulate_{n}": 1 for n in gradients}
    case.library.call("_gradient", case.extents, {**inputs, **before, **flags})
    assert all(np.array_equal(before[n], 2 * gradients[n]) for n in gradients)
    tensors = case.library.functions["Loss_gradient"]["tensors"]
    assert {t["use"] for t in tensors} == {"plain", "cotangent", "flag", "gradient"}
    assert "MultiHeadAttention_gradient" not in cases("multi_head").library.functions


SHARP = """
def Sharp(X[n, d], P[d, k], R[d, k]):
    W[n, n'] = softmax(einsum(X[n, d], P[d, k], X[n', d'], R[d', k] -> [n, n']), reduced_dim=n')
    return einsum(W[n, n'], X[n', d] -> [n, d])
"""


def test_weights_made_again_add_up_to_one_where_logits_are_large(tmp_path):
    """Two kernels sum logits of thousands in two orders: a sum of the other's weights is off."""
    source, path = tmp_path / "sharp.attn", tmp_path / "sharp.so"
    source.write_text(SHARP)
    attc("build", source, "--grad", "-w", "-o", path)
    n, d, k = 33, 5, 7
    extents, random = dict(n=n, d=d, k=k), np.random.default_rng(3)
    inputs = {"X": random.standard_normal((n, d)), "dresult": random.standard_normal((n, d))}
    inputs |= {name: 6 * random.standard_normal((d, k)) for name in ("P", "R")}
    inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
    library = Library(path, "Sharp")
    arguments = {name: inputs[name] for name in ("X", "P", "R")}
    saved = library.call("_forward", extents, arguments)
    found = library.call("_backward", extents, inputs | saved)
    library.close()
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    names = ("dX", "dP", "dR")
    attc("run", source, "--grad", "--oracle", "-w", *(f"{i}={tmp_path / i}.npy" for i in inputs),
         *(f"-o{name}={tmp_path / name}.npy" for name in names))
    for name in names:
        exact = np.load(tmp_path / f"{name}.npy")
        assert np.abs(found[name] - exact).max() <= 5e-5 * np.abs(exact).max()


def test_a_result_is_read_and_not_saved(cases):
    library = cases("two_results").library
    assert library.tensors("_backward", use="result") == ["Y"]
    assert library.tensors("_forward", use="saved") == []


def test_argument_and_result_may_have_one_name(cases):
    library = cases("rebound").library
    assert library.tensors("_backward", use="cotangent") == ["dX", "dX_out"]
    assert library.tensors("_backward", use="gradient") == ["dX_", "dA"]
    assert library.tensors("_backward", use="result") == ["X_out_2", "X_out"]
    header = cases("rebound").header
    assert re.search(r"const float \*dX;  .*float \*dX_; // dX \[n, d\]", header, re.S)


def test_what_results_are_called_beside_arguments_is_free(cases):
    library = cases("taken").library
    assert library.tensors("_backward", use="result") == ["X_out_4", "X_out_out", "X_out_2_out",
                                                          "X_out_3"]


@pytest.mark.parametrize("name", CASES)
def test_no_two_tensors_have_one_name(cases, name):
    for function in cases(name).library.manifest["functions"]:
        for role in ("input", "output"):
            names = [t["name"] for t in function["tensors"] if t["role"] == role]
            assert len(names) == len(set(names)), function["name"]


def test_only_the_gradient_that_is_asked_for(cases):
    library = cases("by_one_argument").library
    assert library.tensors("_backward", use="gradient") == ["dP_k"]
    assert "saved_O" not in library.tensors("_backward", use="saved")


def test_manifest_and_header_name_every_tensor(cases):
    case = cases("multi_head")
    assert [f["name"] for f in case.library.manifest["functions"]] == [
        "MultiHeadAttention_forward", "MultiHeadAttention_backward"]
    tensors = {(f["name"], t["name"]): t
               for f in case.library.manifest["functions"] for t in f["tensors"]}
    saved = tensors["MultiHeadAttention_forward", "saved_W_max"]
    assert saved == {"name": "saved_W_max", "role": "output", "elem": "f32", "dims": ["n", "h"],
                     "is_param": False, "use": "saved", "bytes": "12 * n"}
    assert tensors["MultiHeadAttention_backward", "saved_W_max"] == {**saved, "role": "input"}
    assert tensors["MultiHeadAttention_backward", "dP_q"]["bytes"] == 4 * 16 * 8 * 3
    for (function, name), tensor in tensors.items():
        struct = re.search(rf"typedef struct {function}_args {{(.*?)}} {function}_args;",
                           case.header, re.S).group(1)
        line = re.search(rf"^ .*\b{name};.*$", struct, re.M).group(0)
        if tensor["use"] != "flag":
            assert f"[{', '.join(tensor['dims'])}]" in line
        if tensor["use"] == "saved":
            assert line.endswith(f"{tensor['bytes']} bytes")


def test_a_library_without_gradient_is_what_it_was(tmp_path):
    attc("build", EXAMPLES / "dot_product.attn", "-o", tmp_path / "a.so")
    library = Library(tmp_path / "a.so", "DotProductAttention")
    assert "functions" not in library.manifest
    assert "backward" not in (tmp_path / "a.h").read_text()
    library.close()


def test_mistakes_of_callers_are_told(cases):
    case = cases("multi_head")
    forward, _ = case.backward()
    arrays = {**case.inputs, **forward}
    for name in ("saved_Q", "dY", "X"):
        message = case.library.call("_backward", case.extents, {**arrays, name: None}, status=1)
        assert message == f"{name} is NULL"
    same = case.inputs["X"]
    message = case.library.call("_backward", case.extents, {**arrays, "dX": same}, status=1)
    assert message in ("dX overlaps X", "X overlaps dX")


# ---- from C ------------------------------------------------------------------------------------

CALLER = """
#include "loss.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 29, X_COUNT = N * Loss_dim_d, P_COUNT = Loss_dim_d * Loss_dim_k * Loss_dim_h };

static float *filled(size_t bytes, unsigned seed) {
    float *at = (float *)aligned_alloc(64, (bytes + 63) / 64 * 64);
    for (size_t i = 0; i < bytes / sizeof *at; i++)
        at[i] = (float)((seed = seed * 1664525 + 1013904223) >> 16) / 65536 - 0.5f;
    return at;
}

int main(void) {
    AttContext *ctx = att_context_new(2);
    float *X = filled(X_COUNT * 4, 1), *T = filled(X_COUNT * 4, 2), *P_q = filled(P_COUNT * 4, 3);
    float *P_k = filled(P_COUNT * 4, 4), *P_v = filled(P_COUNT * 4, 5), loss = 0, same = 1, one = 1;
    float *dX = filled(X_COUNT * 4, 6), *dT = filled(X_COUNT * 4, 6);
    float *dP_q = filled(P_COUNT * 4, 6), *dP_k = filled(P_COUNT * 4, 6);
    float *dP_v = filled(P_COUNT * 4, 6), *twice = filled(P_COUNT * 4, 6);

    Loss_forward_args forward;
    Loss_backward_args backward;
    memset(&forward, 0, sizeof forward);
    memset(&backward, 0, sizeof backward);
    forward.struct_size = sizeof forward;
    forward.n = N;
    forward.X = X; forward.T = T; forward.P_q = P_q; forward.P_k = P_k; forward.P_v = P_v;
    forward.result = &loss;
    backward.struct_size = sizeof backward;
    backward.n = N;
@SAVED@
    backward.dresult = &one;
    backward.dX = dX; backward.dT = dT; backward.dP_q = dP_q; backward.dP_k = dP_k;
    backward.dP_v = dP_v;
    backward.workspace_bytes = Loss_backward_workspace(N);
    backward.workspace = aligned_alloc(64, (size_t)backward.workspace_bytes);
    if (Loss_forward(ctx, &forward) || Loss_backward(ctx, &backward)) {
        puts(att_message(ctx));
        return 1;
    }
    Loss_gradient_args both;
    memset(&both, 0, sizeof both);
    both.struct_size = sizeof both;
    both.n = N;
    both.X = X; both.T = T; both.P_q = P_q; both.P_k = P_k; both.P_v = P_v;
    both.result = &same;
    both.dX = dX; both.dT = dT; both.dP_q = twice; both.dP_k = dP_k; both.dP_v = dP_v;
    if (Loss_gradient(ctx, &both) || same != loss || memcmp(twice, dP_q, P_COUNT * 4))
        return 2;
    both.accumulate_dP_q = 1;
    if (Loss_gradient(ctx, &both))
        return 3;
    for (int i = 0; i < P_COUNT; i++)
        if (twice[i] != 2 * dP_q[i])
            return 4;
    backward.workspace_bytes--;
    if (Loss_backward(ctx, &backward) != ATT_ARGUMENT)
        return 5;
    att_context_free(ctx);
    return 0;
}
"""


@pytest.mark.parametrize("compiler", [["cc", "-std=c11"], ["c++", "-std=c++17"]])
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_the_header_serves_c_and_cpp(tmp_path, compiler, kind):
    (tmp_path / "loss.attn").write_text(LOSS)
    library = tmp_path / ("libloss.so" if kind == "shared" else "libloss.a")
    attc("build", tmp_path / "loss.attn", "--grad", f"--{kind}", "-w", "-o", library)
    (tmp_path / "libloss.h").rename(tmp_path / "loss.h")
    header = (tmp_path / "loss.h").read_text()
    struct = re.search(r"typedef struct Loss_backward_args {(.*?)}", header, re.S).group(1)
    lines = []
    for name, size in re.findall(r"\*(saved_\w+);.*?([\d]+(?: \* n)?) bytes", struct):
        lines.append(f"    forward.{name} = filled((size_t)({size.replace('n', 'N')}), 9);")
        lines.append(f"    backward.{name} = forward.{name};")
    lines += [f"    backward.{name} = {name};"
              for name in re.findall(r"const float \*(X|T|P_q|P_k|P_v);", struct)]
    suffix = ".c" if compiler[0] == "cc" else ".cc"
    (tmp_path / f"use{suffix}").write_text(CALLER.replace("@SAVED@", "\n".join(lines)))
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"use{suffix}", library,
                    "-lm", "-lpthread", f"-Wl,-rpath,{tmp_path}", "-o", "use"], cwd=tmp_path,
                   check=True)
    assert subprocess.run(["./use"], cwd=tmp_path, check=False).returncode == 0
    shown = subprocess.run(["nm", "--defined-only", *(["-D"] if kind == "shared" else []), library],
                           capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r" T (Loss\w*)", shown))
    assert names == {f"Loss{part}{what}" for part in ("", "_forward", "_backward", "_gradient")
                     for what in ("", "_workspace")} | {"Loss_manifest"}


def test_a_program_computes_the_gradients_that_run_does(tmp_path):
    (tmp_path / "loss.attn").write_text(LOSS)
    attc("build", tmp_path / "loss.attn", "--grad", "--exe", "-w", "-o", tmp_path / "loss")
    options = ["-D", "n=13", "--seed", "4"]
    made = []
    for number, command in enumerate(([tmp_path / "loss"], [
            ATTC, "run", tmp_path / "loss.attn", "--grad", "-w", "--dynamic", "n=512"])):
        outputs = [tmp_path / f"{name}{number}.npy" for name in ("result", "dX", "dP_v")]
        subprocess.run([*command, *options, *(
            option for path in outputs for option in ("-o", f"{path.stem[:-1]}={path}"))],
            check=True)
        made.append([path.read_bytes() for path in outputs])
    assert made[0] == made[1]
    manifest = subprocess.run([tmp_path / "loss", "--manifest"], capture_output=True, check=True)
    assert "functions" not in json.loads(manifest.stdout)
