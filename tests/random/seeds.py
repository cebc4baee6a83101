# SPDX-License-Identifier: Apache-2.0
"""Which random programs a suite runs."""

import os


def seeds(variable, count):
    """Those that the environment says, COUNT or FIRST:COUNT; without it the first `count`."""
    first, _, number = os.environ.get(variable, f"0:{count}").rpartition(":")
    return range(int(first or 0), int(first or 0) + int(number))
