"""What a cluster says of its live page, and what its event log says for it."""

import numpy as np
import pytest

from evenflow.control.events import Record
from evenflow.control.owners import OwnersLog
from evenflow.errors import InvalidArgument
from evenflow.model import RoutingTable
from evenflow.runtime.cluster.dashboard import page_asked, shown_as_html
from evenflow.runtime.cluster.executors import TRIES, Executors
from evenflow.runtime.driver import eventlog
from evenflow.runtime.driver.eventlog import EventLog


@pytest.mark.parametrize("given", [True, False, "127.0.0.1:8899", "0.0.0.0:0", "[::1]:80"])
def test_what_may_be_asked_for(given):
    assert page_asked(given) == given


@pytest.mark.parametrize("given", [1, None, "8899", "localhost", "host:port", b"x:1"])
def test_what_may_not(given):
    with pytest.raises(InvalidArgument, match="give True, or an address"):
        page_asked(given)


def test_a_token_needs_a_page():
    with pytest.raises(InvalidArgument, match="dashboard_token is given, but no dashboard"):
        page_asked(False, "a token for readers")
    assert page_asked(True, "a token for readers") is True


def test_names_in_a_notebook_are_texts():
    shown = shown_as_html("<script>", {"<b>": '"><img>'}, 'http://x/?token="a"')
    assert "<script>" not in shown
    assert "<img>" not in shown
    assert 'href="http://x/?token=&quot;a&quot;"' in shown


def owners(log, table, live=(0, 1)):
    return [record.fields for record in log.note(1.0, table, live)]


def test_owners_are_written_when_they_change():
    log, table = OwnersLog("r"), RoutingTable.even(4, [0, 1])
    assert owners(log, table, live=()) == []
    assert owners(log, table) == [{"region": "r", "version": 0, "even": [0, 1]}]
    assert owners(log, table) == []
    table = table.moved([2, 0], 1)
    assert owners(log, table) == [{"region": "r", "version": 1, "units": [0, 2], "owners": [1, 1]}]
    assert owners(log, RoutingTable(2, table.owners)) == []  # another version with the same owners


def test_owners_that_are_not_in_turn_are_written_whole():
    table = RoutingTable(3, np.array([1, 1, 0], np.int32))
    assert owners(OwnersLog("r"), table) == [{"region": "r", "version": 3, "owners": [1, 1, 0]}]


def test_the_event_log_gives_each_entry_once(monkeypatch):
    monkeypatch.setattr(eventlog, "KEPT", 3)
    log = EventLog(None)
    log.write(Record(0.0, "a", {}))
    first, number = log.since(0)
    assert [entry["event"] for entry in first] == ["a"]
    assert log.since(number) == ([], 1)
    for name in "bcdef":
        log.write(Record(0.0, name, {}))
    kept, number = log.since(number)
    assert ([entry["event"] for entry in kept], number) == (["d", "e", "f"], 6)


def test_executors_are_told_again_when_a_worker_starts_anew():
    """Spark is asked once for each task, and again while it does not know it yet."""
    known, asked = {(3, 30): "0", (4, 40): "1"}, []

    def find(task):
        asked.append(task)
        return known.get(task, "")

    executors = Executors(find)
    assert executors.news({0: (3, 30), 1: (4, 40)}) == {"0": "0", "1": "1"}
    assert executors.news({0: (3, 30), 1: (4, 40)}) == {}
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {}
    known[9, 90] = "2"
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {"0": "0", "1": "2"}
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {}
    assert asked == [(3, 30), (4, 40), (9, 90), (9, 90)]


def test_spark_is_not_asked_for_ever_and_may_fail():
    asked = []

    def find(task):
        asked.append(task)
        raise OSError("the session is gone")

    executors = Executors(find)
    assert [executors.news({0: (3, 30)}) for _ in range(3 * TRIES)] == [{}] * 3 * TRIES
    assert len(asked) == TRIES
