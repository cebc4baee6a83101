# SPDX-License-Identifier: Apache-2.0
"""Which attention weights can one head have? The low-rank bottleneck itself.

With d_k >= n: let X[n, d] have a right inverse R[d, n], X R = 1. Keys 1 (P_k = R) and queries
sqrt(d_k) log(target) (P_q = R sqrt(d_k) log(target)) make the logits log(target), and softmax the
target, whatever it is. With d_k < n the logits have rank d_k, and each row has one number to spare:
a target is within reach if log(target) is of rank d_k but for a number that is added to each row.
Bhojanapalli et al. 2020, "Low-Rank Bottleneck in Multi-head Attention Models", theorem 1.
"""

import json

import numpy as np

from lab import HERE, Model, output
from report import Line, chart, mean_of, write_csv

SIZES = 1, 2, 4, 8, 16, 24, 31, 32, 48
POSITIONS, WIDTH = 32, 64
STEPS = 40000
SPREAD = 2.0  # of the logits of what is to be learned
COLUMNS = "head_size", "how", "seed", "divergence", "largest_error"


def draw(seed):
    """X[n, d], and weights[n, n'] whose logits are of full rank."""
    random = np.random.default_rng(seed)
    logits = SPREAD * random.standard_normal((POSITIONS, POSITIONS))
    weights = np.exp(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
    return random.standard_normal((POSITIONS, WIDTH)), weights


def data(lab, seed):
    return ["--data", *(f"{name}={lab.folder / name}{seed}.npy" for name in ("X", "target"))]


def write_data(lab, seed):
    for name, array in zip(("X", "target"), draw(seed)):
        np.save(lab.folder / f"{name}{seed}.npy", array[None].astype(np.float32))


def constructed(lab, size, seed):
    """Divergence and largest error with the weights of the theorem, in single precision."""
    X, target = draw(seed)
    inverse = np.linalg.pinv(X)
    room = ((0, 0), (0, size - POSITIONS))
    tensors = {"X": X, "P_k": np.pad(inverse, room),
               "P_q": np.pad(inverse @ (np.sqrt(size) * np.log(target)), room)}
    words = [lab.attc, "run", HERE / "rank.attn", "--entry", "Weights", "-D", f"d_k={size}"]
    paths = {name: lab.folder / f"rank{size}-{seed}-{name}.npy" for name in [*tensors, "W"]}
    for name, array in tensors.items():
        np.save(paths[name], array.astype(np.float32))
        words.append(f"{name}={paths[name]}")
    output(*words, "-o", f"W={paths['W']}")
    W = np.load(paths["W"]).astype(np.float64)
    divergence = (target * np.log(target / W)).sum(axis=1).mean()
    return divergence, np.abs(W - target).max()


def fitted(lab, size, seed):
    """The same after training."""
    files = data(lab, seed)
    model = Model(HERE / "rank.attn", f"d_k={size}")
    options = [*files, "--batch", 1, "--lr", 0.01, "--clip", 0, "--optimizer", "adam",
               "--held-out", 0, "--eval-data", *files[1:]]
    run = lab.train(model, seed, STEPS, options)
    told = json.loads(output(lab.build(model), "eval", *files, "--batch", 1, "--weights",
                             run.folder / "latest", "--threads", 1, "--json"))
    return told["loss"], told["error"]


def run(lab, results):
    for seed in lab.seeds:
        write_data(lab, seed)
    jobs = [(size, how, seed) for size in SIZES for how in (constructed, fitted)
            for seed in lab.seeds if how is fitted or size >= POSITIONS]

    def one(job):
        size, how, seed = job
        return (size, how.__name__, seed, *how(lab, size, seed))

    table = lab.all(one, jobs)
    write_csv(results / "rank.csv", COLUMNS, table)
    line = Line("divergence of a row, in nats, after training")
    for size, how, _, divergence, _ in table:
        if how == "fitted":
            line.add(size, divergence)
    chart(results / "rank.svg", [line], f"head size d_k, of {POSITIONS} positions", "nats", "log")
    return mean_of(table, COLUMNS)
