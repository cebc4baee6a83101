# SPDX-License-Identifier: Apache-2.0
"""Saved tensors in the header of a library, also where they are made of trained ones alone."""

import re

from test_products import ATTC, run

SOURCE = """
def F(X[n, d], param L[d, e]: f16, param G[e]: f16):
    H[n, e] = tanh(einsum(X[n, d], f32(L[d, e]) -> [n, e]))
    return einsum(H[n, e], softmax(f32(G[e]), reduced_dim=e) -> [n])
"""


def test_what_is_made_of_trained_tensors_is_not_trained(tmp_path):
    (tmp_path / "f.attn").write_text(SOURCE)
    run(ATTC, "build", tmp_path / "f.attn", "--grad", "-D", "d=64,e=64", "-o", tmp_path / "f.so")
    saved = re.findall(r"\*(saved_\w+); +// (.*)", (tmp_path / "f.h").read_text())
    assert "saved_value_sum" in dict(saved)
    assert not [name for name, what in saved if "trained" in what]
    assert re.search(r"\*L; .*, trained", (tmp_path / "f.h").read_text())
