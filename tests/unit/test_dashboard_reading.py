"""Reading event logs for the live page: whole, growing, cut short, rotated."""

import json

import pytest

from evenflow.dashboard import reading
from evenflow.dashboard.reading import LogReader, entry_of, files_of
from evenflow.errors import InvalidArgument
from tests.support import event_logs as logs


def numbered(first, last):
    return [logs.entry(float(number), "tick", number=number) for number in range(first, last)]


def numbers(reader):
    return [entry["number"] for entry in reader.entries()]


@pytest.fixture
def log(tmp_path):
    return logs.write(tmp_path / "events.jsonl", numbered(0, 3))


def test_a_log_is_read_once_and_then_what_is_new(log):
    reader = LogReader(log)
    assert numbers(reader) == [0, 1, 2]
    assert numbers(reader) == []
    logs.write(log, numbered(3, 5))
    assert numbers(reader) == [3, 4]
    reader.close()


def test_half_a_line_waits_for_its_rest(log):
    reader = LogReader(log)
    line = json.dumps(numbered(3, 4)[0]).encode()
    with log.open("ab") as file:
        file.write(line[:20])
        file.flush()
        assert numbers(reader) == [0, 1, 2]
        file.write(line[20:] + b"\n")
    assert numbers(reader) == [3]
    reader.close()


def test_what_is_no_entry_is_passed_over(log):
    with log.open("ab") as file:
        file.write(b'\xff\xfe\n[1]\n{"event": "x"}\n{"event": 1, "time": 0, "at": 0}\n\n')
    logs.write(log, numbered(3, 4))
    reader = LogReader(log)
    assert numbers(reader) == [0, 1, 2, 3]
    assert reader.skipped == 4
    reader.close()


def test_rotated_files_come_oldest_first(tmp_path):
    path = tmp_path / "events.jsonl"
    for number, name in enumerate(["events.jsonl.10", "events.jsonl.2", "events.jsonl.1", "events.jsonl"]):
        logs.write(tmp_path / name, numbered(number, number + 1))
    (tmp_path / "events.jsonl.bak").write_text("not ours")
    assert [each.name.removeprefix("events.jsonl") for each in files_of(path)] == [".10", ".2", ".1", ""]
    reader = LogReader(path)
    assert numbers(reader) == [0, 1, 2, 3]
    reader.close()


@pytest.mark.parametrize("rotations", [1, 2])
def test_a_log_that_is_rotated_while_it_is_followed_loses_nothing(log, rotations):
    reader = LogReader(log)
    assert numbers(reader) == [0, 1, 2]
    logs.write(log, numbered(3, 4))  # not read before the rotation
    for turn in range(rotations):
        for number in range(turn, 0, -1):
            log.with_name(f"events.jsonl.{number}").rename(log.with_name(f"events.jsonl.{number + 1}"))
        log.rename(log.with_name("events.jsonl.1"))
        logs.write(log, numbered(4 + turn, 5 + turn))
    assert numbers(reader) == list(range(3, 4 + rotations))
    reader.close()


def test_a_log_that_is_emptied_is_read_from_its_beginning(log):
    reader = LogReader(log)
    assert numbers(reader) == [0, 1, 2]
    log.write_text("")
    logs.write(log, numbered(7, 8))
    assert numbers(reader) == [7]
    reader.close()


def test_a_line_without_end_takes_no_memory_without_end(log, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 1000)
    monkeypatch.setattr(reading, "CHUNK", 100)
    with log.open("ab") as file:
        file.write(b"x" * 5000 + b"\n")
    logs.write(log, numbered(3, 4))
    reader = LogReader(log)
    assert numbers(reader) == [0, 1, 2, 3]
    assert reader.skipped
    reader.close()


def test_what_is_no_log_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="there is no event log"):
        LogReader(tmp_path / "nothing.jsonl")
    with pytest.raises(InvalidArgument, match="is a directory"):
        LogReader(tmp_path)


def test_an_entry_needs_its_times():
    assert entry_of(b'{"event": "x", "time": 1, "at": 2.5}') == {"event": "x", "time": 1, "at": 2.5}
    assert entry_of(b'{"event": "x", "time": "1", "at": 2}') is None
