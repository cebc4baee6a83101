# SPDX-License-Identifier: Apache-2.0
"""Random programs of calls, each beside the same program without calls.

usage: calls.py SEED        prints the texts; the first line tells the options

What stands for what is decided here by section 7 of grammar/language.md as binding.py reads it, not
by the compiler. A call is written in some legal way (by name, by kind, by place, by hand, mapped,
over a dim that is alike); in the second text the body of the def stands in its place
(written_out.py), with the caller's dims. So a mistake that oracle and compiled code share, because
both come after the names, shows as two outputs.

A third text, where there is one, is the first with fewer dims bound by hand in one call, so that it
has two readings: it has to be refused.
"""

import random
import sys

from binding import BASE, DOUBT, LIKE, bind, root
from written_out import DIM, Argument, Call, Let, Loop, WrittenOut, def_text, marked

EXTENTS = [1, 2, 2, 3, 3, 4, 5]
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

    # ---- calls ----
    def choose_dims(self, callee):
        """Dims of this def for those of the callee's parameters, alike where these are."""
        dims, same = {}, self.random.choice([0.2, 0.2, 1])
        for formal in callee.formals():
            kin = [a for f, a in dims.items() if root(f) == root(formal)]
            free = [d for d in DIMS if d not in dims.values()]
            free = [d for d in free if not kin or root(d) == root(kin[0])]
            known = [d for d in free if any(d in self.values[name] for name in self.pool)]
            if formal in free and self.chance(same):
                dims[formal] = formal
            elif free:
                dims[formal] = self.random.choice(known if known and self.chance(0.7) else free)
            else:
                return None
        return dims

    def readings(self, wanted, mapped):
        """Values over these dims, some perhaps read over dims that are alike, and some mapped."""
        for name in self.pool:
            read = list(self.values[name])
            for dim in [d for d in wanted if d not in read]:
                spare = [i for i, d in enumerate(read) if d not in wanted and root(d) == root(dim)]
                if spare:
                    read[spare[0]] = dim
            if {*wanted} <= {*read} <= {*wanted, *mapped}:
                yield name, read

    def argument(self, wanted, mapped):
        found = list(self.readings(wanted, mapped))
        if found and self.chance(0.75):
            name, read = self.random.choice(found)
        else:
            read = [*wanted, *[d for d in mapped if self.chance(0.7)]]
            read = self.random.sample(read, len(read))
            name = self.parameter(read)
        self.used.add(name)
        for new, old in zip(read, self.values[name]):
            if new != old and new not in self.formals():
                self.own.setdefault(new, ("like", old))
        forms = ["brackets", "brackets", "arrow"]
        if read == self.values[name]:
            forms += ["bare", "bare", "expression"]
        form = self.random.choice(forms)
        in_order = form in ("brackets", "arrow")
        return Argument(name, read, form, self.shuffled(read) if in_order else read)

    def readings_of(self, callee, arguments, hands):
        """What every parameter makes of its argument."""
        for parameter, argument in zip(callee.parameters, arguments):
            in_order = argument.form in ("brackets", "arrow")
            yield bind(callee.values[parameter], argument.order, in_order, hands)

    def hands_for(self, callee, arguments, dims):
        """Dims bound by hand so that the call says what is meant, and fewer that leave a doubt."""
        order = self.random.sample(list(dims), len(dims))
        hands, doubt = {}, None
        while True:
            found = self.readings_of(callee, arguments, hands)
            for parameter, bound in zip(callee.parameters, found):
                if bound == DOUBT:
                    doubt = dict(hands)
                if bound != {f: dims[f] for f in callee.values[parameter]}:
                    break
            else:
                if not order or self.chance(0.85):
                    return hands, doubt
            formal = order.pop()
            hands[formal] = dims[formal]

    def here(self, own, dims, mapped, taken):
        """What an own dim that is like others is called here (7.3), or None where it cannot be."""
        plain = own.rstrip("'")
        kin = [a for f, a in dims.items() if root(f) == root(plain) != root(a)]
        if plain not in dims and (len(kin) > 1 or any("'" in a for a in kin)):
            return None
        name = dims.get(plain) or (f"{plain}_{kin[0]}" if kin else plain)
        name += "'" * (len(own) - len(plain))
        met = {*dims.values(), *mapped}
        while own != plain and name in {*met, *taken}:
            name += "'"
        return None if name in met else name

    def own_dims(self, callee, dims, mapped):
        """The names of the callee's own dims here; None: one cannot have one."""
        names = {}
        for own, said in callee.own.items():
            if said[0] == "like":
                name = self.here(own, dims, mapped, names.values())
                known = {**dims, **names}.get(said[1])
                if not name or not known or name in self.formals():
                    return None
                said = ("like", known)
            else:
                said = DIM.sub(lambda found: f"${({**dims, **names})[found[1]]}", said)
                name = own
                fits = self.own.get(own, said) == said and self.program.agrees(own, said)
                if any(own in over for _, over in callee.results):  # the caller names it, too
                    fits = fits and self.program.declared.get(own, said) == said
                if not fits or self.chance(0.15):
                    name = self.fresh("e")
                    self.program.declared[name] = said
            if name in {*mapped, *dims.values(), *names.values()}:
                return None
            if self.own.setdefault(name, said) != said and said[0] != "like":
                return None
            names[own] = name
        return names

    def call(self):
        """A call of a def, in a loop where it gives what it takes."""
        callee = self.random.choice(self.program.defs)
        dims = self.choose_dims(callee)
        if not dims:
            return
        spare = [d for d in DIMS if d not in dims.values()]
        mapped = self.random.sample(spare, self.random.choice([0, 0, 1, 1, 2]))
        over = [callee.values[p] for p in callee.parameters] + [ds for _, ds in callee.results]
        if max(map(len, over)) + len(mapped) > DIMS_MOST:
            return
        before = dict(self.values), list(self.parameters), list(self.pool), dict(self.own)
        call = self.try_call(callee, dims, mapped)
        if not call:
            self.values, self.parameters, self.pool, self.own = before
            return
        state = call.arguments[0].value
        if call.targets[0][1] is None:
            self.statements.append(Loop("for %round in rounds:", [call]))
        else:
            self.statements.append(call)

    def try_call(self, callee, dims, mapped):
        arguments = []
        for parameter in callee.parameters:
            arguments.append(self.argument([dims[f] for f in callee.values[parameter]], mapped))
        extra = [[d for d in a.order if d not in dims.values()] for a in arguments]
        mapped = max(extra, key=len)
        if not all({*some} <= {*mapped} for some in extra):
            return None
        own = self.own_dims(callee, dims, mapped)
        if own is None:
            return None
        hands, doubt = self.hands_for(callee, arguments, dims)
        by_hand = {c: a for c, a in own.items() if c != a and callee.own[c][0] != "like"}
        every, targets = {**dims, **own}, []
        results = [[*mapped, *[every[d] for d in ds]] for _, ds in callee.results]
        first, *others = arguments
        if {*results[0]} == {*first.read} and self.chance(0.5):
            state = self.fresh("s")
            self.values[state] = first.read
            begin = f"{first.value}[{marked(first.read)}] * 1"
            self.statements.append(Let(state, first.read, begin))
            arguments = [first._replace(value=state), *others]
            targets = [(state, None), *[("_", []) for _ in results[1:]]]
            self.pool.append(state)
        else:
            for result in results:
                name = self.fresh()
                self.values[name] = self.random.sample(result, len(result))
                targets.append((name, self.values[name]))
            if len(targets) > 1 and self.chance(0.2):
                targets[0] = ("_", [])
            self.pool += [name for name, _ in targets if name != "_"]
        call = Call(callee, arguments, {**hands, **by_hand}, dims, mapped, own, targets)
        if doubt is not None:
            self.program.doubts.append((self, call, {**doubt, **by_hand}))
        return call

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


