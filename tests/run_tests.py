# SPDX-License-Identifier: Apache-2.0
"""Runs every test suite and ends with the line "N passed, N failed".

usage: run_tests.py BUILD [--sanitized BUILD_SAN] [SUITE ...]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Tests at a time; no machine has fewer than two cores, and each may want a GiB. One more than there
# are cores: some wait for a signal, a budget or a core of their own.
WORKERS = min(max(len(os.sched_getaffinity(0)), 2) + 1, 8)
TAP = re.compile(r"^(ok|not ok) \d+ - (.*)$", re.M)


class Tally:
    """Counts of one run, and what failed."""

    def __init__(self):
        self.passed, self.failed, self.skipped, self.names = 0, 0, 0, []

    def fail(self, name):
        self.failed += 1
        self.names.append(name)

    def ran(self):
        return self.passed + self.failed + self.skipped


def environment(build):
    env = dict(
        os.environ,
        ATTC_BUILD=str(build),
        ATTC=str(build / "attc"),
        ATTC_ROOT=str(ROOT),
        ATTC_PYTHON=sys.executable,
        ATTC_CACHE=str(build / "cache"),
        ATTC_DB=str(build / "no schedules.db"),
        # Plans must not depend on what was measured on the machine that runs the tests.
        ATTC_MACHINE=str(ROOT / "tests" / "machines" / "avx512.json"),
    )
    env.setdefault("ATTC_FILECHECK", "FileCheck-19")
    # Running out of memory is attc's to report, in sanitizer builds as well. Of freed memory 16 MiB
    # are kept from use: fresh memory is what takes their time.
    env.setdefault("ASAN_OPTIONS", "allocator_may_return_null=1:quarantine_size_mb=16")
    env["PYTHONPATH"] = str(ROOT / "tests")
    return env


def run_cmocka(program, *options):
    """One cmocka program, to its end."""
    env = dict(environment(program.parent.parent), CMOCKA_MESSAGE_OUTPUT="TAP")
    return subprocess.run(
        [program, *options], env=env, cwd=ROOT, capture_output=True, text=True, errors="replace"
    )


def count_cmocka(program, run, tally):
    """Each test of a cmocka program counts."""
    results = TAP.findall(run.stdout)
    tally.passed += sum(1 for status, _ in results if status == "ok")
    for status, name in results:
        if status != "ok":
            tally.fail(f"{program.name}: {name}")
    if run.returncode and not any(status != "ok" for status, _ in results) or not results:
        tally.fail(f"{program.name}: exit status {run.returncode}")
    if run.returncode:
        print(run.stdout[-4000:], run.stderr[-4000:], sep="\n")


def unit(build, tally):
    """cmocka programs, one on each core."""
    programs = sorted((build / "unit").glob("*_test"))
    with ThreadPoolExecutor(WORKERS) as pool:
        for program, run in zip(programs, pool.map(run_cmocka, programs)):
            count_cmocka(program, run, tally)


def accuracy(build, tally, every=1):
    """Errors of the vector functions over all float32 inputs, on every level of this machine."""
    program = build / "unit" / "vmath_test"
    count_cmocka(program, run_cmocka(program, "--every", str(every)), tally)


def golden(build, tally):
    """lit tests."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        lit = Path(sys.executable).parent / "lit"
        subprocess.run(
            [lit, "-q", "-v", f"-j{WORKERS}", "-o", report.name, ROOT / "tests"],
            env=environment(build),
            cwd=ROOT,
        )
        tests = json.loads(Path(report.name).read_text())["tests"]
    for test in tests:
        if test["code"] in ("PASS", "XFAIL"):
            tally.passed += 1
        else:
            tally.fail(test["name"])


def pytest(build, tally, folder, *options):
    """Python tests of one folder."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        run = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                f"-n{WORKERS}",
                "-p",
                "no:cacheprovider",
                f"--junitxml={report.name}",
                *options,
                ROOT / "tests" / folder,
            ],
            env=environment(build),
            cwd=ROOT,
        )
        text = Path(report.name).read_text()
    if not text:
        tally.fail(f"{folder}: pytest ended with {run.returncode}")
        return
    for case in xml.fromstring(text).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            tally.fail(f"{case.get('classname')}.{case.get('name')}")
        elif "skipped" in kinds:
            tally.skipped += 1
        else:
            tally.passed += 1


def fuzz(build, tally):
    """The corpora of the fuzz targets, through their harnesses."""
    for program in sorted((build / "fuzz").glob("*_replay")):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / program.name.removesuffix("_replay")
        run = subprocess.run([program, corpus], capture_output=True, text=True, errors="replace")
        if run.returncode:
            tally.fail(f"{program.name}: {run.stdout[-500:]}{run.stderr[-2000:]}")
        else:
            tally.passed += 1


def lint(build, tally):
    """House rules."""
    run = subprocess.run([sys.executable, ROOT / "tests" / "tools" / "lint.py", build], cwd=ROOT)
    if run.returncode:
        tally.fail("lint")
    else:
        tally.passed += 1


SUITES = {
    "lint": lint,
    "unit": unit,
    "accuracy": accuracy,
    "fuzz": fuzz,
    "golden": golden,
    "numeric": lambda build, tally: pytest(build, tally, "numeric"),
    "variants": lambda build, tally: pytest(build, tally, "variants"),
    "commands": lambda build, tally: pytest(build, tally, "commands"),
    "products": lambda build, tally: pytest(build, tally, "products"),
    "bench": lambda build, tally: pytest(build, tally, "bench"),
    "random": lambda build, tally: pytest(build, tally, "random"),
}
# What a sanitizer build runs: all that exercises the compiler and the runtime themselves.
SANITIZED = ("unit", "fuzz", "golden", "commands")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--sanitized", type=Path)
    parser.add_argument("suites", nargs="*")
    args = parser.parse_args()
    tally = Tally()
    suites = dict(SUITES)
    if not args.suites:
        suites["accuracy"] = lambda build, tally: accuracy(build, tally, every=11)
    plan = [(name, args.build) for name in args.suites or suites]
    if args.sanitized:
        plan += [(name, args.sanitized) for name in SANITIZED]
    for name, build in plan:
        begun, before, ran = time.time(), (tally.passed, tally.failed), tally.ran()
        suites[name](build.resolve(), tally)
        if tally.ran() == ran:  # nothing was built, or nothing found
            tally.fail(f"{name} ({build}): nothing ran")
        print(
            f"-- {name} ({build}): {tally.passed - before[0]} passed, "
            f"{tally.failed - before[1]} failed in {time.time() - begun:.0f} s",
            flush=True,
        )
    for name in tally.names:
        print(f"FAILED {name}")
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{skipped}")
    return tally.failed != 0 or tally.passed == 0


if __name__ == "__main__":
    sys.exit(main())
