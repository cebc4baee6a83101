# SPDX-License-Identifier: Apache-2.0
"""Calls through ctypes: any element-aligned buffer will do, and nothing else is touched."""
import ctypes

import numpy as np
import pytest

from test_products import build

FIELDS = ["X", "M", "P_q", "P_k", "P_v", "P_o", "Y"]
SIZES = dict(d_X=19, d_M=23, d_Y=17, d_k=5, d_v=7, h=3)
SHAPES = {"X": "n d_X", "M": "m d_M", "P_q": "d_X d_k h", "P_k": "d_M d_k h", "P_v": "d_M d_v h",
          "P_o": "d_Y d_v h", "Y": "n d_Y"}
LEVELS = ["x86-64-v3", "x86-64-v4"]  # by number, see runtime/module.h
GUARD = 32  # floats on either side of a buffer


class Arguments(ctypes.Structure):
    _fields_ = ([("struct_size", ctypes.c_uint64), ("n", ctypes.c_int64), ("m", ctypes.c_int64)] +
                [(name, ctypes.c_void_p) for name in FIELDS] +
                [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_int64)])


class Buffer:
    """An array at an odd multiple of its element size from a 64-byte boundary, between guards."""

    def __init__(self, shape, shift, values=None):
        count = int(np.prod(shape))
        self.memory = np.full(count + 2 * GUARD + 32, np.nan, np.float32)
        start = -(self.memory.ctypes.data // 4) % 16 + GUARD // 2 + shift
        self.array = self.memory[start:start + count].reshape(shape)
        self.start, self.count = start, count
        if values is not None:
            self.array[...] = values

    def guards_hold(self):
        outside = np.ones(self.memory.size, bool)
        outside[self.start:self.start + self.count] = False
        return bool(np.isnan(self.memory[outside]).all())


def expected(a):
    q = np.einsum("nd,dkh->nkh", a["X"], a["P_q"])
    k = np.einsum("md,dkh->mkh", a["M"], a["P_k"])
    v = np.einsum("md,dvh->mvh", a["M"], a["P_v"])
    logits = np.einsum("nkh,mkh->nmh", q, k)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("nmh,mvh,yvh->ny", weights, v, a["P_o"])


@pytest.mark.parametrize("level", LEVELS)
def test_any_alignment_and_guarded_ends(tmp_path, level):
    path = build("multi_head", "shared", tmp_path / "libmh.so", "--target", level, "-D",
                 ",".join(f"{dim}={extent}" for dim, extent in SIZES.items()))
    library = ctypes.CDLL(str(path))
    if not library.att_level_runs(LEVELS.index(level), None):
        pytest.skip(f"this machine does not run {level}")
    library.att_context_new.restype = ctypes.c_void_p
    library.att_message.restype = ctypes.c_char_p
    context = ctypes.c_void_p(library.att_context_new(2))
    random = np.random.default_rng(0)
    for shift, (n, m) in enumerate([(1, 1), (3, 2), (17, 31), (48, 64), (65, 7)]):
        sizes = dict(SIZES, n=n, m=m)
        buffers = {}
        for name, dims in SHAPES.items():
            shape = [sizes[dim] for dim in dims.split()]
            values = None if name == "Y" else 0.3 * random.standard_normal(shape)
            buffers[name] = Buffer(shape, shift, values)
        arguments = Arguments(ctypes.sizeof(Arguments), n, m,
                              *[buffers[name].array.ctypes.data for name in FIELDS], None, 0)
        before = {name: buffers[name].memory.copy() for name in FIELDS[:-1]}
        status = library.MultiHeadAttention(context, ctypes.byref(arguments))
        assert status == 0, library.att_message(context)
        assert all(buffer.guards_hold() for buffer in buffers.values())
        for name, memory in before.items():
            np.testing.assert_array_equal(buffers[name].memory, memory)
        exact = expected({name: buffer.array.astype(np.float64)
                          for name, buffer in buffers.items()})
        np.testing.assert_allclose(buffers["Y"].array, exact, rtol=1e-4, atol=1e-5)
    library.att_context_free(context)
