# SPDX-License-Identifier: Apache-2.0
"""Calling the functions of a library with arrays, laid out by nothing but its manifest."""

import ctypes
import json

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.uint16, "bf16": np.uint16,
         "i32": np.int32, "i64": np.int64, "bool": np.uint8}


def unwritten(shape, dtype):
    """Memory in which nothing may be read: bits that are NaN, or large numbers."""
    return np.full(shape, np.frombuffer(b"\xFF" * np.dtype(dtype).itemsize, dtype)[0])


def tell_apart(function):
    """An output with an input's name has _ behind it, as its field in the header."""
    inputs = {t["name"] for t in function["tensors"] if t["role"] == "input"}
    for tensor in function["tensors"]:
        if tensor["role"] == "output" and tensor["name"] in inputs:
            tensor["name"] += "_"


def made_once(tmp_path_factory, make):
    """For a fixture: what make(folder, name) gives, once for each name; its library is closed."""
    made = {}

    def case(name):
        if name not in made:
            made[name] = make(tmp_path_factory.mktemp(name), name)
        return made[name]

    yield case
    for made_case in made.values():
        made_case.library.close()


class Library:
    """A shared library with one entry. threads: of its context."""

    def __init__(self, path, entry, threads=1):
        self.handle = ctypes.CDLL(str(path))
        self.entry = entry
        self.handle.att_context_new.restype = ctypes.c_void_p
        self.handle.att_message.restype = ctypes.c_char_p
        self.handle.att_message.argtypes = [ctypes.c_void_p]
        self.handle.att_context_free.argtypes = [ctypes.c_void_p]
        manifest = getattr(self.handle, f"{entry}_manifest")
        manifest.restype = ctypes.c_char_p
        self.manifest = json.loads(manifest())
        self.functions = {entry: self.manifest}
        self.functions.update({f["name"]: f for f in self.manifest.get("functions", [])})
        for function in self.functions.values():
            tell_apart(function)
        self.context = self.handle.att_context_new(threads)

    def close(self):
        self.handle.att_context_free(self.context)

    def tensors(self, suffix, **properties):
        """Names of a function's tensors with these properties in the manifest, such as use."""
        return [t["name"] for t in self.functions[self.entry + suffix]["tensors"]
                if all(t[key] == value for key, value in properties.items())]

    def workspace(self, suffix, *extents):
        """Bytes, of the extents that the function is told, in order."""
        call = getattr(self.handle, f"{self.entry}{suffix}_workspace")
        call.restype = ctypes.c_int64
        return call(*map(ctypes.c_int64, extents))

    def workspace_of(self, suffix, extents):
        """The same, of extents by name, of dims that others are like."""
        told = [d["like"] for d in self.functions[self.entry + suffix]["dims"]
                if d["extent"] is None and "computed" not in d]
        return self.workspace(suffix, *(extents[name] for name in told))

    def call(self, suffix, extents, arrays, status=0):
        """Runs a function. extents: of dims that others are like. arrays: its inputs, flags as
        numbers, and outputs that are to be written to; others are made. Returns the outputs by
        name, or the message when it is to fail with a status."""
        function = self.functions[self.entry + suffix]
        words, outputs, alive = [0], {}, []
        sizes = {d["name"]: extents.get(d["like"], d["extent"]) for d in function["dims"]}
        for dim in function["dims"]:
            if dim["extent"] is None and "computed" not in dim:
                words.append(sizes[dim["name"]])
        for tensor in function["tensors"]:
            name, array = tensor["name"], arrays.get(tensor["name"])
            shape = tuple(sizes[d] for d in tensor["dims"])
            if tensor.get("use") == "flag":
                words.append(array or 0)
                continue
            if tensor["role"] == "output":
                array = unwritten(shape, TYPES[tensor["elem"]]) if array is None else array
                outputs[name] = array
            elif array is not None:
                array = np.require(array, TYPES[tensor["elem"]], "C")
            assert array is None or array.shape == shape, f"{name} {array.shape} is not {shape}"
            alive.append(array)
            words.append(0 if array is None else array.ctypes.data)
        words += [0, 0]
        words[0] = 8 * len(words)
        call = getattr(self.handle, self.entry + suffix)
        call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        got = call(self.context, (ctypes.c_int64 * len(words))(*words))
        message = self.handle.att_message(self.context)
        assert got == status, f"{self.entry}{suffix}: status {got}: {message}"
        return outputs if not status else message.decode()
