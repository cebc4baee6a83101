# SPDX-License-Identifier: Apache-2.0
"""Databases and texts of schedules that are damaged, or none: each is told of, nothing crashes, and
what is sound is still of use."""

import json
import sqlite3
import struct

import pytest

from attc import attc
from schedules import CONTRACT, HEAD, STREAM, entry, text_of

PAGE = 4096
N_ENTRIES = 40
DAMAGED = "is damaged: "
NO_DATABASE = "is no database of schedules, or its beginning is damaged"


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    """The bytes of a sound database of several pages."""
    path = tmp_path_factory.mktemp("sound") / "x.db"
    attc("db", "import", "-", "--db", path, stdin=text_of(*map(entry, range(N_ENTRIES))))
    database = path.read_bytes()
    assert len(database) >= 6 * PAGE
    return database


# ---- ways to damage one --------------------------------------------------------------------------


def at(offset, data):
    """Other bytes there; an offset from the end is negative."""
    def damage(path, whole):
        begin = offset % len(whole)
        path.write_bytes(whole[:begin] + data + whole[begin + len(data):])
    return damage


def number(offset, value):
    return at(offset, struct.pack(">I", value))


def page(which, byte):
    """All bytes of a page, from 1."""
    return at((which - 1) * PAGE, bytes([byte]) * PAGE)


def cut(length):
    return lambda path, whole: path.write_bytes(whole[:length])


def instead(data):
    return lambda path, whole: path.write_bytes(data)


def replace(old, new):
    def damage(path, whole):
        assert old in whole and len(old) == len(new)
        path.write_bytes(whole.replace(old, new, 1))
    return damage


def run_sql(*statements):
    def damage(path, whole):
        path.write_bytes(whole)
        database = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            database.execute(statement)
        database.close()
    return damage


def swap_pages(path, whole):
    pages = [whole[i:i + PAGE] for i in range(0, len(whole), PAGE)]
    pages[3], pages[4] = pages[4], pages[3]
    path.write_bytes(b"".join(pages))


def foreign(path, whole):
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE schedules (a, b)")
    database.close()


def folder(path, whole):
    path.mkdir()


CHECKSUM = "has a damaged entry, number 1: its checksum is another"
TYPE = "has a damaged entry, number 1: a column has a value of another type"
LAYOUT = "is damaged: its table of schedules is another"
# Name, damage, what `check` tells.
DATABASES = [
    ("empty", instead(b""), "does not exist, or is empty"),
    *((f"{n} bytes", cut(n), NO_DATABASE) for n in (1, 2, 15)),
    ("zeros", instead(bytes(3 * PAGE)), NO_DATABASE),
    ("noise", instead(bytes(i * i % 251 for i in range(3 * PAGE))), NO_DATABASE),
    ("a text", instead(text_of(entry(0)).encode()), NO_DATABASE),
    ("a folder", folder, "is a folder, and no database of schedules"),
    ("cut in its header", cut(60), DAMAGED),
    ("cut in its first page", cut(1000), DAMAGED),
    ("cut after its first page", cut(PAGE), DAMAGED),
    ("cut in the middle", cut(3 * PAGE + 5), DAMAGED),
    ("without its last page", cut(-PAGE), DAMAGED),
    ("another magic", at(0, b"X"), NO_DATABASE),
    ("page size 0", at(16, b"\0\0"), NO_DATABASE),
    ("page size 3", at(16, b"\0\3"), NO_DATABASE),
    ("page size 512", at(16, b"\2\0"), DAMAGED),
    ("a later read version", at(19, b"\x09"), NO_DATABASE),
    ("a later schema format", number(44, 99), "cannot be used: unsupported file format"),
    ("another encoding", number(56, 2), DAMAGED),
    ("another application", number(68, 7), "is an SQLite database, but none of schedules"),
    ("a later form", number(60, 9), "is a database of schedules in form 9; this attc reads"),
    ("a free list of nothing", number(36, 5), DAMAGED),
    ("another program's", foreign, "is an SQLite database, but none of schedules"),
    ("no table", run_sql("DROP TABLE schedules"), LAYOUT),
    ("another table", run_sql("ALTER TABLE schedules ADD COLUMN more"), LAYOUT),
    ("a trigger", run_sql("CREATE TRIGGER t AFTER INSERT ON schedules BEGIN SELECT 1; END"),
     "is damaged: there is more in it than tables"),
    ("no table of rates", run_sql("DROP TABLE rates"), "is damaged: its table of rates is another"),
    ("a broken schema", replace(b"CREATE TABLE schedules", b"CREATE TABLE schedule "), DAMAGED),
    *((f"page {n} of zeros", page(n, 0), DAMAGED) for n in (2, 3, 4)),
    *((f"page {n} of ones", page(n, 255), DAMAGED) for n in (2, 3, 4)),
    ("two pages swapped", swap_pages, DAMAGED),
    ("no index", run_sql("PRAGMA writable_schema = ON",
                         "DELETE FROM sqlite_schema WHERE type = 'index'"), DAMAGED),
    ("a row that is not in the index", replace(b'Some "CPU"', b'Same "CPU"'),
     "missing from index sqlite_autoindex_schedules_1"),
    ("another letter of a name", replace(b"Y7", b"Z7"), "its checksum is another"),
    ("another digit of a schedule", replace(b'"piece": 512', b'"piece": 256'),
     "its checksum is another"),
    ("another time", run_sql("UPDATE schedules SET seconds = 1e-9 WHERE id = 1"), CHECKSUM),
    ("another date", run_sql("UPDATE schedules SET date = '' WHERE id = 1"), CHECKSUM),
    ("a time that is a text", run_sql("UPDATE schedules SET seconds = 'x' WHERE id = 1"), TYPE),
    ("a name that is a blob", run_sql("UPDATE schedules SET name = x'00' WHERE id = 1"), TYPE),
    ("a schedule that is huge", run_sql(
        "UPDATE schedules SET schedule = hex(zeroblob(3000000)) WHERE id = 1"), DAMAGED),
]


