# SPDX-License-Identifier: Apache-2.0
"""What attc builds, called in this process: the entry of a library, and the loop of the peak."""

import ctypes
import json
import os
import statistics
import subprocess
import time

import numpy as np

from cases import aligned


class Library:
    """A shared library of attc and its entry, called with NumPy arrays.

    Extents are compiled in, except those of the dims in `dynamic`. OSError, RuntimeError and
    CalledProcessError say what failed.
    """

    def __init__(self, attc, case, threads, folder, dynamic=()):
        run_time = [dim for dim in dynamic if dim in case.extents]
        # A path of its own: what is loaded from a path once is not loaded again.
        path = folder / f"{'-'.join([case.name, *run_time])}.so"
        options = ["-D", ",".join(f"{dim}={extent}" for dim, extent in case.extents.items())]
        if run_time:
            options += ["--dynamic", ",".join(run_time)]
        subprocess.run(
            [attc, "build", case.source, "--entry", case.entry, "--shared", *options, "-o", path],
            check=True,
            capture_output=True,
            text=True,
        )
        self.lib = ctypes.CDLL(str(path))
        self.lib.att_context_new.restype = ctypes.c_void_p
        self.lib.att_message.restype = ctypes.c_char_p
        manifest = getattr(self.lib, f"{case.entry}_manifest")
        manifest.restype = ctypes.c_char_p
        self.manifest = json.loads(manifest())
        self.call = getattr(self.lib, case.entry)
        self.context = ctypes.c_void_p(self.lib.att_context_new(threads))
        self.case = case

    def close(self):
        self.lib.att_context_free(self.context)

    def dynamic_extents(self):
        dims = [dim["name"] for dim in self.manifest["dims"] if dim["extent"] is None]
        return [self.case.extents[dim] for dim in dims]

    def workspace_bytes(self):
        size = getattr(self.lib, f"{self.case.entry}_workspace")
        size.restype = ctypes.c_int64
        return size(*map(ctypes.c_int64, self.dynamic_extents()))

    def prepare(self, inputs):
        """The entry on these inputs: a function without arguments, and the array it writes to."""
        pointers, result = [], None
        for tensor in self.manifest["tensors"]:
            if tensor["role"] == "input":
                pointers.append(inputs[tensor["name"]].ctypes.data)
            elif tensor["role"] == "output":
                result = aligned(np.zeros([self.case.extents[dim] for dim in tensor["dims"]]))
                pointers.append(result.ctypes.data)
        # The entry's struct (see the header beside a library): its size, the dynamic extents, the
        # tensors, and no workspace, so that the context keeps one.
        words = [0, *self.dynamic_extents(), *pointers, 0, 0]
        words[0] = 8 * len(words)
        block = (ctypes.c_int64 * len(words))(*words)

        def run():
            if self.call(self.context, block):
                raise RuntimeError(self.lib.att_message(self.context).decode())
            return result

        return run


class Peak:
    """The loop of multiply-adds on registers that `attc bench` measures a machine's peak with."""

    SHORT_RUNS = 5  # a run takes a fraction of a millisecond

    def __init__(self, path, threads):
        self.lib = ctypes.CDLL(str(path))
        self.lib.att_context_new.restype = ctypes.c_void_p
        self.lib.cpu_peak_flops.restype = ctypes.c_double
        self.context = ctypes.c_void_p(self.lib.att_context_new(threads))
        self.vector_bytes = 64 if has_avx512() else 32

    def gflops(self, clock=time.perf_counter):
        return statistics.median(self.one_run(clock) for _ in range(self.SHORT_RUNS))

    def one_run(self, clock):
        """The loop measures wall time; by a clock that runs slower it is faster."""
        begun = time.perf_counter(), clock()
        rate = 1e-9 * self.lib.cpu_peak_flops(self.context, self.vector_bytes)
        return rate * (time.perf_counter() - begun[0]) / (clock() - begun[1])


def has_avx512():
    """Whether libraries of attc run their code for x86-64-v4 here."""
    if os.environ.get("ATTC_LEVEL") == "v3":
        return False
    with open("/proc/cpuinfo") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)
