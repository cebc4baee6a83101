# SPDX-License-Identifier: Apache-2.0
"""Programs with a token changed: no crash, no hang, no message at a wrong place. `make mutations`
does ten thousand.

ATTC_MUTATIONS=COUNT or FIRST:COUNT chooses which (default 0:300).
"""

import os
import sys

import pytest

from attc import ROOT

sys.path.append(str(ROOT / "tests" / "mutations"))
from mutate import Judge, Mutation, judge, judge_all, summary  # noqa: E402

SEED = 8
_first, _, _count = os.environ.get("ATTC_MUTATIONS", "0:300").rpartition(":")
FIRST, COUNT = int(_first or 0), int(_count)
PARTS = 4  # tests, which may run at a time
# Of the files with one token changed, so many get one message; others lose a bracket, or a name
# that several defs have.
ONE_MESSAGE = 0.9


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_mutations_are_told_of_where_they_are(part):
    size = -(-COUNT // PARTS)
    verdicts = judge_all(SEED, FIRST + part * size, min(size, COUNT - part * size))
    told = [f"{v.mutation.number}: {problem}" for v in verdicts for problem in v.problems]
    assert not told, "\n".join([*told, summary(verdicts), "see tests/mutations/mutate.py --show N"])
    single = [v.errors for v in verdicts if v.errors and len(v.mutation.lines) == 1]
    assert len(single) < 20 or single.count(1) >= ONE_MESSAGE * len(single), summary(verdicts)


def test_a_mutation_is_the_same_every_time():
    assert Mutation(SEED, 5).text == Mutation(SEED, 5).text
    assert len({Mutation(SEED, number).text for number in range(50)}) > 40


@pytest.mark.parametrize(
    "diagnostic, problem",
    [
        ({"line": 9999}, "line 9999 of"),
        ({"column": 9999}, "column 9999 of line"),
        ({"end_line": 0}, "ends before it begins"),
    ],
)
def test_a_place_outside_of_the_file_is_seen(diagnostic, problem):
    verdict = Judge(Mutation(SEED, 0))
    place = dict(file="<stdin>", line=1, column=1, end_line=1, end_column=1, message="")
    verdict.check_place(place | diagnostic, "check")
    assert problem in verdict.problems[0]


def test_a_line_before_the_mutation_is_seen():
    mutation = next(m for m in (Mutation(SEED, i) for i in range(100)) if m.line > 3)
    verdict = Judge(mutation)
    verdict.check_text_places([{"line": mutation.line, "message": "expected ','"}])
    assert not verdict.problems
    verdict.check_text_places([{"line": 1, "message": "expected ','"}])
    assert verdict.problems


def test_a_crash_is_seen(monkeypatch):
    verdict = Judge(Mutation(SEED, 0))
    verdict.read(-11, "", "check")
    verdict.read(0, "internal error", "check")
    assert "status -11" in verdict.problems[0] and "no diagnostic" in verdict.problems[1]
    monkeypatch.setattr("mutate.run", lambda arguments, text: (None, b"", "no end"))
    assert "no end" in judge(Mutation(SEED, 0)).problems[0]
