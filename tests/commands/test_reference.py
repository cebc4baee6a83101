# SPDX-License-Identifier: Apache-2.0
"""The tables and lists of grammar/language.md: every row is compiled and run, and the names are
those of the compiler's own lists, all of them.

test_documents.py has the blocks of code and the forms of other languages, numeric/test_gradients.py
the gradients of 12.2.
"""

import itertools
import json
import re
import subprocess

import numpy as np
import pytest

import words
from attc import ATTC, EXAMPLES, ROOT, SANITIZED, attc
from pages import REFERENCE, codes, head_of, numbers, sentences, table

# Names in rows that are no f32, and the extents of the dims.
ELEMENTS = {"ids": "i32", "seed": "i64", "stream": "i64", "i": "i64", "c": "bool"}
EXTENTS = {"n": 4, "n'": 4, "m": 7, "d": 6, "h": 2, "k": 3, "v": 5, "t": 3, "a": 2, "b": 4,
           "by": 1, "from": 2, "to": 5}
DIMS = ",".join(f"{dim}={extent}" for dim, extent in EXTENTS.items() if dim != "n'")


def rows(*sections):
    """A test for each form in the first cells: its place in its cell, itself, its row by heads."""
    for section in sections:
        found = table(section)
        for row in found.rows:
            for place, form in enumerate(codes(row[0])):
                by_head = dict(zip([head.strip("`") for head in found.head], row))
                yield pytest.param(place, form, by_head, id=f"{section} {form}")


def names_of(section):
    """The words that the first cells begin with, one for each form."""
    forms = [form for row in table(section).rows for form in codes(row[0])]
    return [re.match(r"[\w-]+", form)[0] for form in forms]


def diagnostics(source, *options):
    run = subprocess.run(
        [ATTC, "check", "--diagnostics=json", "-", *options],
        input=source, capture_output=True, text=True,
    )
    return [json.loads(line) for line in run.stderr.splitlines()]


def is_right(source):
    return not any(diag["severity"] == "error" for diag in diagnostics(source))


def results_of(source, count, folder, *options):
    """What the first results are, as NumPy arrays."""
    path = folder / "row.attn"
    path.write_text(source)
    names = re.findall(r"R_\d+", source.split("return ")[1])[:count]
    out = [option for name in names for option in ("-o", f"{name}={folder / name}.npy")]
    attc("run", path, "-w", *options, *out)
    return [np.load(folder / f"{name}.npy") for name in names]


def given(values, element, folder):
    np.save(folder / "x.npy", np.array(values, element))
    return f"x={folder / 'x.npy'}"


# ---- 1 to 4: words and operators -----------------------------------------------------------------
def test_keywords():
    always, sometimes = re.search(
        r"`([a-z ]+)` are keywords; `([a-z ]+)` are keywords only", sentences("1.4")
    ).groups()
    assert sorted(f"{always} {sometimes}".split()) == sorted(words.keywords())
    for word in words.keywords():
        source = f"def F(X[n]):\n    {word} = X + 1\n    return {word}\n"
        assert is_right(source) == (word in sometimes.split()), word


def test_names_of_functions_are_not_those_of_defs():
    for name in [*words.functions(), *words.elements()]:
        assert not is_right(f"def {name}(X[n]):\n    return X\n"), name
    for name in words.prelude():
        assert is_right(f"def {name}(X[n]):\n    return X\n"), name


def test_what_extents_are_made_of():
    listed = re.search(r"other dims with (.*?), in any order", sentences("2.2"))[1]
    operators, *functions = codes(listed)
    for sign in sum(LEVELS, []):
        if sign != "not":
            made = is_right(f"dim n = 8, m = 2, k = 1 + (n {sign} m)\ndef F(X[k]):\n    return X\n")
            assert made == (sign in operators.split()), sign
    for name in words.functions():
        made = is_right(f"dim n = 8, m = 2, k = {name}(n, m)\ndef F(X[k]):\n    return X\n")
        assert made == (name in functions), name


