# SPDX-License-Identifier: Apache-2.0
"""House rules that a tool can check (STYLE): includes run one way, sizes, SPDX lines, names.

usage: lint.py [BUILD]      with a build folder also the symbols of its objects
Includes and, from the objects, calls run one way through the list of folders below.
Prints one line per offence, path:line: what, and ends with status 1 if there was any.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# What there is, lowest first. A folder includes and calls what stands above it in this list; those
# of one line know each other. A header in a folder of a level is that level's own business.
FOLDERS = [
    ["compiler/base"],
    ["compiler/ast"],
    ["compiler/ast/read", "grammar"],
    ["compiler/ast/format"],
    ["compiler/ast/resolve", "compiler/ast/resolve/call", "compiler/ast/resolve/meant",
     "compiler/ast/resolve/warn"],
    ["compiler/graph"],
    ["compiler/graph/print"],
    ["compiler/graph/build"],
    ["compiler/graph/oracle"],
    ["compiler/graph/rewrite"],
    ["compiler/graph/fuse"],
    ["compiler/graph/heads"],
    ["compiler/graph/decode"],
    ["compiler/tile"],
    ["compiler/tile/cost"],
    ["compiler/tile/schedule"],
    ["compiler/tile/lower"],
    ["compiler/emit"],
    ["targets/cpu"],
    ["targets"],
    ["compiler/product", "compiler/pipeline"],
    ["compiler/tune"],
    ["compiler/driver"],
    ["compiler/driver/tune"],
    ["compiler"],
]
# Here files call each other: they follow the recursion of expressions, or of a tree of loops.
RECURSIVE = {"compiler/ast/resolve", "compiler/ast/resolve/call", "compiler/ast/resolve/meant",
             "compiler/graph/print", "compiler/graph/build",
             "compiler/graph/oracle", "compiler/tile", "targets/cpu"}
RANK = {folder: rank for rank, line in enumerate(FOLDERS) for folder in line}
FILE_CAP, FUNCTION_CAP, LINE_CAP = 800, 80, 100
# Headers that others than those above their folder include: what a target is, and the runtime's
# interface, which is of no level.
FREE = {
    "target.h": "compiler/emit",
    "pipeline.h": "compiler/pipeline",
    "module.h": "compiler/emit",
    "attc.h": "compiler/base",
}
offences = []


def offend(path, line, what):
    offences.append(f"{path.relative_to(ROOT)}:{line}: {what}")


def folder_of(source):
    """The folder of a path under ROOT. The list of passes stands below the commands that use it."""
    return "compiler/pipeline" if source.stem == "pipeline" else str(source.parent)


def level_of(folder):
    """compiler/graph of compiler/graph/fuse."""
    if folder == "grammar":
        return "compiler/ast"
    return "/".join(folder.split("/")[:2]) if folder.startswith("compiler") else "targets"


def included_folder(name):
    """The folder of a header as it is written in an include, None for what no rule is about."""
    if name in FREE:
        return FREE[name]
    for root in ("compiler", "targets"):
        if (ROOT / root / name).exists():
            return str(Path(root, name).parent)
    return None


def check_runtime_include(path, number, folder, name):
    """The runtime includes itself alone; what is in runtime/train, that and what it stands on."""
    found = (ROOT / "runtime" / name).exists() or (path.parent / name).exists()
    if not found or (folder == "runtime" and "/" in name):
        offend(path, number, f"{folder} includes {name}")


def check_include(path, number, folder, name):
    other = included_folder(name)
    if other is None:
        return
    if other not in RANK or folder not in RANK:
        offend(path, number, f"{folder} or {other} has no place in the list of folders")
    elif RANK[other] > RANK[folder]:
        offend(path, number, f"{folder} includes {name} of the higher {other}")
    elif name not in FREE and other != level_of(other) and level_of(other) != level_of(folder):
        offend(path, number, f"{folder} includes {name}, which is private to {level_of(other)}")


def check_includes(path, lines):
    folder = folder_of(path.relative_to(ROOT))
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "([^"]+)"', line)
        if match and folder.startswith("runtime"):
            check_runtime_include(path, number, folder, match.group(1))
        elif match and folder.startswith(("compiler", "targets", "grammar")):
            check_include(path, number, folder, match.group(1))
        if line.startswith("#include") and "llvm-c/" in line:
            if folder in RANK and RANK[folder] < RANK["compiler/emit"]:
                offend(path, number, f"{folder} includes llvm-c")


def check_sizes(path, lines):
    if len(lines) > FILE_CAP:
        offend(path, len(lines), f"{len(lines)} lines, the cap is {FILE_CAP}")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CAP:
            offend(path, number, f"{len(line)} columns, the cap is {LINE_CAP}")


def check_functions(path, lines):
    """A function begins with the last line that is not indented before its brace, and ends with
    one that is a brace alone."""
    unindented, begin = None, None
    for number, line in enumerate(lines, 1):
        if line == "}" and begin:
            if number - begin + 1 > FUNCTION_CAP:
                what = f"function of {number - begin + 1} lines, the cap is {FUNCTION_CAP}"
                offend(path, begin, what)
            begin = None
        if re.match(r"[A-Za-z_]", line):
            unindented = number
        if line.endswith(") {") and not begin and unindented:
            begin = unindented


def check_words(path, lines):
    relative = str(path.relative_to(ROOT))
    for number, line in enumerate(lines, 1):
        if re.match(r"// -{20,}", line):
            offend(path, number, "the rule of a heading that was too long for its line")
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            offend(path, number, "an unfinished mark")
        if re.match(r"#if 0\b", line):
            offend(path, number, "#if 0")
        in_product = relative.startswith(("compiler/", "runtime/", "targets/"))
        if in_product and relative != "compiler/base/ice.c":
            if re.search(r"(?<![\w.>])(exit|abort|_exit)\(", line) and not line.lstrip().startswith(
                ("//", "*")
            ):
                offend(path, number, "only ice.c may end the process")


PRODUCT = ("compiler", "runtime", "targets")
# What mirrors a registry that a library keeps in the process, or is read by one: guards of
# pthread_once, the version that argp prints.
PROCESS_WIDE = {"compiler/emit/object.c": "registered",
                "compiler/driver/options.c": "argp_program_version"}


def objects(build):
    """Objects of the compiler and the runtime: the source, and name and kind of each symbol."""
    tables = {}
    for place, root in (("obj", ""), ("gen", "grammar")):
        for obj in sorted((build / place).glob("**/*.o")):
            source = Path(root, obj.relative_to(build / place)).with_suffix(".c")
            stale = not (ROOT / source).exists() and root == ""
            if not stale and source.parts[0] in ("compiler", "grammar", "runtime", "targets"):
                tables[str(obj)] = (source, [])
    listed = subprocess.run(["nm", "-A", "-P", *tables], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        obj, name, kind = line.split()[:3]
        tables[obj.rstrip(":")][1].append((name, kind))
    return list(tables.values())


def check_globals(build):
    """No mutable globals: no objects in .data or .bss."""
    files = sorted(str(obj) for place in ("obj", "gen") for obj in (build / place).glob("**/*.o"))
    listed = subprocess.run(["objdump", "-t", *files], capture_output=True, text=True).stdout
    obj = None
    for line in listed.splitlines():
        if ": " in line and "file format" in line:
            obj = Path(line.split(":")[0]).relative_to(build)
        found = re.match(r"[0-9a-f]+ .{6}O (\.data|\.bss|\*COM\*)\S*\s+[0-9a-f]+\s+(.*)", line)
        if not found or ".data.rel.ro" in line or obj.parts[1] not in PRODUCT:
            continue
        source = Path(*obj.parts[1:]).with_suffix(".c")
        if not (ROOT / source).exists():
            continue  # an object of a file that is gone
        name = found.group(2).split()[-1]
        if PROCESS_WIDE.get(str(source)) != name:
            offences.append(f"{source}: mutable global {name}")


def find_calls(tables):
    """By file, for each other file that it uses: a symbol of that."""
    home, calls = {}, {}
    for source, symbols in tables:
        home.update({name: source for name, kind in symbols if kind in "TDRBC"})
    for source, symbols in tables:
        used = [name for name, kind in symbols if kind == "U" and name in home]
        calls[source] = {home[name]: name for name in used if home[name] != source}
    return calls


def check_calls(calls):
    """Calls run the same way as includes, also those that a header of a lower folder declares."""
    for source, others in calls.items():
        for other, name in others.items():
            if RANK.get(folder_of(other), 0) > RANK.get(folder_of(source), len(FOLDERS)):
                offences.append(f"{source}: uses {name} of {other}")


def check_circles(calls):
    """The files of a folder call each other one way: what nobody left calls is taken away."""
    for folder in sorted({folder_of(source) for source in calls} - RECURSIVE):
        left = {source for source in calls if folder_of(source) == folder}
        while True:
            called = {other for source in left for other in calls[source] if other in left}
            calling = {source for source in left if any(other in left for other in calls[source])}
            if left == called & calling:
                break
            left = called & calling
        for source in sorted(left):
            names = ", ".join(sorted(calls[source][other] for other in left & set(calls[source])))
            offences.append(f"{source}: uses {names} in a circle of files")


def check_objects(build):
    check_globals(build)
    calls = find_calls(objects(build))
    check_calls(calls)
    check_circles(calls)


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
        check_objects(Path(sys.argv[1]).absolute())
    print("\n".join(offences) if offences else f"lint: {len(listed)} files fine")
    return bool(offences)


if __name__ == "__main__":
    sys.exit(main())
