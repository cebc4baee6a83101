# SPDX-License-Identifier: Apache-2.0
"""Steps of training examples/lm.attn, forward, backward and AdamW, against PyTorch's.

usage: python tests/bench/training.py ATTC --peak LIBPEAK [--threads 1] [--rounds 5] [--steps 4]
                                      [--peers eager,compile] [-D layers=2,n=128]

Contenders train in turn, each round for some steps, of which the first is not counted; the peak is
measured between. Prints medians. PyTorch's attention is scaled_dot_product_attention, its optimizer
the fused AdamW.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from library import Peak
from models_torch import TWINS
from programs import build, tensors, train

BATCH = 8


def data_options(folder):
    """Bytes of a fixed seed as a text to train on."""
    path = folder / "text"
    path.write_bytes(np.random.default_rng(1).integers(32, 127, 1 << 18).astype(np.uint8))
    options = ["--data", path, "--batch", BATCH, "--held-out", 0, "--eval-every", 0, "--clip", 0]
    return [*options, "--schedule", "constant", "--warmup", 0]


class Program:
    """Trains anew in each round; its log has the time of each step."""

    def __init__(self, attc, extents, folder, talking, threads):
        self.program = build(attc, "lm", extents, folder, talking, threads)
        self.options = [*data_options(folder), "--threads", threads]
        self.folders = (folder / f"{self.program.name}-{i}" for i in itertools.count())

    def weights(self):
        out = next(self.folders)
        train(self.program, out, 0, *self.options)
        found = tensors(out / "step-00000000.safetensors")
        return {name: t for name, t in found.items() if not name.startswith("optimizer.")}

    def steps(self, count):
        rows = train(self.program, next(self.folders), count, *self.options)
        return [row["seconds"] for row in rows]


class Peer:
    """PyTorch over the same tensors, eager or compiled."""

    def __init__(self, weights, positions, threads, compiled):
        torch.set_num_threads(threads)
        copies = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
        self.leaves = {name: copy.requires_grad_() for name, copy in copies.items()}
        self.rule = torch.optim.AdamW(self.leaves.values(), lr=1e-3, fused=True)
        self.loss = torch.compile(TWINS["lm"], dynamic=False) if compiled else TWINS["lm"]
        ids = torch.randint(32, 127, (BATCH, positions + 1))
        self.data = dict(tokens=ids[:, :-1].contiguous(), labels=ids[:, 1:].contiguous())

    def step(self):
        self.rule.zero_grad()
        self.loss(self.data, self.leaves).backward()
        self.rule.step()

    def steps(self, count):
        seconds = []
        for _ in range(count):
            begun = time.perf_counter()
            self.step()
            seconds.append(time.perf_counter() - begun)
        return seconds


def work(attc, source, extents):
    """Flops of a step's einsums: what the gradients need, each value once, nothing masked."""
    options = ["-D", ",".join(f"{d}={e}" for d, e in (extents | dict(b=BATCH)).items())]
    words = [attc, "cost", source, "--entry", "Loss", "--grad", "--json", *options]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    cost = json.loads(printed)
    return 2 * (cost["multiplies"] - cost["masked_multiplies"])


def measure(options, talking, folder):
    attc = Program(options.attc, options.extents, folder, talking, options.threads)
    weights = attc.weights()
    contenders = {"attc": attc}
    for name in options.peers:
        positions = weights["position"].shape[0]
        contenders[name] = Peer(weights, positions, options.threads, name == "compile")
    times, rates = {name: [] for name in contenders}, []
    peak = Peak(options.peak, options.threads)
    for _ in range(options.rounds):
        for name, contender in contenders.items():
            rates.append(peak.gflops())
            times[name] += contender.steps(options.steps + 1)[1:]
    flops = work(options.attc, attc.program.with_suffix(".attn"), options.extents)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in medians.items():
        share = flops / seconds / 1e9 / statistics.median(rates)
        row = f"{seconds * 1e3:8.1f} ms  {share:4.0%} of the peak  {seconds / medians['attc']:.2f}x"
        print(f"{'talking heads' if talking else 'multi-head':<14} {name:<8} {row}", flush=True)


def extents_of(text):
    pairs = [word.split("=") for word in text.split(",") if word]
    return {dim: int(extent) for dim, extent in pairs}


def main():
    about = __doc__.split("\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(prog="training", description=about)
    parser.add_argument("attc")
    parser.add_argument("--peak", required=True, help="library with the peak's loop")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    peers = lambda text: [word for word in text.split(",") if word]
    parser.add_argument("--peers", type=peers, default="eager,compile")
    parser.add_argument("-D", dest="extents", type=extents_of, default="layers=6", metavar="DIM=N")
    options = parser.parse_args()
    for talking in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            measure(options, talking, Path(folder))


if __name__ == "__main__":
    main()
