# SPDX-License-Identifier: Apache-2.0
"""--weights: the trained tensors of an entry from a safetensors file."""

import json
import os

import numpy as np
import pytest

from attc import attc, attc_json

SOURCE = """
def Linear(X[n, d]):
    param W[d, k] ~ normal(std=1), b[k] = 0
    return einsum(X[n, d], W[d, k] -> [n, k]) + b[k]

def Main(X[n, d]):
    Y = Linear(X)
    return Y
"""
TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int32": "I32", "uint8": "F8_E4M3"}


def write(path, arrays, notes=None, types=None):
    """A safetensors file. types: of arrays that are not what NumPy says they are."""
    header, data = {"__metadata__": notes} if notes else {}, b""
    for name, array in arrays.items():
        at = len(data)
        data += array.tobytes()
        header[name] = {"dtype": (types or {}).get(name) or TYPES[array.dtype.name],
                        "shape": list(array.shape), "data_offsets": [at, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def given(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [f"{name}={folder / name}.npy" for name in arrays]


@pytest.fixture
def model(tmp_path):
    """A folder with model.attn, and what its tensors are in the tests."""
    (tmp_path / "model.attn").write_text(SOURCE)
    random = np.random.default_rng(0)
    X, W, b = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4, 5), 5))
    return tmp_path, X, W, b


def names(W, b):
    return {"Linear.W": W, "Linear.b": b}


def result(folder, *options):
    attc("run", folder / "model.attn", *options, "-o", folder / "Y.npy")
    return np.load(folder / "Y.npy")


def refusal(folder, *options, status=1):
    return attc("run", folder / "model.attn", *options, status=status)[1]


@pytest.mark.parametrize("way", [[], ["--oracle"], ["--interpret"]], ids=str)
def test_trained_tensors_by_their_names(model, way):
    folder, X, W, b = model
    states = {"optimizer.m.Linear.W": W[:1], "another": np.ones(3, np.int32)}
    file = write(folder / "w.safetensors", {**states, **names(W, b)}, notes={"step": "3"})
    Y = result(folder, "--weights", file, *given(folder, X=X), *way)
    assert np.allclose(Y, X @ W + b, atol=1e-5)


def test_dims_that_the_file_alone_has_are_told_by_it(model):
    folder, _, W, b = model
    file = write(folder / "w.safetensors", names(W, b))
    assert result(folder, "--weights", file, "-D", "n=2").shape == (2, 5)
    assert attc_json("bench", folder / "model.attn", "--weights", file, "-D", "n=2")["dims"] == {
        "n": 2, "d": 4, "k": 5}
    verified = attc_json("verify", folder / "model.attn", "--weights", file)
    assert (verified["dims"]["d"], verified["dims"]["k"]) == (4, 5)


def test_verify_is_of_the_weights(model):
    folder, _, W, b = model
    file = write(folder / "w.safetensors", names(W, 1e30 + b))
    largest = attc_json("verify", folder / "model.attn", "--weights", file)["outputs"][0]["largest"]
    assert largest > 1e29


def test_gradients(model):
    folder, X, W, b = model
    dY = np.ones((3, 5), np.float32)
    file = write(folder / "w.safetensors", names(W, b))
    attc("run", folder / "model.attn", "--grad", "--wrt=X", "--weights", file,
         *given(folder, X=X, dY=dY), "-o", f"dX={folder / 'dX.npy'}")
    assert np.allclose(np.load(folder / "dX.npy"), dY @ W.T, atol=1e-5)


def test_a_file_for_one_tensor_wins(model):
    """And the weights need not have it."""
    folder, X, W, b = model
    file = write(folder / "w.safetensors", names(W, b))
    replaced = [*given(folder, X=X, other=2 * b)]
    replaced[1] = replaced[1].replace("other=", "Linear.b=")
    assert np.allclose(result(folder, "--weights", file, *replaced), X @ W + 2 * b, atol=1e-5)
    file = write(folder / "w.safetensors", {"Linear.W": W})
    assert np.allclose(result(folder, "--weights", file, *replaced), X @ W + 2 * b, atol=1e-5)


def test_a_tensor_without_dims(tmp_path):
    (tmp_path / "model.attn").write_text("def Main(X[n]):\n    param s[]\n    return s * X\n")
    file = write(tmp_path / "w.safetensors", {"s": np.array(3, np.float32)})
    X = np.arange(4, dtype=np.float32)
    assert np.array_equal(result(tmp_path, "--weights", file, *given(tmp_path, X=X)), 3 * X)


@pytest.mark.parametrize("seed", [[], ["--seed=1"]], ids=str)
def test_half_a_model_is_an_error(model, seed):
    folder, X, W, b = model
    file = write(folder / "w.safetensors", {"Linear.b": b})
    err = refusal(folder, "--weights", file, *given(folder, X=X), *seed)
    assert "w.safetensors: lacks 1 of the 2 trained tensors of Main: Linear.W\n" in err


INNER = ["--entry", "Linear"]


