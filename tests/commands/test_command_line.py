# SPDX-License-Identifier: Apache-2.0
"""Command lines, good and bad: exit statuses and messages."""

import json

import pytest

from attc import EXAMPLES, ROOT, attc

CAUSAL = EXAMPLES / "causal.attn"
SMALL = ["-D", "n=5,d=8,h=2,d_k=4"]

BAD = [
    ([], "expected a command: one of check, cost, emit, run, verify, build, bench, machine, tune, "
         "fmt, db\n"),
    (["frobnicate", CAUSAL], "unknown command 'frobnicate'"),
    (["frobnicate"], "unknown command 'frobnicate'"),
    (["check"], "expected a source file"),
    (["emit", CAUSAL], "say which --stage"),
    (["emit", CAUSAL, "--stage=nonsense"], "there is no stage 'nonsense': ast, graph, "),
    (["emit", CAUSAL, "--stage=graph", "-o", "a", "-o", "b"], "one -o only"),
    (["build", CAUSAL], "give one -o OUT"),
    (["cost", CAUSAL, "-D", "n"], "expected DIM=EXTENT"),
    (["cost", CAUSAL, "-D", "n=-3"], "must be a whole number from 0"),
    (["cost", CAUSAL, "-D", "n=010"], "-D n=010: a number does not begin with 0"),
    (["cost", CAUSAL, "-D", "n=1e3"], "must be a whole number from 0"),
    (["cost", CAUSAL, "-D", "n=99999999999999999999"], "must be a whole number from 0"),
    (["cost", CAUSAL, "-D", "=3"], "expected DIM=EXTENT"),
    (["cost", CAUSAL, "-D", ""], "expected DIM=EXTENT"),
    (["cost", CAUSAL, "-D", "d=4,n'=3"], "-D n'=3: n' has the extent of n: write -D n=3\n"),
    (["cost", CAUSAL, "--dynamic", "d,n''"], "n'' has the extent of n: write --dynamic n\n"),
    (["cost", CAUSAL, "--dynamic", "d,n'=4"], "n' has the extent of n: write --dynamic n=4\n"),
    (["run", CAUSAL, "--dynamic", "n=x"], "--dynamic n=x: the extent must be a whole number"),
    (["build", CAUSAL, "--dynamic", "n=4,n=5"], "--dynamic n=5: n is given twice\n"),
    (["build", CAUSAL, "--dynamic", "4"], "--dynamic: '4' is not a name\n"),
    (["cost", CAUSAL, "-D", "n'm=3"], "expected DIM=EXTENT"),
    (["verify", CAUSAL, "--map", "b'=X"], "expected DIM=ARG"),
    (["run", CAUSAL, "X"], "expected NAME=FILE.npy"),
    (["run", CAUSAL, "X=a.npy", "X=b.npy"], "X is given twice"),
    (["run", CAUSAL, "--seed", "-1"], "--seed -1: expected a whole number from 0 to 92233720368"),
    (["run", CAUSAL, "--seed", "18446744073709551615"], "from 0 to 9223372036854775807"),
    (["run", CAUSAL, "--threads", "5000"], "--threads 5000: expected a whole number from 0 to"),
    (["run", "-", "X=-"], "X and the source are both read from standard input"),
    (["run", CAUSAL, "--threads", "many"], "--threads many"),
    (["verify", CAUSAL, "--map", "b"], "expected DIM=ARG"),
    (["verify", CAUSAL, "--data", "X,,M"], "--data 'X,,M': expected names with commas between"),
    (["check", CAUSAL, "-Wnonsense"], "there is no such warning"),
    (["check", CAUSAL, "--diagnostics=xml"], "is not one of its values"),
    (["build", CAUSAL, "-o", "x", "--target=z80"], "unknown target 'z80'"),
    (["check", CAUSAL, "--nonsense"], "attc: error: unknown option '--nonsense'\n"),
    (["check", CAUSAL, "-wz"], "attc: error: unknown option '-z'\n"),
    (["cost", CAUSAL, "--json=1"], "attc: error: --json=1: takes no value\n"),
    (["cost", CAUSAL, "--plan"], "attc: error: --plan: expected a value\n"),
    (["cost", CAUSAL, "-D"], "attc: error: -D: expected a value\n"),
    *((["cost", CAUSAL, "--memory-limit", given],
       f"--memory-limit {given}: expected bytes, such as 200000, 64M or 1.5GiB, "
       "from 1 to 9223372036854775807\n")
      for given in ("", "0", "-1", "1.5", "1.G", ".5G", "1.5.5G", "0.0K", "1e3", "64m", "64MB",
                    "64Mi", "M", "9999999999G")),
    (["run", CAUSAL, "--oracle", "--memory-limit=1M"], "run --oracle: takes no --memory-limit\n"),
    (["check", CAUSAL, "--memory-limit=1M"], "check: takes no --memory-limit\n"),
    (["cost", CAUSAL, "--plan", "flash"], "--plan flash: expected resident, stream"),
    (["cost", CAUSAL, "--plan", "any"], "--plan any: expected resident, stream"),
    (["cost", CAUSAL, "--plan", "any:3"], "--plan any: expected resident, stream"),
    (["cost", CAUSAL, "--plan", "unfused:3"], "plan unfused has no numbers"),
    (["cost", CAUSAL, "--plan", "resident:3:64"], "plan resident has rows alone"),
    (["cost", CAUSAL, "--plan", "stream:3:64:1"], "plan stream has rows and a piece"),
    *((["cost", CAUSAL, "--plan", f"{plan}:{numbers}"],
       f"expected a whole number from 1 to 1099511627776 after {plan}:")
      for plan, numbers in (("stream", ""), ("spill", "8:0"))),
    (["run", CAUSAL, "--cache", ""], "--cache: expected a folder"),
    (["run", CAUSAL, "--cache", CAUSAL], f"--cache {CAUSAL}: there is a file of this name"),
    (["run", CAUSAL, "--cache", "/dev/null"], "--cache /dev/null: there is a file of this name"),
    (["build", CAUSAL, "-o", ""], "-o: expected the name of a file"),
    (["cost", CAUSAL, "--machine", ""], "--machine: expected the name of a file"),
    (["machine", CAUSAL], "machine: takes no source file"),
    (["check", CAUSAL, "-o", "x"], "check: takes no -o\n"),
    (["cost", CAUSAL, "-o", "x"], "cost: takes no -o\n"),
    (["verify", CAUSAL, "-o", "x"], "verify: takes no -o\n"),
    (["check", CAUSAL, "X=x.npy"], "check: takes no X=x.npy\n"),
    (["emit", CAUSAL, "--stage=tile", "--json"], "emit: takes no --json\n"),
    (["run", CAUSAL, "--shared"], "run: takes no --shared\n"),
    (["verify", CAUSAL, "--oracle"], "verify: takes no --oracle\n"),
    (["build", CAUSAL, "-o", "x", "--seed=1"], "build: takes no --seed\n"),
    (["machine", "--plan=spill"], "machine: takes no --plan\n"),
    (["machine", "-w"], "machine: takes no -w\n"),
    (["check", CAUSAL, "--time-passes"], "check: takes no --time-passes\n"),
    (["check", CAUSAL, "--no-cache"], "check: takes no --no-cache\n"),
    (["emit", CAUSAL, "--stage=ast", "-D", "n=4"], "emit --stage=ast: takes no -D\n"),
    (["emit", CAUSAL, "--stage=ast", "--entry=F"], "emit --stage=ast: takes no --entry\n"),
    (["emit", CAUSAL, "--stage=graph", "--plan=spill"], "emit --stage=graph: takes no --plan\n"),
    (["emit", CAUSAL, "--stage=graph", "--threads=2"], "emit --stage=graph: takes no --threads\n"),
    (["emit", CAUSAL, "--stage=graph", "--json"], "emit: takes no --json\n"),
    (
        ["emit", CAUSAL, "--stage=contracted", "--no-materialize"],
        "emit --stage=contracted: takes no --no-materialize\n",
    ),
    (["run", CAUSAL, "--oracle", "--threads=2"], "run --oracle: takes no --threads\n"),
    (["run", CAUSAL, "--oracle", "--plan=spill"], "run --oracle: takes no --plan\n"),
    (["run", CAUSAL, "--oracle", "--no-materialize"], "run --oracle: takes no --no-materialize\n"),
    (["run", CAUSAL, "--threads=2", "--interpret"], "run --interpret: takes no --threads\n"),
    (["verify", CAUSAL, "--interpret", "--threads=2"], "verify --interpret: takes no --threads\n"),
    (["run", CAUSAL, "-o", "Y=y.npy", "-o", "W=./y.npy"], "-o Y=y.npy and -o W=./y.npy are one"),
    (["build", CAUSAL, "-o", "x", "--exe", "--shared"], "--exe and --shared exclude each other"),
    (["build", CAUSAL, "-o", "x", "--alternatives", "3"],
     "--alternatives is for programs that train; add --exe"),
    (["build", CAUSAL, "-o", "x", "--exe", "--grad", "--alternatives", "3"],
     "--alternatives is for programs that train; leave out --grad"),
    (["build", CAUSAL, "-o", "x", "--exe", "--alternatives", "9"],
     "--alternatives 9: expected a whole number from 1 to 8"),
    (["run", CAUSAL, "--oracle", "--interpret"], "--oracle and --interpret exclude each other"),
    (["cost", CAUSAL, "--no-cache", "--cache", "x"], "--no-cache and --cache exclude each other"),
    (["cost", CAUSAL, "--plan=spill", "--plan=stream"], "--plan is given twice"),
    (["cost", CAUSAL, "--entry=A", "--entry=B"], "--entry is given twice"),
    (["cost", CAUSAL, "--grad", "--wrt", "X,W.0,X"], "--wrt X,W.0,X: X is given twice\n"),
    (["cost", CAUSAL, "--grad", "--wrt=X", "--wrt=W,X"], "--wrt W,X: X is given twice\n"),
    (["cost", CAUSAL, "--data", "X,X"], "--data X,X: X is given twice\n"),
    (["cost", CAUSAL, "--grad", "--checkpoint", "n,n"], "--checkpoint n,n: n is given twice\n"),
    (["cost", CAUSAL, "--dynamic", "n,m,n"], "--dynamic n: n is given twice\n"),
    (["cost", CAUSAL, "--dynamic", "n,n=5"], "--dynamic n=5: n is given twice\n"),
    (["cost", CAUSAL, "-D", "n=1,n=2"], "-D n=2: n is given twice"),
    (["cost", CAUSAL, "-D", "n=1", "-D", "n=1"], "-D n=1: n is given twice"),
    (
        ["run", CAUSAL, "--checkpoint", "n"],
        "run: --checkpoint says what gradients compute again; add --grad, or --exe for a program "
        "that trains",
    ),
    (["cost", CAUSAL, "--grad", "--checkpoint", "3"], "--checkpoint: '3' is not a name"),
    (["cost", CAUSAL, "--grad", "--checkpoint", ""], "--checkpoint '': expected names"),
    (["run", CAUSAL, "--wrt", "X"], "run: --wrt says what --grad differentiates by; add --grad"),
    (["run", CAUSAL, "--grad", "--wrt", "X,"], "--wrt 'X,': expected names with commas between"),
    (["check", CAUSAL, "--grad"], "check: takes no --grad\n"),
    (["verify", CAUSAL, "--map", "b=Q,Q"], "--map Q,Q: Q is given twice"),
    (["verify", CAUSAL, "--map", "b=Q", "--map", "b=P_q"], "--map b=P_q: b is given twice"),
]


