# SPDX-License-Identifier: Apache-2.0
"""Is every message of name and dimension resolution expected by some test, at its exact place?

usage: coverage.py SOURCE_ROOT

Reads the formats out of the calls in compiler/ast/resolve, and looks for each in
the expectations of tests/diag/*.attn. Prints those that no test expects; exit status 1 if there are
any.
"""
import re
import sys
from pathlib import Path

CALLS = {"diag_error": "error", "value_error": "error", "binder_error": "error",
         "diag_warning": "warning", "diag_note": "note", "diag_hint": "hint"}
CALL = re.compile(r"\b(" + "|".join(CALLS) + r")\(")
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
EXPECTED = re.compile(r"^#.*?\b(error|warning|note|hint)(?:\[[a-z-]+\])?: (.*)$")
# Said only where no test of `attc check` comes: the command line refuses it before.
# tests/unit/resolve_test.c has it.
ELSEWHERE = {"%s: extents are from 1 to %lld"}


def call_text(source, begin):
    """The text between the parentheses of a call."""
    depth, at = 1, begin
    while depth:
        literal = LITERAL.match(source, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        at += 1
    return source[begin:at - 1]


def first_literal(text):
    """The first string of a call, adjacent ones joined; a warning's group is not it."""
    found = LITERAL.search(text)
    if not found:
        return None
    joined, at = found[1], found.end()
    while True:
        more = re.compile(r'\s*"((?:[^"\\]|\\.)*)"').match(text, at)
        if not more:
            return joined
        joined, at = joined + more[1], more.end()


def formats(root):
    for path in sorted((root / "compiler/ast/resolve").glob("*.c")):
        source = COMMENT.sub(lambda match: match[1] or "", path.read_text())
        for call in CALL.finditer(source):
            text = call_text(source, call.end())
            if call[1] == "diag_warning":
                text = LITERAL.sub("", text, count=1)
            literal = first_literal(text)
            if literal and literal != "%s":
                line = source.count("\n", 0, call.start()) + 1
                yield path.name, line, CALLS[call[1]], literal.replace('\\"', '"')


def pattern(literal):
    parts = re.split(r"%(?:lld|[sugd%])", literal)
    percent = re.findall(r"%(lld|[sugd%])", literal)
    text = re.escape(parts[0])
    for kind, part in zip(percent, parts[1:]):
        text += ("%" if kind == "%" else ".*") + re.escape(part)
    return re.compile(text + "$")


def main():
    root = Path(sys.argv[1])
    expected = set()
    for path in sorted((root / "tests/diag").glob("*.attn")):
        for line in path.read_text().splitlines():
            match = EXPECTED.match(line)
            if match:
                expected.add((match[1], match[2]))
    missing = 0
    for name, line, kind, literal in formats(root):
        known = any(k == kind and pattern(literal).match(text) for k, text in expected)
        if not known and literal not in ELSEWHERE:
            print(f"{name}:{line}: no test expects the {kind} '{literal}'")
            missing += 1
    sys.exit(missing > 0)


if __name__ == "__main__":
    main()
