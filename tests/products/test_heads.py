# SPDX-License-Identifier: Apache-2.0
"""The subcommand `heads` of programs that train: figures, pruned models, pictures."""

import csv
import json
import re
import struct
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from attc import SANITIZED, attc

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs are linked without sanitizers")

SIZES = dict(d=12, k=4, h_k=4, h=3, h_v=2, n=5, b=6)
MASKS = {"J": "h_k", "W": "h", "U": "h_v"}


def talking(masked=False, each=False):
    """Two talking-heads layers with a loss; with factors xi_J_0[h_k].. of the heads as arguments,
    and with the loss of each example."""
    def xi(value, layer):
        return f", xi_{value}_{layer}[{MASKS[value]}]" if masked else ""

    def layer(number):
        return f"""
    J{number}[b, n, m, h_k] = einsum(X{number}[b, n, d], P_q_{number}[d, k, h_k],
        X{number}[b, m, d'], P_k_{number}[d', k, h_k]) / sqrt(k)
    L{number}[b, n, m, h] = einsum(J{number}[b, n, m, h_k], P_l_{number}[h_k, h]{xi("J", number)})
    W{number}[b, n, m, h] = softmax(causal(L{number}), reduced_dim=m)
    U{number}[b, n, m, h_v] = einsum(W{number}[b, n, m, h], P_w_{number}[h, h_v]{xi("W", number)})
    O{number}[b, n, k, h_v] = einsum(U{number}[b, n, m, h_v], X{number}[b, m, d],
        P_v_{number}[d, k, h_v]{xi("U", number)})
    X{number + 1} = X{number} + einsum(O{number}[b, n, k, h_v], P_o_{number}[d, k, h_v]
        -> [b, n, d])"""

    params = [f"param P_{name}_{i}[{dims}]" for i in (0, 1) for name, dims in PARAMS.items()]
    factors = [f"xi_{v}_{i}[{dim}], " for i in (0, 1) for v, dim in MASKS.items() if masked]
    return f"""# Two layers.
dim d = 12, k = d / h, h_k = 4, h = 3, h_v = 2
dim n = 5
dim m like n
def Loss(X0[b, n, d], T[b, n, d], {"".join(factors)}{", ".join(params)}):{layer(0)}{layer(1)}
    loss = mean((X2 - T) ** 2, reduced_dim=({"n, d" if each else "b, n, d"}))
    return loss[{"b" if each else ""}]
"""


PARAMS = dict(q="d, k, h_k", k="d, k, h_k", v="d, k, h_v", o="d, k, h_v", l="h_k, h", w="h, h_v")


def draw():
    random = np.random.default_rng(3)
    weights = {}
    for layer in (0, 1):
        for name, dims in PARAMS.items():
            shape = [SIZES[dim] for dim in dims.split(", ")]
            weights[f"P_{name}_{layer}"] = (0.4 * random.standard_normal(shape)).astype(np.float32)
    shape = (SIZES["b"], SIZES["n"], SIZES["d"])
    data = {name: random.standard_normal(shape).astype(np.float32) for name in ("X0", "T")}
    return weights, data


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape,
                        "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text
                     + b"".join(tensor.tobytes() for tensor in tensors.values()))


