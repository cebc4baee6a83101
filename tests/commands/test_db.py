# SPDX-License-Identifier: Apache-2.0
"""`attc db`: what each action prints, where the database is, and several processes at it.

test_db_damaged.py has files that are damaged.
"""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from attc import ATTC, EXAMPLES, attc
from schedules import CONTRACT, NONE, STREAM, TASKS, entry, read, text_of

KILLS = int(os.environ.get("ATTC_DB_KILLS", "12"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "schedules.db"


def fill(path, *entries):
    return attc("db", "import", "-", "--db", path, stdin=text_of(*entries))[0]


def export(path):
    return read(attc("db", "export", "--db", path)[0])


# ---- what is printed -----------------------------------------------------------------------------


def test_list(path):
    fill(path, entry(0, name="S"), entry(1, name="C", schedule=CONTRACT, extents="7"),
         entry(2, name="T", schedule=TASKS, extents="", seconds=2.0, default_seconds=1.0),
         entry(3, name="N", schedule=NONE, seconds=250.0, default_seconds=255.0))
    out, err = attc("db", "list", "--db", path)
    assert err == ""
    heads, *rows = [line.split("  ") for line in out.splitlines()]
    rows = {row[1]: [cell.strip() for cell in row if cell.strip()] for row in rows}
    assert [head.strip() for head in heads if head.strip()] == [
        "group", "kernel", "kind", "schedule", "extents", "target", "threads", "time", "default",
        "gain", "sure", "date", "machine"]
    assert rows["S"] == ["00000000", "S", "stream", "resident:24:512", "512 64 ~12", "x86-64-v4",
                         "2", "0.123 ms", "0.150 ms", "+22.0%", "99.0%",
                         "2026-11-24", 'Some "CPU" é @ 3 GHz']
    assert rows["C"][2:5] == [
        "contract", "task 1x64x384, block 48x256, kernel 8x48, contiguous rows, packs the second",
        "7"]
    assert rows["T"][2:5] == ["tasks", "tasks 4, rows 2", "-"] and rows["T"][-4] == "-50.0%"
    assert rows["N"][2:4] == ["none", "blocks"] and rows["N"][7:9] == ["250 s", "255 s"]


def test_list_and_show_as_json(path):
    entries = [entry(0, name="Y"), entry(1, name="Z", schedule=CONTRACT)]
    fill(path, *entries)
    for action, meant in ((["list"], entries), (["show", "Z"], entries[1:])):
        object = json.loads(attc("db", *action, "--json", "--db", path)[0])
        assert object["database"] == str(path)
        assert [e.pop("gain") for e in object["entries"]] == pytest.approx([0.15 / 0.123 - 1] *
                                                                           len(meant))
        assert object["entries"] == meant


def test_show(path):
    fill(path, entry(1, name="Y"), entry(2, name="Z"), entry(2, name="Z", threads=1), entry(3))
    out, _ = attc("db", "show", "Y", "--db", path)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines == {
        "kernel": "Y", "group": "9e3779b97f4a7c15", "extents": "512 64 ~12", "target": "x86-64-v4",
        "machine": 'Some "CPU" é @ 3 GHz', "threads": "2", "schedule": json.dumps(STREAM),
        "time": "0.123 ms", "default": "0.15 ms", "gain": "+22.0%", "confidence": "0.99",
        "date": "2026-11-24T19:00:00Z"}
    assert attc("db", "show", "9e37", "--db", path)[0] == out
    assert attc("db", "show", "Z", "--db", path)[0].count("kernel      Z\n") == 2
    for word in "X", "9e38", "":
        _, err = attc("db", "show", word, "--db", path, status=1)
        assert f"{path} has no entry of a kernel or a group '{word}'" in err


def test_check(path):
    fill(path, entry(0), entry(1))
    assert attc("db", "check", "--db", path) == (
        "entries: 2, and 0 of other versions of attc\nmeasurements: 0\nrates: 0\n", "")


BAD = [
    (["db"], "db: expected list, show, export, import, merge, prune or check"),
    (["db", "frobnicate"], "db: 'frobnicate' is not list, show, export, import, merge, prune or"),
    (["db", "show"], "db show: expected the name of a kernel"),
    (["db", "import"], "db import: expected a file of exported schedules"),
    (["db", "merge"], "db merge: expected another database, or a file of exported schedules"),
    *((["db", action, "x"], f"db {action}: takes no file\n")
      for action in ("list", "export", "prune", "check")),
    (["db", "show", "x", "y"], "db show: takes no 'y'\n"),
    (["db", "list", "--db="], "--db: expected the name of a file"),
    (["db", "list", "--db=a", "--db=b"], "--db is given twice"),
    (["db", "list", "-o", "x"], "db list: takes no -o\n"),
    (["db", "export", "--json"], "db export: takes no --json\n"),
    (["db", "list", "--older-than=3"], "db list: takes no --older-than\n"),
    (["db", "list", "-D", "n=3"], "db: takes no -D\n"),
    (["db", "export", "-o", "x", "-o", "y"], "db export: one -o only"),
    *((["db", "export", "--db=x.db", "-o", f"./x.db{end}"],
       f"-o ./x.db{end} would overwrite the database") for end in ("", "-journal", "-wal")),
    *((["db", "prune", f"--older-than={days}"], "expected a whole number of days from 1 to 36500")
      for days in ("0", "-1", "x", "40000", "1.5")),
    (["machine", "--older-than=3"], "machine: takes no --older-than\n"),
]


@pytest.mark.parametrize("arguments, message", BAD)
def test_wrong_command_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.db").touch()
    out, err = attc(*arguments, status=2)
    assert message in err and out == ""
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"]


def test_a_database_is_no_text(path):
    fill(path, entry(0))
    for command in ["db", "import", path], ["run", EXAMPLES / "multi_head.attn", "-D", "n=4,m=4",
                                            "--schedules", path]:
        err = attc(*command, status=1)[1]
        assert f"error: {path} is a database, and no text of schedules\n" in err
        assert "hint: attc db merge takes databases, --db uses one\n" in err


def test_help_tells_of_it():
    out = attc("db", "--help")[0]
    for action in ("list", "show", "export", "import", "merge", "prune", "check"):
        assert action in out.split("\n  db ")[1]


# ---- text ----------------------------------------------------------------------------------------


def test_what_is_exported_can_be_imported(path, tmp_path):
    entries = [entry(i, seconds=0.1 / (i + 3), schedule=[STREAM, CONTRACT, TASKS, NONE][i % 4])
               for i in range(20)]
    assert fill(path, *entries) == "imported: 20\n"
    text = attc("db", "export", "--db", path)[0]
    assert read(text) == sorted(entries, key=lambda e: e["group"])
    assert all(list(e) == list(entries[0]) for e in read(text))
    other = tmp_path / "other.db"
    lines = text.splitlines(keepends=True)
    attc("db", "import", "-", "--db", other, stdin="".join([lines[0], *reversed(lines[1:])]))
    assert attc("db", "export", "--db", other)[0] == text
    out = tmp_path / "schedules.json"
    assert attc("db", "export", "--db", other, "-o", out)[0] == ""
    assert out.read_text() == text
    assert attc("db", "import", out, "--db", path)[0] == "imported: 20\n"
    assert attc("db", "export", "--db", path)[0] == text


def test_import_takes_the_place_of_entries(path):
    fill(path, entry(0), entry(1))
    fill(path, entry(0, seconds=0.5))
    assert export(path) == [entry(0, seconds=0.5), entry(1)]


def test_nothing_of_a_text_with_a_mistake_is_taken(path):
    text = text_of(entry(0), entry(1)) + "{}\n"
    _, err = attc("db", "import", "-", "--db", path, stdin=text, status=1)
    assert '<stdin>:4: "group" is missing' in err
    assert not path.exists()


def test_a_folder_where_the_text_would_go(path, tmp_path):
    fill(path, entry(0))
    _, err = attc("db", "export", "--db", path, "-o", tmp_path, status=1)
    assert f"cannot write {tmp_path}: Is a directory" in err


# ---- merge and prune -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["database", "text"])
def test_merge_prefers_the_faster(path, tmp_path, form):
    other = tmp_path / "other"
    theirs = [entry(0, seconds=1e-4), entry(1, seconds=2e-4), entry(2), entry(3)]
    if form == "text":
        other.write_text(text_of(*theirs))
    else:
        fill(other, *theirs)
    fill(path, entry(0), entry(1), entry(2, name="mine"))
    assert attc("db", "merge", other, "--db", path)[0] == "taken: 2; as fast or faster here: 2\n"
    kept = {e["group"]: e for e in export(path)}
    mine = [entry(0, seconds=1e-4), entry(1), entry(2, name="mine"), entry(3)]
    assert list(kept.values()) == sorted(mine, key=lambda e: e["group"])
    assert attc("db", "merge", path, "--db", path)[0].startswith("taken: 0;")


def test_merge_makes_a_database(path):
    text = text_of(entry(0))
    deep = path.parent / "a" / "b" / "c.db"
    assert attc("db", "merge", "-", "--db", deep, stdin=text)[0].startswith("taken: 1;")
    assert export(deep) == [entry(0)]


def ago(**time_ago):
    return (datetime.now(timezone.utc) - timedelta(**time_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def change(path, sql):
    with sqlite3.connect(path) as database:
        assert database.execute(sql).rowcount == 1
    database.close()


def test_prune(path):
    fill(path, entry(0), entry(1, seconds=0.001, default_seconds=0.001009),
         entry(2, seconds=0.001, default_seconds=0.001011, date=ago(days=9)),
         entry(3, date=ago(days=11)), entry(4), entry(5))
    change(path, "UPDATE schedules SET version = 1 WHERE name = 'Y4'")
    change(path, "UPDATE schedules SET seconds = seconds / 2 WHERE name = 'Y5'")
    out, err = attc("db", "list", "--db", path)
    assert len(out.splitlines()) == 1 + 4
    assert f"damaged entries in {path}: 1" in err
    assert f"entries in {path} of other versions of attc, not used: 1" in err
    assert attc("db", "prune", "--older-than=10", "--db", path)[0] == (
        "removed: 1 of other versions of attc, 1 damaged, 1 that gain less than 1% or 50 ns, "
        "1 too old\n"
        "left: 2\nmeasurements removed: 0, left: 0\n"
        "rates removed: 0, left: 0\n")
    assert sorted(e["name"] for e in export(path)) == ["Y0", "Y2"]
    assert "\nleft: 2\n" in attc("db", "prune", "--db", path)[0]


# ---- where it is ---------------------------------------------------------------------------------


def run(*arguments, **environment):
    env = {name: value for name, value in os.environ.items()
           if name not in ("ATTC_DB", "XDG_DATA_HOME", "HOME")}
    return subprocess.run([ATTC, *map(str, arguments)], env=env | environment,
                          input=text_of(entry()), capture_output=True, text=True)


def test_places(tmp_path):
    home, xdg, own = (str(tmp_path / name) for name in ("home", "xdg", "own.db"))
    for environment, place in [
        ({"HOME": home}, "home/.local/share/attc/schedules.db"),
        ({"HOME": home, "XDG_DATA_HOME": "relative"}, "home/.local/share/attc/schedules.db"),
        ({"HOME": home, "XDG_DATA_HOME": xdg}, "xdg/attc/schedules.db"),
        ({"HOME": home, "XDG_DATA_HOME": xdg, "ATTC_DB": own}, "own.db"),
    ]:
        (tmp_path / place).unlink(missing_ok=True)
        assert run("db", "import", "-", **environment).returncode == 0
        assert (tmp_path / place).exists(), place
    given = tmp_path / "given.db"
    assert run("db", "import", "-", "--db", given, ATTC_DB=own).returncode == 0
    assert given.exists()
    assert "there is no home" in run("db", "list").stderr


@pytest.mark.parametrize("action", ["list", "show x", "export", "prune", "check"])
def test_what_is_not_there_is_not_made(action, tmp_path):
    none = tmp_path / "folder" / "none.db"
    _, err = attc("db", *action.split(), "--db", none, status=1)
    assert f"database {none} does not exist, or is empty" in err
    assert list(tmp_path.iterdir()) == []


def test_names_that_mean_something_to_sqlite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ":memory:", "file:x.db?mode=memory", "-":
        fill(name, entry())
        assert (tmp_path / name).exists()
        assert export(name) == [entry()]


def test_a_moved_database(path, tmp_path):
    fill(path, entry(0))
    moved = tmp_path / "elsewhere" / "other name.db"
    moved.parent.mkdir()
    path.rename(moved)
    fill(moved, entry(1))
    assert sorted(e["name"] for e in export(moved)) == ["Y0", "Y1"]
    assert not path.exists()


@pytest.fixture
def closed_folder():
    """A folder with a database in which the user of the tests cannot write; with what runs attc
    there."""
    folder = Path(tempfile.mkdtemp(prefix="attc-db-"))
    fill(folder / "x.db", entry(0))
    user = {"user": 65534, "cwd": "/"} if os.geteuid() == 0 else {}

    def limited(*arguments):
        return subprocess.run([ATTC, *map(str, arguments)], capture_output=True, text=True, **user)

    try:
        limited("--version")
    except OSError:
        pytest.skip("attc is not for everyone to run")
    (folder / "x.db").chmod(0o444)
    folder.chmod(0o555)
    yield folder, limited
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_folder_that_can_only_be_read(closed_folder):
    folder, limited = closed_folder
    path = folder / "x.db"
    before = path.read_bytes(), path.stat().st_mtime_ns
    for action in ["list"], ["export"], ["check"], ["show", "Y0"]:
        done = limited("db", *action, "--db", path)
        assert done.returncode == 0 and done.stderr == "", done
    text = folder.parent / f"{folder.name}.json"
    text.write_text(text_of(entry(1)))
    for action in ["import", text], ["merge", text], ["prune"]:
        done = limited("db", *action, "--db", path)
        assert done.returncode == 1
        assert f"database {path} cannot be written: it can only be read" in done.stderr
    done = limited("db", "import", text, "--db", folder / "new.db")
    assert done.returncode == 1
    assert f"{folder}/new.db cannot be made: its folder cannot be written: " in done.stderr
    text.unlink()
    assert before == (path.read_bytes(), path.stat().st_mtime_ns)
    assert os.listdir(folder) == ["x.db"]


def die_within_a_change(path):
    """A process that is killed with a part of a change in the file, and the journal beside it."""
    script = ("import os, sqlite3, sys\n"
              "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
              "database.execute('PRAGMA cache_size = 1')\n"
              "database.execute('BEGIN')\n"
              "database.execute('UPDATE schedules SET name = upper(hex(zeroblob(400)))')\n"
              "os.kill(os.getpid(), 9)\n")
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == -signal.SIGKILL
    assert path.with_name(f"{path.name}-journal").exists()


def test_who_reads_next_mends_what_was_cut_off(path):
    fill(path, *map(entry, range(40)))
    before = export(path)
    die_within_a_change(path)
    assert export(path) == before
    assert list(path.parent.iterdir()) == [path]


def test_what_was_cut_off_in_a_folder_that_can_only_be_read(closed_folder):
    folder, limited = closed_folder
    path = folder / "x.db"
    folder.chmod(0o755)
    path.chmod(0o644)
    fill(path, *map(entry, range(40)))
    before = export(path)
    die_within_a_change(path)
    folder.chmod(0o555)
    path.chmod(0o444)
    done = limited("db", "list", "--db", path)
    assert done.returncode == 1
    assert "was left in the middle of a change, and mending it wants leave to write" in done.stderr
    folder.chmod(0o755)
    path.chmod(0o644)
    assert export(path) == before


# ---- several processes, and their ends -----------------------------------------------------------


class Writer:
    """Imports entries one by one, and may be killed; each import has some, all or none of which
    are there afterwards."""

    EACH = 40

    def __init__(self, path, first):
        self.path, self.next, self.reported, self.begun = path, first, [], []

    def write(self, kill_after=None):
        numbers = range(self.next, self.next + self.EACH)
        self.next += self.EACH
        self.begun.append(numbers)
        with subprocess.Popen([ATTC, "db", "import", "-", "--db", self.path], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdin.write(text_of(*map(entry, numbers)))
            process.stdin.close()
            if kill_after is not None:
                time.sleep(kill_after)
                process.kill()
            out, err = process.stdout.read(), process.stderr.read()
        assert process.returncode in (0, -signal.SIGKILL), err
        if "imported" in out:
            self.reported.append(numbers)
        return process.returncode


def test_killed_writers_lose_nothing(path):
    """One process writes, another one is killed time and again; what they reported is there."""
    whole, killed = Writer(path, 0), Writer(path, 1 << 20)
    begin = time.time()
    Writer(path.parent / "other.db", 0).write()
    longest = 1.2 * (time.time() - begin)
    stop = threading.Event()

    def write_on():
        while not stop.is_set():
            whole.write()

    thread = threading.Thread(target=write_on)
    thread.start()
    deaths = 0
    delays = random.Random(7)
    try:
        while deaths < KILLS:
            deaths += killed.write(longest * delays.random()) != 0
            if deaths % 4 == 0:
                assert attc("db", "check", "--db", path)[1] == ""
    finally:
        stop.set()
        thread.join()
    assert attc("db", "check", "--db", path)[1] == ""
    there = {e["name"] for e in export(path)}
    assert whole.reported
    for writer in whole, killed:
        for numbers in writer.begun:
            some = sum(f"Y{n}" in there for n in numbers)
            assert some == Writer.EACH or (some == 0 and numbers not in writer.reported)
    print(f"{deaths} killed, {len(whole.reported)} and {len(killed.reported)} imports reported")


def test_a_disk_that_is_full(path):
    """Of a limit on the size of files, and of one that has no room for the journal either."""
    fill(path, *map(entry, range(40)))
    before = export(path)
    size = path.stat().st_size
    text = text_of(*map(entry, range(40, 400)))

    for limit in size + 4096, size, 512, 0:
        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = subprocess.run([ATTC, "db", "import", "-", "--db", path], input=text, text=True,
                              stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              preexec_fn=limit_files)
        assert done.returncode == 1, limit
        assert f"database {path} cannot be used: disk I/O error" in done.stderr
        assert attc("db", "check", "--db", path)[1] == ""
        assert export(path) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_writer_that_does_not_end_is_waited_for(path):
    """Not for ever, but for longer than writing takes."""
    fill(path, entry(0))
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    process = subprocess.Popen([ATTC, "db", "list", "--db", path], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    assert process.poll() is None
    database.execute("COMMIT")
    out, err = process.communicate()
    assert process.returncode == 0 and "Y0" in out and err == ""


def test_a_new_database_is_for_its_umask(path):
    before = os.umask(0o077)
    try:
        fill(path, entry(0))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
