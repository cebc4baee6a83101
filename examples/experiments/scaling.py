# SPDX-License-Identifier: Apache-2.0
"""Does it matter that logits are divided by sqrt(d_k)?"""

from report import Line, chart, mean_of, write_csv
from tasks import WIDTH, Recall, Text

HEADS = 1, 4, 16
SCALE = " / sqrt(d_k)\n"
COLUMNS = "task", "scaled", "heads", "head_size", "seed", "loss"


def run(lab, results):
    jobs = [(task, scaled, heads, seed) for task in (Text(lab.folder), Recall(lab.folder))
            for heads in HEADS for scaled in ("yes", "no") for seed in lab.seeds]

    def one(job):
        task, scaled, heads, seed = job
        replaced = () if scaled == "yes" else ((SCALE, "\n"),)
        model = task.model(heads, WIDTH // heads, replaced=replaced)
        loss = lab.train(model, seed, task.steps, task.options()).loss
        return task.name, scaled, heads, WIDTH // heads, seed, loss

    table = lab.all(one, jobs)
    write_csv(results / "scaling.csv", COLUMNS, table)
    for task in (Text, Recall):
        lines = [Line(f"{'with' if scaled == 'yes' else 'without'} 1 / sqrt(d_k)",
                      {WIDTH // heads: [row[-1] for row in table
                                        if row[:3] == (task.name, scaled, heads)]
                       for heads in HEADS}) for scaled in ("yes", "no")]
        chart(results / f"scaling_{task.name}.svg", lines, "head size d_k", task.unit,
              log=task is Recall)
    return mean_of(table, COLUMNS, ("task", "scaled", "heads", "head_size"))