def levels():
    """The operators of 4.2, the weakest first; the sign is `-x`."""
    listed = re.search(r"from the weakest: (.*?)\. They work", sentences("4.2"))[1]
    found = [sum((code.split() for code in codes(part)), []) for part in listed.split("; ")]
    sign = next(i for i, part in enumerate(listed.split("; ")) if "the sign" in part)
    found[sign] = [f"{operator}x" for operator in found[sign]]
    return found


LEVELS = levels()


def test_every_operator_is_listed():
    listed = [operator for level in LEVELS for operator in level if not operator.endswith("x")]
    known = words.operators()
    assert sorted(listed) == sorted(known)


def printed(expression):
    source = f"def F(x, y, z):\n    return {expression}\n"
    return attc("emit", "--stage=ast", "-w", "-", stdin=source)[0]


@pytest.mark.parametrize("weak, strong", itertools.combinations_with_replacement(LEVELS, 2))
def test_precedence(weak, strong):
    for a, b in itertools.product(weak, strong):
        if a in ("not", "-x"):
            sign = "not " if a == "not" else "-"
            if b not in ("not", "-x"):
                assert printed(f"{sign}x {b} y") == printed(f"{sign}(x {b} y)")
        elif b in ("not", "-x"):
            sign = "not " if b == "not" else "-"
            assert printed(f"{sign}x {a} y") == printed(f"({sign}x) {a} y")
        elif weak is not strong:
            assert printed(f"x {a} y {b} z") == printed(f"x {a} (y {b} z)")
            assert printed(f"x {b} y {a} z") == printed(f"(x {b} y) {a} z")
        elif "==" in weak:
            assert not is_right(f"def F(x, y, z):\n    return x[] {a} y[] {b} z[]\n")
        elif "**" in weak:
            assert printed(f"x {a} y {b} z") == printed(f"x {a} (y {b} z)")
        else:
            assert printed(f"x {a} y {b} z") == printed(f"(x {a} y) {b} z")


def test_element_types():
    listed = re.search(r"There are (.*?) Where types meet", sentences("3.4"))[1]
    assert sorted(codes(re.sub(r"\(.*?\)", "", listed))) == sorted(words.elements())


# ---- 5: built-in functions -----------------------------------------------------------------------
def test_every_function_is_in_a_table():
    listed = [name for section in ("5.1", "5.2", "5.3", "5.4") for name in names_of(section)]
    elsewhere = re.findall(r"`(\w+)` is (4\.\d)", head_of(5))
    for name, section in elsewhere:
        assert sentences(section).startswith(f"**{section} {name}.**")
    assert {*listed, *dict(elsewhere)} == {*words.functions(), *words.elements()}


def parameters_of(form):
    """Of the call in a row: what has brackets, or else stands alone among the arguments."""
    with_dims = re.findall(r"(\w+)\[([^\]]*)\]", form.split("->")[0])
    arguments = re.sub(r"\w+=[^,)]*", "", re.search(r"\((.*)\)", form)[1])
    alone = [] if with_dims else [(name, "n") for name in re.findall(r"\b[a-z]\w*", arguments)]
    return [
        f"{name}[{dims}]" + (f": {ELEMENTS[name]}" if name in ELEMENTS else "")
        for name, dims in with_dims or alone
    ]


@pytest.mark.parametrize("place, form, row", rows("5.1", "5.2", "5.3"))
def test_function(place, form, row, tmp_path):
    """The form compiles to what the oracle gives, and what it is said to be is the same."""
    parameters = parameters_of(form)
    same = codes(row.get("is", ""))
    source = f"def F({', '.join(parameters)}):\n    R_1 = {form}\n"
    if same:
        source += f"    R_2 = {same[place]}\n    return R_1, R_2\n"
        left, right = results_of(source, 2, tmp_path, "-D", "n=100")
        np.testing.assert_allclose(left, right, rtol=4e-6, atol=1e-6)
    else:
        source += "    return R_1\n"
    attc("verify", "-", "-w", "-D", "n=100", stdin=source)


