# SPDX-License-Identifier: Apache-2.0
"""Variants from the literature: NAME.attn and, by the same name, a function over NumPy arrays.

    @variant("n m", k=(5, 16))
    def multi_query(X, M, P_q, P_k, P_v, P_o):
        ...

says that n and m are read at run time, with the extents of SIZES; that k is tried as 5 and as 16 in
place of what the file says; and what the layer computes. Arguments are the entry's tensors and, by
their names, extents; `weights` is a dict of all tensors by name, for those like `read.P_q`. What is
returned is the results in their order.
"""

import inspect
import re
from pathlib import Path

import numpy as np

from attc import attc, attc_json, extents_options

HERE = Path(__file__).parent
# Extents of positions: few of them, many, and as many as kernels are made for.
SIZES = {
    "n": (7, 70, 512),
    "m": (5, 45, 512),
    "b": (2, 3, 2),
    "s": (5, 41, 512),
    "p": (3, 20, 512),
    "t": (6, 35, 512),
    "i": (5, 18, 64),
    "j": (4, 13, 64),
    "w": (3, 11, 16),
    "x": (6, 9, 32),
    "y": (5, 11, 32),
    "z": (3, 17, 64),
}
SHAPES = {"few": 0, "many": 1, "large": 2}
# Of float32 results, against float64: relative to the element, and to the largest element.
TOLERANCE = 2e-5
VARIANTS = {}


class Variant:
    def __init__(self, twin, read, stored, draw, extents):
        self.name = twin.__name__
        self.path = HERE / f"{self.name}.attn"
        self.twin, self.read, self.stored, self.draw = twin, read.split(), stored, draw or {}
        self.extents = extents

    def sizes(self, shape):
        """What -D says."""
        at = SHAPES[shape]
        given = {dim: SIZES[dim][at] for dim in self.read}
        # A dim may have extents of its own, read or not: of two shapes, or of all three.
        return given | {dim: tried[min(at, len(tried) - 1)] for dim, tried in self.extents.items()}

    def options(self, shape):
        return extents_options(self.sizes(shape))


def variant(read="", *, stored="", draw=None, **extents):
    """Registers a twin. read: dims of the tensors' shapes. stored: why quadratic values are stored,
    as --no-materialize says. draw: what stands for some inputs, functions of a generator, a shape
    and the extents."""

    def register(twin):
        VARIANTS[twin.__name__] = Variant(twin, read, stored, draw, extents)
        return twin

    return register


def tensors(case, shape):
    """Names and shapes of what the entry takes, and the extents of all dims."""
    cost = attc_json("cost", case.path, "-Wno-unused", *case.options(shape))
    taken = [b for b in cost["buffers"] if b["placement"] in ("input", "parameter")]
    return {b["name"]: b["dims"] for b in taken}, cost["dims"] | case.sizes(shape)


def types(path):
    """Element types of the tensors that say one."""
    return dict(re.findall(r"(\w+)\[[^\]]*\]:\s*(\w+)", path.read_text()))


def drawn(random, name, elem, counts):
    """What stands for an input; weights are such that what they make is of order one."""
    if elem == "bool":
        return random.random(counts) < 0.5
    if elem == "i32":
        return random.integers(0, 4, counts)
    scale = counts[0] ** -0.5 if name.split(".")[-1].startswith(("P_", "W_")) else 1.0
    return scale * random.standard_normal(counts)


def draw(case, shape, seed):
    """Inputs by name, and the extents of all dims."""
    random = np.random.default_rng(seed)
    dims, extents = tensors(case, shape)
    numpy = {"i32": np.int32, "bool": np.bool_}
    elems = types(case.path)
    arrays = {}
    for name, over in dims.items():
        elem = elems.get(name, "f32")
        counts = tuple(extents[dim] for dim in over)
        if name in case.draw:
            array = case.draw[name](random, counts, extents)
        else:
            array = drawn(random, name, elem, counts)
        arrays[name] = np.asarray(array, numpy.get(elem, np.float32))
    return arrays, extents


def expected(case, arrays, extents):
    """The twin's results, of float64."""
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in arrays.items()}
    known = dict(extents, **wide, weights=wide)
    wanted = inspect.signature(case.twin).parameters
    results = case.twin(**{name: known[name] for name in wanted})
    return results if isinstance(results, tuple) else (results,)


def run(case, arrays, names, folder, *options):
    """Results of compiled code for these inputs."""
    given = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        given.append(f"{name}={folder / name}.npy")
    for name in names:
        given += ["-o", f"{name}={folder / name}.out.npy"]
    attc("run", case.path, "-Wno-unused", *options, *given)
    return [np.load(folder / f"{name}.out.npy") for name in names]
