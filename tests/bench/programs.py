# SPDX-License-Identifier: Apache-2.0
"""Programs that train, made by attc: built, run for some steps, and what they leave read."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
sys.path.append(str(EXAMPLES))
from models import with_attention  # noqa: E402



def build(attc, name, extents, folder, talking=False, threads=1):
    """The program of an example; with `talking` all of its attention is talking heads."""
    source = folder / f"{name}{'-talking' * talking}.attn"
    text = (EXAMPLES / f"{name}.attn").read_text()
    source.write_text(with_attention(text, "TalkingHeads") if talking else text)
    program = source.with_suffix("")
    options = ["-D", ",".join(f"{dim}={extent}" for dim, extent in extents.items())]
    options += ["--threads", str(threads)]
    words = [attc, "build", source, "--entry", "Loss", "--exe", *options, "-o", program]
    subprocess.run(words, check=True)
    return program


def train(program, out, steps, *options):
    """Trains in a new folder; the rows of its log."""
    words = [program, "train", "--steps", str(steps), "--out", out, *map(str, options)]
    subprocess.run(words, check=True, capture_output=True, text=True)
    if not steps:
        return []
    with open(out / "log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{name: float(cell or 0) for name, cell in row.items()} for row in rows]


def tensors(path):
    """The f32 tensors of a checkpoint by their names."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, about in header.items():
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        found[name] = np.frombuffer(data[begin:end], np.float32).reshape(about["shape"]).copy()
    return found