@pytest.mark.parametrize("arguments, message", BAD)
def test_wrong_command_line(arguments, message):
    out, err = attc(*arguments, status=2)
    assert message in err and out == ""


PROBLEMS = [
    (["check", "no/such/file.attn"], "no/such/file.attn"),
    (["check", EXAMPLES], str(EXAMPLES)),
    (["cost", CAUSAL], "give -D n=N"),
    (["cost", CAUSAL, "--entry", "CausalAttentoin"], "CausalAttention"),
    (["run", CAUSAL, *SMALL, "Z=z.npy"], "has no argument Z"),
    (["run", CAUSAL, *SMALL, "X=no-such-file.npy"], "no-such-file.npy"),
    (["run", CAUSAL, *SMALL, "-o", "Q=q.npy"], "has no result 'Q'; its results: Y"),
    (["run", CAUSAL, *SMALL, "--grad", "--wrt", "x"], "has no argument x to differentiate by"),
    (["run", CAUSAL, *SMALL, "--grad", "--wrt", "other"], "its arguments of floats: X, "),
    (["run", CAUSAL], "the extent of n is unknown"),
    (["run", CAUSAL, *SMALL, "-o", "/no/such/folder/y.npy"], "/no/such/folder"),
    (
        ["build", CAUSAL, "-o", "/no/such/folder/lib.so"],
        "attc: error: cannot write /no/such/folder/lib.so: No such file or directory\n",
    ),
    (["build", CAUSAL, "-o", "/sys/lib.so"], "attc: error: cannot write /sys/lib.so: "),
    (["build", CAUSAL, "-o", "/tmp"], "attc: error: cannot write /tmp: Is a directory\n"),
    (["emit", CAUSAL, "--stage=graph", "-o", "/no/such/folder/x"], "/no/such/folder/x"),
]


