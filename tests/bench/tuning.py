# SPDX-License-Identifier: Apache-2.0
"""What attc tune finds, and how good the default schedules are (`make tuning`).

usage: python tests/bench/tuning.py ATTC [--cases NAME,layer-*,...] [--threads T] [--effort E]
           [--rounds N] [--searches N] [--out FILE.csv]

A line per case. Each is searched with the effort; then the default and what was found run in turns,
in processes of their own, and the ratio of their medians is told beside what the search says.
`against the best` is how much slower the default is than the best of the last comparisons, program
and kernel by kernel: they judge those that were the fastest of the search, with --effort exhaustive
of the whole space, by new runs. What ran a few times only and was the fastest of hundreds was
lucky, too: with more than one search the others judge it.
`ranks` is the rank correlation of predicted and measured times (medians of the searches), the mean
over kernels by their time, of schedules with the default blocks (as in attc tune, which counts the
default itself, too); the least of the kernels that take a tenth of the time and more stands behind
it, and behind that the rank correlation of the times of any two searches: where schedules are
equally fast to what two runs differ in, no prediction ranks them better than they do. `blocks` is
that of all that was tried: other blocks are tried of the fastest schedules only, which are as fast
to some percent.
"""

import argparse
import csv
import fnmatch
import itertools
import json
import math
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cases import (HERE, dynamic_projections, equal, layer, multi_head, projection, talking_heads)

FIELDS = ("case", "threads", "kernels", "candidates", "search_seconds", "default_seconds",
          "speed_by_search", "speed", "default_against_best", "ranks", "least_ranks",
          "ranks_of_searches", "ranks_with_blocks")
LEAST_RANKED = 5  # of fewer schedules the order says nothing; as in attc tune


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


def by_group(searches, kind):
    """What each search found of a kernel (or program): {(group, extents): [found, ...]}."""
    groups = {}
    for search in searches:
        for found in search[kind]:
            groups.setdefault((found["group"], found["extents"]), []).append(found)
    return groups.values()


def medians(found):
    """{schedule: its time to the default's}."""
    return {json.dumps(trial["schedule"]): trial["median"] for trial in found["trials"]}


def best_ratio(group):
    """Of its time to the default's, of the fastest of a search's last comparisons as the other
    searches measured it, where they tried it: the fastest of many was lucky, too."""
    found = []
    for i, search in enumerate(group):
        last = [trial for trial in search["trials"] if trial["last"]]
        best = min(last, key=lambda trial: trial["ratio"], default=None)
        if best is None:
            found.append(1.0)
            continue
        schedule = json.dumps(best["schedule"])
        others = [medians(other) for k, other in enumerate(group) if k != i]
        again = [other[schedule] for other in others if schedule in other]
        found.append(min(1.0, statistics.median(again or [best["ratio"]])))
    return statistics.median(found)


def places(values):
    """Of each in the order by size; equal ones share the mean of theirs."""
    values = np.array(values)
    return [((values < v).sum() + (values <= v).sum()) / 2 for v in values]


def rank_correlation(a, b):
    return float(np.corrcoef(places(a), places(b))[0, 1])


def ranks_of(group, blocks=False):
    """(of predicted and median measured times, of the times of any two searches) over what all
    searches tried; blocks: with those whose blocks are not the default ones."""
    tried = [medians(search) for search in group]
    predicted = {json.dumps(trial["schedule"]): trial["predicted_seconds"]
                 for trial in group[0]["trials"] if blocks or trial["default_blocks"]}
    schedules = [s for s in predicted if predicted[s] and all(s in search for search in tried)]
    if len(schedules) < LEAST_RANKED:
        return math.nan, math.nan
    times = [[search[s] for s in schedules] for search in tried]
    pairs = [rank_correlation(a, b) for a, b in itertools.combinations(times, 2)]
    ranks = rank_correlation([predicted[s] for s in schedules], np.median(times, axis=0))
    return ranks, statistics.mean(pairs) if pairs else math.nan