def test_a_def_has_the_tensors_of_its_call(model):
    """W of Linear is Linear.W in a file of an entry that calls it, Main.Linear.W further out."""
    folder, X, W, b = model
    for path in "Linear", "Main.Linear", "layer.0.attend":
        states = {f"optimizer.m.{path}.W": -W, f"optimizer.m.{path}.b": -b, "other.W": -W}
        arrays = {**states, f"{path}.W": W, f"{path}.b": b}
        file = write(folder / "w.safetensors", arrays)
        Y = result(folder, *INNER, "--weights", file, *given(folder, X=X))
        assert np.allclose(Y, X @ W + b, atol=1e-5)


def test_a_tensor_that_has_its_own_name_is_that(model):
    folder, X, W, b = model
    file = write(folder / "w.safetensors", {"b": b, "Linear.W": W, "Linear.b": -b})
    Y = result(folder, *INNER, "--weights", file, *given(folder, X=X))
    assert np.allclose(Y, X @ W + b, atol=1e-5)
    file = write(folder / "w.safetensors", {"Linear.W": W, "other.b": -b})
    Y = result(folder, *INNER, "--weights", file, *given(folder, X=X, b=b))
    assert np.allclose(Y, X @ W + b, atol=1e-5)


@pytest.mark.parametrize("arrays", [
    ("one.W", "one.b", "two.W", "two.b"), ("one.W", "two.b"), ("oneW", "oneb"), (".W", ".b"),
    ("optimizer.m.W", "optimizer.m.b"),
])
def test_calls_that_are_not_the_only_ones(model, arrays):
    folder, X, W, b = model
    values = {name: W if name.endswith("W") else b for name in arrays}
    file = write(folder / "w.safetensors", values)
    err = refusal(folder, *INNER, "--weights", file, *given(folder, X=X))
    assert "lacks 2 of the 2 trained tensors of Linear: W, b" in err


def test_names_that_may_be_meant(model):
    folder, X, W, b = model
    file = write(folder / "w.safetensors", {"A\nW": W, "Linear.b": b, "X": X, "optimizer.m.W": W})
    err = refusal(folder, "--weights", file, *given(folder, X=X))
    assert err.endswith(" trained tensors of Main: Linear.W; it has besides: A?W\n")


def test_what_is_missing_is_listed_up_to_some(tmp_path):
    (tmp_path / "model.attn").write_text(
        "dim layers = 20\ndef Main(X[n, d]):\n    for i in layers:\n        X = norm(X)\n"
        "    return X\n")
    file = write(tmp_path / "w.safetensors", {"i.0.norm.gain": np.ones(4, np.float32)})
    err = refusal(tmp_path, "--weights", file, "-D", "n=2")
    assert "lacks 39 of the 40 trained tensors of Main: i.0.norm.bias, i.1.norm.gain, " in err
    assert err.endswith(", ...\n") and "i.9.norm.gain" not in err


def test_an_entry_without_trained_tensors(tmp_path):
    (tmp_path / "model.attn").write_text("def Main(X[n]):\n    return 2 * X\n")
    file = write(tmp_path / "w.safetensors", {"X": np.ones(4, np.float32)})
    assert "Main has no trained tensors: mark them param" in refusal(tmp_path, "--weights", file)


def test_all_but_data_is_trained(tmp_path):
    (tmp_path / "model.attn").write_text("def Main(X[n], s[n]):\n    return X * s\n")
    X, s = np.arange(4, dtype=np.float32), np.full(4, 3, np.float32)
    file = write(tmp_path / "w.safetensors", {"s": s, "X": s})
    Y = result(tmp_path, "--weights", file, "--data=X", *given(tmp_path, X=X))
    assert np.array_equal(Y, X * s)


