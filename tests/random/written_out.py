# SPDX-License-Identifier: Apache-2.0
"""Texts of the programs of calls.py: with their calls, and with the bodies in their place."""

import re
from collections import namedtuple

Let = namedtuple("Let", "name dims text")
Loop = namedtuple("Loop", "head body")
Argument = namedtuple("Argument", "value read form order")
# dims: of the caller for those of parameters; own: for the callee's own; targets: (name, dims)
Call = namedtuple("Call", "callee arguments hands dims mapped own targets")

REF = re.compile(r"\b(\w+)\[([^\]]*)\]")
DIM = re.compile(r"\$([\w']+)")
SWAP = re.compile(r"swap\((\w+), \$([\w']+), \$([\w']+)\)")


def marked(dims):
    """`$n, %at`: dims in a text, and variables of scans as they are."""
    return ", ".join(dim if dim[0] == "%" else f"${dim}" for dim in dims)


def plain(text):
    return re.sub(r"\$|%(?=\w)", "", text)


# ---- with calls -------------------------------------------------------------------------------


def argument_text(argument):
    name, order = argument.value, marked(argument.order)
    return {
        "brackets": f"{name}[{order}]",
        "arrow": f"einsum({name}[{order}] -> [{order}])",
        "bare": name,
        "expression": f"{name} * 1",
    }[argument.form]


def call_text(call, hands=None):
    hands = call.hands if hands is None else hands
    items = [*map(argument_text, call.arguments), *[f"{f}={a}" for f, a in hands.items()]]
    return f"{call.callee.name}({', '.join(items)})"


def target_text(name, dims):
    return name if dims is None or name == "_" else f"{name}[{marked(dims)}]"


def called_lines(statements, doubted=None, hands=None):
    """doubted: a call that is written with other `hands` than its own."""
    for statement in statements:
        if isinstance(statement, Let):
            yield plain(f"{target_text(statement.name, statement.dims)} = {statement.text}")
        elif isinstance(statement, Loop):
            yield plain(statement.head)
            for line in called_lines(statement.body, doubted, hands):
                yield "    " + line
        else:
            targets = ", ".join(target_text(*target) for target in statement.targets)
            call = call_text(statement, hands if statement is doubted else None)
            yield plain(f"{targets} = {call}")


def def_text(body, doubted=None, hands=None):
    parameters = ", ".join(f"{p}[{', '.join(body.values[p])}]" for p in body.parameters)
    lines = [f"def {body.name}({parameters}):"]
    lines += ["    " + line for line in called_lines(body.statements, doubted, hands)]
    results = ", ".join(f"{name}[{', '.join(dims)}]" for name, dims in body.results)
    return "\n".join([*lines, f"    return {results}", ""])


# ---- without calls ----------------------------------------------------------------------------


class WrittenOut:
    """The lines of an entry, and the dims that they need beside those of the program."""

    def __init__(self):
        self.dims, self.count = [], 0

    def new_dim(self, declared):
        self.count += 1
        self.dims.append(f"dim z{self.count} {declared}")
        return f"z{self.count}"

    def entry_text(self, body):
        frame = Frame(self, body, {d: d for d in body.all_dims()}, "", [])
        lines = [f"    {line}" for line in frame.lines(body.statements)]
        results = ", ".join(f"{n}[{', '.join(map(frame.dim, dims))}]" for n, dims in body.results)
        parameters = ", ".join(f"{p}[{', '.join(body.values[p])}]" for p in body.parameters)
        head = [*self.dims, f"def {body.name}({parameters}):"]
        return "\n".join([*head, *lines, f"    return {results}", ""])


