# SPDX-License-Identifier: Apache-2.0
"""`attc fmt`: files in their layout, and that a layout says what the file said."""

import os
import random
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

from attc import EXAMPLES, ROOT, SANITIZED, attc

sys.path.append(str(ROOT / "tests" / "random"))
import attention  # noqa: E402
import generate  # noqa: E402

UGLY = "def F( X[n] ):\n  return X[n]# as it is\n"
NEAT = "def F(X[n]):\n    return X[n]  # as it is\n"
WRONG = "def F(X[n]:\n  return X[n]\n"


@pytest.fixture
def files(tmp_path):
    for name, text in (("ugly", UGLY), ("neat", NEAT), ("wrong", WRONG)):
        (tmp_path / f"{name}.attn").write_text(text)
    return tmp_path


# ---- the command ----


def test_files_are_put_into_layout(files):
    assert attc("fmt", files / "ugly.attn", files / "neat.attn") == ("", "")
    assert (files / "ugly.attn").read_text() == (files / "neat.attn").read_text() == NEAT
    assert len(list(files.iterdir())) == 3


def test_a_file_in_layout_is_not_touched(files):
    before = (files / "neat.attn").stat()
    attc("fmt", files / "neat.attn")
    after = (files / "neat.attn").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_check_tells_the_names_and_changes_nothing(files):
    out, err = attc("fmt", "--check", files / "ugly.attn", files / "neat.attn", status=1)
    assert out == f"{files}/ugly.attn\n" and err == ""
    assert (files / "ugly.attn").read_text() == UGLY
    assert attc("fmt", "--check", files / "neat.attn") == ("", "")


def test_standard_input_goes_to_standard_output():
    assert attc("fmt", "-", stdin=UGLY) == (NEAT, "")
    assert attc("fmt", "-", stdin=NEAT) == (NEAT, "")
    assert attc("fmt", "-", "--check", stdin=UGLY, status=1) == ("<stdin>\n", "")
    assert attc("fmt", "-", "--check", stdin=NEAT) == ("", "")
    out, err = attc("fmt", "-", stdin=WRONG, status=1)
    assert out == "" and "<stdin>:1:6: error: '(' is never closed" in err


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_file_with_errors_is_left_alone(files, check):
    names = [files / "wrong.attn", files / "ugly.attn"]
    out, err = attc("fmt", *check, *names, status=1)
    assert f"{files}/wrong.attn:1:6: error: '(' is never closed" in err
    assert (files / "wrong.attn").read_text() == WRONG
    assert (files / "ugly.attn").read_text() == (UGLY if check else NEAT)
    assert out == (f"{files}/ugly.attn\n" if check else "")


def test_mistakes_of_other_kinds_are_no_matter(files):
    """Nor are imports read."""
    (files / "dims.attn").write_text('import "none.attn"\ndef F(X[n]):\n  return Y[m]\n')
    assert attc("fmt", files / "dims.attn") == ("", "")


def test_links_and_modes_stay(files):
    (files / "ugly.attn").chmod(0o640)
    (files / "link.attn").symlink_to("ugly.attn")
    attc("fmt", files / "link.attn")
    assert (files / "link.attn").is_symlink()
    assert (files / "ugly.attn").read_text() == NEAT
    assert stat.S_IMODE((files / "ugly.attn").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["no-such-file.attn"], "no-such-file.attn"),
        (["folder"], "cannot replace folder: not a regular file"),
        (["/dev/null"], "cannot replace /dev/null: not a regular file"),
    ],
)
def test_what_cannot_be_read_or_replaced(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    (files / "folder").mkdir()
    _, err = attc("fmt", *arguments, files / "ugly.attn", status=1)
    assert message in err
    assert (files / "ugly.attn").read_text() == NEAT


def test_a_folder_that_cannot_be_written_to(files):
    if os.geteuid() == 0:
        pytest.skip("nothing is closed to root")
    files.chmod(0o500)
    _, err = attc("fmt", files / "ugly.attn", status=1)
    files.chmod(0o700)
    assert f"cannot write {files}/ugly.attn" in err
    assert (files / "ugly.attn").read_text() == UGLY


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["fmt"], "fmt: expected a source file"),
        (["fmt", "a.attn", "-D", "n=3"], "fmt: takes no -D\n"),
        (["fmt", "a.attn", "-w"], "fmt: takes no -w\n"),
        (["check", "a.attn", "--check"], "check: takes no --check\n"),
    ],
)
def test_wrong_command_lines(arguments, message):
    assert message in attc(*arguments, status=2)[1]


def test_diagnostics_as_json():
    _, err = attc("fmt", "-", "--diagnostics=json", stdin=WRONG, status=1)
    assert '"severity":"error"' in err


# ---- what a layout says ----


