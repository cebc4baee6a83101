# SPDX-License-Identifier: Apache-2.0
"""Logits that are added up over layers, stored for later sweeps or computed again: the same results
and gradients."""

import pytest

from attc import attc, attc_json

SOURCE = """dim n = 48, h = 2, d = 40, k = 16, layers = 4
dim m like n
def Layer(X[n, d], L[n, m, h]):
    param P_q[d, h, k] ~ glorot, P_k[d, h, k] ~ glorot, P_v[d, h, k] ~ glorot, P_o[h, k, d] ~ glorot
    S[n, m, h] = einsum(X, P_q, X[m, d'], P_k[d', h, k]) + L
    W = softmax(where(index(m) <= index(n), S, -inf), reduced_dim=m)
    return X + einsum(W, X[m, d'], P_v[d', h, k], P_o -> [n, d]), S
def Main(X[n, d], slope[h]):
    L[n, m, h] = slope * abs(index(n) - index(m))
    for layer in layers:
        X, L = Layer(X, L)
    return X
"""
ALONE = [[], ["--grad"]]
CHOICES = [[], ["--no-materialize"], ["-D", "k=1"], ["-D", "n=47"], ["--plan=spill"],
           ["--plan=resident"], ["--target=x86-64-v3"], ["--interpret"], ["--threads=3"]]


def source(folder):
    path = folder / "logits.attn"
    path.write_text(SOURCE)
    return path


def of_pairs(path, *options):
    """Buffers over pairs of positions."""
    buffers = attc_json("cost", path, "-w", *options)["buffers"]
    return [b for b in buffers if {d[0] for d in b["dims"]} >= {"n", "m"}]


@pytest.mark.parametrize("gradient", ALONE)
@pytest.mark.parametrize("options", CHOICES)
def test_results_are_the_same(tmp_path, options, gradient):
    attc("verify", source(tmp_path), "-w", *options, *gradient)


def test_what_is_stored_grows_with_the_layers(tmp_path):
    """The logits of each layer but the last; for gradients with weights and their own gradients."""
    path = source(tmp_path)
    for layers in (3, 4, 8):
        extents = ["-D", f"layers={layers}"]
        assert len(of_pairs(path, *extents)) == layers - 1
        assert layers < len(of_pairs(path, *extents, "--grad")) <= 3 * layers


@pytest.mark.parametrize("options", [["--no-materialize"], ["-D", "layers=2"]])
def test_nothing_is_stored(tmp_path, options):
    assert not of_pairs(source(tmp_path), *options)


def test_few_positions_of_wide_layers(tmp_path):
    """What is computed again so as not to be stored is worth a sweep, whatever else that reads."""
    options = ["--grad", "--no-materialize", "-D", "layers=6,n=24,d=256"]
    attc("cost", source(tmp_path), "-w", *options)
