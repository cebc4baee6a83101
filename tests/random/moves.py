# SPDX-License-Identifier: Apache-2.0
"""Assignments of a random program that move positions: renames, gathers, sums at positions, orders,
slices, splits.

A class on its own for its size: Program (generate.py) adds choices, values and all other forms.
"""

VOLUME_MAX = 20_000  # elements of a value


class Moves:
    def rename(self):
        value = self.pick(lambda dims: any(self.other(dim, dims) for dim in dims), [None])
        if not value:
            return False
        dim = self.random.choice([d for d in value[1] if self.other(d, value[1])])
        dims = [self.other(d, value[1]) if d == dim else d for d in value[1]]
        self.used.add(value[0])
        self.assign(dims, f"{value[0]}[{', '.join(dims)}]")
        return True

    def swap(self):
        value = self.pick(lambda dims: any(self.like.get(dim) in dims for dim in dims))
        if not value:
            return False
        dim = self.random.choice([dim for dim in value[1] if self.like.get(dim) in value[1]])
        pair = [dim, self.like[dim]]
        self.random.shuffle(pair)
        text = f"swap({self.ref(value)}, {', '.join(pair)})"
        if self.random.random() < 0.5:
            text = f"0.5 * ({self.ref(value)} - {text})"
        self.assign(value[1], text)
        return True

    def other(self, dim, taken):
        """A dim alike that a tensor with the dims `taken` lacks, or None."""
        root = self.root(dim)
        alike = [root] + [d for d, r in self.like.items() if r == root]
        return next((d for d in alike if d != dim and d not in taken), None)

    def gather(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        dim = self.random.choice(value[1])
        rest = [d for d in value[1] if d != dim]
        free = [d for d in self.extent if d not in rest]
        ids_dims = self.random.sample(free, min(len(free), self.random.randint(1, 2)))
        if self.volume(ids_dims + rest) > VOLUME_MAX:
            return False
        ids = self.parameter(ids_dims, "i32")
        self.assign(ids_dims + rest, f"gather({self.ref(value)}, {self.plain_ref(ids)}, dim={dim})")
        return True

    def scatter(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        summed = self.random.sample(value[1], self.random.randint(1, min(len(value[1]), 2)))
        known = {d for _, dims in self.values for d in dims}
        free = [d for d in self.extent if d in known and d not in value[1]]
        if not free:
            return False
        dim = self.random.choice(free)
        kept = [dim] + [d for d in value[1] if d not in summed]
        ids_dims = self.random.sample(value[1], self.random.randint(1, len(value[1])))
        if self.volume(kept) > VOLUME_MAX:
            return False
        ids = self.parameter(ids_dims, "i32")
        over = ", ".join(summed)
        self.assign(
            kept,
            f"scatter_add({self.ref(value)}, {self.plain_ref(ids)}, dim={dim},"
            f" reduced_dim=({over}))",
        )
        return True

    def kept_dim(self, dim, dims, told):
        """A dim for the first positions along `dim` of a value over `dims`, in their order, or
        None. told: of those that a value has that is given, so that they are told at run time."""
        given = {d for name, own in self.values if name[0] == "X" for d in own}
        shorter = [d for d in self.extent if self.extent[d] <= self.extent[dim]]
        free = [d for d in shorter if d not in {*dims, *self.made, *self.computed}]
        free = [d for d in free if d in given] if told else free
        return self.random.choice(free) if free else None

    def ordered(self, value, function, dim, to):
        """A call and the dims of its result, which are `to` in place of `dim` unless it is None."""
        self.counted.update([dim, to] if to else [])
        ways = ["", ", order=ascending", ", order=descending"]
        way = "" if function == "topk" else self.random.choice(ways)
        kept = f", {to}" if to else ""
        call = f"{function}({self.ref(value)}{kept}, dim={dim}{way})"
        return call, [(to or d) if d == dim else d for d in value[1]]

    def some_order(self, value, function):
        dim = self.random.choice(value[1])
        to = self.kept_dim(dim, value[1], told=True) if self.random.random() < 0.5 else None
        return *self.ordered(value, function, dim, to), self.extent[dim]

    def sort(self):
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        if not value:
            return False
        call, dims, _ = self.some_order(value, "sort")
        self.assign(dims, call)
        return True

    def given(self):
        """A parameter: positions of computed floats in order depend on their last bits."""
        values = [v for v in self.values if v[0][0] == "X" and v[1] and not self.elems.get(v[0])]
        return self.random.choice(values) if values else self.parameter()

    def argsort(self):
        call, dims, extent = self.some_order(self.given(), "argsort")
        moved = " * near_one" if self.typed else ""
        self.assign(dims, f"f32({call}) / {extent}{moved}")
        return True

    def topk(self):
        """The values, in a sum with what tells how many they are, or the positions of a
        parameter."""
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        of_given = not value or self.random.random() < 0.4
        value = self.given() if of_given else value
        dim = self.random.choice(value[1])
        to = self.kept_dim(dim, value[1], told=False)
        if not to:
            return False
        call, dims = self.ordered(value, "topk", dim, to)
        name = f"{'i' if of_given else 'v'}{self.fresh}"
        self.lines.append(f"_, {name} = {call}" if of_given else f"{name}, _ = {call}")
        if of_given:
            name = f"f32({name}) / {self.extent[dim]}"
        self.assign(dims, f"{name} + {self.ref(self.parameter([to]))}")
        return True

    def shift(self):
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        dim = self.random.choice(value[1])
        self.assign(value[1], f"shift({self.ref(value)}, {dim}, {self.random.choice([1, 2, -1])})")
        return True

    def new_dim(self, extent, formula):
        name = f"j{len(self.computed)}"
        self.computed[name] = formula if self.random.random() < 0.5 else None
        self.extent[name] = extent
        return name

    def joined(self):
        """A value and what is as it along all dims but one, along a dim as long as both."""
        value = self.pick(lambda dims: dims and not self.made & {*dims}, [None])
        if not value:
            return False
        dim = self.random.choice(value[1])
        rest = [d for d in value[1] if d != dim]
        others = [d for d in self.extent if d not in {*value[1], *self.made}] + [dim]
        other = self.random.choice(others)
        length = self.extent[dim] + self.extent[other]
        if self.volume(rest) * length > VOLUME_MAX:
            return False
        parts = [self.ref(value), self.ref(self.parameter([*rest, other]))]
        whole = self.new_dim(length, f"{dim} + {other}")
        self.assign([*rest, whole], f"concat({', '.join(parts)}, dim={whole})")
        return True

    def part(self):
        """Some positions of a dim, counted from where it begins or ends."""
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        if not value:
            return False
        dim = self.random.choice(value[1])
        count = self.extent[dim]
        begin = self.random.randrange(count)
        end = self.random.randint(begin + 1, count)
        ends = [self.random.choice([str(at), f"{dim} - {count - at}"]) for at in (begin, end)]
        made = self.new_dim(end - begin, f"{dim} - {count - (end - begin)}")
        if len({dim in text for text in ends}) == 1:  # else the length varies, or is told
            self.computed[made] = None
        self.counted.add(dim)
        dims = [made if d == dim else d for d in value[1]]
        self.assign(dims, f"slice({self.ref(value)}, {dim}, {', '.join(ends)})")
        return True

    def take(self):
        """One position of a dim or two."""
        value = self.pick(lambda dims: len(dims) >= 1, [None])
        if not value:
            return False
        taken = self.random.sample(value[1], self.random.randint(1, min(2, len(value[1]))))
        items = [str(self.random.randrange(self.extent[d])) if d in taken else d for d in value[1]]
        if self.random.random() < 0.3:
            items = [f"{d} - {self.extent[d]}" if d in taken else d for d in value[1]]
        self.used.add(value[0])
        rest = [d for d in value[1] if d not in taken]
        self.assign(rest, f"{value[0]}[{', '.join(items)}]")
        return True

    def regroup(self):
        """One dim as two, and back, or several as one."""
        value = self.pick(lambda dims: len(dims) >= 1)
        if not value:
            return False
        if self.random.random() < 0.5 and len(value[1]) >= 2:
            parts = self.random.sample(value[1], 2)
            whole = f"w{self.fresh}"
            self.extent[whole] = self.volume(parts)
            text = f"merge({self.ref(value)}, {' '.join(parts)} -> {whole})"
            self.made.add(whole)
            self.assign([whole] + [d for d in value[1] if d not in parts], text)
            return True
        dim = self.random.choice(value[1])
        divisors = [i for i in range(1, self.extent[dim] + 1) if self.extent[dim] % i == 0]
        # Letters that begin no other dim: b2 and g2 are like b and g.
        parts = [f"f{self.fresh}", f"r{self.fresh}"]
        self.extent[parts[0]] = self.random.choice(divisors)
        self.extent[parts[1]] = self.extent[dim] // self.extent[parts[0]]
        self.fixed.add(parts[0])
        self.made.update(parts)
        text = f"split({self.ref(value)}, {dim} -> {' '.join(parts)})"
        rest = [d for d in value[1] if d != dim]
        if self.random.random() < 0.4:  # back, through something in between
            index = f"0.1 * index({self.random.choice(parts)})"
            form = self.random.choice(["{}", "tanh({})", f"{{}} + {index}"])
            order = self.random.choice([parts, parts[::-1]])
            back = f"v{self.fresh}"
            self.extent[back] = self.extent[dim]
            self.made.add(back)
            self.assign([back, *rest], f"merge({form.format(text)}, {' '.join(order)} -> {back})")
        else:
            self.assign([*parts, *rest], text)
        return True
