# SPDX-License-Identifier: Apache-2.0
"""`attc tune`, and schedules that other commands look up: from a database, or from a text."""

import json
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from attc import ATTC, EXAMPLES, SANITIZED, attc, attc_json, heed_signals
from schedules import entry, read, text_of

SOURCE = """dim d = 16, h = 3
def Attention(X[n, d], P[d, h, e], K[m, h, e], V[m, h, e]):
    Q[n, h, e] = einsum(X[n, d], P[d, h, e])
    W[n, m, h] = softmax(einsum(Q[n, h, e], K[m, h, e] -> [n, m, h]), reduced_dim=m)
    O[n, h, e] = einsum(W[n, m, h], V[m, h, e] -> [n, h, e])
    return O[n, h, e]
"""
D = ["-D", "n=80,m=96,e=16", "--target", "x86-64-v3"]  # which every machine runs
FLAGS = ("transposed", "contiguous_rows", "pack_a", "pack_b")
MACHINE = "avx512"  # of tests/machines, which the harness chooses


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "attention.attn"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def db(tmp_path):
    return tmp_path / "schedules.db"


def spaces(source, *options):
    return attc_json("cost", source, *D, "--space", "--threads", 1, "--no-db", *options)["spaces"]



def known(space, number=-1, **changes):
    """An entry of one of a kernel's schedules."""
    return entry(group=space["group"], extents=space["extents"], target="x86-64-v3",
                 machine=MACHINE, threads=1, name=space["kernel"],
                 schedule=space["schedules"][number]["schedule"]) | changes


def kernels(source, tmp_path, *options):
    """By name: where its schedule is from, and the schedule."""
    out = tmp_path / "lib.o"
    attc("build", source, *D, "--threads", 1, "--object", "-o", out, *options)
    return {kernel["name"]: (kernel["schedule_from"], kernel["schedule"])
            for kernel in manifest(out)["kernels"]}


def manifest(library):
    text = library.read_bytes()
    start = text.index(b'{\n "abi"')
    return json.JSONDecoder().raw_decode(text[start:].decode(errors="replace"))[0]


# ---- what is looked up ---------------------------------------------------------------------------


def test_the_default_comes_first_in_a_space(source, tmp_path):
    of_kernels = kernels(source, tmp_path, "--no-db")
    for space in spaces(source):
        assert of_kernels[space["kernel"]] == ("predicted", space["schedules"][0]["schedule"])


def test_what_a_task_has_no_room_for_is_not_in_the_space(source):
    sizes = ["-D", "n=4096,m=1048576,e=16", *D[2:], "--threads", 1, "--no-db"]
    [space] = [space for space in attc_json("cost", source, *sizes, "--space")["spaces"]
               if space["kernel"] == "O"]
    rows = {choice["schedule"]["rows"] for choice in space["schedules"]
            if choice["schedule"]["plan"] == "spill"}
    for number in (max(rows), 2 * max(rows)):
        scratch = max(kernel["scratch_bytes"] for kernel in attc_json(
            "cost", source, *sizes, "--plan", f"spill:{number}")["kernels"])
        assert (scratch <= 64 << 20) == (number in rows)


def test_a_known_schedule_is_used_everywhere(source, db, tmp_path):
    stream = [space for space in spaces(source)
              if space["schedules"][0]["schedule"]["kind"] == "stream"][0]
    wanted = known(stream)
    attc("db", "import", "-", "--db", db, stdin=text_of(wanted))
    found = kernels(source, tmp_path, "--db", db)
    assert found[stream["kernel"]] == ("database", wanted["schedule"])
    others = {origin for name, (origin, _) in found.items() if name != stream["kernel"]}
    assert others == {"predicted"}
    tile = [attc("emit", source, *D, "--stage=tile", "--threads", 1, *options)[0]
            for options in (["--db", db], ["--no-db"], [])]
    assert tile[0] != tile[1] and tile[1] == tile[2]
    for command in ("verify", "bench"):
        attc(command, source, *D, "--threads", 1, "--db", db)
    text = tmp_path / "schedules.txt"
    attc("db", "export", "--db", db, "-o", text)
    assert kernels(source, tmp_path, "--schedules", text)[stream["kernel"]] == (
        "file", wanted["schedule"])


