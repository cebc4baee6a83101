# SPDX-License-Identifier: Apache-2.0
"""Is every message about a source text expected by some test, at its exact place?

usage: coverage.py SOURCE_ROOT

Reads the messages out of the front: what stands in calls of the functions that tell, and of those
that hand a text on to them, which are found by that. Looks for each in the expectations of
tests/*/*.attn, for those of parsing in the unit tests of it, and for those of programs that are
put together in the tests that run them. Prints those that no test expects; exit status 1 if there
are any.
"""
import re
import sys
from pathlib import Path

SOURCES = ["compiler/ast/**/*.c", "compiler/graph/build/*.c", "grammar/*.y", "grammar/*.l"]
TELLERS = {"diag_error": "error", "diag_warning": "warning", "diag_note": "note",
           "diag_hint": "hint"}
# A text may come from a function that is called so: its strings are messages of that kind.
MADE = re.compile(r"\b\w+_(hint|problem)\(")
USERS = {"import_file", "hint_part"}  # have it from where files are read, from meant_function
# What no source text is known to lead to: the command line refuses the first before,
# tests/unit/resolve_test.c has it; names and dims are checked before the other can be met.
ELSEWHERE = {"%s: extents are from 0 to %lld",
             "'%s' is shared by calls that give its dims different meanings"}
UNIT = ["parse*_test.c", "import_test.c", "resolve_test.c", "build_test.c", "optimizer_test.c"]

COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
JOINED = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')
FUNCTION = re.compile(r"^(static )?(?!typedef|struct|enum|union|return)[A-Za-z][\w *]*?(\w+)\(",
                      re.M)
EXPECTED = re.compile(r"^#.*?\b(error|warning|note|hint)(?:\[[a-z-]+\])?: (.*)$")


def join(text):
    return "".join(LITERAL.findall(text))


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


def functions(path):
    """Name, parameters, whether it is of this file alone, first line and text of every function."""
    source = COMMENT.sub(lambda match: match[1] or "", path.read_text())
    for match in FUNCTION.finditer(source):
        parameters = call_text(source, match.end())
        after = match.end() + len(parameters) + 1
        if source[after:after + 2] != " {":
            continue
        line, end = source.count("\n", 0, after) + 1, source.find("\n}", after)
        yield match[2], parameters, bool(match[1]), line, source[after:end]


def calls(text, tellers):
    """Calls of functions that tell: where, which kind, and the messages (none: handed on).

    A message None is another function's."""
    teller = re.compile(r"\b(" + "|".join(tellers) + r")\(")
    for call in teller.finditer(text):
        inner = call_text(text, call.end())
        nested = teller.search(inner)
        if nested:
            inner = inner.replace(nested[0] + call_text(inner, nested.end()), "")
        if call[1] == "diag_warning":
            inner = LITERAL.sub("", inner, count=1)
        texts = messages_in(inner)
        for name in re.findall(r"\w+", inner) if not texts else []:  # a variable has them
            for value in re.findall(r"\bconst char \*" + name + r" = ([^;]*);", text):
                texts += messages_in(value)
            if re.search(r"\b" + name + r" = [^;]*" + MADE.pattern, text):
                texts.append(None)
        if MADE.search(inner):
            texts.append(None)
        yield text.count("\n", 0, call.start()), tellers[call[1]], texts


def messages_in(text):
    """The first string, and others that are no words: of `a ? "it is so" : "so is it"` both."""
    texts = [join(found[0]) for found in JOINED.finditer(text)]
    return [one for i, one in enumerate(texts) if one != "%s" and (i == 0 or one.count(" ") > 2)]


def find_tellers(root):
    """The functions of each file that tell, also those that hand on what they are given."""
    everywhere = dict(TELLERS)
    files = {path: {} for pattern in SOURCES for path in sorted(root.glob(pattern))}
    bodies = {path: list(functions(path)) for path in files}
    grown = True
    while grown:
        grown = False
        for path, own in files.items():
            known = everywhere | own
            for name, parameters, static, _, text in bodies[path]:
                handed = [kind for _, kind, texts in calls(text, known) if not texts]
                if not handed or "const char *" not in parameters or name in known:
                    continue
                several = parameters.count("const char *") > 1
                (own if static else everywhere)[name] = None if several else handed[0]
                grown = True
    return {path: everywhere | own for path, own in files.items()}, bodies


def messages(root):
    tellers, bodies = find_tellers(root)
    for path, known in tellers.items():
        for name, parameters, _, line, text in bodies[path]:
            for row, kind, texts in calls(text, known):
                if not texts and "const char *" not in parameters and name not in USERS:
                    yield path.name, line + row, kind, "(in another place than the call)"
                for literal in filter(None, texts):
                    yield path.name, line + row, kind, literal.replace('\\"', '"')
            made = MADE.match(name + "(")
            for found in JOINED.finditer(text) if made else []:
                literal = join(found[0])
                if literal.count(" ") > 2:
                    row = line + text.count("\n", 0, found.start())
                    kind = "hint" if made[1] == "hint" else "error"
                    yield path.name, row, kind, literal.replace('\\"', '"')


def pattern(literal):
    parts = re.split(r"%(?:lld|\.\*s|\.0f|02x|04X|zu|[sugdc%])", literal)
    percent = re.findall(r"%(lld|\.\*s|\.0f|02x|04X|zu|[sugdc%])", literal)
    text = re.escape(parts[0])
    for kind, part in zip(percent, parts[1:]):
        text += ("%" if kind == "%" else ".*") + re.escape(part)
    return re.compile(text + "$")


def expectations(root):
    for path in sorted((root / "tests").glob("*/*.attn")):
        for line in path.read_text(errors="replace").splitlines():
            match = EXPECTED.match(line)
            if match:
                yield match[1], match[2]
    for name in UNIT:
        for path in sorted((root / "tests/unit").glob(name)):
            for found in JOINED.finditer(path.read_text()):
                for line in join(found[0]).replace('\\"', '"').split("\\n"):
                    error, *hints = re.sub(r"^[0-9]+:[0-9]+ ", "", line).split(" | ")
                    yield "error", error
                    yield from (("hint", hint) for hint in hints)


def main():
    root = Path(sys.argv[1])
    expected = set(expectations(root))
    run = "\n".join(path.read_text() for path in sorted((root / "tests").glob("*/test_*.py")))
    missing = 0
    for name, line, kind, literal in messages(root):
        form = pattern(literal)
        known = any(kind in (k, None) and form.match(text) for k, text in expected)
        known = known or re.search(form.pattern[:-1], run)
        if not known and literal not in ELSEWHERE:
            kind = kind or "text"
            print(f"{name}:{line}: no test expects the {kind} '{literal}'")
            missing += 1
    sys.exit(missing > 0)


if __name__ == "__main__":
    main()
