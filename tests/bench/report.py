# SPDX-License-Identifier: Apache-2.0
"""Results as a table and as CSV. A result is what measure.py writes for a case."""

import csv
from importlib.metadata import version

WAITED_NOTABLE = 0.05  # share of a contender's time that its thread waited for a core
HEADER = (
    "case",
    "part",
    "threads",
    "contender",
    "seconds",
    "best_seconds",
    "rounds",
    "waited_share",
    "ratio_to_attc",
    "gflops",
    "share_of_peak",
    "peak_gflops",
    "note",
)


def describe(clock):
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "jax", "numpy"))
    return f"{models[0] if models else 'unknown processor'}; {versions}; {clock} time"


def label(result):
    """The case, and the part where there is more than one."""
    return result["case"] + ("" if result["part"] == "results" else f" {result['part']}")


def share(result, name):
    """Useful work of a contender as a share of the peak, or None."""
    if name not in result["times"]:
        return None
    rate = 1e-9 * result["flops"] / result["times"][name]["seconds"]
    return rate / result["peak_gflops"]


def ratio(result, name):
    """Time of a contender in times of attc, or None."""
    times = result["times"]
    if name not in times or "attc" not in times:
        return None
    return times[name]["seconds"] / times["attc"]["seconds"]


# ---- table ---------------------------------------------------------------------------------------
def milliseconds(seconds):
    digits = 3 if seconds < 0.01 else 2 if seconds < 0.1 else 1 if seconds < 1 else 0
    return f"{1e3 * seconds:.{digits}f}"


def cell(result, name, notes):
    """Time and ratio; the number of a note for who was left out, a dash for who cannot."""
    if name in result["notes"]:
        text = f"{name}: {result['notes'][name]}"
        if text not in notes:
            notes.append(text)
        return f"[{notes.index(text) + 1}]"
    if name not in result["times"]:
        return "-"
    text = milliseconds(result["times"][name]["seconds"])
    factor = ratio(result, name)
    return text if name == "attc" or factor is None else f"{text} ({factor:.2f}x)"


def row(result, contenders, notes):
    mine = share(result, "attc")
    cells = [cell(result, name, notes) for name in contenders]
    cells.insert(1, "-" if mine is None else f"{mine:.0%}")
    return [label(result), str(result["threads"]), *cells]


def table(results, contenders):
    """Times in milliseconds (medians), behind them how many times attc's that is."""
    notes = []
    rows = [["case", "threads", "attc ms", "of peak", *contenders[1:]]]
    rows += [row(result, contenders, notes) for result in results]
    used = [i for i in range(len(rows[0])) if i < 4 or any(r[i] != "-" for r in rows[1:])]
    widths = {i: max(len(r[i]) for r in rows) for i in used}
    lines = [
        "  ".join(r[i].ljust(widths[i]) if i == 0 else r[i].rjust(widths[i]) for i in used)
        for r in rows
    ]
    lines += [f"[{i}] {note}" for i, note in enumerate(notes, 1)]
    return "\n".join(lines + disturbed(results))


def disturbed(results):
    """A line that says when other work on the machine took part of the cores."""
    waits = [times["waited"] for result in results for times in result["times"].values()]
    if not waits or max(waits) < WAITED_NOTABLE:
        return []
    often = sum(wait >= WAITED_NOTABLE for wait in waits)
    return [
        f"The machine was busy: in {often} of {len(waits)} measurements a core was waited for "
        f"more than {WAITED_NOTABLE:.0%} of the time, up to {max(waits):.0%} (CSV: waited_share)"
    ]


# ---- CSV -----------------------------------------------------------------------------------------
def csv_rows(result):
    for name in [*result["times"], *result["notes"]]:
        fields = {key: result[key] for key in ("case", "part", "threads")} | dict(contender=name)
        fields["note"] = result["notes"].get(name, "")
        if name in result["times"]:
            times = result["times"][name]
            fields |= dict(
                seconds=times["seconds"],
                best_seconds=times["best"],
                rounds=times["rounds"],
                waited_share=times["waited"],
                ratio_to_attc=ratio(result, name),
                gflops=1e-9 * result["flops"] / times["seconds"],
                share_of_peak=share(result, name),
                peak_gflops=result["peak_gflops"],
            )
        yield fields


def write_csv(results, path):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        for result in results:
            writer.writerows(csv_rows(result))
