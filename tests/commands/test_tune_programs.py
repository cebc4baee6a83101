# SPDX-License-Identifier: Apache-2.0
"""Choices for whole programs: looked up by all commands, and searched for by `attc tune`."""

import os
import re
import sqlite3
import subprocess

import numpy
import pytest

from attc import ROOT, SANITIZED, attc, attc_json
from schedules import entry, text_of
from test_tune import D, MACHINE, db, entries_of, known, manifest, source, spaces  # noqa: F401

BY_COST = {"kind": "program", "plan": "any", "wide": "cost", "kept": "cost", "layout": "cost",
           "copies": "size", "plain": 0}
UNFUSED = BY_COST | {"plan": "unfused"}


def of_program(source, schedule=UNFUSED, options=(), sizes=D, **changes):
    """An entry for the program that the source is compiled to."""
    space = attc_json("cost", source, *sizes, "--space", "--threads", 1, "--no-db",
                      *options)["programs"]
    return entry(group=space["group"], extents=space["extents"], target="x86-64-v3",
                 machine=MACHINE, threads=1, name="Attention", schedule=schedule) | changes


def program(source, *options, sizes=D):
    cost = attc_json("cost", source, *sizes, "--threads", 1, *options)
    return cost["program"], cost["program_from"], [k["kind"] for k in cost["kernels"]]


def programs_of(source, tmp_path, *options):
    """By the manifest of an object."""
    out = tmp_path / "lib.o"
    attc("build", source, *D, "--threads", 1, "--object", "-o", out, *options)
    [level] = manifest(out)["levels"]
    return [(one["schedule"], one["schedule_from"]) for one in level["programs"]]


def test_the_space_of_a_program(source):
    space = attc_json("cost", source, *D, "--space", "--threads", 1, "--no-db")["programs"]
    schedules = [choice["schedule"] for choice in space["schedules"]]
    assert schedules[0] == BY_COST and UNFUSED in schedules
    assert all(choice["predicted_seconds"] > 0 for choice in space["schedules"])
    alone = attc_json("cost", source, *D, "--space", "--no-materialize")["programs"]["schedules"]
    assert UNFUSED not in [choice["schedule"] for choice in alone]
    for dynamic, offered in ("n,m", False), ("n", True):  # extents may be far larger than here
        some = attc_json("cost", source, *D, "--space", "--dynamic", dynamic)["programs"]
        assert (UNFUSED in [choice["schedule"] for choice in some["schedules"]]) == offered
    out, _ = attc("cost", source, *D, "--space", "--no-db")
    assert re.search(r"\nprogram +predicted\nby cost +\d.*\nplan unfused +\d", out)


@pytest.mark.parametrize("options", [[], ["--grad"]])
def test_a_choice_for_a_program_is_used_everywhere(source, db, tmp_path, options):
    kinds = program(source, "--no-db", *options)[2]
    assert "resident" in kinds or "stream" in kinds or "two-pass" in kinds
    attc("db", "import", "-", "--db", db, stdin=text_of(of_program(source, options=options)))
    chosen, origin, unfused = program(source, "--db", db, *options)
    assert (chosen, origin) == (UNFUSED, "database") and set(unfused) <= {"contract", "rows", "map"}
    assert program(source, "--no-db", *options) == (BY_COST, "predicted", kinds)
    forced = program(source, "--no-db", "--plan", "unfused", *options)
    assert forced[0] == UNFUSED and forced[2] == unfused
    out, _ = attc("cost", source, *D, "--threads", 1, "--db", db, *options)
    assert "\nprogram     plan unfused (database)\n" in out
    attc("bench", source, *D, "--threads", 1, "--db", db, *options)
    text = tmp_path / "schedules.txt"
    attc("db", "export", "--db", db, "-o", text)
    assert program(source, "--schedules", text, *options)[:2] == (UNFUSED, "file")
    if not options:
        assert programs_of(source, tmp_path, "--db", db) == [(UNFUSED, "database")]
        assert programs_of(source, tmp_path, "--schedules", text) == [(UNFUSED, "file")]
        assert programs_of(source, tmp_path, "--no-db") == [(BY_COST, "predicted")]
    assert attc("db", "check", "--db", db)[0].startswith("entries: 1,")
    assert "  program  plan unfused  " in attc("db", "list", "--db", db)[0]


