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


class Function:
    """A function of a library on arrays: called without arguments, it gives its outputs by name."""

    def __init__(self, library, about, arrays, extents):
        self.library, self.name = library, about["name"]
        self.arrays = arrays  # their memory is the function's
        self.call = getattr(library.lib, self.name)
        self.dynamic_extents = library.dynamic_extents(extents)
        pointers, self.outputs = [], {}
        for tensor in about["tensors"]:
            name = tensor["name"]
            if tensor["role"] == "output":
                shape = [extents[dim] for dim in tensor["dims"]]
                self.outputs[name] = arrays[name] = aligned(np.zeros(shape))
            flag = tensor.get("use") == "flag"  # 0: no gradient is added to what is there
            pointers.append(0 if flag else arrays[name].ctypes.data)
        # The function's struct (see the header beside a library): its size, the dynamic extents,
        # the tensors, and no workspace, so that the context keeps one.
        words = [0, *self.dynamic_extents, *pointers, 0, 0]
        words[0] = 8 * len(words)
        self.block = (ctypes.c_int64 * len(words))(*words)

    def __call__(self):
        if self.call(self.library.context, self.block):
            raise RuntimeError(self.library.lib.att_message(self.library.context).decode())
        return self.outputs

    def workspace_bytes(self):
        size = getattr(self.library.lib, f"{self.name}_workspace")
        size.restype = ctypes.c_int64
        return size(*map(ctypes.c_int64, self.dynamic_extents))


class Library:
    """A shared library of attc and its functions, called with NumPy arrays.

    It is planned for `threads`, and has so many. Extents are compiled in, except those of the dims
    in `dynamic`. OSError, RuntimeError and CalledProcessError say what failed.
    """

    def __init__(self, attc, case, threads, folder, dynamic=(), gradients=False):
        run_time = [dim for dim in dynamic if dim in case.extents]
        # A path of its own: what is loaded from a path once is not loaded again.
        path = folder / f"{'-'.join([case.name, *run_time])}.so"
        options = ["-D", ",".join(f"{dim}={extent}" for dim, extent in case.extents.items())]
        options += ["--threads", str(threads)]
        if run_time:
            options += ["--dynamic", ",".join(run_time)]
        if gradients:
            options += ["--grad"]
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
        self.functions = {"results": self.manifest | dict(name=case.entry)}
        for about in self.manifest.get("functions", []):
            self.functions[about["name"].removeprefix(f"{case.entry}_")] = about
        self.context = ctypes.c_void_p(self.lib.att_context_new(threads))
        self.case = case

    def close(self):
        self.lib.att_context_free(self.context)

    def dynamic_extents(self, extents):
        dims = [dim["name"] for dim in self.manifest["dims"] if dim["extent"] is None]
        return [extents[dim] for dim in dims]

    def result(self):
        """Name and shape of what the entry returns."""
        (found,) = (t for t in self.manifest["tensors"] if t["role"] == "output")
        return found["name"], tuple(self.case.extents[dim] for dim in found["dims"])

    def prepare(self, part, arrays, extents=None):
        """A function on these arrays by name, which get its outputs as well; `extents` where those
        of the dynamic dims are not the case's."""
        return Function(self, self.functions[part], arrays, extents or self.case.extents)


class Peak:
    """The loop of multiply-adds on registers that `attc bench` measures a machine's peak with."""

    SHORT_RUNS = 5  # a run takes a fraction of a millisecond

    def __init__(self, path, threads):
        self.lib = ctypes.CDLL(str(path))
        self.lib.att_context_new.restype = ctypes.c_void_p
        self.lib.att_peak_flops.restype = ctypes.c_double
        self.context = ctypes.c_void_p(self.lib.att_context_new(threads))
        self.vector_bytes = 64 if has_avx512() else 32

    def gflops(self, clock=time.perf_counter):
        return statistics.median(self.one_run(clock) for _ in range(self.SHORT_RUNS))

    def one_run(self, clock):
        """The loop measures wall time; by a clock that runs slower it is faster."""
        begun = time.perf_counter(), clock()
        rate = 1e-9 * self.lib.att_peak_flops(self.context, self.vector_bytes)
        return rate * (time.perf_counter() - begun[0]) / (clock() - begun[1])


def has_avx512():
    """Whether libraries of attc run their code for x86-64-v4 here."""
    if os.environ.get("ATTC_LEVEL") == "v3":
        return False
    with open("/proc/cpuinfo") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)
