# SPDX-License-Identifier: Apache-2.0
"""Random programs shaped like attention, valid by construction.

usage: attention.py SEED     prints a program; its first line tells the options to verify it with

A program is one or two layers: queries, keys and values from somewhere, logits, what is done to
them (mixing of heads, biases, caps), masks, a normaliser, what is done to the weights, outputs, and
perhaps statistics beside them. Each of these is one choice among many forms, and every form fits
every other. Values carry their dims and roughly their standard deviation, which the logits are
scaled by: rows that are nearly uniform, or where one position has it all, would hide errors. No
comparison reads a computed float, so that rounding cannot flip a branch.
"""

import re
import sys

from logits import Logits
from values import HALVES, dynamic_option

RESULT_MAX = 100_000


class Attention(Logits):
    # ---- queries, keys and values --------------------------------------------------------------
    def head_scheme(self):
        """Head dims of queries, keys and values."""
        form = self.choose(
            {"one": 9, "none": 3, "grouped": 3, "shared": 2, "keys": 1, "values": 1, "queries": 1}
        )
        if form == "none":
            return [], [], []
        if form == "grouped":
            group = self.head_dim("g", 4)
            inner = self.head_dim("q", max(self.heads_max // self.extent[group], 1))
            return [group, inner], [group], [group]
        head = [self.head_dim()]
        return {
            "one": (head, head, head),
            "shared": (head, [], []),
            "keys": (head, [], head),
            "values": (head, head, []),
            "queries": ([], head, head),
        }[form]

    def project(self, source, inner, dims, prefix):
        """The source's dim `inner` becomes `dims`."""
        rest = [d for d in source.dims if d != inner]
        form = self.choose({"plain": 8, "bias": 2, "low_rank": 1, "act": 1})
        if form == "low_rank":
            rank = self.width("r")
            parts = [self.weight([inner, rank]), self.weight([rank, *dims])]
            return self.einsum(rest + dims, source, *parts, prefix=prefix)
        value = self.einsum(rest + dims, source, self.weight([inner, *dims]), prefix=prefix)
        if form == "bias":
            bias = self.weight(dims)
            return self.let(value.dims, f"{self.ref(value)} + {self.ref(bias)}", value.std, prefix)
        if form == "act":
            text = self.random.choice(["tanh({})", "gelu({})", "silu({})"]).format(self.ref(value))
            return self.let(value.dims, text, 0.6, prefix)
        return value

    def positioned(self, value, position, width):
        """Rotary positions, in one of several ways of writing them."""
        if self.extent[width] % 2 or self.extent[width] < 2:
            return value
        self.fixed.add(width)
        if self.calls and self.chance(0.4):
            dims = [d for d in value.dims if d not in (position, width)] + [position, width]
            call = self.random.choice(["rotary", "rotary_pairs"])
            by_hand = value.elem in HALVES or position != "n"  # else by name, and by place
            hands = f", n={position}, d={width}" if by_hand else ""
            text = f"{call}({self.widened(value, dims)}{hands})"
            return self.let(value.dims, text, value.std)
        period = self.random.choice([10, 100, 10000])
        angle = self.let(
            [position, width],
            f"index({position}) / {period} ** (2 * (index({width}) % ({width} // 2)) / {width})",
        )
        ref = self.ref(value)
        turned = f"shift({ref}, {width}, {width} // 2) - shift({ref}, {width}, -({width} // 2))"
        return self.let(
            value.dims,
            f"{ref} * cos({self.ref(angle)}) + ({turned}) * sin({self.ref(angle)})",
            value.std,
        )

    def normalised(self, value, width):
        rest = [d for d in value.dims if d != width]
        ref = self.ref(value)
        square = self.let(rest, f"mean({ref} * {self.ref(value)}, reduced_dim={width})")
        return self.let(value.dims, f"{self.ref(value)} * rsqrt({self.ref(square)} + 1e-3)")

    def dressed(self, value, position, width):
        """A query or key, perhaps with positions, normalised, or in another scale."""
        if self.dresses["rotary"]:
            value = self.positioned(value, position, width)
        if self.dresses["unit"]:
            value = self.normalised(value, width)
        if self.dresses["feature"]:
            text = self.random.choice(["exp(min({0}, 2))", "relu({0}) + 0.01", "sigmoid({0})"])
            value = self.let(value.dims, text.format(self.ref(value)), 0.8)
        if self.chance(0.15):
            value = self.let(
                value.dims,
                f"{self.ref(value)} / sqrt({width})",
                value.std / self.extent[width] ** 0.5,
            )
        return value

    def memory_of(self, source):
        """What keys and values are made of, when it is what queries are made of."""
        if self.chance(0.5):
            return self.renamed(source, n="m", d="e")
        return self.renamed(source, n="m")

    def score(self, source, memory, heads):
        """Logits: a product of queries and keys, from inputs, projections, or all in one."""
        q_heads, k_heads, _ = heads
        width = self.width("k")
        self.dresses = {
            "rotary": self.chance(0.15),
            "unit": self.chance(0.1),
            "feature": self.chance(0.05),
        }
        self.keys = None
        if source is None:
            query = self.data("Q", ["n", width, *q_heads])
            key = self.data("K", ["m", width, *k_heads])
            return self.product(query, key, width)
        form = self.choose({"apart": 8, "in_one": 1, "bilinear": 1, "tied": 1})
        if form in ("in_one", "bilinear") and "e" in memory.dims:
            return self.score_in_one(source, memory, heads, width, form)
        query = self.project(source, "d", [width, *q_heads], "Q")
        if form == "tied" and self.own_memory and q_heads == k_heads:
            query = self.dressed(query, "n", width)
            self.keys = (self.renamed(query, n="m"), width)
            return self.einsum(
                [d for d in self.union(query, self.keys[0]) if d != width],
                query,
                self.keys[0],
                prefix="J",
            )
        key = self.project(memory, self.inner_of(memory), [width, *k_heads], "K")
        return self.product(query, key, width)

    def score_in_one(self, source, memory, heads, width, form):
        q_heads, k_heads, _ = heads
        union = list(dict.fromkeys([*q_heads, *k_heads]))
        if form == "bilinear":
            parts = [self.weight(["d", "e", *union])]
        else:
            parts = [self.weight(["d", width, *q_heads]), self.weight(["e", width, *k_heads])]
        dims = [d for d in self.union(source, memory) if d not in "de"] + union
        return self.einsum(dims, source, memory, *parts, prefix="J")

    def product(self, query, key, width):
        query, key = self.dressed(query, "n", width), self.dressed(key, "m", width)
        self.keys = (key, width)
        return self.einsum(
            [d for d in self.union(query, key) if d != width], query, key, prefix="J"
        )

    def inner_of(self, source):
        """The dim of vectors that are projected."""
        return "e" if "e" in source.dims else "d"

    def attended(self, weights, memory, v_heads):
        """What the weights select."""
        heads = self.heads_of(weights)
        own = v_heads if set(v_heads) <= set(heads) else [h for h in heads if self.chance(0.6)]
        form = self.choose({"plain": 12, "keys": 2, "memory": 1, "in_one": 1})
        if (
            form == "keys"
            and self.keys
            and set(self.heads_of(self.keys[0])) - {self.keys[1]} <= set(heads)
        ):
            value, width = self.keys
        elif form == "memory" and memory:
            value, width = memory, self.inner_of(memory)
        elif form == "in_one" and memory:
            width = self.width("v")
            inner = self.inner_of(memory)
            weight = self.weight([inner, width, *own])
            dims = [d for d in self.union(weights, memory, weight) if d not in ("m", inner)]
            return self.einsum(dims, weights, memory, weight, prefix="O"), width
        else:
            width = self.width("v")
            if memory:
                value = self.project(memory, self.inner_of(memory), [width, *own], "V")
            else:
                value = self.data("V", ["m", width, *own])
        dims = [d for d in self.union(weights, value) if d != "m"]
        if heads and self.chance(0.1):
            dims.remove(self.random.choice(heads))
        return self.einsum(dims, weights, value, prefix="O"), width

    def treated_weights(self, weights, source, memory):
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2])):
            ref = self.ref(weights)
            form = self.choose(
                {"mix": 6, "gate": 2, "mask": 1, "again": 1, "dropout": 2, "scale": 1, "uniform": 1}
            )
            if form == "mix":
                weights = self.mixed_heads(weights, source, memory)
                continue
            if form == "gate":
                gate = self.weight(self.heads_of(weights) + [d for d in "nm" if self.chance(0.2)])
                text = f"{ref} * {self.ref(gate)}"
            elif form == "mask":
                text = f"where(index(m) != index(n) // 2, {ref}, 0)"
            elif form == "again":
                rest = [d for d in weights.dims if d != "m"]
                total = self.let(rest, f"sum(abs({ref}), reduced_dim=m)")
                text = f"{self.ref(weights)} / ({self.ref(total)} + 0.01)"
            elif form == "dropout":
                seed = self.choose({"": 1, ", seed=-1": 1, f", seed={self.fresh}": 4})
                text = f"dropout({ref}, rate=0.1{seed})"
            elif form == "scale":
                text = f"{ref} * {self.number(0.5, 2)}"
            else:
                text = f"{ref} - 1 / m"
            weights = self.let(weights.dims, text, weights.std)
        return weights

    # ---- layers --------------------------------------------------------------------------------
    def projected_output(self, output, width):
        inner = [d for d in self.heads_of(output) if d != "d"]
        if not inner:
            return output
        if self.chance(0.15):
            rank = self.width("r")
            parts = [self.weight([*inner, rank]), self.weight([rank, "d"])]
        else:
            parts = [self.weight([*inner, "d"])]
        if width == "d":
            parts = [self.weight(inner)]
        dims = [d for d in output.dims if d not in (*inner, "d")] + ["d"]
        return self.einsum(dims, output, *parts, prefix="Y")

    def finished(self, output, source):
        form = self.choose({"plain": 6, "residual": 3, "norm": 2, "gate": 1, "act": 1})
        ref = self.ref(output)
        if form in ("residual", "norm") and source and set(source.dims) <= set(output.dims):
            output = self.let(output.dims, f"{ref} + {self.ref(source)}", 1, "Y")
            ref = self.ref(output)
        if form == "norm" and self.calls:
            dims = [d for d in output.dims if d != "d"] + ["d"]
            call = self.random.choice(["standardize", "layer_norm", "rms_norm", "unit"])
            hands = ", d=d" if output.elem in HALVES else ""
            return self.let(dims, f"{call}({self.widened(output, dims)}{hands})", 1, "Y")
        if form == "gate" and source and set(source.dims) <= set(output.dims):
            return self.let(output.dims, f"{ref} * sigmoid({self.ref(source)})", 0.5, "Y")
        if form == "act":
            return self.let(output.dims, f"gelu({ref})", 0.5, "Y")
        return output

    def statistics(self, logits, weights, output):
        """What is returned beside the output."""
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2])):
            form = self.choose(
                {
                    "log_sum": 4,
                    "entropy": 2,
                    "weights": 2,
                    "top": 2,
                    "use": 2,
                    "seen": 2,
                    "centre": 1,
                    "picked": 1,
                    "square": 1,
                    "logits": 1,
                    "back": 1,
                    "running": 1,
                }
            )
            dims, text = self.statistic(form, logits, weights, output)
            if self.volume(dims) <= RESULT_MAX:
                self.results.append(self.let(dims, text, prefix="S"))

    def statistic(self, form, logits, weights, output):
        """(dims, text)"""
        rest = [d for d in weights.dims if d != "m"]
        logit_rest = [d for d in logits.dims if d != "m"]
        ref = self.ref(weights)
        if form == "log_sum":
            return logit_rest, f"logsumexp({self.ref(logits)}, reduced_dim=m)"
        if form == "top":
            function = self.random.choice(["max", "min"])
            return logit_rest, f"{function}({self.ref(logits)}, reduced_dim=m)"
        if form == "seen":  # whole numbers, on which rounding has no effect
            seen = f"{self.ref(logits)} > -1e4"
            forms = ["min(where({}, i32(index(m)), 9999)", "max(where({}, index(m), -1)",
                     "max(where({}, -1 - i32(index(m)), -9999)"]  # fmt: skip
            form = self.random.choice(forms)
            return logit_rest, f"{form.format(seen)}, reduced_dim=m)"
        if form == "entropy":
            return rest, f"-sum({ref} * log(abs({ref}) + 1e-6), reduced_dim=m)"
        if form == "use":
            kept = [d for d in weights.dims if d != "n"]
            return kept, f"mean({ref}, reduced_dim=n)"
        if form == "centre":
            return rest, f"sum({ref} * index(m), reduced_dim=m) / m"
        if form == "square":
            return rest, f"sum({ref} ** 2, reduced_dim=m)"
        if form == "picked":
            ids = self.data("pick", ["n"], "i32")
            dims = list(dict.fromkeys([*ids.dims, *rest]))
            return dims, f"gather({ref}, {self.ref(ids)}, dim=m)"
        if form == "logits":
            return logits.dims, self.ref(logits)
        if form == "running":
            return weights.dims, f"cumsum({ref}, dim=m)"
        if form == "back":
            other = self.data("V", ["n", self.width("v")])
            dims = [d for d in self.union(weights, other) if d != "n"]
            return dims, self.einsum_text(dims, weights, other)[0]
        return weights.dims, ref

    def weights_twice(self, source, memory, heads):
        """Weights less other weights (Ye et al. 2024, "Differential Transformer")."""
        weights, logits = self.one_weights(source, memory, heads)
        if self.chance(0.08):
            other, _ = self.one_weights(source, memory, heads)
            dims = self.union(weights, other)
            text = f"{self.ref(weights)} - {self.number(0.2, 0.9)} * {self.ref(other)}"
            weights = self.let(dims, text, weights.std)
        return weights, logits

    def one_weights(self, source, memory, heads):
        logits = self.treated(self.score(source, memory, heads), source, memory)
        return self.weights_of(logits)

    def layer(self, source, memory, last):
        heads = self.head_scheme()
        weights, logits = self.weights_twice(source, memory, heads)
        weights = self.treated_weights(weights, source, memory)
        output, width = self.attended(weights, memory, heads[2])
        if not last or self.chance(0.6):
            output = self.projected_output(output, width)
            output = self.finished(output, source)
        self.statistics(logits, weights, output)
        return output

    def build(self):
        source = memory = None
        if self.widens:
            self.parameters.append("G[]")
            self.lines.append("near_one[] = 1.2 + 0.6 * tanh(G[])")
        if self.chance(0.7):
            source = self.data("X", ["n", "d"])
            memory = self.memory_of(source) if self.own_memory else self.data("M", ["m", "e"])
        layers = self.choose({1: 9, 2: 1})
        output = self.layer(source, memory, layers == 1)
        if layers == 2:
            source = output
            if self.own_memory:
                memory = self.memory_of(source)
            elif not memory:
                memory = self.data("M", ["m", "e"])
            output = self.layer(source, memory, True)
        self.results.insert(0, output)
        return self.text()

    # ---- text ----------------------------------------------------------------------------------
    def options(self):
        free = [d for d in self.extent if d not in self.like]
        options = ["-w", "-D", ",".join(f"{d}={self.extent[d]}" for d in free)]
        if self.mapped:
            options += ["--map", f"b={','.join(self.mapped)}"]
        dynamic = [d for d in free if d not in self.fixed and self.chance(0.4)]
        if dynamic and self.chance(0.6):
            options += dynamic_option(dynamic, self.extent)
        options += ["--threads", str(self.random.choice([1, 2, 3]))]
        return options + ["--seed", str(self.random.randrange(1000))]

    def text(self):
        lines = [f"# {' '.join(self.options())}"]
        lines += [f"dim {dim} like {root}" for dim, root in self.like.items()]
        lines.append(f"def Program({', '.join(self.parameters)}):")
        lines += [f"    {line}" for line in self.lines]
        results = [f"{r.name}[{', '.join(self.shuffled(r.dims))}]" for r in self.results]
        lines.append(f"    return {', '.join(results)}")
        return self.primed("\n".join(lines) + "\n")

    def primed(self, text):
        """The same program with primes in place of some of the dims that are declared alike."""
        alike = {root: dim for dim, root in self.like.items()}  # one of those that are like a root
        for dim, root in self.like.items():
            if self.chance(0.5) and alike[root] == dim:
                text = text.replace(f"dim {dim} like {root}\n", "")
                text = re.sub(rf"\b{dim}\b(?!=)", f"{root}'", text)
        return text


def generate(seed):
    """(source text, options for `attc verify`, whether there is a softmax) of one seed."""
    program = Attention(seed)
    text = program.build()
    return text, text.split("\n", 1)[0][2:].split(), program.has_softmax


if __name__ == "__main__":
    print(generate(int(sys.argv[1]))[0], end="")
