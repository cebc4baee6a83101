# SPDX-License-Identifier: Apache-2.0
"""The code in README.md and grammar/language.md: every block is compiled and run.

What stands behind the three quotes says what a block is; a page does not show it:

    attn                          a program, or declarations alone
    attn in (X[n, d], ids[n]: i32) with dim m like n
                                  lines of the body of a def with these parameters
    console                       commands behind `$ ` and what they print
    sh c json                     commands, C, the facts of a machine

`# error: TEXT` and `# warning: TEXT` in a line are all that attc says of it. Everything else of a
program is compiled and compared with the oracle. Behind a dim `# 64` is its extent, and behind
other lines `# layer.0.W, layer.1.W` are names of trained tensors.
"""

import json
import re
import subprocess
import sys

import pytest

from attc import ATTC, MACHINES, ROOT, SANITIZED, attc
from pages import codes, table

FENCE = "```"
LINES = re.compile(r"attn in \((?P<parameters>.*)\)(?: with (?P<items>.*))?")
SAID = re.compile(r"# (error|warning): (.*)")
EXTENT = re.compile(r"^dim (\S+) = .* # (\d+)$")
TRAINED = re.compile(r"# (\w+\.[\w.]+(?:, \w+\.[\w.]+)*)")
ASSIGNED = re.compile(r"^(\w+(?:\[[^\]]*\])?(?:, \w+(?:\[[^\]]*\])?)*) = ", re.M)


class Block:
    """A block of code: its kind, its lines, and the line of the page that the first of them is."""

    def __init__(self, page, line, kind):
        self.page, self.line, self.kind, self.lines = page, line, kind, []

    def __str__(self):
        return f"{self.page}:{self.line}"

    def program(self):
        """Source text with every line where it is in the page, so that messages name those."""
        lines = LINES.fullmatch(self.kind)
        if lines:
            names = ", ".join(ASSIGNED.findall("\n".join(without_wrong(self.lines))))
            head = [lines["items"] or "", f"def Lines({lines['parameters']}):"]
            body = [f"    {line}" for line in self.lines] + [f"    return {names}"]
        else:
            head, body = [], list(self.lines)
        if not any(line.startswith("def ") for line in head + body):
            dims = re.findall(r"(\w+) (?:=|like) ", "\n".join(body))
            body += [f"def Declared(X[{', '.join(dims)}]):", "    return X"]
        return [""] * (self.line - 1 - len(head)) + head + body


def without_wrong(lines):
    """Empty in place of those that get an error."""
    return ["" if "# error: " in line else line for line in lines]


def blocks(page):
    """Every block of a page of Markdown."""
    found, block = [], None
    lines = (ROOT / page).read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if block and line == FENCE:
            found.append(block)
            block = None
        elif block:
            block.lines.append(line)
        elif line.startswith(FENCE):
            block = Block(page, number + 1, line.removeprefix(FENCE))
        else:
            assert FENCE not in line, f"{page}:{number}: a fence stands at the edge of the page"
            after_text = number > 1 and lines[number - 2]
            assert after_text or not line.startswith("    "), f"{page}:{number}: code has no fence"
    assert not block, f"{block}: the block has no end"
    return found


BLOCKS = [block for page in ("README.md", "grammar/language.md") for block in blocks(page)]


def of_kind(kind):
    chosen = [block for block in BLOCKS if block.kind.split(" ")[0] == kind]
    assert chosen
    return pytest.mark.parametrize("block", chosen, ids=str)


def test_every_block_is_of_a_kind_that_is_known():
    for block in BLOCKS:
        if block.kind not in ("attn", "console", "sh", "c", "json"):
            assert LINES.fullmatch(block.kind), f"{block}: what is '{block.kind}'?"


def test_makefile_has_what_make_is_called_with():
    """Targets and variables of every `make` in README.md."""
    calls = re.findall(r"(?:^|`)make ([a-z-]+)((?: [\w.]+=(?:'[^']*'|[^\s`)]*))*)",
                       (ROOT / "README.md").read_text(), re.M)
    makefile = (ROOT / "Makefile").read_text()
    assert len(calls) > 10
    for target, settings in calls:
        assert re.search(rf"^(?:.* )?{target}(?: .*)?:(?!=)", makefile, re.M), target
        for variable in re.findall(r" ([\w.]+)=", settings):
            assert f"$({variable})" in makefile or f"$(if $({variable})" in makefile, variable


@of_kind("attn")
def test_programs(block, tmp_path):
    source = tmp_path / "source.attn"
    program = block.program()
    write(source, program)
    said = set()
    for number, line in enumerate(block.lines, block.line):
        said |= {(number, *match) for match in SAID.findall(line)}
    told = messages(source)
    assert told == said, f"{block}: attc tells {told - said}, and not {said - told}"

    right = without_wrong(program)
    write(source, right)
    graphs = ""
    for name in re.findall(r"^def (\w+)", "\n".join(right), re.M):
        graphs += attc("emit", source, "--stage=graph", "--entry", name, "-w")[0]
        if name != "Declared":  # whose extents may be large
            attc("verify", source, "--entry", name, "-w")
    for number, line in enumerate(block.lines, block.line):
        wanted = [f"dim {dim} = {extent}\n" for dim, extent in EXTENT.findall(line)]
        for names in TRAINED.findall(line):
            wanted += [f"param {name.replace('.', '__')}[" for name in names.split(", ")]
        for text in wanted:
            assert text in graphs, f"{block.page}:{number}: it is not '{text.strip()}'"


