# SPDX-License-Identifier: Apache-2.0
"""A def of a random program while it is made: parameters, and statements that call no def."""

from binding import BASE, LIKE, root
from written_out import Let, Loop, marked

DIMS = [*BASE, *LIKE, "n'", "d'", "t'"]  # of parameters and arguments
DIMS_MOST = 4  # of a tensor
TRIES = 100  # to add statements: none may fit


class Body:
    """A def while it is made. own: dims that no parameter has -> ("like", dim), or the text of the
    extent. pool: tensors that may be read."""

    def __init__(self, program, name):
        self.program, self.random, self.name = program, program.random, name
        self.parameters, self.statements, self.results = [], [], []
        self.values, self.pool, self.used, self.own = {}, [], set(), {}

    # ---- small choices ----
    def chance(self, share):
        return self.random.random() < share

    def fresh(self, prefix="v"):
        self.program.count += 1
        return f"{prefix}{self.program.count}"

    def pick(self, accept=lambda dims: True):
        fitting = [name for name in self.pool if accept(self.values[name])]
        unused = [name for name in fitting if name not in self.used]
        if unused and self.chance(0.6):
            return self.random.choice(unused)
        return self.random.choice(fitting) if fitting else None

    def shuffled(self, dims):
        """In any order, but what is alike in its own."""
        order = self.random.sample(dims, len(dims))
        for kind in {root(dim) for dim in dims}:
            alike = iter([dim for dim in dims if root(dim) == kind])
            order = [next(alike) if root(dim) == kind else dim for dim in order]
        return order

    def ref(self, name, dims=None):
        self.used.add(name)
        return f"{name}[{marked(self.shuffled(self.values[name]) if dims is None else dims)}]"

    def formals(self):
        return list(dict.fromkeys(d for p in self.parameters for d in self.values[p]))

    def all_dims(self):
        return [*DIMS, *self.own]

    def parameter(self, dims):
        name = self.fresh("x")
        self.parameters.append(name)
        self.pool.append(name)
        self.values[name] = list(dims)
        return name

    def let(self, dims, text, pool=True):
        name = self.fresh()
        self.values[name] = self.random.sample(dims, len(dims))
        self.statements.append(Let(name, self.values[name], text))
        if pool:
            self.pool.append(name)
        return name

    # ---- statements ----
    def pointwise(self):
        name = self.pick(len)
        if not name:
            return
        a = self.random.choice(self.values[name])
        form = self.random.choice(
            [
                "tanh({x} * (1 + index({a}) / {a}))",
                "{x} * cos(index({a})) + 0.1",
                "where(index({a}) % 2 == 0, {x}, 0.25)",
                "{x} + index({a}) / {a}",
                "softmax({x}, reduced_dim={a})",
                "cumsum({x}, dim={a}) / {a}",
                "shift({x}, {a}, 1) - 0.5 * {x}",
            ]
        )
        self.let(self.values[name], form.format(x=self.ref(name), a=f"${a}"))

    def binary(self):
        a, b = self.pick(), self.pick()
        dims = list(dict.fromkeys([*self.values[a], *self.values[b]]))
        form = self.random.choice(["{} + {}", "{} - 0.5 * {}", "tanh({}) * {}", "max({}, {})"])
        if len(dims) <= DIMS_MOST:
            self.let(dims, form.format(self.ref(a), self.ref(b)))

    def einsum(self):
        names = [self.pick() for _ in range(self.random.randint(1, 3))]
        union = list(dict.fromkeys(d for name in names for d in self.values[name]))
        keep = [dim for dim in union if self.chance(0.6)]
        if len({*names}) < len(names) or max(len(union) - 2, len(keep)) > DIMS_MOST:
            return
        scale = "".join(f" / ${dim}" for dim in union if dim not in keep)
        self.let(keep, f"einsum({', '.join(map(self.ref, names))}){scale}")

    def reduce(self):
        name = self.pick(len)
        if not name:
            return
        dim = self.random.choice(self.values[name])
        rest = [d for d in self.values[name] if d != dim]
        function = self.random.choice(["mean", "max", "min"])
        self.let(rest, f"{function}({self.ref(name)}, reduced_dim=${dim})")

    def rename(self):
        """Two readings of one tensor: a square matrix over parameters' dims, or a sum over a dim of
        the def's own."""
        name = self.pick(lambda dims: {*dims} & {*DIMS})
        if not name:
            return
        dims, formals = self.values[name], self.formals()
        old = self.random.choice([d for d in dims if d in DIMS])
        free = [d for d in DIMS if root(d) == root(old) and d not in dims]
        known = [d for d in free if d in formals]
        if not free:
            return
        new = self.random.choice(known if known and self.chance(0.7) else free)
        read = f"{name}[{marked([new if d == old else d for d in dims])}]"
        scale = "".join(f" / ${d}" for d in dims if d != old)
        if new in formals:
            self.let([old, new], f"einsum({self.ref(name)}, {read}){scale}")
            return
        self.own.setdefault(new, ("like", old))
        pairs = self.let([old, new], f"einsum({self.ref(name)}, {read}){scale}", pool=False)
        masked = f"where(index(${new}) <= index(${old}), {self.ref(pairs)}, 0.5)"
        self.let([old], f"mean({masked} * (1 + index(${new}) / ${new}), reduced_dim=${new})")

    def pair(self, dims):
        pairs = [(a, b) for a in dims for b in dims if a != b and root(a) == root(b)]
        return self.random.choice([p for p in pairs if {*p} <= {*DIMS}] or [None])

    def swap(self):
        name = self.pick(self.pair)
        if name:
            a, b = self.pair(self.values[name])
            text = f"0.5 * {self.ref(name)} - swap({name}, ${a}, ${b})"
            self.let(self.values[name], text)

    def part(self):
        """A dim of the def's own whose extent follows from another, mostly summed at once."""
        name = self.pick(lambda dims: {*dims} & {*DIMS})
        if not name:
            return
        dims, own = self.values[name], self.fresh("c")
        dim = self.random.choice([d for d in dims if d in DIMS])
        x = self.ref(name)
        extent, text = self.random.choice(
            [
                (f"${dim} // 2 + 1", f"slice({x}, ${dim}, 0, ${own})"),
                (f"(${dim} + 1) // 2", f"slice({x}, ${dim}, ${dim} - ${own}, ${dim})"),
                (f"${dim} + ${dim}", f"concat({x}, {x}, dim=${own})"),
            ]
        )
        self.own[own] = extent
        if text[0] == "s" or self.chance(0.5):
            self.program.declared[own] = extent
        leaves = self.chance(0.2)
        made = self.let([own if d == dim else d for d in dims], text, pool=leaves)
        if not leaves:
            rest = [d for d in dims if d != dim]
            weighted = f"{self.ref(made)} * (index(${own}) + 1)"
            self.let(rest, f"sum({weighted}, reduced_dim=${own}) / ${dim} / ${dim}")

    def loop(self):
        """A carried tensor, swapped in every step where it is a square matrix."""
        name = self.pick(len)
        if not name:
            return
        dims = self.values[name]
        along = self.random.choice(dims) if self.chance(0.6) else None
        kept = [d for d in dims if d != along]
        square = [
            d for d in self.formals() if d not in dims and any(root(d) == root(k) for k in kept)
        ]
        if not self.pair(kept) and square and len(kept) < DIMS_MOST - 1:
            kept.append(self.random.choice(square))
        state, at = self.fresh("s"), f"%{self.fresh('at')}"
        self.values[state] = kept
        self.used.add(name)
        read = f"{name}[{marked([at if d == along else d for d in dims])}]"
        begin, start = f"zeros[{marked(kept)}]", self.pick(lambda other: {*other} <= {*kept})
        if start and self.chance(0.6):
            begin += f" + tanh({self.ref(start)})"
        pair, carried = self.pair(kept), f"{state}[{marked(kept)}]"
        old = f"swap({state}, ${pair[0]}, ${pair[1]})" if pair else carried
        if self.chance(0.3):
            old = f"({old} + {carried})"
        number = f"index(${self.random.choice(kept)})" if kept else "0.5"
        body = [Let(state, kept, f"tanh(0.7 * {old} + {read} + {number} / 4)")]
        if along and self.chance(0.7):
            row = self.random.sample([at, *kept], len(kept) + 1)
            body.append(Let(self.fresh(), row, f"{carried} - {read}"))
        self.statements.append(Let(state, kept, begin))
        way = self.random.choice(["", " reversed"])
        head = f"scan {at} in ${along}{way}:" if along else f"for {at} in rounds:"
        self.statements.append(Loop(head, body))
        for let in body[1:]:
            self.values[let.name] = [along if d == at else d for d in let.dims]
            self.pool.append(let.name)
        if len(body) == 1 or self.chance(0.5):
            self.pool.append(state)

    # ---- a whole def ----
    def grow(self, count, kinds):
        wanted = len(self.statements) + count
        for _ in range(TRIES):
            if len(self.statements) < wanted:
                self.random.choice(kinds)()
        self.own = {own: said for own, said in self.own.items() if own not in self.formals()}
        made = [name for name in self.pool if name not in self.parameters]
        unused = [name for name in made if name not in self.used]
        names = (unused or made or self.pool)[-self.random.choice([1, 1, 2, 3]) :]
        self.results = [(name, self.shuffled(self.values[name])) for name in names]

    def statement_kinds(self):
        return [
            *[self.pointwise, self.einsum] * 3,
            *[self.binary, self.rename, self.part, self.swap] * 2,
            *[self.reduce, self.loop, self.loop],
        ]
