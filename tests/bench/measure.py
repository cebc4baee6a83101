# SPDX-License-Identifier: Apache-2.0
"""Times the cases of one number of threads, in a process of its own; run by __main__.py.

usage: measure.py SETTINGS      a JSON object, the fields of Settings

Writes one JSON object per case and part (results; or forward, backward and both) to `results`, so
that what is measured stays if a contender brings the process down. Per part: everybody computes
once and is compared with attc, then rounds of one timed run each alternate between all contenders
and the machine's peak.
"""

import dataclasses
import functools
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cases import GRADIENTS, RESULTS, aligned, every_case
from library import Library, Peak
from peers import PEERS, Task, Timed, arrange

TOLERANCE = 1e-3  # between two results, relative to the element and to the result's magnitude
SETTLE = 0.03  # seconds before every turn and the peak's, so that threads of others fall asleep
SHORT = 0.05  # a run below these seconds is timed right after one that warms caches and threads
COMPILING = 4  # times the limit: a first run beyond that is not slow for compilation alone
LONG = 2.0  # from here on one round may do


@dataclasses.dataclass
class Settings:
    attc: str
    peak: str  # library with the peak's loop
    results: str  # file of JSON lines, appended to
    threads: int
    cases: list  # names
    peers: list  # names
    rounds: int
    limit: float  # seconds; a peer that takes longer for one run is left out
    budget: float  # seconds of timed runs per case, shared by the contenders
    dynamic: list  # dims that attc does not compile in
    clock: str = "wall"  # or "cpu", see CLOCKS
    gradients: bool = False  # forward, backward and both in place of results


# The processor time of the whole process leaves out what other work on the machine took: for one
# thread that is the time it would have had alone. Of several threads it says nothing.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Skipped(Exception):
    """Why a contender does not take part; not a failure."""


class Failed(Exception):
    """What went wrong with a contender."""


class Contender:
    def __init__(self, name, timed, once):
        self.name, self.once = name, once  # once: seconds of one run
        self.run, self.before = timed.run, timed.before
        self.seconds, self.waited, self.elapsed = [], 0.0, 0.0

    def turn(self, clock=time.perf_counter):
        time.sleep(SETTLE)
        if self.once < SHORT:
            self.before()
            self.run()
        self.before()
        waited, wall, begun = seconds_waited(), time.perf_counter(), clock()
        self.run()
        self.seconds.append(clock() - begun)
        self.elapsed += time.perf_counter() - wall
        self.waited += seconds_waited() - waited

    def wanted(self, settings, share):
        """Rounds to take part in."""
        least = 3 if self.once < LONG else 1
        return int(min(max(share / self.once, least), settings.rounds))


def seconds_waited():
    """How long this thread has been ready to run while its core did something else."""
    with open("/proc/thread-self/schedstat") as file:
        return 1e-9 * int(file.read().split()[1])


# ---- who takes part ------------------------------------------------------------------------------
def available_bytes():
    with open("/proc/meminfo") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return 1024 * sizes["MemAvailable"]


def check_memory(needed):
    available = available_bytes()
    if needed > 0.7 * available:
        raise Skipped(f"needs about {needed / 2**30:.1f} GiB, {available / 2**30:.1f} are free")


def run_once(timed):
    timed.before()
    begun = time.perf_counter()
    outputs = timed.run()
    return time.perf_counter() - begun, outputs


def compare(mine, theirs):
    """Arrays by name; mine may have more."""
    for name in theirs:
        compare_arrays(name, mine[name], np.asarray(theirs[name]).reshape(mine[name].shape))


def compare_arrays(name, mine, theirs):
    floor = np.sqrt(np.mean(np.square(mine, dtype=np.float64)))
    error = np.max(np.abs(theirs - mine) / (np.abs(mine) + floor))
    if not error < TOLERANCE:
        raise Failed(f"computes another {name} than attc: relative error {error:.1e}")


def enter(name, timed, expected=None, limit=math.inf):
    """A contender that has computed the case twice: the first run may include compilation."""
    once, outputs = run_once(timed)
    if expected is not None:
        compare(expected, outputs)
    del outputs  # before memory is needed again
    if once < COMPILING * limit:
        once = run_once(timed)[0]
    if once > limit:
        raise Skipped(f"one run takes {once:.0f} s")
    return Contender(name, timed, once)


def enter_peer(peer, case, part, make, settings, peak, expected):
    """make: the peer's for a task. None when the peer cannot express the case."""
    flops = peer.flops(case, part)
    seconds = flops / (1e9 * peak)
    if seconds > settings.limit:
        raise Skipped(f"{1e-12 * flops:.1f} TFLOP, at the peak {seconds:.0f} s")
    check_memory(peer.bytes(case, part))
    made = make()
    return made and enter(peer.name, made[part], expected, settings.limit)