@pytest.mark.parametrize("place, form, row", rows("5.1", "5.2", "5.3"))
def test_type_of_whole_numbers(place, form, row, tmp_path):
    if not row["i32"]:
        return
    parameters = [p if ":" in p else f"{p}: i32" for p in parameters_of(form)]
    source = f"def F({', '.join(parameters)}):\n    R_1 = {form}\n    return R_1\n"
    names = {"f32": "float32", "i32": "int32", "bool": "bool"}
    result = results_of(source, 1, tmp_path, "-D", "n=100")[0]
    assert result.dtype == names[codes(row["i32"])[0]]


@pytest.mark.parametrize("way", [[], ["--oracle"]], ids=["compiled", "oracle"])
@pytest.mark.parametrize("place, form, row", rows("5.2", "5.3"))
def test_value(place, form, row, way, tmp_path):
    source = f"def F(x[n]):\n    R_1 = {form}\n    return R_1\n"
    tried = 0
    for head, cell in row.items():
        x = numbers(head)
        if x is None:
            continue
        tried += 1
        file = given(x, "f4", tmp_path)
        if cell == "error":
            attc("run", "-", file, "-w", *way, stdin=source, status=1)
            continue
        result = results_of(source, 1, tmp_path, file, *way)[0]
        np.testing.assert_allclose(result, numbers(cell), rtol=4e-6)
    assert tried


@pytest.mark.parametrize("place, form, row", rows("5.4"))
def test_positions(place, form, row, tmp_path):
    """What a row gives is over the dims that it says, and of that type."""
    over = codes(row["is over"])
    several = form.startswith("topk")
    wanted = over if several else [over[min(place, len(over) - 1)]]
    targets = [f"R_{i}" for i in range(1, len(wanted) + 1)]
    names = ", ".join(targets)
    parameters = ", ".join([*parameters_of(form), "_of[m]"])  # a tensor over what index(m) is over
    source = f"def F({parameters}):\n    {names} = {form}\n    return {names}\n"
    results = results_of(source, len(wanted), tmp_path, "-D", DIMS)
    for result, text in zip(results, wanted):
        dims, element = re.fullmatch(r"\[(.*)\](?:: (\w+))?", text).groups()
        assert result.shape == tuple(EXTENTS[dim] for dim in dims.split(", "))
        assert result.dtype == {None: "float32", "i32": "int32", "i64": "int64"}[element]
        stated = source.replace("R_1 =", f"R_1[{dims}] =") if not several else source
        attc("verify", "-", "-w", "-D", DIMS, stdin=stated)


# ---- 9: the prelude ------------------------------------------------------------------------------
def test_the_prelude():
    """The heads of the defs, their trained tensors and the dims are those of the source."""
    source = (words.ROOT / "compiler/ast/read/prelude.attn").read_text()
    defs = re.findall(r"^def (\w+\(.*\)):\n((?: .*\n|\n)*)", source, re.M)
    trained = {
        head: re.findall(r"(\w+\[[^\]]*\])", " ".join(re.findall(r"^ +param (.*)", body, re.M)))
        for head, body in defs
    }
    listed = {form: codes(row[1]) for row in table("9.2").rows for form in codes(row[0])}
    assert listed == trained
    dims = re.findall(r"^dim .*", source, re.M)
    assert dims and all(f"`{line}`" in " ".join(sum(table("9.2").rows, [])) for line in dims)