def read_safetensors(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return {name: np.frombuffer(data[8 + length :][slice(*about["data_offsets"])], np.float32)
            .reshape(about["shape"]) for name, about in header.items() if name != "__metadata__"}


class Built:
    """A program, its weights and its data in a folder."""

    def __init__(self, folder, source, weights, data, *options):
        self.folder = folder
        self.weights, self.data = weights, data
        (folder / "big.attn").write_text(source)
        attc("build", folder / "big.attn", "--exe", "--target", "x86-64-v3", *options, "-o",
             folder / "big")
        write_safetensors(folder / "big.safetensors", weights)
        for name, array in data.items():
            np.save(folder / f"{name}.npy", array)
        self.fields = [f"{name}={name}.npy" for name in data]

    def heads(self, *args, status=0, data=True):
        given = ["--data", *self.fields, "--weights", "big.safetensors"] if data else []
        run = subprocess.run([self.folder / "big", "heads", *given, "--threads", "1", *args],
                             cwd=self.folder, capture_output=True, text=True)
        assert run.returncode == status, run.stdout + run.stderr
        return run.stderr if status else run.stdout

    def prune(self, share, **more):
        return self.heads("--prune", share, "--out", "small.safetensors", "--source",
                          "small.attn", **more)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    weights, data = draw()
    return Built(tmp_path_factory.mktemp("heads"), talking(), weights, data)


@pytest.fixture(scope="module")
def masked(tmp_path_factory, built):
    """By the oracle, the loss of each example with factors of heads."""
    folder = tmp_path_factory.mktemp("masked")
    source = folder / "masked.attn"
    source.write_text(talking(masked=True, each=True))
    arrays = {**built.data, **built.weights}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)

    def losses(**factors):
        for layer in (0, 1):
            for value, dim in MASKS.items():
                name = f"xi_{value}_{layer}"
                factor = factors.get(name, np.ones(SIZES[dim]))
                np.save(folder / f"{name}.npy", np.asarray(factor, np.float64))
        names = list(arrays) + [f"xi_{v}_{i}" for i in (0, 1) for v in MASKS]
        attc("run", source, "--oracle", *(f"{name}={folder / name}.npy" for name in names), "-o",
             folder / "loss.npy")
        return np.load(folder / "loss.npy").astype(np.float64)

    return losses


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_figures_are_those_of_factors(built, masked):
    built.heads("--out", "all")
    rows = rows_of(built.folder / "all" / "heads.csv")
    assert [(row["attention"], row["dims"]) for row in rows] == [
        (f"{value}{layer}", dim) for layer in (0, 1) for value, dim in MASKS.items()
        for _ in range(SIZES[dim])]
    loss = masked().mean()
    for row in rows:
        value, layer, head = row["attention"][0], row["attention"][1], int(row["head"])
        one = np.eye(SIZES[row["dims"]])[head]
        name, step = f"xi_{value}_{layer}", 1 / 64
        slope = (masked(**{name: 1 + step * one}) - masked(**{name: 1 - step * one})) / (2 * step)
        told = {key: float(row[key]) for key in row if key not in ("attention", "dims")}
        assert told["loss"] == pytest.approx(loss, rel=1e-5)
        assert told["importance"] == pytest.approx(np.abs(slope).mean(), rel=2e-3, abs=1e-6)
        assert told["loss_without"] == pytest.approx(masked(**{name: 1 - one}).mean(), rel=1e-5)
        assert told["loss_alone"] == pytest.approx(masked(**{name: one}).mean(), rel=1e-5)


def kept_heads(told):
    return {name: [int(i) for i in heads.split()]
            for name, heads in re.findall(r"^(\w+) keeps of \w+((?: \d+)+)$", told, re.M)}


def test_a_pruned_model_has_the_loss_of_factors_that_are_zero(built, masked, tmp_path):
    kept = kept_heads(built.prune("50%"))
    assert {name: len(heads) for name, heads in kept.items()} == {
        "J0": 2, "W0": 2, "U0": 1, "J1": 2, "W1": 2, "U1": 1}
    text = (built.folder / "small.attn").read_text()
    assert text == talking().replace("k = d / h, h_k = 4, h = 3, h_v = 2",
                                     "k = 4, h_k = 2, h = 2, h_v = 1")
    small = read_safetensors(built.folder / "small.safetensors")
    mixing = built.weights["P_l_0"][np.ix_(kept["J0"], kept["W0"])]
    assert small["P_l_0"].tolist() == mixing.tolist()
    attc("run", built.folder / "small.attn", "--weights", built.folder / "small.safetensors",
         *(f"{name}={built.folder / name}.npy" for name in built.data), "-o", tmp_path / "loss.npy")
    factors = {f"xi_{name[0]}_{name[1]}": np.isin(np.arange(SIZES[MASKS[name[0]]]), heads)
               for name, heads in kept.items()}
    assert np.load(tmp_path / "loss.npy") == pytest.approx(masked(**factors).mean(), rel=1e-6)


def test_the_least_important_heads_go(built):
    built.heads("--quick", "--out", "quick")
    rows = rows_of(built.folder / "quick" / "heads.csv")
    assert all(row["loss_without"] == "" for row in rows)
    for name, heads in kept_heads(built.prune("0.5")).items():
        importance = [float(row["importance"]) for row in rows if row["attention"] == name]
        gone = [i for i in range(len(importance)) if i not in heads]
        assert max(importance[i] for i in gone) <= min(importance[i] for i in heads)