def mean(values, weights):
    """Of those that are numbers."""
    known = ~np.isnan(values)
    return np.average(values[known], weights=np.array(weights)[known]) if known.any() else math.nan


def summary(searches):
    """(how much slower the default is than the best, mean and least rank correlation, that of
    searches with each other, the mean with all blocks)."""
    kernels = by_group(searches, "kernels")
    times = [sum(found["default_seconds"] for found in group) for group in kernels]
    best = np.dot(times, [best_ratio(group) for group in kernels])
    best *= min(map(best_ratio, by_group(searches, "programs")), default=1)
    ranks = np.array([ranks_of(group) for group in kernels])
    least = min((r for r, t in zip(ranks[:, 0], times) if t >= 0.1 * sum(times) and r == r),
                default=math.nan)
    with_blocks = np.array([ranks_of(group, blocks=True)[0] for group in kernels])
    return (sum(times) / best, mean(ranks[:, 0], times), least, mean(ranks[:, 1], times),
            mean(with_blocks, times))


def compare(attc, entry, threads, databases, rounds):
    """The default's median time and how many times as fast what is in a database is."""
    times = {"--no-db": []} | {f"--db={database}": [] for database in databases}
    for _ in range(rounds):
        for option, seconds in times.items():
            seconds.append(attc_json(attc, "bench", *options_of(entry, threads), option)["seconds"])
    default, *tuned = map(statistics.median, times.values())
    return default, default / statistics.median(tuned)


def measure(options, entry, folder):
    databases = [Path(folder) / f"{entry.name}-{i}.db" for i in range(options.searches)]
    searches = [attc_json(options.attc, "tune", *options_of(entry, options.threads), "--db",
                          database, "--effort", options.effort) for database in databases]
    default, speed = compare(options.attc, entry, options.threads, databases, options.rounds)
    median = lambda field: statistics.median(found[field] for found in searches)
    return dict(zip(FIELDS, (
        entry.name, options.threads, len(searches[-1]["kernels"]), median("candidates"),
        median("seconds"), default, median("speed"), speed, *summary(searches))))


def choose(patterns):
    entries = list(every_entry())
    return [entry for entry in entries
            if not patterns or any(fnmatch.fnmatchcase(entry.name, p) for p in patterns)]


def line(row):
    return (f"{row['case']:22} {1e3 * row['default_seconds']:10.3f} ms {row['candidates']:6.0f} "
            f"{row['search_seconds']:7.0f} s {row['speed_by_search']:9.3f}x {row['speed']:8.3f}x "
            f"{100 * row['default_against_best'] - 100:8.1f}% {row['ranks']:7.2f} "
            f"{row['least_ranks']:6.2f} {row['ranks_of_searches']:6.2f} "
            f"{row['ranks_with_blocks']:6.2f}")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("attc")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--searches", type=int, default=1, help="of each case, with new databases")
    parser.add_argument("--out", help="a CSV file")
    options = parser.parse_args()
    entries = choose(options.cases)
    if not entries:
        names = ", ".join(entry.name for entry in every_entry())
        parser.error(f"no case is called {','.join(options.cases)}: there are {names}")
    print(f"{'case':22} {'default':>13} {'tried':>6} {'search':>9} {'by search':>10} {'speed':>9} "
          f"{'against best':>9} {'ranks':>4} {'least':>6} {'again':>6} {'blocks':>6}")
    rows = []
    with (tempfile.TemporaryDirectory() as folder,
          open(options.out or os.devnull, "w", newline="") as out):
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for entry in entries:
            rows.append(measure(options, entry, folder))
            print(line(rows[-1]), flush=True)
            writer.writerow(rows[-1])
            out.flush()
    print(f"geometric mean of the speed {geometric_mean([row['speed'] for row in rows]):.3f}x, the "
          f"least {min(row['speed'] for row in rows):.3f}x")


if __name__ == "__main__":
    main()
