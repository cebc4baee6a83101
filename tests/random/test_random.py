# SPDX-License-Identifier: Apache-2.0
"""Random programs: compiled code and tile interpreter against the oracle, prints against source,
gradients of some arguments.

ATTC_RANDOM=COUNT or FIRST:COUNT chooses the seeds (default 0:240), ATTC_RANDOM_GRADIENTS=1 has all
of them differentiated. FAILED are seeds of the past.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "numeric")]
from attc import ATTC, attc, attc_json  # noqa: E402
from generate import generate  # noqa: E402
from seeds import seeds  # noqa: E402

FAILED = [33, 297, 447, 899, 932, 1177, 1817, 50274, 51214, 51677, 51699, 51825]
SEEDS = seeds("ATTC_RANDOM", 240)
# Every program goes through the compiled path; shares of them through the slow interpreter and with
# gradients.
INTERPRETED, DIFFERENTIATED = 5, 1 if os.environ.get("ATTC_RANDOM_GRADIENTS") else 2
# Of so many programs the inputs of so many may be drawn again: 2 were when this was written.
SAMPLE, DRAWN_AGAIN = 200, 6


def some_floats(text, seed):
    """Some of the arguments that have gradients."""
    signature = text[text.index("def Program(") :].split("):")[0] + ","
    names = re.findall(r"(\w+)\[[^\]]*\](?:: (?:bf16|f16|f32|f64))?,", signature)
    choose = random.Random(seed)
    return choose.sample(names, choose.randint(1, len(names)))


@pytest.mark.parametrize("seed", dict.fromkeys([*FAILED, *SEEDS]))
def test_program(seed, tmp_path):
    text, options = generate(seed)
    path = tmp_path / "program.attn"
    path.write_text(text)
    attc("verify", path, *options, "--verify-passes", "--no-cache")
    if seed % DIFFERENTIATED == 0 or seed in FAILED:
        gradients = ["--grad", "--wrt", ",".join(some_floats(text, seed))]
        run = subprocess.run([ATTC, "verify", path, *options, *gradients,
                              "--verify-passes", "--no-cache"], capture_output=True, text=True)
        whole = "has no result of floats: no gradient" in run.stderr
        assert run.returncode == 0 or whole, run.stdout + run.stderr
    if seed % INTERPRETED == 0:
        threads = options.index("--threads")
        attc("verify", path, *options[:threads], *options[threads + 2 :], "--interpret")
    printed, _ = attc("emit", path, "--stage=graph", "-w")
    again, _ = attc("emit", "-", "--stage=graph", "-w", stdin=printed)
    assert printed == again


@pytest.mark.long
def test_inputs_are_seldom_drawn_again(tmp_path):
    """A lucky naive evaluation is no excuse that programs need often."""
    path = tmp_path / "program.attn"
    drawn_again = 0
    for seed in range(SAMPLE):
        text, options = generate(seed)
        path.write_text(text)
        drawn_again += attc_json("verify", path, *options, "--no-cache")["draws"] > 0
    assert drawn_again <= DRAWN_AGAIN
