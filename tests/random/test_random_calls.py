# SPDX-License-Identifier: Apache-2.0
"""Random programs of calls against the same programs with the bodies in the place of calls.

ATTC_RANDOM_CALLS=COUNT or FIRST:COUNT chooses the seeds (default 0:60), and
ATTC_RANDOM_GRADIENTS=1 has all of them differentiated.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "numeric")]
from attc import attc  # noqa: E402
from calls import Program, calls_of, generate  # noqa: E402
from seeds import seeds  # noqa: E402

SEEDS = seeds("ATTC_RANDOM_CALLS", 60)
# One program of so many is compiled, and one with its gradients; all of them are run by the oracle.
COMPILED, DIFFERENTIATED = 8, 1 if os.environ.get("ATTC_RANDOM_GRADIENTS") else 16
# Shares of the programs of SAMPLE seeds with a call of this kind.
SAMPLE = 200
KINDS = {
    "by name in another order": 0.2,
    "by hand": 0.6,
    "mapped": 0.5,
    "carried": 0.25,
    "with several results": 0.12,
    "inside of a def": 0.3,
    "over two lengths": 0.15,
    "with a second reading": 0.35,
}


def run(path, text, options):
    path.write_text(text)
    results = re.findall(r"(\w+)\[", text[text.rindex("return ") :])
    files = {name: path.with_name(f"{path.stem}_{name}.npy") for name in results}
    outs = [option for name, file in files.items() for option in ("-o", f"{name}={file}")]
    attc("run", path, *options, "--oracle", *outs)
    return [np.load(file) for file in files.values()]


@pytest.mark.parametrize("seed", SEEDS)
def test_program(seed, tmp_path):
    (called, written_out, doubtful), options = generate(seed)
    path = tmp_path / "called.attn"
    have = run(path, called, options)
    want = run(tmp_path / "written_out.attn", written_out, options)
    for a, b in zip(have, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    if doubtful:
        refused = tmp_path / "refused.attn"
        refused.write_text(doubtful)
        _, said = attc("run", refused, *options, "--oracle", status=1)
        assert re.search("can be read in two ways|which of the dims", said), doubtful
    if seed % COMPILED == 0:
        attc("verify", path, *options, "--verify-passes", "--no-cache")
    if seed % DIFFERENTIATED == 0:
        attc("verify", path, *options, "--grad", "--verify-passes", "--no-cache")


def kinds_of(program):
    bodies = [*program.defs, program.entry]
    calls = [(body, call) for body in bodies for call in calls_of(body.statements)]
    for body, call in calls:
        lengths = {c.own[o] for _, c in calls for o in c.own if c.callee is call.callee}
        several = len(call.callee.results) > 1
        orders = [a.order for a in call.arguments if not call.hands]
        formals = [call.callee.values[p] for p in call.callee.parameters]
        yield from ["by hand"] * bool(call.hands) + ["mapped"] * bool(call.mapped)
        yield from ["inside of a def"] * (body is not program.entry)
        yield from ["carried"] * (call.targets[0][1] is None)
        yield from ["with several results"] * several
        yield from ["over two lengths"] * (len(lengths) > len(call.own))
        if any({*f} <= {*o} and [d for d in o if d in f] != f for f, o in zip(formals, orders)):
            yield "by name in another order"
    if program.texts()[2]:
        yield "with a second reading"


def test_shares():
    """All kinds of calls are there, and often."""
    found = [{*kinds_of(Program(seed))} for seed in range(SAMPLE)]
    shares = {kind: sum(kind in kinds for kinds in found) / SAMPLE for kind in KINDS}
    assert all(shares[kind] >= least for kind, least in KINDS.items()), shares
