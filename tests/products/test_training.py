# SPDX-License-Identifier: Apache-2.0
"""Programs that train: what a run leaves, that it goes on bit for bit, and how it ends."""

import contextlib
import csv
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios
import time
import xml.etree.ElementTree as xml

import numpy as np
import pytest

from attc import SANITIZED, attc, attc_json, heed_signals

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")

MODEL = """
dim v = 256, d = 24, h = 2, k = 12, n = 16

param E[v, d] ~ normal(std=0.1)

def Attend(X[n, d]):
    param P_q[d, k, h], P_k[d, k, h], P_v[d, k, h], P_o[k, h, d]
    L[n, n', h] = einsum(X[n, d], P_q[d, k, h], X[n', d], P_k[d, k, h])
    W[n, n', h] = softmax(causal(L / sqrt(k), n=n, m=n'), reduced_dim=n')
    return einsum(W[n, n', h], X[n', d], P_v[d, k, h], P_o[k, h, d] -> [n, d])

def Loss(tokens[b, n]: i32, labels[b, n]: i32):
    X[b, n, d] = gather(E[v, d], tokens[b, n], dim=v)
    Y = X + Attend(norm(X))
    logits[b, n, v] = einsum(norm(Y)[b, n, d], E[v, d])
    right = mean(correct(logits, labels), reduced_dim=(b, n))
    return mean(cross_entropy(logits, labels), reduced_dim=(b, n)), right
"""
MODEL = MODEL.replace("norm(Y)[b, n, d]", "Z[b, n, d]").replace(
    "    logits", "    Z[b, n, d] = norm(Y) as last\n    logits"
)
TEXT = "to be or not to be, that is the question: " * 60


def make(folder):
    """A program that trains, and what it learns."""
    (folder / "lm.attn").write_text(MODEL)
    (folder / "text").write_text(TEXT)
    attc("build", folder / "lm.attn", "--exe", "-o", folder / "lm")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("training"))


