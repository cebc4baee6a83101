# SPDX-License-Identifier: Apache-2.0
"""What tests ask of machine code: functions, innermost loops, vector registers on the stack."""
import re
import subprocess
from typing import NamedTuple

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:#.*)?$")
JUMP = re.compile(r"^j\w+$")
WIDE = re.compile(r"%[yz]mm\d+|%k[1-7]\b")
VECTOR = re.compile(r"%[xyz]mm\d+")
FUSED = re.compile(r"vfn?madd\w+ps$")
ARITHMETIC = re.compile(r"v((add|sub|mul|div|min|max|cmp\w*|rnd|scalef)p[sd]|cvt\w+|pcmp\w+)$")


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str


def disassemble(path):
    """name -> list of instructions, for every function of an object file."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True,
                          text=True, check=True).stdout
    return parse(text)


def parse(text):
    functions, current = {}, None
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            current = functions.setdefault(match.group(1), [])
        elif current is not None and (match := LINE.match(line)):
            current.append(Instruction(int(match.group(1), 16), match.group(2), match.group(3)))
    return functions


def innermost_loops(code):
    """Instructions from the target of a backward jump to the jump, with no such pair inside."""
    at = {instruction.address: i for i, instruction in enumerate(code)}
    loops = []
    for i, instruction in enumerate(code):
        if not JUMP.match(instruction.name):
            continue
        target = instruction.operands.split()[0]
        begin = at.get(int(target, 16)) if re.fullmatch(r"[0-9a-f]+", target) else None
        if begin is not None and begin <= i:
            loops.append((begin, i))
    return [code[begin:end + 1] for begin, end in loops
            if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops)]


def is_contraction(loop):
    """Four fused multiply-adds of vectors or more, and no other arithmetic, as polynomials have."""
    fused = [i for i in loop if FUSED.match(i.name)]
    return len(fused) >= 4 and not any(ARITHMETIC.match(i.name) for i in loop)


def stack_vectors(loop):
    """Instructions that move a vector register from or to the stack."""
    return [i for i in loop if "(%rsp" in i.operands and VECTOR.search(i.operands)]


def is_above_baseline(instruction):
    """Needs more than x86-64 has: VEX or EVEX encoded, or with wide or mask registers."""
    encoded = instruction.name.startswith("v") and instruction.name not in ("verr", "verw")
    return encoded or bool(WIDE.search(instruction.operands))
