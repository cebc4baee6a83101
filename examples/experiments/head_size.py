# SPDX-License-Identifier: Apache-2.0
"""Should the size of a head be d / h, or stay what it is when there are more heads?"""

from heads import HEADS
from report import Line, chart, mean_of, write_csv
from tasks import WIDTH, Recall, Text

FIXED = 32
COLUMNS = "task", "rule", "heads", "head_size", "parameters", "seed", "loss"


def run(lab, results):
    jobs = [(task, rule, heads, seed) for task in (Text(lab.folder), Recall(lab.folder))
            for heads in HEADS for rule in ("d / h", "fixed") for seed in lab.seeds]

    def one(job):
        task, rule, heads, seed = job
        size = FIXED if rule == "fixed" else WIDTH // heads
        done = lab.train(task.model(heads, size), seed, task.steps, task.options())
        return task.name, rule, heads, size, done.parameters, seed, done.loss

    table = lab.all(one, jobs)
    write_csv(results / "head_size.csv", COLUMNS, table)
    for task in (Text, Recall):
        lines = [Line(f"head size {rule if rule != 'fixed' else FIXED}",
                      {heads: [row[-1] for row in table if row[:3] == (task.name, rule, heads)]
                       for heads in HEADS}) for rule in ("d / h", "fixed")]
        chart(results / f"head_size_{task.name}.svg", lines, "heads", task.unit,
              log=task is Recall)
    return mean_of(table, COLUMNS, ("task", "rule", "heads", "head_size", "parameters"))
