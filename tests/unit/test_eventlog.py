"""The event log."""

import json
import time

import pytest

from evenflow.runtime.driver import eventlog
from evenflow.runtime.driver.eventlog import EventLog, Quota
from tests.support.records import fields_of, record

ENTRY = record(1.23456789, "weights", {"region": "r", "weights": {"0": 1000}, "reason": "ünïcode \n \u2028 line"})


@pytest.fixture
def frozen(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1700000000.12345)


def test_entry(frozen):
    log = EventLog(None)
    log.write(ENTRY)
    assert log.tail() == [{"time": 1.234568, "at": 1700000000.123, "event": "weights", **fields_of(ENTRY)}]
    log.close()


def test_one_json_object_a_line(tmp_path, frozen):
    path = tmp_path / "deep" / "er" / "events.jsonl"
    log = EventLog(path)
    log.write(ENTRY)
    assert len(path.read_text().splitlines()) == 1  # there at once, for whoever watches the file
    log.write(record(2.0, "tick", {}))
    log.close()
    log.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == log.tail()


def test_appends(tmp_path):
    path = tmp_path / "events.jsonl"
    for number in range(2):
        log = EventLog(str(path))
        log.write(record(float(number), "tick", {}))
        log.close()
    assert [json.loads(line)["time"] for line in path.read_text().splitlines()] == [0.0, 1.0]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(eventlog, "KEPT", 3)
    log = EventLog(None)
    for number in range(10):
        log.write(record(float(number), "tick", {}))
    assert [entry["time"] for entry in log.tail()] == [7.0, 8.0, 9.0]


def test_after_close_the_tail_goes_on(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log.close()
    log.write(record(1.0, "late", {}))
    assert [entry["event"] for entry in log.tail()] == ["late"]


def test_values_json_does_not_know_are_written_as_text(tmp_path):
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.write(record(1.0, "odd", {"detail": {"set": {1}, "complex": 1j}}))
    log.close()
    assert json.loads(path.read_text())["detail"] == {"set": "{1}", "complex": "1j"}


def test_a_full_disk_costs_the_log_and_not_the_cluster():
    log = EventLog("/dev/full")
    for number in range(3):
        log.write(record(float(number), "tick", {}))
    log.close()
    assert [entry["event"] for entry in log.tail()] == ["tick", "event-log-lost", "tick", "tick"]
    assert "No space left" in log.tail()[1]["reason"]


def test_no_kind_of_entries_takes_from_the_quota_of_another():
    quota = Quota(most=2, per_s=60.0)
    assert quota.left_out(0.0) == {}
    assert [quota.admits("stranger-refused") for _ in range(5)] == [True, True, False, False, False]
    assert [quota.admits("feeder-failed") for _ in range(3)] == [True, True, False]
    assert quota.admits("peer-refused")
    assert quota.left_out(59.0) == {}, "the period is not over"
    assert quota.left_out(60.0) == {"stranger-refused": 3, "feeder-failed": 1}
    assert quota.admits("feeder-failed"), "counting begins anew"
    assert quota.left_out(61.0, closing=True) == {}
