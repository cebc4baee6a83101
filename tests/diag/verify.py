# SPDX-License-Identifier: Apache-2.0
"""Checks every diagnostic of `attc check FILE` against what the file says it should be.

usage: verify.py ATTC FILE [OPTION ...]      options are handed to attc check
       verify.py --annotate ATTC FILE [OPTION ...]      prints FILE with the diagnostics of now

An expectation is a comment under the line that it is about, its carets under the exact columns:

    Y[n, d] = einsum(X[n, e], P[e, k])
#        ^ error: no operand of the einsum has 'd'
#                               ^ note: 'k' is in 'P' alone and would be summed over
#   hint: ...

'warning[group]' for warnings; '#<' for column 1; a hint belongs to the error or warning above it.
'# attc: error: ...' has no place (command line), '# <prelude>: note: ...' is in the prelude.
Nothing else may be reported, and the exit status must be 1 exactly when there are errors.
"""
import json
import re
import subprocess
import sys
from collections import Counter

EXPECTATION = re.compile(
    r"^#(?:(?P<first><)| (?P<place>attc:|<prelude>:)|(?P<blank> *)(?P<carets>\^+))"
    r" *(?P<kind>error|warning|note)(?:\[(?P<group>[a-z-]+)\])?: (?P<text>.*)$")
HINT = re.compile(r"^# *hint: (?P<text>.*)$")
NO_PLACE = (0, 0, 0)


def run_check(attc, path, options):
    run = subprocess.run([attc, "check", "--diagnostics=json", path, *options],
                         capture_output=True, text=True, timeout=60)
    if run.stdout:
        sys.exit(f"{path}: 'attc check' wrote to standard output:\n{run.stdout}")
    found = []
    for line in run.stderr.splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            sys.exit(f"{path}: not a JSON diagnostic: {line}")
    errors = any(diag["severity"] == "error" for diag in found)
    if run.returncode != int(errors):
        sys.exit(f"{path}: exit status {run.returncode}, {'errors' if errors else 'no errors'}")
    return found


def place_of(diag, path):
    """(file, line, column, end column): the end is 0 where the range goes on on other lines."""
    if diag["file"] is None:
        return ("attc:", *NO_PLACE)
    if diag["file"] != path:
        return (f"{diag['file']}:", *NO_PLACE)
    end = diag["end_column"] if diag["end_line"] == diag["line"] else 0
    return ("", diag["line"], diag["column"], end)


def items_of(found, path):
    """One (kind, group, place, text, hint) for each diagnostic and each note."""
    for diag in found:
        yield (diag["severity"], diag["group"], place_of(diag, path), diag["message"], diag["hint"])
        for note in diag["notes"]:
            yield ("note", None, place_of(note, path), note["message"], None)


def read_expectations(lines):
    expected, line = [], 0
    for number, text in enumerate(lines, 1):
        hint = HINT.match(text)
        match = EXPECTATION.match(text)
        if hint and expected:
            about = max(i for i, item in enumerate(expected) if item[0] != "note")
            expected[about][4] = hint["text"]
        elif match:
            if match["place"]:
                place = (match["place"], *NO_PLACE)
            elif match["first"]:
                place = ("", line, 1, 0)
            else:
                column = len(match["blank"]) + 2
                carets = len(match["carets"])
                place = ("", line, column, column + carets if carets > 1 else 0)
            expected.append([match["kind"], match["group"], place, match["text"], None])
        else:
            line = number
    return [tuple(item) for item in expected]


def without_end(item, keep):
    """A single caret says where a range begins only."""
    kind, group, (file, line, column, end), text, hint = item
    return (kind, group, (file, line, column, end if keep else 0), text, hint)


def show(item):
    kind, group, (file, line, column, _), text, hint = item
    where = f"{line}:{column}" if line else file
    what = f"{kind}[{group}]" if group else kind
    return f"{where}: {what}: {text}" + (f"\n    hint: {hint}" if hint else "")


def compare(expected, found):
    """Prints what is missing and what is too much; True when both are nothing."""
    left = Counter(found)
    missing = []
    for item in expected:
        exact = item[2][3] != 0
        match = next((other for other in left if without_end(other, exact) == item), None)
        if match is None:
            missing.append(item)
        else:
            left[match] -= 1
            left += Counter()
    for item in missing:
        print("expected, not reported:", show(item))
    for item in left.elements():
        print("reported, not expected:", show(item))
    return not missing and not left


def comment_of(item):
    kind, group, (file, _, column, end), text, hint = item
    what = f"{kind}[{group}]" if group else kind
    if file:
        head = f"# {file}"
    elif column == 1:
        head = "#<"
    else:
        head = "#" + " " * (column - 2) + "^" * max(1, min(end - column, 99))
    lines = [f"{head} {what}: {text}"]
    if hint:
        lines.append(f"#   hint: {hint}")
    return lines


def annotate(lines, found):
    by_line = {}
    for item in found:
        by_line.setdefault(item[2][1], []).append(item)
    order = [text for text in lines if not EXPECTATION.match(text)]
    numbers = [n for n, text in enumerate(lines, 1) if not EXPECTATION.match(text)]
    hints = {n for n, text in enumerate(lines, 1) if HINT.match(text)}
    for number, text in zip(numbers, order):
        if number in hints:
            continue
        print(text)
        for item in by_line.get(number, []):
            print("\n".join(comment_of(item)))
    for item in by_line.get(0, []):
        print("\n".join(comment_of(item)))


def main():
    arguments = sys.argv[1:]
    rewrite = arguments[:1] == ["--annotate"]
    attc, path, *options = arguments[rewrite:]
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().split("\n")
    if lines and not lines[-1]:
        lines.pop()
    found = list(items_of(run_check(attc, path, options), path))
    if rewrite:
        annotate(lines, found)
    elif not compare(read_expectations(lines), found):
        sys.exit(1)


if __name__ == "__main__":
    main()