class Frame:
    """A body over dims of the entry. over: tensor -> those of `mapped` that it is over."""

    def __init__(self, out, body, dims, prefix, mapped):
        self.out, self.body, self.dims = out, body, dict(dims)
        self.prefix, self.mapped = prefix, mapped
        self.over = {}
        for own, said in body.own.items():
            if own in self.dims and prefix:
                continue
            self.dims[own] = self.alike(said[1]) if said[0] == "like" else self.computed(said)

    def alike(self, dim):
        return self.out.new_dim("like " + self.dim(dim).rstrip("'"))

    def computed(self, said):
        return self.out.new_dim("= " + self.put(said))

    def dim(self, dim):
        return dim[1:] + self.prefix if dim[0] == "%" else self.dims[dim]

    def put(self, text):
        text = DIM.sub(lambda found: self.dims[found[1]], text)
        return re.sub(r"%(\w+)", lambda found: found[1] + self.prefix, text)

    def full(self, name, read=None):
        """The dims of a tensor here, in its own order."""
        return [*self.over[name], *map(self.dim, read or self.body.values[name])]

    def tensor(self, name, read=None):
        return f"{self.prefix}{name}[{', '.join(self.full(name, read))}]"

    # ---- what is mapped ----
    def names_in(self, text):
        return [name for name in re.findall(r"\w+", text) if name in self.over]

    def union(self, names):
        return [dim for dim in self.mapped if any(dim in self.over[name] for name in names)]

    def see(self, statements):
        """Which tensors are over which of the mapped dims. What is carried depends on itself."""
        for statement in statements:
            if isinstance(statement, Let):
                known = self.over.get(statement.name, [])
                more = self.union(self.names_in(statement.text))
                self.over[statement.name] = [d for d in self.mapped if d in {*known, *more}]
            elif isinstance(statement, Loop):
                for _ in range(len(self.mapped) + 2):
                    self.see(statement.body)
            else:
                over = self.union([argument.value for argument in statement.arguments])
                for name, _ in statement.targets:
                    known = self.over.get(name, [])
                    self.over[name] = [d for d in self.mapped if d in {*known, *over}]

    # ---- lines ----
    def lines(self, statements):
        if not self.over:
            self.over = {name: [] for name in self.body.parameters}
        self.see(statements)
        return list(self.some_lines(statements))

    def some_lines(self, statements):
        for statement in statements:
            if isinstance(statement, Let):
                yield self.let(statement)
            elif isinstance(statement, Loop):
                yield self.put(statement.head)
                yield from ("    " + line for line in self.some_lines(statement.body))
            else:
                yield from self.call(statement)

    def ref(self, found):
        name, items = found[1], found[2].split(", ") if found[2] else []
        if name not in self.over:  # zeros
            return found[0]
        dims = [item.lstrip("$") for item in items]
        own = self.body.values.get(name)
        if own and {*dims} == {*own}:
            dims = own
        return f"{self.prefix}{name}[{', '.join([*self.over[name], *map(self.dim, dims)])}]"

    def swapped(self, found):
        """Every position of what is swapped where its two numbers are those of the other dim."""
        name, a, b = found[1], found[2], found[3]
        own = self.body.values[name]
        others = {d: self.alike(d) for d in (a, b)}
        read = ", ".join([*self.over[name], *[others.get(d) or self.dim(d) for d in own]])
        ways = [f"f32(index({others[x]}) == index({self.dim(y)}))" for x, y in ((a, b), (b, a))]
        result = ", ".join(self.full(name))
        return f"einsum({self.prefix}{name}[{read}], {', '.join(ways)} -> [{result}])"

    def let(self, let):
        text = self.put(SWAP.sub(self.swapped, REF.sub(self.ref, let.text)))
        dims = [*self.over[let.name], *map(self.dim, let.dims)]
        lacking = [d for d in self.over[let.name] if d not in self.union(self.names_in(let.text))]
        if lacking:
            text = f"full({text} -> [{', '.join(dims)}])"
        return f"{self.prefix}{let.name}[{', '.join(dims)}] = {text}"

    def call(self, call):
        self.out.count += 1
        extra = [self.dim(d) for d in call.mapped]
        dims = {formal: self.dim(actual) for formal, actual in call.dims.items()}
        dims.update({own: self.dims[a] for own, a in call.own.items() if a is not None})
        inner = Frame(self.out, call.callee, dims, f"r{self.out.count}_", [*self.mapped, *extra])
        for name, argument in zip(call.callee.parameters, call.arguments):
            here = [self.dim(d) for d in argument.read]
            inner.over[name] = [*self.over[argument.value], *[d for d in extra if d in here]]
            over = ", ".join(inner.full(name))
            yield f"{inner.prefix}{name}[{over}] = {self.tensor(argument.value, argument.read)}"
        yield from inner.lines(call.callee.statements)
        for (result, _), (name, over) in zip(call.callee.results, call.targets):
            if name == "_":
                continue
            own = self.body.values[name] if over is None else over
            wanted = [*self.over[name], *map(self.dim, own)]
            text = inner.tensor(result)
            if {*wanted} != {*inner.full(result)}:
                text = f"full({text} -> [{', '.join(wanted)}])"
            yield f"{self.prefix}{name}[{', '.join(wanted)}] = {text}"
