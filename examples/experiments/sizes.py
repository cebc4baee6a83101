# SPDX-License-Identifier: Apache-2.0
"""The sizes of "Attention is all you need" side by side: what they cost, how they begin to learn.

Vaswani et al. 2017, table 3: base, rows (C), big. Ids are bytes, in place of 37000 pieces of words.
"""

from lab import HERE, Model
from report import mean_of, write_csv
from tasks import Text

SOURCE = HERE.parent / "transformer.attn"
SIZES = {
    "base": "",
    "2 layers": "layers=2",
    "4 layers": "layers=4",
    "8 layers": "layers=8",
    "d 256": "d=256,d_k=32",
    "d 1024": "d=1024,d_k=128",
    "d_ff 1024": "d_ff=1024",
    "d_ff 4096": "d_ff=4096",
    "big": "d=1024,d_ff=4096,h=16,d_k=64",
}
STEPS, BATCH, THREADS = 40, 4, 2
LENGTHS = "n=64,m=32"
COLUMNS = "size", "parameters", "seed", "step_seconds", "peak_gib", "loss"


def run(lab, results):
    text = Text(lab.folder)
    options = [*text.data(), "--batch", BATCH, "--lr", 0.0003, "--schedule", "inverse-sqrt",
               "--warmup", 20, "--optimizer", "adam:beta_2=0.98", "--held-out", 0.002]
    table = []
    for size, extents in SIZES.items():
        model = Model(SOURCE, f"{extents},{LENGTHS}" if extents else LENGTHS)
        for seed in lab.seeds:
            run = lab.train(model, seed, STEPS, options, THREADS)
            gib = run.peak_bytes / 2**30
            table.append((size, run.parameters, seed, run.step_seconds, gib, run.loss))
    write_csv(results / "sizes.csv", COLUMNS, table)
    return mean_of(table, COLUMNS)
