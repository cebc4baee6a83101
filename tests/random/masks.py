# SPDX-License-Identifier: Apache-2.0
"""Random masks: conditions on positions, lengths, documents and tensors of whole numbers.

Whole-number inputs that pick no rows of a table are drawn from 0 to 3: lengths are made of them by
multiplication, so that empty, partial and full ones occur.
"""

from values import Value


def _causal(p, _):
    offset = p.random.choice(["", "", "", f" + {p.random.randint(1, 9)}", " - 1", " - 20"])
    return ["n", "m"], f"index(m) {p.random.choice(['<=', '<=', '<'])} index(n){offset}"


def _window(p, _):
    width = p.random.choice([0, 1, 2, 7, 16, 30, 64])
    form = p.random.choice(
        [
            "abs(index(n) - index(m)) <= {}",
            "index(n) - index(m) < {}",
            "index(m) > index(n) - {} and index(m) <= index(n)",
            "index(m) <= index(n) + {}",
            "index(m) - index(n) >= -{}",
        ]
    )
    return ["n", "m"], form.format(width)


def _window_of_head(p, heads):
    if not heads:
        return _window(p, heads)
    head = p.random.choice(heads)
    step = p.random.randint(1, 12)
    if p.chance(0.5):
        return ["n", "m", head], f"abs(index(n) - index(m)) <= {step} * index({head})"
    width = p.data("w", [head], "i32")
    return [*width.dims, "n", "m"], f"index(n) - index(m) < {p.ref(width)} * {step}"


def _column(p, _):
    at = p.random.choice(["m // 2", "m - 1", "m // 3 + 1", "1", "5", "64", "m"])
    return ["m"], p.random.choice(
        [f"index(m) < {at}", f"index(m) >= {at}", f"index(m) != {at} - 1"]
    )


def _row(p, _):
    return ["n"], p.random.choice(["index(n) < n // 2", "index(n) >= 3", "index(n) % 3 != 0"])


def _length(p, _):
    """Padding: a length for each example, 0 included."""
    length = p.data("len", [], "i32")
    text = p.random.choice(
        ["{0} * m // 3", "{0} * 17", "{0} * 40 + 1", "max({0} * m // 3, 1)", "({0} + 1) * 13"]
    ).format(p.ref(length))
    return [*length.dims, "m"], f"index(m) {p.random.choice(['<', '<', '>='])} {text}"


def _row_bound(p, heads):
    """A first or last memory position for each query."""
    bound = p.data("s", ["n", *[h for h in heads if p.chance(0.2)]], "i32")
    text = f"{p.ref(bound)} * {p.random.choice([1, 3, 20, 70])}"
    return [*bound.dims, "m"], f"index(m) {p.random.choice(['<', '<=', '>=', '>'])} {text}"


def _between(p, _):
    low, high = p.data("lo", [], "i32"), p.data("hi", ["n"], "i32")
    text = f"index(m) >= {p.ref(low)} * 9 and index(m) < {p.ref(low)} * 9 + {p.ref(high)} * 30 + 1"
    return [*p.union(low, high), "m"], text


def _document(p, _):
    """Documents: equal numbers, of one tensor or of two."""
    query = p.data("doc", ["n"], "i32")
    compare = p.random.choice(["==", "==", "<=", "!="])
    if p.own_memory and p.chance(0.8):
        other = f"{query.name}[{', '.join('m' if d == 'n' else d for d in query.dims)}]"
        return [*query.dims, "m"], f"{p.ref(query)} {compare} {other}"
    memory = p.data("doc", ["m"], "i32")
    return p.union(query, memory), f"{p.ref(query)} {compare} {p.ref(memory)}"


def _sorted_documents(p, _):
    """Documents of equal lengths, or whose number grows with the position."""
    size = p.random.choice([1, 2, 5, 16, 33, 64])
    if p.chance(0.5):
        return ["n", "m"], f"index(n) // {size} == index(m) // {size}"
    shift = p.data("o", [], "i32")
    return [*shift.dims, "n", "m"], (
        f"(index(n) + {p.ref(shift)}) // {size} >= (index(m) + {p.ref(shift)}) // {size}"
    )


def _stride(p, _):
    step = p.random.choice([1, 2, 3, 8])
    form = p.random.choice(["(index(n) - index(m)) % {} == 0", "index(m) % {} == 0"])
    return (["n", "m"] if "n)" in form else ["m"]), form.format(step)


def _columns_kept(p, _):
    kind = p.random.choice(["bool", "i32"])
    kept = p.data("keep", ["m"], kind)
    return kept.dims, p.ref(kept) + ("" if kind == "bool" else p.random.choice([" != 0", " > 1"]))


def _table(p, heads):
    """A whole tensor over queries and memory."""
    kept = p.data("keep", ["n", "m", *[h for h in heads if p.chance(0.2)]], "bool")
    return kept.dims, p.ref(kept)


def _diagonal(p, _):
    return ["n", "m"], p.random.choice(["index(n) == index(m)", "index(n) != index(m)"])


def _mixed_arithmetic(p, _):
    form = p.random.choice(
        [
            "2 * index(m) < index(n) + 7",
            "index(m) * 3 - index(n) * 2 <= 10",
            "min(index(m), 5) < index(n)",
            "max(index(m), index(n)) < n // 2 + 3",
            "index(m) // 4 <= index(n) // 4",
            "index(m) + index(n) < m",
            "-index(m) >= -index(n)",
            "index(n) % 7 >= index(m) % 5",
        ]
    )
    return ["n", "m"], form


ATOMS = {
    _causal: 8,
    _window: 5,
    _window_of_head: 2,
    _column: 3,
    _row: 1,
    _length: 6,
    _row_bound: 2,
    _between: 1,
    _document: 4,
    _sorted_documents: 2,
    _stride: 2,
    _columns_kept: 2,
    _table: 1,
    _diagonal: 1,
    _mixed_arithmetic: 3,
}


def _combined(p, heads, depth):
    if depth == 0 or p.chance(0.45):
        dims, text = p.choose(ATOMS)(p, heads)
        return list(dims), f"({text})"
    form = p.choose({"and": 5, "or": 4, "not": 2})
    dims, text = _combined(p, heads, depth - 1)
    if form == "not":
        return dims, f"(not {text})"
    others, other = _combined(p, heads, depth - 1)
    return list(dict.fromkeys(dims + others)), f"({text} {form} {other})"


def condition(p, value):
    """A condition on the elements of `value` in the program `p`, with its text as the name."""
    dims, text = _combined(p, p.heads_of(value), p.random.choice([0, 0, 1, 1, 2, 3]))
    return Value(text, tuple(dims))
