# SPDX-License-Identifier: Apache-2.0
"""House rules that a tool can check (STYLE): includes run one way, sizes, SPDX lines, names.

usage: lint.py [BUILD]      with a build folder also the symbols of its objects
Prints one line per offence, path:line: what, and ends with status 1 if there was any.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LEVELS = ["base", "ast", "graph", "tile", "emit", "targets", "product", "driver"]
FILE_CAP, FUNCTION_CAP, LINE_CAP = 800, 80, 100
# Headers that belong to no level: what a target is, the runtime's interface.
FREE = {"target.h": "emit", "module.h": "emit", "attc.h": "emit"}
offences = []


def offend(path, line, what):
    offences.append(f"{path.relative_to(ROOT)}:{line}: {what}")


def level_of(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "compiler":
        return parts[1] if parts[1] in LEVELS else "driver"
    return {"grammar": "ast", "targets": "targets"}.get(parts[0])


def included_level(name):
    head = name.split("/")[0]
    if head == "cpu" or head == "nvptx":
        return "targets"
    return FREE.get(name) or (head if head in LEVELS else None)


def check_includes(path, lines):
    level = level_of(path)
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "([^"]+)"', line)
        if not match:
            continue
        name = match.group(1)
        if path.parts[len(ROOT.parts)] == "runtime":
            if "/" in name or not (ROOT / "runtime" / name).exists():
                offend(path, number, f"the runtime includes {name}")
            continue
        other = included_level(name)
        if level and other and LEVELS.index(other) > LEVELS.index(level):
            offend(path, number, f"level {level} includes {name} of the higher level {other}")
    if level in LEVELS[:4]:
        for number, line in enumerate(lines, 1):
            if "llvm-c/" in line and line.startswith("#include"):
                offend(path, number, f"level {level} includes llvm-c")


def check_sizes(path, lines):
    if len(lines) > FILE_CAP:
        offend(path, len(lines), f"{len(lines)} lines, the cap is {FILE_CAP}")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CAP:
            offend(path, number, f"{len(line)} columns, the cap is {LINE_CAP}")


def check_functions(path, lines):
    begin = None
    for number, line in enumerate(lines, 1):
        if re.match(r"^[A-Za-z_].*\)\s*\{$", line) and not line.startswith(("enum", "struct")):
            begin = number
        elif line == "}" and begin:
            if number - begin + 1 > FUNCTION_CAP:
                offend(
                    path,
                    begin,
                    f"function of {number - begin + 1} lines, the cap is {FUNCTION_CAP}",
                )
            begin = None


def check_words(path, lines):
    relative = str(path.relative_to(ROOT))
    for number, line in enumerate(lines, 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            offend(path, number, "an unfinished mark")
        if re.match(r"#if 0\b", line):
            offend(path, number, "#if 0")
        in_product = relative.startswith(("compiler/", "runtime/", "targets/"))
        if in_product and relative != "compiler/main.c":
            if re.search(r"(?<![\w.>])(exit|abort|_exit)\(", line) and not line.lstrip().startswith(
                ("//", "*")
            ):
                offend(path, number, "only main.c may end the process")


# What mirrors a registry that a library keeps in the process: guards of pthread_once.
PROCESS_WIDE = {"compiler/emit/object.c": "registered"}


def check_globals(build):
    """No mutable globals: nothing in .bss of the compiler's and the runtime's objects."""
    for obj in sorted((build / "obj").glob("**/*.o")):
        source = obj.relative_to(build / "obj").with_suffix(".c")
        if source.parts[0] not in ("compiler", "runtime", "targets"):
            continue
        table = subprocess.run(["nm", obj], capture_output=True, text=True).stdout
        for name in re.findall(r"^[0-9a-f]+ [bBC] (\S+)", table, re.M):
            if PROCESS_WIDE.get(str(source)) != name:
                offences.append(f"{source}: mutable global {name}")


def main():
    listed = subprocess.run(
        ["git", "ls-files", "*.c", "*.h", "*.y", "*.l", "*.py", "*.def"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split()
    for name in listed:
        path = ROOT / name
        if not path.exists():
            continue
        lines = path.read_text().splitlines()
        if path.suffix in (".c", ".h"):
            check_includes(path, lines)
            check_functions(path, lines)
            if not lines or not lines[0].startswith("// SPDX-License-Identifier: Apache-2.0"):
                offend(path, 1, "no SPDX line")
        check_sizes(path, lines)
        if "lint.py" not in name:
            check_words(path, lines)
    if len(sys.argv) > 1:
        check_globals(Path(sys.argv[1]))
    print("\n".join(offences) if offences else f"lint: {len(listed)} files fine")
    return bool(offences)


if __name__ == "__main__":
    sys.exit(main())
