# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: of a block only what it reads is kept for gradients, which stay what they are."""

import numpy as np
import pytest

from attc import attc, attc_json, write
from layers import ATTENTION, EXACT, RECURRENT

WAYS = {
    "option": ("Block(X, seed)", ["--checkpoint=layers"]),
    "expression": ("checkpoint(Block(X, seed))", []),
    "part": ("X + checkpoint(Block(Norm(X), seed) * 0.5)", []),
    "both": ("checkpoint(Block(X, seed))", ["--checkpoint=layers"]),
}
PLANS = [[], ["--plan=unfused"], ["--interpret"], ["--threads=3"], ["--target=x86-64-v3"]]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: "".join(plan)[2:] or "default")
@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_checkpoints_are_right(tmp_path, way, plan):
    block, options = WAYS[way]
    (tmp_path / "main.attn").write_text(ATTENTION.replace("BLOCK", block))
    given = write({"seed": np.array(7)}, tmp_path)
    attc("verify", tmp_path / "main.attn", "-w", "--grad", *given, *options, *plan)


def test_bits_of_checkpoints_are_the_same(tmp_path):
    random = np.random.default_rng(3)
    sizes = {"X": (24, 16), "W": (4, 16, 40), "V": (4, 40, 16), "dY": (24, 16)}
    given = {name: random.integers(-1, 2, shape).astype("f4") for name, shape in sizes.items()}
    results = ["Y", "dX", "dW", "dV"]
    outs = [option for name in results for option in ("-o", f"{name}={tmp_path / name}_out.npy")]
    runs = []
    for options in ([], ["--checkpoint=layers"]):
        attc("run", "-", "--grad", *write(given, tmp_path), *outs, *options, stdin=EXACT)
        runs.append([np.load(tmp_path / f"{name}_out.npy") for name in results])
    for kept, again in zip(*runs):
        assert np.any(kept) and kept.tobytes() == again.tobytes()


def figures(folder, *options, block="Block(X, seed)"):
    (folder / "main.attn").write_text(ATTENTION.replace("BLOCK", block))
    return attc_json("cost", folder / "main.attn", "-w", "--grad", "-D", "layers=6,n=64", *options)


def test_only_what_blocks_read_is_saved(tmp_path):
    kept, again = figures(tmp_path), figures(tmp_path, "--checkpoint=layers")
    sizes = [buffer["bytes"] for buffer in again["saved"]]
    assert sizes == [4 * 64 * 32] * 5  # the first block reads the argument
    assert again["peak_bytes"] < kept["peak_bytes"] and again["saved_bytes"] < kept["saved_bytes"]
    block = kept["flops"] / 6 / 3  # about a third is the forward pass
    assert kept["recomputed_flops"] + 3 * block < again["recomputed_flops"]
    expression = figures(tmp_path, block="checkpoint(Block(X, seed))")
    assert expression["saved_bytes"] == again["saved_bytes"]


def test_weights_of_attention_are_computed_again_anyway(tmp_path):
    kept = figures(tmp_path)
    logits = 2 * 64 * 64 * 4 * 8
    assert kept["recomputed_flops"] >= 5 * logits  # the last layer's may be made with its gradient
    assert not any({"n", "m"} <= set(buffer["dims"]) for buffer in kept["saved"])


def distinct_kernels(folder, layers):
    options = ["--grad", "--checkpoint=layers", "-D", f"layers={layers}"]
    out, _ = attc("emit", "--stage=tile", folder / "main.attn", "-w", *options)
    return sum(line.startswith("kernel ") for line in out.splitlines())


def test_blocks_that_are_alike_have_the_same_kernels(tmp_path):
    # Without dropout, which has another stream in each of them.
    source = ATTENTION.replace("BLOCK", "Block(X, seed)").replace("rate=0.1, seed=seed", "rate=0")
    (tmp_path / "main.attn").write_text(source)
    assert distinct_kernels(tmp_path, 8) == distinct_kernels(tmp_path, 4)


def test_what_scans_leave_is_kept(tmp_path):
    (tmp_path / "main.attn").write_text(RECURRENT)
    attc("verify", tmp_path / "main.attn", "-w", "--grad", "--checkpoint=layers")
