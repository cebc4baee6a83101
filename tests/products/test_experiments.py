# SPDX-License-Identifier: Apache-2.0
"""What examples/experiments stands on: data, programs, and the construction of the theorem."""

import csv
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from attc import ROOT, SANITIZED

FOLDER = ROOT / "examples" / "experiments"
sys.path.append(str(FOLDER))
import heads  # noqa: E402
from lab import Lab  # noqa: E402
from models import with_attention  # noqa: E402
from rank import constructed  # noqa: E402
from report import mean_of  # noqa: E402
from tasks import WIDTH, Recall, Text  # noqa: E402

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")


@pytest.fixture
def lab(tmp_path):
    return Lab(Path(os.environ["ATTC"]), tmp_path, seeds=1, steps=2)


def test_what_is_to_be_recalled(tmp_path, monkeypatch):
    monkeypatch.setattr(Recall, "examples", 50)
    drawn = Recall(tmp_path).draw(np.random.default_rng(3))
    for key, value, query, labels in zip(*drawn.values()):
        assert len(set(key)) == len(key) == Recall.positions
        held = dict(zip(key, value))
        assert [held[one] for one in query] == list(labels)


@pytest.mark.parametrize("size", [32, 40])
def test_one_head_has_any_weights(lab, size):
    divergence, error = constructed(lab, size, seed=5)
    assert abs(divergence) < 1e-6 and error < 1e-5


@pytest.mark.parametrize("task", [Text, Recall])
def test_models_of_equal_parameters(lab, task, monkeypatch):
    monkeypatch.setattr(Recall, "examples", 400)
    monkeypatch.setattr(Text, "size", 1 << 14)
    made, counts = task(lab.folder), []
    for attention in ("MultiHead", "TalkingHeads"):
        _, model = heads.model(made, attention, 16)
        assert f"+ {attention}(" in model.text()
        run = lab.train(model, 0, made.steps, made.options())
        assert 1 < run.loss < 8 and run.step_seconds > 0
        assert lab.train(model, 0, made.steps, made.options()) == run  # as it was kept
        counts.append(run.parameters)
    assert abs(counts[0] - counts[1]) < 2 * WIDTH + 1


def test_a_table_of_means():
    table = [("a", 0, 1.0), ("a", 1, 2.0), ("b", 0, 4.0)]
    assert mean_of(table, ("name", "seed", "loss")).splitlines()[2:] == [
        "| a | 1.5 (1 to 2) |", "| b | 4 |"]


def test_a_text_without_a_choice():
    with pytest.raises(ValueError, match="no line that chooses its attention"):
        with_attention("def F(X[n]):\n    return X\n", "TalkingHeads")


def number(text):
    if not re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", text):
        return text
    return int(text) if text.isdigit() else float(text)


@pytest.mark.parametrize("path", (FOLDER / "results").glob("*.csv"), ids=lambda path: path.stem)
def test_tables_are_of_the_numbers(path):
    with open(path) as file:
        columns, *table = csv.reader(file)
    table = [[number(cell) for cell in row] for row in table]
    assert mean_of(table, columns) + "\n" == path.with_suffix(".md").read_text()


@pytest.mark.parametrize(
    "section", (FOLDER / "README.md").read_text().split("\n## ")[1:],
    ids=lambda part: part.split("results/")[1].split(".")[0])
def test_figures_of_the_readme(section):
    """Each is a mean of the table that it is told beside, rounded; parameters are in millions."""
    table = (FOLDER / re.search(r"results/\w+\.md", section)[0]).read_text()
    means = [float(cell) for cell in re.findall(r"\| (-?[0-9.e-]+)(?= |$)", table)]
    means += [mean / 1e6 for mean in means if mean > 1e6]
    lines = [line.split("|")[2:-1] for line in section.splitlines() if line.startswith("|")][2:]
    figures = [cell.strip() for line in lines for cell in line]
    assert len(figures) >= 12
    for figure in figures:
        if re.fullmatch(r"[0-9.]+", figure):
            digits = len(figure.partition(".")[2])
            assert any(abs(mean - float(figure)) <= 0.50001 * 10**-digits for mean in means), figure
