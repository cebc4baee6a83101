# SPDX-License-Identifier: Apache-2.0
"""Batches of programs that train: of one size, of too few examples, first steps that go wrong, and
rounds that are computed again."""

import json
import subprocess

import numpy as np
import pytest
from attc import EXAMPLES, attc

ROWS = """dim d = 3
def Loss(X[b, d], Y[b], param w[d]):
    return mean((sum(X * w, reduced_dim=d) - Y) ** 2, reduced_dim=b)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Programs for any batch and for batches of 4, and 11 examples."""
    folder = tmp_path_factory.mktemp("batches")
    (folder / "rows.attn").write_text(ROWS)
    attc("build", folder / "rows.attn", "--exe", "-o", folder / "any")
    attc("build", folder / "rows.attn", "--exe", "-D", "b=4", "-o", folder / "four")
    rng = np.random.default_rng(1)
    np.save(folder / "X.npy", rng.standard_normal((11, 3)).astype("f4"))
    np.save(folder / "Y.npy", rng.standard_normal(11).astype("f4"))
    np.save(folder / "few.npy", rng.standard_normal((3, 3)).astype("f4"))
    np.save(folder / "wild.npy", np.full((11, 3), np.nan, "f4"))
    run(folder, "any", "train", *examples(), "--steps", 2, "--out", "run", "--held-out", 0)
    return folder


def examples(x="X.npy", y="Y.npy"):
    return ["--data", f"X={x}", f"Y={y}"]


def run(made, program, *words, status=0):
    """(what it prints, what it says besides)"""
    ran = subprocess.run([made / program, *map(str, words)], cwd=made, capture_output=True,
                         text=True, timeout=60)
    assert ran.returncode == status, ran.stderr
    return ran.stdout, ran.stderr


def test_examples_that_fill_no_batch_are_told(made):
    weights = ["--weights", "run/latest", "--json"]
    every, nothing = run(made, "any", "eval", *examples(), *weights)
    most, said = run(made, "four", "eval", *examples(), *weights)
    assert (json.loads(every)["examples"], json.loads(most)["examples"]) == (11, 8)
    assert "the last 3 of 11 examples are left out" in said and not nothing
    asked, said = run(made, "four", "eval", *examples(), *weights, "--batches", 1)
    assert json.loads(asked)["examples"] == 4 and not said


def test_too_few_examples_for_a_batch(made):
    np.save(made / "few_y.npy", np.zeros(3, "f4"))
    few = examples("few.npy", "few_y.npy")
    _, said = run(made, "four", "eval", *few, "--weights", "run/latest", status=1)
    assert "there are 3 examples to evaluate, and the program is built for batches of 4" in said


def test_that_a_step_takes_more_than_there_is_is_told(made):
    for batch, told in (8, True), (5, False):
        _, said = run(made, "any", "train", *examples(), "--steps", 1, "--batch", batch,
                      "--accumulate", 2, "--held-out", 0, "--out", f"step_of_{batch}")
        assert ("a step takes 16 examples of 11: some more than once" in said) == told


def test_what_is_wrong_from_the_first_step_on_is_no_matter_of_the_rate(made):
    _, said = run(made, "any", "train", *examples("wild.npy"), "--steps", 2, "--out", "wild",
                  "--held-out", 0, status=1)
    assert "step 1: the loss is nan" in said and "look at the data" in said and "--lr" not in said
    _, said = run(made, "any", "train", "--resume", "--out", "wild", status=1)
    assert "no checkpoint to go on from: begin anew" in said


def test_rounds_are_computed_again(tmp_path):
    extents = "layers=3,d=16,d_ff=24,h=2,d_k=8,n=12"
    (tmp_path / "text").write_text("to be or not to be, that is the question: " * 9)
    losses, codes = [], set()
    for name, option in ("all", []), ("less", ["--checkpoint", "layers"]):
        attc("build", EXAMPLES / "lm.attn", "--entry", "Loss", "--exe", "-D", extents, *option,
             "-o", tmp_path / name)
        run(tmp_path, name, "train", "--data", "text", "--batch", 3, "--steps", 3, "--out",
            f"run-{name}", "--eval-every", 0)
        codes.add(json.loads(run(tmp_path, name, "info", "--json")[0])["code"])
        rows = (tmp_path / f"run-{name}" / "log.csv").read_text().splitlines()[1:]
        losses.append([float(row.split(",")[1]) for row in rows])
    assert np.allclose(losses[0], losses[1], rtol=1e-5) and len(losses[0]) == 3
    assert len(codes) == 2  # of gradients


def test_what_does_not_train_computes_nothing_again(tmp_path):
    source = """dim layers = 2
def Double(X[n]):
    Y = X
    for layer in layers:
        Y = 2 * Y
    return Y
"""
    _, said = attc("build", "-", "--exe", "--checkpoint", "layers", "-o", tmp_path / "f",
                   stdin=source)
    assert "--checkpoint: the program does not train" in said
