# SPDX-License-Identifier: Apache-2.0
"""`attc machine`, machine files, and the machine that is measured when none is given."""

import json
import os
import subprocess

import pytest

from attc import ATTC, EXAMPLES, MACHINES, attc

CAUSAL = EXAMPLES / "causal.attn"
SMALL = ["-D", "n=70,d=64,h=4,d_k=16"]
FACTS = [
    "name",
    "vector_bytes",
    "vector_registers",
    "has_masks",
    "rows_unpacked",
    "rows_packed",
    "l1_bytes",
    "l2_bytes",
    "l3_bytes",
    "flops_per_second",
    "splats_per_second",
    "l1_bytes_per_second",
    "l2_bytes_per_second",
    "l3_bytes_per_second",
    "memory_bytes_per_second",
    "l2_write_cost",
    "l3_write_cost",
    "memory_write_cost",
    "scattered_exposed",
    "one_set_exposed",
    "one_set_far_exposed",
    "threads",
    "task_seconds",
    "launch_seconds",
]


def machine(*options):
    return json.loads(attc("machine", *options)[0])


def measured(folder, *command):
    """Runs attc without a machine file, everything kept in `folder`."""
    env = {name: value for name, value in os.environ.items() if name != "ATTC_MACHINE"}
    run = subprocess.run(
        [ATTC, *map(str, command)], capture_output=True, text=True, env=dict(env, ATTC_CACHE=folder)
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def write(path, **facts):
    path.write_text(json.dumps(facts))
    return path


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda path: path.stem)
def test_a_machine_file_is_printed_as_it_was_read(path, tmp_path):
    given = json.loads(path.read_text())
    assert list(given) == FACTS
    printed = machine("--machine", path, "--target", "x86-64-v4")
    assert printed == given and list(printed) == FACTS
    again = write(tmp_path / "again.json", **printed)
    assert machine("--machine", again, "--target", "x86-64-v4") == given


def test_missing_facts_are_those_of_the_target(tmp_path):
    path = write(tmp_path / "part.json", l2_bytes=2097152, threads=3)
    for target in "x86-64-v3", "x86-64-v4":
        own = machine("--machine", write(tmp_path / "none.json"), "--target", target)
        part = machine("--machine", path, "--target", target)
        assert part == dict(own, l2_bytes=2097152, threads=3)
        assert own["name"] == target


def test_code_for_a_lower_level_uses_what_it_has():
    """Half the width is half the rate of multiply-adds, and as many rows as there are registers."""
    whole = machine("--target", "x86-64-v4", "--machine", MACHINES / "avx512.json")
    half = machine("--target", "x86-64-v3", "--machine", MACHINES / "avx512.json")
    assert half["vector_bytes"] == 32 and half["vector_registers"] == 16
    assert not half["has_masks"]
    assert half["rows_packed"] < whole["rows_packed"]
    assert half["flops_per_second"] == whole["flops_per_second"] / 2
    assert half["l2_bytes"] == whole["l2_bytes"]


BAD = [
    ("[]", "a machine is an object"),
    ("{", "line 1"),
    ('{"threads": 1,\n "threads": 2}', "duplicate"),
    ('{"l4_bytes": 1}', "'l4_bytes' is no fact of a machine"),
    ('{"threads": 0}', "'threads' must be a whole number from 1 to 1024"),
    ('{"threads": 1.5}', "'threads' must be a whole number"),
    ('{"threads": "4"}', "'threads' must be a whole number"),
    ('{"has_masks": 1}', "'has_masks' must be true or false"),
    ('{"name": ""}', "'name' must be a text"),
    ('{"vector_bytes": 48}', "'vector_bytes' must be 16, 32 or 64"),
    ('{"vector_bytes": 128}', "'vector_bytes' must be a whole number from 16 to 64"),
    ('{"flops_per_second": -1}', "'flops_per_second' must be a number from 1"),
    ('{"l3_write_cost": 0.5}', "'l3_write_cost' must be a number from 1 to 100"),
    ('{"l1_bytes": 1e4}', "'l1_bytes' must be a whole number"),
    ('{"l1_bytes": 99999999999999999999}', "too big integer"),
    ('{"l2_bytes": 128}', "'l2_bytes' must not be less than 'l1_bytes'"),
    ('{"l3_bytes": 128}', "'l3_bytes' must not be less than 'l2_bytes'"),
]


