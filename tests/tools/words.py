# SPDX-License-Identifier: Apache-2.0
"""The names that the language and the compiler have, read from the lists of the sources."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def words_in(path, pattern):
    """What the group of a pattern matches in a file of the sources, in its order."""
    found = re.findall(pattern, (ROOT / path).read_text(), re.M)
    assert found, f"{path} has no such list any more"
    return list(dict.fromkeys(found))


def keywords():
    return words_in("grammar/scan.l", r'^"([a-z]+)"\s+\{')


def signs():
    """Signs of the scanner, also those that are read for a message alone."""
    return words_in("grammar/scan.l", r'^"([^"\w]+)"\s+\{ scan_push')


def elements():
    return words_in("compiler/base/elem.def", r"^ELEM\(\w+, (\w+),")


def first_values():
    return words_in("compiler/ast/read/syntax.c", r'^ +\{"(\w+)", "[^"]*", INIT_')


def functions():
    """Built-in ones, without the casts, which are called after the element types."""
    words = words_in("compiler/ast/builtins.def", r"^BUILTIN\(\w+, (\w+),")
    return [word for word in words if word not in elements()]


def keys():
    """Of the keyword arguments of built-in functions."""
    lists = words_in("compiler/ast/builtins.def", r'^BUILTIN\(.*"([^"]+)"\)')
    return list(dict.fromkeys(word for words in lists for word in words.split()))


def prelude():
    return words_in("compiler/ast/read/prelude.attn", r"^def (\w+)")


def constants():
    """Calls that are written with brackets alone."""
    return words_in("compiler/ast/resolve/constant.c", r'strcmp\(name, "(\w+)"\)')


def orders():
    """What `order=` may be."""
    return words_in("compiler/ast/resolve/topk.c", r'strcmp\(value->name\.name, "(\w+)"\)')


def foreign():
    """Functions of other languages that are answered with what to write."""
    lists = words_in("compiler/ast/resolve/meant/function.c", r'^ +\{"([\w ]+)", IS_')
    return [word for words in lists for word in words.split()]


def operators():
    return words_in("compiler/ast/node.c", r'\[OPER_\w+\] = "([^"]+)"')


def warnings():
    """Which of them are on without an option."""
    groups = words_in("compiler/base/diag.c", r'^ +\{"([a-z-]+)", (true|false)\}')
    return {name: on == "true" for name, on in groups}