def test_prefetch_is_chosen_by_kernel(source, tmp_path):
    """The others of the program go on asking; nobody chooses where there is nothing to ask for."""
    silent = {space["kernel"]: known(space, schedule=choice["schedule"])
              for space in spaces(source) for choice in space["blocks"]
              if choice["schedule"]["prefetch"] == "none"}
    assert len(silent) > 1 and "O" in silent
    text, asks = tmp_path / "schedules.txt", []
    for chosen in [silent["O"]], silent.values():
        text.write_text(text_of(*chosen))
        for options in ["--no-db"], ["--schedules", text]:
            code, _ = attc("emit", source, *D, "--threads", 1, "--stage", "llvm", *options)
            asks.append(code.count("call void @llvm.prefetch"))
        attc("verify", source, *D, "--threads", 1, "--schedules", text)
    assert asks[0] == asks[2] > asks[1] > asks[3] == 0
    plain = tmp_path / "plain.attn"
    plain.write_text("def F(X[n, d]):\n    return exp(X) + 1\n")
    [space] = attc_json("cost", plain, "-D", "n=8,d=8", "--space", "--no-db")["spaces"]
    assert all(choice["schedule"]["prefetch"] == "rule"
               for choice in space["schedules"] + space["blocks"])


def test_builds_are_the_same_bytes(source, db, tmp_path):
    attc("db", "import", "-", "--db", db, stdin=text_of(*map(known, spaces(source))))
    moved = tmp_path / "elsewhere" / "moved.db"
    moved.parent.mkdir()
    libraries = []
    for place in ("a", "b"):
        out = tmp_path / place / "lib.o"
        out.parent.mkdir()
        attc("build", source, *D, "--threads", 1, "--object", "-o", out, "--db", db)
        libraries.append(out.read_bytes())
        db.rename(moved)
        db = moved
        moved = tmp_path / "again.db"
    assert libraries[0] == libraries[1]


@pytest.mark.parametrize("changes", [
    {"threads": 2}, {"machine": "another"}, {"target": "x86-64-v9"}, {"extents": "1 2 3"},
    {"group": "0" * 16}])
def test_other_keys_are_not_used(source, db, tmp_path, changes):
    attc("db", "import", "-", "--db", db,
         stdin=text_of(known(spaces(source)[-1], **changes)))
    assert {origin for origin, _ in kernels(source, tmp_path, "--db", db).values()} == {"predicted"}


def test_a_text_that_is_named_serves_other_machines(source, tmp_path):
    space = spaces(source)[-1]
    text = tmp_path / "schedules.txt"
    text.write_text(text_of(known(space, machine="another")))
    assert kernels(source, tmp_path, "--schedules", text)[space["kernel"]][0] == "file"


def test_what_is_not_in_the_space_is_left_alone(source, db, tmp_path):
    """Of another compiler, or made up: the numbers are in their ranges, and mean nothing here."""
    wrong = []
    for space in spaces(source):
        schedule = dict(space["schedules"][0]["schedule"])
        for key, value in schedule.items():
            if isinstance(value, int) and key not in FLAGS:
                schedule[key] = value + 7
        wrong.append(known(space, schedule=schedule))
    attc("db", "import", "-", "--db", db, stdin=text_of(*wrong))
    assert {origin for origin, _ in kernels(source, tmp_path, "--db", db).values()} == {"predicted"}
    attc("verify", source, *D, "--db", db)


def test_a_damaged_database_is_told_of(source, db):
    db.write_bytes(b"no database at all\n" * 100)
    _, err = attc("cost", source, *D, "--db", db)
    assert re.search(r"remark: .*schedules\.db .*; all schedules are predicted", err), err
    assert "attc db check" in err
    _, err = attc("cost", source, *D, "--db", db, "-w")
    assert err == ""
    _, err = attc("cost", source, *D, "--no-db")
    assert err == ""


def test_a_named_database_that_is_not_there_is_told_of(source, db):
    _, err = attc("cost", source, *D, "--db", db)
    assert re.search(r"remark: .*schedules\.db is not there, or empty; all .* predicted", err), err
    assert not db.exists()
    _, err = attc("tune", source, *D, "--threads", 1, "--budget", "1s", "--db", db)
    assert "is not there" not in err and db.exists()  # it makes one
    _, err = attc("cost", source, *D)
    assert err == ""


def test_a_text_that_is_for_nothing_here(source, tmp_path):
    text = tmp_path / "schedules.txt"
    text.write_text(text_of(*map(entry, range(3))))
    _, err = attc("cost", source, *D, "--schedules", text)
    assert "none of the 3 schedules of" in err


