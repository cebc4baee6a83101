# SPDX-License-Identifier: Apache-2.0
"""How many heads can be taken from a trained model, the least important first?"""

import json

from heads import ATTENTIONS, model
from lab import call, output
from report import Line, chart, mean_of, write_csv
from tasks import HELD_OUT, Text

HEADS = 8, 16
EIGHTHS = range(8)
COLUMNS = "attention", "heads", "pruned", "parameters", "seed", "loss"


def pruned_loss(lab, task, run, program, eighths):
    """Parameters and loss of the model without so many eighths of the heads of each attention."""
    if eighths:
        base = run.folder / f"pruned{eighths}"
        weights, source = base.with_suffix(".safetensors"), base.with_suffix(".attn")
        call(program, "heads", *task.data(), "--weights", run.folder / "latest", "--prune",
             eighths / 8, "--out", weights, "--source", source, "--threads", 1)
        call(lab.attc, "build", source, "--entry", "Loss", "--exe", "--threads", 1, "-o", base)
        program = base
    else:
        weights = run.folder / "latest"
    told = json.loads(output(program, "eval", *task.data(), "--weights", weights, *HELD_OUT,
                             "--threads", 1, "--json"))
    return json.loads(output(program, "info", "--json"))["parameters"], told["loss"]


def run(lab, results):
    task = Text(lab.folder)
    jobs = [(attention, heads, seed, eighths) for heads in HEADS for attention in ATTENTIONS
            for seed in lab.seeds for eighths in EIGHTHS]

    def one(job):
        attention, heads, seed, eighths = job
        _, whole = model(task, attention, heads)
        done = lab.train(whole, seed, task.steps, task.options())
        parameters, loss = pruned_loss(lab, task, done, lab.build(whole), eighths)
        return attention, heads, eighths / 8, parameters, seed, loss

    table = lab.all(one, jobs)
    write_csv(results / "pruning.csv", COLUMNS, table)
    lines = {}
    for attention, heads, share, _, _, loss in table:
        title = f"{ATTENTIONS[attention]}, {heads} heads"
        lines.setdefault(title, Line(title)).add(share, loss)
    chart(results / "pruning.svg", list(lines.values()), "share of heads that are taken out",
          task.unit)
    return mean_of(table, COLUMNS)