def test_results_of_a_chosen_program_agree(source, db, tmp_path):
    threads = attc_json("cost", source, *D)["threads"]  # what run plans for
    attc("db", "import", "-", "--db", db, stdin=text_of(of_program(source, threads=threads)))
    results = []
    for name, *options in ("fused", "--no-db"), ("unfused", "--db", db):
        out = tmp_path / f"{name}.npy"
        attc("run", source, *D, "--threads", 1, "-o", out, *options)
        results.append(numpy.load(out))
    attc("verify", source, *D, "--db", db)
    assert not numpy.array_equal(*results)
    assert numpy.allclose(*results, rtol=1e-5, atol=1e-6)


# Three layers whose logits are added up: what several softmaxes need may be stored.
CHAIN = ROOT / "tests/variants/realformer.attn"
DECISIONS = [
    ({"plan": "unfused"}, ()), ({"wide": "again"}, ()), ({"wide": "stored"}, ()),
    ({"layout": "plain"}, ()), ({"kept": "all"}, ("--grad",)),
    ({"copies": "once"}, ()), ({"copies": "each"}, ()), ({"copies": "each"}, ("--grad",)),
    ({"plain": 1}, ()), ({"plain": 6}, ()), ({"plain": 5}, ("--grad",)),
    ({"plan": "unfused", "layout": "plain", "kept": "all"}, ("--grad",)),
    ({"wide": "stored", "layout": "plain", "kept": "all", "copies": "each"}, ("--grad",)),
]


@pytest.mark.parametrize("decision, options", DECISIONS[::4] if SANITIZED else DECISIONS)
def test_each_decision_is_right(tmp_path, decision, options):
    """Some of them make the same kernels as the default here; all of them are right."""
    text, sizes = tmp_path / "schedules.txt", ["-D", "n=29", *D[2:]]
    chosen = of_program(CHAIN, BY_COST | decision, options, sizes)
    text.write_text(text_of(chosen))
    assert program(CHAIN, "--schedules", text, *options, sizes=sizes)[:2] == (
        BY_COST | decision, "file")
    threads = attc_json("cost", CHAIN, *sizes)["threads"]  # verify plans for these
    text.write_text(text_of(chosen | {"threads": threads}))
    _, told = attc("verify", CHAIN, *sizes, "--schedules", text, *options)
    assert "none of the" not in told


def test_copies_are_stored_whatever_they_take(tmp_path):
    """Also those that tasks make by default, of more than 96 MiB."""
    core, sizes = ROOT / "tests/bench/cores/multi_head.attn", ["-D", "n=64,m=16385", *D[2:]]
    text = tmp_path / "schedules.txt"
    text.write_text(text_of(of_program(core, BY_COST | {"copies": "once"}, sizes=sizes)))
    taken = [attc_json("cost", core, *sizes, "--threads", 1, *options)["workspace_bytes"]
             for options in (["--no-db"], ["--schedules", text])]
    assert taken[0] == 0 and taken[1] >= 2 * 16385 * 12 * 64 * 4


def test_decisions_make_other_kernels():
    made = [choice["schedule"] for choice in attc_json(
        "cost", CHAIN, "-D", "n=512", *D[2:], "--space", "--threads", 1, "--grad",
        "--no-db")["programs"]["schedules"]]
    assert [{key: one[key] for key in one if one[key] != BY_COST[key]} for one in made] == [
        {}, {"plan": "unfused"}, {"wide": "again"}, {"wide": "stored"}, {"kept": "all"},
        {"layout": "plain"}, {"copies": "each"},
        {"plain": 1}, {"plain": 2}, {"plain": 4}]


def panels(source, sizes, *options):
    """How many kernels write panels."""
    return len(re.findall(r" out .*%", attc("emit", source, *sizes, "--threads", 1,
                                            "--stage", "tile", *options)[0]))


