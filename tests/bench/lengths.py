# SPDX-License-Identifier: Apache-2.0
"""How even one library is over lengths that it was not compiled for (`make lengths`).

usage: python tests/bench/lengths.py ATTC [--cases mh,causal-mh,th,causal-th] [--threads T]
           [--rounds N] [--least N] [--most N] [--count N] [--out FILE.csv]

The core of every case is built once, with queries and memory as run-time extents. Then all lengths
run in turns, and the median time of each is compared with what the lengths beside it let expect:
the line between them in logarithms. The first and the last have one neighbour and are not judged.
"""

import argparse
import csv
import math
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cases import equal, multi_head, talking_heads
from library import Library

CORES = {
    "mh": lambda n: multi_head(12, 64, n),
    "causal-mh": lambda n: multi_head(12, 64, n, causal=True),
    "th": lambda n: talking_heads(equal(12), 64, n),
    "causal-th": lambda n: talking_heads(equal(12), 64, n, causal=True),
}
FIELDS = ("case", "threads", "length", "seconds", "expected_seconds")
LIMIT = 0.1  # of what is expected
SHORTEST_TURN = 0.002  # seconds of one turn: shorter runs are repeated in it


def lengths(least, most, count):
    """About `count` whole numbers from least to most, at equal ratios."""
    step = (most / least) ** (1 / (count - 1))
    return sorted({round(least * step**i) for i in range(count)})


def expected(lengths, seconds):
    """What the neighbours of each length let expect, by length; none for the ends."""
    found = {}
    for before, here, after in zip(lengths, lengths[1:], lengths[2:]):
        part = math.log(here / before) / math.log(after / before)
        ratio = seconds[after] / seconds[before]
        found[here] = seconds[before] * ratio**part
    return found


def turn(function, once):
    """Seconds of one run, the mean of as many as a turn takes."""
    runs = max(1, math.ceil(SHORTEST_TURN / once))
    begun = time.perf_counter()
    for _ in range(runs):
        function()
    return (time.perf_counter() - begun) / runs


def measure(options, core, chosen, folder):
    """The median seconds of each length, all of them from one library."""
    case = CORES[core](512)  # what run-time extents are planned for where nothing is told
    library = Library(options.attc, replace(case, name=core), options.threads, folder, ("n", "m"))
    functions = {}
    for n in chosen:
        here = CORES[core](n)
        functions[n] = library.prepare("results", here.inputs(), here.extents)
    once = {n: min(turn(function, math.inf) for _ in range(2)) for n, function in functions.items()}
    seconds = {n: [] for n in chosen}
    for _ in range(options.rounds):
        for n, function in functions.items():
            seconds[n].append(turn(function, once[n]))
    library.close()
    return {n: statistics.median(times) for n, times in seconds.items()}


def report(core, seconds, expectations):
    """Lines to print: how many are within the limit, and those that are not."""
    off = {n: seconds[n] / wanted - 1 for n, wanted in expectations.items()}
    within = sum(abs(share) <= LIMIT for share in off.values())
    slower = max(off, key=off.get)
    yield (f"{core}: {within} of {len(off)} lengths within {LIMIT:.0%} of their neighbours, by the "
           f"median {statistics.median(map(abs, off.values())):.1%}; the slowest {slower}: "
           f"{off[slower]:+.1%}")
    for n, share in off.items():
        if abs(share) > LIMIT:
            yield f"    {n}: {1e3 * seconds[n]:.3f} ms, {share:+.1%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("attc")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CORES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--least", type=int, default=48)
    parser.add_argument("--most", type=int, default=1500)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--out", help="a CSV file")
    options = parser.parse_args()
    unknown = set(options.cases) - set(CORES)
    if unknown:
        parser.error(f"no case is called {', '.join(unknown)}; there are {', '.join(CORES)}")
    chosen = lengths(options.least, options.most, options.count)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for core in options.cases:
            seconds = measure(options, core, chosen, Path(folder))
            expectations = expected(chosen, seconds)
            print(*report(core, seconds, expectations), sep="\n", flush=True)
            rows += [(core, options.threads, n, seconds[n], expectations.get(n)) for n in chosen]
    if options.out:
        with open(options.out, "w", newline="") as out:
            csv.writer(out).writerows([FIELDS, *rows])


if __name__ == "__main__":
    main()