@pytest.mark.parametrize("text, message", BAD)
def test_what_is_wrong_in_a_machine_file(text, message, tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(text)
    for command in (["machine"], ["cost", CAUSAL, *SMALL]):
        out, err = attc(*command, "--machine", path, status=1)
        assert out == ""
        assert f"machine {path}: " in err and message in err


def test_a_machine_file_that_is_not_there(tmp_path):
    out, err = attc("machine", "--machine", tmp_path / "none.json", status=1)
    assert "No such file or directory" in err and out == ""
    out, err = attc("machine", "--machine", tmp_path, status=1)
    assert f"machine {tmp_path}: " in err and out == ""


def test_the_option_comes_before_the_environment():
    env = dict(os.environ, ATTC_MACHINE=str(MACHINES / "tiny.json"))

    def name(*options):
        run = subprocess.run([ATTC, "machine", *options], capture_output=True, text=True, env=env)
        return json.loads(run.stdout)["name"]

    assert name() == "tiny"
    assert name("--machine", str(MACHINES / "avx512.json")) == "avx512"


def test_plans_follow_the_machine():
    plans = [
        attc("emit", CAUSAL, *SMALL, "--stage=tile", "--machine", MACHINES / f"{name}.json")[0]
        for name in ("avx512", "tiny", "avx512")
    ]
    assert plans[0] != plans[1] and plans[0] == plans[2]


def test_same_machine_same_bytes(tmp_path):
    products = []
    for i, name in enumerate(("avx512", "tiny", "avx512")):
        path = tmp_path / f"{i}" / "causal.o"
        path.parent.mkdir()
        options = ["--object", "--no-cache", "--machine", MACHINES / f"{name}.json", "-o", path]
        attc("build", CAUSAL, *SMALL, *options)
        products.append(path.read_bytes())
    assert products[0] == products[2] != products[1]


# ---- measuring ----


STEPS = (1, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)


def facts_file(folder):
    (path,) = folder.glob("machine-*.json")
    return path


def test_this_machine_is_measured_once(tmp_path):
    first = json.loads(measured(tmp_path, "machine"))
    kept = json.loads(facts_file(tmp_path).read_text())
    assert first == kept and list(first) == FACTS
    assert 0 < first["l1_bytes"] <= first["l2_bytes"] <= first["l3_bytes"]
    for name in [name for name in FACTS if name.endswith("_write_cost")]:
        assert 1 <= first[name] <= 4 and float(f"{first[name]:.1e}") == first[name]
    for name in [name for name in FACTS if name.endswith("_per_second")]:  # two digits
        assert first[name] > 1e8 and float(f"{first[name]:.1e}") == first[name]
    for name in "l3_bytes_per_second", "memory_bytes_per_second":  # twelve steps of a decade
        assert float(f"{first[name]:.1e}".split("e")[0]) in STEPS
    # What is kept is used, not measured again.
    kept["l2_bytes"] = kept["l3_bytes"] = 123456789
    facts_file(tmp_path).write_text(json.dumps(kept))
    assert json.loads(measured(tmp_path, "machine")) == kept


@pytest.mark.parametrize("damage", ["", "{", '{"l2_bytes": "much"}', "\0" * 100])
def test_a_damaged_file_is_measured_again(damage, tmp_path):
    measured(tmp_path, "machine")
    path = facts_file(tmp_path)
    path.write_text(damage)
    again = json.loads(measured(tmp_path, "machine"))
    assert list(again) == FACTS
    assert facts_file(tmp_path) == path and json.loads(path.read_text()) == again


def test_nothing_is_kept_without_a_cache(tmp_path):
    assert list(json.loads(measured(tmp_path, "machine", "--no-cache"))) == FACTS
    assert not list(tmp_path.iterdir())


def test_what_reads_only_the_source_measures_nothing(tmp_path):
    measured(tmp_path, "check", CAUSAL)
    measured(tmp_path, "emit", CAUSAL, "--stage=ast")
    assert not list(tmp_path.iterdir())
