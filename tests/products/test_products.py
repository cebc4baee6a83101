# SPDX-License-Identifier: Apache-2.0
"""What `attc build` makes of the examples, used as its users would: with cc, alone, by tools."""
import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from disassembly import (disassemble, innermost_loops, is_above_baseline, is_contraction,
                         stack_vectors)

ATTC = os.environ.get("ATTC", "build/attc")
ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
# Contractions of all kinds: projections, several head dims, mixing of heads, grouped keys, gathers.
VARIED = ["multi_head", "talking_heads", "general_bilinear", "grouped_key_value", "dot_product",
          "relative_bias"]


def run(*command, cwd=None, status=0, **environment):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True,
                          errors="replace", env=dict(os.environ, **environment))
    assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(example, kind, output, *options, **environment):
    run(ATTC, "build", EXAMPLES / f"{example}.attn", f"--{kind}", "-o", output, *options,
        **environment)
    return output


def entry_of(header):
    return re.search(r"^#ifndef ATTC_ENTRY_(\w+)_H$", header.read_text(), re.M).group(1)


# ---- libraries -------------------------------------------------------------------------------

WARNINGS = ["-Wall", "-Wextra", "-Werror"]


@pytest.mark.parametrize("level", ["v3", "v4"])
@pytest.mark.parametrize("kind", ["static", "shared"])
def test_the_c_example_agrees_with_its_own_loops(tmp_path, kind, level):
    library = tmp_path / f"libtalking_heads.{'so' if kind == 'shared' else 'a'}"
    build("talking_heads", kind, library)
    run("cc", "-O2", *WARNINGS, f"-I{tmp_path}", EXAMPLES / "c" / "talking_heads.c", library, "-lm",
        "-lpthread", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "heads")
    assert run(tmp_path / "heads", ATTC_LEVEL=level).count("relative error") == 3


@pytest.mark.parametrize("plan", ["two-pass", "spill", "unfused"])
def test_a_library_has_the_plan(tmp_path, plan):
    def library(name, *options):
        output = tmp_path / f"{name}.so"
        build("talking_heads", "shared", output, "-D", "n=64,m=64", *options)
        return output.read_bytes()

    default = library("library", "--plan", "resident")
    assert library("library", "--plan", "resident") == default
    assert library("library", "--plan", plan) != default
    library("library", "--plan", plan, "--threads", "1")


def test_headers_of_all_examples_go_together(tmp_path):
    sources = sorted(EXAMPLES.glob("*.attn"))[::4]
    lines = []
    for source in sources:
        build(source.stem, "object", tmp_path / f"{source.stem}.o")
        lines.append(f'#include "{source.stem}.h"')
    text = "\n".join(lines + lines) + "\n"
    for name, compiler, standard in (("a.c", "cc", "-std=c99"), ("a.cc", "c++", "-std=c++11")):
        (tmp_path / name).write_text(text)
        run(compiler, standard, *WARNINGS, "-Wpedantic", "-c", name, "-o", "a.out", cwd=tmp_path)


# Words of C23 and C++23 that the language has no use for, types and fields of the header, and what
# a user of it may have defined or included.
WORDS = """
alignas alignof and_eq asm auto bitand bitor break case catch char char16_t char32_t char8_t class
co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
decltype default delete do double dynamic_cast else enum explicit export extern false float friend
goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private protected
public register reinterpret_cast requires restrict short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename typeof
typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t size_t ptrdiff_t intptr_t
uintptr_t intmax_t uintmax_t int_fast32_t uint_least8_t max_align_t nullptr_t
struct_size workspace workspace_bytes ctx args F F_args F_workspace F_manifest F_dim_n
AttContext AttStatus AttElem AttTensorData AttTaskFn ATT_OK ATT_F32 att_message EOF I errno NAN
INFINITY HUGE_VAL stdin complex
""".split()


