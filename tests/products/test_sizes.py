# SPDX-License-Identifier: Apache-2.0
"""Libraries and programs that are planned for several sizes of a dim: --dynamic n=1+512."""

import itertools
import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc, write
from library import Library, made_once

pytestmark = pytest.mark.skipif(SANITIZED, reason="libraries of a sanitizer build do not load")

# By the extents at which the next size begins, their least n with n * n >= the product of both.
SIZES = {"n": {1: range(0, 8), 64: range(8, 1 << 40)},
         "m": {32: range(0, 128), 512: range(128, 1 << 40)}}
EXTENTS = [0, 1, 7, 8, 9, 65], [0, 1, 31, 127, 128, 300]
LAYER = """
dim d = 24, h = 3, k = 8
def Layer(X[n, d], M[m, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h],
          param P_o[d, k, h]):
    L[n, m, h] = einsum(X[n, d], P_q[d, k, h], M[m, d'], P_k[d', k, h])
    W[n, m, h] = softmax(L, reduced_dim=m)
    return einsum(W, M[m, d'], P_v[d', k, h], P_o -> [n, d])
"""


def built(folder, dynamic, *options):
    source, path = folder / "layer.attn", folder / f"{dynamic}.so"
    source.write_text(LAYER)
    attc("build", source, "--dynamic", dynamic, "--target", "x86-64-v3", *options, "-o", path)
    return Library(path, "Layer")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """By --dynamic."""
    folder, made = tmp_path_factory.mktemp("sizes"), {}

    def library(dynamic):
        if dynamic not in made:
            made[dynamic] = built(folder, dynamic)
        return made[dynamic]

    yield library
    for one in made.values():
        one.close()


def arrays(n, m):
    random = np.random.default_rng(n * 1000 + m)
    shapes = {"X": (n, 24), "M": (m, 24), **{f"P_{p}": (24, 8, 3) for p in "qkvo"}}
    return {name: (random.standard_normal(shape) / 4).astype("f4")
            for name, shape in shapes.items()}


def layer(X, M, P_q, P_k, P_v, P_o):
    q, k, v = (np.einsum("nd,dkh->nkh", x, p, dtype="f8") for x, p in
               ((X, P_q), (M, P_k), (M, P_v)))
    logits = np.einsum("nkh,mkh->nmh", q, k)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("nmh,mkh,dkh->nd", weights, v, P_o, optimize=True)


def size_of(dim, extent):
    return next(size for size, extents in SIZES[dim].items() if extent in extents)


@pytest.mark.parametrize("n, m", itertools.product(*EXTENTS))
def test_a_call_takes_what_is_planned_for_the_nearest_size(libraries, n, m):
    several = libraries("n=1+64,m=32+512")
    one = libraries(f"n={size_of('n', n)},m={size_of('m', m)}")
    given, extents = arrays(n, m), dict(n=n, m=m)
    [result], [expected] = (
        library.call("", extents, given).values() for library in (several, one))
    assert np.array_equal(result, expected, equal_nan=True)
    assert several.workspace("", n, m) == one.workspace("", n, m)
    if m:
        np.testing.assert_allclose(result, layer(**given), rtol=1e-4, atol=1e-4)


def test_sizes_have_kernels_of_their_own(libraries):
    several = libraries("n=1+64,m=32+512").manifest["kernels"]
    alone = libraries("n=64,m=512").manifest["kernels"]
    assert {k["symbol"] for k in alone} < {k["symbol"] for k in several}
    guards = [tuple((g["dim"], g["least"], g["below"]) for g in k["extents"]) for k in several]
    assert {guard[:2] for guard in guards} == {
        (("n", *n), ("m", *m)) for n, m in itertools.product(((0, 8), (8, None)),
                                                             ((0, 128), (128, None)))}
    assert all(k["extents"] == [] for k in libraries("n=64,m=32").manifest["kernels"]
               if k["schedule"]["kind"] != "stream")


def test_a_program_has_sizes_too(tmp_path):
    source, program = tmp_path / "layer.attn", tmp_path / "layer"
    source.write_text(LAYER)
    attc("build", source, "--exe", "--dynamic", "n=1+64,m=512", "-o", program)
    for n in (1, 40):
        given = arrays(n, 50)
        folder = tmp_path / str(n)
        folder.mkdir()
        subprocess.run([program, *write(given, folder), "-o", folder / "y.npy"], check=True)
        np.testing.assert_allclose(np.load(folder / "y.npy"), layer(**given), rtol=1e-4, atol=1e-4)
