# SPDX-License-Identifier: Apache-2.0
"""Tests import the shared helpers of tests/numeric and tests/tools by name. Those with the mark
`long` begin first, so that no worker ends with one while the others have nothing to do."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("numeric", "tools")]


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes as long as a hundred others")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
