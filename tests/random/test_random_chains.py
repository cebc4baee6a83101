# SPDX-License-Identifier: Apache-2.0
"""Random chains of attention over one sequence with their gradients: compiled code against the
oracle.

ATTC_RANDOM_CHAINS=COUNT or FIRST:COUNT chooses the seeds (default 0:180). FAILED are seeds of the
past.
"""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]
from chains import generate  # noqa: E402
from seeds import seeds  # noqa: E402
from test_random_attention import check, least_memory  # noqa: E402

FAILED = [1009, 2009, 2484, 3034, 3644, 3715, 4591]
SEEDS = seeds("ATTC_RANDOM_CHAINS", 180)
PLANS = [[], [], ["--plan=unfused"], ["--plan=resident:4"], None]  # None: the least memory


@pytest.mark.parametrize("seed", dict.fromkeys([*FAILED, *SEEDS]))
def test_chain(seed, tmp_path):
    text, options = generate(seed)
    path = tmp_path / "chain.attn"
    path.write_text(text)
    options = ["verify", path, *options, "--grad", "-w", "--verify-passes", "--no-cache", "--json"]
    plan = PLANS[seed % len(PLANS)]
    check(text, options, least_memory(options) if plan is None else plan)