def repository_sources():
    """Every source file of the repository, and the examples of the reference."""
    listed = subprocess.run(
        ["git", "ls-files", "*.attn"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in listed:
        yield (ROOT / name).read_bytes().decode(errors="replace")
    reference = (ROOT / "grammar" / "language.md").read_text()
    yield from re.findall(r"^```attn.*\n((?:.*\n)*?)```$", reference, re.M)


TOKEN = re.compile(
    r"#[^\n]*|\n[ ]*|[ \t]+|[A-Za-z_][\w']*|\.?[0-9][\w.]*|\"[^\"\n]*\"|->|//|\*\*|[=!<>]=|."
)


ROW_ENDS = ["", "", "", "", "   # c", "#d  ", "\n\n", "\n   # own"]
BREAKS = ["\n", "\n\n", " # in\n", "\n   # alone\n\n", "\n\n  # b\n"]


def mangle(text, choose):
    """The same tokens among other blanks, row ends and comments."""
    out, depth = [], 0
    for token in TOKEN.findall(text):
        if token[0] == "\n" and depth == 0:
            out.append(choose.choice(ROW_ENDS) + token)
        elif token[0] == "\n":
            ends_comment = out and out[-1].startswith("#")
            out.append(token if ends_comment else choose.choice([token, " ", "\n"]))
        elif token[0] in " \t":
            out.append(choose.choice([" ", "\n"] if depth else [" ", "  ", token]))
        else:
            depth += (token in ("(", "[")) - (token in (")", "]"))
            out.append(token)
            if depth and choose.random() < 0.05:
                out.append(choose.choice(BREAKS))
    return "".join(out)


def lengthen(text, choose):
    """The same with names so long that rows do not fit."""
    length = choose.randrange(6, 36)
    words = set(re.findall(r"\b[A-Za-z_]\w*\b(?![(=])", re.sub(r"#.*", "", text)))
    words -= set("dim param def import for scan return and or not inf pi".split())
    words -= set("in shared reversed like as optimizer".split())
    words -= set("f32 f64 f16 bf16 i32 i64 bool glorot".split())
    longer = {word: (word + "_" + "abcdefghij" * 4)[: max(len(word), length)] for word in words}
    return re.sub(r"\b[A-Za-z_]\w*\b(?![(=])", lambda m: longer.get(m[0], m[0]), text)


def tree(path):
    """What a file says, without its places."""
    run = subprocess.run(
        [os.environ["ATTC"], "emit", path, "--stage=ast"], capture_output=True, text=True
    )
    return run.returncode, run.stdout


def lay_out(folder, texts):
    """Files with the texts, their trees as they were, and which of them have a layout."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.attn")
        paths[-1].write_text(text)
    trees = [tree(path) for path in paths]
    run = subprocess.run([os.environ["ATTC"], "fmt", *paths], capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return paths, trees


def check_layouts(folder, texts):
    """Layouts change blanks alone, and say the same. Returns how many texts have a layout."""
    paths, trees = lay_out(folder, texts)
    fine = 0
    for path, text, before in zip(paths, texts, trees):
        assert tree(path) == before, text
        assert "".join(path.read_text().split()) == "".join(text.split())
        fine += before[0] == 0
    again = subprocess.run(
        [os.environ["ATTC"], "fmt", "--check", *paths], capture_output=True, text=True
    )
    assert again.stdout == "", [(folder / name).read_text() for name in again.stdout.split()][:1]
    return fine


PARTS = range(2 if SANITIZED else 8)  # of eight


@pytest.mark.parametrize("share", PARTS)
def test_layouts_of_the_repository(tmp_path, share):
    assert check_layouts(tmp_path, list(repository_sources())[share::8]) > 18


@pytest.mark.parametrize("seed", PARTS)
def test_layouts_of_mangled_sources(tmp_path, seed):
    choose = random.Random(seed)
    texts = list(repository_sources())
    for number in range(seed, 80, 8):
        texts += [generate.generate(number)[0], attention.generate(number)[0]]
    texts = choose.sample(texts, 48)
    programs = sum(status == 0 for status, _ in lay_out(tmp_path, texts)[1])
    if seed % 2:
        texts = [lengthen(text, choose) for text in texts]
    mangled = [mangle(text, choose) for text in texts]
    assert check_layouts(tmp_path, mangled) >= programs - 2 > 30


def test_graphs_stay_the_same(tmp_path):
    choose = random.Random(0)
    for path in EXAMPLES.glob("*.attn"):
        (tmp_path / path.name).write_text(mangle(path.read_text(), choose))
        attc("fmt", tmp_path / path.name)
        graphs = [attc("emit", file, "--stage=graph") for file in (path, tmp_path / path.name)]
        assert graphs[0] == graphs[1]


def test_the_repository_is_in_layout():
    sources = [*EXAMPLES.glob("**/*.attn"), ROOT / "compiler/ast/read/prelude.attn"]
    sources += (ROOT / "tests/bench/cores").glob("*.attn")
    assert attc("fmt", "--check", *sources) == ("", "")


def test_an_interrupted_layout_leaves_whole_files(files):
    ugly, path = UGLY * 20000, files / "ugly.attn"
    neat = attc("fmt", "-", stdin=ugly)[0]
    path.write_text(ugly)
    start = time.monotonic()
    attc("fmt", path)
    whole = time.monotonic() - start
    assert path.read_text() == neat
    outcomes = set()
    for part in [*range(11), 1000]:  # tenths of the time, and none at all
        path.write_text(ugly)
        process = subprocess.Popen([os.environ["ATTC"], "fmt", path])
        try:
            process.wait(timeout=whole * part / 10)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        assert path.read_text() in (ugly, neat)
        outcomes.add((process.returncode, path.read_text() == neat))
        assert {path.name for path in files.iterdir()} == {"ugly.attn", "neat.attn", "wrong.attn"}
    assert {(-signal.SIGTERM, False), (0, True)} <= outcomes
