# SPDX-License-Identifier: Apache-2.0
"""Small experiments with attention, each with three seeds: tables, and charts as SVG.

usage: python examples/experiments ATTC [NAME...] [--out FOLDER] [--results FOLDER] [--seeds N]
                                        [--steps N]
Names: heads, head_size, scaling, pruning, rank, sizes; without any, all of them, in about an hour
on two cores. What an experiment found is printed, and in the folder of results; programs and
checkpoints stay in the other folder, and are not made again.
"""

import argparse
import importlib
from pathlib import Path

from lab import Lab

NAMES = "heads", "head_size", "scaling", "pruning", "rank", "sizes"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("attc", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="at most so many in each run")
    options = parser.parse_intermixed_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"there is no experiment '{name}': there are {', '.join(NAMES)}")
    lab = Lab(options.attc.resolve(), options.out.resolve(), options.seeds, options.steps)
    results = options.results or options.out / "results"
    results.mkdir(parents=True, exist_ok=True)
    for name in options.names or NAMES:
        table = importlib.import_module(name).run(lab, results)
        (results / f"{name}.md").write_text(table + "\n")
        print(f"{name}\n\n{table}\n", flush=True)


if __name__ == "__main__":
    main()
