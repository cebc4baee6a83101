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
    "where(index(n) % 5 != 2, S, -inf)": lambda n, m: (n % 5 != 2) & (m >= 0),
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
    with np.errstate(all="ignore"):
        a = logits.max(axis=1)
        c = np.exp(logits - a[:, None]).sum(axis=1)
        z = np.where(np.isfinite(a), a + np.log(c), a)
        t = eval(shift, dict(NUMPY, z=z, a=a, c=c, s=s))
        return RESULTS[result](np.exp(logits - t[:, None]), v)


# Each mask with each shift, with the results in turns.
CASES = [(mask, shift, list(RESULTS)[(i + k) % len(RESULTS)])
         for i, mask in enumerate(MASKS) for k, shift in enumerate(SHIFTS)]


@pytest.mark.parametrize("mask, shift, result", CASES)
def test_every_plan_is_right(tmp_path, mask, shift, result):
    arrays, fits = inputs(), 0
    files = write(arrays, tmp_path)
    (tmp_path / "f.attn").write_text(SOURCE.format(mask=mask, shift=shift, result=result))
    for plan in ("", "stream:8:16", "two-pass:8:16", "spill:8:16", "resident:8"):
        options = ["--plan", plan] if plan else []
        command = [ATTC, "run", tmp_path / "f.attn", *files, "-o", tmp_path / "y.npy", *options]
        ran = subprocess.run(command, capture_output=True, text=True)
        if plan and "does not fit" in ran.stderr:
            continue
        assert ran.returncode == 0, ran.stderr
        fits += 1
        right, got = expected(arrays, mask, shift, result), np.load(tmp_path / "y.npy")
        known = ~np.isnan(right)  # language 4.3
        np.testing.assert_allclose(got[known], right[known], rtol=2e-4, atol=2e-4, err_msg=plan)
    assert fits >= 3


# Powers far above 1, or of which the largest of the row is no measure.
FAR = {
    "einsum(exp(L - g - s), V -> [n, h, k])":
        lambda x, g, s, v: np.einsum("nmh,mhk->nhk", np.exp(x - g - s), v),
    "einsum(exp(L - 0.5 * a), V -> [n, h, k])":
        lambda x, g, s, v: np.einsum("nmh,mhk->nhk", np.exp(x - x.max(1, keepdims=True) / 2), v),
    "einsum(exp(L - min(a, s + 60)) * keep, V -> [n, h, k])":
        lambda x, g, s, v: np.einsum("nmh,mhk->nhk", np.exp(
            x - np.minimum(x.max(1, keepdims=True), s + 60)) * (np.arange(M) > 0)[:, None], v),
}


@pytest.mark.parametrize("result", FAR)
def test_what_the_largest_is_no_measure_of(tmp_path, result):
    """A head far below another, and an element far above all others that does not count."""
    (tmp_path / "f.attn").write_text("""def F(L[n, m, h], V[m, h, k], s[h]):
    a[n, h] = max(L, reduced_dim=m)
    g[n, _h] = max(L, reduced_dim=(m, h))
    keep[m] = where(index(m) > 0, f32(1), 0)
    return RESULT
""".replace("[n, _h]", "[n]").replace("RESULT", result))
    random = np.random.default_rng(3)
    logits = random.standard_normal((N, M, H)).astype("f4")
    v = random.standard_normal((M, H, K)).astype("f4")
    s = np.array([0, -100], "f4") if "g" in result else np.zeros(2, "f4")
    logits += s
    if "g" not in result:
        logits[:, 0], v[0] = 130, 0
        logits[:, 1:] += 60
    files = write({"L": logits, "V": v, "s": s}, tmp_path)
    x = logits.astype("f8")
    right = FAR[result](x, x.max(axis=(1, 2), keepdims=True), s.astype("f8"), v.astype("f8"))
    assert np.isfinite(right).all() and np.abs(right).min() > 1e-12
    for plan in ("", "unfused"):
        options = ["--plan", plan] if plan else []
        attc("run", tmp_path / "f.attn", *files, "-o", tmp_path / "y.npy", *options)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), right, rtol=1e-3)


@pytest.mark.parametrize("m", [0, 1, 5])
def test_a_memory_of_nothing(tmp_path, m):
    """The sum of no powers is 0, whatever they are relative to."""
    (tmp_path / "f.attn").write_text("""def F(L[n, m], V[m, k]):
    a[n] = max(L, reduced_dim=m)
    E[n, m] = exp(L - a)
    S[n] = sum(E, reduced_dim=m) + 0.5
    return einsum(E / S, V -> [n, k]), S
""")
    logits, v = np.full((3, m), 2, "f4"), np.ones((m, 4), "f4")
    files = write({"L": logits, "V": v}, tmp_path)
    attc("run", tmp_path / "f.attn", *files, "-o", f"result={tmp_path / 'y.npy'}", "-o",
         f"S={tmp_path / 's.npy'}")
    assert np.array_equal(np.load(tmp_path / "s.npy"), np.full(3, m + 0.5, "f4"))


@pytest.mark.parametrize("plan", ["two-pass:8:16", "spill:8:16", "resident:8"])
def test_gradients_too(tmp_path, plan):
    text = SOURCE.format(mask=list(MASKS)[1], shift="sqrt(z * z + 1)",
                         result="einsum(exp(L - t), V -> [n, h, k]), z")
    (tmp_path / "f.attn").write_text(text)
    attc("verify", tmp_path / "f.attn", "--grad", "-w", "-D", f"n={N},m={M}", "--plan", plan)
