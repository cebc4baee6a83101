# SPDX-License-Identifier: Apache-2.0
"""Whole models among the examples: losses against NumPy, compiled code and gradients against the
oracle, another attention by one line, and numbers of parameters."""

import numpy as np
import pytest

from attc import EXAMPLES, Entry, attc, attc_json, extents_options, write
from model_twins import MODELS

SMALL = dict(b=2, layers=2, d=12, d_ff=20, h=3, d_k=8, d_p=7, e=5, n=9, m=7, v=23)
TINY = dict(SMALL, layers=1, d=6, d_ff=8, h=2, d_k=4, d_p=4, e=4, n=4, m=3, v=7)
TALKING = [("lm", ["(A) as attend"]), ("bert", ["(X) as attend"]),
           ("t5", ["(A, A[n', d], there, bias)", "(A, A[m', d], earlier, bias)", "(C, M, there,"])]


def sizes_of(name, sizes):
    """Of the dims that the model has."""
    absent = {
        "lm": "m d_p e", "fixed_heads_lm": "m d_k e", "bert": "m d_p e", "albert": "m d_p",
        "t5": "d_p e", "transformer": "d_p e",
    }[name].split()
    return {dim: extent for dim, extent in sizes.items() if dim not in absent}


def drawn(path, sizes):
    """Data and trained tensors of a model, by their names."""
    random = np.random.default_rng(5)
    cost = attc_json("cost", path, *extents_options(sizes))
    dims = cost["dims"]
    data = {
        name: random.integers(-(name == "labels"), sizes["v"], [dims[d] for d in over]).astype("i4")
        for name, (over, _) in Entry(path).parameters.items()
        if over
    }
    for name in {"source", "target"} & set(data):
        data[name][0, -2:] = -1  # shorter than the other
    tensors = {
        b["name"]: random.standard_normal([dims[d] for d in b["dims"]]).astype("f4") / 3
        for b in cost["buffers"]
        if b["placement"] == "parameter"
    }
    return data, tensors


def losses_agree(path, twin, sizes, tmp_path):
    data, tensors = drawn(path, sizes)
    if "seed" in Entry(path).parameters:
        data["seed"] = np.array(-1)
    given = [*write(data, tmp_path), *write(tensors, tmp_path)]
    out = tmp_path / "loss.out.npy"
    attc("run", path, "--oracle", *extents_options(sizes), *given, "-o", f"result={out}")
    wide = {name: tensor.astype("f8") for name, tensor in tensors.items()}
    assert np.load(out) == pytest.approx(twin(data, wide), rel=1e-12)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_loss_equals_numpy(name, tmp_path):
    losses_agree(EXAMPLES / f"{name}.attn", MODELS[name], sizes_of(name, SMALL), tmp_path)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_compiled_loss_equals_oracle(name):
    sizes = sizes_of(name, SMALL)
    attc("verify", EXAMPLES / f"{name}.attn", *extents_options(sizes), "--dynamic", "b")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_gradients(name):
    path = EXAMPLES / f"{name}.attn"
    attc("verify", path, "--grad", *extents_options(sizes_of(name, TINY)))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_training_stores_no_weights(name):
    options = ["-D", "b=2,layers=2", "--grad", "--no-materialize"]
    attc("cost", EXAMPLES / f"{name}.attn", *options)


@pytest.mark.parametrize("name, calls", TALKING, ids=[name for name, _ in TALKING])
def test_one_line_chooses_talking_heads(name, calls, tmp_path):
    text = (EXAMPLES / f"{name}.attn").read_text()
    for call in calls:
        assert text.count("MultiHead" + call) == 1
        text = text.replace("MultiHead" + call, "TalkingHeads" + call)
    path = tmp_path / "talking.attn"
    path.write_text(text)
    losses_agree(path, MODELS[name], dict(sizes_of(name, SMALL), h_k=2, h_v=4), tmp_path)


def attention(d, heads, biases):
    """Parameters of an attention over `heads` numbers of all heads together."""
    return 4 * d * heads + (3 * heads + d if biases else 0)


def closed_form(name, layers, d, d_ff, h, n, v, d_k=0, d_p=0, e=0, **_):
    feed = 2 * d * d_ff + d_ff + d
    layer = attention(d, h * (d_k or d_p), name not in ("lm", "fixed_heads_lm")) + feed + 4 * d
    head = lambda e: (d + 1) * e + 2 * e + v
    if name in ("lm", "fixed_heads_lm"):
        return (v + n) * d + layers * layer + 2 * d
    if name == "bert":
        return (v + n) * d + 2 * d + layers * layer + head(d)
    if name == "albert":
        return (v + n) * e + 2 * e + (e + 1) * d + layer + head(e)
    if name == "t5":
        plain = attention(d, h * d_k, False)
        sides = 2 * layers * (plain + 2 * d * d_ff + 2 * d) + layers * (plain + d) + 2 * d
        return v * d + 2 * 32 * h + sides
    return v * d + 2 * layers * layer + layers * (attention(d, h * d_k, True) + 2 * d)


def parameters(name, sizes):
    return attc_json("cost", EXAMPLES / f"{name}.attn", *extents_options(sizes))["parameters"]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parameters_equal_the_closed_form(name):
    sizes = sizes_of(name, SMALL)
    assert parameters(name, sizes) == closed_form(name, **sizes)


@pytest.mark.parametrize("d, count", [(512, 2102784), (1024, 6301696), (2048, 20990976)])
def test_parameters_of_an_encoder_layer(d, count):
    """With biases and two layer norms."""
    one, two = (
        parameters("bert", dict(b=1, layers=layers, d=d, d_ff=1024, h=8, d_k=d // 8, n=8))
        for layers in (1, 2)
    )
    assert two - one == count
