# SPDX-License-Identifier: Apache-2.0
"""Calling the compiler from tests, and reading what it knows of a source file."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import numpy as np

ATTC = os.environ.get("ATTC", "build/attc")
ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
MACHINES = ROOT / "tests" / "machines"
# Programs are linked without the sanitizers that the runtime of such a build wants.
SANITIZED = Path(ATTC).parent.name == "san"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR2]


def heed_signals():
    """A harness may ignore some of them (nohup), and what it begins would, too."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def attc(*args, status=0, stdin=None, timeout=None):
    """Runs attc; fails the test unless it ends with `status`, in `timeout` seconds if that is
    given. Returns (stdout, stderr)."""
    run = subprocess.run([ATTC, *map(str, args)], capture_output=True, text=True, input=stdin,
                         errors="replace", timeout=timeout)
    assert run.returncode == status, f"{args}: status {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout, run.stderr


def attc_json(*args):
    return json.loads(attc(*args, "--json")[0])


def extents_options(extents):
    return ["-D", ",".join(f"{dim}={extent}" for dim, extent in extents.items())] if extents else []


class Entry:
    """Parameters of the last def of a source file: name -> (dims, element type), by plain text
    search."""

    def __init__(self, path):
        text = re.sub(r"#.*", "", Path(path).read_text())
        self.name, parameters = re.findall(r"\bdef\s+(\w+)\s*\((.*?)\)\s*:\s*\n", text, re.S)[-1]
        self.parameters = {}
        for name, dims, elem in re.findall(r"(\w+)\s*\[([^\]]*)\]\s*(?::\s*(\w+))?", parameters):
            self.parameters[name] = (
                [d.strip() for d in dims.split(",") if d.strip()],
                elem or "f32",
            )
        self.dims = list(dict.fromkeys(d for dims, _ in self.parameters.values() for d in dims))


def draw(entry, sizes, seed):
    """Inputs of an entry as arrays; weights are scaled so that logits stay of order one."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, (dims, elem) in entry.parameters.items():
        shape = tuple(sizes[d] for d in dims)
        if elem.startswith("i"):
            arrays[name] = random.integers(0, min(4, sizes.get("v", 4)), shape).astype(np.int32)
        else:
            scale = sizes[dims[0]] ** -0.5 if len(dims) > 2 else 1.0
            arrays[name] = (scale * random.standard_normal(shape)).astype(np.float32)
    return arrays


def write(arrays, folder):
    """The arrays as files; what to write on the command line to give them."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [f"{name}={folder / f'{name}.npy'}" for name in arrays]


def widened(arrays):
    """The same numbers for a twin in double precision."""
    return {
        name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in arrays.items()
    }
