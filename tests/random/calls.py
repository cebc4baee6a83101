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
from body import DIMS, DIMS_MOST, Body
from values import dynamic_option
from written_out import DIM, Argument, Call, Let, Loop, WrittenOut, def_text, marked

EXTENTS = [1, 2, 2, 3, 3, 4, 5]


class Caller(Body):
    """A def that may call those before it."""

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
        if call.targets[0][1] is None:
            self.statements.append(Loop("for %round in rounds:", [call]))
        else:
            self.statements.append(call)

    def arguments(self, callee, dims, mapped):
        """What the parameters are given, and the dims that the call is mapped over; or None."""
        arguments = []
        for parameter in callee.parameters:
            arguments.append(self.argument([dims[f] for f in callee.values[parameter]], mapped))
        extra = [[d for d in a.order if d not in dims.values()] for a in arguments]
        mapped = max(extra, key=len)
        return (arguments, mapped) if all({*some} <= {*mapped} for some in extra) else None

    def carry(self, first, result):
        """A state that a loop gives the call and takes from it, where it fits, or None."""
        if {*result} != {*first.read} or not self.chance(0.5):
            return None
        state = self.fresh("s")
        self.values[state] = first.read
        begin = f"{first.value}[{marked(first.read)}] * 1"
        self.statements.append(Let(state, first.read, begin))
        return state

    def targets(self, results, state):
        """What the results are named, with their dims; a state has them already."""
        if state:
            return [(state, None), *[("_", []) for _ in results[1:]]]
        targets = []
        for result in results:
            name = self.fresh()
            self.values[name] = self.random.sample(result, len(result))
            targets.append((name, self.values[name]))
        if len(targets) > 1 and self.chance(0.2):
            targets[0] = ("_", [])
        return targets

    def try_call(self, callee, dims, mapped):
        given = self.arguments(callee, dims, mapped)
        if not given:
            return None
        arguments, mapped = given
        own = self.own_dims(callee, dims, mapped)
        if own is None:
            return None
        hands, doubt = self.hands_for(callee, arguments, dims)
        by_hand = {c: a for c, a in own.items() if c != a and callee.own[c][0] != "like"}
        every = {**dims, **own}
        results = [[*mapped, *[every[d] for d in ds]] for _, ds in callee.results]
        state = self.carry(arguments[0], results[0])
        if state:
            arguments[0] = arguments[0]._replace(value=state)
        targets = self.targets(results, state)
        self.pool += [name for name, _ in targets if name != "_"]
        call = Call(callee, arguments, {**hands, **by_hand}, dims, mapped, own, targets)
        if doubt is not None:
            self.program.doubts.append((self, call, {**doubt, **by_hand}))
        return call


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
            body = Caller(self, f"F{number}")
            for _ in range(self.random.choice([1, 1, 2])):
                body.parameter(self.random.sample(DIMS, self.random.randint(1, 3)))
            kinds = body.statement_kinds() + [body.call] * (5 if self.defs else 0)
            body.grow(self.random.randint(1, 4), kinds)
            self.defs.append(body)
        self.entry = Caller(self, "Program")
        for _ in range(self.random.choice([1, 2])):
            self.entry.parameter(self.random.sample(DIMS, self.random.randint(1, 3)))
        self.entry.grow(self.random.randint(1, 2), [self.entry.call])
        kinds = self.entry.statement_kinds() + [self.entry.call] * 12
        self.entry.grow(self.random.randint(1, 3), kinds)

    def head(self):
        told = ",".join(f"{dim}={extent}" for dim, extent in self.extent.items())
        options = ["-w", "-D", told, "--seed", str(self.random.randrange(1000))]
        if self.dynamic:
            options += dynamic_option(sorted(self.dynamic), self.extent)
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
