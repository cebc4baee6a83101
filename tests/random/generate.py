# SPDX-License-Identifier: Apache-2.0
"""Random programs of the language, valid by construction.

usage: generate.py SEED     prints a program; its first line tells the options to verify it with

A program is a def of a few assignments over named dims. Values are kept of order one (einsums are
scaled by the root of what they sum, exponentials get bounded arguments, quotients positive
divisors), so that the oracle's NaN or infinity never hides an error, and nothing compares computed
floats, so that rounding cannot flip a branch. Every fourth program has element types: halves and
f64 that are cast on use, and whole numbers with arithmetic of their own. Every eighth has dims that
are computed from others, and every other one of these a dim without positions.
"""

import random
import sys

from moves import VOLUME_MAX, Moves
from values import dynamic_option

EXTENTS = [1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33]
NAMES = "n a b c e g h k p q".split()
WORK_MAX = 1_000_000
WHOLE = ["i32", "i64"]
HALVES = ["f16", "bf16"]
FLOATS = [*HALVES, "f64"]


class Program(Moves):
    def __init__(self, seed):
        self.random = random.Random(seed)
        count = self.random.randint(2, 5)
        self.extent = {name: self.random.choice(EXTENTS) for name in NAMES[:count]}
        self.like = {}
        for name in list(self.extent):
            if self.random.random() < 0.3:
                other = name + self.random.choice(["2", "'", "''"])
                self.like[other] = name
                self.extent[other] = self.extent[name]
        self.typed = seed % 4 == 2
        self.computes = seed % 8 == 5
        self.empties = seed % 16 == 5
        self.computed = {}  # dims that follow from others -> what `dim` says of them, or None
        # Dims that must have as many positions as they have: a mean or a maximum over nothing is no
        # number, and whether an empty sum is multiplied with it is not defined.
        self.counted = set()
        self.elems = {}  # of the values that are not f32
        self.parameters, self.lines, self.values = [], [], []
        self.used = set()
        self.made = set()  # dims that split and merge make: of no parameter
        self.fixed = set()  # dims whose extents the text depends on
        self.fresh = 0
        self.helpers = []

    # ---- small choices ----
    def volume(self, dims):
        product = 1
        for dim in dims:
            product *= self.extent[dim]
        return product

    def some_dims(self, low=0, high=3):
        for _ in range(20):
            dims = self.random.sample(
                list(self.extent), min(len(self.extent), self.random.randint(low, high))
            )
            if self.volume(dims) <= VOLUME_MAX:
                return dims
        return []

    def shuffled(self, own):
        """Dims in any order, but what is alike in the tensor's."""
        dims = self.random.sample(own, len(own))
        for root in self.like.values():
            alike = iter(dim for dim in own if self.root(dim) == root)
            dims = [next(alike) if self.root(dim) == root else dim for dim in dims]
        return dims

    def plain_ref(self, value):
        name, dims = value
        if self.random.random() < 0.3:
            dims = self.shuffled(dims)
        self.used.add(name)
        return f"{name}[{', '.join(dims)}]"

    def root(self, dim):
        return self.like.get(dim, dim)

    def ref(self, value):
        """A value as f32 of order one, and moved when `verify` moves the f32 inputs: without that
        a lucky naive evaluation has no second draw."""
        text, elem = self.plain_ref(value), self.elems.get(value[0])
        if elem in WHOLE:
            return f"(f32({text} % 5) / 4 * near_one)"
        return f"(f32({text}) * near_one)" if elem else text

    def pick(self, accept=lambda dims: True, elems=None):
        """A value so far, of one of these types, mostly a recent one, or None. Computed halves have
        to be asked for: the jumps of their rounding would be all of the error of an f32."""

        def fits(name):
            elem = self.elems.get(name)
            return elem in elems if elems else elem not in HALVES or name[0] == "X"

        fitting = [value for value in self.values if accept(value[1]) and fits(value[0])]
        if not fitting:
            return None
        unused = [value for value in fitting if value[0] not in self.used]
        if unused and self.random.random() < 0.6:
            return self.random.choice(unused)
        return self.random.choice(fitting)

    def parameter(self, dims=None, elem=None):
        name = f"X{len(self.parameters)}"
        dims = self.some_dims(1) if dims is None else dims
        suffix = f": {elem}" if elem else ""
        self.parameters.append(f"{name}[{', '.join(dims)}]{suffix}")
        if elem:
            self.elems[name] = elem
        return name, tuple(dims)

    def assign(self, dims, expression, elem=None):
        name = f"t{self.fresh}"
        self.fresh += 1
        dims = list(dims)
        self.random.shuffle(dims)
        suffix = f": {elem}" if elem else ""
        self.lines.append(f"{name}[{', '.join(dims)}]{suffix} = {expression}")
        self.values.append((name, tuple(dims)))
        if elem:
            self.elems[name] = elem

    # ---- one statement of each kind: False when it does not apply ----
    def einsum(self):
        operands = [self.pick() for _ in range(self.random.choice([1, 2, 2, 2, 3, 3, 4]))]
        # Higher powers of one tensor multiply its rounding errors: no limit holds for few of them.
        while max(map(operands.count, operands)) > 2:
            operands.remove(max(operands, key=operands.count))
        union = list(dict.fromkeys(dim for _, dims in operands for dim in dims))
        if self.volume(union) > WORK_MAX:
            return False
        keep = [dim for dim in union if self.random.random() < 0.6]
        while self.volume(keep) > VOLUME_MAX:
            keep.pop()
        summed = self.volume(set(union) - set(keep))
        scale = "" if summed == 1 else f" / sqrt({summed})"
        text = f"einsum({', '.join(self.ref(o) for o in operands)}){scale}"
        if self.random.random() < 0.2:
            text = f"tanh({text})"
        self.assign(keep, text)
        return True

    def sum_of_einsums(self):
        common = self.pick(lambda dims: 0 < len(dims) <= 3)
        if not common:
            return False
        summed = self.random.choice(common[1])
        kept = [dim for dim in common[1] if dim != summed]
        extra = [dim for dim in self.extent if dim not in common[1]]
        target = kept + self.random.sample(extra, min(len(extra), 1))
        if self.volume(target) > VOLUME_MAX or self.volume(target) * self.extent[summed] > WORK_MAX:
            return False
        terms = []
        for _ in range(self.random.randint(2, 3)):
            dims = [summed] + [
                dim for dim in target if dim not in kept or self.random.random() < 0.4
            ]
            terms.append(f"einsum({self.ref(common)}, {self.ref(self.parameter(dims))})")
        self.assign(target, f"({' + '.join(terms)}) / sqrt({3 * self.extent[summed]})")
        return True

    def unary(self):
        value = self.pick()
        form = self.random.choice(
            [
                "tanh({})",
                "exp(-abs({}))",
                "exp2({} / 4)",
                "relu({})",
                "gelu({})",
                "dropout({}, rate=0.2, seed=3)",
                "sigmoid({})",
                "silu({})",
                "sqrt(abs({}) + 1)",
                "rsqrt(abs({}) + 0.5)",
                "log(abs({}) + 1)",
                "erf({})",
                "sin({})",
                "cos({})",
                "softplus({})",
                "-{}",
                "0.5 * {} + 1",
                "{} ** 2 / 4",
                "abs({})",
            ]
        )
        self.assign(value[1], form.format(self.ref(value)))
        return True

    def binary(self):
        a, b = self.pick(), self.pick()
        union = list(dict.fromkeys(a[1] + b[1]))
        if self.volume(union) > VOLUME_MAX:
            return False
        form = self.random.choice(
            [
                "{} + {}",
                "{} - {}",
                "0.5 * {} * {}",
                "{} / (abs({}) + 1)",
                "max({}, {})",
                "min({}, {})",
            ]
        )
        self.assign(union, form.format(self.ref(a), self.ref(b)))
        return True

    def mask(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        a, b = self.random.choice(value[1]), self.random.choice(value[1])
        predicate = self.random.choice(
            [
                f"index({a}) <= index({b})",
                f"index({a}) - index({b}) < 3 and index({b}) >= 1",
                f"index({a}) % 2 == 0",
                f"not (index({a}) == index({b}))",
                f"index({a}) // 3 != index({b})",
            ]
        )
        text = f"where({predicate}, {self.ref(value)}, {self.random.choice(['0', '-1', '0.25'])})"
        self.assign(value[1], text)
        return True

    def masked_softmax(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        a, b = self.random.choice(value[1]), self.random.choice(value[1])
        text = f"where(index({a}) <= index({b}), {self.ref(value)}, -inf)"
        self.assign(value[1], f"softmax({text}, reduced_dim={self.random.choice(value[1])})")
        return True

    def row(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        dim = self.random.choice(value[1])
        function = self.random.choice(["softmax", "softmax", "log_softmax", "cumsum"])
        key = "dim" if function == "cumsum" else "reduced_dim"
        text = f"{function}({self.ref(value)}, {key}={dim})"
        if function == "cumsum":
            text += f" / {self.extent[dim]}"
        self.assign(value[1], text)
        return True

    def reduce(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        count = self.random.randint(1, min(2, len(value[1])))
        dims = self.random.sample(value[1], count)
        function = self.random.choice(["sum", "mean", "max", "min", "logsumexp"])
        if function == "logsumexp":
            dims = dims[:1]
        if function != "sum":
            self.counted.update(dims)
        over = dims[0] if len(dims) == 1 else f"({', '.join(dims)})"
        text = f"{function}({self.ref(value)}, reduced_dim={over})"
        if function == "sum":
            text = f"{text} / sqrt({self.volume(dims)})"
        if function == "logsumexp":  # 0 for logarithms of shares: nothing to measure errors by
            text = f"({text} + 4) / 4"
        self.assign([dim for dim in value[1] if dim not in dims], text)
        return True

    def normalise(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        dim, ref = self.random.choice(value[1]), self.ref(value)
        rest = [d for d in value[1] if d != dim]
        self.counted.add(dim)
        self.assign(rest, f"mean({ref}, reduced_dim={dim})")
        mean = self.values[-1]
        self.assign(value[1], f"{ref} - {self.ref(mean)}")
        centred = self.values[-1]
        self.assign(rest, f"mean({self.ref(centred)} ** 2, reduced_dim={dim})")
        self.assign(value[1], f"{self.ref(centred)} * rsqrt({self.ref(self.values[-1])} + 0.1)")
        return True

    def constant(self):
        """zeros, ones, full or an array in the text, alone or beside a value."""
        value = self.pick()
        if not value:
            return False
        dims = self.random.sample(value[1], self.random.randint(0, min(2, len(value[1]))))
        over = ", ".join(dims)
        number = self.random.choice(["0.25", "-1", "1 / 3"])
        same = [f"zeros[{over}]", f"ones[{over}]", f"full({number} -> [{over}])"]
        text = self.random.choice(same)
        if dims and self.volume(dims) <= 40 and self.random.random() < 0.6:
            text = f"{self.rows(dims)} -> [{over}]"
            self.fixed.update(self.root(dim) for dim in dims)
        if self.random.random() < 0.3:
            self.assign(dims, f"f32({text})")
        elif self.random.random() < 0.5:
            gone = self.random.sample(dims, self.random.randint(0, len(dims)))
            keep = [dim for dim in value[1] if dim not in gone]
            self.assign(keep, f"einsum({self.ref(value)}, {text}) / {self.volume(gone)}")
        else:
            forms = ["{} * {}", "{} + {}", "min({}, {})", "where({1} > 0, {0}, 1)"]
            form = self.random.choice(forms)
            self.assign(value[1], form.format(self.ref(value), f"({text})"))
        return True

    def rows(self, dims):
        """An array over these dims."""
        if not dims:
            return self.random.choice(["0.5", "1", "-1", "0", "1 / 3", "pi / 4"])
        rows = [self.rows(dims[1:]) for _ in range(self.extent[dims[0]])]
        return f"[{', '.join(rows)}]"

    def helper(self):
        """A call of a def over z: z is bound by hand, or by place as the last dim; all others are
        mapped. Some have two results."""
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        if not value:
            return False
        name = f"F{len(self.helpers)}"
        body = self.random.choice(
            ["softmax(x[z], reduced_dim=z)", "x[z] - mean(x[z], reduced_dim=z)", "tanh(x[z]) * 0.5"]
        )
        several = self.random.random() < 0.3
        more = ", sum(x[z], reduced_dim=z) / sqrt(z)" if several else ""
        self.helpers.append(f"def {name}(x[z]):\n    return {body}{more}\n")
        self.used.add(value[0])
        dims = self.shuffled(value[1])
        bound = self.random.choice(dims) if self.random.random() < 0.5 else None
        argument = f"{value[0]}[{', '.join(dims)}]"
        call = f"{name}({argument}, z={bound})" if bound else f"{name}({argument})"
        self.assign(value[1], call)
        if several:
            first = self.lines.pop().split(" = ")[0]
            self.assign([dim for dim in value[1] if dim != (bound or dims[-1])], call)
            self.lines[-1] = f"{first}, {self.lines[-1]}"
        return True

    def scan(self):
        """A recurrence along a dim of a value: what is carried is bounded at each step; it is
        written at each position, or left behind, or both."""
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        if not value:
            return False
        along = self.random.choice(value[1])
        rest = [dim for dim in value[1] if dim != along]
        more = [dim for dim in self.extent if dim not in value[1]]
        kept = rest + self.random.sample(more, min(len(more), self.random.randint(0, 1)))
        if self.volume(kept) * self.extent[along] > VOLUME_MAX:
            return False
        state, number = f"s{self.fresh}", self.fresh
        brackets = f"[{', '.join(kept)}]"
        self.lines.append(f"{state}{brackets} = zeros{brackets}")
        if len(kept) > len(rest) or self.random.random() < 0.5:
            self.lines[-1] = f"{state}{brackets} = {self.ref(self.parameter(kept))}"
        self.used.add(value[0])
        read = f"{value[0]}[{', '.join('at' if dim == along else dim for dim in value[1])}]"
        fades = ["0.5 * {s}", "{s} * sigmoid({x})", "tanh({s})", "where(at % 2 == 0, {s}, -{s})"]
        step = f"tanh({self.random.choice(fades).format(s=state, x=read)} + {read})"
        mixed = self.random.choice(kept) if kept and self.random.random() < 0.4 else None
        lines = [f"{state} = {step}"]
        if mixed:
            other = [dim for dim in kept if dim != mixed]
            sums = f"sum({state}, reduced_dim={mixed})"
            lines.insert(0, f"m{number}[{', '.join(other)}] = tanh({sums})")
            lines[1] = f"{state} = {step} + m{number} / 2"
        row = self.random.choice([state, f"{state} + {read}", f"0.5 * {state} - at % 3"])
        written = self.random.random() < 0.7
        if written:
            name = f"t{self.fresh}"
            self.fresh += 1
            lines.append(f"{name}[{', '.join(['at', *kept])}] = {row}")
            self.values.append((name, (along, *kept)))
        self.lines.append(f"scan at in {along}{self.random.choice(['', ' reversed'])}:")
        self.lines += [f"    {line}" for line in lines]
        if not written or self.random.random() < 0.5:
            self.assign(kept, f"{state} * 1")
        return True

    def nested_scan(self):
        """A scan inside of a scan, of as many positions or others, whose carry lacks the outer dim
        or is the outer carry itself; the inner body reads what the outer one has made."""
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        if not value:
            return False
        along = self.random.choice(value[1])
        rest = [dim for dim in value[1] if dim != along]
        inner = [dim for dim in self.extent if dim not in value[1]]
        same = [dim for dim in inner if self.root(dim) == self.root(along)]
        if not inner:
            return False
        within = self.random.choice(same if same and self.random.random() < 0.5 else inner)
        steps = self.extent[along] * self.extent[within]
        if self.volume(rest) * steps > VOLUME_MAX:
            return False
        number, kept = self.fresh, ", ".join(rest)
        state, part, made = f"s{number}", f"p{number}", f"m{number}"
        self.used.add(value[0])
        read = f"{value[0]}[{', '.join('at' if dim == along else dim for dim in value[1])}]"
        other = self.pick(lambda dims: within in dims and {*dims} <= {within, *rest}, [None])
        if not other:
            other = self.parameter([within, *self.random.sample(rest, min(len(rest), 1))])
        self.used.add(other[0])
        there = f"{other[0]}[{', '.join('to' if dim == within else dim for dim in other[1])}]"
        first = self.random.choice([f"zeros[{kept}]", f"{made}[{kept}] * 1", f"{state} * 0.5"])
        fade = self.random.choice(["0.5 * {}", "tanh({})", "where((at + to) % 2 == 0, {}, -{})"])
        fed = self.random.choice([there, f"{there} * {made}", f"{there} + {state} / 4"])
        lines = [
            f"{made}[{kept}] = tanh({self.random.choice([read, f'{read} + {state}'])})",
            f"{part}[{kept}] = {first}",
            f"scan to in {within}:",
        ]
        carried = self.random.choice([part, part, state])
        lines.append(f"    {carried} = tanh({fade.format(carried, carried)} + {fed})")
        if carried == state or self.random.random() < 0.3:
            lines.append(f"    {part} = {part} * 0.5 + {made}")
        written = self.random.random() < 0.6
        if written:
            row = self.random.choice([carried, f"{part} - {there}", f"{there} * {made} + to % 2"])
            dims = self.random.sample(["at", "to", *rest], 2 + len(rest))
            name = f"t{self.fresh}"
            self.fresh += 1
            lines.append(f"    {name}[{', '.join(dims)}] = {row}")
            self.values.append((name, tuple({"at": along, "to": within}.get(d, d) for d in dims)))
        lines.append(f"{state} = tanh({state} * 0.5 + {part})")
        self.lines.append(f"{state}[{kept}] = zeros[{kept}]")
        self.lines.append(f"scan at in {along}:")
        self.lines += [f"    {line}" for line in lines]
        if not written or self.random.random() < 0.5:
            self.assign(rest, f"{state} * 1")
        return True

    # ---- element types ----
    def store(self):
        elem = self.random.choice(FLOATS)
        value = self.pick()
        if not value:
            return False
        form = self.random.choice(["{}", "0.5 * {}", "tanh({})"])
        self.assign(value[1], f"{elem}({form.format(self.ref(value))})", elem)
        return True

    def of_one_type(self):
        """An operation that stays in a type other than f32."""
        a = self.pick(elems=FLOATS)
        if not a:
            return False
        elem = self.elems[a[0]]
        b = self.pick(elems=[elem])
        union = list(dict.fromkeys(a[1] + b[1]))
        if self.volume(union) > VOLUME_MAX:
            return False
        a, b = self.plain_ref(a), self.plain_ref(b)
        keep = [dim for dim in union if self.random.random() < 0.6]
        root = f"sqrt({self.volume(union) // self.volume(keep)})"
        whole = [f"0.5 * {a} * {b}", f"max({a}, {b})", f"{a} - {b}", f"{a} / (abs({b}) + 1)"]
        if self.random.random() < 0.4:
            self.assign(keep, f"{elem}(einsum({a}, {b}) / {root})", elem)
        else:
            self.assign(union, self.random.choice(whole), elem)
        return True

    def whole_numbers(self):
        a = self.pick(elems=WHOLE)
        if not a:
            a = self.parameter(elem=self.random.choice(WHOLE))
        elem = self.elems[a[0]]
        b = self.pick(elems=[elem]) or a
        union = list(dict.fromkeys(a[1] + b[1]))
        if self.volume(union) > VOLUME_MAX:
            return False
        dim = self.random.choice(a[1]) if a[1] else None
        a, b = self.plain_ref(a), self.plain_ref(b)
        forms = [
            f"{a} + {b}",
            f"{a} * {b} - 7",
            f"{b} - {a} * 1103515",
            f"{a} // 3 - {b} % 4",
            f"{a} // ({b} - 1)",
            f"{a} % (1 - {b})",
            f"max({a}, -{b})",
            f"abs({a} - 2 * {b})",
            f"where({a} < {b}, {a}, {b})",
        ]
        if dim:
            forms += [f"{a} + {b} + {elem}(index({dim}))", f"cumsum({a}, dim={dim}) - {b}"]
        self.assign(union, self.random.choice(forms), elem)
        return True

    # ---- a whole program ----
    def build(self):
        for _ in range(self.random.randint(1, 3)):
            elem = self.random.choice([None, None, *FLOATS, *WHOLE]) if self.typed else None
            self.values.append(self.parameter(elem=elem))
        kinds = (
            [self.einsum] * 5
            + [self.unary] * 3
            + [self.binary] * 3
            + [
                self.sum_of_einsums,
                self.mask,
                self.masked_softmax,
                self.row,
                self.reduce,
                self.normalise,
                self.rename,
                self.swap,
                self.swap,
                self.gather,
                self.scatter,
                self.sort,
                self.argsort,
                self.topk,
                self.shift,
                self.take,
                self.constant,
                self.constant,
                self.regroup,
                self.regroup,
                self.helper,
                self.scan,
                self.scan,
                self.nested_scan,
            ]
        )
        if self.typed:
            kinds += [self.store] * 3 + [self.of_one_type] * 4 + [self.whole_numbers] * 4
        if self.computes:
            kinds += [self.joined, self.part] * 4
        wanted = self.random.randint(2, 9)
        while self.fresh < wanted:
            self.random.choice(kinds)()
        results = [v for v in self.values if v[0] not in self.used and v[0].startswith("t")]
        results = (results or [self.values[-1]])[-4:]
        return self.text(results)

    def text(self, results):
        follow = {*self.like, *self.made, *self.computed}
        dynamic = [
            dim
            for dim in self.extent
            if self.random.random() < 0.5 and dim not in {*follow, *self.fixed}
        ]
        told = {d: e for d, e in self.extent.items() if d not in follow}
        counted = {self.root(d) for d in self.counted} | self.fixed
        empty = [d for d in told if d not in counted]
        if self.empties and empty and not self.made and not counted & {*self.computed}:
            told[self.random.choice(empty)] = 0
        options = [
            "-w",
            "-D",
            ",".join(f"{d}={e}" for d, e in told.items()),
        ]
        if dynamic:
            options += dynamic_option(dynamic, self.extent)
        options += [
            "--threads",
            str(self.random.choice([1, 2, 3])),
            "--seed",
            str(self.random.randrange(1000)),
        ]
        lines = [f"# {' '.join(options)}"]
        lines += [f"dim {dim} like {root}" for dim, root in self.like.items() if "'" not in dim]
        lines += [f"dim {dim} = {self.extent[dim]}" for dim in sorted(self.fixed)]
        lines += [
            f"dim {d} = {text}" for d, text in self.computed.items() if text and d not in self.fixed
        ]
        lines += self.helpers
        if self.typed:
            # A number that one unit in the last place of G moves, too, in about every third draw.
            self.parameters.append("G[]")
            self.lines.insert(0, "near_one[] = 1.2 + 0.6 * tanh(G[])")
        lines.append(f"def Program({', '.join(self.parameters)}):")
        lines += [f"    {line}" for line in self.lines]
        results = [(name, self.random.sample(dims, len(dims))) for name, dims in results]
        lines.append("    return " + ", ".join(f"{n}[{', '.join(d)}]" for n, d in results))
        return "\n".join(lines) + "\n"


def generate(seed):
    """(source text, options for `attc verify`) of one seed."""
    text = Program(seed).build()
    return text, text.split("\n", 1)[0][2:].split()


if __name__ == "__main__":
    print(generate(int(sys.argv[1]))[0], end="")