@pytest.mark.parametrize("damage, message", [case[1:] for case in DATABASES],
                         ids=[case[0].replace(" ", "-") for case in DATABASES])
def test_a_damaged_database(damage, message, sound, tmp_path):
    path = tmp_path / "x.db"
    damage(path, sound)
    before = path.read_bytes() if path.is_file() else None
    out, err = attc("db", "check", "--db", path, status=1)
    assert out == "" and f"database {path} " in err and message in err
    for action in ["list"], ["show", "Y1"], ["export"]:
        told = attempt("db", *action, "--db", path)
        assert told == "" or f"database {path} " in told or f"entries in {path}" in told
    assert before is None or path.read_bytes() == before
    told = attempt("db", "merge", path, "--db", tmp_path / "other.db")
    assert told == "" or str(path) in told
    attempt("db", "import", "-", "--db", path, stdin=text_of(entry(99)))
    attempt("db", "prune", "--db", path)


def attempt(*arguments, stdin=None):
    """Runs attc, which may end with a problem that it tells of; what it tells."""
    try:
        return attc(*arguments, stdin=stdin)[1]
    except AssertionError as error:
        assert ": status 1\n" in str(error) and "error: " in str(error), error
        return str(error)


def test_there_are_thirty_of_each():
    assert len(DATABASES) >= 30 and len(TEXTS) >= 30


def test_any_byte_may_be_another(sound, tmp_path):
    """What is read of a database with a byte changed is what was put, or is told of."""
    path = tmp_path / "x.db"
    put = {line for line in text_of(*map(entry, range(N_ENTRIES))).splitlines()}
    for offset in [*range(16, 100, 7), *range(100, len(sound), 1499)]:
        at(offset, bytes([sound[offset] ^ 0x55]))(path, sound)
        try:
            out, err = attc("db", "export", "--db", path)
        except AssertionError as error:
            assert ": status 1\n" in str(error) and f"database {path} " in str(error), error
            continue
        lines = {json.dumps(json.loads(line), ensure_ascii=False) for line in out.splitlines()}
        assert lines <= put
        assert lines == put or f"entries in {path}" in err or attempt("db", "check", "--db", path)