def lm(made, *arguments, status=0):
    run = subprocess.run(
        [made / "lm", *map(str, arguments)], cwd=made, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == status, run.stderr
    return run.stdout if status == 0 else run.stderr


USUAL = ("--data", "text", "--batch", 4, "--warmup", 5, "--lr", 0.02, "--eval-every", 10)


def train(made, out, *arguments, status=0):
    """With the usual options, but for those that are given."""
    usual = [word for pair in zip(USUAL[::2], USUAL[1::2]) if pair[0] not in arguments
             for word in pair]
    return lm(made, "train", *usual, "--out", out, *arguments, status=status)


def log(made, out, name="log.csv"):
    with open(made / out / name) as file:
        return list(csv.DictReader(file))


def losses(made, out):
    return [row["loss"] for row in log(made, out)]


def tensors(path):
    """A safetensors file: arrays by name, and the notes."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8 : 8 + length])
    notes = head.pop("__metadata__")
    data = raw[8 + length :]
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in head.items()
    }, notes


@pytest.fixture(scope="module")
def trained(made):
    train(made, "whole", "--steps", 40, "--save-every", 10)
    return made / "whole"


# ---- what a run leaves ---------------------------------------------------------------------------
def test_loss_falls(made, trained):
    rows = log(made, "whole")
    assert [int(row["step"]) for row in rows] == list(range(1, 41))
    assert 5.3 < float(rows[0]["loss"]) < 5.8  # about that of 256 equal chances
    assert float(rows[-1]["loss"]) < 2.9
    assert float(rows[-1]["right"]) > float(rows[0]["right"])
    evaluations = log(made, "whole", "eval.csv")
    assert [int(row["step"]) for row in evaluations] == [10, 20, 30, 40]
    for row in evaluations:
        assert np.isclose(float(row["perplexity"]), np.exp(float(row["loss"])), rtol=1e-5)
        assert np.isclose(float(row["bits_per_byte"]), float(row["loss"]) / np.log(2), rtol=1e-5)


def test_checkpoints(trained):
    files = sorted(path.name for path in trained.glob("step-*"))
    assert files == [f"step-{step:08}.safetensors" for step in (20, 30, 40)]  # --keep 3
    assert os.readlink(trained / "latest") == files[-1]
    arrays, notes = tensors(trained / "latest")
    assert notes["step"] == "40" and notes["examples"] == "160" and notes["optimizer"] == "adamw"
    assert notes["seed"] == "0" and json.loads(notes["settings"])["lr"] == 0.02
    assert arrays["E"].shape == (256, 24) and arrays["Attend.P_q"].shape == (24, 12, 2)
    assert arrays["optimizer.m.E"].shape == (256, 24) and arrays["optimizer.v.E"].max() > 0
    params = [name for name in arrays if not name.startswith("optimizer.")]
    assert len(arrays) == 3 * len(params)


def test_picture_and_settings(trained):
    xml.parse(trained / "loss.svg")
    assert "evaluation" in (trained / "loss.svg").read_text()
    settings = json.loads((trained / "settings.json").read_text())
    assert settings["lr"] == 0.02 and settings["optimizer"] == "adamw"
    assert settings["objective"] == "auto" and settings["chosen-objective"] == "language"


def test_warm_up_by_the_number_of_steps(made):
    """A tenth of the steps that the run begins with, also when it goes on for longer."""
    quiet = ("--data", "text", "--eval-every", 0, "--lr", 1, "--schedule", "constant")
    lm(made, "train", *quiet, "--steps", 20, "--out", "short")
    assert [row["learning_rate"] for row in log(made, "short")] == ["0.5"] + 19 * ["1"]
    lm(made, "train", "--resume", "--steps", 40, "--out", "short")
    assert [row["learning_rate"] for row in log(made, "short")][20:] == 20 * ["1"]
    other = lm(made, "train", "--resume", "--warmup", 4, "--out", "short", status=1)
    assert "--warmup was 2 and is 4" in other
    for steps, out in (0, "none"), (1200, "many"):
        lm(made, "train", *quiet, "--steps", steps, "--out", out)
        assert json.loads((made / out / "settings.json").read_text())["warmup"] == 100
    assert "default: a tenth of --steps, at most 100" in lm(made, "train", "--help")


# ---- bits ----------------------------------------------------------------------------------------
def test_threads(made, trained):
    train(made, "one", "--steps", 40, "--threads", 1)
    assert losses(made, "one") == losses(made, "whole")
    assert (made / "one" / "latest").read_bytes() == (trained / "latest").read_bytes()


def test_resume(made, trained):
    folder = made / "resumed"
    train(made, folder, "--steps", 40, "--save-every", 13, "--keep", 9)
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("step-00000013.safetensors")
    train(made, folder, "--steps", 40, "--save-every", 13, "--resume")
    assert losses(made, folder) == losses(made, "whole")
    assert log(made, folder, "eval.csv") == log(made, "whole", "eval.csv")
    assert (folder / "latest").read_bytes() == (trained / "latest").read_bytes()


def test_resume_from_an_earlier_checkpoint(made):
    """Those of later steps are not counted among the ones to keep."""
    train(made, "back", "--steps", 5, "--save-every", 1, "--keep", 9)
    (made / "back" / "latest").unlink()
    (made / "back" / "latest").symlink_to("step-00000002.safetensors")
    lm(made, "train", "--out", "back", "--steps", 3, "--keep", 1, "--resume")  # others as they were
    assert tensors(made / "back" / "latest")[1]["step"] == "3"
    assert len(losses(made, "back")) == 3
    (made / "more").write_text(2 * TEXT)
    settings = made / "back" / "settings.json"
    settings.write_text(settings.read_text().replace('"text"', '"more"'))
    said = train(made, "back", "--data", "more", "--steps", 9, "--resume", status=1)
    assert "--resume: the data makes" in said


def test_batches_add_up(made):
    """Two batches of four are one of eight but for rounding."""
    train(made, "two", "--steps", 4, "--accumulate", 2, "--clip", 0)
    train(made, "eight", "--steps", 4, "--batch", 8, "--clip", 0)
    a, b = ([float(row["gradient_norm"]) for row in log(made, out)] for out in ("two", "eight"))
    assert np.allclose(a, b, rtol=1e-3)


def test_optimizers_differ(made):
    for name in ("sgd:momentum=0.9", "adam", "adafactor"):
        train(made, f"by-{name}", "--steps", 12, "--optimizer", name)
        rows = losses(made, f"by-{name}")
        assert float(rows[-1]) < float(rows[0]), name


# ---- how it ends ---------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save(made, number):
    out = made / f"ended-{number}"
    run = subprocess.Popen(
        [made / "lm", *map(str, ("train", *USUAL, "--steps", 10**6, "--out", out))],
        cwd=made, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals,
    )
    for _ in range(600):
        if (out / "log.csv").exists() and len((out / "log.csv").read_text().splitlines()) > 3:
            break
        time.sleep(0.05)
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 0 and "--resume goes on" in said
    assert int(tensors(out / "latest")[1]["step"]) == len(losses(made, out))


def test_what_is_not_finite_stops(made):
    said = train(made, "wild", "--steps", 500, "--optimizer", "sgd", "--lr", 1e6, "--warmup", 0,
                 "--clip", 0, "--eval-every", 0, status=1)
    step = len(losses(made, "wild"))
    assert f"step {step + 1}: the loss is" in said and "there is no checkpoint yet" in said
    assert not list((made / "wild").glob("step-*"))


@pytest.mark.parametrize("options, said", [
    ((), "--data FILE... is missing"),
    (("--data", "text", "--out", "x"), "--steps N is missing"),
    ((*USUAL, "--steps", "few", "--out", "x"), "--steps few: expected a whole number"),
    ((*USUAL, "--steps", 1, "--out", "x", "--schedule", "up"), "expected one of linear, cosine"),
    ((*USUAL, "--steps", 1, "--out", "x", "--size", 3), "unknown option '--size'"),
])
def test_wrong_command_lines(made, options, said):
    assert said in lm(made, "train", *options, status=2)


@pytest.mark.parametrize("options, said", [
    (("--optimizer", "newton"), "--optimizer newton: there are adamw, sgd, adam, adafactor"),
    (("--optimizer", "adamw:rate=1"), "'rate=1' is no SETTING=NUMBER of adamw, which has beta_1"),
    (("--init", "text"), "text"),
    (("-D", "q=3"), "has no dim named 'q'"),
])
def test_wrong_settings(made, options, said):
    message = train(made, "wrong", "--steps", 1, *options, status=1)
    assert said in message and message.count("\n") == 1
    assert not (made / "wrong").exists()


def test_other_data_for_evaluations(made):
    """Without it a share is held out, also after it was given to a run that goes on."""
    train(made, "elsewhere", "--steps", 4, "--eval-every", 2)
    lm(made, "train", "--out", "elsewhere", "--resume", "--steps", 6, "--eval-data", "text")
    assert [row["step"] for row in log(made, "elsewhere", "eval.csv")] == ["2", "4", "6"]
    train(made, "all", "--steps", 2, "--eval-data", "text")
    examples = [json.loads(tensors(made / name / "latest")[1]["settings"])["held-out"]
                for name in ("elsewhere", "all")]
    assert examples == [0.05, 0]


def test_a_run_is_not_overwritten(made, trained):
    before = (trained / "log.csv").read_bytes()
    assert "has a run in it: go on with --resume" in train(made, "whole", "--steps", 2, status=1)
    other = train(made, "whole", "--steps", 41, "--resume", "--clip", 7, status=1)
    assert "--clip was 1.0 and is 7.0; give it as it was" in other
    assert "no checkpoint to go on from" in train(made, "empty", "--steps", 2, "--resume", status=1)
    assert (trained / "log.csv").read_bytes() == before


@pytest.fixture
def long_run(made, request):
    """A run that does not end by itself, after some steps."""
    out = made / request.node.name
    with open(made / "long", "w") as file:
        file.write(40 * TEXT)
    run = subprocess.Popen(
        [made / "lm", "train", "--data", "long", "--held-out", "0", "--steps", "1000000000",
         "--out", out], cwd=made, stderr=subprocess.PIPE, text=True,
    )
    for _ in range(600):
        if (out / "log.csv").exists() and len((out / "log.csv").read_text().splitlines()) > 3:
            break
        time.sleep(0.05)
    yield out, run
    run.kill()
    run.communicate()


def test_one_process_writes_to_a_folder(made, long_run):
    out, run = long_run
    said = train(made, out, "--steps", 2, status=1)
    assert "another process trains in" in said and "--out" in said
    run.kill()
    run.wait(timeout=60)
    assert "before its first checkpoint" in train(made, out, "--steps", 2, status=1)


def test_data_that_becomes_shorter_ends_a_run(made, long_run):
    """Its pages are gone; the steps that were taken are kept."""
    out, run = long_run
    os.truncate(made / "long", 100)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 1 and "long: has become shorter" in said
    assert int(tensors(out / "latest")[1]["step"]) == len(losses(made, out))


def test_an_evaluation_that_fails_takes_no_steps_with_it(made):
    (made / "unchartable").mkdir()
    (made / "unchartable" / "loss.svg").mkdir()
    said = train(made, "unchartable", "--steps", 20, status=1)
    assert said.count("loss.svg") == 1
    assert tensors(made / "unchartable" / "latest")[1]["step"] == "10"


def test_what_fails_first_is_told_first(made):
    """The chart cannot be drawn, and then the checkpoint is too large a file."""
    (made / "unkept" / "loss.svg").mkdir(parents=True)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))

    run = subprocess.run([made / "lm", "train", *map(str, USUAL), "--out", "unkept", "--steps",
                          "20"], cwd=made, capture_output=True, text=True, timeout=60,
                         preexec_fn=small_files)
    assert run.returncode == 1 and not (made / "unkept" / "latest").exists()
    assert re.search(r"loss\.svg.*; and then: .*File too large", run.stderr)


def test_going_on_says_what_is_missing(made, trained):
    said = train(made, "dangling", "--steps", 2, "--eval-every", 0)
    (made / "dangling" / "step-00000002.safetensors").unlink()
    said = lm(made, "train", "--out", "dangling", "--resume", status=1)
    assert "latest: points to a file that is not there; make it a link to another" in said
    run = subprocess.run([made / "lm", "train", "--out", "whole", "--steps", "7", "--resume"],
                         cwd=made, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "40 steps are taken already" in run.stderr
    train(made, "whole", "--steps", 40, "--resume")


def test_the_batch_has_an_option_of_its_own(made):
    assert "b is the dim of the batch: give --batch 2" in train(
        made, "wrong", "--steps", 1, "-D", "b=2", status=1)


def test_messages_are_one_line(made):
    said = train(made, "wrong", "--steps", 1, "--data", "no\n\x1b[31mfile", status=1)
    assert "no??[31mfile: No such file" in said and said.count("\n") == 1


# ---- with the tensors of a run -------------------------------------------------------------------
def test_eval(made, trained):
    said = json.loads(lm(made, "eval", "--data", "text", "--weights", "whole/latest", "--batch", 4,
                         "--held-out", 0.05, "--batches", 16, "--json"))
    last = log(made, "whole", "eval.csv")[-1]
    assert np.isclose(said["loss"], float(last["loss"]), rtol=1e-6)
    assert np.isclose(said["bits_per_byte"], float(last["bits_per_byte"]), rtol=1e-6)
    assert np.isclose(said["right"], float(last["right"]), rtol=1e-6)


def test_eval_of_some_batches(made, trained):
    """Of 7 examples one batch of 4 is asked for."""
    said = json.loads(lm(made, "eval", "--data", "text", "--weights", "whole/latest", "--batch", 4,
                         "--held-out", 0.05, "--batches", 1, "--json"))
    assert said["examples"] == 4


def test_eval_of_what_is_not_finite(made, trained):
    raw = bytearray((trained / "latest").read_bytes())
    (length,) = struct.unpack("<Q", raw[:8])
    begin, end = (8 + length + at for at in json.loads(raw[8 : 8 + length])["E"]["data_offsets"])
    raw[begin:end] = np.full((end - begin) // 4, np.nan, np.float32).tobytes()
    (made / "nan.safetensors").write_bytes(raw)
    given = ("eval", "--data", "text", "--weights", "nan.safetensors")
    said = json.loads(lm(made, *given, "--json"))
    assert said["loss"] is None and "perplexity" not in said
    assert "loss           not finite" in lm(made, *given)


def test_run_with_weights(made, trained):
    text = np.frombuffer(TEXT.encode(), np.uint8).astype(np.int32)
    np.save(made / "tokens.npy", text[:16].reshape(1, 16))
    np.save(made / "labels.npy", text[1:17].reshape(1, 16))
    given = ("tokens=tokens.npy", "labels=labels.npy", "--weights", "whole/latest")
    lm(made, "run", *given, "-o", "result=a.npy")
    lm(made, *given, "-o", "result=b.npy")  # without the word
    attc("run", made / "lm.attn", *(str(word).replace("=", f"={made}/") for word in given[:2]),
         "--weights", trained / "latest", "-o", f"result={made}/c.npy")
    results = [np.load(made / f"{name}.npy") for name in "abc"]
    assert results[0] < 3 and results[0] == results[1] and np.isclose(*results[1:], rtol=1e-5)
    assert "there is no tensor" not in lm(made, "run", *given, "-o", "result=a.npy")


def test_init(made, trained):
    train(made, "again", "--steps", 1, "--init", "whole/latest", "--eval-every", 0)
    assert float(losses(made, "again")[0]) < 3
    arrays, _ = tensors(made / "again" / "latest")
    assert np.abs(arrays["E"] - tensors(trained / "latest")[0]["E"]).max() < 0.1


def test_info(made):
    said = json.loads(lm(made, "info", "--json"))
    assert said["parameters"] == 256 * 24 + 4 * 24 * 24 + 4 * 24
    assert [field["name"] for field in said["data"]] == ["tokens", "labels"]
    assert {"adamw", "sgd", "adam", "adafactor"} <= {o["name"] for o in said["optimizers"]}
    assert "parameters  8544" in lm(made, "info")


# ---- work ----------------------------------------------------------------------------------------
PLAIN = """
dim d = 24, v = 40

def Loss(X[b, n, d], Y[b, n, v]):
    param W[d, v]
    Z[b, n, v] = einsum(X[b, n, d], W[d, v])
    return sum((Z - Y) ** 2, reduced_dim=(b, n, v))
"""


def test_work_is_that_of_bench(made):
    """Of the contractions of a batch with its gradients, each value once: as many as a program is
    planned for whose batch is not told, since einsums of many arguments go by that."""
    said = json.loads(lm(made, "info", "--json"))["multiplies"]
    figures = attc_json("bench", made / "lm.attn", "--grad", "-D", "b=8", "--threads", 1)
    assert eval(said, {"b": 8}) == figures["multiplies"]
    masked = json.loads(lm(made, "info", "--json"))["masked"]
    assert masked == pytest.approx(figures["masked_multiplies"] / figures["multiplies"], abs=1e-6)
    assert masked == 0  # attention over 16 positions is not fused
    assert f"multiplies  {said}, of a batch with its gradients\n" in lm(made, "info")


def test_work_is_that_of_the_closed_form(tmp_path):
    """Two products: the result, and the gradient by W; X is data."""
    (tmp_path / "plain.attn").write_text(PLAIN)
    attc("build", tmp_path / "plain.attn", "--exe", "-o", tmp_path / "lm")
    assert json.loads(lm(tmp_path, "info", "--json"))["multiplies"] == f"{2 * 24 * 40} * b * n"


CAUSAL = """
dim d = 24, n = 64, k = 16
def Loss(X[b, n, d], Y[b, n, d]):
    param W[d, k], U[d, k]
    Q[b, n, k] = einsum(X[b, n, d], W[d, k])
    K[b, n, k] = einsum(X[b, n, d], U[d, k])
    L[b, n, n'] = einsum(Q[b, n, k], K[b, n', k])
    P[b, n, n'] = softmax(where(index(n') <= index(n), L, -inf), reduced_dim=n')
    Z[b, n, d] = einsum(P[b, n, n'], X[b, n', d])
    return sum((Z - Y) ** 2, reduced_dim=(b, n, d))
