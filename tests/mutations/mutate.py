# SPDX-License-Identifier: Apache-2.0
"""Token mutations of programs: one token deleted, doubled, exchanged, replaced or put in.

usage: mutate.py [--count N] [--first N] [--seed S] [--show N] [--keep DIR]

Number i of a seed is the mutations of one file, always the same. Each goes through `attc check`,
`attc fmt` if it has errors, and `attc emit --stage=tile` if it has none:

- it ends with status 0 or 1, within the time limit;
- standard error is diagnostics and nothing else, with an error just when the status is 1;
- every diagnostic is in the file (or the prelude), at a column that its line has;
- a mistake of the text (what `attc fmt` tells) is not told before the line with the mutation, but
  a bracket where it opens, and a def without a body at its name; then in the same item;
- a mistake of names and dims is told in the item with the mutation or one that calls it, directly
  or through others.

Prints what fails, with the command that shows it, and ends with status 1 if anything did.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests" / "tools"))
import words  # noqa: E402

ATTC = os.environ.get("ATTC", str(ROOT / "build/attc"))
TIME_LIMIT = 60  # seconds: a machine may be busy, a hang is longer
WORKERS = 2
TOKEN = re.compile(
    r"[A-Za-z_]\w*'*|\.?\d[\w.]*|\"[^\"\n]*\"|\*\*|//|->|[=!<>]=|#[^\n]*|\n *|[^\s]"
)
# Lists of what is put in: words and signs of this language, of others, and names of programs.
VOCABULARY = [
    words.keywords(), words.signs(), words.elements(), words.first_values(), words.constants(),
    words.functions(), words.keys(), words.orders(), words.prelude(), words.foreign(),
    "if else elif while lambda range None True torch np self".split(" "),
    "T X W n m d h k n' m''".split(" "),
    "0 1 2 0.5 1e-5 16 1e400 3x".split(" "),
    "... ; { } ! & && | ^ $ ' \" \\ é \0 #".split(" "),
    ["\n", "\n    ", "\n        ", "\t", '"nd,dk->nk"'],
]
TOLD_EARLIER = re.compile(
    r"is never closed|has no body|this block has no lines|is closed by|a parameter list follows"
)


def sources():
    """The files that are mutated."""
    return sorted([*ROOT.glob("examples/*.attn"), *ROOT.glob("tests/variants/*.attn")])


def tokens_of(text):
    """(begin, end) of every token that counts: not those of comments."""
    return [m.span() for m in TOKEN.finditer(text) if not m[0].startswith("#")]


def line_at(text, place):
    return text.count("\n", 0, place) + 1


class Mutation:
    """Mutations of one file, mostly one: the text, and the lines that they begin in."""

    def __init__(self, seed, number):
        rng = random.Random(f"{seed}:{number}")
        self.number, self.path = number, rng.choice(sources())
        self.before = self.text = self.path.read_text()
        self.tokens = tokens_of(self.before)
        self.changed, begins = "", []
        # From the end of the file on, so that places before keep theirs.
        limit = len(self.before)
        for at in sorted(rng.sample(range(len(self.tokens)), rng.choice([1, 1, 1, 2, 3])))[::-1]:
            if self.tokens[at][1] <= limit:
                limit = self.mutate(rng, at, limit)
                begins.append(limit)
        self.lines = [line_at(self.text, begin) for begin in begins]
        self.line = min(self.lines)

    def mutate(self, rng, at, limit):
        begin, end = self.tokens[at]
        old = self.before[begin:end]
        word = self.word(rng, old)
        kind = rng.choice(["delete", "double", "exchange", "replace", "insert"])
        new = {"delete": "", "double": f"{old} {old}", "replace": f" {word} "}.get(kind)
        if kind == "exchange" and at + 1 < len(self.tokens) and self.tokens[at + 1][1] <= limit:
            after, last = self.tokens[at + 1]
            new, end = self.before[after:last] + self.before[end:after] + old, last
        if new is None:
            new = f" {word} {old}"
        self.text = self.text[:begin] + new + self.text[end:]
        self.changed += f" {self.before[begin:end]} {new}"
        return begin

    def word(self, rng, old):
        """One to put in: of any list, of the list that the old one is in, or of the file itself."""
        any_list = rng.choice(VOCABULARY)
        alike = next((words_of for words_of in VOCABULARY if old in words_of), any_list)
        own = [self.before[begin:end] for begin, end in self.tokens]
        return rng.choice(rng.choice([any_list, alike, own]))

    def items(self):
        """Lines of the text where an item begins."""
        rows = self.text.split("\n")
        return [i for i, row in enumerate(rows, 1) if re.match(r"(def|dim|param|import)\b", row)]

    def item_of(self, line):
        return max([0, *(begin for begin in self.items() if begin <= line)])

    def keeps_items(self):
        """Are the items those of the file, and the lines too?"""

        def heads(text):
            return re.findall(r"^((?:def|dim|param|import)\b[^\n(]*)", text, re.M)

        structural = re.search(r"\b(def|dim|param|import|like)\b|[\n\0\"]", self.changed)
        return heads(self.before) == heads(self.text) and not structural


def run(arguments, text):
    try:
        done = subprocess.run([ATTC, *arguments], input=text.encode(), capture_output=True,
                              timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return None, b"", "no end"
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def callers(mutation):
    """Lines of the items that may be told of: those with a mutation, and what calls them. None: it
    may be any, since what is no def was changed."""
    rows, items = mutation.text.split("\n"), mutation.items()
    bodies = {begin: "\n".join(rows[begin - 1 : end - 1])
              for begin, end in zip(items, [*items[1:], len(rows) + 1])}
    found, left = set(), [mutation.item_of(line) for line in mutation.lines]
    while left:
        item = left.pop()
        if item in found:
            continue
        found.add(item)
        name = re.match(r"def\s+(\w+)", bodies.get(item, ""))
        if not name:
            return None
        left += [other for other, body in bodies.items() if re.search(rf"\b{name[1]}\b", body)]
    return found


class Judge:
    """Collects what is wrong with one mutation."""

    def __init__(self, mutation):
        self.mutation, self.problems, self.errors = mutation, [], 0

    def say(self, what):
        self.problems.append(what)

    def read(self, status, stderr, what):
        """The diagnostics of a run, after checking their form."""
        if status not in (0, 1):
            self.say(f"{what}: status {status}: {stderr[-2000:]}")
            return []
        found = []
        for row in stderr.splitlines():
            try:
                found.append(json.loads(row))
            except ValueError:
                self.say(f"{what}: no diagnostic: {row[:300]}")
        errors = [d for d in found if d["severity"] == "error"]
        if bool(errors) != bool(status):
            self.say(f"{what}: status {status} with {len(errors)} errors")
        for diag in found:
            for place in [diag, *diag["notes"]]:
                self.check_place(place, what)
        return errors

    def check_place(self, place, what):
        if place["file"] not in ("<stdin>", "-"):
            return
        rows = self.mutation.text.encode().split(b"\n")
        line, column = place["line"], place["column"]
        if not 1 <= line <= len(rows):
            self.say(f"{what}: line {line} of {len(rows)}: {place['message']}")
        elif not 1 <= column <= len(rows[line - 1]) + 1:
            self.say(f"{what}: column {column} of line {line}: {place['message']}")
        elif (place["end_line"], place["end_column"]) < (line, column):
            self.say(f"{what}: ends before it begins: {place['message']}")

    def check_text_places(self, errors):
        first = self.mutation.line
        for error in errors:
            line = error["line"]
            earlier = TOLD_EARLIER.search(error["message"])
            limit = self.mutation.item_of(first) if earlier else first
            if line < limit:
                self.say(f"line {line}, the mutation is in {first}: {error['message']}")

    def check_name_places(self, errors):
        if not self.mutation.keeps_items():
            return
        allowed = callers(self.mutation)
        for error in errors:
            if allowed is not None and self.mutation.item_of(error["line"]) not in allowed:
                self.say(f"line {error['line']} is of another item: {error['message']}")


def judge(mutation):
    verdict = Judge(mutation)
    status, _, stderr = run(["check", "--diagnostics=json", "-"], mutation.text)
    errors = verdict.read(status, stderr, "check")
    verdict.errors = len(errors)
    if status == 0:
        status, _, stderr = run(["emit", "--stage=tile", "-w", "--diagnostics=json", "-o",
                                 os.devnull, "-"], mutation.text)
        verdict.read(status, stderr, "emit")
    elif status == 1:
        status, _, stderr = run(["fmt", "--diagnostics=json", "-"], mutation.text)
        of_text = verdict.read(status, stderr, "fmt")
        verdict.check_text_places(of_text)
        if not of_text:
            verdict.check_name_places(errors)
    return verdict


def judge_all(seed, first, count):
    with ThreadPoolExecutor(WORKERS) as pool:
        numbers = range(first, first + count)
        return list(pool.map(lambda number: judge(Mutation(seed, number)), numbers))


def summary(verdicts):
    """How many mutations were refused, and with how many errors each."""
    counts = [v.errors for v in verdicts if v.errors]
    one = sum(count == 1 for count in counts)
    share = 100 * one / max(1, len(counts))
    return (f"{len(verdicts)} mutations: {len(counts)} refused, "
            f"{share:.0f}% of them with one error, "
            f"{sum(bool(v.problems) for v in verdicts)} told or treated wrongly")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--show", type=int, help="print the text of this mutation")
    args = parser.parse_args()
    if args.show is not None:
        mutation = Mutation(args.seed, args.show)
        sys.stderr.write(f"{mutation.path.relative_to(ROOT)}: lines {sorted(mutation.lines)}\n")
        sys.stdout.write(mutation.text)
        return 0
    verdicts = judge_all(args.seed, args.first, args.count)
    for verdict in verdicts:
        for problem in verdict.problems:
            print(f"{verdict.mutation.number} ({verdict.mutation.path.name}): {problem}")
    print(summary(verdicts))
    return any(v.problems for v in verdicts)


if __name__ == "__main__":
    sys.exit(main())
