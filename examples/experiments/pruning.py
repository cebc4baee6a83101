# SPDX-License-Identifier: Apache-2.0
"""How many heads can be taken from a trained model, the least important first?"""

import json

from heads import ATTENTIONS, hidden
from lab import call, output
from report import Line, chart, mean_of, write_csv
from tasks import WIDTH, Text

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
    told = json.loads(output(program, "eval", *task.data(), "--weights", weights, "--held-out",
                             0.05, "--threads", 1, "--json"))
    return json.loads(output(program, "info", "--json"))["parameters"], told["loss"]


def run(lab, results):
    task = Text(lab.folder)
    jobs = [(attention, heads, seed, eighths) for heads in HEADS for attention in ATTENTIONS
            for seed in lab.seeds for eighths in EIGHTHS]

    def one(job):
        attention, heads, seed, eighths = job
        model = task.model(heads, WIDTH // heads, attention, hidden(attention, heads))
        done = lab.train(model, seed, task.steps, task.options())
        parameters, loss = pruned_loss(lab, task, done, lab.build(model), eighths)
        return attention, heads, eighths / 8, parameters, seed, loss

    table = lab.all(one, jobs)
    write_csv(results / "pruning.csv", COLUMNS, table)
    lines = [Line(f"{attention}, {heads} heads",
                  {eighths / 8: [row[-1] for row in table
                                 if row[:3] == (attention, heads, eighths / 8)]
                   for eighths in EIGHTHS}) for attention in ATTENTIONS for heads in HEADS]
    chart(results / "pruning.svg", lines, "share of heads that are taken out", Text.unit)
    return mean_of(table, COLUMNS, ("attention", "heads", "pruned", "parameters"))