@pytest.mark.parametrize("arguments, message", PROBLEMS)
def test_problem_in_the_users_data(arguments, message):
    _, err = attc(*arguments, status=1)
    assert message in err


@pytest.mark.parametrize("command", [["build"], ["emit", "--stage=graph"], ["run", *SMALL]])
@pytest.mark.parametrize("output", ["main.attn", "part.attn", "link.attn"])
def test_sources_are_not_overwritten(tmp_path, command, output):
    (tmp_path / "part.attn").write_text(CAUSAL.read_text())
    (tmp_path / "main.attn").write_text('import "part.attn"\n')
    (tmp_path / "link.attn").symlink_to("main.attn")
    sources = {path: path.read_text() for path in tmp_path.iterdir()}
    entry = ["--entry", "CausalAttention"]
    _, err = attc(
        *command, tmp_path / "main.attn", *entry, "-o", tmp_path / output, status=1
    )
    assert "would overwrite the source" in err
    assert sources == {path: path.read_text() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("option, what", [("--schedules", "schedules"), ("--db", "database")])
def test_schedules_are_not_overwritten(tmp_path, option, what):
    file = tmp_path / "schedules"
    (tmp_path / "link").symlink_to(file)
    file.write_text("")
    for output in (file, tmp_path / "link", f"O={file}"):
        _, err = attc("run", CAUSAL, *SMALL, option, file, "-o", output, status=2)
        assert f"-o {output} would overwrite the {what}\n" in err
    assert file.read_text() == ""


SEVERAL = "def F(X[n]):\n    return -X\n\ndef G(X[n]):\n    return F(X)\n"
REMARK = "attc: remark: the entry is G, the last of 2 defs; --entry takes another\n"


@pytest.mark.parametrize("command", ["run", "verify"])
def test_the_entry_is_named_where_it_was_not_asked_for(command):
    assert attc(command, "-", "-D", "n=3", stdin=SEVERAL)[1] == REMARK
    assert attc(command, "-", "-D", "n=3", "--entry=F", stdin=SEVERAL)[1] == ""
    assert attc(command, "-", "-D", "n=3", "-w", stdin=SEVERAL)[1] == ""
    assert attc(command, "-", "-D", "n=3", stdin=SEVERAL.partition("\n\n")[0])[1] == ""
    _, err = attc(command, "-", "-D", "n=3", "--diagnostics=json", stdin=SEVERAL)
    assert json.loads(err)["severity"] == "remark"


def test_defs_of_other_files_are_not_counted(tmp_path):
    (tmp_path / "other.attn").write_text(SEVERAL)
    (tmp_path / "main.attn").write_text('import "other.attn"\n\ndef H(X[n]):\n    return G(X)\n')
    assert attc("run", tmp_path / "main.attn", "-D", "n=3")[1] == ""


def test_help_and_version():
    assert "verify" in attc("--help")[0]
    assert attc("--version")[0].startswith("attc ")
    assert "x86-64-v4" in attc("--print-targets")[0]


def test_check_prints_nothing_when_all_is_well():
    assert attc("check", CAUSAL) == ("", "")


def test_standard_input():
    assert attc("check", "-", stdin=CAUSAL.read_text()) == ("", "")
    _, err = attc("check", "-", stdin="def F(X[n]):\n    return Y[n]\n", status=1)
    assert "<stdin>:2:12: error:" in err


def test_diagnostics_as_json():
    _, err = attc(
        "check", "-", "--diagnostics=json", stdin="def F(X[n]):\n    return Y[n]\n", status=1
    )
    message = json.loads(err.splitlines()[0])
    assert (message["severity"], message["line"], message["column"]) == ("error", 2, 12)


def test_empty_source():
    _, err = attc("check", "-", stdin="dim n = 3  # for others\n")
    assert "remark: the file has no def" in err
    _, err = attc("cost", "-", stdin="", status=1)
    assert "def" in err


@pytest.mark.parametrize("stage", "ast graph simplified contracted fused tile llvm asm".split())
def test_every_stage_prints(stage):
    extents = [] if stage == "ast" else SMALL
    assert len(attc("emit", CAUSAL, f"--stage={stage}", *extents)[0]) > 100


@pytest.mark.long
@pytest.mark.parametrize("folder", ["examples", "tests/variants"])
def test_graphs_of_what_is_printed(folder):
    """The graph of a program's printed graph is the same graph."""
    for path in sorted((ROOT / folder).glob("*.attn")):
        once = attc("emit", path, "--stage=graph", "-w")[0]
        assert attc("emit", "-", "--stage=graph", "-w", stdin=once)[0] == once, path


@pytest.mark.parametrize("stage", ["graph", "simplified", "contracted"])
def test_printed_graphs_are_source(stage):
    once = attc("emit", CAUSAL, f"--stage={stage}", *SMALL)[0]
    assert (
        attc("emit", "-", "--stage=graph", "-w", stdin=once)[0]
        == (
            attc(
                "emit",
                "-",
                "--stage=graph",
                "-w",
                stdin=attc("emit", "-", "--stage=graph", "-w", stdin=once)[0],
            )[0]
        )
    )


def test_time_passes_names_every_pass():
    _, err = attc("verify", CAUSAL, *SMALL, "--time-passes")
    assert [line.split()[0] for line in err.splitlines()] == [
        "front",
        "build",
        "simplify",
        "contract",
        "unify",
        "totals",
        "expand",
        "pick",
        "recompute",
        "cut",
        "fuse",
        "layout",
        "plan",
        "lower",
        "load",
    ]