def words_of_the_header(path):
    """WORDS, and the macros without a `_` in front that the header and what it includes define."""
    words = dict.fromkeys(WORDS)
    for compiler in (["cc", "-x", "c"], ["c++", "-x", "c++"]):
        for line in run(*compiler, "-dM", "-E", path).splitlines():
            words[re.match(r"#define (\w+)", line).group(1)] = None
    return [word for word in words if word[0] != "_"] + ["__cplusplus", "_Bool", "_Alignas"]


def test_any_name_is_safe_in_a_header(tmp_path):
    """Dims that are parameters and fields, and tensors, with every name that C may know."""
    source, header = tmp_path / "f.attn", tmp_path / "f.h"
    object_file = [ATTC, "build", source, "--object", "-o", tmp_path / "f.o"]
    source.write_text("def F(X[n]):\n    return X + 1\n")
    run(*object_file)
    words = words_of_the_header(header)
    assert len(words) > 200
    for group in (words[i::4] for i in range(4)):
        tensors = ["X[n]: f32"] + [f"{word}[]: i64" for word in group]
        tensors += [f"Y{i}[{', '.join(group[i:i + 12])}]" for i in range(0, len(group), 12)]
        source.write_text(f"def F({', '.join(tensors)}):\n    return X + 1\n")
        run(*object_file)
        lines = "#include <errno.h>\n#include <math.h>\n#include <stdio.h>\n#include <complex.h>\n"
        for name, compiler, standard in (
                ("a.c", "cc", "-std=gnu99"), ("a.c", "cc", "-std=gnu2x"),
                ("a.cc", "c++", "-std=gnu++11"), ("a.cc", "c++", "-std=gnu++20")):
            (tmp_path / name).write_text(f'{lines}#include "f.h"\n')
            run(compiler, standard, *WARNINGS, "-c", name, "-o", "a.out", cwd=tmp_path)