class Attc:
    """The functions of a case's library, as a contender of every part."""

    def __init__(self, case, settings, folder):
        parts = ("forward", "backward") if settings.gradients else RESULTS
        self.case, self.arrays = case, case.inputs()
        self.library = Library(
            settings.attc, case, settings.threads, folder, settings.dynamic, settings.gradients
        )
        self.name, shape = self.library.result()
        random = np.random.default_rng(1)
        self.cotangent = aligned(random.standard_normal(shape)) if settings.gradients else None
        self.arrays[f"d{self.name}"] = self.cotangent
        self.functions = [self.library.prepare(part, self.arrays) for part in parts]

    def enter(self, part):
        """Both is what a caller of the library does: one call after the other."""
        check_memory(max(function.workspace_bytes() for function in self.functions))
        functions = self.functions[part == "backward" : 2 if part in ("backward", "both") else 1]

        def run():
            for function in functions:
                function()

        return enter("attc", Timed(run))

    def expected(self):
        """What peers must agree with, once it was computed."""
        gradients = {name: self.arrays.get(f"d{name}") for name in self.case.shapes}
        result = self.functions[0].outputs[self.name].copy()
        if self.cotangent is None:
            return dict(result=result)
        arranged = arrange(self.case.family, gradients)
        return dict(result=result) | {f"d{name}": array.copy() for name, array in arranged.items()}


def line_of(error):
    """One line that says what an exception was about."""
    text = getattr(error, "stderr", None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0][:200]


# ---- one case ------------------------------------------------------------------------------------
class Measurement:
    """One part of a case: its contenders, and notes on those who do not take part."""

    def __init__(self, case, settings, peak, part="results"):
        self.case, self.settings, self.peak, self.part = case, settings, peak, part
        self.contenders, self.notes, self.failed = [], {}, []
        self.clock = CLOCKS[settings.clock]
        self.peaks = [peak.gflops(self.clock)]

    def attempt(self, name, enter_it):
        """Enters a contender; what keeps it out becomes a note, whatever it is."""
        try:
            contender = enter_it()
        except Skipped as reason:
            self.notes[name] = f"left out: {reason}"
        except Exception as error:
            self.notes[name] = f"failed: {line_of(error)}"
            self.failed.append(name)
        else:
            if contender:
                self.contenders.append(contender)

    def rounds(self):
        share = self.settings.budget / max(len(self.contenders), 1)
        wanted = [contender.wanted(self.settings, share) for contender in self.contenders]
        most = max(wanted, default=0)
        gc.collect()
        gc.disable()
        for i in range(most):
            time.sleep(SETTLE)
            self.peaks.append(self.peak.gflops(self.clock))
            for contender, turns in zip(self.contenders, wanted):
                if (i + 1) * turns // most > i * turns // most:  # spreads few turns over all rounds
                    contender.turn(self.clock)
        gc.enable()

    def result(self):
        times = {
            contender.name: dict(
                seconds=statistics.median(contender.seconds),
                best=min(contender.seconds),
                rounds=len(contender.seconds),
                waited=contender.waited / contender.elapsed,
            )
            for contender in self.contenders
        }
        return dict(
            case=self.case.name,
            part=self.part,
            threads=self.settings.threads,
            flops=self.case.work(self.part),
            peak_gflops=statistics.median(self.peaks),
            times=times,
            notes=self.notes,
            failed=self.failed,
        )


def open_attc(case, settings, folder):
    """None and a note when it fails."""
    try:
        return Attc(case, settings, folder), None
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return None, f"failed: {line_of(error)}"


def make_peers(case, settings, cotangent):
    """By peer, what makes it; once for all parts."""
    task = Task(case, case.inputs(), settings.threads, cotangent)
    peers = [peer for peer in PEERS if peer.name in settings.peers]
    return {peer: functools.cache(functools.partial(peer.make, task)) for peer in peers}


def measure(case, settings, peak, folder):
    """One result for each part."""
    attc, note = open_attc(case, settings, folder)
    makers = {}
    if attc or not settings.gradients:
        makers = make_peers(case, settings, attc and attc.cotangent)
    for part in GRADIENTS if settings.gradients else RESULTS:
        yield measure_part(case, part, settings, peak, attc, note, makers)
    if attc:
        attc.library.close()


def measure_part(case, part, settings, peak, attc, note, makers):
    found = Measurement(case, settings, peak, part)
    expected = None
    if attc:
        found.attempt("attc", lambda: attc.enter(part))
        expected = attc.expected() if found.contenders else None
    else:
        found.notes["attc"], found.failed = note, ["attc"]
    for peer, make in makers.items():
        enter_it = lambda: enter_peer(peer, case, part, make, settings, found.peaks[0], expected)
        found.attempt(peer.name, enter_it)
    found.rounds()
    return found.result()


def main():
    settings = Settings(**json.loads(sys.argv[1]))
    peak = Peak(settings.peak, settings.threads)
    known = {case.name: case for case in every_case()}
    with tempfile.TemporaryDirectory() as folder, open(settings.results, "a") as results:
        for name in settings.cases:
            begun = time.monotonic()
            for result in list(measure(known[name], settings, peak, Path(folder))):
                results.write(json.dumps(result) + "\n")
            results.flush()
            took = time.monotonic() - begun
            cores = f"{settings.threads} thread{'s' if settings.threads > 1 else ''}"
            print(f"  {name}, {cores}: {took:.0f} s", file=sys.stderr, flush=True)
    # Libraries with threads of their own are not asked to end them in order.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
