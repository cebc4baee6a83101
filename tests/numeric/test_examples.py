# SPDX-License-Identifier: Apache-2.0
"""Every example: the oracle against NumPy, compiled code against the oracle."""

import json

import numpy as np
import pytest

from attc import EXAMPLES, MACHINES, Entry, attc, attc_json, draw, extents_options, widened, write
from model_twins import MODELS
from shapes import SHAPES, STATIC, extents, with_derived
from twins import TWINS

NAMES = sorted({path.stem for path in EXAMPLES.glob("*.attn")} - set(MODELS))  # test_models.py
WITH_TWIN = sorted(TWINS)
# What is long takes the oracle long: one example in four.
OF_ORACLE = [
    (name, shape)
    for i, name in enumerate(WITH_TWIN)
    for shape in SHAPES
    if shape != "long" or i % 4 == 0
]
# Two shapes of each example, those of neighbours in turns.
IN_TURNS = [(name, shape) for i, name in enumerate(NAMES) for shape in list(SHAPES)[i % 2 :: 2]]


def test_every_example_has_a_twin():
    assert set(TWINS) == set(NAMES)


@pytest.mark.parametrize("example, shape", OF_ORACLE)
def test_oracle_equals_numpy(example, shape, tmp_path):
    path = EXAMPLES / f"{example}.attn"
    entry = Entry(path)
    sizes = with_derived(extents(example, shape, entry.dims + ["d_k"]))
    arrays = draw(entry, sizes, seed=len(example))
    expected = TWINS[example](**widened(arrays))
    given = extents(example, shape, entry.dims)
    outputs = [
        option for name in expected for option in ("-o", f"{name}={tmp_path / name}.out.npy")
    ]
    attc("run", path, "--oracle", *extents_options(given), *write(arrays, tmp_path), *outputs)
    for name, value in expected.items():
        actual = np.load(tmp_path / f"{name}.out.npy")
        assert actual.shape == value.shape
        assert np.abs(actual - value).max() <= 1e-12 * max(np.abs(value).max(), 1e-300)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("example", NAMES)
def test_compiled_equals_oracle(example, shape):
    path = EXAMPLES / f"{example}.attn"
    given = extents(example, shape, Entry(path).dims)
    attc("verify", path, *extents_options(given), "--seed", 1)


def test_inputs_are_seldom_drawn_again():
    """Errors are within limits that one naive evaluation tells; all were when this was written."""
    draws = 0
    for example in NAMES:
        path = EXAMPLES / f"{example}.attn"
        for shape in ("primes", "vectors"):
            given = extents_options(extents(example, shape, Entry(path).dims))
            draws += attc_json("verify", path, *given, "--seed", 3)["draws"]
    assert draws <= 2


@pytest.mark.parametrize("example, shape", IN_TURNS)
def test_compiled_with_run_time_extents(example, shape):
    path = EXAMPLES / f"{example}.attn"
    dims = Entry(path).dims
    given = extents(example, shape, dims)
    dynamic = [dim for dim in given if dim not in STATIC.get(example, [])]
    attc("verify", path, *extents_options(given), "--dynamic", ",".join(dynamic), "--seed", 2)


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "run-time"])
@pytest.mark.parametrize("example", NAMES)
def test_planned_for_a_tiny_machine(example, dynamic):
    """Caches of a few KiB and few registers: all that large shapes are cut into, at small ones."""
    path = EXAMPLES / f"{example}.attn"
    given = extents(example, "vectors", Entry(path).dims)
    read = [dim for dim in given if dim not in STATIC.get(example, [])] if dynamic else []
    attc(
        "verify",
        path,
        "--machine",
        MACHINES / "tiny.json",
        *extents_options(given),
        *(["--dynamic", ",".join(read)] if read else []),
    )


@pytest.mark.parametrize("registers", [4, 5, 6])
def test_planned_for_few_registers(registers, tmp_path):
    """Fewer than the vectors of a block need: a block has one row then, and sums go to memory."""
    machine = json.loads((MACHINES / "avx512.json").read_text())
    machine |= dict(vector_registers=registers, rows_packed=6, l1_bytes=1024, l2_bytes=4194304)
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(machine))
    path = EXAMPLES / "dynamic_projections.attn"
    given = extents("dynamic_projections", "long", Entry(path).dims)
    attc("verify", path, "--machine", file, "--grad", *extents_options(given))


@pytest.mark.parametrize("example", NAMES)
def test_same_bits_for_any_number_of_threads(example, tmp_path):
    path = EXAMPLES / f"{example}.attn"
    given = extents_options(extents(example, "long", Entry(path).dims))
    small = extents_options(extents(example, "ones", Entry(path).dims))
    results = [output["name"] for output in attc_json("verify", path, *small)["outputs"]]
    assert results
    for threads in (1, 2, 3):
        files = [f"{name}={tmp_path / name}.{threads}.npy" for name in results]
        outputs = [option for file in files for option in ("-o", file)]
        attc("run", path, *given, "--threads", threads, *outputs)
    for name in results:
        bits = [(tmp_path / f"{name}.{threads}.npy").read_bytes() for threads in (1, 2, 3)]
        assert bits[0] == bits[1] == bits[2]
