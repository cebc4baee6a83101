# SPDX-License-Identifier: Apache-2.0
"""Do more heads help, and does it help that they talk? Heads of d / h, parameters equal."""

from report import Line, mean_of, chart, write_csv
from tasks import WIDTH, Recall, Text

HEADS = 4, 8, 16, 32
ATTENTIONS = "MultiHead", "TalkingHeads"
COLUMNS = "task", "attention", "heads", "head_size", "d_ff", "parameters", "seed", "loss"


def hidden(attention, heads):
    """d_ff that makes up for two mixing matrices of a layer: a hidden value has 2 d + 1 numbers."""
    mixing = 2 * heads * heads if attention == "TalkingHeads" else 0
    return 4 * WIDTH - round(mixing / (2 * WIDTH + 1))


def run(lab, results):
    jobs = [(task, attention, heads, seed)
            for task in (Text(lab.folder), Recall(lab.folder))
            for heads in HEADS for attention in ATTENTIONS for seed in lab.seeds]

    def one(job):
        task, attention, heads, seed = job
        d_ff = hidden(attention, heads)
        model = task.model(heads, WIDTH // heads, attention, d_ff)
        done = lab.train(model, seed, task.steps, task.options())
        return (task.name, attention, heads, WIDTH // heads, d_ff, done.parameters, seed, done.loss)

    table = lab.all(one, jobs)
    write_csv(results / "heads.csv", COLUMNS, table)
    for task in (Text, Recall):
        lines = []
        for attention in ATTENTIONS:
            runs = {heads: [row[-1] for row in table if row[:3] == (task.name, attention, heads)]
                    for heads in HEADS}
            lines.append(Line(attention, runs))
        chart(results / f"heads_{task.name}.svg", lines, "heads of d / h", task.unit,
              log=task is Recall)
    return mean_of(table, COLUMNS, ("task", "attention", "heads", "parameters"))
