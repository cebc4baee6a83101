# SPDX-License-Identifier: Apache-2.0
"""From logits to weights: mixing of heads, biases, masks, normalisers."""

from masks import condition
from values import Value, Values


class Logits(Values):
    # ---- what is done to logits and weights ----------------------------------------------------
    def heads_of(self, value):
        return [d for d in value.dims if d not in ("n", "m", *self.batch)]

    def generator(self, source, position, dims):
        """A matrix for each position, from the vectors there or an input."""
        if source is None:
            return self.data("R", [position, *dims])
        inner = "d" if position == "n" else self.inner_of(source)
        return self.einsum(
            [d for d in source.dims if d != inner] + dims, source, self.weight([inner, *dims])
        )

    def mixed_heads(self, value, source, memory):
        """Heads talk: to others, static, for each query or memory position, or all of these."""
        before = self.heads_of(value)
        if not before:
            return value
        mixing = self.random.sample(before, self.random.randint(1, len(before)))
        kept = [d for d in value.dims if d not in mixing]
        if len(mixing) == 1 and mixing[0] not in self.like and self.chance(0.3):
            after = self.new_dim(mixing[0], self.extent[mixing[0]])
            self.add_like(after, mixing[0])
        else:
            after = self.head_dim("h")
        matrix = [*mixing, after]
        parts = [self.weight(matrix)] if self.chance(0.8) else []
        if self.chance(0.25):
            parts.append(self.generator(source, "n", matrix))
        if self.chance(0.25):
            parts.append(self.generator(memory, "m", matrix))
        parts = parts or [self.weight(matrix)]
        dims = [d for d in self.union(value, *parts) if d not in mixing]
        if len(parts) == 1:
            mixed = self.einsum(dims, value, parts[0])
        else:
            terms = [
                self.einsum_text([d for d in self.union(value, p) if d not in mixing], value, p)
                for p in parts
            ]
            std = sum(s * s for _, s in terms) ** 0.5
            mixed = self.let(dims, " + ".join(text for text, _ in terms), std)
        if after in self.like and self.chance(0.5):
            same = {mixing[0]: after}
            std = (value.std**2 + mixed.std**2) ** 0.5
            mixed = self.let(
                self.union(mixed), f"{self.ref(value, **same)} + {self.ref(mixed)}", std
            )
        assert set(kept) <= set(mixed.dims)
        return mixed

    def scaled(self, value):
        """Logits of order one to three."""
        std = self.random.choice([0.5, 1, 1, 2, 3])
        factor = std / value.std
        if 0.8 < factor < 1.25:
            return value
        form = self.random.choice(["{0} * {1:.4g}", "{1:.4g} * {0}", "{0} / {2:.4g}"])
        text = form.format(self.ref(value), factor, 1 / factor)
        return self.let(value.dims, text, std)

    def capped(self, value):
        cap = self.random.choice([1, 2, 5, 30])
        forms = ["{1} * tanh({0} / {1})", "{1} * sigmoid({0})", "softcap({0}, {1})"]
        form = self.random.choice(forms[: 2 + self.calls])
        return self.let(value.dims, form.format(self.ref(value), cap), min(value.std, cap))

    def temperature(self, value):
        dims = [d for d in self.heads_of(value) if self.chance(0.7)]
        dims += [d for d in "n" if self.chance(0.3)]
        other = self.data("T", dims)
        return self.let(
            self.union(value, other),
            f"{self.ref(value)} * (1 + 0.2 * tanh({self.ref(other)}))",
            value.std,
        )

    def biased(self, value):
        heads = self.heads_of(value)
        some = [d for d in heads if self.chance(0.6)]
        form = self.choose(
            {"tensor": 4, "alibi": 3, "buckets": 3, "prelude": 1, "row": 1, "column": 2, "rank": 1}
        )
        if form == "prelude" and (len(heads) != 1 or not self.calls):
            form = "buckets"
        if form == "prelude":
            dims = [d for d in value.dims if d not in ("n", "m", *heads)] + ["n", "m", *heads]
            call = self.random.choice(["alibi", "relative_bias", "causal_relative_bias"])
            name = self.fresh_name("t")
            self.lines.append(
                f"{name}[{', '.join(dims)}] = {call}({value.name}[{', '.join(dims)}])"
            )
            return Value(name, tuple(dims), value.std)
        dims, text = getattr(self, f"bias_{form}")(some)
        return self.let(
            list(dict.fromkeys([*value.dims, *dims])),
            f"{self.ref(value)} {self.random.choice('+-')} {text}",
            value.std + 0.7,
        )

    def bias_tensor(self, heads):
        bias = (
            self.data("B", ["n", "m", *heads])
            if self.chance(0.5)
            else self.weight(["n", "m", *heads])
        )
        return bias.dims, self.ref(bias)

    def bias_row(self, heads):
        bias = self.data("B", ["n", *heads])
        return bias.dims, self.ref(bias)

    def bias_column(self, heads):
        bias = self.data("B", ["m", *heads])
        return bias.dims, self.ref(bias)

    def bias_rank(self, heads):
        rank = self.new_dim("r", self.random.choice([1, 2, 4]))
        a, b = self.data("B", ["n", rank]), self.data("B", ["m", rank, *heads])
        dims = [d for d in self.union(a, b) if d != rank]
        return dims, self.einsum_text(dims, a, b)[0]

    def bias_alibi(self, heads):
        distance = self.random.choice(
            ["abs(index(n) - index(m))", "(index(m) - index(n))", "max(index(n) - index(m), 0)"]
        )
        if heads and self.chance(0.5):
            slope = f"2 ** (-4 * (index({heads[0]}) + 1) / {heads[0]})"
            return ["n", "m", heads[0]], f"0.2 * {slope} * {distance}"
        slope = self.weight(heads)
        return ["n", "m", *heads], f"0.05 * {self.ref(slope)} * {distance}"

    def bias_buckets(self, heads):
        reach = self.random.choice([1, 2, 4, 16, 40])
        table = self.new_dim("u", 2 * reach + 1)
        bias = self.weight([table, *heads])
        ids = f"min(max(index(m) - index(n), -{reach}), {reach}) + {reach}"
        if self.chance(0.3):
            ids = f"abs(index(m) - index(n)) * {reach} // max(n, m)"
        if self.chance(0.5):
            ids = self.ref(self.let(["n", "m"], ids, prefix="i"))
        return ["n", "m", *heads], f"gather({self.ref(bias)}, {ids}, dim={table})"

    def relative_keys(self, value):
        """Logits with a vector for each clamped difference of positions (Shaw et al. 2018)."""
        reach = self.random.choice([1, 3, 8])
        table, width = self.new_dim("u", 2 * reach + 1), self.new_dim(
            "w", self.random.choice([2, 5, 8])
        )
        rows = self.weight([table, width])
        query = self.data("Q", ["n", width, *self.heads_of(value)])
        ids = f"min(max(index(m) - index(n), -{reach}), {reach}) + {reach}"
        vectors = self.let(["n", "m", width], f"gather({self.ref(rows)}, {ids}, dim={table})")
        dims = [d for d in self.union(query) if d != width] + ["m"]
        text, _ = self.einsum_text(dims, query, vectors)
        return self.let(
            list(dict.fromkeys([*value.dims, *dims])),
            f"{self.ref(value)} + 0.3 * {text}",
            value.std + 0.5,
        )

    def treated(self, value, source, memory):
        """Logits as the normaliser gets them, but for masks."""
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 2, 3])):
            form = self.choose(
                {"bias": 6, "mix": 4, "scale": 3, "cap": 2, "heat": 1, "relative": 1}
            )
            if form == "mix":
                value = self.scaled(self.mixed_heads(value, source, memory))
            elif form == "relative":
                if self.volume(["n", "m"]) < 20_000:
                    value = self.relative_keys(value)
            else:
                value = {
                    "bias": self.biased,
                    "scale": self.scaled,
                    "cap": self.capped,
                    "heat": self.temperature,
                }[form](value)
        return self.scaled(value)

    # ---- masks ---------------------------------------------------------------------------------
    def masked(self, value, low):
        """Where the condition does not hold the logits are `low`: -inf or a number."""
        if self.calls and self.chance(0.12):
            dims = [d for d in value.dims if d not in "nm"] + ["n", "m"]
            given = f"{value.name}[{', '.join(dims)}]"
            call = self.random.choice(
                [
                    f"causal({given})",
                    f"causal_window({given}, {self.random.randint(1, 40)})",
                    f"window({given}, {self.random.randint(0, 30)})",
                    f"prefix({given}, {self.random.randint(0, 60)})",
                ]
            )
            if low == "-inf":
                name = self.fresh_name("t")
                self.lines.append(f"{name}[{', '.join(dims)}] = {call}")
                return Value(name, tuple(dims), value.std)
        mask = condition(self, value)
        dims = self.union(value, mask)
        form = self.choose({"where": 8, "other": 2, "added": 2, "named": 2})
        text = mask.name
        if form == "named":
            name = self.fresh_name("c")
            self.lines.append(f"{name}[{', '.join(mask.dims)}] = {text}")
            text = f"{name}[{', '.join(mask.dims)}]"
        if form == "added":
            expression = f"{self.ref(value)} + where({text}, 0, {low})"
        elif form == "other":
            expression = f"where(not ({text}), {low}, {self.ref(value)})"
        else:
            expression = f"where({text}, {self.ref(value)}, {low})"
        return self.let(dims, expression, value.std)

    # ---- normalisers ---------------------------------------------------------------------------
    def weights_of(self, value):
        """The attention weights of logits, and the logits as masked."""
        form = self.choose(
            {
                "softmax": 12,
                "by_hand": 4,
                "sink": 2,
                "sigmoid": 2,
                "relu": 1,
                "linear": 1,
                "twice": 1,
                "from_log": 1,
                "by_exp2": 1,
            }
        )
        if form == "softmax" and self.later.random() < 0.15:
            form = "relative"
        self.has_softmax |= form not in ("sigmoid", "relu", "linear")
        # By hand a row of nothing but -inf is NaN. In f64 nothing may be left of a number either:
        # the oracle adds up in f64 itself, and many equal small terms all round to one side.
        low = "-1000" if self.elem == "f64" else "-30"
        by_hand = dict.fromkeys(["by_hand", "by_exp2", "relative"], low)
        low = {"relu": "0", "linear": "0", **by_hand}.get(form, "-inf")
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            value = self.masked(value, low)
        over = self.choose({"m": 20, "n": 1})
        heads = self.heads_of(value)
        if heads and self.chance(0.03):
            over = heads[0]
        return getattr(self, f"normalise_{form}")(value, over), value

    def normalise_softmax(self, value, over):
        ref = self.ref(value)
        if self.chance(0.1):
            ref = f"{ref} * 1.5"
        return self.let(value.dims, f"softmax({ref}, reduced_dim={over})", 0.1, "W")

    def normalise_from_log(self, value, over):
        logs = self.let(value.dims, f"log_softmax({self.ref(value)}, reduced_dim={over})")
        return self.let(value.dims, f"exp({self.ref(logs)})", 0.1, "W")

    def normalise_twice(self, value, over):
        first = self.normalise_softmax(value, over)
        return self.let(value.dims, f"softmax(8 * {self.ref(first)}, reduced_dim={over})", 0.1, "W")

    def shifted(self, value, over, function="exp"):
        rest = [d for d in value.dims if d != over]
        top = self.let(rest, f"max({self.ref(value)}, reduced_dim={over})")
        if self.chance(0.2):
            top = self.let(rest, f"stop_gradient({self.ref(top)})")
        return self.let(value.dims, f"{function}({self.ref(value)} - {self.ref(top)})", prefix="E")

    def normalise_by_hand(self, value, over, function="exp"):
        power = self.shifted(value, over, function)
        rest = [d for d in value.dims if d != over]
        total = self.let(rest, f"sum({self.ref(power)}, reduced_dim={over})")
        form = self.random.choice(
            ["{} / {}", "{} * (1 / {})", "{} / ({} + 1)", "{} / max({}, 1e-6)"]
        )
        return self.let(value.dims, form.format(self.ref(power), self.ref(total)), 0.1, "W")

    def normalise_by_exp2(self, value, over):
        scaled = self.let(value.dims, f"{self.ref(value)} * 1.4427", value.std)
        return self.normalise_by_hand(scaled, over, "exp2")

    def normalise_sink(self, value, over):
        """A logit beside those of the memory that takes weight and gives nothing."""
        sink = self.weight(self.heads_of(value) if over == "m" else [])
        rest = [d for d in value.dims if d != over]
        top = self.let(rest, f"max(max({self.ref(value)}, reduced_dim={over}), {self.ref(sink)})")
        power = self.let(value.dims, f"exp({self.ref(value)} - {self.ref(top)})", prefix="E")
        total = self.let(
            rest,
            f"sum({self.ref(power)}, reduced_dim={over}) + exp({self.ref(sink)} - {self.ref(top)})",
        )
        return self.let(value.dims, f"{self.ref(power)} / {self.ref(total)}", 0.1, "W")

    def normalise_relative(self, value, over):
        """Powers relative to a function of their sum, which is no number before a row's first."""
        rest = [d for d in value.dims if d != over]
        total = self.let(rest, f"logsumexp({self.ref(value)}, reduced_dim={over})")
        form = self.later.choice(
            [
                "{0} + softplus(1 - {0})",
                "{0} + log(1 + exp(0.5 - {0}))",
                "sqrt({0} * {0} + 1)",
                "max({0}, 0.5)",
                "{0} + 0.1 * tanh({0})",
            ]
        )
        by = self.let(rest, form.format(self.ref(total)))
        return self.let(value.dims, f"exp({self.ref(value)} - {self.ref(by)})", 0.1, "W")

    def normalise_sigmoid(self, value, over):
        text = self.random.choice(
            ["sigmoid({0})", "sigmoid({0} - log({1}))", "sigmoid({0}) / sqrt({1})"]
        )
        return self.let(value.dims, text.format(self.ref(value), over), 0.3, "W")

    def normalise_relu(self, value, over):
        power = self.random.choice(["relu({0}) / {1}", "relu({0}) ** 2 / {1}"])
        return self.let(value.dims, power.format(self.ref(value), over), 0.3, "W")

    def normalise_linear(self, value, over):
        if self.chance(0.5):
            return self.let(value.dims, f"{self.ref(value)} / sqrt({over})", 0.3, "W")
        rest = [d for d in value.dims if d != over]
        total = self.let(rest, f"sum(abs({self.ref(value)}), reduced_dim={over})")
        return self.let(value.dims, f"{self.ref(value)} / ({self.ref(total)} + 1)", 0.1, "W")
