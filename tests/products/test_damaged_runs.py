# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and settings that something has damaged: whatever reads them works with what is there
or ends with one line that tells of it, and a checkpoint that was refused stays as it is.

ATTC_DAMAGED=0:1000 takes other seeds than the first ones; what a seed damages is printed when it
fails."""

import json
import os
import random
import shutil
import struct
import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")

MODEL = """
dim v = 256, d = 8, n = 8

param E[v, d] ~ normal(std=0.1)

def Logits(tokens[b, n]: i32):
    param P_q[d, d_k], P_k[d, d_k]
    X[b, n, d] = gather(E[v, d], tokens[b, n], dim=v)
    L[b, n, n'] = einsum(X[b, n, d], P_q[d, d_k], X[b, n', d'], P_k[d', d_k])
    W[b, n, n'] = softmax(causal(L, n=n, m=n'), reduced_dim=n')
    return einsum(W[b, n, n'], X[b, n', d], E[v, d] -> [b, n, v])

def Loss(tokens[b, n]: i32, labels[b, n]: i32):
    return mean(cross_entropy(Logits(tokens), labels), reduced_dim=(b, n))
"""
READERS = {
    "eval": "eval --data text --weights run/latest --batch 4",
    "generate": "generate --weights run/latest --tokens 3",
    "heads": "heads --data text --weights run/latest --examples 2 --quick",
    "init": "train --data text --init run/latest --steps 1 --batch 4 --out new",
    "resume": "train --resume --steps 6 --out run",
}
ODD = [-1, 0, 1, 2**31, 2**53, 2**63 - 1, 2**63, 10**30, 1.5, 1e300, None, True, [], {}, [0],
       [1, 0], "", "x", "-5", "7x", "\0", "F16", "F64", "U8", "I32"]
FIRST, END = map(int, os.environ.get("ATTC_DAMAGED", "0:100").split(":"))
PER_TEST = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "lm.attn").write_text(MODEL)
    (folder / "text").write_text("to be or not to be, that is the question: " * 20)
    attc("build", folder / "lm.attn", "-D", "d_k=4", "--exe", "-o", folder / "lm")
    words = ("train", "--data", "text", "--steps", "4", "--batch", "4", "--out", "whole")
    subprocess.run([folder / "lm", *words], cwd=folder, check=True, capture_output=True)
    return folder


# ---- damage --------------------------------------------------------------------------------------
def flip(rng, raw, end):
    raw = bytearray(raw)
    for _ in range(rng.choice([1, 1, 3])):
        raw[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return bytes(raw)


def splice(rng, raw, end):
    at = rng.randrange(end)
    put = bytes(rng.choice(b'{}[]",:0123456789-eE\\u \xff\0F32') for _ in range(rng.randrange(30)))
    return raw[:at] + put + raw[at + rng.randrange(30) :]


def cut(rng, raw, end):
    return raw[: rng.choice([0, 7, 8, end - 1, end, rng.randrange(len(raw))])]


def change(rng, table):
    """Another value somewhere in an object, or another key."""
    name = rng.choice(list(table))
    inner = table[name]
    if isinstance(inner, dict) and inner and rng.random() < 0.7:
        change(rng, inner)
    elif isinstance(inner, list) and inner and rng.random() < 0.7:
        inner[rng.randrange(len(inner))] = rng.choice(ODD)
    elif rng.random() < 0.3:
        table[rng.choice(["", name + "x", "\7"])] = table.pop(name)
    else:
        table[name] = rng.choice(ODD)


def damage_checkpoint(rng, raw):
    (length,) = struct.unpack("<Q", raw[:8])
    way = rng.choice([flip, splice, cut, change, change, None])
    if way is None:  # numbers that nobody trained
        data = np.frombuffer(raw[8 + length :], np.uint32).copy()
        data[rng.randrange(data.size)] = rng.choice([0x7FC00000, 0x7F800000, 0x7F7FFFFF, 1])
        return raw[: 8 + length] + data.tobytes()
    if way is not change:
        return way(rng, raw, 8 + length)
    header = json.loads(raw[8 : 8 + length])
    change(rng, header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + raw[8 + length :]


def damage_settings(rng, raw):
    way = rng.choice([flip, splice, cut, change])
    if way is not change:
        return way(rng, raw, len(raw))
    settings = json.loads(raw)
    change(rng, settings)
    return json.dumps(settings).encode()


# ---- what reads it -------------------------------------------------------------------------------
def check(made, seed):
    rng = random.Random(seed)
    reader = rng.choice(list(READERS))
    for name in ("run", "new"):
        shutil.rmtree(made / name, ignore_errors=True)
    shutil.copytree(made / "whole", made / "run", symlinks=True)
    checkpoint = (made / "run" / "latest").resolve()
    if reader == "resume" and rng.random() < 0.5:
        path = made / "run" / "settings.json"
        path.write_bytes(damage_settings(rng, path.read_bytes()))
    else:
        checkpoint.write_bytes(damage_checkpoint(rng, checkpoint.read_bytes()))
    before = checkpoint.read_bytes()
    run = subprocess.run([made / "lm", *READERS[reader].split()], cwd=made, capture_output=True,
                         timeout=60)
    said = run.stderr.decode(errors="replace")
    told = f"seed {seed}, {reader}: status {run.returncode}\n{said}"
    assert run.returncode in (0, 1), told
    assert said.count(": error: ") == run.returncode, told
    assert run.returncode == 0 or checkpoint.read_bytes() == before, told


@pytest.mark.parametrize("first", range(FIRST, END, PER_TEST))
def test_readers_of_what_is_damaged(made, first):
    for seed in range(first, min(first + PER_TEST, END)):
        check(made, seed)
