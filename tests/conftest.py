# SPDX-License-Identifier: Apache-2.0
"""Tests import the shared helpers of tests/numeric by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "numeric"))
