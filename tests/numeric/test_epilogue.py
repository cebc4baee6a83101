# SPDX-License-Identifier: Apache-2.0
"""Contractions with an epilogue, whose sums are made in the memory of a result or in a tile, and
which follow each piece of the last block: against the oracle, planned for caches so small that all
of that happens."""

import json
import re

import pytest

from attc import ROOT, attc, attc_json

EPILOGUES = """
dim d = 100, e = 3, f = 70
def Bias(A[n, d], B[d, f], c[f]):
    return einsum(A[n, d], B[d, f] -> [n, f]) + c
def Two(A[n, d], B[d, f], c[f]):
    Z[n, f] = einsum(A[n, d], B[d, f]) + c
    return Z, max(Z, 0)
def Itself(A[n, d], B[d, f]):
    C[n, f] = einsum(A[n, d], B[d, f])
    return max(C, 0), C
def Orders(A[n, d], B[d, f]):
    Z[n, f] = einsum(A[n, d], B[d, f])
    H[n, f] = bf16(Z)
    return Z[n, f], H[f, n]
def Turned(A[n, d], B[d, f]):
    Z[n, f] = einsum(A[n, d], B[d, f])
    H[n, f] = exp(0 - Z ** 2)
    return H[f, n], Z > 0
def Residual(A[n, d], B[d, f], X[n, f]):
    return einsum(A[n, d], B[d, f] -> [n, f]) / 8 + X
def Scaled(A[n, d], B[d, f]):
    return einsum(A[n, d], B[d, f] -> [n, f]) / 8
def Batches(A[b, n, d], B[b, d, f], c[f]):
    Z[b, n, f] = einsum(A[b, n, d], B[b, d, f] -> [b, n, f]) * c
    return Z, Z + 1
def Summed(A[n, d, e], B[d, e, f], c[n]):
    Z[n, f] = einsum(A[n, d, e], B[d, e, f]) + c
    return Z, abs(Z)
def Outer(A[n, e, d], B[e, f, d], X[n, e, f]):
    return einsum(A[n, e, d], B[e, f, d] -> [n, e, f]) * X
def Halves(A[n, d]: bf16, B[d, f]: bf16):
    Z[n, f] = einsum(A[n, d], B[d, f])
    return Z, max(Z, 0)
def Doubles(A[n, d]: f64, B[d, f]: f64, c[f]: f64):
    Z[n, f] = einsum(A[n, d], B[d, f]) + c
    return Z, max(Z, 0)
"""
ENTRIES = [line.split("(")[0][4:] for line in EPILOGUES.splitlines() if line.startswith("def ")]
# A factor that is moved into what is packed leaves no epilogue; tasks of one e are small enough; a
# result that is contiguous along the rows is turned in blocks.
NOTHING_APART = ["Scaled", "Outer", "Turned", "Summed"]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Caches in which 200 summed positions come in blocks, and the rows of a task in pieces."""
    folder = tmp_path_factory.mktemp("epilogues")
    machine = json.loads((ROOT / "tests/machines/tiny.json").read_text())
    machine |= dict(l1_bytes=2048, l2_bytes=32768, l3_bytes=131072)
    (folder / "small.json").write_text(json.dumps(machine))
    (folder / "epilogues.attn").write_text(EPILOGUES)
    return lambda entry: [folder / "epilogues.attn", "--entry", entry, "--machine",
                          folder / "small.json"]


def extents(entry, n):
    return ["-D", f"n={n},d=200," + ("f=260,b=3" if entry == "Batches" else "f=130")]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("n, options", [
    (1, []), (7, []), (131, []), (300, []), (131, ["--dynamic", "n"]), (96, ["--interpret"]),
])
def test_epilogues(words, entry, n, options):
    attc("verify", *words(entry), *extents(entry, n), *options)


@pytest.mark.parametrize("entry", ENTRIES)
def test_last_blocks_stand_apart(words, entry):
    n = 600 if entry == "Batches" else 300
    tile = attc("emit", *words(entry), "--stage=tile", *extents(entry, n))[0]
    assert len(re.findall(r"^ *range ", tile, re.M)) == (
        0 if entry in NOTHING_APART else 2)


def test_the_last_block_has_no_more_room_than_others(tmp_path):
    """Of what is packed of 8192 summed positions."""
    (tmp_path / "epilogues.attn").write_text(EPILOGUES)
    options = [tmp_path / "epilogues.attn", "--entry", "Bias", "-D"]
    scratch = [attc_json("cost", *options, f"n=2048,f=512,d={d}")["kernels"][0]["scratch_bytes"]
               for d in (768, 8192)]
    assert scratch[1] <= 2 * scratch[0]
