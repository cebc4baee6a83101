# SPDX-License-Identifier: Apache-2.0
"""Variants from the literature against NumPy and against the oracle."""

import re
import subprocess

import numpy as np
import pytest

import twins_blocks  # noqa: F401  twins register themselves
import twins_heads  # noqa: F401
import twins_kernels  # noqa: F401
import twins_layers  # noqa: F401
import twins_masks  # noqa: F401
import twins_orders  # noqa: F401
import twins_positions  # noqa: F401
import twins_splits  # noqa: F401
import twins_states  # noqa: F401
from attc import ATTC, attc, attc_json, extents_options
from registry import HERE, TOLERANCE, VARIANTS, draw, expected, run

NAMES = sorted(VARIANTS)
# Greedy search leaves whole numbers behind.
DIFFERENTIABLE = [n for n in NAMES if n != "greedy"]
# What says of single positions that they are too few for a variant.
TOO_FEW = r"has 1 positions, they are no multiple of|the first \d+ of '\w+', which has 1\n"


def test_every_variant_has_a_twin():
    assert NAMES == sorted(path.stem for path in HERE.glob("*.attn"))


def test_variants_are_in_layout():
    attc("fmt", "--check", *sorted(HERE.glob("*.attn")))


def compare(have, want):
    assert len(have) == len(want)
    for result, exact in zip(have, want):
        assert result.shape == exact.shape
        assert np.isfinite(exact).all()
        error = np.abs(result - exact)
        assert (error <= TOLERANCE * (np.abs(exact) + np.abs(exact).max())).all(), error.max()


@pytest.mark.parametrize("name", NAMES)
def test_against_oracle_and_numpy(name, tmp_path):
    """Known extents; then what is read at run time, with one thread and two."""
    case = VARIANTS[name]
    few = case.options("few")
    stdout, stderr = attc("check", case.path, *few)
    assert not stdout + stderr
    results = [output["name"] for output in attc_json("verify", case.path, *few)["outputs"]]
    arrays, extents = draw(case, "few", seed=len(name))
    compare(run(case, arrays, results, tmp_path, *few), expected(case, arrays, extents))

    known = {dim: n for dim, n in case.sizes("many").items() if dim not in case.read}
    arrays, extents = draw(case, "many", seed=len(name))
    one, two = (
        run(case, arrays, results, tmp_path, *extents_options(known), "--threads", threads)
        for threads in (1, 2)
    )
    compare(one, expected(case, arrays, extents))
    for left, right in zip(one, two):
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name):
    """Known extents; then what is read at run time."""
    case = VARIANTS[name]
    dynamic = ["--dynamic", ",".join(case.read)] if case.read else []
    attc("verify", case.path, "-w", "--grad", *case.options("few"))
    attc("verify", case.path, "-w", "--grad", *case.options("many"), *dynamic)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient_at_single_positions(name):
    case = VARIANTS[name]
    extents = {**case.sizes("few"), **dict.fromkeys(case.read, 1)}
    command = [ATTC, "verify", case.path, "-w", "--grad", *extents_options(extents)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0 or re.search(TOO_FEW, run.stderr), run.stdout + run.stderr


# What is stored for gradients alone: the states of scans, weights that are normalised both ways or
# are no weights of a softmax, small ones; and norms along what only counts as positions, because
# nothing is multiplied by a parameter along it.
SCANNED = "only what begins with an einsum over both is streamed"
STORED_FOR_GRADIENTS = {
    "attention_rnn": SCANNED,
    "bidaf": "its kernel would need that before it ends",
    "gated_deltanet": SCANNED,
    "linear_causal": "its kernel would need that before it ends",
    "linear_recurrent": SCANNED,
    "mlstm": SCANNED,
    "performer": "a streamed kernel is not worth it",
    "qk_norm": "quadratic in n and k",
    "retention_recurrent": SCANNED,
    "swin_windows": "8 rows are the least that is streamed for",
}
UNSTORED = [n for n in NAMES if not VARIANTS[n].stored and n != "greedy"]


@pytest.mark.parametrize("name", UNSTORED)
def test_quadratic_values_are_stored_for_gradients_only_for_a_reason(name):
    case, reason = VARIANTS[name], STORED_FOR_GRADIENTS.get(name)
    command = ("cost", case.path, "-w", "--grad", *case.options("large"), "--no-materialize")
    stderr = attc(*command, status=1 if reason else 0)[1]
    assert (reason or "") in stderr


@pytest.mark.parametrize("name", NAMES)
def test_quadratic_values_are_stored_only_for_a_reason(name):
    case = VARIANTS[name]
    command = ("cost", case.path, *case.options("large"), "--no-materialize")
    stderr = attc(*command, status=1 if case.stored else 0)[1]
    assert case.stored in stderr