def test_a_schedule_that_a_kernel_cannot_have_is_told(source, tmp_path, db):
    text = tmp_path / "schedules.txt"
    entries = [known(space) for space in spaces(source) if len(space["schedules"]) > 1]
    text.write_text(text_of(*entries))
    assert attc("cost", source, *D, "--threads", 1, "--schedules", text)[1] == ""
    options = ["cost", source, *D, "--threads", 1]
    told = attc_json(*options, "--schedules", text)["kernels"]
    known_here = [e["schedule"] for e in entries]
    assert all((k["schedule"] in known_here) == (k["schedule_from"] == "file") for k in told)
    assert "file" in {k["schedule_from"] for k in told}
    assert {k["schedule_from"] for k in attc_json(*options, "--no-db")["kernels"]} == {"predicted"}
    stream = next(e["schedule"] for e in entries if e["schedule"]["kind"] == "stream")
    stream["rows"] += 1
    text.write_text(text_of(*entries))
    _, err = attc("cost", source, *D, "--threads", 1, "--schedules", text)
    assert f"{text}: the schedule of O (group " in err
    assert err.count("is none that it can have") == 1
    for e in entries:
        if e["schedule"]["kind"] == "contract":
            e["schedule"]["task_rows"] += 1
    text.write_text(text_of(*entries))
    _, err = attc("cost", source, *D, "--threads", 1, "--schedules", text)
    assert 2 <= err.count("is none that it can have") < 10
    attc("db", "import", text, "--db", db)  # and of a database
    _, err = attc("cost", source, *D, "--threads", 1, "--db", db)
    assert f"{db}: the schedule of O (group " in err and "is none that it can have" in err


def test_a_wrong_text_is_an_error(source, tmp_path):
    text = tmp_path / "schedules.txt"
    _, err = attc("cost", source, *D, "--schedules", text, status=1)
    assert "schedules.txt" in err
    text.write_text(text_of(entry()) + "{}\n")
    _, err = attc("cost", source, *D, "--schedules", text, status=1)
    assert f'{text}:3: "group" is missing\n' in err


def test_forced_plans_are_not_looked_up(source, db, tmp_path):
    attc("db", "import", "-", "--db", db, stdin=text_of(*map(known, spaces(source))))
    found = kernels(source, tmp_path, "--db", db, "--plan", "stream:8:64")
    streams = [value for value in found.values() if value[1]["kind"] == "stream"]
    assert [(origin, s["plan"], s["rows"]) for origin, s in streams] == [("predicted", "stream", 8)]


# ---- the search ----------------------------------------------------------------------------------


def tune(source, db, *options, status=0):
    return attc("tune", source, *D, "--threads", 1, "--db", db, *options, status=status)


def test_tune_tells_what_it_found(source, db, tmp_path):
    picture = tmp_path / "search.svg"
    out, told = tune(source, db, "--effort", "quick", "-o", picture)
    assert re.search(r"^\d+ s  \d+ tried  \d\.\d{3}x of the default's speed  \d+% of peak"
                     r"  about \d+ s left$", told, re.M)
    heads = out.splitlines()[0].split()
    assert heads == ["kernel", "kind", "times", "tried", "of", "blocks", "default", "tuned",
                     "speed", "sure", "ranks"]
    assert re.search(r"^\d+ candidates in \d+ s: \d\.\d{3}x of the default's speed", out, re.M)
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    attc("verify", source, *D, "--db", db)


def entries_of(db):
    return read(attc("db", "export", "--db", db)[0])


def test_kernels_are_called_as_in_the_table_of_costs(source):
    costs = attc_json("cost", source, *D, "--space", "--threads", 1, "--no-db")
    called = {space["kernel"] for space in costs["spaces"]}
    assert called <= {kernel["name"] for kernel in costs["kernels"]}
    assert any(re.fullmatch(r"t\d+", name) for name in called)  # no name in the source