# ---- elements ------------------------------------------------------------------------------------
def bfloat16(array):
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("elem", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("form", ["F64", "F16", "BF16"])
def test_floats_of_other_elements(tmp_path, form, elem):
    """These numbers are in all of them. A header of odd length puts them at odd places."""
    (tmp_path / "model.attn").write_text(
        f"def Main(X[n]):\n    param w[n]: {elem}\n    return X + f32(w)\n")
    w = np.array([0.5, -3, 1.25, 96, np.inf])
    array = {"F64": w, "F16": w.astype(np.float16), "BF16": bfloat16(w)}[form]
    file = write(tmp_path / "w.safetensors", {"w": array}, types={"w": form})
    pad = file.read_bytes()
    length = int.from_bytes(pad[:8], "little")
    text = pad[8:8 + length] + b" " * (1 - length % 2)
    file.write_bytes(len(text).to_bytes(8, "little") + text + pad[8 + length:])
    assert len(text) % 2 == 1
    X = np.zeros(5, np.float32)
    assert np.array_equal(result(tmp_path, "--weights", file, *given(tmp_path, X=X)), w)


def test_rounded_once(tmp_path):
    """Through f32, 1 + 2**-11 + 2**-40 would be a tie, and go to the even 1."""
    (tmp_path / "model.attn").write_text(
        "def Main(X[n]):\n    param w[n]: f16\n    return X + f32(w)\n")
    file = write(tmp_path / "w.safetensors", {"w": np.array([1 + 2.0**-11 + 2.0**-40])})
    Y = result(tmp_path, "--weights", file, *given(tmp_path, X=np.zeros(1, np.float32)))
    assert Y[0] == 1 + 2.0**-10


def test_numbers_that_do_not_fit(model):
    folder, X, W, b = model
    wide = b.astype(np.float64)
    wide[3] = 1e300
    file = write(folder / "w.safetensors", names(W, wide))
    err = refusal(folder, "--weights", file, *given(folder, X=X))
    assert "w.safetensors: tensor 'Linear.b': element 3 is 1e+300, which f32 cannot hold" in err


@pytest.mark.parametrize("array, type", [(np.ones(5, np.int32), "I32"),
                                         (np.ones(5, np.uint8), "F8_E4M3")])
def test_other_elements_are_refused(model, array, type):
    folder, X, W, _ = model
    file = write(folder / "w.safetensors", names(W, array))
    err = refusal(folder, "--weights", file, *given(folder, X=X))
    assert f"w.safetensors: tensor 'Linear.b' holds {type} where f32 is needed" in err


# ---- shapes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape, told", [
    ((4, 6), "has the shape [4, 6], but Linear.W is [d=4, k=5]; k is 5 in the source or -D"),
    ((5, 5), "has the shape [5, 5], but Linear.W is [d=4, k=5]; d is 4 in {X}"),
    ((20,), "has the shape [20], but Linear.W is [d=4, k=5]"),
    ((4, 5, 1), "has the shape [4, 5, 1], but Linear.W is [d=4, k=5]"),
    ((), "has the shape [], but Linear.W is [d=4, k=5]"),
])
def test_wrong_shapes(model, shape, told):
    folder, X, _, b = model
    file = write(folder / "w.safetensors", names(np.ones(shape, np.float32), b))
    X = given(folder, X=X)
    err = refusal(folder, "--weights", file, *X, "-D", "k=5")
    assert f"w.safetensors: tensor 'Linear.W' {told.format(X=X[0][2:])}\n" in err


def test_shapes_that_disagree_in_the_file(model):
    folder, X, W, _ = model
    file = write(folder / "w.safetensors", names(W, np.ones(6, np.float32)))
    err = refusal(folder, "--weights", file, *given(folder, X=X))
    assert (f"tensor 'Linear.b' has the shape [6], but Linear.b is [k=5]; k is 5 in {file}\n"
            in err)


# ---- files ---------------------------------------------------------------------------------------
GOOD = '{"Linear.b":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}}'


@pytest.mark.parametrize("content, told", [
    (b"", "is empty"),
    (b"1234567", "is too short for a safetensors file"),
    (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}", "is no safetensors file: its header would be of"),
    (b"PK\x03\x04" + bytes(60), "ends inside its header"),
    (b"\x02" + bytes(7) + b"[]", "its header is no JSON object"),
    (b"\x04" + bytes(7) + b"{,,}", "its header is no JSON, byte"),
    (len(GOOD).to_bytes(8, "little") + GOOD.encode() + bytes(19),
     "tensor 'Linear.b' ends behind the end of the file: is the file truncated?"),
    (len(GOOD).to_bytes(8, "little") + GOOD.encode() + bytes(21), "1 bytes belong to no tensor"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_files_that_are_no_safetensors(model, content, told):
    folder = model[0]
    file = folder / "w.safetensors"
    file.write_bytes(content)
    err = refusal(folder, "--weights", file)
    assert f"{file}: {told}" in err and err.count("error") == 1


def test_what_is_no_regular_file(model):
    folder = model[0]
    assert f"{folder}: Is a directory" in refusal(folder, "--weights", folder)
    assert "none: No such file or directory" in refusal(folder, "--weights", folder / "none")
    os.mkfifo(folder / "pipe")
    assert "pipe: is no regular file" in refusal(folder, "--weights", folder / "pipe")
    assert "/dev/zero: is no regular file" in refusal(folder, "--weights", "/dev/zero")


def test_weights_are_not_overwritten(model):
    folder, X, W, b = model
    file = write(folder / "w.safetensors", names(W, b))
    (folder / "link").symlink_to(file)
    before = file.read_bytes()
    for out in (file, f"Y={folder}/./w.safetensors", folder / "link"):
        err = refusal(folder, "--weights", file, *given(folder, X=X), "-o", out, status=2)
        assert f"-o {out} would overwrite the weights\n" in err
    assert file.read_bytes() == before


@pytest.mark.parametrize("command, told", [
    (["run", "m.attn", "--weights", ""], "--weights: expected the name of a file\n"),
    (["run", "m.attn", "--weights=-"], "--weights: expected the name of a file\n"),
    (["run", "m.attn", "--weights=a", "--weights=b"], "--weights is given twice\n"),
    (["cost", "m.attn", "--weights=a"], "cost: takes no --weights\n"),
    (["build", "m.attn", "-o", "x", "--weights=a"], "build: takes no --weights\n"),
])
def test_command_lines_that_mean_nothing(command, told):
    assert told in attc(*command, status=2)[1]
