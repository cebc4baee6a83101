# SPDX-License-Identifier: Apache-2.0
"""Safetensors files as Python sees them, and writing when calls of the system fail or the process
ends at one: the path has the old file or the new one, whole."""

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from attc import ROOT, SANITIZED

pytestmark = pytest.mark.skipif(SANITIZED, reason="archives of a sanitizer build do not link")

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ["ATTC_BUILD"])
TYPES = {
    "F32": np.float32, "F64": np.float64, "F16": np.float16, "BF16": np.uint16,
    "I32": np.int32, "I64": np.int64, "BOOL": np.bool_,
}  # fmt: skip
CALLS_MOST = 60


def encode(tensors, notes=None):
    """Bytes of a file, of name -> (type, array), in this order."""
    header, data = {"__metadata__": notes} if notes else {}, b""
    for name, (kind, array) in tensors.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def decode(content):
    """name -> (type, array), and notes; requires that all of the file is used, in order."""
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    notes, tensors, at = header.pop("__metadata__", None), {}, 0
    assert length % 8 == 0
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = info["data_offsets"]
        array = np.frombuffer(data[begin:end], TYPES[info["dtype"]]).reshape(info["shape"])
        assert begin == at and begin % array.itemsize == 0
        tensors[name], at = (info["dtype"], array), end
    assert at == len(data)
    return tensors, notes


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    folder = tmp_path_factory.mktemp("safetensors")
    cc = ["cc", "-O1", "-std=gnu11", "-D_GNU_SOURCE"]
    archives = [BUILD / "lib" / "libattc_train.a", BUILD / "lib" / "libattc_runtime.a"]
    subprocess.run(
        [*cc, f"-I{ROOT}/runtime", HERE / "rewrite.c", *archives, "-lm", "-lpthread"]
        + ["-o", folder / "rewrite"],
        check=True,
    )
    subprocess.run(
        [*cc, "-shared", "-fPIC", HERE / "failing_calls.c", "-o", folder / "calls.so"], check=True
    )
    return folder


def rewrite(tools, source, target, **calls):
    env = dict(os.environ, LD_PRELOAD=str(tools / "calls.so"), **calls)
    return subprocess.run(
        [tools / "rewrite", source, target], env=env, capture_output=True, text=True, timeout=20
    )


def some_tensors(seed):
    random = np.random.default_rng(seed)
    tensors = {"none": ("F32", np.zeros((3, 0), np.float32)), "scalar": ("I64", np.array(-seed))}
    for i, (kind, element) in enumerate(TYPES.items()):
        values = random.integers(0, 2, (i + 1, 3)).astype(element)
        tensors[f"layer.{i}.\u20ac \"{kind}\""] = (kind, values)
    return tensors


def test_what_python_wrote_is_what_it_reads(tools, tmp_path):
    tensors, notes = some_tensors(1), {"step": "200", "\n": "\u00e4\U0001f600"}
    (tmp_path / "in").write_bytes(encode(tensors, notes))
    run = rewrite(tools, tmp_path / "in", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    read, read_notes = decode((tmp_path / "out").read_bytes())
    assert read_notes == notes and read.keys() == tensors.keys()
    for name, (kind, values) in tensors.items():
        assert read[name][0] == kind
        np.testing.assert_array_equal(read[name][1], values)


@pytest.fixture(scope="module")
def versions(tools):
    """What is there, what is to be written, and their bytes as they are written."""
    contents = []
    for seed in (1, 2):
        path = tools / f"source-{seed}"
        path.write_bytes(encode(some_tensors(seed)))
        assert rewrite(tools, path, tools / "written").returncode == 0
        contents.append((tools / "written").read_bytes())
    (tools / "written").unlink()
    return contents


def runs(tools, tmp_path, old, how):
    """Writes the second version over `old` (None: over nothing), once for each call to fail."""
    path = tmp_path / "m.safetensors"
    for call in range(1, CALLS_MOST):
        for left in tmp_path.iterdir():
            left.unlink()
        if old is not None:
            path.write_bytes(old)
        run = rewrite(tools, tools / "source-2", path, CALL_AT=str(call), CALL_HOW=how)
        if not run.stderr.startswith("hit\n"):
            assert run.returncode == 0 and call > 12
            return
        yield path, run, path.read_bytes() if path.exists() else None
    raise AssertionError("there are more calls than this test is for")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_call_that_fails(tools, tmp_path, versions, is_there):
    old = versions[0] if is_there else None
    outcomes = set()
    for path, run, content in runs(tools, tmp_path, old, "fail"):
        assert content == (old if run.returncode else versions[1])
        assert list(tmp_path.iterdir()) == ([] if content is None else [path])
        told = [line.endswith(": No space left on device") for line in run.stderr.splitlines()[1:]]
        assert told == [True] * run.returncode
        outcomes.add(run.returncode)
    assert outcomes == {0, 1}  # the folder is synced where that can be


@pytest.mark.parametrize("is_there", [False, True])
def test_a_process_that_ends(tools, tmp_path, versions, is_there):
    old = versions[0] if is_there else None
    outcomes = set()
    for path, run, content in runs(tools, tmp_path, old, "end"):
        assert run.returncode == 9
        assert content in (old, versions[1])
        assert all(left == path or left.suffix == ".tmp" for left in tmp_path.iterdir())
        outcomes.add(content == versions[1])
    assert outcomes == {False, True}


def test_writes_of_a_part(tools, tmp_path, versions):
    run = rewrite(tools, tools / "source-2", tmp_path / "out", CALL_HOW="half")
    assert run.returncode == 0
    assert (tmp_path / "out").read_bytes() == versions[1]
