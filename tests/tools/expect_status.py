# SPDX-License-Identifier: Apache-2.0
"""expect_status.py N COMMAND...: runs COMMAND and succeeds exactly when its exit status is N."""

import subprocess
import sys

wanted = int(sys.argv[1])
status = subprocess.call(sys.argv[2:])
if status != wanted:
    print(f"exit status {status}, expected {wanted}", file=sys.stderr)
sys.exit(status != wanted)
