# SPDX-License-Identifier: Apache-2.0
"""`attc tune --calibrate`: rates of this machine, fitted to what `attc tune` measured on it.

Most measurements here are made up, from rates that are to be found again."""

import ctypes
import json
import os
import sqlite3
import struct
import subprocess

import pytest

from attc import ATTC, MACHINES, attc
from schedules import NONE

SOURCE = """dim d = 32
def F(X[n, d], P[d, e], R[e, d]):
    H[n, e] = exp(einsum(X[n, d], P[d, e]))
    return einsum(H[n, e], R[e, d] -> [n, d])
"""
TARGET = ["--target", "x86-64-v3"]  # which every machine runs
ONE = [*TARGET, "--threads", "1"]
RATES = ["flops_per_second", "l2_bytes_per_second", "l3_bytes_per_second",
         "memory_bytes_per_second"]
TAKEN = [40e9, 64e9, 32e9, 8e9]   # what the machine is taken for at first
REAL = [60e9, 64e9, 32e9, 14e9]   # and what it is
DATE = "2026-11-24T19:00:00Z"
COUNTS_VERSION = 14


class World:
    """A folder with a cache, a database and a source; attc plans for one machine in it, whatever
    was measured of this one."""

    def __init__(self, folder):
        self.folder, self.db = folder, folder / "schedules.db"
        self.source = folder / "f.attn"
        self.source.write_text(SOURCE)
        self.env = {name: value for name, value in os.environ.items()
                    if name not in ("ATTC_MACHINE", "ATTC_DB")}
        self.env["ATTC_CACHE"] = str(folder / "cache")
        self.machine()
        (path,) = (folder / "cache").glob("machine-*.json")
        facts = json.loads((MACHINES / "avx512.json").read_text()) | dict(zip(RATES, TAKEN))
        path.write_text(json.dumps(facts | {"vector_bytes": 32, "name": "Some CPU"}))

    def run(self, *command, status=0, **environment):
        run = subprocess.run([ATTC, *map(str, command)], capture_output=True, text=True,
                             env=self.env | environment)
        assert run.returncode == status, run.stdout + run.stderr
        return run

    def attc(self, *command, status=0, **environment):
        run = self.run(*command, status=status, **environment)
        return run.stdout if status == 0 else run.stderr

    def machine(self, *options):
        return json.loads(self.attc("machine", *(options or ONE)))

    def calibrate(self, *options, **others):
        return self.attc("tune", "--calibrate", *ONE, "--db", self.db, *options, **others)

    def rows(self, sql, *parameters):
        with sqlite3.connect(self.db) as database:
            rows = database.execute(sql, parameters).fetchall()
        database.commit()
        database.close()
        return rows

    def put(self, number, cycles, from_memory, seconds, target="x86-64-v3",
            version=COUNTS_VERSION):
        """A measurement: arithmetic that waits for nothing, then bytes without arithmetic."""
        counts = {"waited": 1, "outside": [0, 0], "cycles": cycles,
                  "stages": [[0, 0, 0, from_memory, 0, 0, 0]]}
        columns = [version, f"{number % 3:016x}", "5", target, "Some CPU", 1, "Y",
                   json.dumps(NONE | {"kind": "tasks", "tasks": number + 1, "step_points": 0,
                                      "rows": 0}),
                   json.dumps(counts), seconds, DATE]
        columns.append(checksum(columns))
        marks = ", ".join("?" * len(columns))
        self.rows("INSERT INTO measurements (version, group_id, extents, target, machine, threads, "
                  f"name, schedule, counts, seconds, date, checksum) VALUES ({marks})", *columns)


def checksum(columns):
    """XXH3 of one after the other, each seeded with what is there so far."""
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t,
                                                    ctypes.c_uint64]
    value = 0
    for column in columns:
        data = (column.encode() if isinstance(column, str)
                else struct.pack("<d" if isinstance(column, float) else "<q", column))
        value = xxh3(data, len(data), value)
    return ctypes.c_int64(value).value


@pytest.fixture
def measured(tmp_path):
    world = World(tmp_path)
    text = tmp_path / "none.txt"
    text.write_text('{"attc_schedules": 1, "schedule_version": 4}\n')
    world.attc("db", "import", text, "--db", world.db)
    cycle, memory = 4 * 8 / REAL[0], REAL[3]
    for i in range(30):
        cycles, from_memory = 1e6 * (1 + i * 7 % 11), 8e6 * (1 + i * 5 % 13)
        noise = 1 + 0.04 * (i * 3 % 5 / 2 - 1)
        world.put(i, cycles, from_memory, (cycles * cycle + from_memory / memory) * noise)
    world.put(40, 1e6, 1e6, 1.0, target="x86-64-v4")
    world.put(41, 1e6, 1e6, 1.0, version=COUNTS_VERSION - 1)
    return world


def test_tune_keeps_measurements(tmp_path):
    world = World(tmp_path)
    for _ in range(2):  # the second time in the place of the first
        world.attc("tune", world.source, "-D", "n=96,e=256", *ONE, "--effort=quick", "--db",
                   world.db)
    rows = world.rows("SELECT target, machine, threads, name, schedule, counts, seconds "
                      "FROM measurements")
    assert 4 < len(rows) <= 48 and len({row[4] for row in rows}) == len(rows)
    for target, machine, threads, name, schedule, counts, seconds in rows:
        assert (target, machine, threads) == ("x86-64-v3", "Some CPU", 1)
        assert name and 1e-8 < seconds < 1
        counts = json.loads(counts)
        assert set(counts) == {"waited", "outside", "cycles", "stages"} and counts["waited"] == 1
        cycles = counts["cycles"] + sum(stage[0] for stage in counts["stages"])
        copies = json.loads(schedule)["kind"] == "tasks"  # of programs that keep P in another order
        assert cycles > (32 * 256 / 8 if copies else 96 * 256 * 32 / 16)
    assert world.attc("db", "check", "--db", world.db).endswith(
        f"measurements: {len(rows)}\nrates: 0\n")