def test_values_that_lie_in_panels_are_left_out_kind_by_kind(tmp_path):
    """Keys and values of equal layers are two kinds, not two for each layer."""
    source, text = tmp_path / "layers.attn", tmp_path / "schedules.txt"
    source.write_text(
        "dim layers = 3, d = 256, h = 2, e = 64\ndef F(X[n, d]):\n    for layer in layers:\n"
        "        param A[d, h, e], B[d, h, e], C[d, h, e], D[h, e, d]\n"
        "        Q[n, h, e] = einsum(X[n, d], A[d, h, e])\n"
        "        K[n', h, e] = einsum(X[n', d], B[d, h, e])\n"
        "        V[n', h, e] = einsum(X[n', d], C[d, h, e])\n"
        "        W = softmax(einsum(Q[n, h, e], K[n', h, e] -> [n, n', h]), reduced_dim=n')\n"
        "        O[n, h, e] = einsum(W[n, n', h], V[n', h, e])\n"
        "        X = X + einsum(O[n, h, e], D[h, e, d])\n    return X\n")
    sizes = ["-D", "n=256", *D[2:]]
    made = [choice["schedule"]["plain"] for choice in attc_json(
        "cost", source, *sizes, "--space", "--threads", 1, "--no-db")["programs"]["schedules"]]
    assert [plain for plain in made if plain] == [1, 2]
    left = []
    for plain in 0, 1, 2, 3:
        text.write_text(text_of(of_program(source, BY_COST | {"plain": plain}, sizes=sizes)))
        left.append(panels(source, sizes, "--schedules", text))
    assert left == [2, 1, 1, 0]


def test_checkpoints_are_part_of_what_a_program_is(tmp_path):
    source = tmp_path / "layers.attn"
    source.write_text("dim layers = 3, d = 16\ndef F(X[n, d]):\n    for layer in layers:\n"
                      "        param W[d', d]\n        Y[n, d] = einsum(X[n, d'], W[d', d])\n"
                      "        X = X + tanh(Y)\n    return X\n")
    groups = [attc_json("cost", source, "-D", "n=64", "--space", "--grad", "--no-db",
                        *options)["programs"]["group"]
              for options in ((), ("--checkpoint", "layers"))]
    assert groups[0] != groups[1]


def test_what_takes_far_more_memory_is_not_offered(source):
    for n, offered in ("128", True), ("16384", False):
        space = attc_json("cost", source, "-D", f"n={n},m={n},e=16", *D[2:], "--space", "--threads",
                          1, "--no-db")["programs"]["schedules"]
        assert (UNFUSED in [choice["schedule"] for choice in space]) == offered


def test_the_space_of_what_is_forced(source):
    for options in (["--plan", "unfused"], ["--memory-limit", "64M"]):
        [one] = attc_json("cost", source, *D, "--space", "--threads", 1, "--no-db",
                          *options)["programs"]["schedules"]
        assert one["schedule"] == (UNFUSED if options[0] == "--plan" else BY_COST)


def test_what_the_command_line_forbids_is_not_chosen(source, db):
    attc("db", "import", "-", "--db", db, stdin=text_of(of_program(source)))
    for options in (["--no-materialize"], ["--memory-limit", "64M"], ["--plan", "resident"]):
        assert program(source, "--db", db, *options)[:2] == (BY_COST, "predicted")


def test_a_schedule_of_a_kernel_is_none_of_a_program(source, tmp_path):
    text = tmp_path / "schedules.txt"
    text.write_text(text_of(of_program(source, schedule=known(spaces(source)[0])["schedule"])))
    _, err = attc("cost", source, *D, "--threads", 1, "--schedules", text)
    assert f"{text}: the schedule of Attention (group " in err and "none that it can have" in err
    text.write_text(text_of(of_program(source, schedule=UNFUSED | {"plan": "spill"})))
    _, err = attc("cost", source, *D, "--threads", 1, "--schedules", text, status=1)
    assert ':2: schedule: "plan" has to be any or unfused' in err


def test_a_damaged_choice_is_told_of(source, db):
    two = [of_program(source), of_program(source, sizes=["-D", "n=81,m=96,e=16", *D[2:]])]
    for entries, damaged in (two[:1], "schedule; it is"), (two, "schedules; they are"):
        damage(db, entries)
        chosen, origin, _ = program(source, "--db", db)
        assert (chosen, origin) == (BY_COST, "predicted")
        _, err = attc("cost", source, *D, "--threads", 1, "--db", db)
        assert f"has {len(entries)} damaged {damaged} left out" in err