def test_what_is_told_of_is_what_is_kept(source, db):
    found = attc_json("tune", source, *D, "--threads", 1, "--db", db, "--effort", "quick")
    assert found["threads"] == 1 and found["candidates"] > 0 and not found["interrupted"]
    kept = {kernel["kernel"]: kernel for kernel in found["kernels"] if kernel["kept"]}
    assert {e["name"]: e["schedule"] for e in entries_of(db)
            if e["schedule"]["kind"] != "program"} == {
        name: kernel["schedule"] for name, kernel in kept.items()}
    if kept:
        assert f"\nleft: {len(entries_of(db))}\n" in attc("db", "prune", "--db", db)[0]
    for kernel in found["kernels"]:
        assert kernel["kept"] == (kernel["seconds"] <= 0.99 * kernel["default_seconds"])
        with_default = [trial for trial in kernel["trials"] if trial["default_blocks"]]
        assert len(with_default) < kernel["schedules"]  # the default itself is no trial
        assert all(trial["predicted_seconds"] > 0 for trial in with_default)
        for trial in kernel["trials"]:
            assert trial["pairs"] >= 2
            assert trial["predicted_seconds"] is None or trial["predicted_seconds"] > 0
            assert (trial["confidence"] is not None) == trial["last"]
        if kernel["kept"]:
            assert kernel["confidence"] >= 0.95
            assert any(trial["last"] for trial in kernel["trials"])


def test_a_loss_with_other_results_is_judged_right(tmp_path, db):
    """A program trains by the first result alone."""
    source = tmp_path / "two.attn"
    source.write_text("dim d = 16, v = 32\ndef Loss(x[b, d]):\n"
                      "    param A[d, d'], B[d, v]\n"
                      "    H[b, d'] = gelu(einsum(x, A -> [b, d']))\n"
                      "    Z[b, v] = sigmoid(einsum(H[b, d], B[d, v] -> [b, v]))\n"
                      "    return mean(Z ** 2, reduced_dim=(b, v)), "
                      "1000 * mean(Z, reduced_dim=(b, v))\n")
    for seed in range(3):  # what wins is a matter of time
        _, err = attc("tune", source, "-D", "b=64", "--exe", "--threads", 1, "--db", db, "--budget",
                      "2s", "--seed", seed)
        assert "computes something else" not in err


def test_the_oracle_judges_what_the_file_gives_large_extents(tmp_path, db):
    """At smaller ones, where it is quick. Blocks of 2 of the default leave much to find."""
    source = tmp_path / "large.attn"
    source.write_text("dim n = 400, d = 600, f = 500\n"
                      "def Y(X[n, d], P[d, f], Z[n, f]):\n"
                      "    return einsum(X, P -> [n, f]) + Z[n, f]\n")
    one = tmp_path / "one.json"
    facts = json.loads((EXAMPLES.parent / "tests/machines/avx512.json").read_text())
    one.write_text(json.dumps(facts | {"l1_bytes": 256, "l2_bytes": 256, "l3_bytes": 256}))
    for effort in ("quick", "normal", "normal", "normal"):  # what wins is a matter of time
        found = attc_json("tune", source, "--target", "x86-64-v3", "--machine", one, "--threads", 1,
                          "--db", db, "--effort", effort)
        [kernel] = found["kernels"]
        if kernel["kept"]:
            break
    assert kernel["kept"] and kernel["by_oracle"]


def test_gradients_and_shapes_and_kernels(source, db, tmp_path):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("# two\nn=16,m=24\n\n  n=24,m=16,e=8  \n")
    out, _ = tune(source, db, "--effort", "quick", "--shapes", shapes, "--kernels", "O", "--grad")
    assert out.splitlines()[0] == "n=16,m=24" and "\nn=24,m=16,e=8\n" in out
    tried = [line.split()[:4] for line in out.splitlines()
             if re.match(r"\w+ +(stream|tasks|contract) ", line)]
    assert all(number == "0" for name, _, _, number in tried if name != "O")
    assert any(number != "0" for name, _, _, number in tried if name == "O")


def test_kernels_of_run_time_extents(source, db):
    """Of sizes of m that have one kernel by default none is searched, or told of, beside it."""
    options = ["-D", "n=12,m=96,e=24", "--dynamic", "m", "--target", "x86-64-v3", "--threads", 1]
    spaces_of = [space["kernel"] for space in attc_json("cost", source, *options, "--no-db",
                                                        "--space")["spaces"]]
    assert len(set(spaces_of)) == len(spaces_of)
    streams = [name for name in spaces_of if name.startswith("O")]
    assert 1 <= len(streams) < 4  # 4 sizes
    found = attc_json("tune", source, *options, "--db", db, "--effort", "quick", "--kernels",
                      streams[0])
    assert [kernel["kernel"] for kernel in found["kernels"]] == spaces_of
    tried = {kernel["kernel"] for kernel in found["kernels"] if kernel["trials"]}
    assert tried == {streams[0]}
    assert all(trial["ratio"] > 0.1 for kernel in found["kernels"] for trial in kernel["trials"])
    for never in streams[1:]:
        _, err = attc("tune", source, *options, "--db", db, "--kernels", never, status=1)
        assert f"--kernels: {never} does not run at these extents" in err