def texts_of(folder, name):
    root = ElementTree.parse(folder / f"{name}.svg").getroot()
    return [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_pictures_name_attentions_and_numbers(built):
    built.heads("--out", "pictures", "--examples", "1")
    folder = built.folder / "pictures"
    for name, words in dict(heads=["J0", "U1", "importance", "h_k"],
                            mixing=["P_l_0", "P_l_1 P_w_1", "h_v"],
                            spaces=["P_q_0", "P_o_1"], logits=["W0", "W1"]).items():
        assert set(texts_of(folder, name)) >= set(words), name
    product = built.weights["P_l_1"].astype(float) @ built.weights["P_w_1"]
    assert {f"{number:.2g}" for number in product.flat} <= set(texts_of(folder, "mixing"))


MIXED_AT_ONCE = """
dim n = 4, m like n, d = 6, h = 2, g = 3, k = 3
def Loss(X[b, n, d], T[b, n, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h],
         param P_w[h, g], param P_o[d, d', g]):
    L[b, n, m, h] = einsum(X[b, n, d], P_q[d, k, h], X[b, m, d'], P_k[d', k, h])
    W[b, n, m, h] = softmax(L, reduced_dim=m)
    A[b, n, d] = einsum(W[b, n, m, h], X[b, m, d'], P_v[d', k, h], P_v[d, k, h])
    Y = A + einsum(W[b, n, m, h], P_w[h, g], X[b, m, d'], P_o[d, d', g] -> [b, n, d])
    return mean((Y - T) ** 2, reduced_dim=(b, n, d))
"""


def test_heads_without_a_name_of_their_own(tmp_path):
    """Those that one einsum mixes and takes in, in a picture of their own."""
    random = np.random.default_rng(1)
    mixing = dict(P_w=random.standard_normal((2, 3)), P_o=random.standard_normal((6, 6, 3)))
    model = small_model(tmp_path, MIXED_AT_ONCE, more=mixing)
    model.heads("--quick", "--out", "out")
    texts = texts_of(tmp_path / "out", "heads")
    for dims, heads in dict(h=2, g=3).items():
        numbers = [f"{float(row['importance']):.2g}" for row in rows_of(tmp_path / "out/heads.csv")
                   if row["dims"] == dims]
        assert len(numbers) == heads
        assert any(texts[i : i + heads] == numbers for i in range(len(texts)))


def test_ranks_of_logits(built, tmp_path):
    """Of the first layer, whose logits NumPy makes: before positions are masked."""
    told = built.heads("--quick", "--examples", "1")
    line = re.search(r"^W0: effective ranks of logits ([\d. ]+) of 5$", told, re.M)
    P_q, P_k, P_l = (built.weights[f"P_{name}_0"].astype(float) for name in "qkl")
    logits = np.einsum("bnd,dki,bme,eki,ih->bhnm", built.data["X0"].astype(float), P_q,
                       built.data["X0"].astype(float), P_k, P_l)
    values = np.linalg.svd(logits, compute_uv=False)
    share = values / values.sum(axis=-1, keepdims=True)
    ranks = np.exp(-(share * np.log(share)).sum(axis=-1))
    told_ranks = [float(rank) for rank in line[1].split()]
    assert np.abs(ranks / told_ranks - 1).max(axis=1).min() < 5e-3  # whichever example is first


def test_mixing_is_told_in_numbers(built):
    told = built.heads("--quick")
    for layer in (0, 1):
        p_l, p_w = (built.weights[f"P_{x}_{layer}"].astype(float) for x in "lw")
        for name, matrix in ((f"P_l_{layer}[h_k, h]", p_l), (f"P_w_{layer}[h, h_v]", p_w),
                             (f"P_l_{layer} P_w_{layer}[h_k, h_v]", p_l @ p_w)):
            values = np.linalg.svd(matrix, compute_uv=False)
            share = values / values.sum()
            rank = np.exp(-(share * np.log(share)).sum())
            line = re.search(
                rf"^{re.escape(name)}: condition number (\S+), effective rank (\S+) of", told, re.M)
            assert float(line[1]) == pytest.approx(values[0] / values[-1], rel=1e-3)
            assert float(line[2]) == pytest.approx(rank, rel=5e-3)


def test_spaces_of_heads_are_compared_by_angles(built):
    told = built.heads("--quick")
    heads = [np.linalg.qr(built.weights["P_q_0"][:, :, h].astype(float))[0] for h in range(4)]
    alike = {(i, j): (np.linalg.svd(heads[i].T @ heads[j])[1] ** 2).mean()
             for i in range(4) for j in range(i + 1, 4)}
    i, j = max(alike, key=alike.get)
    line = re.search(r"^P_q_0: spaces of h_k are alike by (\S+) in the mean \((\S+) at random\), "
                     r"(\d) and (\d) most, by (\S+)$", told, re.M)
    assert float(line[1]) == pytest.approx(np.mean(list(alike.values())), rel=5e-3)
    assert float(line[2]) == pytest.approx(4 / 12, rel=5e-3)
    assert (int(line[3]), int(line[4])) == (i, j)
    assert float(line[5]) == pytest.approx(alike[i, j], rel=5e-3)


@pytest.mark.parametrize("args, message", [
    (["--prune", "50%"], "--prune needs --out FILE.safetensors and --source FILE.attn"),
    (["--source", "x.attn"], "--source goes with --prune"),
    (["--prune", "120%", "--out", "x", "--source", "y"], "--prune takes a share of the heads"),
])
def test_a_wrong_command_line(built, args, message):
    assert message in built.heads(*args, status=2)


def test_a_share_of_no_head(built):
    assert "10% of 4 heads is none" in built.prune("10%", status=1)


def test_a_share_of_almost_all_leaves_a_head(built):
    assert {len(heads) for heads in kept_heads(built.prune("0.99999999999")).values()} == {1}


def test_a_folder_with_too_long_a_path(built):
    assert "is too long" in built.heads("--quick", "--out", "a/" * 2000, status=1)


def test_output_that_cannot_be_written(built):
    words = ["--data", *built.fields, "--weights", "big.safetensors", "--quick"]
    with open("/dev/full", "w") as full:
        run = subprocess.run([built.folder / "big", "heads", *words], cwd=built.folder,
                             stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert run.returncode == 1 and "No space left on device" in run.stderr


ONE_HEAD_DIM = """
dim n = 4, m like n, d = 6, h = 2, k = 3
def Loss(X[b, n, d], T[b, n, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h]):
    L[b, n, m, h] = einsum(X[b, n, d], P_q[d, k, h], X[b, m, d'], P_k[d', k, h])
    W[b, n, m, h] = softmax({logits}, reduced_dim=m)
    O[b, n, k, h] = einsum(W[b, n, m, h], X[b, m, d], P_v[d, k, h])
    return mean(({result} - T) ** 2, reduced_dim=(b, n, d))
"""
OUT = "einsum(O[b, n, k, h], P_q[d, k, h] -> [b, n, d])"


def small_model(folder, source, *options, d=6, h=2, more={}):
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((d, 3, h)).astype(np.float32)
               for name in ("P_q", "P_k", "P_v")}
    weights |= {name: array.astype(np.float32) for name, array in more.items()}
    data = {name: random.standard_normal((3, 4, d)).astype(np.float32) for name in ("X", "T")}
    return Built(folder, source, weights, data, *options)


def test_slopes_that_number_heads_keep_them(tmp_path):
    model = small_model(tmp_path, ONE_HEAD_DIM.format(logits="alibi(L)", result=OUT))
    told = model.prune("50%", status=1)
    assert "no heads of h can be removed: their number is used as a number" in told or \
        "depends on their numbers" in told
    assert not (tmp_path / "small.attn").exists()


def test_extents_of_the_command_line_stay(tmp_path):
    """Four heads in the place of two, and a constant batch: each example fills it."""
    source = ONE_HEAD_DIM.format(logits="L", result=OUT)
    model = small_model(tmp_path, source, "-D", "h=4,b=2", h=4)
    rows = {}
    for examples in (1, 3):
        model.heads("--quick", "--examples", str(examples), "--out", "out")
        rows[examples] = rows_of(tmp_path / "out" / "heads.csv")
    model.prune("75%")
    text = (tmp_path / "small.attn").read_text()
    assert text == source.replace("h = 2", "h = 1") + "\ndim b = 2\n"
    single = small_model(tmp_path, source, "-D", "h=4", h=4)
    single.heads("--quick", "--out", "out")
    for row, other in zip(rows_of(tmp_path / "out" / "heads.csv"), rows[3]):
        assert float(row["importance"]) == pytest.approx(float(other["importance"]), rel=1e-5)


def test_imports_are_named(tmp_path):
    (tmp_path / "dims.attn").write_text("dim k = 3\n")
    source = 'import "dims.attn"\n' + ONE_HEAD_DIM.format(logits="L", result=OUT)
    model = small_model(tmp_path, source.replace(", k = 3", ""))
    assert "the source imports" in (told := model.prune("50%", status=1)) and "dims.attn" in told


def test_no_attention(tmp_path):
    source = """
dim d = 6, n = 4, k = 3, h = 2
def Loss(X[b, n, d], T[b, n, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h]):
    A[b, n, k, h] = einsum(X[b, n, d], P_q[d, k, h])
    B[b, n, k, h] = einsum(X[b, n, d], P_k[d, k, h])
    Y[b, n, d] = einsum(A[b, n, k, h], B[b, n, k, h], P_v[d, k, h])
    return mean((Y - T) ** 2, reduced_dim=(b, n, d))
"""
    assert "Loss has no heads" in small_model(tmp_path, source).heads(status=1)
