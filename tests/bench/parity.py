# SPDX-License-Identifier: Apache-2.0
"""The first losses of programs that train against those of PyTorch, from the same weights and data.

usage: python tests/bench/parity.py ATTC [--steps 50] [--models lm,bert,t5]

A batch is the whole data set, so that it is the same in every step. Prints the largest relative
difference for each model and optimizer; status 1 where it is above 1e-4.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from models_torch import TWINS
from programs import build, tensors, train

LIMIT = 1e-4
EXAMPLES = 4
EXTENTS = {
    "lm": dict(layers=2, d=64, d_ff=128, h=4, d_k=16, n=64),
    "bert": dict(layers=2, d=64, d_ff=128, h=4, d_k=16, n=64),
    "t5": dict(layers=2, d=64, d_ff=128, h=4, d_k=16, n=64, m=16),
}
class Adafactor:
    """Shazeer, Stern 2018, with the numbers of torch.optim.Adafactor, which factors the last two
    dims alone: here each tensor is a matrix, of its dims cut in two where the sum of both sides is
    least (language 8.5)."""

    def __init__(self, weights, rate):
        self.weights, self.rate, self.step_number = weights, rate, 0
        self.states = []
        for weight in weights:
            r, c = as_matrix(weight.shape)
            self.states.append((torch.zeros(r), torch.zeros(c)))

    def zero_grad(self):
        for weight in self.weights:
            weight.grad = None

    @torch.no_grad()
    def step(self):
        self.step_number += 1
        share = self.step_number**-0.8
        epsilon = torch.finfo(torch.float32).eps
        for weight, (row, column) in zip(self.weights, self.states):
            gradient = weight.grad.reshape(len(row), len(column))
            row.lerp_((gradient**2).mean(1), share)
            column.lerp_((gradient**2).mean(0), share)
            if len(row) == 1:
                square = column[None]
            else:
                square = torch.outer(row, column) / row.mean().clamp(min=epsilon)
            update = gradient * square.clamp(min=epsilon**2).rsqrt()
            rms = lambda x: float((x * x).mean().sqrt())
            rate = max(1e-3, rms(weight)) * min(self.rate, self.step_number**-0.5)
            weight -= (rate / max(1.0, rms(update)) * update).view(weight.shape)


def adamw(weights, rate):
    """Tensors of fewer than two dims do not decay."""
    matrices = dict(params=[w for w in weights if w.ndim > 1], weight_decay=0.01)
    others = dict(params=[w for w in weights if w.ndim < 2], weight_decay=0.0)
    return torch.optim.AdamW([matrices, others], lr=rate)


OPTIMIZERS = {"adamw": (1e-3, adamw), "adafactor": (1e-2, Adafactor)}


def as_matrix(shape):
    cuts = [(int(np.prod(shape[:i])), int(np.prod(shape[i:]))) for i in range(len(shape))]
    return min(cuts, key=sum) if len(shape) > 1 else (1, int(np.prod(shape)))


def batch(model, extents):
    """Data of a fixed seed by the names of the entry, where labels of -1 are not asked for."""
    random = np.random.default_rng(3)
    ids = lambda dim: random.integers(0, 256, (EXAMPLES, extents[dim])).astype(np.int32)
    if model == "lm":
        return dict(tokens=ids("n"), labels=ids("n"))
    names = ("masked",) if model == "bert" else ("source", "target")
    data = {name: ids(dim) for name, dim in zip(names, "nm")}
    labels = ids("n" if model == "bert" else "m")
    labels[random.random(labels.shape) < 0.3] = -1
    return data | dict(labels=labels)


def peer_losses(model, start, data, optimizer, rate, steps):
    leaves = {name: torch.from_numpy(array).requires_grad_() for name, array in start.items()}
    rule = OPTIMIZERS[optimizer][1](list(leaves.values()), rate)
    given = {name: torch.from_numpy(array).long() for name, array in data.items()}
    losses = []
    for _ in range(steps):
        rule.zero_grad()
        loss = TWINS[model](given, leaves)
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return np.array(losses)


def difference(program, model, data, optimizer, steps, folder):
    """The largest one of all steps, relative to PyTorch's losses."""
    rate = OPTIMIZERS[optimizer][0]
    files = []
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
        files.append(f"{name}={folder / name}.npy")
    options = ["--data", *files, "--batch", EXAMPLES, "--optimizer", optimizer, "--lr", rate]
    options += ["--schedule", "constant", "--warmup", 0, "--clip", 0, "--held-out", 0]
    train(program, folder / f"first-{optimizer}", 0, *options)
    start = tensors(folder / f"first-{optimizer}" / "step-00000000.safetensors")
    start = {name: array for name, array in start.items() if not name.startswith("optimizer.")}
    rows = train(program, folder / optimizer, steps, *options)
    losses = np.array([row["loss"] for row in rows])
    expected = peer_losses(model, start, data, optimizer, rate, steps)
    print(f"{model} {optimizer}: {expected[0]:.6f} .. {expected[-1]:.6f}", end=", ")
    return float(np.abs(losses / expected - 1).max())


def main():
    parser = argparse.ArgumentParser(prog="parity", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("attc")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--models", default=",".join(EXTENTS))
    options = parser.parse_args()
    worst = 0.0
    for model in options.models.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program = build(options.attc, model, EXTENTS[model], folder)
            data = batch(model, EXTENTS[model])
            for optimizer in OPTIMIZERS:
                found = difference(program, model, data, optimizer, options.steps, folder)
                print(f"largest relative difference {found:.1e}", flush=True)
                worst = max(worst, found)
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