def test_a_library_shows_its_entry_and_the_runtime_only(tmp_path):
    library = build("multi_head", "shared", tmp_path / "libmulti_head.so")
    entry = entry_of(tmp_path / "libmulti_head.h")
    shown = [line.split()[2] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    assert sorted(name for name in shown if not name.startswith("att_")) == \
        sorted([entry, f"{entry}_manifest", f"{entry}_workspace"])


def test_cores_make_no_difference(tmp_path):
    """Levels and kernels are compiled side by side: the library is the same as from one core."""
    def alone():
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

    made = []
    for name, before in (("all", None), ("one", alone)):
        library = tmp_path / f"{name}.o"
        subprocess.run([ATTC, "build", EXAMPLES / "encoder_block.attn", "--object", "--no-cache",
                        "-o", library], check=True, preexec_fn=before)
        made.append(library.read_bytes())
    assert made[0] == made[1]


# ---- programs --------------------------------------------------------------------------------

@pytest.mark.parametrize("example", VARIED)
def test_a_program_computes_what_run_does(tmp_path, example):
    program = build(example, "exe", tmp_path / "program")
    manifest = json.loads(run(program, "--manifest"))
    sizes = {dim["name"]: 7 if dim["like"] == "m" else 5 for dim in manifest["dims"]
             if dim["extent"] is None}
    outputs = [t["name"] for t in manifest["tensors"] if t["role"] == "output"]
    alone = [program, *(f"-D{dim}={size}" for dim, size in sizes.items())]
    within = [ATTC, "run", EXAMPLES / f"{example}.attn",
              "--dynamic", ",".join(f"{dim}=512" for dim in sizes),
              "-D", ",".join(f"{dim}={size}" for dim, size in sizes.items())]
    made = []
    for number, command in enumerate((alone, within)):
        paths = {name: tmp_path / f"{name}{number}.npy" for name in outputs}
        run(*command, "--seed", 3, *(f"-o{name}={path}" for name, path in paths.items()))
        made.append([path.read_bytes() for path in paths.values()])
    assert made[0] == made[1]


def test_the_manifest_describes_the_entry(tmp_path):
    program = build("multi_head", "exe", tmp_path / "program", "-D", "h=4,d_k=8,d_v=16")
    found = json.loads(run(program, "--manifest"))
    assert found["entry"] == "MultiHeadAttention"
    assert found["source"].endswith("multi_head.attn")
    assert {d["name"]: d["extent"] for d in found["dims"]} == {
        "n": None, "m": None, "d_X": 768, "d_M": 768, "d_Y": 768, "h": 4, "d_k": 8, "d_v": 16}
    tensors = {t["name"]: t for t in found["tensors"]}
    assert list(tensors) == ["X", "M", "P_q", "P_k", "P_v", "P_o", "Y"]
    assert tensors["P_q"] == {"name": "P_q", "role": "input", "elem": "f32",
                              "dims": ["d_X", "d_k", "h"], "is_param": True}
    assert [level["name"] for level in found["levels"]] == ["x86-64-v3", "x86-64-v4"]
    assert {k["symbol"][-3:] for k in found["kernels"]} == {"_v3", "_v4"}


UNROLLED = """dim layers = 3, steps = 2, d = 8, f = 12

def Block(X[n, d], A[d, f], B[f, d]):
    H[n, f] = relu(einsum(X[n, d], A[d, f]))
    return X + einsum(H[n, f], B[f, d] -> [n, d])

def Net(X[n, d], A[d, f], B[f, d]):
    for i in layers:
        for j in steps:
            X = Block(X, A, B)
            S[n, n'] = softmax(einsum(X[n, d], X[n', d] -> [n, n']), reduced_dim=n')
            X = einsum(S[n, n'], X[n', d] -> [n, d])
    return X
"""


def test_kernels_of_unrolled_loops_have_names_of_their_own(tmp_path):
    """What is computed is called X twice in every round, and H once."""
    source = tmp_path / "net.attn"
    source.write_text(UNROLLED)
    options = ["-D", "n=40", "--plan", "unfused"]
    cost = json.loads(run(ATTC, "cost", source, *options, "--json"))
    names = [kernel["name"] for kernel in cost["kernels"]]
    assert {"i.0.j.0.X", "i.0.j.0.X_1", "i.2.j.1.Block.H"} < {*names}
    assert len({*names}) == len(names) == 6 * 5
    tile = run(ATTC, "emit", source, *options, "--stage=tile")
    kernels = re.findall(r"^kernel (\S+)$", tile, re.M)
    assert {"X", "X_1", "H"} < {*kernels} and len({*kernels}) == len(kernels) == 5
    assert set(re.findall(r"^launch (\S+)\(", tile, re.M)) == {*kernels}
    run(ATTC, "build", source, "--exe", "-o", tmp_path / "net")
    built = json.loads(run(tmp_path / "net", "--manifest"))["kernels"]
    assert {"X", "X_1", "H"} < {kernel["name"] for kernel in built}
    for parts in (("name", "level"), ("symbol",)):
        assert len({tuple(kernel[part] for part in parts) for kernel in built}) == len(built)


# n' is n_prime in C, unless something else is: a tensor here, and a dim of the source.
PRIMED = """dim k = 3
def Scores(X[n, d], P[k, k'], n_prime[n, n'], u[q''], d_prime[d_prime]):
    S[n, n'] = einsum(X[n, d], X[n', d]) + n_prime * sum(P, reduced_dim=(k, k'))
    return S[n', n], sum(u, reduced_dim=q'') + sum(d_prime, reduced_dim=d_prime)
"""
USE = """#include "scores.h"
int main(void) {
    float X[6] = {1, 2, 3, 4, 5, 6}, P[9] = {1}, B[9] = {0}, u[2] = {7, 8}, w[4] = {1, 1, 1, 1};
    float S[9], sum;
    Scores_args args = {.struct_size = sizeof args, .n = 3, .n_prime_ = 3, .d = 2, .q_prime2 = 2,
                        .d_prime = 4, .X = X, .P = P, .n_prime = B, .u = u, .d_prime_ = w,
                        .S = S, .result_1 = &sum};
    AttContext *ctx = att_context_new(1);
    if (Scores(ctx, &args) || S[1] != 11 || S[8] != 61 || sum != 19) return 1;
    args.n_prime_ = 4;
    if (!Scores(ctx, &args)) return 2;
    return Scores_dim_k_prime == 3 ? 0 : 3;
}
"""


# Callers tell p and n; what follows from them is computed.
COMPUTED = """dim t = p + n, q = n / 2
def Remember(X[n, d], M[p, d], A[t]):
    C[t, d] = concat(M, X, dim=t) * A[t]
    return C, slice(C, t, n, t -> [p, d]), index(q) * 1.0
"""
USE_COMPUTED = """#include "remember.h"
#include <string.h>
int main(void) {
    float X[8] = {1, 2, 3, 4, 5, 6, 7, 8}, M[2] = {9, 10}, A[5] = {1, 1, 1, 1, 2};
    float C[10], N[2], I[2];
    Remember_args args = {.struct_size = sizeof args, .n = 4, .d = 2, .p = 1, .X = X, .M = M,
                          .A = A, .C = C, .result_1 = N, .result_2 = I};
    AttContext *ctx = att_context_new(1);
    if (Remember(ctx, &args) || C[0] != 9 || C[8] != 14 || N[1] != 16 || I[1] != 1) return 1;
    if (Remember_workspace(4, 2, 1) < 0 || Remember_workspace(3, 2, 1) != -1) return 2;
    args.n = 3;
    if (Remember(ctx, &args) != ATT_ARGUMENT) return 3;
    return strcmp(att_message(ctx), "q = n / 2: 3 is not divisible by 2") ? 4 : 0;
}
"""


def test_computed_extents_are_not_told(tmp_path):
    (tmp_path / "remember.attn").write_text(COMPUTED)
    (tmp_path / "use.c").write_text(USE_COMPUTED)
    library = tmp_path / "remember.a"
    run(ATTC, "build", tmp_path / "remember.attn", "--static", "-o", library)
    run("cc", "-std=c99", *WARNINGS, "use.c", library, "-lm", "-lpthread", "-o", "use",
        cwd=tmp_path)
    run(tmp_path / "use")
    run(ATTC, "build", tmp_path / "remember.attn", "--exe", "-o", tmp_path / "program")
    dims = json.loads(run(tmp_path / "program", "--manifest"))["dims"]
    assert {d["name"]: d.get("computed") for d in dims} == {
        "n": None, "d": None, "p": None, "t": "p + n", "q": "n / 2"}


def test_primed_dims_have_names_in_c(tmp_path):
    (tmp_path / "scores.attn").write_text(PRIMED)
    (tmp_path / "use.c").write_text(USE)
    library = tmp_path / "scores.a"
    run(ATTC, "build", tmp_path / "scores.attn", "--static", "-o", library)
    run("cc", *WARNINGS, "use.c", library, "-lm", "-lpthread", "-o", "use", cwd=tmp_path)
    run(tmp_path / "use")
    program = tmp_path / "program"
    run(ATTC, "build", tmp_path / "scores.attn", "--exe", "-o", program)
    found = json.loads(run(program, "--manifest"))
    like = {dim["name"]: dim["like"] for dim in found["dims"]}
    wanted = {"n": "n", "d": "d", "k": "k", "k_prime": "k", "n_prime_": "n",
                    "q_prime2": "q_prime2", "d_prime": "d_prime"}
    assert wanted.items() <= like.items()  # beside what sums are cut into
    tensors = {tensor["name"]: tensor["dims"] for tensor in found["tensors"]}
    assert tensors["n_prime"] == ["n", "n_prime_"] and tensors["S"] == ["n_prime_", "n"]
    run(program, *"-D n=3 -D d=2 -D q_prime2=2 -D d_prime=4 --seed 1 -o".split(), "S=S.npy",
        cwd=tmp_path)


# ---- machine code ----------------------------------------------------------------------------

@pytest.mark.parametrize("example", VARIED)
def test_only_kernels_are_above_the_baseline(tmp_path, example):
    # A member of the archive per kernel; the others are the descriptor and the runtime.
    run("ar", "x", build(example, "static", tmp_path / "x.a"), cwd=tmp_path)
    kernels = set(tmp_path.glob("attc_*.o"))
    others = set(tmp_path.glob("*.o")) - kernels
    assert kernels and others >= {next(tmp_path.glob("entry_*.o"))}
    for path in others:
        for name, code in disassemble(path).items():
            assert not [i for i in code if is_above_baseline(i)], f"{path.name}: {name}"
    # The lower level has no register or mask of the higher one.
    level = build(example, "object", tmp_path / "v3.o", "--target", "x86-64-v3")
    for name, code in disassemble(level).items():
        assert not [i for i in code if "%zmm" in i.operands or "%k1" in i.operands], name


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("example", VARIED)
def test_contraction_loops_keep_their_vectors_in_registers(tmp_path, example, target):
    functions = disassemble(build(example, "object", tmp_path / "x.o", "--target", target))
    loops = [(name, loop) for name, code in functions.items() for loop in innermost_loops(code)
             if is_contraction(loop)]
    assert loops
    for name, loop in loops:
        assert not stack_vectors(loop), f"{name} at {loop[0].address:x}"


# ---- cache -----------------------------------------------------------------------------------

def test_products_are_the_same_from_a_cold_a_warm_and_a_damaged_cache(tmp_path):
    cache = tmp_path / "cache"

    def once():
        return build("talking_heads", "object", tmp_path / "x.o",
                     ATTC_CACHE=str(cache)).read_bytes()

    made = [once()]
    entries = sorted(cache.iterdir())
    assert entries
    made.append(once())
    for number, path in enumerate(entries):
        whole = path.read_bytes()
        damaged = [b"", whole[:-1], whole[:64] + b"\xcc" + whole[65:], whole * 2]
        path.write_bytes(damaged[number % 4])
    made.append(once())
    assert made[0] == made[1] == made[2]
    assert sorted(cache.iterdir()) == entries  # repaired, and nothing else left there


def test_many_compilers_share_a_cache(tmp_path):
    cache = tmp_path / "cache"

    def once(number):
        return build("multi_head", "object", tmp_path / f"{number}.o",
                     ATTC_CACHE=str(cache)).read_bytes()

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(once, range(16)))
    assert len(made) == 1
    assert all(path.suffix == ".o" for path in cache.iterdir())


