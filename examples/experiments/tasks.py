# SPDX-License-Identifier: Apache-2.0
"""What models learn here: to go on with a text, and to recall."""

import sysconfig
from pathlib import Path

import numpy as np

from lab import HERE, Model

WIDTH = 128
HELD_OUT = "--held-out", 0.05


class Text:
    """Modules of Python's standard library, as bytes, in a language model of two layers."""

    name, unit, spread = "text", "nats per byte of text that was held out", "linear"
    steps = 400
    size = 1 << 20

    def __init__(self, folder):
        self.path = folder / "text"
        if not self.path.exists():
            modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
            text = b"".join(path.read_bytes() for path in modules)
            self.path.write_bytes(text[: self.size])

    def model(self, heads, head_size, attention="MultiHead", d_ff=4 * WIDTH, replaced=()):
        extents = f"layers=2,d={WIDTH},d_ff={d_ff},h={heads},d_k={head_size},n=128"
        return Model(HERE.parent / "lm.attn", extents, attention, replaced)

    def data(self):
        return ["--data", self.path]

    def options(self):
        return [*self.data(), "--batch", 16, "--lr", 0.003, "--warmup", 50, *HELD_OUT]


class Recall:
    """64 positions hold a key of 256 and a value of 64; 32 queries ask for values."""

    name, unit, spread = "recall", "nats per query that was held out", "log"
    steps = 1000
    examples, positions, queries, keys, values = 40000, 64, 32, 256, 64

    def __init__(self, folder):
        self.paths = {name: folder / f"{name}.npy" for name in ("key", "value", "query", "labels")}
        if not all(path.exists() for path in self.paths.values()):
            for name, array in self.draw(np.random.default_rng(1)).items():
                np.save(self.paths[name], array)

    def draw(self, random):
        """Arrays [examples, positions] of keys, each once, and values; [examples, queries] of keys
        that are there, and their values."""
        order = random.random((self.examples, self.keys)).argsort(axis=1)
        key = order[:, : self.positions].astype(np.int32)
        value = random.integers(self.values, size=key.shape, dtype=np.int32)
        asked = random.integers(self.positions, size=(self.examples, self.queries))
        return {"key": key, "value": value, "query": np.take_along_axis(key, asked, 1),
                "labels": np.take_along_axis(value, asked, 1)}

    def model(self, heads, head_size, attention="MultiHead", d_ff=4 * WIDTH, replaced=()):
        extents = f"d={WIDTH},d_ff={d_ff},h={heads},d_k={head_size}"
        return Model(HERE / "recall.attn", extents, attention, replaced)

    def options(self):
        data = ["--data", *(f"{name}={path}" for name, path in self.paths.items())]
        return [*data, "--batch", 32, "--lr", 0.001, "--warmup", 50, *HELD_OUT]


TASKS = Text, Recall
