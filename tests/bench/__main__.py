# SPDX-License-Identifier: Apache-2.0
"""attc against its peers on the same inputs, alternating, in one run (`make bench`).

usage: python tests/bench ATTC --peak LIBPEAK [--out DIR] [--cases NAME,th-*,...] [--threads 1,2]
                          [--peers NAME,...] [--grad] [--quick] [--clock cpu] [--list]

Prints a table and writes DIR/bench.csv and DIR/bench.svg. Status 1 when a contender failed or
computed something else than attc, 2 for a wrong command line.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from cases import choose
from chart import chart
from measure import Settings
from peers import PEERS
from report import describe, table, write_csv

HERE = Path(__file__).resolve().parent
NAMES = [peer.name for peer in PEERS]


def words(text):
    return [word for word in text.split(",") if word]


def counts(text):
    numbers = [int(word) for word in words(text)]
    cores = len(os.sched_getaffinity(0))
    if not numbers or min(numbers) < 1 or max(numbers) > cores:
        raise argparse.ArgumentTypeError(f"threads are from 1 to {cores} here")
    return numbers


def peer_names(text):
    unknown = [word for word in words(text) if word not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer is called {unknown[0]}; there are: {NAMES}")
    return words(text)


def parse_options():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.split("\n")[0])
    parser.add_argument("attc")
    parser.add_argument("--peak", required=True, help="library with the peak's loop")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--cases", type=words, default=[], help="names or patterns, or 'all'")
    parser.add_argument("--threads", type=counts, default="1,2")
    parser.add_argument("--peers", type=peer_names, default=",".join(NAMES))
    grad_help = "forward, backward and both in place of results"
    parser.add_argument("--grad", action="store_true", help=grad_help)
    parser.add_argument("--quick", action="store_true", help="small cases, few rounds")
    parser.add_argument("--rounds", type=int, help="at most so many per case")
    parser.add_argument("--limit", type=float, default=6, help="longest run of a peer in seconds")
    parser.add_argument("--budget", type=float, help="seconds of timed runs per case")
    parser.add_argument("--dynamic", type=words, default=[], help="dims attc must not compile in")
    clock_help = "cpu: processor time, for a busy machine; one thread only"
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help=clock_help)
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads != [1]:
        parser.error("--clock cpu is for --threads 1")
    try:
        options.cases = choose(options.cases, options.quick, options.grad)
    except ValueError as error:
        parser.error(str(error))
    return options


def settings_of(options, threads):
    return Settings(
        attc=str(Path(options.attc).resolve()),
        peak=str(Path(options.peak).resolve()),
        results=str(options.out / f"results-{threads}.jsonl"),
        threads=threads,
        cases=[case.name for case in options.cases],
        peers=options.peers,
        rounds=options.rounds or (5 if options.quick else 15),
        limit=options.limit,
        budget=options.budget or (1.5 if options.quick else 4),
        dynamic=options.dynamic,
        clock=options.clock,
        gradients=options.grad,
    )


def read_results(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(options, threads):
    """Results for one number of threads. Libraries take it from the environment and from the cores
    the process may use when they are loaded, so each number has its own process. Where that ends
    early, the case it was at is noted and another goes on behind it."""
    settings = settings_of(options, threads)
    path = Path(settings.results)
    path.write_text("")
    env = dict(
        os.environ,
        JAX_PLATFORMS="cpu",
        TORCHINDUCTOR_CACHE_DIR=str((options.out / "inductor").resolve()),
        TORCHINDUCTOR_COMPILE_THREADS="1",
    )
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env[variable] = str(threads)
    cores = sorted(os.sched_getaffinity(0))[:threads]
    while settings.cases:
        child = subprocess.run(
            [sys.executable, HERE / "measure.py", json.dumps(asdict(settings))],
            env=env,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            stdout=sys.stderr,
        )
        done = {result["case"] for result in read_results(path)}
        settings.cases = [name for name in settings.cases if name not in done]
        if settings.cases:
            name = settings.cases.pop(0)
            note = f"failed: the process ended with status {child.returncode}"
            with open(path, "a") as file:
                lost = dict(times={}, notes={"attc": note}, failed=["attc"], flops=0, peak_gflops=0)
                lost |= dict(case=name, part="-", threads=threads)
                file.write(json.dumps(lost) + "\n")
    return read_results(path)


def main():
    options = parse_options()
    if options.list:
        print("\n".join(case.name for case in options.cases))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    for threads in options.threads:
        results += run(options, threads)
    contenders = ["attc", *options.peers]
    print(describe(options.clock), end="\n\n")
    print(table(results, contenders))
    write_csv(results, options.out / "bench.csv")
    (options.out / "bench.svg").write_text(chart(results, contenders))
    print(f"\nwritten: {options.out / 'bench.csv'} {options.out / 'bench.svg'}")
    return 1 if any(result["failed"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