def test_without_a_writable_cache_all_works(tmp_path):
    (tmp_path / "file").write_text("")
    blocked = str(tmp_path / "file" / "cache")
    assert build("dot_product", "object", tmp_path / "x.o", ATTC_CACHE=blocked).exists()


# ---- outputs of every sort -------------------------------------------------------------------

def test_a_pipe_is_written_in_place(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        build("dot_product", "shared", pipe)
        assert read.result().startswith(b"\x7fELF")
    assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_reader_that_leaves_early_leaves_no_folder(tmp_path):
    command = [ATTC, "build", EXAMPLES / "dot_product.attn", "-o", "-"]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE,
                              env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert writer.stdout.read(4) == b"\x7fELF"  # more than a pipe takes is left
    writer.stdout.close()
    assert writer.wait() == -signal.SIGPIPE
    assert not list(tmp_path.iterdir())


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "old.so").write_text("")
    (tmp_path / "lib.so").symlink_to("old.so")
    build("dot_product", "shared", tmp_path / "lib.so")
    assert (tmp_path / "lib.so").is_symlink()
    assert (tmp_path / "old.so").read_bytes().startswith(b"\x7fELF")


def test_the_header_does_not_replace_the_library(tmp_path):
    output = build("dot_product", "object", tmp_path / "layer.h")
    assert output.read_bytes().startswith(b"\x7fELF")
    assert "#ifndef" in (tmp_path / "layer.h.h").read_text()
