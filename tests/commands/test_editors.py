# SPDX-License-Identifier: Apache-2.0
"""The words that the editor files colour are those of the scanner and the compiler."""

import json
import re
import shutil
import subprocess

import pytest

import words
from attc import ROOT

VIM = ROOT / "grammar/vim/syntax/attn.vim"
VSCODE = ROOT / "grammar/vscode"
TEXTMATE = VSCODE / "syntaxes/attn.tmLanguage.json"
# What the lists are called in the two files. Keywords are in four of them.
VIM_LISTS = {
    "keyword": ["attnItem", "attnStatement", "attnOperator", "attnConstant"],
    "element type": ["attnType"],
    "first value": ["attnInitialiser"],
    "built-in function": ["attnFunction"],
    "def of the prelude": ["attnPrelude"],
}
TEXTMATE_LISTS = {
    "keyword": [
        "keyword.declaration",
        "keyword.control",
        "keyword.operator.word",
        "constant.language",
    ],
    "element type": ["storage.type"],
    "first value": ["support.function.initialiser"],
    "built-in function": ["support.function.builtin"],
    "def of the prelude": ["support.function.prelude"],
}


WANTED = {
    "keyword": words.keywords,
    "element type": words.elements,
    "first value": words.first_values,
    "built-in function": words.functions,
    "def of the prelude": words.prelude,
}


def vim_words(group):
    lines = re.findall(rf"^syn keyword {group} (.*)$", VIM.read_text(), re.M)
    return [word for line in lines for word in line.split()]


def textmate_words(scope):
    patterns = json.loads(TEXTMATE.read_text())["repository"]["code"]["patterns"]
    matches = [p["match"] for p in patterns if p.get("name") == f"{scope}.attn"]
    return [word for match in matches for word in re.search(r"\(\?:(.*?)\)", match)[1].split("|")]


@pytest.mark.parametrize("kind", VIM_LISTS)
@pytest.mark.parametrize(
    "path, lists, read",
    [(VIM, VIM_LISTS, vim_words), (TEXTMATE, TEXTMATE_LISTS, textmate_words)],
    ids=["vim", "vscode"],
)
def test_the_words_are_those_of_the_language(kind, path, lists, read):
    listed = [word for name in lists[kind] for word in read(name)]
    wanted = set(WANTED[kind]())
    where = f"{path.relative_to(ROOT)}, {' or '.join(lists[kind])}"
    assert not wanted - set(listed), f"add to {where}: {sorted(wanted - set(listed))}"
    assert not set(listed) - wanted, f"remove from {where}: {sorted(set(listed) - wanted)}"
    assert len(listed) == len(set(listed)), f"a word stands twice in {where}"


def test_the_vscode_files_name_each_other():
    package = json.loads((VSCODE / "package.json").read_text())["contributes"]
    assert package["languages"][0]["extensions"] == [".attn"]
    configuration = VSCODE / package["languages"][0]["configuration"]
    assert json.loads(configuration.read_text())["comments"]["lineComment"] == "#"
    assert (VSCODE / package["grammars"][0]["path"]) == TEXTMATE
    scope = json.loads(TEXTMATE.read_text())["scopeName"]
    assert scope == package["grammars"][0]["scopeName"]


def test_the_patterns_are_regular_expressions():
    patterns = json.loads(TEXTMATE.read_text())["repository"]["code"]["patterns"]
    for pattern in patterns:
        for key in ("match", "begin", "end"):
            re.compile(pattern.get(key, ""))


def has_vim():
    vim = shutil.which("vim")
    version = subprocess.run([vim, "--version"], capture_output=True, text=True) if vim else None
    return bool(version) and "+syntax" in version.stdout


@pytest.mark.skipif(not has_vim(), reason="no vim with syntax files here")
def test_vim_reads_the_file(tmp_path):
    source = tmp_path / "a.attn"
    source.write_text("def F(X[n]):\n    return softmax(X[n'] * 2, reduced_dim=n)  # all\n")
    places = {(1, 1): "attnItem", (1, 5): "attnDefName", (2, 5): "attnStatement",
              (2, 12): "attnFunction", (2, 22): "attnPrimed", (2, 28): "attnNumber",
              (2, 31): "attnKey", (2, 47): "attnComment"}
    names = [f'synIDattr(synID({line}, {column}, 1), "name")' for line, column in places]
    out = tmp_path / "out"
    commands = [f"set runtimepath^={ROOT}/grammar/vim", "filetype plugin on", "syntax on",
                f"edit {source}",
                f"call writefile([{', '.join(names)}, &filetype], '{out}')", "qa!"]
    run = subprocess.run(
        ["vim", "-u", "NONE", "-es", "-N", *[part for c in commands for part in ("-c", c)]],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert out.exists(), run.stderr
    assert out.read_text().split() == [*places.values(), "attn"]