LOSS = """dim d = 16, f = 24
def Loss(X[n, d], Y[n, f], param A[d, f]):
    return mean((relu(einsum(X[n, d], A[d, f] -> [n, f])) - Y[n, f]) ** 2, reduced_dim=(n, f))
"""


@pytest.mark.skipif(SANITIZED, reason="programs of a build with sanitizers")
def test_programs_that_train_are_tuned_for(tmp_path, db):
    """The keys of --exe are those of the function that training calls."""
    source = tmp_path / "loss.attn"
    source.write_text(LOSS)
    options = ["--threads", 1, "--target", "x86-64-v3", "--exe", source]
    found = attc_json("tune", "-D", "n=64", "--dynamic", "n", "--effort", "quick", "--db", db,
                      *options)
    others = [known({"group": kernel["group"], "extents": kernel["extents"],
                     "kernel": kernel["kernel"], "schedules": kernel["trials"]})
              for kernel in found["kernels"] if kernel["trials"]]
    assert others
    attc("db", "import", "-", "--db", db, stdin=text_of(*others))
    out = tmp_path / "program"
    attc("build", "--dynamic", "n=64", "-o", out, "--db", db, *options)
    text = out.read_bytes().decode(errors="replace")
    assert text.count('"schedule_from": "database"') >= len(others)


def test_there_is_no_kernel_of_that_name(source, db, tmp_path):
    _, err = tune(source, db, "--kernels", "nothing", status=1)
    assert "there is no kernel nothing, but " in err and not db.exists()
    shapes = tmp_path / "shapes.txt"  # of several some may have it
    shapes.write_text("n=16,m=24\nn=24,m=16")
    _, err = tune(source, db, "--effort", "quick", "--kernels", "nothing", "--shapes", shapes)
    assert err.count("remark: --kernels: there is no kernel nothing, but ") == 2


@pytest.mark.parametrize("options", [
    ["--effort", "some"], ["--budget", "0"], ["--budget", "5x"], ["--budget", "nan"],
    ["--no-db"], ["--schedules", "x"], ["-o", "a.svg", "-o", "b.svg"], ["--shapes", ""],
    ["-o", "-"], ["-o", "a.png"], ["--shapes", "x", "-o", "a.svg"], ["--plan", "stream"]])
def test_options_that_mean_nothing(source, options):
    _, err = attc("tune", source, *D, *options, status=2)
    assert err.startswith("attc: error: ")


@pytest.mark.parametrize("line, told", [
    ("n=16,m", "m: "), ("n=16\0,m=16", "NUL byte"), ("n=16,n=17", "n is given twice"),
    ("n=0x", "n=0x: "), ("bogus line", ": ")])
def test_a_shape_that_is_wrong(source, db, tmp_path, line, told):
    """All lines are read before anything is searched for."""
    shapes = tmp_path / "shapes.txt"
    shapes.write_text(f"# wrong\nn=16,m=16\n{line}\n")
    out, err = tune(source, db, "--shapes", shapes, status=1)
    assert out == "" and f"{shapes}:3: " in err and told in err


def test_a_shape_that_cannot_be_tuned_is_told_at_its_line(source, db, tmp_path):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("\nn=16,e=9999,m=99999999999\nn=16\nn=24,m=16\n")
    _, err = tune(source, db, "--shapes", shapes, status=1)
    assert f"{shapes}:2: this shape cannot be tuned\n" in err
    assert "ended by an error: 2 of 3 shapes are left out, from n=16 on\n" in err