def test_sound_entries_beside_damaged_ones(sound, tmp_path):
    path = tmp_path / "x.db"
    run_sql("UPDATE schedules SET seconds = 1e-9 WHERE id < 4")(path, sound)
    out, err = attc("db", "list", "--db", path)
    assert len(out.splitlines()) == 1 + N_ENTRIES - 3
    assert f"damaged entries in {path}: 3" in err and "attc db prune removes them" in err
    out, _ = attc("db", "prune", "--db", path)
    assert ", 3 damaged," in out and f"\nleft: {N_ENTRIES - 3}\n" in out
    assert attc("db", "check", "--db", path)[0].startswith(f"entries: {N_ENTRIES - 3},")


def test_an_index_is_made_anew(sound, tmp_path):
    path = tmp_path / "x.db"
    replace(b'Some "CPU"', b'Same "CPU"')(path, sound)
    damaged = path.read_bytes()
    for action in ["check"], ["import", "-"], ["merge", "-"]:  # nothing is written into it
        err = attc("db", *action, "--db", path, status=1, stdin=text_of(entry(99)))[1]
        assert "missing from index" in err and path.read_bytes() == damaged
    attc("db", "prune", "--db", path)
    assert attc("db", "check", "--db", path)[0].startswith(f"entries: {N_ENTRIES},")


def test_rows_of_one_key_are_told_of(sound, tmp_path):
    """An index of what may be there once cannot be made anew where it is there twice."""
    path = tmp_path / "x.db"
    groups = [entry(i)["group"].encode() for i in (1, 2)]
    path.write_bytes(sound.replace(*groups))
    err = attc("db", "prune", "--db", path, status=1)[1]
    assert f"database {path} is damaged: UNIQUE constraint failed: schedules.group_id" in err


