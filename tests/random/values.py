# SPDX-License-Identifier: Apache-2.0
"""Dims, inputs and assignments of a random program in the making."""

import random
from typing import NamedTuple

WORK_MAX, ORACLE_MAX = 4_000_000, 20_000_000
EXTENTS = {
    "long": [50, 63, 64, 65, 96, 100, 127, 128, 129, 160, 191, 200, 255, 256, 257, 300],
    "short": [1, 1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 47],
    "width": [1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80],
    "heads": [1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9],
    "batch": [1, 2, 3, 4],
}
HALVES = ["f16", "bf16"]


def dynamic_option(dims, extents):
    """`--dynamic` of these dims; every second one is planned for another length than it has."""
    far = {dim: 512 if extents[dim] < 100 else 4 for dim in dims if (extents[dim] + len(dim)) % 2}
    return ["--dynamic", ",".join(f"{d}={far[d]}" if d in far else d for d in dims)]


class Value(NamedTuple):
    name: str
    dims: tuple
    std: float = 1.0
    elem: str = ""


class Values:
    def __init__(self, seed):
        self.random = random.Random(seed)
        # For choices that were added later: programs of earlier seeds stay what they were.
        self.later = random.Random(~seed)
        self.extent, self.like, self.fixed = {}, {}, set()
        self.parameters, self.lines, self.results, self.mapped = [], [], [], []
        self.helpers = []
        self.fresh = 0
        self.has_softmax = False
        self.choose_extents()
        self.choose_types()

    # ---- small choices -------------------------------------------------------------------------
    def chance(self, share):
        return self.random.random() < share

    def choose(self, table):
        """A key of a table of weights."""
        return self.random.choices(list(table), list(table.values()))[0]

    def shuffled(self, dims):
        """In any order, but those that are alike in the same one everywhere: no tensor is read in
        another order than its own."""
        dims = list(dims)
        self.random.shuffle(dims)
        for root in dict.fromkeys(self.like.values()):
            alike = [root, *(dim for dim, of in self.like.items() if of == root)]
            places = [i for i, dim in enumerate(dims) if dim in alike]
            for place, dim in zip(places, sorted((dims[i] for i in places), key=alike.index)):
                dims[place] = dim
        return dims

    def volume(self, dims):
        product = 1
        for dim in dims:
            product *= self.extent[dim]
        return product

    def choose_extents(self):
        draw = self.random.choice
        lengths = self.choose({"long": 6, "short": 3, "mixed": 2})
        for dim in "nm":
            kind = draw(["long", "short"]) if lengths == "mixed" else lengths
            self.extent[dim] = draw(EXTENTS[kind])
        self.own_memory = self.chance(0.5)
        if self.own_memory:
            self.add_like("m", "n")
        self.batch_mode = self.choose({"none": 4, "def": 4, "map": 2})
        self.batch = []
        if self.batch_mode != "none":
            self.batch = ["b", "c"] if self.batch_mode == "def" and self.chance(0.2) else ["b"]
        for dim in self.batch:
            self.extent[dim] = draw(EXTENTS["batch"])
        self.extent.update({dim: draw(EXTENTS["width"]) for dim in "de"})
        if self.own_memory:
            self.add_like("e", "d")
        self.heads_max = 9
        self.width_max = 80
        positions = self.extent["n"] * self.extent["m"] * self.volume(self.batch)
        while positions * self.heads_max * (self.width_max + 2 * self.heads_max) > WORK_MAX:
            if self.heads_max == 1 or (self.width_max > 8 and self.chance(0.5)):
                if self.width_max <= 4:
                    break
                self.width_max = self.width_max * 3 // 4
            else:
                self.heads_max -= 1

    def choose_types(self):
        """What floats are stored as, and whether they are widened where they are used."""
        self.elem = self.choose({"": 14, "f64": 2, "f16": 2, "bf16": 2})
        self.widens = self.elem in HALVES and self.chance(0.8)
        self.mixed = self.elem and self.chance(0.3)

        # The definitions of the prelude take f32.
        self.calls = self.widens or not self.elem

    # ---- dims and values -----------------------------------------------------------------------
    def new_dim(self, base, extent):
        name, i = base, 2
        while name in self.extent:
            name, i = f"{base}{i}", i + 1
        self.extent[name] = extent
        return name

    def add_like(self, dim, root):
        self.like[dim] = root
        self.extent[dim] = self.extent[root]

    def width(self, base):
        return self.new_dim(
            base, self.random.choice([w for w in EXTENTS["width"] if w <= max(self.width_max, 4)])
        )

    def head_dim(self, base="h", limit=9):
        limit = max(min(limit, self.heads_max), 1)
        return self.new_dim(base, self.random.choice([h for h in EXTENTS["heads"] if h <= limit]))

    def fresh_name(self, prefix):
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def parameter(self, prefix, dims, elem="", learned=False):
        name, dims = self.fresh_name(prefix), self.shuffled(dims)
        suffix = f": {elem}" if elem else ""
        self.parameters.append(f"{'param ' if learned else ''}{name}[{', '.join(dims)}]{suffix}")
        small = learned or len(dims) > 2
        return Value(name, tuple(dims), self.volume(dims) ** -0.25 if small else 1.0, elem)

    def float_elem(self):
        return "" if self.mixed and self.chance(0.5) else self.elem

    def data(self, prefix, dims, elem=None):
        """An input over these dims and, mostly, the batch."""
        elem = self.float_elem() if elem is None else elem
        if self.batch_mode == "map":
            value = self.parameter(prefix, dims, elem)
            if not self.mapped or self.chance(0.75):
                self.mapped.append(value.name)
            return value
        batch = self.batch if self.chance(0.75) else [d for d in self.batch if self.chance(0.5)]
        return self.parameter(prefix, [*batch, *dims], elem)

    def weight(self, dims):
        return self.parameter("P", dims, self.float_elem(), learned=True)

    def ref(self, value, **renamed):
        """The text of a value as an operand, perhaps read over other dims."""
        dims = [renamed.get(d, d) for d in value.dims]
        return self.widened(value, dims if renamed else self.shuffled(dims))

    def widened(self, value, dims):
        """The text of a value, as f32 where halves are widened. A factor that moves when `verify`
        moves its f32 inputs lets it redraw the rounding of what plain code would have made."""
        text = f"{value.name}[{', '.join(dims)}]"
        return f"(f32({text}) * near_one)" if value.elem in HALVES and self.widens else text

    def renamed(self, value, **names):
        """The same tensor over dims that are alike."""
        dims = [names.get(d, d) for d in value.dims]
        return self.let(dims, f"{value.name}[{', '.join(dims)}]", value.std, elem=value.elem)

    def let(self, dims, expression, std=1.0, prefix="t", elem=""):
        name = self.fresh_name(prefix)
        dims = tuple(self.shuffled(dims))
        self.lines.append(f"{name}[{', '.join(dims)}] = {expression}")
        return Value(name, dims, std, elem)

    def einsum_text(self, dims, *operands):
        """(text, standard deviation): the dims of the result are written."""
        union = list(dict.fromkeys(d for o in operands for d in o.dims))
        std = self.volume(set(union) - set(dims)) ** 0.5
        for operand in operands:
            std *= operand.std
        refs = [self.ref(o) for o in self.shuffled(operands)]
        return f"einsum({', '.join(refs)} -> [{', '.join(self.shuffled(dims))}])", std

    def einsum(self, dims, *operands, prefix="t"):
        """Many operands in one, unless the oracle, which sums as it is written, takes too long."""
        union = self.union(*operands)
        if len(operands) > 2 and self.volume(union) > ORACLE_MAX:
            *others, a, b = operands
            kept = [*dims, *self.union(*others)]
            both = self.einsum([d for d in self.union(a, b) if d in kept], a, b)
            return self.einsum(dims, *others, both, prefix=prefix)
        text, std = self.einsum_text(dims, *operands)
        if self.chance(0.5):
            text = text[: text.index(" ->")] + ")"
        return self.let(dims, text, std, prefix)

    def union(self, *values):
        return list(dict.fromkeys(d for v in values for d in v.dims))

    def number(self, low, high):
        return f"{self.random.uniform(low, high):.3g}"