def calls_of(statements):
    for statement in statements:
        if isinstance(statement, Loop):
            yield from calls_of(statement.body)
        elif isinstance(statement, Call):
            yield statement


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        self.extent = {dim: self.random.choice(EXTENTS) for dim in BASE}
        self.dynamic = {dim for dim in BASE if self.random.random() < 0.5}
        self.declared = {}  # computed dims of the file
        self.doubts = []
        self.defs = []
        self.build()

    def value(self, text):
        """The extent of what is computed, or None where run time tells it."""
        dims = {dim: self.known(dim) for dim in DIM.findall(text)}
        if None in dims.values():
            return None
        return eval(DIM.sub(lambda found: str(dims[found[1]]), text))

    def known(self, dim):
        if dim in self.declared:
            return self.value(self.declared[dim])
        base = root(dim)
        return None if base in self.dynamic or base not in self.extent else self.extent[base]

    def agrees(self, dim, said):
        """Is what a call makes of a dim what the file says of it?"""
        constant = self.value(self.declared[dim]) if dim in self.declared else None
        return constant is None or constant == self.value(said)

    def build(self):
        for number in range(self.random.randint(1, 3)):
            body = Body(self, f"F{number}")
            for _ in range(self.random.choice([1, 1, 2])):
                body.parameter(self.random.sample(DIMS, self.random.randint(1, 3)))
            kinds = body.statement_kinds() + [body.call] * (5 if self.defs else 0)
            body.grow(self.random.randint(1, 4), kinds)
            self.defs.append(body)
        self.entry = Body(self, "Program")
        for _ in range(self.random.choice([1, 2])):
            self.entry.parameter(self.random.sample(DIMS, self.random.randint(1, 3)))
        self.entry.grow(self.random.randint(1, 2), [self.entry.call])
        kinds = self.entry.statement_kinds() + [self.entry.call] * 12
        self.entry.grow(self.random.randint(1, 3), kinds)

    def head(self):
        told = ",".join(f"{dim}={extent}" for dim, extent in self.extent.items())
        options = ["-w", "-D", told, "--seed", str(self.random.randrange(1000))]
        if self.dynamic:
            options += ["--dynamic", ",".join(sorted(self.dynamic))]
        lines = [f"# {' '.join(options)}", "dim rounds = 2"]
        lines += [f"dim {dim} like {base}" for dim, base in LIKE.items()]
        return lines

    def texts(self):
        """The program, the same without calls, and one that is refused, or None."""
        head = self.head()
        declared = [f"dim {dim} = {said.replace('$', '')}" for dim, said in self.declared.items()]
        bodies = [*self.defs, self.entry]
        called = "\n".join([*head, *declared, *map(def_text, bodies)])
        written = "\n".join([*head, WrittenOut().entry_text(self.entry)])
        doubts = [doubt for doubt in self.doubts if doubt[1] in calls_of(doubt[0].statements)]
        if not doubts:
            return called, written, None
        where, call, hands = self.random.choice(doubts)
        texts = [def_text(b, call, hands) if b is where else def_text(b) for b in bodies]
        return called, written, "\n".join([*head, *declared, *texts])


def generate(seed):
    """(texts, options) of one seed."""
    texts = Program(seed).texts()
    return texts, texts[0].split("\n", 1)[0][2:].split()


if __name__ == "__main__":
    for text in generate(int(sys.argv[1]))[0]:
        print(text)
