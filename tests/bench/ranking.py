# SPDX-License-Identifier: Apache-2.0
"""How well the cost model ranks schedules: those of each core, predicted and measured
(`make ranking`).

usage: python tests/bench/ranking.py ATTC [--cases NAME,th-*,...] [--count N] [--threads T]

For each case N schedules of its attention kernel, drawn from the space that the compiler searches,
are measured as shares of the peak that is measured in between. A line per case: Spearman's rank
correlation of predicted and measured times, the compiler's choice against the best one found, and
that one's name for --plan.
"""

import argparse
import json
import random
import re
import subprocess

from cases import HERE, choose

STREAM = HERE.parent.parent / "compiler" / "tile" / "schedule" / "stream.c"
PLANS = ["resident", "stream", "two-pass", "spill"]


def searched(name):
    """An array of the compiler's search."""
    numbers = re.search(rf"\b{name}\[\] = {{([\d, ]+)}};", STREAM.read_text())
    return [int(number) for number in numbers[1].split(",")]


def space(case):
    """All that the compiler searches, by its names for --plan and in its order."""
    rows = [n for n in searched("row_counts") if n <= case.extents["n"]]
    pieces = [m for m in searched("pieces") if m < case.extents["m"]] + [case.extents["m"]]
    for plan in PLANS:
        for n in rows:
            if plan == "resident":
                yield f"{plan}:{n}"
            else:
                yield from (f"{plan}:{n}:{m}" for m in pieces)


def measure(attc, case, threads, plan=None):
    """(predicted seconds, flops of the peak in the time taken) of the attention kernel; None where
    the plan does not fit."""
    extents = ",".join(f"{dim}={extent}" for dim, extent in case.extents.items())
    command = [attc, "bench", case.source, "--entry", case.entry, "-D", extents, "--json"]
    command += ["--threads", str(threads)] + (["--plan", plan] if plan else [])
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        assert "does not fit" in run.stderr, run.stderr
        return None
    report = json.loads(run.stdout)
    kernel = max(report["kernels"], key=lambda k: k["seconds"])
    return kernel["predicted_seconds"], kernel["seconds"] * report["peak_gflops"] * 1e9


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0] * len(values)
    for place, i in enumerate(order):
        places[i] = place
    return places


def spearman(pairs):
    """Spearman, "The proof and measurement of association between two things" (1904)."""
    a, b = (ranks(column) for column in zip(*pairs))
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("attc")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=["*h-12x64-512"])
    parser.add_argument("--count", type=int, default=40, help="schedules of a case")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="every schedule, too")
    options = parser.parse_args()
    print("case                    schedules  rank correlation  default against best  best")
    for case in choose(options.cases, False):
        plans = list(space(case))
        random.Random(0).shuffle(plans)
        found = {}
        for plan in plans:
            if len(found) == options.count:
                break
            pair = measure(options.attc, case, options.threads, plan)
            if pair:
                found[plan] = pair
                if options.list:
                    line = f"  {plan:20} {pair[0] * 1e3:9.3f} ms {pair[1] / 1e9:9.3f} GFLOP"
                    print(line, flush=True)
        best = min(found, key=lambda plan: found[plan][1])
        time = lambda plan: measure(options.attc, case, options.threads, plan)
        pairs = [(time(None), time(best)) for _ in range(3)]
        ratio = sorted(default[1] / other[1] for default, other in pairs)[1]
        correlation = spearman(found.values())
        line = f"{case.name:23} {len(found):9} {correlation:17.2f} {ratio:20.2f}x  {best}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