def write(source, lines):
    source.write_text("\n".join(lines) + "\n")


def diagnostics(source):
    run = subprocess.run(
        [ATTC, "check", "--diagnostics=json", source], capture_output=True, text=True
    )
    return [json.loads(line) for line in run.stderr.splitlines()]


def messages(source):
    """What attc says of a file: line, severity and text."""
    return {(diag["line"], diag["severity"], diag["message"]) for diag in diagnostics(source)}


# What another run on another machine prints in another way.
MEASURED = re.compile(r"\d+\.\d+(?:e[-+]\d+)?%?|\d+e-\d+|median of \d+|with \d+ threads?| +")
EXACT = ("check", "cost")  # commands of which every character is compared
DEMO_STEPS = "20"  # that a test has time for


def plain(told):
    """The demo's lines without numbers, and without the text that the model writes."""
    told = re.sub(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?%?| +", "#", MEASURED.sub("#", told))
    return re.sub(r"(a#sample:\n\n)(.*?)\n\n(?=what#the#heads)", r"\1\n", told, flags=re.S)


def tuned(told):
    """Of a search the columns and the kinds of its rows, and how it closes: what is found, and so
    which kernels there are, is a matter of time."""
    rows, closing = told.split("\n\n")[:2]
    head, *kernels = (line.split() for line in rows.splitlines())
    kinds = {kind for _, kind, *_ in kernels}
    assert kinds <= {"program", "contract", "stream", "tasks"}
    return head, re.sub(r"[\d.]+", "#", closing.splitlines()[0])


def sessions():
    """(block, command, what it prints) of everything behind `$ `; all before belongs to nothing."""
    for block in BLOCKS:
        if block.kind == "console":
            before, *shown = re.split(r"^\$ ", "\n".join(block.lines), flags=re.M)
            assert shown and not before, f"{block}: what command prints this?"
            for session in shown:
                command, _, printed = session.partition("\n")
                yield pytest.param(block, command, printed.strip(), id=f"{block} {command[:40]}")


def shown_files():
    """`cat FILE` shows the files that other commands are about."""
    for session in sessions():
        block, command, printed = session.values
        if command.startswith("cat "):
            yield command.removeprefix("cat "), printed + "\n"


@pytest.mark.long
@pytest.mark.parametrize("block, command, printed", sessions())
def test_what_commands_print(block, command, printed, tmp_path):
    for name, text in shown_files():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    words = command.split()
    if command == "make demo":
        if SANITIZED:
            pytest.skip("programs of a build with sanitizers")
        words = [sys.executable, ROOT / "examples/demo/demo.py", ATTC, "build/demo", DEMO_STEPS]
    elif words[0] in ("attc", "build/attc"):
        words[0] = ATTC
    if SANITIZED and words[1:2] == ["verify"]:  # the oracle with checks takes a minute for 512
        words = [word.replace("=512", "=64") for word in words]
    search = words[0] == ATTC and words[1] == "tune"
    if search:
        words += ["--effort", "quick", "--db", "found.db"]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    told = run.stdout.strip() if search else (run.stdout + run.stderr).strip()
    if command == "make demo":
        told, printed = plain(told), plain(printed)
    elif search:
        told, printed = tuned(told), tuned(printed)
    elif words[0] == ATTC and words[1] not in EXACT:
        told, printed = MEASURED.sub("#", told), MEASURED.sub("#", printed)
    assert told == printed, f"{block}: {command}"


BEFORE = """dim layers = 2
dim m like n
def F(X[n, d], Z[n, d], W[d, k], S[n, m], E[n, h, k], Y_0[n, d], flag[]: bool):
"""


def test_forms_of_other_languages(tmp_path):
    """The table of what is tried, in backquotes, and what the hint of each has in it."""
    for row in table("10.4").rows:
        tried, hints = (
            [code for code in codes(cell) if not re.fullmatch(r"\w+", code)] for cell in row
        )  # without names that the text mentions
        said = set()
        for form in tried:
            line = form if re.search(r" \+?= |:$", form) else f"Y = {form}"
            body = "X = X + Z" if line.endswith(":") else ""
            texts = []
            for loop, blank in ("", "    "), ("    for j in layers:\n", "        "):
                source = tmp_path / "tried.attn"
                source.write_text(
                    f"{BEFORE}    Y = Z\n{loop}{blank}{line}\n{blank}    {body}\n    return X\n"
                )
                texts += [diag["hint"] or "" for diag in diagnostics(source)]
            fits = {hint for hint in hints if any(hint.removeprefix("Y = ") in t for t in texts)}
            assert fits, f"{row}\n{form}: {texts}"
            said |= fits
        assert said == set(hints), f"{row}\nno hint has {set(hints) - said}"


@of_kind("json")
def test_facts_of_a_machine(block):
    assert json.loads("\n".join(block.lines)) == json.loads((MACHINES / "avx512.json").read_text())


@of_kind("c")
def test_tensors_of_a_library(block, tmp_path):
    """What the calls of C read and write: all that the header of that entry has of these."""
    source = ROOT / "examples/talking_heads.attn"
    attc("build", source, "--grad", "--static", "-o", tmp_path / "f.a")
    header, text = (tmp_path / "f.h").read_text(), "\n".join(block.lines)
    named = r"\b(saved_\w+|d[A-Z]\w*)\b"
    assert set(re.findall(named, text)) == set(re.findall(rf"\*{named};", header))
    assert all(f"{call}(" in header for call in re.findall(r"(\w+)\(", text))
