# SPDX-License-Identifier: Apache-2.0
"""The checks of machine code find what they look for."""
from disassembly import (innermost_loops, is_above_baseline, is_contraction, parse, stack_vectors)

CODE = """
0000000000000000 <f>:
   0:\tmov    $0x3,%eax
   5:\tvmovaps 0x40(%rsp),%zmm1
   d:\tvbroadcastss (%rdi),%zmm0
  13:\tvfmadd231ps (%rsi),%zmm0,%zmm2
  19:\tvfmadd231ps 0x40(%rsi),%zmm0,%zmm3
  20:\tvfmadd231ps 0x80(%rsi),%zmm0,%zmm4
  27:\tvfmadd231ps 0xc0(%rsi),%zmm0,%zmm5
  2e:\tSPILL
  34:\tdec    %rax
  37:\tjne    d <f+0xd>
  39:\tdec    %rcx
  3c:\tjne    5 <f+0x5>
  3e:\tret

0000000000000040 <g>:
  40:\tmovups %xmm0,(%rdi)   # a comment
  43:\tret
"""


def only_loop(text):
    loops = innermost_loops(parse(text)["f"])
    assert len(loops) == 1
    return loops[0]


def test_innermost_loop_is_found():
    loop = only_loop(CODE.replace("SPILL", "add    $0x40,%rsi"))
    assert [loop[0].address, loop[-1].address] == [0xD, 0x37]
    assert is_contraction(loop)
    assert stack_vectors(loop) == []


def test_a_polynomial_is_no_contraction():
    assert not is_contraction(only_loop(CODE.replace("SPILL", "vmulps %zmm1,%zmm2,%zmm2")))


def test_a_spilled_vector_is_found():
    for spill in ("vmovups %zmm2,0x80(%rsp)", "vfmadd231ps 0x40(%rsp),%zmm0,%zmm6",
                  "vaddps (%rsp,%rax,4),%ymm1,%ymm2"):
        assert len(stack_vectors(only_loop(CODE.replace("SPILL", spill)))) == 1
    assert stack_vectors(only_loop(CODE.replace("SPILL", "mov    0x8(%rsp),%rbx"))) == []


def test_code_above_the_baseline_is_found():
    functions = parse(CODE)
    assert any(is_above_baseline(i) for i in functions["f"])
    assert not any(is_above_baseline(i) for i in functions["g"])
    for text in ("kmovw  %k1,%eax", "vmovss (%rax),%xmm0", "vpxor  %xmm0,%xmm0,%xmm0"):
        lines = parse(f"0 <h>:\n  0:\t{text}\n")["h"]
        assert is_above_baseline(lines[0])
