# SPDX-License-Identifier: Apache-2.0
"""Kinds of models, with several numbers of heads each, in both tasks: a table and two charts."""

from report import Line, chart, mean_of, write_csv
from tasks import TASKS


def compare(lab, results, name, kind, kinds, heads, model, across="heads"):
    """`kinds`: names, and what charts call them; model(task, kind, heads): head size and model.

    What differs is called `kind` in the table; `across` is the column along which charts go.
    """
    columns = ("task", kind, "heads", "head_size", "parameters", "seed", "loss")
    jobs = [(task(lab.folder), which, count, seed) for task in TASKS
            for count in heads for which in kinds for seed in lab.seeds]

    def one(job):
        task, which, count, seed = job
        size, made = model(task, which, count)
        run = lab.train(made, seed, task.steps, task.options())
        return task.name, which, count, size, run.parameters, seed, run.loss

    table = lab.all(one, jobs)
    write_csv(results / f"{name}.csv", columns, table)
    for task in TASKS:
        lines = []
        for which, title in kinds.items():
            line = Line(title)
            for row in table:
                if row[:2] == (task.name, which):
                    line.add(row[columns.index(across)], row[-1])
            lines.append(line)
        chart(results / f"{name}_{task.name}.svg", lines, across.replace("_", " "), task.unit,
              task.spread)
    return mean_of(table, columns)
