# SPDX-License-Identifier: Apache-2.0
"""Sums over the rows of all tasks, which add to them in turn: gradients in the least memory."""

import re

import numpy as np
import pytest

from attc import EXAMPLES, SANITIZED, attc
from library import Library, made_once

pytestmark = pytest.mark.skipif(SANITIZED, reason="libraries of a sanitizer build do not load")

LOSS = """
dim d = 20
def Main(X[t, d], param E[v, d], label[t]: i32):
    return mean(cross_entropy(einsum(X[t, d], E[v, d] -> [t, v]), label[t]), reduced_dim=t)
"""
HALF = LOSS.replace("E[v, d],", "E[v, d]: bf16,").replace("E[v, d] ->", "f32(E[v, d]) ->")
# Small tasks, so that there are several of them; each turn is over more or less of the memory
# than the one before.
MASKED = """
dim h = 3, g = 4, k = 2, d = 16
def Main(Q[n, h, d], K[m, h, d], V[m, k, d], param P[h, g], param R[g, k]):
    L[n, m, g] = einsum(Q[n, h, d], K[m, h, d], P[h, g])
    seen[n, m] = {mask}
    W[n, m, g] = softmax(where(seen, L / 4, -inf), reduced_dim=m)
    O[n, k, d] = einsum(W[n, m, g], R[g, k], V[m, k, d])
    return mean(O ** 2, reduced_dim=(n, k, d))
"""
CASES = {
    "loss": (LOSS, dict(t=201, v=900)),
    "bf16": (HALF, dict(t=201, v=900)),
    "all": (MASKED.format(mask="index(m) + index(n) >= 0"), dict(n=150, m=333)),
    "causal": (MASKED.format(mask="index(m) <= 2 * index(n)"), dict(n=150, m=333)),
    "anticausal": (MASKED.format(mask="index(m) >= index(n)"), dict(n=150, m=333)),
    "window": (MASKED.format(mask="abs(index(m) - 2 * index(n)) < 20"), dict(n=150, m=333)),
}


def least_memory(*command):
    """The option for the smallest workspace that is found."""
    _, message = attc(*command, "--memory-limit=1", status=1)
    return "--memory-limit=" + re.search(r"least found is .*\((\d+) bytes\)", message).group(1)


class Case:
    """Libraries with as little workspace as they can have, and inputs."""

    def __init__(self, folder, name):
        text, self.extents = CASES[name]
        self.source, self.path = folder / f"{name}.attn", folder / f"{name}.so"
        self.source.write_text(text)
        told = ",".join(f"{d}={e}" for d, e in self.extents.items())
        self.options = [self.source, "-w", "-D", told, "--grad", "--threads", 2]
        self.options += ["--plan", "spill:24:64" if "t" in self.extents else "two-pass:24:64"]
        if name == "window":
            self.options += ["--dynamic", "n=150,m=333"]
        build = [*self.options, "-o", self.path, "--verify-passes"]
        attc("build", *build, least_memory("build", *build))
        self.options.append(least_memory("cost", *self.options))
        self.library = Library(self.path, "Main", threads=2)
        self.inputs = self.draw()

    def draw(self):
        random, inputs = np.random.default_rng(5), {}
        function = self.library.functions["Main_gradient"]
        sizes = {d["name"]: self.extents.get(d["name"], d["extent"]) for d in function["dims"]}
        for tensor in function["tensors"]:
            if tensor["role"] != "input" or tensor["use"] != "plain":
                continue
            shape = [sizes[d] for d in tensor["dims"]]
            if tensor["elem"] == "i32":
                array = random.integers(0, self.extents["v"], shape).astype(np.int32)
            elif tensor["elem"] == "bf16":
                array = random.integers(0x3F80, 0x3FFF, shape).astype(np.uint16)
            else:
                array = random.standard_normal(shape).astype(np.float32)
            inputs[tensor["name"]] = array
        return inputs

    def gradient(self, threads=2, **more):
        library = Library(self.path, "Main", threads=threads)
        found = library.call("_gradient", self.extents, self.inputs | more)
        library.close()
        return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    yield from made_once(tmp_path_factory, Case)


@pytest.mark.parametrize("name", CASES)
def test_gradients_in_turn_are_those_of_the_oracle(cases, name):
    case = cases(name)
    attc("verify", *case.options)
    text, _ = attc("emit", *case.options, "--stage=tile")
    if name != "bf16":  # whose gradient is rounded when it is whole: one part takes no more
        assert re.search(r"^ +ordered ", text, re.MULTILINE), text


