# SPDX-License-Identifier: Apache-2.0
"""run_tests.py: a suite that finds nothing to run has failed."""

import subprocess
import sys

from attc import ROOT


def test_nothing_ran(tmp_path):
    """A build folder without unit tests and fuzz targets."""
    suites = [sys.executable, ROOT / "tests" / "run_tests.py", tmp_path, "unit", "fuzz"]
    run = subprocess.run(suites, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stdout.splitlines()[-3:] == [f"FAILED unit ({tmp_path}): nothing ran",
                                            f"FAILED fuzz ({tmp_path}): nothing ran",
                                            "0 passed, 2 failed"]
