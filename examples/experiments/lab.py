# SPDX-License-Identifier: Apache-2.0
"""Programs that attc builds, and runs of them, two at a time, each with one thread.

What was built or run stays in the folder of the lab and is not made again, so that experiments that
were ended go on where they were, and experiments share what they have in common.
"""

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from models import with_attention  # noqa: E402


@dataclass(frozen=True)
class Model:
    """An example with other extents (`h=4,d_k=32`), another attention, words replaced."""

    source: Path
    extents: str
    attention: str = ""
    replaced: tuple = ()

    def text(self):
        text = self.source.read_text()
        if self.attention:
            text = with_attention(text, self.attention)
        for old, new in self.replaced:
            if old not in text:
                sys.exit(f"{self.source}: has no '{old}'")
            text = text.replace(old, new)
        return text

    def name(self):
        key = sha256(repr((self.text(), self.extents)).encode()).hexdigest()[:8]
        extents = self.extents.replace("=", "")
        return "-".join(filter(None, (self.source.stem, self.attention, extents, key)))


@dataclass(frozen=True)
class Run:
    """What training left: the loss of what was held out, in nats, and where the checkpoint is."""

    folder: Path
    loss: float
    step_seconds: float
    parameters: int
    peak_bytes: int


class Lab:
    def __init__(self, attc, folder, seeds, steps, workers=2):
        """`steps`: at most so many in each run, or None."""
        self.attc, self.folder, self.steps, self.workers = attc, folder, steps, workers
        self.seeds = range(seeds)
        self.locks = defaultdict(Lock)  # for each path, so that what two want is made once
        folder.mkdir(parents=True, exist_ok=True)

    def all(self, function, *lists):
        """The results of calls, in order, some at a time."""
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(function, *lists))

    def build(self, model, threads=1):
        program = self.folder / f"{model.name()}-t{threads}"
        with self.locks[program]:
            if not program.exists():
                source = program.with_name(program.name + ".attn")
                source.write_text(model.text())
                call(self.attc, "build", source, "--entry", "Loss", "--exe", "-D", model.extents,
                     "--threads", threads, "-o", program)
        return program

    def train(self, model, seed, steps, options, threads=1):
        """Trains for some steps, of the last of which what was held out is evaluated as a whole."""
        steps = min(steps, self.steps or steps)
        key = sha256(repr((steps, list(map(str, options)))).encode()).hexdigest()[:8]
        folder = self.folder / f"{model.name()}-t{threads}-{key}-seed{seed}"
        with self.locks[folder]:
            if not (folder / "run.json").exists():
                self.train_anew(folder, self.build(model, threads), [
                    *options, "--steps", steps, "--seed", seed, "--threads", threads,
                    "--eval-every", steps, "--eval-batches", 0, "--save-every", 0])
        return Run(folder, **json.loads((folder / "run.json").read_text()))

    def train_anew(self, folder, program, options):
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was ended
        begun = time.time()
        peak = call(program, "train", *options, "--out", folder)
        info = json.loads(output(program, "info", "--json"))
        steps = rows(folder / "log.csv")
        (folder / "run.json").write_text(json.dumps({
            "loss": float(rows(folder / "eval.csv")[-1]["loss"]),
            "step_seconds": statistics.median(float(step["seconds"]) for step in steps),
            "parameters": info["parameters"],
            "peak_bytes": peak,
        }))
        print(f"{folder.name}: {len(steps)} steps in {time.time() - begun:.0f} s", file=sys.stderr)


def call(*words):
    """Runs a command to its end; the largest size that it had, in bytes."""
    words = [str(word) for word in words]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(words)}\n{told}")
    return usage.ru_maxrss * 1024


def output(*words):
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    return done.stdout


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