@pytest.mark.parametrize("name", CASES)
def test_bits_are_the_same_for_any_number_of_threads(cases, name):
    case = cases(name)
    alone = case.gradient(threads=1)
    for threads in (2, 3, 8):
        for _ in range(3):
            found = case.gradient(threads=threads)
            assert all(found[n].tobytes() == alone[n].tobytes() for n in alone)


@pytest.mark.parametrize("name", CASES)
def test_two_calls_are_one(cases, name):
    case = cases(name)
    both = case.gradient()
    forward = case.library.call("_forward", case.extents, case.inputs)
    parts = case.library.call("_backward", case.extents, case.inputs | forward | {"dresult": None})
    for gradient, found in parts.items():
        if found.dtype == np.float32:
            np.testing.assert_allclose(found, both[gradient], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["loss", "causal", "window"])
def test_tasks_add_to_what_is_there(cases, name):
    """From there on, so that no tensor is needed for the sum: its rounding is another one."""
    case, random = cases(name), np.random.default_rng(3)
    alone = case.gradient()
    gradients = [n for n in alone if n != "result"]
    before = {n: (random.standard_normal(alone[n].shape) * np.abs(alone[n]).max()).astype("f4")
              for n in gradients}
    flags = {f"accumulate_{n}": 1 for n in gradients}
    kept = {n: array.copy() for n, array in before.items()}
    added = case.gradient(**before, **flags)
    for n in gradients:
        scale = np.abs(alone[n]).max()
        np.testing.assert_allclose(added[n], kept[n] + alone[n], rtol=1e-6, atol=2e-6 * scale)
    again = case.gradient(**{n: array.copy() for n, array in kept.items()})
    assert all(again[n].tobytes() == alone[n].tobytes() for n in gradients)


@pytest.mark.parametrize("n,m", [(0, 7), (0, 0), (7, 0), (1, 1), (24, 65), (25, 64)])
def test_any_extents_that_are_not_compiled_in(cases, n, m):
    """Without queries the gradients of the memory are zero, or what was there."""
    case = cases("window")
    library, random = case.library, np.random.default_rng(1)
    shapes = dict(Q=(n, 3, 16), K=(m, 3, 16), V=(m, 2, 16), P=(3, 4), R=(4, 2))
    inputs = {x: random.standard_normal(shape).astype("f4") for x, shape in shapes.items()}
    found = library.call("_gradient", dict(n=n, m=m), inputs)
    before = {f"d{x}": np.ones(shape, "f4") for x, shape in shapes.items()}
    flags = {f"accumulate_d{x}": 1 for x in shapes}
    added = library.call("_gradient", dict(n=n, m=m), inputs | before | flags)
    for x in shapes:
        gradient = found[f"d{x}"]
        assert n or not gradient.any()
        np.testing.assert_allclose(added[f"d{x}"], gradient + 1, rtol=1e-5, equal_nan=True)


def test_a_loss_takes_no_workspace_for_the_gradient_of_its_table(cases):
    case = cases("loss")
    bytes_of_table = 4 * 20 * case.extents["v"]
    assert case.library.workspace("_gradient") < bytes_of_table / 10
    assert case.library.workspace("_backward") < bytes_of_table / 10


def test_the_largest_tables_take_turns_without_a_limit(tmp_path):
    source = tmp_path / "loss.attn"
    source.write_text(LOSS)
    for extents, ordered in (("t=4096,v=2000000", True), ("t=4096,v=20000", False)):
        options = [source, "-D", extents, "--grad", "--threads", 2, "--stage=tile"]
        text, _ = attc("emit", *options)
        assert bool(re.search(r"^ +ordered ", text, re.MULTILINE)) == ordered


def test_examples_add_in_turn_where_memory_is_short(tmp_path):
    """Heads that are mixed leave no other tasks than those of rows; heads of their own do."""
    for example, ordered in (("talking_heads", True), ("multi_head", False)):
        options = [EXAMPLES / f"{example}.attn", "--grad", "-D", "n=2048,m=2048", "--threads", 2]
        text, _ = attc("emit", *options, least_memory("cost", *options), "--stage=tile")
        assert "part_2" not in text
        assert bool(re.search(r"^ +ordered ", text, re.MULTILINE)) == ordered
