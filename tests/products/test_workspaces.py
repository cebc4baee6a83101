# SPDX-License-Identifier: Apache-2.0
"""Workspaces of what `attc build --grad` gives, and what is saved: nothing quadratic; limits."""

import re
from collections import Counter

import numpy as np
import pytest

from attc import EXAMPLES, SANITIZED, attc, attc_json
from library import Library
from programs import LOSS

pytestmark = pytest.mark.skipif(SANITIZED, reason="libraries of a sanitizer build do not load")

# Positions of queries and memory, where a product of two dwarfs a row of any width; and batches.
LONG, BATCHES = dict(n=32771, m=49157), dict(b=3)


def workspace_growth(library, suffix):
    """By how much it takes more when all positions are twice as many, whichever dims they are
    under: 2, or less, unless a tensor is over two of them."""
    short, long = (library.workspace_of(suffix, {**BATCHES, **{n: k * e for n, e in LONG.items()}})
                   for k in (1, 2))
    assert short > 0
    return long / short


def test_layers_in_one_call_store_nothing_quadratic(tmp_path):
    source, path = tmp_path / "loss.attn", tmp_path / "loss.so"
    source.write_text(LOSS)
    attc("build", source, "--grad", "--target", "x86-64-v3", "-o", path)
    library = Library(path, "Loss")
    for suffix in ("_forward", "_backward", "_gradient"):
        assert workspace_growth(library, suffix) <= 2
    library.close()


def test_cost_tells_the_workspace_that_the_library_asks_for(tmp_path):
    """To the byte: slots begin at multiples of 64 bytes, and none of these extents is one."""
    source, path = tmp_path / "loss.attn", tmp_path / "loss.so"
    source.write_text(LOSS)
    options = ["-D", "n=29", "--target", "x86-64-v3"]
    attc("build", source, *options, "-o", path)
    library = Library(path, "Loss")
    told = library.workspace("")
    library.close()
    assert 0 < told == attc_json("cost", source, *options)["workspace_bytes"]


VOCABULARY = """
dim d = 16
def Loss(X[t, d], param E[v, d], label[t]: i32):
    return mean(cross_entropy(einsum(X[t, d], E[v, d] -> [t, v]), label[t]), reduced_dim=t)
"""


def test_parts_of_a_loss_over_a_vocabulary_store_no_logits(tmp_path):
    source = tmp_path / "loss.attn"
    source.write_text(VOCABULARY)
    path = tmp_path / "loss.so"
    attc("build", source, "--grad", "-D", "t=4096,v=16384", "--target", "x86-64-v3", "-o", path)
    library = Library(path, "Loss")
    logits = 4 * 4096 * 16384
    for suffix in ("_forward", "_backward", "_gradient"):
        assert library.workspace(suffix) < logits / 20
    library.close()


ATTENTION = ["multi_head", "talking_heads", "causal", "dot_product", "grouped_key_value", "rotary",
             "alibi", "document", "relative_bias", "talking_heads_concise", "cross_attention",
             "topk_attention"]
# Weights that a part has in its workspace: README, limits.
STORED = ["topk_attention"]


def run_time_dims(tensor, like):
    """How often it has each, a dim and one like it being the same: batches and positions."""
    return Counter(like[dim] for dim in tensor["dims"] if dim in like)


# No more positions than an argument or a result has: not those of a query and of a memory.
@pytest.mark.parametrize("example", ATTENTION)
def test_nothing_quadratic_is_saved_or_stored(tmp_path, example):
    library = tmp_path / "library.so"
    options = [] if example in STORED else ["--no-materialize"]
    attc("build", EXAMPLES / f"{example}.attn", "--grad", "-w", *options, "--target", "x86-64-v3",
         "-o", library)
    header = library.with_suffix(".h").read_text()
    loaded = Library(library, re.search(r"ATTC_ENTRY_(\w+)_H", header).group(1))
    function = loaded.functions[f"{loaded.entry}_forward"]
    growth = [workspace_growth(loaded, suffix) for suffix in ("_forward", "_backward")]
    loaded.close()
    assert max(growth) > 3 if example in STORED else max(growth) <= 2
    like = {d["name"]: d["like"] for d in function["dims"] if d["extent"] is None}
    plain = [run_time_dims(t, like) for t in function["tensors"] if t["use"] == "plain"]
    assert like and max(map(Counter.total, plain)) <= 2  # a batch and its positions
    saved = [t for t in function["tensors"] if t["use"] == "saved"]
    assert saved and all(t["name"].startswith("saved_") for t in saved)
    for tensor in saved:
        assert any(run_time_dims(tensor, like) <= argument for argument in plain), tensor


