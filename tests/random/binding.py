# SPDX-License-Identifier: Apache-2.0
"""What an argument says of the dims of a parameter: grammar/language.md 7.1, read once more.

The kinds of dims of the programs in calls.py are here as well.
"""

BASE = "n t d k h u".split()
LIKE = {"m": "n", "s": "t"}

# What is wrong with a call that names and places read in two ways, or with a bare argument of which
# several dims could be meant.
DOUBT = "doubt"


def root(dim):
    """The dim that gives the kind of `dim` its name; of the callee's own `m_t` (7.3) t."""
    plain = dim.rstrip("'").split("_")[-1]
    return LIKE.get(plain, plain)


def keeps_order(formals, bound, actuals, formal, actual, hands):
    """Dims of one kind stand in one order in the parameter and in the argument."""
    for other, stands_for in bound.items():
        if other in hands or root(other) != root(formal):
            continue
        before = formals.index(other) < formals.index(formal)
        if before != (actuals.index(stands_for) < actuals.index(actual)):
            return False
    return True


def by_kind(formals, actuals, bound, hands):
    named = {*bound}
    for formal in formals:
        alike = [f for f in formals if f not in named and root(f) == root(formal)]
        there = [a for a in actuals if a not in bound.values() and root(a) == root(formal)]
        if formal in bound or len(alike) != 1 or len(there) != 1:
            continue
        if keeps_order(formals, bound, actuals, formal, there[0], hands):
            bound[formal] = there[0]


def by_place(formals, actuals, bound):
    left = [a for a in actuals if a not in bound.values()]
    open_dims = [f for f in formals if f not in bound]
    return {**bound, **dict(zip(open_dims, left[len(left) - len(open_dims) :]))}


def bind(formals, actuals, in_order, hands):
    """{formal: actual}, DOUBT, or None where the argument lacks dims. in_order: the call says the
    order of the argument's dims."""
    by_hand = {formal: hands[formal] for formal in formals if formal in hands}
    if not {*by_hand.values()} <= {*actuals}:
        return None
    bound = dict(by_hand)
    for formal in formals:
        if formal not in bound and formal in actuals and formal not in bound.values():
            bound[formal] = formal
    by_kind(formals, actuals, bound, hands)
    n_left, n_open = len(actuals) - len(bound), len(formals) - len(bound)
    if n_left < n_open:
        return None
    if not n_open:
        return bound
    if n_left > n_open and not in_order:
        return DOUBT
    whole = by_place(formals, actuals, bound)
    named = len(bound) > len(by_hand)
    return DOUBT if named and whole != by_place(formals, actuals, by_hand) else whole
