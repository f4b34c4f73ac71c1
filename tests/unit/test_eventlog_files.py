"""The files of an event log: rotation, what a piece begins with, and reading all pieces as one."""

import json
import re

import pytest

from evenflow.errors import InvalidArgument
from evenflow.eventlog import reading, rotation, standing
from evenflow.eventlog.reading import LogReader, read_log
from evenflow.eventlog.rotation import PIECES, RotatingFile, numbers, piece
from evenflow.eventlog.standing import Standing
from evenflow.model.entries import entry_of
from evenflow.runtime.driver.eventlog import EventLog
from tests.support.records import record

SMALL = 8 * 4096


def tick(number):
    return record(float(number), "tick", {"number": number, "text": "x" * 100})


def write(log, first, last):
    for number in range(first, last):
        log.write(tick(number))


def ticks(entries):
    return [entry.fields["number"] for entry in entries if entry.event == "tick"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


@pytest.fixture
def log(path):
    made = EventLog(path, SMALL)
    yield made
    made.close()


def test_all_pieces_together_are_bounded(path, log):
    write(log, 0, 2000)
    assert numbers(path) == list(range(1, PIECES))
    sizes = [piece(path, number).stat().st_size for number in range(PIECES)]
    assert SMALL * 0.7 < sum(sizes) <= SMALL + PIECES * 300
    assert ticks(read_log(path)) == list(range(2000))[-len(ticks(read_log(path))) :]


def test_pieces_are_read_in_order_as_one_log(path, log):
    write(log, 0, 150)
    assert len(numbers(path)) > 3
    assert ticks(read_log(path)) == list(range(150))


def test_a_reader_follows_through_rotations(path, log):
    reader, found = LogReader(path), []
    for first in range(0, 1000, 7):
        write(log, first, first + 7)
        found += ticks(reader.entries())
    assert found == list(range(1001))[: len(found)]
    assert len(found) == 1001
    assert not list(reader.entries())


def test_a_reader_that_is_too_slow_goes_on_with_what_there_is(path, log):
    log.write(record(0.0, "worker-joined", {"worker": 3, "incarnation": 1}))
    reader = LogReader(path)
    assert [entry.event for entry in reader.entries()] == ["worker-joined"]
    write(log, 0, 2000)
    later = list(reader.entries())
    assert later[0].event == "worker-joined"  # it holds, so it is told again
    assert ticks(later)[0] > 0
    assert ticks(later)[-1] == 1999


@pytest.mark.parametrize("moment", range(PIECES + 1))
def test_a_rotation_while_pieces_are_opened(path, log, monkeypatch, moment):
    """However many pieces are open already, none is passed by and none is read twice."""
    write(log, 0, 80)
    calls = iter(range(100))
    plain = rotation.piece

    def rotating(of, number):
        if next(calls) == moment:
            monkeypatch.setattr(reading, "piece", plain)
            write(log, 80, 130)
        return plain(of, number)

    monkeypatch.setattr(reading, "piece", rotating)
    found = ticks(read_log(path))
    assert found[:80] == list(range(80))
    assert found == list(range(len(found)))


def test_a_name_that_is_missing_in_the_middle_of_a_rotation(path, log):
    write(log, 0, 150)
    piece(path, 2).rename(piece(path, 7))  # as between two renames
    assert ticks(read_log(path))[-1] == 149
    path.unlink()
    assert read_log(path)


def test_half_a_line_at_the_end_is_left(path, log):
    write(log, 0, 3)
    whole = path.read_bytes()
    reader = LogReader(path)
    path.write_bytes(whole[:-20])
    assert ticks(reader.entries()) == [0, 1]
    path.write_bytes(whole)
    assert ticks(reader.entries()) == [2]


def test_a_broken_line_in_the_middle_is_named(path, log):
    write(log, 0, 60)
    older = piece(path, 1)
    lines = older.read_bytes().splitlines(keepends=True)
    older.write_bytes(b"".join([*lines[:4], b'{"time": 1, "ev\n', *lines[5:]]))
    with pytest.raises(InvalidArgument, match=r"line 5 of .*events\.jsonl\.1 is no entry of an event log"):
        read_log(path)


@pytest.mark.parametrize(
    "line",
    [b"5\n", b'{"event": "x"}\n', b'{"time": "1", "event": "x"}\n', b'\xff{"time": 1}\n', b"[" * 99_999 + b"\n"],
    ids=lambda line: str(line[:20]),
)
def test_what_is_no_entry(path, line):
    path.write_bytes(b'{"time": 0, "event": "a"}\n' + line)
    with pytest.raises(InvalidArgument, match=re.escape(f"line 2 of {path} is no entry")):
        read_log(path)


def test_who_follows_a_log_steps_over_broken_lines(path, log):
    write(log, 0, 2)
    broken = []
    reader = LogReader(path, broken.append)
    assert ticks(reader.entries()) == [0, 1]
    with path.open("ab") as file:
        file.write(b'{"time": 1, "ev\n{"time": 2, "event": []}\n')
    write(log, 2, 4)
    assert ticks(reader.entries()) == [2, 3]
    assert ["line 3 of" in str(broken[0]), "line 4 of" in str(broken[1]), len(broken)] == [True, True, 2]
    assert not list(reader.entries())


def test_who_follows_a_log_waits_while_it_is_not_there(path, log, monkeypatch):
    write(log, 0, 2)
    reader = LogReader(path, lambda _error: None)
    assert ticks(reader.entries()) == [0, 1]
    whole = path.read_bytes()
    path.unlink()
    assert not list(reader.entries())
    path.write_bytes(whole)
    with monkeypatch.context() as patch:
        patch.setattr(reading, "numbers", lambda _path: open("/"))  # noqa: SIM115 - an error of the operating system
        assert not list(reader.entries())
    with path.open("ab") as file:
        file.write(b'{"time": 2, "event": "tick", "number": 2}\n')
    assert ticks(reader.entries()) == [2]


def test_a_log_written_anew_is_read_from_its_beginning(path):
    head = b'{"time": 0, "event": "region-opened", "text": "%s"}\n' % (b"x" * 300)
    reader = LogReader(path)
    path.write_bytes(head + b'{"time": 1, "event": "tick", "number": 1}\n')
    assert ticks(reader.entries()) == [1]
    path.write_bytes(head + b"".join(b'{"time": 10, "event": "tick", "number": %d}\n' % each for each in range(5, 9)))
    assert ticks(reader.entries()) == [5, 6, 7, 8]


@pytest.mark.parametrize("held", ["", ', "standing": 5', ', "standing": [5, {}, {"event": 1, "time": 2}]'])
def test_a_damaged_head_tells_nothing(path, held):
    path.write_text(f'{{"time": 0, "event": "log-continued"{held}}}\n{{"time": 5, "event": "tick", "number": 5}}\n')
    assert [entry.event for entry in read_log(path)] == ["tick"]


def test_no_log(path):
    with pytest.raises(InvalidArgument, match="there is no event log"):
        read_log(path)
    path.mkdir()
    with pytest.raises(InvalidArgument, match="cannot read the event log"):
        read_log(path)


def test_half_a_line_of_a_killed_driver_is_cut_off(path):
    path.write_text('{"time": 5.0, "event": "tick", "number": 5}\n{"time": 6.0, "ev')
    log = EventLog(path)
    log.write(tick(7))
    log.close()
    assert ticks(read_log(path)) == [5, 7]


@pytest.mark.parametrize("whole", ['{"time": 5.0, "event": "tick", "number": 5}\n', ""])
def test_half_a_line_is_cut_off_however_long_it_is(path, whole, monkeypatch):
    monkeypatch.setattr(rotation, "LAST_LINE", 16)
    path.write_text(whole + '{"time": 6.0, "event": "tick", "text": "' + "x" * 100)
    log = EventLog(path)
    log.write(tick(7))
    log.close()
    assert ticks(read_log(path)) == [5, 7][-1 - bool(whole) :]


@pytest.mark.parametrize("first", [record(0.0, "cluster-started", {}), record(0.0, "tick", {"number": 0})])
def test_of_several_runs_the_last_counts(path, first):
    for run in range(2):
        log = EventLog(path, SMALL)
        log.write(first)
        write(log, 2 * run, 60)
        log.close()
    assert ticks(read_log(path))[-58:] == list(range(2, 60))
    assert len(ticks(read_log(path))) < 60


def test_what_a_piece_begins_with(path, log):
    log.write(record(0.0, "cluster-started", {"workers": 2}))
    for worker in range(2):
        log.write(record(0.1, "worker-joined", {"worker": worker, "incarnation": 1}))
    log.write(record(0.2, "region-opened", {"region": "r", "units": 3}))
    log.write(record(0.2, "unit-owners", {"region": "r", "version": 0, "even": [0, 1]}))
    log.write(record(0.3, "unit-owners", {"region": "r", "version": 1, "units": [2], "owners": [1]}))
    log.write(record(0.4, "worker-joined", {"worker": 1, "incarnation": 2}))
    write(log, 1, 40)
    head = json.loads(path.read_text().splitlines()[0])
    assert head["event"] == "log-continued"
    kinds = [entry["event"] for entry in head["standing"]]
    assert kinds == ["cluster-started", "worker-joined", "region-opened", "unit-owners", "worker-joined"]
    told = {"time": 0.3, "event": "unit-owners", "region": "r", "version": 1, "owners": [0, 1, 1]}
    assert head["standing"][3] == told | {"at": head["standing"][3]["at"]}
    assert head["standing"][4]["incarnation"] == 2
    for number in numbers(path):
        piece(path, number).unlink()
    alone = read_log(path)
    assert [entry.event for entry in alone[:6]] == [*kinds, "tick"]
    assert head["standing"][0]["workers"] == 2


def add(held, told):
    held.add(entry_of({"time": 0.0, "at": 0.0, **told}))


def kept(held):
    """What holds, without what is alike in all of these entries."""
    alike = {"time", "at", "version"}
    return [{name: told[name] for name in told.keys() - alike} for told in held.entry(1.0, 1.0).standing]


def test_what_holds_is_bounded(monkeypatch):
    monkeypatch.setattr(standing, "MOST", 3)
    held = Standing()
    for number in range(10):
        add(held, {"event": "region-opened", "region": str(number)})
    assert [entry["region"] for entry in kept(held)] == ["7", "8", "9"]


def test_a_region_in_use_and_what_is_of_none_outlast_many_regions(monkeypatch):
    monkeypatch.setattr(standing, "MOST", 12)
    held = Standing()
    add(held, {"event": "cluster-started"})
    add(held, {"event": "worker-joined", "worker": 0, "incarnation": 1})
    add(held, {"event": "region-opened", "region": "long", "units": 4})
    add(held, {"event": "unit-owners", "region": "long", "even": [0, 1]})
    for number in range(20):
        add(held, {"event": "region-opened", "region": f"short-{number}", "units": 4})
        add(held, {"event": "unit-owners", "region": f"short-{number}", "even": [0, 1]})
        add(held, {"event": "unit-owners", "region": "long", "units": [number % 4], "owners": [7]})
    found = kept(held)
    assert [entry["event"] for entry in found[:3]] == ["cluster-started", "worker-joined", "region-opened"]
    assert found[2]["region"] == "long"
    assert found[-1] == {"event": "unit-owners", "region": "long", "owners": [7] * 4}
    assert len(found) == 12


@pytest.mark.parametrize(
    "entry",
    [
        {"units": [3], "owners": [1]},
        {"units": [9], "owners": [1]},
        {"units": [0, 1], "owners": [1]},
        {"units": [-1], "owners": [1]},
    ],
)
def test_a_change_of_a_table_that_is_not_known_stays_as_it_is(entry):
    held = Standing()
    entry |= {"event": "unit-owners", "region": "r"}
    for known in ({}, {"even": []}, {"even": [0, 1]}, {"owners": [0, 1]}, {"units": [0], "owners": [1]}):
        add(held, {"event": "unit-owners", "region": "r", **known})
        add(held, entry)
        add(held, entry)
        assert kept(held) == [entry]


def test_a_long_head_does_not_fill_a_piece(path):
    file = RotatingFile(path, 800, lambda: b"h" * 5000 + b"\n")
    for number in range(20):
        file.write(b"%02d" % number * 20 + b"\n")
    file.close()
    assert path.read_bytes().count(b"\n") == 3  # the head and two lines of 41 bytes


def test_more_pieces_than_there_may_be_are_deleted(path, log):
    for number in (PIECES, 30):
        piece(path, number).write_text("{}\n")
    write(log, 0, 40)
    assert numbers(path) == [1]
    rotation.delete(path)
    assert not list(path.parent.iterdir())


def test_what_is_no_file_is_not_rotated():
    file = RotatingFile(rotation.Path("/dev/null"), 8, lambda: b"")
    for _ in range(10):
        file.write(b"0123456789\n")
    file.close()
    assert rotation.Path("/dev/null").is_char_device()
