# SPDX-License-Identifier: Apache-2.0
"""Programs that train and choose among schedules that are compiled in: train --tune."""

import json
import signal
import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc, heed_signals
from test_training import USUAL, lm, log, losses, make

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("tuning"))


@pytest.fixture(scope="module")
def choosing(made):
    """By kernel how many schedules it has."""
    attc("build", made / "lm.attn", "--exe", "--alternatives", "2", "-o", made / "choosing")
    counts = json.loads(choose(made, "info", "--json"))["kernel_schedules"]
    assert len(counts) > 2 and all(2 <= count <= 3 for count in counts)
    assert f"{sum(counts)} schedules of {len(counts)}, for train --tune" in choose(made, "info")
    assert "train --tune" not in lm(made, "info")
    return counts


def choose(made, *arguments, program="choosing", status=0):
    """The program with alternatives."""
    run = subprocess.run([made / program, *map(str, arguments)], cwd=made, capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == status, run.stderr
    return run.stdout + run.stderr


def chosen(made, out, text=None):
    """What a run has chosen, or chooses when it goes on."""
    path = made / out / "settings.json"
    settings = json.loads(path.read_text())
    if text is not None:
        settings["chosen-kernels"] = text
        path.write_text(json.dumps(settings))
    return settings["chosen-kernels"]


@pytest.fixture(scope="module")
def code(made, choosing):
    """What stands before the numbers."""
    return json.loads(choose(made, "info", "--json"))["code"]


def test_tune_tells_what_it_has_found(made, choosing, code):
    said = choose(made, "train", *USUAL, "--out", "found", "--steps", 1, "--tune", "4s")
    assert "tuning for 4 s at most" in said
    numbers = chosen(made, "found")
    assert bool(numbers) == (" have another schedule; gradients of a batch take" in said)
    assert not numbers or numbers.startswith(f"{code}: ")
    assert numbers or "none has another schedule" in said or "nothing was tried" in said


def test_alternatives_change_nothing_by_default(made, choosing):
    lm(made, "train", *USUAL, "--out", "plain", "--steps", 10)
    choose(made, "train", *USUAL, "--out", "alike", "--steps", 10)
    assert chosen(made, "alike") == ""
    assert rows(made, "alike") == rows(made, "plain")


def rows(made, out):
    """Of the log, but for what is about time."""
    return [(row["step"], row["loss"], row["gradient_norm"]) for row in log(made, out)]


def test_resume_goes_on_with_what_was_chosen(made, choosing, code):
    seconds = f"{code}:" + "".join(f" {count - 1}" for count in choosing)
    runs = {"one": "", "two": seconds, "parts": seconds}
    for out, text in runs.items():
        choose(made, "train", *USUAL, "--out", out, "--steps", 0)
        assert chosen(made, out, text) == text
        if out == "parts":
            choose(made, "train", "--out", out, "--resume", "--steps", 3, "--threads", 1)
        choose(made, "train", "--out", out, "--resume", "--steps", 6)
        assert chosen(made, out) == text
    assert rows(made, "parts") == rows(made, "two") != rows(made, "one")
    assert (made / "parts" / "latest").read_bytes() == (made / "two" / "latest").read_bytes()
    assert np.allclose(np.float64(losses(made, "one")), np.float64(losses(made, "two")),
                       rtol=1e-4)


def test_tuning_again_keeps_what_was_chosen_unless_another_is_faster(made, choosing, code):
    text = f"{code}:" + " 1" * len(choosing)
    choose(made, "train", *USUAL, "--out", "anew", "--steps", 1)
    chosen(made, "anew", text)
    run = subprocess.Popen([made / "choosing", "train", "--out", "anew", "--resume", "--steps",
                            "2", "--tune", "1h"], cwd=made, stderr=subprocess.PIPE, text=True,
                           preexec_fn=heed_signals)
    while "tuning for" not in run.stderr.readline():
        pass
    run.send_signal(signal.SIGTERM)
    assert "tuning was ended before anything was sure" in run.communicate(timeout=60)[1]
    assert chosen(made, "anew") == text


@pytest.mark.parametrize("what", [3, {}, []], ids=["number", "object", "list"])
def test_settings_that_do_not_tell_what_was_chosen(what, made, choosing, request):
    out = f"untold-{request.node.callspec.id}"
    choose(made, "train", *USUAL, "--out", out, "--steps", 1)
    chosen(made, out, what)
    said = choose(made, "train", "--out", out, "--resume", "--steps", 2)
    assert "its settings do not tell which schedules the run was tuned to" in said
    assert chosen(made, out) == ""
    assert "do not tell" not in choose(made, "train", "--out", out, "--resume", "--steps", 3)


def test_choices_of_other_code(made, choosing, code):
    choose(made, "train", *USUAL, "--out", "moved", "--steps", 2)
    level, _, hash_ = code.partition(" ")
    other = f"{level} {int(hash_, 16) ^ 1:016x}"
    for text in (f"{other}:" + " 1" * len(choosing), f"x86-64-v1 {hash_}: 1", f"{code}: 1 2 3",
                 f"{code}:" + " 9" * len(choosing), "1 1 1"):
        chosen(made, "moved", text)
        said = choose(made, "train", "--out", "moved", "--resume", "--steps", 2)
        assert "the run was tuned with other code" in said and chosen(made, "moved") == ""


def test_code_is_that_of_the_machine_it_was_planned_for(made, choosing, code):
    """The same counts of schedules, other kernels."""
    machine = json.loads(attc("machine", "--json")[0])
    (made / "other.json").write_text(json.dumps({**machine, "l2_bytes": machine["l2_bytes"] // 4}))
    attc("build", made / "lm.attn", "--exe", "--alternatives", "2", "--machine",
         made / "other.json", "-o", made / "other")
    choose(made, "train", *USUAL, "--out", "other-code", "--steps", 0, program="other")
    counts = json.loads(choose(made, "info", "--json", program="other"))["kernel_schedules"]
    chosen(made, "other-code", f"{code}:" + " 1" * len(counts))
    said = choose(made, "train", "--out", "other-code", "--resume", "--steps", 1, program="other")
    assert "the run was tuned with other code" in said


def test_tune_asks_for_alternatives_and_time(made, choosing):
    said = lm(made, "train", *USUAL, "--out", "none", "--steps", 2, "--tune", "60s", status=1)
    assert "one schedule for each kernel; attc build --exe --alternatives 3 compiles others" in said
    assert not (made / "none").exists()
    for time_ in ("0", "-1s", "60x", "25h"):
        said = choose(made, "train", *USUAL, "--out", "none", "--steps", 2, "--tune", time_,
                      status=2)
        assert f"--tune {time_}: expected a time from 1s to 24h" in said


def test_what_has_nothing_to_choose_from_is_told(made):
    (made / "bias.attn").write_text("def Loss(x[b]):\n    param a[]\n"
                                    "    return mean((x - a) ** 2, reduced_dim=b)\n")
    _, said = attc("build", made / "bias.attn", "--exe", "--alternatives", "3", "-o",
                   made / "bias", "-D", "b=1")
    assert "no kernel has another schedule that is predicted to be nearly as fast" in said


def test_what_does_not_train_has_no_alternatives(made):
    (made / "f.attn").write_text("def F(X[n, d]):\n    return X + X\n")
    _, said = attc("build", made / "f.attn", "--exe", "--alternatives", "3", "-o",
                   made / "f", "-D", "n=4,d=4")
    assert "--alternatives: the program does not train, and has none" in said


def test_an_interrupt_ends_tuning(made, choosing):
    run = subprocess.Popen(
        [made / "choosing", "train", *map(str, USUAL), "--steps", "9", "--out", "ended", "--tune",
         "1h"], cwd=made, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals,
    )
    while "tuning for" not in run.stderr.readline():
        pass
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 0 and "ended by a signal after step 0" in said
    choose(made, "train", "--out", "ended", "--resume", "--steps", 2)
    assert len(losses(made, "ended")) == 2