# Logits over n x m and over n x n.
@pytest.mark.parametrize("example", ["multi_head", "causal"])
def test_what_is_stored_shows_in_the_workspace(tmp_path, example):
    library, entry = tmp_path / "library.so", {"multi_head": "MultiHead", "causal": "Causal"}
    attc("build", EXAMPLES / f"{example}.attn", "--grad", "-w", "--plan", "unfused", "--target",
         "x86-64-v3", "-o", library)
    loaded = Library(library, f"{entry[example]}Attention")
    assert workspace_growth(loaded, "_forward") > 3 and workspace_growth(loaded, "_backward") > 3
    loaded.close()


# ---- --memory-limit ----

# Between the layers little is handed on.
LAYERS = """
dim layers = 5, d = 16, f = 64
def Layers(X[n, d], param W[layers, d, f], param V[layers, f, d]):
    for layer in layers:
        H[n, f] = tanh(einsum(X[n, d], W[layer, d, f] -> [n, f]))
        X[n, d] = X + einsum(H[n, f], V[layer, f, d] -> [n, d])
    return sum(X * X, reduced_dim=(n, d))
"""


def test_workspaces_and_what_is_saved_fit_the_limit(tmp_path):
    (tmp_path / "layers.attn").write_text(LAYERS)
    taken, results = [], []
    random = np.random.default_rng(5)
    given = {"X": random.standard_normal((512, 16)).astype("f4"),
             "W": random.standard_normal((5, 16, 64)).astype("f4") / 4,
             "V": random.standard_normal((5, 64, 16)).astype("f4") / 8}
    _, err = attc("build", tmp_path / "layers.attn", "--grad", "-w", "--memory-limit=1", "-o",
                  tmp_path / "layers.so", status=1)
    least = int(re.search(r"found is .*\((\d+) bytes\)", err).group(1))
    for limit in (1 << 30, least):  # judged where n is 512
        path = tmp_path / f"layers_{limit}.so"
        attc("build", tmp_path / "layers.attn", "--grad", "-w", "--verify-passes",
             f"--memory-limit={limit}", "-o", path)
        library = Library(path, "Layers", 2)
        saved = sum(4 * int(np.prod([512 if d["extent"] is None else d["extent"]
                                     for name in t["dims"]
                                     for d in library.functions["Layers_forward"]["dims"]
                                     if d["name"] == name]))
                    for t in library.functions["Layers_forward"]["tensors"] if t["use"] == "saved")
        taken.append([library.workspace("", 512), library.workspace("_gradient", 512),
                      saved + max(library.workspace("_forward", 512),
                                  library.workspace("_backward", 512))])
        assert max(taken[-1]) <= limit
        results.append(library.call("_gradient", dict(n=512), given))
        library.close()
    assert taken[0][1] > 1.3 * taken[1][1]
    for name, array in results[0].items():
        np.testing.assert_allclose(array, results[1][name], rtol=2e-4, atol=2e-4)


# Logits that are added up over layers: stored for later sweeps where that is cheaper and fits.
LOGITS = """
dim n = 48, h = 2, d = 40, k = 16, layers = 4
dim m like n
def Layer(X[n, d], L[n, m, h]):
    param P_q[d, h, k] ~ glorot, P_k[d, h, k] ~ glorot, P_v[d, h, k] ~ glorot, P_o[h, k, d] ~ glorot
    S[n, m, h] = einsum(X, P_q, X[m, d'], P_k[d', h, k]) + L
    return X + einsum(softmax(S, reduced_dim=m), X[m, d'], P_v[d', h, k], P_o -> [n, d]), S
def Logits(X[n, d], slope[h]):
    L[n, m, h] = slope * abs(index(n) - index(m))
    for layer in layers:
        X, L = Layer(X, L)
    return X
"""


def test_parts_are_lowered_as_they_were_judged(tmp_path):
    """The entry fits with its logits stored, the parts fit without: only with what they save."""
    source, path = tmp_path / "logits.attn", tmp_path / "logits.so"
    source.write_text(LOGITS)
    options = ["build", source, "--grad", "-w", "--target", "x86-64-v3", "-o", path]
    _, err = attc(*options, "--memory-limit=1", status=1)
    least = int(err.split("(")[1].split(" bytes")[0])
    attc(*options, f"--memory-limit={least}")
    library = Library(path, "Logits")
    assert library.workspace("") < least
    assert library.workspace("_forward") <= least and library.workspace("_backward") <= least
    library.close()


def test_parts_that_do_not_fit_are_told(tmp_path):
    (tmp_path / "layers.attn").write_text(LAYERS)
    parts = "of the forward and backward parts takes more, the least found is "
    for options, least, saved in ((["--grad"], parts, True), ([], "takes ", False)):
        _, err = attc("build", tmp_path / "layers.attn", "-w", *options, "--memory-limit=4K", "-o",
                      tmp_path / "layers.so", status=1)
        assert f"--memory-limit 4.0 KiB (4096 bytes): the workspace {least}" in err
        assert ("largest at its fullest moment: what is saved (" in err) == saved
