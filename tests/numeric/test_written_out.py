# SPDX-License-Identifier: Apache-2.0
"""Softmaxes that are written out, relative to what is no number before a row's first element, or
as long as all of it is masked: in every plan, in pieces that hold no element that counts."""

import subprocess

import numpy as np
import pytest

from attc import ATTC, attc, write

N, M, H, K = 21, 75, 2, 8
SOURCE = """dim h = 2, k = 8
def F(Q[n, h, k], K[m, h, k], V[m, h, k], s[h]):
    S[n, m, h] = einsum(Q[n, h, k], K[m, h, k])
    L[n, m, h] = {mask}
    z[n, h] = logsumexp(L, reduced_dim=m)
    a[n, h] = max(L, reduced_dim=m)
    c[n, h] = sum(exp(L - a), reduced_dim=m)
    t[n, h] = {shift}
    return {result}
"""
MASKS = {
    "S": lambda n, m: n >= 0,
    "where((index(m) + index(n)) % 3 == 0, S, -inf)": lambda n, m: (m + n) % 3 == 0,
    "where(index(m) > index(n) + 40, S, -inf)": lambda n, m: m > n + 40,
    "where(index(m) <= index(n), S, -inf)": lambda n, m: m <= n,
}
# In NumPy: the same text, of these.
SHIFTS = ["z", "a", "z + softplus(s - z)", "a + log(c + exp(s - a))", "z + log(1 + exp(s - z))",
          "sqrt(z * z + 1)", "max(a, s)", "0 - z", "z * 0.5", "log(exp(z) + exp(s))"]
NUMPY = {"softplus": lambda x: np.logaddexp(0, x), "log": np.log, "exp": np.exp, "sqrt": np.sqrt,
         "max": np.maximum}
RESULTS = {
    "einsum(exp(L - t), V -> [n, h, k])": lambda e, v: np.einsum("nmh,mhk->nhk", e, v),
    "-einsum(exp(L - t) * 2, V -> [n, h, k]) / (sum(exp(L - t), reduced_dim=m) + 1)":
        lambda e, v: -2 * np.einsum("nmh,mhk->nhk", e, v) / (e.sum(axis=1) + 1)[..., None],
}


def inputs():
    random = np.random.default_rng(11)
    shapes = {"Q": (N, H, K), "K": (M, H, K), "V": (M, H, K), "s": (H,)}
    return {name: random.standard_normal(shape).astype("f4") for name, shape in shapes.items()}


def expected(arrays, mask, shift, result):
    q, k, v, s = (array.astype("f8") for array in arrays.values())
    logits = np.einsum("nhk,mhk->nmh", q, k)
    seen = MASKS[mask](np.arange(N)[:, None, None], np.arange(M)[None, :, None])
    logits = np.where(seen, logits, -np.inf)
    a = logits.max(axis=1)
    c = np.exp(logits - a[:, None]).sum(axis=1)
    t = eval(shift, dict(NUMPY, z=a + np.log(c), a=a, c=c, s=s))
    return RESULTS[result](np.exp(logits - t[:, None]), v)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shift", SHIFTS)
def test_every_plan_is_right(tmp_path, mask, shift):
    arrays, fits = inputs(), 0
    files = write(arrays, tmp_path)
    for result in RESULTS:
        (tmp_path / "f.attn").write_text(SOURCE.format(mask=mask, shift=shift, result=result))
        for plan in ("", "stream:8:16", "two-pass:8:16", "spill:8:16", "resident:8"):
            options = ["--plan", plan] if plan else []
            command = [ATTC, "run", tmp_path / "f.attn", *files, "-o", tmp_path / "y.npy", *options]
            ran = subprocess.run(command, capture_output=True, text=True)
            if plan and "does not fit" in ran.stderr:
                continue
            assert ran.returncode == 0, ran.stderr
            fits += 1
            np.testing.assert_allclose(np.load(tmp_path / "y.npy"),
                                       expected(arrays, mask, shift, result), rtol=2e-4, atol=2e-4,
                                       err_msg=f"{plan} of {result}")
    assert fits >= 6


@pytest.mark.parametrize("plan", ["two-pass:8:16", "spill:8:16", "resident:8"])
def test_gradients_too(tmp_path, plan):
    text = SOURCE.format(mask=list(MASKS)[1], shift="sqrt(z * z + 1)",
                         result="einsum(exp(L - t), V -> [n, h, k]), z")
    (tmp_path / "f.attn").write_text(text)
    attc("verify", tmp_path / "f.attn", "--grad", "-w", "-D", f"n={N},m={M}", "--plan", plan)