def test_the_optimizers_of_the_prelude():
    source = (words.ROOT / "compiler/ast/read/prelude.attn").read_text()
    heads = re.findall(r"^optimizer (\w+)\((.*?)\):$", source, re.M | re.S)
    told = {"step[]", "learning_rate[]"}
    written = {
        name: [
            [p for p in parameters[2:] if " = " not in p and p not in told],
            [p.replace("[]", "") for p in parameters if " = " in p],
        ]
        for name, parameters in ((n, re.split(r",\s+(?![c]\])", text)) for n, text in heads)
    }
    listed = {codes(row[0])[0]: [codes(row[1]), codes(row[2])] for row in table("8.5").rows}
    assert listed == written


# ---- 10: warnings --------------------------------------------------------------------------------
def test_every_warning_is_in_the_table():
    assert names_of("10.3") == list(words.warnings())
    for row in table("10.3").rows:
        on = words.warnings()[codes(row[0])[0]]
        assert on == (not row[2].startswith("off by default")), row[0]


@pytest.mark.parametrize("row", table("10.3").rows, ids=lambda row: row[0].strip("`"))
def test_warning(row):
    """Every example gets the warning, and no other, unless it is off."""
    (name,) = codes(row[0])
    for example in row[1].split("; "):
        stated = [code for code in codes(example) if re.fullmatch(r"(param )?\w+\[[^\]]*\]", code)]
        dims = [code for code in codes(example) if code.startswith("dim ")]
        for line in codes(example):
            if line in stated or line in dims:
                continue
            named = [re.search(r"\w+(?=\[)", code)[0] for code in stated]
            found = re.findall(r"\b([A-Z]\w*)\[([^\]]*)\]", line)
            free = {n: f"{n}[{d}]" for n, d in reversed(found) if n not in named}
            result = "X" if " = " in line else line
            body = f"    {line}\n" if " = " in line else ""
            parameters = ", ".join([*free.values(), *stated])
            head = "".join(f"{line}\n" for line in [*dims, f"def Example({parameters}):"])
            source = f"{head}{body}    return {result}\n"
            told = {diag["group"] for diag in diagnostics(source, f"-W{name}")}
            assert told == {name}, f"{line}: {told}"
            usual = {diag["group"] for diag in diagnostics(source)}
            assert usual == ({name} if words.warnings()[name] else set()), line
            assert not diagnostics(source, f"-Wno-{name}"), line


def test_einsums_of_hints_have_no_joint_sum():
    """Each einsum that is told of, in the words of its hint: nothing is left to tell."""
    lines = (ROOT / "tests/diag/warn_joint_sum.attn").read_text().splitlines()
    told = [diag for diag in diagnostics("\n".join(lines)) if "write '" in diag["hint"]]
    for diag in told:
        line = lines[diag["line"] - 1]
        written = re.search(r"write '(.*)'$", diag["hint"])[1]
        lines[diag["line"] - 1] = line[: line.index("einsum(")] + written
    left = diagnostics("\n".join(lines))
    assert told and not {diag["line"] for diag in told} & {diag["line"] for diag in left}

# ---- 11: plans and machines ----------------------------------------------------------------------
def test_every_plan_is_in_the_table():
    wrong = attc("cost", EXAMPLES / "causal.attn", "--plan=none", status=2)[1]
    known = re.split(r", | or ", re.search(r"expected (.*)", wrong)[1])
    assert names_of("11.1") == known


@pytest.mark.parametrize("example", ["causal.attn", "talking_heads.attn"])
@pytest.mark.parametrize("place, plan, row", rows("11.1"))
def test_plan(place, plan, row, example):
    """A plan is that of the attention kernel, or an error of what it does not fit."""
    command = ["cost", EXAMPLES / example, "-D", "n=512,m=512,d=64,h=4,d_k=16", "-w", "--json",
               f"--plan={plan}"]
    if example in codes(row["does not fit"])[:1]:
        attc(*command, status=1)
        return
    kernels = json.loads(attc(*command)[0])["kernels"]
    plans = {kernel["plan"] for kernel in kernels if {"n", "m"} <= set(kernel["dims"])}
    assert plan in plans if plan != "unfused" else not plans & set(names_of("11.1"))


