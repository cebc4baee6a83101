# SPDX-License-Identifier: Apache-2.0
"""`attc cost` against the tables of "Talking-Heads Attention" (Shazeer et al. 2020)."""

import pytest

from attc import EXAMPLES, attc, attc_json

T5_BASE = dict(d_X=768, d_M=768, d_Y=768, n=512, m=512)


def cost(example, **extents):
    sizes = ",".join(f"{dim}={extent}" for dim, extent in {**T5_BASE, **extents}.items())
    return attc_json("cost", EXAMPLES / f"{example}.attn", "-D", sizes)


@pytest.mark.parametrize("example", ["multi_head", "multi_head_concise", "bilinear_multi_head"])
@pytest.mark.parametrize(
    "h, d, parameters", [(6, 128, 2359296), (24, 32, 2359296), (24, 64, 4718592)]
)
def test_multi_head(example, h, d, parameters):
    figures = cost(example, h=h, d_k=d, d_v=d)
    n = m = 512
    assert figures["parameters"] == parameters
    assert figures["multiplies"] == h * (d + d) * (n * 768 + m * 768 + n * m)


@pytest.mark.parametrize(
    "example", ["talking_heads", "talking_heads_concise", "bilinear_talking_heads"]
)
@pytest.mark.parametrize(
    "h, d, parameters, printed",
    [
        (6, 128, 2359368, "1.629e+09"),
        (12, 64, 2359584, "1.686e+09"),
        (24, 32, 2360448, "1.913e+09"),
        (48, 16, 2363904, "2.819e+09"),
    ],
)
def test_talking_heads(example, h, d, parameters, printed):
    figures = cost(example, h_k=h, h=h, h_v=h, d_k=d, d_v=d)
    n = m = 512
    assert figures["parameters"] == parameters
    assert figures["multiplies"] == 2 * d * h * (n * 768 + m * 768 + n * m) + n * m * h * 2 * h
    assert f"{figures['multiplies']:.3e}" == printed


def test_general_bilinear():
    """The paper prints 7.650e9, which its listing cannot reach: each of the two three-way einsums
    costs at
    least n d_X d_M h (apply the form to the queries) plus n m d_M h (meet the memory): 12.08e9."""
    figures = cost("general_bilinear", h=12)
    n = m = 512
    assert figures["parameters"] == 14155776
    assert figures["multiplies"] == 2 * (n * 768 * 768 * 12 + n * m * 768 * 12) == 12079595520


@pytest.mark.parametrize("h, d, parameters", [(12, 64, 2801952), (24, 32, 4129920)])
def test_dynamic_projections(h, d, parameters):
    assert cost("dynamic_projections", h_k=h, h=h, h_v=h, d_k=d, d_v=d)["parameters"] == parameters


def test_unmarked_sources_take_data_from_the_command_line(tmp_path):
    source = (EXAMPLES / "multi_head.attn").read_text().replace("param ", "")
    (tmp_path / "plain.attn").write_text(source)
    figures = attc_json("cost", tmp_path / "plain.attn", "--data", "X,M", "-D", "n=512,m=512")
    assert figures["parameters"] == 2359296


def test_predictions_are_made_of_stages():
    """A kernel takes what its stages take and a little more; threads share it."""
    entry = (EXAMPLES / "talking_heads.attn", "-D", "n=512,m=512")
    assert attc_json("cost", *entry)["threads"] == attc_json("machine")["threads"]
    one = attc_json("cost", *entry, "--threads", "1")
    assert one["threads"] == 1
    for kernel in one["kernels"]:
        stages = sum(stage["seconds"] for stage in kernel["stages"])
        assert stages <= kernel["predicted_seconds"] <= 1.2 * stages
        assert all(stage["seconds"] > 0 and stage["over"] for stage in kernel["stages"])
    four = attc_json("cost", *entry, "--threads", "4")
    assert four["threads"] == 4
    for alone, shared in zip(one["kernels"], four["kernels"]):
        assert 0.2 * alone["predicted_seconds"] < shared["predicted_seconds"]
        assert shared["predicted_seconds"] < 0.6 * alone["predicted_seconds"]


MLP = """dim n = 64, d = 32, f = 128
def Mlp(X[n, d], param W[d, f], param V[f, d]):
    H[n, f] = tanh(einsum(X[n, d], W[d, f]))
    return einsum(H[n, f], V[f, d] -> [n, d])
"""


