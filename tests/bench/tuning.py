# SPDX-License-Identifier: Apache-2.0
"""What attc tune finds, and how good the default schedules are (`make tuning`).

usage: python tests/bench/tuning.py ATTC [--cases NAME,layer-*,...] [--threads T] [--effort E]
           [--rounds N] [--out FILE.csv]

A line per case. Each is searched with the effort; then the default and what was found run in turns,
in processes of their own, and the ratio of their medians is told beside what the search says.
`against the best` is how much slower the default is than the best of the last comparisons, program
and kernel by kernel: they judge those that were the fastest of the search, with --effort exhaustive
of the whole space, by new runs. What ran a few times only and was the fastest of hundreds was
lucky, too.
`ranks` is the rank correlation of predicted and measured times, the mean over kernels by their
time; the least of the kernels that take a tenth of the time and more stands behind it.
"""

import argparse
import csv
import fnmatch
import json
import math
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cases import (HERE, dynamic_projections, equal, layer, multi_head, projection, talking_heads)

FIELDS = ("case", "threads", "kernels", "candidates", "search_seconds", "default_seconds",
          "speed_by_search", "speed", "default_against_best", "ranks", "least_ranks")


@dataclass(frozen=True)
class Entry:
    name: str
    source: Path
    entry: str
    extents: dict


def every_entry():
    """Cores and layers at three sizes, projections, and what stands beside attention."""
    cases = []
    for n in (128, 512, 2048):
        cases += [multi_head(12, 64, n), talking_heads(equal(12), 64, n),
                  layer("mh", 12, 64, n), layer("th", 12, 64, n)]
    cases += [dynamic_projections(12, 64, 512), projection(512, 768, 768),
              projection(64, 768, 3072)]
    yield from (Entry(case.name, case.source, case.entry, case.extents) for case in cases)
    yield Entry("feed-forward-512", HERE / "feed_forward.attn", "FeedForward",
                dict(n=512, d=768, f=3072))
    yield Entry("layer-norm-512", HERE / "layer_norm.attn", "Norm", dict(n=512, d=768))


def options_of(entry, threads):
    extents = ",".join(f"{dim}={extent}" for dim, extent in entry.extents.items())
    return [entry.source, "--entry", entry.entry, "-D", extents, "--threads", str(threads),
            "--json"]


def attc_json(attc, *words):
    run = subprocess.run([attc, *words], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def best_ratio(kernel):
    """Of its time to the default's, of the best of the last comparisons."""
    return min([1.0] + [trial["ratio"] for trial in kernel["trials"] if trial["last"]])


def summary(found):
    """(how much slower the default is than the best, mean and least rank correlation)."""
    whole = sum(kernel["default_seconds"] for kernel in found["kernels"])
    best = sum(kernel["default_seconds"] * best_ratio(kernel) for kernel in found["kernels"])
    best *= min((best_ratio(program) for program in found["programs"]), default=1)
    ranked = [kernel for kernel in found["kernels"] if kernel["rank_correlation"] is not None]
    weight = sum(kernel["default_seconds"] for kernel in ranked)
    mean = math.nan
    if ranked:
        mean = sum(k["default_seconds"] * k["rank_correlation"] for k in ranked) / weight
    large = [k["rank_correlation"] for k in ranked if k["default_seconds"] >= 0.1 * whole]
    return whole / best, mean, min(large, default=math.nan)


def compare(attc, entry, threads, database, rounds):
    """The default's median time and how many times as fast what is in the database is."""
    times = {"--no-db": [], f"--db={database}": []}
    for _ in range(rounds):
        for option, seconds in times.items():
            seconds.append(attc_json(attc, "bench", *options_of(entry, threads), option)["seconds"])
    default, tuned = (statistics.median(seconds) for seconds in times.values())
    return default, default / tuned


def measure(options, entry, folder):
    database = Path(folder) / f"{entry.name}.db"
    found = attc_json(options.attc, "tune", *options_of(entry, options.threads), "--db", database,
                      "--effort", options.effort)
    against_best, ranks, least = summary(found)
    default, speed = compare(options.attc, entry, options.threads, database, options.rounds)
    return dict(zip(FIELDS, (
        entry.name, options.threads, len(found["kernels"]), found["candidates"], found["seconds"],
        default, found["speed"], speed, against_best, ranks, least)))


def choose(patterns):
    entries = list(every_entry())
    return [entry for entry in entries
            if not patterns or any(fnmatch.fnmatchcase(entry.name, p) for p in patterns)]


def line(row):
    return (f"{row['case']:22} {1e3 * row['default_seconds']:10.3f} ms {row['candidates']:6} "
            f"{row['search_seconds']:7.0f} s {row['speed_by_search']:9.3f}x {row['speed']:8.3f}x "
            f"{100 * row['default_against_best'] - 100:8.1f}% {row['ranks']:7.2f} "
            f"{row['least_ranks']:6.2f}")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("attc")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="a CSV file")
    options = parser.parse_args()
    entries = choose(options.cases)
    if not entries:
        names = ", ".join(entry.name for entry in every_entry())
        parser.error(f"no case is called {','.join(options.cases)}: there are {names}")
    print(f"{'case':22} {'default':>13} {'tried':>6} {'search':>9} {'by search':>10} {'speed':>9} "
          f"{'against best':>9} {'ranks':>4} {'least':>6}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries:
            rows.append(measure(options, entry, folder))
            print(line(rows[-1]), flush=True)
    print(f"geometric mean of the speed {geometric_mean([row['speed'] for row in rows]):.3f}x, the "
          f"least {min(row['speed'] for row in rows):.3f}x")
    if options.out:
        with open(options.out, "w", newline="") as out:
            writer = csv.DictWriter(out, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