def test_rates_are_fitted_and_used(measured):
    before = measured.machine(*ONE, "--db", measured.db)
    assert [before[name] for name in RATES] == TAKEN
    told = json.loads(measured.calibrate("--json"))
    assert (told["database"], told["machine"], told["target"], told["threads"]) == (
        str(measured.db), "Some CPU", "x86-64-v3", 1)
    assert (told["measurements"], told["kernels"], told["ranked_kernels"]) == (30, 3, 3)
    assert told["kept"]
    assert told["mean_error"]["after"] < 0.04 < 0.3 < told["mean_error"]["before"]
    assert 0.9 < told["rank_correlation"]["before"] - 0.02 < told["rank_correlation"]["after"] <= 1
    assert 0.9 < told["rank_correlation_of_all"]["after"] <= 1
    after = measured.machine(*ONE, "--db", measured.db)
    for name, taken, real in zip(RATES, TAKEN, REAL):
        assert told["rates"][name]["before"] == taken
        assert told["rates"][name]["after"] == pytest.approx(after[name])
        assert after[name] == (taken if taken == real else pytest.approx(real, rel=0.05))
    flops, splats = (after[name] / before[name] for name in (RATES[0], "splats_per_second"))
    assert splats == pytest.approx(flops)  # a cycle has as many
    others = [name for name in before if name not in (*RATES, "splats_per_second")]
    assert [after[name] for name in others] == [before[name] for name in others]
    # A second time there is nothing better.
    again = json.loads(measured.calibrate("--json"))
    assert not again["kept"] and measured.machine(*ONE, "--db", measured.db) == after


def test_where_fitted_rates_are_used(measured):
    before = measured.machine()
    measured.calibrate()
    file = measured.folder / "machine.json"
    file.write_text(json.dumps(before))
    db = ["--db", measured.db]
    assert measured.machine(*ONE, *db) != before
    assert json.loads(measured.attc("machine", *ONE, ATTC_DB=str(measured.db))) != before
    assert measured.machine(*ONE, "--no-db") == before
    assert measured.machine(*ONE, *db, "--machine", file) == before
    assert measured.machine(*TARGET, *db, "--threads", 2)["flops_per_second"] == TAKEN[0]
    cost = ["cost", measured.source, "-D", "n=96,e=256", *ONE, "--json"]
    seconds = [sum(kernel["predicted_seconds"]
                   for kernel in json.loads(measured.attc(*cost, *options))["kernels"])
               for options in (["--no-db"], db)]
    assert seconds[1] < 0.9 * seconds[0]


def test_what_is_told(measured):
    out = measured.calibrate()
    for words in ("rate of a core", "arithmetic, Gflop/s", "memory, GB/s", "mean error",
                  "rank correlation, mean of 3 kernels", "rank correlation of all",
                  "30 measurements of 3 kernels, Some CPU for x86-64-v3, threads: 1",
                  "these rates are used from now on"):
        assert words in out
    assert "nothing was changed" in measured.calibrate()


def test_damaged_rates_are_not_used(measured):
    before = measured.machine()
    measured.calibrate()
    measured.rows("UPDATE rates SET flops = flops / 2")
    assert measured.machine(*ONE, "--db", measured.db) == before
    told = measured.run("machine", *ONE, "--db", measured.db).stderr
    assert f"{measured.db} has 1 damaged rate; it is left out" in told
    assert "has a damaged row of rates" in measured.attc("db", "check", "--db", measured.db,
                                                        status=1)
    measured.rows("UPDATE measurements SET seconds = seconds / 2 WHERE id > 12")
    assert "has 12 measurements of" in measured.calibrate(status=1)
    assert ("measurements removed: 20, left: 12\nrates removed: 1, left: 0\n"
            in measured.attc("db", "prune", "--db", measured.db))


def test_too_few_measurements(measured, tmp_path):
    for options in (["--db", tmp_path / "none.db"], ["--threads", 7, "--db", measured.db]):
        err = measured.attc("tune", "--calibrate", *TARGET, *options, status=1)
        assert "has 0 measurements of" in err and "a fit takes 16: attc tune FILE" in err
    assert not (tmp_path / "none.db").exists()


def test_another_machine_is_not_calibrated(measured):
    file = measured.folder / "other.json"
    file.write_text("{}")
    err = measured.calibrate(status=1, ATTC_MACHINE=str(file))
    assert "this machine is what is calibrated, and ATTC_MACHINE names another" in err


BAD = [
    (["f.attn"], "tune --calibrate: takes no source file\n"),
    (["-D", "n=3"], "tune --calibrate: takes no -D\n"),
    (["--effort=quick"], "tune --calibrate: takes no --effort\n"),
    (["--budget=3s"], "tune --calibrate: takes no --budget\n"),
    (["--machine=x"], "tune --calibrate: takes no --machine\n"),
    (["--seed=3"], "tune --calibrate: takes no --seed\n"),
    (["-o", "x.svg"], "tune --calibrate: takes no -o\n"),
    (["--no-db"], "takes no --no-db\n"),
]


@pytest.mark.parametrize("options, message", BAD)
def test_wrong_command_line(options, message):
    out, err = attc("tune", "--calibrate", *options, status=2)
    assert message in err and out == ""
