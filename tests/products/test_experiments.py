# SPDX-License-Identifier: Apache-2.0
"""What examples/experiments stands on: data, programs, and the construction of the theorem."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from attc import SANITIZED

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "experiments"))
from lab import Lab  # noqa: E402
from heads import hidden  # noqa: E402
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
        model = made.model(16, WIDTH // 16, attention, hidden(attention, 16))
        assert f"+ {attention}(" in model.text()
        run = lab.train(model, 0, made.steps, made.options())
        assert 1 < run.loss < 8 and run.step_seconds > 0
        assert lab.train(model, 0, made.steps, made.options()) == run  # as it was kept
        counts.append(run.parameters)
    assert abs(counts[0] - counts[1]) < 2 * WIDTH + 1


def test_a_table_of_means():
    table = [("a", 0, 1.0), ("a", 1, 2.0), ("b", 0, 4.0)]
    assert mean_of(table, ("name", "seed", "loss"), ("name",)).splitlines()[2:] == [
        "| a | 1.5 (1 to 2) |", "| b | 4 |"]
