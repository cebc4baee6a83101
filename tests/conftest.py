# SPDX-License-Identifier: Apache-2.0
"""Tests import the shared helpers of tests/numeric and tests/tools by name."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("numeric", "tools")]