def damage(db, entries):
    """Imports what is for programs, and changes it behind attc's back."""
    attc("db", "import", "-", "--db", db, stdin=text_of(*entries))
    file = sqlite3.connect(db)
    file.execute("UPDATE schedules SET schedule = replace(schedule, 'unfused', 'any')")
    file.commit()
    file.close()


# ---- the search ----------------------------------------------------------------------------------

LONG = ["-D", "n=1024,m=1024,e=8", *D[2:]]  # where stored weights take long
BUDGET = "60s" if SANITIZED else "30s"  # of which a quarter is for programs


def test_programs_are_tried_and_dropped(source, db):
    attc("db", "import", "-", "--db", db, stdin=text_of(of_program(source, sizes=LONG)))
    assert program(source, "--db", db, sizes=LONG)[0] == UNFUSED
    found = attc_json("tune", source, *LONG, "--threads", 1, "--db", db, "--budget", BUDGET)
    [one] = found["programs"]
    assert (one["program"], one["kind"]) == ("Attention", "program")
    assert one["kept"] == (one["schedule"] != BY_COST) and one["schedule"] != UNFUSED
    ratios = {trial["schedule"]["plan"]: trial["ratio"] for trial in one["trials"]}
    assert ratios["unfused"] > 1
    assert "stream" in {kernel["kind"] for kernel in found["kernels"]}
    assert UNFUSED not in [e["schedule"] for e in entries_of(db)]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer hands out memory of its own")
def test_a_candidate_that_cannot_run_fails_alone(source, db, tmp_path, monkeypatch):
    """There is no memory for all weights: attention that is not fused compiles, and cannot run."""
    library = tmp_path / "memory.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC",
                    ROOT / "tests/commands/failing_memory.c", "-o", library], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("MEMORY_FAILS_FROM", str(80 * 96 * 3 * 4 * 3 // 2))  # there are two of them
    found = attc_json("tune", source, *D, "--threads", 1, "--db", db)
    assert found["failed"] == 1 and "out of memory" in found["failure"]
    [choice] = found["programs"]
    tried = [trial["schedule"]["plan"] for trial in choice["trials"]]
    assert tried and "unfused" not in tried
    assert any(kernel["trials"] for kernel in found["kernels"])


def test_a_known_combination_is_compared(source, db):
    both = UNFUSED | {"layout": "plain"}
    attc("db", "import", "-", "--db", db, stdin=text_of(of_program(source, both, sizes=LONG)))
    [one] = attc_json("tune", source, *LONG, "--threads", 1, "--db", db,
                      "--budget", BUDGET)["programs"]
    assert both in [trial["schedule"] for trial in one["trials"]]
    left = [e["schedule"] for e in entries_of(db) if e["schedule"]["kind"] == "program"]
    assert left == ([one["schedule"]] if one["kept"] else [])


def test_a_program_that_is_told_of_is_used(source, db):
    found = attc_json("tune", source, *D, "--threads", 1, "--db", db)
    [one] = found["programs"]
    kept = [e for e in entries_of(db) if e["schedule"]["kind"] == "program"]
    assert [e["schedule"] for e in kept] == ([one["schedule"]] if one["kept"] else [])
    assert program(source, "--db", db)[0] == one["schedule"]
    assert {trial["schedule"]["plan"] for trial in one["trials"]} == {"any", "unfused"}
    if one["kept"]:
        assert one["seconds"] <= 0.99 * one["default_seconds"] and one["by_oracle"]


@pytest.mark.parametrize("options", [["--effort", "quick"], ["--kernels", "O"]])
def test_programs_are_left_alone(source, db, options):
    """Kernels are those of the program that other commands have."""
    attc("db", "import", "-", "--db", db, stdin=text_of(of_program(source)))
    found = attc_json("tune", source, *D, "--threads", 1, "--db", db, "--budget", "3s", *options)
    assert found["programs"] == []
    assert "stream" not in {kernel["kind"] for kernel in found["kernels"]}
    assert UNFUSED in [e["schedule"] for e in entries_of(db)]
    if options[0] == "--effort":
        found = attc_json("tune", source, *D, "--threads", 1, "--db", db, "--memory-limit", "64M",
                          *options)
        assert "stream" in {kernel["kind"] for kernel in found["kernels"]}
