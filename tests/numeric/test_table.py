# SPDX-License-Identifier: Apache-2.0
"""Losses over a table that is streamed (a vocabulary), against NumPy in double precision."""

import numpy as np
import pytest

from attc import attc, attc_json

LOSS = """
def Loss(X[t, d], param E[v, d], label[t]: i32, weight[t]):
    L[t, v] = einsum(X[t, d], E[v, d])
    {loss}
    return einsum(each[t], weight[t] -> [])
"""
LOSSES = {
    "plain": "each[t] = cross_entropy(L[t, v], label[t])",
    "smooth": "each[t] = smooth_cross_entropy(L[t, v], label[t], 0.1)",
    "capped": "each[t] = cross_entropy(5 * tanh(L[t, v] / 5), label[t])",
}
PLANS = [[], ["--plan=unfused"], ["--plan=resident"], ["--plan=spill:24:64"],
         ["--plan=two-pass:100:64"], ["-D", "t={t},v={v},d={d}"]]


def twin(loss, X, E, label, weight):
    """The loss and its gradients by X and E."""
    logits = X @ E.T
    slope = np.ones_like(logits)
    if loss == "capped":
        logits = 5 * np.tanh(logits / 5)
        slope = 1 - (logits / 5) ** 2
    shifted = logits - logits.max(1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    target = np.eye(len(E))[label]
    if loss == "smooth":
        target = 0.9 * target + 0.1 / len(E)
    cotangent = weight[:, None] * slope * (np.exp(logp) - target)
    return -(target * logp).sum(1) @ weight, cotangent @ E, cotangent.T @ X


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("t, v, d", [(8, 40, 3), (70, 517, 9), (257, 129, 33)])
@pytest.mark.parametrize("plan", PLANS, ids=" ".join)
def test_loss(loss, t, v, d, plan, tmp_path):
    random = np.random.default_rng(t)
    given = {"X": random.standard_normal((t, d)), "E": random.standard_normal((v, d)),
             "label": random.integers(0, v, t), "weight": random.standard_normal(t)}
    dtypes = {"label": "i4"}
    given = {name: array.astype(dtypes.get(name, "f4")) for name, array in given.items()}
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "loss.attn").write_text(LOSS.format(loss=LOSSES[loss]))
    files = [f"{name}={tmp_path / name}.npy" for name in given]
    results = ["result", "dX", "dE"]
    out = [part for name in results for part in ("-o", f"{name}={tmp_path / name}.out.npy")]
    options = [option.format(t=t, v=v, d=d) for option in plan]
    attc("run", tmp_path / "loss.attn", "--grad", "--wrt", "X,E", *files, *out, *options)
    doubles = [given["X"].astype("f8"), given["E"].astype("f8"), given["label"],
               given["weight"].astype("f8")]
    for name, expected in zip(results, twin(loss, *doubles)):
        actual = np.load(tmp_path / f"{name}.out.npy")
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_no_label(tmp_path):
    """A label outside of the vocabulary makes its loss NaN, as gather says, and no others."""
    source = """
def Each(X[t, d], param E[v, d], label[t]: i32):
    return cross_entropy(einsum(X[t, d], E[v, d] -> [t, v]), label[t])
"""
    np.save(tmp_path / "X.npy", np.ones((4, 2), "f4"))
    np.save(tmp_path / "E.npy", np.ones((64, 2), "f4"))
    np.save(tmp_path / "label.npy", np.array([0, -1, 64, 63], "i4"))
    files = [f"{name}={tmp_path / name}.npy" for name in ("X", "E", "label")]
    attc("run", "-", *files, "-o", tmp_path / "out.npy", stdin=source)
    each = np.load(tmp_path / "out.npy")
    assert np.isnan(each).tolist() == [False, True, True, False]
    np.testing.assert_allclose(each[[0, 3]], np.log(64), rtol=1e-6)


def test_nothing_is_stored(tmp_path):
    """Logits of 4096 tokens are computed and dropped; no word of the vocabulary is copied."""
    (tmp_path / "loss.attn").write_text(LOSS.format(loss=LOSSES["plain"]))
    report = attc_json("cost", tmp_path / "loss.attn", "--grad", "-D", "t=4096,v=50257,d=768",
                       "--threads", "1")
    workspace = report["workspace_bytes"]
    scratch = max(kernel["scratch_bytes"] for kernel in report["kernels"])
    assert workspace + scratch <= 64 << 20
