# SPDX-License-Identifier: Apache-2.0
"""`attc run` and programs of `attc build --exe` read one command line in one way."""

import os
import resource
import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")

TWO = """
def Scale(X[n, d], s[d]):
    Y[n, d] = X[n, d] * s[d] + 1
    Z[d] = sum(X[n, d], reduced_dim=n)
    return Y[n, d], Z[d]
"""
ONE = """
def Gram(X[n, d], M[m, d]):
    Y[n, m] = einsum(X[n, d], M[m, d])
    return Y[n, m]
"""
# What has more than two dims is drawn smaller.
CUBE = """
def Twice(X[b, n, d]):
    return 2 * X
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the sources, their programs and inputs."""
    folder = tmp_path_factory.mktemp("programs")
    for name, text in (("two", TWO), ("one", ONE), ("cube", CUBE)):
        (folder / f"{name}.attn").write_text(text)
        attc("build", folder / f"{name}.attn", "--exe", "-o", folder / name)
    np.save(folder / "X.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(folder / "s.npy", np.array([1, 2, 3], np.float32))
    np.save(folder / "M.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    (folder / "bad.npy").write_text("no array")
    (folder / "folder").mkdir()
    (folder / "link.npy").symlink_to("X.npy")
    (folder / "hard.npy").hardlink_to(folder / "X.npy")
    (folder / "ahead.npy").symlink_to("a.npy")  # which is not there
    (folder / "folder/ahead.npy").symlink_to("../ahead.npy")
    (folder / "loop.npy").symlink_to("loop.npy")
    return folder


def both(made, name, arguments, **options):
    """What `attc run` and the program do with the same arguments."""
    for command in ([os.environ["ATTC"], "run", f"{name}.attn"], [f"./{name}"]):
        yield subprocess.run(
            [*command, *arguments], cwd=made, capture_output=True, timeout=60, **options
        )


RIGHT = [
    ("one", ["X=X.npy", "M=M.npy", "-o", "out.npy"]),
    ("one", ["X=X.npy", "M=M.npy", "-o", "Y=out.npy"]),
    ("one", ["X=X.npy", "M=M.npy", "-oout.npy"]),
    ("one", ["X=X.npy", "M=M.npy", "--output", "out.npy"]),
    ("one", ["X=X.npy", "M=M.npy", "--output=Y=out.npy"]),
    ("one", ["X=X.npy", "M=M.npy", "-o", "out.npy", "--threads", "0"]),
    ("one", ["X=X.npy", "M=M.npy", "-o", "out.npy", "--threads=3"]),
    ("one", ["X=X.npy", "M=M.npy", "-o", "out.npy", "-D", "n=2,m=4"]),
    ("one", ["X=X.npy", "M=M.npy", "-o", "out.npy", "-D", "n=2,m=4,"]),
    ("one", ["X=X.npy", "M=M.npy", "-o", "out.npy", "-Dn=2", "-D", "m=4,d=3"]),
    ("one", ["M=M.npy", "-o", "out.npy", "-D", "n=2", "--seed", "7"]),
    ("one", ["-o", "out.npy", "-D", "n=2,m=4,d=3", "--seed=7"]),
    ("cube", ["-o", "out.npy", "-D", "b=2,n=3,d=4"] + ["--seed=1"]),
    ("two", ["X=X.npy", "s=s.npy", "-o", "Y=out.npy"]),
    ("two", ["X=X.npy", "s=s.npy", "-o", "Y=other.npy", "-o", "Z=out.npy"]),
]


@pytest.mark.parametrize("name, arguments", RIGHT)
def test_they_compute_the_same(made, name, arguments):
    results = []
    for run in both(made, name, arguments):
        assert run.returncode == 0, run.stderr
        assert run.stderr == b""
        results.append(np.load(made / "out.npy"))
        (made / "out.npy").unlink()
    assert np.allclose(*results, rtol=1e-5, atol=1e-5)  # -D chooses another plan in `run`


def test_standard_input_and_output(made):
    arrays = []
    for run in both(made, "one", ["X=-", "M=M.npy", "-o-"], input=(made / "X.npy").read_bytes()):
        assert run.returncode == 0, run.stderr
        (made / "stdout.npy").write_bytes(run.stdout)
        arrays.append(np.load(made / "stdout.npy"))
    assert arrays[0].shape == (2, 4) and np.array_equal(*arrays)


@pytest.mark.parametrize("given", ["q=3", "q=3,n=2"])
def test_a_dim_that_is_not_there_is_a_warning(made, given):
    arguments = ["X=X.npy", "M=M.npy", "-o", "out.npy", "-D", given]
    for run in both(made, "one", arguments):
        assert run.returncode == 0
        assert b"changes nothing: no dim is named 'q'" in run.stderr


WRONG = [
    ("one", ["--threads", "-1"], "--threads -1: expected a whole number from 0 to 4096"),
    ("one", ["--threads", "4097"], "--threads 4097: expected a whole number from 0 to 4096"),
    ("one", ["--threads", "2x"], "--threads 2x: expected a whole number from 0 to 4096"),
    ("one", ["--threads", " 2"], "--threads  2: expected a whole number from 0 to 4096"),
    ("one", ["--threads=1", "--threads=1"], "--threads is given twice"),
    ("one", ["--seed", "-1"], "--seed -1: expected a whole number from 0 to 92233720368"),
    ("one", ["--seed", "9223372036854775808"], "expected a whole number from 0 to 92233720368"),
    ("one", ["--seed=1", "--seed=2"], "--seed is given twice"),
    ("one", ["-D", ""], "-D : expected DIM=EXTENT, such as -D n=512"),
    ("one", ["-D", "n"], "-D n: expected DIM=EXTENT"),
    ("one", ["-D", "=3"], "-D =3: expected DIM=EXTENT"),
    ("one", ["-D", "1n=3"], "-D 1n=3: expected DIM=EXTENT"),
    ("one", ["-D", "m=3,,n=2"], "-D : expected DIM=EXTENT"),
    ("one", ["-D", "m=3,n"], "-D n: expected DIM=EXTENT"),
    ("one", ["-D", "m=3,n=0x5"], "-D n=0x5: the extent must be a whole number from 0 to 10995116"),
    ("one", ["-D", "n=010"], "-D n=010: a number does not begin with 0"),
    ("one", ["-D", "n=-4"], "-D n=-4: the extent must be a whole number from 0"),
    ("one", ["-D", "n=+4"], "-D n=+4: the extent must be a whole number from 0"),
    ("one", ["-D", "n="], "-D n=: the extent must be a whole number from 0"),
    ("one", ["-D", "n=1099511627777"], "the extent must be a whole number from 0 to 1099511627776"),
    ("one", ["-D", f"n={'9' * 50}"], "the extent must be a whole number from 0 to 1099511627776"),
    ("one", ["-D", "n=2,n=2"], "-D n=2: n is given twice"),
    ("one", ["-D", "n=2", "-D", "n=3"], "-D n=3: n is given twice"),
    ("one", ["-o", ""], "-o: expected the name of a file"),
    ("one", ["-o", "Y="], "-o Y=: expected the name of a file"),
    ("one", ["X"], "'X': expected NAME=FILE.npy"),
    ("one", ["X="], "'X=': expected NAME=FILE.npy"),
    ("one", ["X=X.npy", "X=X.npy"], "X is given twice"),
    ("one", ["X=-", "M=-"], "X and M are both read from standard input"),
    ("one", ["--nonsense"], "unknown option '--nonsense'"),
    ("two", ["-o", "Y=a.npy", "-o", "Z=a.npy"], "a.npy"),
    ("two", ["-o", "Y=a.npy", "-o", "Z=./a.npy"], "a.npy"),
    ("two", ["-o", "Y=X.npy", "-o", "Z=link.npy"], "link.npy"),
    ("two", ["-o", "Y=hard.npy", "-o", "Z=X.npy"], "X.npy"),
    ("two", ["-o", "Y=a.npy", "-o", "Z=folder/../a.npy"], "folder/../a.npy"),
    ("two", ["-o", "Y=a.npy", "-o", "Z=ahead.npy"], "ahead.npy"),
    ("two", ["-o", "Y=folder/ahead.npy", "-o", "Z=ahead.npy"], "ahead.npy"),
    ("two", ["-o", "Y=-", "-o", "Z=-"], "Z"),
    ("two", ["-o", "Y=-", "-o", "Z=/dev/stdout"], "/dev/stdout"),
    ("two", ["-o", "Y=a.npy", "-o", "Y=b.npy"], "Y is given twice"),
    ("one", ["-o", "a.npy", "-o", "Y=b.npy"], "Y is given twice"),
    ("one", ["1x=X.npy"], "'1x=X.npy': expected NAME=FILE.npy"),
    ("one", ["a b=X.npy"], "'a b=X.npy': expected NAME=FILE.npy"),
    ("one", ["=X.npy"], "'=X.npy': expected NAME=FILE.npy"),
    ("one", ["-D", "n'=3"], "-D n'=3: n' has the extent of n"),
    ("one", ["-D", "'=3"], "-D '=3: expected DIM=EXTENT"),
    ("one", ["-o"], "-o: expected a value"),
    ("one", ["X=X.npy", "--seed"], "--seed: expected a value"),
]


@pytest.mark.parametrize("name, arguments, message", WRONG)
def test_they_refuse_the_same(made, name, arguments, message):
    before = (made / "X.npy").read_bytes()
    for run in both(made, name, arguments):
        assert run.returncode == 2 and run.stdout == b""
        assert message in run.stderr.decode()
    assert before == (made / "X.npy").read_bytes() and not (made / "a.npy").exists()


@pytest.mark.parametrize("output", ["X.npy", "link.npy", "hard.npy"])
def test_an_input_may_be_written_over(made, output):
    """It is read whole, or from the file that was there."""
    before = np.load(made / "X.npy")
    for run in both(made, "two", ["X=X.npy", "s=s.npy", "-o", f"Y={output}"]):
        assert run.returncode == 0, run.stderr
        assert np.array_equal(np.load(made / output), before * [1, 2, 3] + 1)
        np.save(made / "X.npy", before)
        (made / "hard.npy").unlink()
        (made / "hard.npy").hardlink_to(made / "X.npy")


def test_a_file_beyond_the_limit_is_an_error(made):
    """Of writing: the process goes on, says so and leaves what was there."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    (made / "large.npy").write_bytes(b"before")
    words = ["-D", "n=30,m=40,d=3", "--seed=1", "-o", "large.npy"]
    for run in both(made, "one", words, preexec_fn=small_files):
        assert run.returncode == 1 and b"large.npy: File too large" in run.stderr
    assert (made / "large.npy").read_bytes() == b"before"


def test_a_link_stays_a_link(made):
    for run in both(made, "one", ["X=X.npy", "M=M.npy", "-o", "folder/ahead.npy"]):
        assert run.returncode == 0, run.stderr
        assert (made / "ahead.npy").is_symlink() and (made / "folder/ahead.npy").is_symlink()
        assert np.load(made / "a.npy").shape == (2, 4)
        (made / "a.npy").unlink()


# What does not fit the source or the data: status 1.
UNFIT = [
    ("two", ["-o", "a.npy"], "-o a.npy: Scale has 2 results; say which, as in -o Y=a.npy"),
    ("two", ["-o", "Q=a.npy"], "Q"),
    ("one", ["-o", "X=a.npy"], "X"),
    ("one", ["-o", "y=a.npy"], "y"),
    ("one", ["-o", "Y=a.npy", "-o", "Q=b.npy"], "Q"),
    ("one", ["Q=X.npy", "-o", "a.npy"], "Q"),
    ("one", ["Y=X.npy", "-o", "a.npy"], "Y"),
    ("one", ["X.0=X.npy", "-o", "a.npy"], "X.0"),
    ("one", ["-D", "n=5", "X=X.npy", "M=M.npy", "-o", "a.npy"], "n is 2 in X"),
    ("one", ["X=X.npy", "M=M.npy", "-D", "n=0", "-o", "a.npy"], "n is 2 in X"),
    ("one", ["X=X.npy", "M=s.npy", "-o", "a.npy"], "[m, d]"),
    ("one", ["X=X.npy", "M=none.npy", "-o", "a.npy"], "none.npy: No such file or directory"),
    ("one", ["X=X.npy", "M=folder", "-o", "a.npy"], "folder: Is a directory"),
    ("one", ["X=X.npy", "M=bad.npy", "-o", "a.npy"], "bad.npy: not an .npy file"),
    ("one", ["X=X.npy", "M=M.npy", "-o", "none/a.npy"], "none/a.npy: No such file or directory"),
    ("one", ["X=X.npy", "M=M.npy", "-o", "folder"], "folder: Is a directory"),
    ("one", ["X=X.npy", "M=M.npy", "-o", "loop.npy"], "loop.npy: Too many levels of symbolic"),
    ("one", ["X=X.npy", "M=M.npy", "-o", "/dev/full"], "/dev/full: No space left on device"),
    ("one", ["--seed=1", "-D", "n=2,d=3", "-o", "a.npy"], "m is "),
]


@pytest.mark.parametrize("name, arguments, message", UNFIT)
def test_they_refuse_what_does_not_fit_the_source(made, name, arguments, message):
    for run in both(made, name, arguments):
        assert run.returncode == 1 and run.stdout == b""
        assert message in run.stderr.decode()
    assert not (made / "a.npy").exists()
