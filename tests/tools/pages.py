# SPDX-License-Identifier: Apache-2.0
"""Tables and sections of the documents, for the tests that hold them to what attc does."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = "grammar/language.md"
SECTION = re.compile(r"\*\*(\d+\.\d+)\b|## (\d+)\.")
CELLS = re.compile(r"(?<!\\)\|")


class Table:
    """The cells of the head and of the rows; `section` is such as 5.2, `line` that of the head."""

    def __init__(self, section, line, head):
        self.section, self.line, self.head, self.rows = section, line, cells_of(head), []


def cells_of(row):
    assert row.startswith("|") and row.endswith("|"), row
    return [cell.strip() for cell in CELLS.split(row[1:-1])]


def codes(cell):
    """What stands in backquotes."""
    return [code.replace("\\|", "|") for code in re.findall(r"`([^`]+)`", cell)]


def tables(page):
    found, section, inside = [], None, False
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        named = SECTION.match(line)
        if named:
            section = named[1] or named[2]
        if not line.startswith("|"):
            inside = False
        elif not inside:
            found.append(Table(section, number, line))
            inside = True
        elif not set(line) <= set("|-"):
            found[-1].rows.append(cells_of(line))
            whole = len(found[-1].rows[-1]) == len(found[-1].head)
            assert whole, f"{page}:{number}: another number of cells than in the head"
    return found


def table(section, first=""):
    """The one table of a section of the reference whose head begins so."""
    named = [t for t in tables(REFERENCE) if t.section == section and t.head[0].startswith(first)]
    assert len(named) == 1, f"section {section} has {len(named)} tables '{first}'"
    return named[0]


def sentences(section):
    """The text of a section, on one line."""
    text = (ROOT / REFERENCE).read_text()
    found = re.search(rf"^\*\*{re.escape(section)}\b.*?(?=^\*\*\d|^## )", text, re.M | re.S)
    return " ".join(found[0].split())


def head_of(chapter):
    """What stands before the first section or table of a chapter."""
    text = (ROOT / REFERENCE).read_text()
    return re.search(rf"^## {chapter}\. .*?(?=^\*\*|^\|)", text, re.M | re.S)[0]


def numbers(text):
    """The numbers of a cell, `[1, nan, -inf]` or 2: a list or a float. None: there are none."""
    text = text.strip("`")
    if re.fullmatch(r"\[.*\]", text):
        parts = [numbers(part) for part in text[1:-1].split(",") if part.strip()]
        return None if None in parts else parts
    try:
        return float(text)
    except ValueError:
        return None
