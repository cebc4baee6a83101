# SPDX-License-Identifier: Apache-2.0
"""Tables and charts of experiments: means over seeds, from the smallest to the largest of them."""

import csv
import statistics
from dataclasses import dataclass, field

STYLE = {"svg.hashsalt": "attc", "svg.fonttype": "none", "axes.spines.top": False,
         "axes.spines.right": False, "figure.figsize": (6, 3.6)}


@dataclass
class Line:
    """What was measured at each place of the horizontal axis, a number for each seed."""

    name: str
    runs: dict = field(default_factory=dict)

    def add(self, place, measured):
        self.runs.setdefault(place, []).append(measured)


def chart(path, lines, across, up, scale="linear"):
    """Lines through the means; a bar from the smallest to the largest of the seeds."""
    import matplotlib  # not where it loads: numbers are to be had without it
    import matplotlib.pyplot as plt

    matplotlib.use("svg")
    plt.rcParams.update(STYLE)
    figure, axes = plt.subplots()
    places = list(lines[0].runs)
    for line in lines:
        mean = [statistics.fmean(line.runs[place]) for place in places]
        below = [m - min(line.runs[place]) for m, place in zip(mean, places)]
        above = [max(line.runs[place]) - m for m, place in zip(mean, places)]
        axes.errorbar(places, mean, yerr=[below, above], label=line.name, marker="o", capsize=3)
    if min(places) > 0 and max(places) >= 4 * min(places):
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, labels=[f"{place:g}" for place in places])
    axes.set_yscale(scale)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend(frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def write_csv(path, columns, table):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(table)


def mean_of(table, columns):
    """Markdown: a line for each value of the columns before `seed`; of those behind it, mean,
    smallest and largest of the seeds."""
    seed = columns.index("seed")
    groups = {}
    for row in table:
        groups.setdefault(tuple(row[:seed]), []).append(row[seed + 1 :])
    names = [*columns[:seed], *columns[seed + 1 :]]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for key, group in groups.items():
        cells = [f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in key]
        for values in zip(*group):
            spread = f" ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.4g}{spread}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