"""


def test_what_is_masked_is_no_work(tmp_path):
    (tmp_path / "causal.attn").write_text(CAUSAL)
    attc("build", tmp_path / "causal.attn", "--exe", "-o", tmp_path / "lm")
    told = json.loads(lm(tmp_path, "info", "--json"))
    words = tmp_path / "causal.attn", "--grad", "--wrt", "W,U", "-D", "b=8"
    figures = attc_json("cost", *words)
    assert told["multiplies"] == f"{figures['multiplies'] // 8} * b"
    assert told["masked"] == pytest.approx(
        figures["masked_multiplies"] / figures["multiplies"], abs=1e-6)
    assert 0.1 < told["masked"] < 0.5
    line = f"masked      {100 * told['masked']:.1f}% of them, which masks let kernels leave out\n"
    assert line in lm(tmp_path, "info")


def test_share_of_peak(made, trained):
    """A step of two batches does twice the work."""
    train(made, "twice", "--steps", 30, "--accumulate", 2)
    told = json.loads(lm(made, "info", "--json"))
    of_a_batch = eval(told["multiplies"], {"b": 4}) * (1 - told["masked"])
    for name, batches in ("whole", 1), ("twice", 2):
        rows = log(made, name)
        assert rows and all(0 < float(row["share_of_peak"]) < 1.2 for row in rows)
        # a rate times seconds is what a step does
        assert all(round(float(row["tokens_per_second"]) * float(row["seconds"])) ==
                   4 * 16 * batches for row in rows)
        work = [1e9 * float(row["gflops"]) * float(row["seconds"]) for row in rows]
        np.testing.assert_allclose(work, 2 * batches * of_a_batch, rtol=1e-4)
        peaks = [float(row["gflops"]) / float(row["share_of_peak"]) for row in rows]
        np.testing.assert_allclose(peaks, peaks[0], rtol=2e-3)  # measured once a run


def test_progress(made, trained):
    out = made / "told"
    run = subprocess.run([made / "lm", "train", *map(str, USUAL), "--steps", "2", "--out", out],
                         cwd=made, capture_output=True, text=True, timeout=60)
    line = r"step 1/2  loss \d\.\d{4}  rate \S+  norm \S+  \d+ tokens/s  \d+% of peak  0:0\d left"
    assert re.fullmatch(line, run.stderr.splitlines()[0])


def told_on_a_terminal(made, columns):
    """What a run of two steps prints there, by lines that took the place of each other."""
    seen, shown = pty.openpty()
    termios.tcsetwinsize(shown, (24, columns))
    words = ("train", *USUAL, "--steps", 2, "--out", made / f"shown-{columns}")
    subprocess.run([made / "lm", *map(str, words)], cwd=made, stderr=shown, timeout=60)
    os.close(shown)
    told = b""
    with contextlib.suppress(OSError):  # the end of what a terminal says
        while piece := os.read(seen, 4096):
            told += piece
    os.close(seen)
    first = told.decode().split("\n")[0].rstrip("\r")
    return [line.removesuffix("\x1b[K") for line in first.split("\r") if line]


def test_a_narrow_terminal_has_short_lines(made):
    narrow, wide = (told_on_a_terminal(made, columns) for columns in (80, 120))
    assert all(len(line) < 80 and "norm" not in line for line in narrow)
    assert all("norm" in line for line in wide)
    assert narrow[-1].endswith("left") and "of peak" in narrow[-1]


def test_help(made):
    assert "train" in lm(made, "--help")
    for command in ("train", "eval", "run", "info"):
        assert "Usage: lm" in lm(made, command, "--help")
    assert "Commands:" in lm(made, status=2)
    assert "there is no command 'trian'" in lm(made, "trian", "--data", "text", status=2)


def test_gradients_are_those_of_the_loss_alone(tmp_path):
    """What else the entry returns is told, and not learned from."""
    norms = []
    for returned in ("loss", "loss, 100 * loss"):
        (tmp_path / "two.attn").write_text(
            "dim d = 4\ndef Loss(X[b, d], param w[d]):\n"
            "    loss = mean((einsum(X[b, d], w[d] -> [b]) - 1) ** 2, reduced_dim=b)\n"
            f"    return {returned}\n")
        np.save(tmp_path / "X.npy", np.eye(8, 4, dtype=np.float32))
        attc("build", tmp_path / "two.attn", "--exe", "--target", "x86-64-v3", "-o",
             tmp_path / "lm")
        said = subprocess.run([tmp_path / "lm", "train", "--data", "X=X.npy", "--steps", "1",
                               "--batch", "8", "--out", f"out{len(norms)}"], cwd=tmp_path,
                              capture_output=True, text=True, check=True).stderr
        row = log(tmp_path, f"out{len(norms)}")[0]
        norms.append(float(row["gradient_norm"]))
        assert " examples/s" in said  # of floats, not their elements
        assert round(float(row["tokens_per_second"]) * float(row["seconds"])) == 8
    assert norms[0] == norms[1] > 0