@pytest.mark.parametrize("link", [False, True])
def test_a_picture_overwrites_nothing_that_is_read(link, source, db, tmp_path):
    text = source.read_text()
    own = source.rename(tmp_path / "source.svg")
    data = np.zeros((80, 16), np.float32)
    np.save(tmp_path / "X.npy", data)
    x = (tmp_path / "X.npy").rename(tmp_path / "x.svg")
    for read, what in (own, "source"), (x, "data"):
        picture = read
        if link:
            picture = tmp_path / f"link-{what}.svg"
            picture.symlink_to(read)
        _, err = attc("tune", own, *D, f"X={x}", "--db", db, "-o", picture, status=1)
        assert f"-o {picture} would overwrite the {what} {read}\n" in err
    assert own.read_text() == text and (np.load(x) == data).all() and not db.exists()


def test_a_link_to_no_picture_stays_as_it_is(tmp_path, source, db):
    link, picture = tmp_path / "link.svg", tmp_path / "picture.svg"
    link.symlink_to(picture)
    tune(source, db, "-o", link, "--kernels", "nothing", status=1)
    assert link.is_symlink() and not picture.exists()


def test_no_picture_stays_of_a_search_that_fails(source, db, tmp_path):
    tune(source, db, "-o", tmp_path / "a.svg", "--kernels", "nothing", status=1)
    assert not (tmp_path / "a.svg").exists()


def test_no_shapes(source, db, tmp_path):
    _, err = tune(source, db, "--shapes", tmp_path / "none", status=1)
    assert "none" in err
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("# none\n\n")
    _, err = tune(source, db, "--shapes", shapes, status=1)
    assert "it has no shapes" in err


def test_shapes_are_one_object(source, db, tmp_path):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("n=16,m=24\nn=24,m=16")
    found = attc_json("tune", source, *D, "--threads", 1, "--db", db, "--effort", "quick",
                      "--shapes", shapes)["shapes"]
    assert [(one["dims"]["n"], one["dims"]["m"]) for one in found] == [(16, 24), (24, 16)]


def test_a_picture_that_cannot_be_written(source, db, tmp_path):
    begun = time.monotonic()
    _, err = tune(source, db, "--effort", "exhaustive", "-o", tmp_path / "no" / "x.svg", status=1)
    assert "x.svg" in err and time.monotonic() - begun < 5 and not db.exists()


def test_a_database_that_cannot_be_written(source, tmp_path):
    """It is told before anything is searched for."""
    _, err = tune(source, source / "x.db", status=1)
    assert "x.db" in err and " tried " not in err
    _, err = tune(source, source, status=1)
    assert "attention.attn" in err and " tried " not in err


def test_a_budget_is_kept(source, db):
    found = attc_json("tune", source, *D, "--threads", 1, "--db", db, "--effort", "exhaustive",
                      "--budget", "3s")
    assert found["candidates"] < max(len(space["schedules"]) for space in spaces(source))
    assert found["seconds"] < (60 if SANITIZED else 20)


def test_a_budget_that_the_default_takes_is_told(db):
    layer = ["tune", EXAMPLES / "multi_head.attn", "-D", "n=2048,m=2048", "--threads", 1]
    _, err = attc(*layer, "--db", db, "--budget", "1s")
    assert "--budget: no schedule was tried, since compiling and measuring the default took" in err


def interrupted(source, db, *options, times=1):
    run = subprocess.Popen([ATTC, "tune", source, *D, "--threads", "1", "--db", db, "--effort",
                            "exhaustive", "--json", *options], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals)
    assert " tried " in run.stderr.readline()
    for signals in range(times):
        time.sleep(0.05 if signals else 0)
        run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    return json.loads(out), err


def test_what_was_found_is_kept_when_interrupted(source, db):
    found, _ = interrupted(source, db)
    assert found["interrupted"]
    assert {e["name"] for e in entries_of(db)} == {
        one.get("kernel", one.get("program"))
        for one in found["programs"] + found["kernels"] if one["kept"]}


def test_a_second_interrupt_ends_the_search_of_programs(source, db):
    found, _ = interrupted(source, db, times=2)
    assert found["interrupted"] and not found["kernels"] and not entries_of(db)
    assert [program["kept"] for program in found["programs"]] == [False]
    assert found["peak_gflops"] > 0


def test_shapes_that_are_left_out_are_told_of(source, db, tmp_path):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("n=80,m=96\nn=24,m=16\nn=8,m=8\n")
    found, err = interrupted(source, db, "--shapes", shapes)
    assert [shape["dims"]["n"] for shape in found["shapes"]] == [80]
    assert "remark: interrupted: 2 of 3 shapes are left out, from n=24,m=16 on" in err
