# SPDX-License-Identifier: Apache-2.0
"""Random attention programs under random plans: compiled code against the oracle.

ATTC_RANDOM_ATTENTION=COUNT or FIRST:COUNT chooses the seeds (default 0:200), and
ATTC_RANDOM_GRADIENTS=1 has all of them differentiated. FAILED are seeds of the past.
"""

import json
import math
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "numeric")]
from attc import ATTC  # noqa: E402
from attention import Attention, generate  # noqa: E402
from seeds import seeds  # noqa: E402

FAILED = [292, 336, 365, 471, 1563, 30010, 31120, 31175, 91097]
SEEDS = seeds("ATTC_RANDOM_ATTENTION", 200)
FUSED = ["resident", "stream", "two-pass", "spill"]
# One program of so many is run with its gradients.
DIFFERENTIATED = 1 if os.environ.get("ATTC_RANDOM_GRADIENTS") else 5
# And of those, one of so many with the least memory, and one of so many of all.
LIMITED, LIMITED_OF_ALL = 2, 3
# For one program: seconds, and bytes of address space.
SECONDS, MEMORY = 60, 1 << 30
# How many times the limit of `verify` an error may be: that is twice what plain code makes in the
# order as written, and the compiler's may have one sum of thousands in place of two shorter ones.
SLACK = 4
# Shares are taken of so many seeds. Of the programs with a softmax at least STREAMED hold a
# streamed kernel, of the plans that were drawn at least LEGAL can be had: else little is tested.
SAMPLE = 250
STREAMED, LEGAL = 0.5, 0.6


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def attc(*args):
    return subprocess.run(
        [ATTC, *map(str, args)],
        capture_output=True,
        text=True,
        errors="replace",
        preexec_fn=limit,
        timeout=SECONDS,
    )


def is_refused(run):
    return run.returncode == 1 and "does not fit" in run.stderr


def least_memory(options):
    """The option for the smallest workspace found: sums over rows are added up in turn there, and
    tasks make their own copies of what they read past."""
    message = attc(*options, "--memory-limit=1").stderr
    found = re.search(r"the workspace [^\n]*\((\d+) bytes\)", message)
    return [f"--memory-limit={found.group(1) if found else 1}"]


def draw(seed):
    """Options of a random schedule and machine; no plan is the compiler's own choice."""
    choice = random.Random(seed).choice
    plan = choice([None, None, "unfused", *FUSED])
    target = choice([None, None, "x86-64-v3"])
    if plan in FUSED and choice([True, False]):
        plan += f":{choice([1, 2, 3, 5, 8, 12, 13, 24, 31, 40, 100])}"
        if plan[: plan.find(":")] != "resident" and choice([True, False]):
            plan += f":{choice([1, 16, 32, 33, 64, 96, 200, 512])}"
    return [f"--plan={plan}"] if plan else [], [f"--target={target}"] if target else []


def is_near(figures):
    """Errors that are no numbers are written as null."""
    error = math.inf if figures["error"] is None else figures["error"]
    return error <= SLACK * (figures["limit"] or 0)


def agrees(run):
    """Did `verify --json` find every result near enough?"""
    if run.returncode not in (0, 1) or not run.stdout:
        return False
    outputs = json.loads(run.stdout)["outputs"]
    return all(o["ok"] or is_near(o) and (not o["row"] or is_near(o["row"])) for o in outputs)


def check(text, options, plan):
    """Returns the plan, or none where it cannot be had."""
    run = attc(*options, *plan)
    if is_refused(run):
        plan = []
        run = attc(*options)
    assert agrees(run), f"{text}\n{options} {plan}\n{run.stdout}{run.stderr}"
    return plan


@pytest.mark.parametrize("seed", dict.fromkeys([*FAILED, *SEEDS]))
def test_program(seed, tmp_path):
    """A plan that cannot be had gives way to the compiler's choice."""
    text, options, _ = generate(seed)
    path = tmp_path / "program.attn"
    path.write_text(text)
    plan, target = draw(seed)
    grad = ["--grad"] if seed % DIFFERENTIATED == 0 or seed in FAILED else []
    options = ["verify", path, *options, *target, *grad, "--verify-passes", "--no-cache", "--json"]
    plan = check(text, options, plan)
    if (grad and seed % LIMITED == 0) or seed % LIMITED_OF_ALL == 0:
        check(text, options, plan + least_memory(options + plan))


def test_order():
    """Dims that are alike keep their order, three of them as well as two."""
    program = Attention(0)
    program.like = {"h2": "h", "m": "n", "h3": "h"}
    for _ in range(100):
        dims = program.shuffled(["h3", "m", "h", "d", "n", "h2"])
        assert [d for d in dims if d in ("n", "m")] == ["n", "m"]
        assert [d for d in dims if d in ("h", "h2", "h3")] == ["h", "h2", "h3"]


def kernels(path, options):
    """Kinds of the kernels of a program, or None where the plan cannot be had."""
    for option in ("--dynamic", "--seed"):  # a cost is that of known extents, whatever the inputs
        if option in options:
            at = options.index(option)
            options = [*options[:at], *options[at + 2 :]]
    run = attc("cost", path, *options, "--json")
    if is_refused(run):
        return None
    assert run.returncode == 0, run.stderr
    return {kernel["kind"] for kernel in json.loads(run.stdout)["kernels"]}


@pytest.mark.long
def test_shares(tmp_path):
    """Most programs with a softmax are streamed, and most plans are legal."""
    path = tmp_path / "program.attn"
    softmax = streamed = forced = legal = 0
    for seed in range(SEEDS.start, SEEDS.start + SAMPLE):
        text, options, has_softmax = generate(seed)
        path.write_text(text)
        plan, _ = draw(seed)
        if has_softmax:
            softmax += 1
            streamed += not kernels(path, options).isdisjoint(FUSED)
        if plan and plan != ["--plan=unfused"]:
            forced += 1
            legal += kernels(path, options + plan) is not None
    assert streamed >= STREAMED * softmax
    assert legal >= LEGAL * forced