def test_facts_of_a_machine():
    """Those of the table are those that attc prints, and its bounds are kept."""
    facts = json.loads(attc("machine", "--json")[0])
    listed = []
    for row in table("11.4").rows:
        for code in codes(row[0]):
            level = code.startswith("...")
            meant = [f for f in facts if f.endswith(code[3:]) and f not in listed]
            listed += meant if level else [code]
    assert sorted([*listed, "name"]) == sorted(facts)


def test_widths_of_vectors(tmp_path):
    widths = re.search(r"`vector_bytes` \((.*?)\)", table("11.4").rows[0][0])[1]
    for width in (8, 16, 24, 32, 48, 64, 128):
        path = tmp_path / "machine.json"
        path.write_text(json.dumps({"vector_bytes": width}))
        said = str(width) in re.split(r", | or ", widths)
        attc("machine", "--machine", path, status=0 if said else 1)


# ---- 12: libraries of gradients ------------------------------------------------------------------
@pytest.mark.skipif(SANITIZED, reason="the product is linked without the sanitizer")
@pytest.mark.parametrize("scalar", [False, True])
def test_functions_of_gradients(scalar, tmp_path):
    source = tmp_path / "f.attn"
    result = "sum(x * x, reduced_dim=n)" if scalar else "x * x"
    source.write_text(f"def F(x[n]):\n    return {result}\n")
    attc("build", source, "--grad", "--shared", "-o", tmp_path / "f.so")
    made = re.findall(r"^AttStatus (F_\w+)\(", (tmp_path / "f.h").read_text(), re.M)
    wanted = [codes(row[0])[0] for row in table("12.4").rows
              if scalar or "if all results of floats have no dims" not in row[0]]
    assert sorted(made) == sorted(wanted)


# ---- 13: options ---------------------------------------------------------------------------------
def commands_of_help():
    return re.findall(r"^  ([a-z]+) +\S", attc("--help")[0].split("Commands:")[1], re.M)


def options_of(text):
    """Long names, and short ones that stand for themselves."""
    return set(re.findall(r"(?<![\w-])(--[a-z-]+|-[DWw]\b)", text))


def test_every_option_is_in_the_table():
    usage = " ".join(re.findall(r"^ {2,6}(-.*?)(?:  |$)", attc("--help")[0], re.M))
    listed = options_of(" ".join(code for row in table("13").rows for code in codes(row[0])))
    alone = options_of(head_of(13))
    assert listed | alone == options_of(usage)
    for option in alone:
        attc(option)


def test_options_in_documents_are_those_of_attc():
    """Or of the programs that it makes, which section 14 has in tables."""
    programs = (words.ROOT / REFERENCE).read_text().partition("\n## 14. ")[2]
    known = options_of(attc("--help")[0]) | options_of(programs)
    for page in ("README.md", REFERENCE):
        for code in codes(re.sub(r"```.*?```", "", (words.ROOT / page).read_text(), flags=re.S)):
            assert options_of(code) <= known, code


@pytest.mark.parametrize("place, option, row", rows("13"))
def test_option(place, option, row, tmp_path):
    """Commands take it or say that they do not; no file is read that far."""
    taken = codes(row["of"])[0].split()
    assert set(taken) <= set(commands_of_help())
    action = {"--older-than=30": "prune", "--output=out": "export", "-o out": "export"}
    files = {"machine": [], "db": [action.get(option, "list")]}
    for command in commands_of_help():
        file = files.get(command, ["no-such-file.attn"])
        stage = ["--stage=asm"] if command == "emit" and "--stage" not in option else []
        run = subprocess.run([ATTC, command, *file, *stage, *option.split(" ")],
                             cwd=tmp_path, capture_output=True, text=True)
        assert ("takes no -" in run.stderr) == (command not in taken), run.stderr