def test_what_gradients_keep(tmp_path):
    (tmp_path / "mlp.attn").write_text(MLP)
    figures = attc_json("cost", tmp_path / "mlp.attn", "--grad")
    saved = {buffer["name"]: buffer for buffer in figures["saved"]}
    assert saved["H"]["bytes"] == 4 * 64 * 128 and sorted(saved["H"]["dims"]) == ["f", "n"]
    assert figures["saved_bytes"] == sum(buffer["bytes"] for buffer in figures["saved"])
    placed = {"input": 0, "parameter": 0, "output": 0}
    for buffer in figures["buffers"]:
        if buffer["placement"] in placed:
            placed[buffer["placement"]] += buffer["bytes"]
    assert figures["argument_bytes"] == placed["input"] + placed["parameter"]
    assert figures["result_bytes"] == placed["output"]
    assert figures["peak_bytes"] == sum(placed.values()) + figures["workspace_bytes"]
    assert "saved_bytes" not in attc_json("cost", tmp_path / "mlp.attn")
    out, _ = attc("cost", tmp_path / "mlp.attn", "--grad")
    heads = [line.split()[:2] for line in out.splitlines()]
    assert ["peak", f"{figures['peak_bytes'] / 1024:.1f}"] in heads and ["saved", "dims"] in heads


# A kernel that serves both passes reads copies in another order: of an argument, of what is saved.
def test_copies_are_not_what_gradients_keep():
    def cost(example):
        figures = attc_json("cost", EXAMPLES / f"{example}.attn", "--grad", "-D", "n=512,m=512")
        return {buffer["name"] for buffer in figures["saved"]}, figures["buffers"]

    saved, buffers = cost("dot_product")
    assert not saved
    assert any(b["placement"] == "workspace" and set(b["dims"]) == {"m", "d"} for b in buffers)
    saved, _ = cost("multi_head")
    assert saved == {"Q", "K", "V", "O"}


MASKED = """
dim d = 16
def All(Q[n, d], K[m, d], V[m, d]):
    return einsum(softmax(einsum(Q, K -> [n, m]), reduced_dim=m), V -> [n, d])
def Causal(Q[n, d], K[m, d], V[m, d]):
    L = where(index(m) <= index(n), einsum(Q, K -> [n, m]), -inf)
    return einsum(softmax(L, reduced_dim=m), V -> [n, d])
def Window(Q[n, d], K[m, d], V[m, d]):
    seen = (index(m) <= index(n)) and (index(n) - index(m) < 37)
    L = where(seen, einsum(Q, K -> [n, m]), -inf)
    return einsum(softmax(L, reduced_dim=m), V -> [n, d])
def Nothing(Q[n, d], K[m, d], V[m, d]):
    L = where(index(m) < 0, einsum(Q, K -> [n, m]), -inf)
    return einsum(softmax(L, reduced_dim=m), V -> [n, d])
def Padded(Q[n, d], K[m, d], V[m, d], length[]: i32):
    L = where(index(m) < length, einsum(Q, K -> [n, m]), -inf)
    return einsum(softmax(L, reduced_dim=m), V -> [n, d])
"""
# Positions that each sees; what a length leaves is not known before it runs.
SEEN = dict(
    All=lambda n, m: m,
    Causal=lambda n, m: min(n + 1, m),
    Window=lambda n, m: max(min(n + 1, m) - max(n - 36, 0), 0),
    Nothing=lambda n, m: 0,
    Padded=lambda n, m: m,
)


@pytest.mark.parametrize("entry", SEEN)
@pytest.mark.parametrize("n, m", [(300, 300), (45, 131), (131, 45)])
@pytest.mark.parametrize("options", [[], ["--dynamic", "n,m"], ["--plan", "stream:24:32"]])
def test_what_masks_leave_out(tmp_path, entry, n, m, options):
    """Position by position, whatever pieces tasks work off; without a fused plan nothing is."""
    (tmp_path / "masked.attn").write_text(MASKED)
    words = ["cost", tmp_path / "masked.attn", "--entry", entry, "-D", f"n={n},m={m}"]
    figures = attc_json(*words, *options)
    seen = sum(SEEN[entry](i, m) for i in range(n))
    assert figures["multiplies"] == 2 * n * m * 16
    assert figures["masked_multiplies"] == pytest.approx(2 * (n * m - seen) * 16, abs=1)
    assert any(k["seen"] == pytest.approx(seen / (n * m)) for k in figures["kernels"])
    assert attc_json(*words, "--plan", "unfused")["masked_multiplies"] == 0
    text = attc(*words, *options)[0]
    assert (f"({100 - 100 * seen / (n * m):.1f}%), which masks let kernels" in text) == (
        seen < n * m
    )


def test_masks_leave_out_of_gradients_what_they_leave_out_of_results(tmp_path):
    """Of two products of the results and four of the gradients."""
    (tmp_path / "masked.attn").write_text(MASKED)
    words = [tmp_path / "masked.attn", "--entry", "Causal", "-D", "n=200,m=200", "--grad"]
    masked = attc_json("cost", *words)["masked_multiplies"]
    assert masked == pytest.approx(6 * 16 * 200 * 199 / 2, abs=6)


@pytest.mark.parametrize("options", [[], ["--checkpoint", "layers"]])
def test_what_is_computed_again_is_masked_once(options):
    """Six products of each head and layer; logits are computed again for gradients."""
    figures = attc_json("cost", EXAMPLES / "lm.attn", "--entry", "Loss", "-D", "b=1", "--grad",
                        *options)
    assert figures["masked_multiplies"] == 6 * 6 * 8 * 32 * (256 * 255 // 2)