def test_nothing_is_searched_that_cannot_be_kept(sound, tmp_path):
    """Of most pages nothing is read before the first entry is put."""
    path = tmp_path / "x.db"
    source = tmp_path / "sum.attn"
    source.write_text("def Sum(X[n]):\n    Y[] = sum(X[n], reduced_dim=n)\n    return Y[]\n")
    command = ["tune", source, "--entry", "Sum", "-D", "n=64", "--effort", "quick", "--db", path]
    for number in range(2, len(sound) // PAGE + 1):
        page(number, 255)(path, sound)
        damaged = path.read_bytes()
        out, err = attc(*command, status=1)
        assert out == "" and f"database {path} is damaged: Page {number}: " in err
        assert path.read_bytes() == damaged


# ---- texts ---------------------------------------------------------------------------------------


def without(key):
    return {name: value for name, value in entry(1).items() if name != key}


def head(**changes):
    return text_of(entry(1), head=HEAD | changes)


def schedule(**changes):
    return text_of(entry(1, schedule=STREAM | changes))


SECOND = json.dumps(entry(1))
# Text, line and message.
TEXTS = [
    ("", 1, "the line is empty"),
    ("\n", 1, "the line is empty"),
    ("schedules\n", 1, "column 9: '[' or '{' expected"),
    ("[]\n", 1, "expected an object"),
    ("{}\n", 1, "this is no text of schedules, which begins with {\"attc_schedules\": 1, "),
    (text_of(head=entry(1)), 1, "this is no text of schedules"),
    (head(more=1), 1, "this is no text of schedules"),
    (head(attc_schedules="1"), 1, "this is no text of schedules"),
    (head(attc_schedules=2), 1, "the text is in form 2; this attc reads form 1"),
    (head(schedule_version=7), 1, "the schedules are of version 7; this attc has version 4"),
    (text_of() + text_of(), 2, "this is the first line of another text: leave it out"),
    (text_of() + "\n", 2, "the line is empty"),
    (text_of() + SECOND[:-1], 2, "'}' expected"),
    (text_of() + SECOND[:40], 2, "column 40: unexpected token near end of file"),
    (text_of() + SECOND + " {}\n", 2, "end of file expected"),
    (text_of() + SECOND.replace('"threads": 2', '"threads": 2, "threads": 2'), 2,
     "duplicate object key"),
    (text_of() + "\x00\n", 2, "column 1: '[' or '{' expected"),
    (text_of() + SECOND + "\x00\n", 2, "end of file expected"),
    (text_of(entry(0), [entry(1)]), 3, "expected an object"),
    *((text_of(entry(0), without(key)), 3, f'"{key}" is missing') for key in entry(1)),
    (text_of(entry(1) | {"note": 1}), 2, 'there is no key "note"'),
    (text_of(entry(1, group=7)), 2, '"group" has to be a text'),
    (text_of(entry(1, group="12")), 2, "group: expected 16 hexadecimal digits"),
    (text_of(entry(1, group="00112233445566FF")), 2, "group: expected 16 hexadecimal digits"),
    *((text_of(entry(1, extents=extents)), 2, "extents: expected numbers such as")
      for extents in ("a", " ", "1  2", "1 ", "01", "~", "-1", "~~2", "12345678901234")),
    (text_of(entry(1, target="")), 2, "target: expected a text of one line, of 1 to 1000 bytes"),
    (text_of(entry(1, machine="a\nb")), 2, "machine: expected a text of one line"),
    (text_of(entry(1, name="x" * 1001)), 2, "name: expected a text of one line"),
    (text_of(entry(1, threads=1.5)), 2, '"threads" has to be a whole number'),
    (text_of(entry(1, threads=0)), 2, "threads: expected a whole number from 1 to 4096"),
    (text_of(entry(1, threads=2**40)), 2, "threads: expected a whole number from 1 to 4096"),
    (text_of(entry(1, schedule="stream")), 2, "schedule: "),
    (text_of(entry(1, schedule=None)), 2, "schedule: '[' or '{' expected"),
    (text_of(entry(1, schedule=[])), 2, "schedule: expected an object"),
    (schedule(plan="magic"), 2,
     'schedule: "plan" has to be resident or stream or two-pass or spill'),
    (schedule(rows=0), 2, 'schedule: "rows" has to be a whole number from 1 to 1099511627776'),
    (schedule(more=0), 2, 'schedule: there is no key "more" in it'),
    (schedule(blocks=[1]), 2,
     'schedule: block 1: expected an object with the keys "rows", "cols", "lanes" and "sum"'),
    *((text_of(entry(1, schedule={k: v for k, v in CONTRACT.items() if k != key})), 2,
       f'schedule: "{key}" is missing') for key in ("transposed", "block_k", "pack_b")),
    (text_of(entry(1, seconds="0.1")), 2, '"seconds" has to be a number'),
    (text_of(entry(1, seconds=0)), 2, "seconds: expected a number above 0"),
    (text_of(entry(1, default_seconds=-1.0)), 2, "default_seconds: expected a number above 0"),
    (text_of(entry(1)).replace("0.000123", "1e999"), 2, "real number overflow"),
    (text_of(entry(1)).replace("0.000123", "NaN"), 2, "invalid token"),
    (text_of(entry(1, confidence=1.01)), 2, "confidence: expected a number from 0 to 1"),
    (text_of(entry(1, date="yesterday")), 2, "date: expected such as"),
    (text_of(entry(1, date="2026-11-24T19:00:00Z ")), 2, "date: expected such as"),
    (text_of(entry(1, date="2026-02-30T19:00:00Z")), 2, "date: expected such as"),
    (text_of(entry(1, date="2026-11-24T25:00:00Z")), 2, "date: expected such as"),
    (text_of(entry(1), entry(0), entry(1)), 4, "the entry of line 2 has the same key"),
]


@pytest.mark.parametrize("text, line, message", TEXTS)
def test_a_damaged_text(text, line, message, tmp_path):
    path, database = tmp_path / "x.json", tmp_path / "x.db"
    path.write_text(text)
    out, err = attc("db", "import", path, "--db", database, status=1)
    assert out == "" and f"{path}:{line}: " in err and message in err
    assert not database.exists()


def test_a_text_that_is_no_utf8(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(text_of(entry(1)).encode().replace(b"Some", b"S\xffme"))
    _, err = attc("db", "import", path, "--db", tmp_path / "x.db", status=1)
    assert f"{path}:2: " in err and "unable to decode byte 0xff" in err


def test_files_that_are_not_there(tmp_path):
    for action in "import", "merge":
        _, err = attc("db", action, tmp_path / "none", "--db", tmp_path / "x.db", status=1)
        assert "none': No such file or directory" in err
        _, err = attc("db", action, tmp_path, "--db", tmp_path / "x.db", status=1)
        assert str(tmp_path) in err
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_made():
    path = "/proc/attc/x.db"
    _, err = attc("db", "import", "-", "--db", path, stdin=text_of(entry(0)), status=1)
    assert f"database {path} cannot be made: no folder /proc/attc: " in err
