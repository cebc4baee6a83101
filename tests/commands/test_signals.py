# SPDX-License-Identifier: Apache-2.0
"""A command that is interrupted leaves no temporary files, and ends by the signal."""

import os
import signal
import stat
import subprocess
import time

import numpy as np
import pytest

from attc import EXAMPLES, SANITIZED, SIGNALS, attc, heed_signals

CAUSAL = EXAMPLES / "causal.attn"

# A tool that has temporary files and a child, and that takes its time.
SLOW_TOOL = """#!/bin/sh
echo part > "$TMPDIR/tool-part"
sleep 300 &
echo $! > "{here}/child"
echo $$ > "{here}/tool.new"
mv "{here}/tool.new" "{here}/tool"
wait
"""
STUBBORN_TOOL = SLOW_TOOL.replace("#!/bin/sh\n", "#!/bin/sh\ntrap '' TERM\n")


def until(condition, seconds=60):
    """Waits for a condition; fails the test when it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def is_running(pid):
    try:
        return "Z" not in open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def begin_build(folder, tool, text, kind):
    """attc build with a tool of its own in the PATH, once that tool runs."""
    for name in ("bin", "tmp", "out"):
        (folder / name).mkdir()
    script = folder / "bin" / tool
    script.write_text(text.format(here=folder))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    environment = dict(
        os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", TMPDIR=str(folder / "tmp")
    )
    (folder / "out" / "old").write_bytes(b"precious")
    process = subprocess.Popen(
        [os.environ["ATTC"], "build", CAUSAL, kind, "-o", folder / "out" / "old"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_signals,
    )
    until((folder / "tool").exists)
    return process


def assert_nothing_is_left(folder):
    assert list((folder / "tmp").iterdir()) == []
    assert [path.name for path in (folder / "out").iterdir()] == ["old"]
    assert (folder / "out" / "old").read_bytes() == b"precious"
    until(lambda: not is_running((folder / "child").read_text().strip()), 5)
    assert not is_running((folder / "tool").read_text().strip())


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_build_leaves_nothing(tmp_path, number):
    process = begin_build(tmp_path, "cc", SLOW_TOOL, "--shared")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number and out == err == b""
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("kind, tool", [("--static", "ar"), ("--object", "ld"), ("--exe", "cc")])
def test_whatever_tool_runs(tmp_path, kind, tool):
    process = begin_build(tmp_path, tool, SLOW_TOOL, kind)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert_nothing_is_left(tmp_path)


def test_a_tool_that_does_not_listen_is_killed(tmp_path):
    process = begin_build(tmp_path, "cc", STUBBORN_TOOL, "--exe")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert_nothing_is_left(tmp_path)


@pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")
def test_an_ignored_signal_changes_nothing(tmp_path):
    """As under nohup."""
    done = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", os.environ["ATTC"], "build", CAUSAL, "--exe"]
        + ["-o", tmp_path / "program"],
        capture_output=True,
    )
    assert done.returncode == 0 and os.access(tmp_path / "program", os.X_OK)


def test_a_tool_that_fails_still_says_why(tmp_path):
    for name in ("bin", "tmp", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "cc").write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    (tmp_path / "bin" / "cc").chmod(0o755)
    done = subprocess.run(
        [os.environ["ATTC"], "build", CAUSAL, "-o", tmp_path / "out" / "lib.so"],
        env=dict(os.environ, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", TMPDIR=f"{tmp_path}/tmp"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "cc failed with status 3: no such luck" in done.stderr
    assert not list((tmp_path / "tmp").iterdir()) and not list((tmp_path / "out").iterdir())


# ---- results ----

REPEAT = "def Repeat(x[n]):\n    Y[n, m] = where(index(m) >= 0, x[n], 0)\n    return Y\n"


@pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")
@pytest.mark.parametrize("way", ["run", "program"])
def test_an_interrupted_result_leaves_the_old_one(tmp_path, way):
    """Interrupted as soon as there is a temporary file; half a gigabyte takes a while to write."""
    (tmp_path / "repeat.attn").write_text("dim m = 8192\n" + REPEAT)
    (tmp_path / "Y.npy").write_bytes(b"precious")
    command = [os.environ["ATTC"], "run", tmp_path / "repeat.attn"]
    if way == "program":
        attc("build", tmp_path / "repeat.attn", "--exe", "-o", tmp_path / "program")
        command = [tmp_path / "program", "--seed=0"]
    names = {path.name for path in tmp_path.iterdir()}
    process = subprocess.Popen([*command, "-D", "n=16384", "-o", tmp_path / "Y.npy"])
    until(lambda: {path.name for path in tmp_path.iterdir()} - names)
    process.terminate()
    assert process.wait(timeout=60) == -signal.SIGTERM
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "Y.npy").read_bytes() == b"precious"


@pytest.mark.parametrize("delay", np.linspace(0.02, 0.6, 6))
def test_an_interrupted_compile_leaves_whole_objects_only(tmp_path, delay):
    """Whenever it happens."""
    source = EXAMPLES / "talking_heads.attn"
    process = subprocess.Popen(
        [os.environ["ATTC"], "build", source, "--cache", tmp_path, "-o", tmp_path / "lib.so"]
    )
    time.sleep(delay)
    process.terminate()
    assert process.wait(timeout=60) in (0, -signal.SIGTERM)
    made = {path.name for path in tmp_path.iterdir()}
    assert {name for name in made if not name.endswith(".o")} in (set(), {"lib.so", "lib.h"})
