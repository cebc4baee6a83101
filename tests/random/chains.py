# SPDX-License-Identifier: Apache-2.0
"""Random chains of attention over one sequence.

usage: chains.py SEED       prints the program; the first line tells the options

Every value has the same dims: what a step makes is query, key, value or a place along a row of the
next ones, under the names of both positions, and often nothing is a parameter, so that features
count as positions.
"""

import random
import sys

POINTWISE = ["tanh({})", "relu({})", "silu({})", "gelu({})", "abs({})", "stop_gradient({})"]
ROWS = [
    "standardize({}, d=d)",
    "softmax({}, reduced_dim=d)",
    "{0} - mean({0}, reduced_dim=d)",
    "{0} * rsqrt(mean({0} ** 2, reduced_dim=d) + 0.1)",
    "{0} / (1 + sum({0} ** 2, reduced_dim=d))",
    "{0} - max({0}, reduced_dim=n)",
    "cumsum({}, dim=n)",
    "shift({}, n, 1)",
    "checkpoint(sin({}))",
]
RESULTS = [
    "{}",
    "{}, {}",
    "sum({}, reduced_dim=(n, d))",
    "sum({}, reduced_dim=d)",
    "sum({}, reduced_dim=n)",
    "mean({} ** 2, reduced_dim=(n, d))",
    "max({}, reduced_dim=n)",
    "sum({}, reduced_dim=d), sum({}, reduced_dim=n)",
]


class Chain:
    def __init__(self, seed):
        self.choice, self.chance = random.Random(seed).choice, random.Random(~seed).random
        self.arguments, self.lines, self.values, self.count = ["x[n, d]"], [], ["x"], 0

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def recent(self):
        return self.choice(self.values[-3:])

    def add(self, text):
        name = self.name("v")
        self.lines.append(f"{name}[n, d] = {text}")
        self.values.append(name)

    def argument(self, dims):
        name = self.name("P")
        self.arguments.append(self.choice(["param ", ""]) + name + dims)
        return name

    def logits(self):
        x, y = self.recent(), self.recent()
        text = f"einsum({x}[n, d], {y}[n', d] -> [n, n'])"
        if self.chance() < 0.3:
            p = self.argument("[d, r]")
            text = f"einsum({x}[n, d], {p}[d, r], {y}[n', d'], {p}[d', r] -> [n, n'])"
        forms = [
            "{}",
            "where(index(n') <= index(n), {}, -1e9)",
            "{} - abs(index(n) - index(n'))",
            "softcap({}, 3)",
        ]
        return self.choice(forms).format(text)

    def weights(self):
        reduced = self.choice(["n'", "n'", "n'", "n"])
        soft = f"softmax({{}}, reduced_dim={reduced})"
        form = self.choice([soft, soft, soft, "sigmoid({})", "{} / (1 + index(n))"])
        name = self.name("W")
        self.lines.append(f"{name}[n, n'] = {form.format(self.logits())}")
        return name

    def attention(self):
        text = f"einsum({self.weights()}[n, n'], {self.recent()}[n', d] -> [n, d])"
        self.add(self.choice(["{0}", "{0}", "{1} + {0}"]).format(text, self.recent()))

    def step(self):
        kind = self.choice(["attention"] * 3 + ["sum", "product", "pointwise", "rows", "matrix"])
        if kind == "attention":
            self.attention()
        elif kind == "matrix":
            matrix = self.argument("[d', d]")
            self.add(f"einsum({self.recent()}[n, d'], {matrix}[d', d])")
        elif kind in ("sum", "product"):
            self.add(f"{self.recent()} {'+' if kind == 'sum' else '*'} {self.recent()}")
        else:
            forms = POINTWISE if kind == "pointwise" else ROWS
            self.add(self.choice(forms).format(self.recent()))


def generate(seed):
    """The program's text, and its options for attc."""
    chain = Chain(seed)
    for _ in range(chain.choice([1, 2, 3, 3, 4, 5])):
        chain.step()
    last = chain.values[-1], chain.values[-2]
    lines = [*chain.lines, "return " + chain.choice(RESULTS).format(*last)]
    text = f"def Chain({', '.join(chain.arguments)}):\n" + "".join(f"    {x}\n" for x in lines)
    n, d = chain.choice([1, 2, 7, 9, 16, 17, 40]), chain.choice([2, 3, 8])
    return text, ["-D", f"n={n},d={d},r=2", "--seed", str(seed)]


if __name__ == "__main__":
    program, options = generate(int(sys.argv[1]))
    print("#", *options)
    print(program, end="")
