"""What a cluster says of its live page, and what its event log says for it."""

from itertools import pairwise

import numpy as np
import pytest

from evenflow.control.moves.owners import OwnersLog
from evenflow.errors import InvalidArgument
from evenflow.model import RoutingTable
from evenflow.runtime.cluster.dashboard import page_asked, shown_as_html
from evenflow.runtime.cluster.spark.executors import ASKING_S, EVERY_S, Executors
from evenflow.runtime.driver import eventlog
from evenflow.runtime.driver.eventlog import EventLog
from tests.support.records import fields_of, record


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
    return [fields_of(record) for record in log.note(1.0, table, live)]


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
    log.write(record(0.0, "a", {}))
    first, number = log.since(0)
    assert [entry.event for entry in first] == ["a"]
    assert log.since(number) == ([], 1)
    for name in "bcdef":
        log.write(record(0.0, name, {}))
    kept, number = log.since(number)
    assert ([entry.event for entry in kept], number) == (["d", "e", "f"], 6)


def test_executors_are_told_again_when_a_worker_starts_anew():
    """Spark is asked once for each task, and again a second later while it does not know it yet."""
    known, asked, now = {(3, 30): "0", (4, 40): "1"}, [], [0.0]

    def find(task):
        asked.append(task)
        return known.get(task, "")

    executors = Executors(find, lambda: now[0])
    assert executors.news({0: (3, 30), 1: (4, 40)}) == {"0": "0", "1": "1"}
    assert executors.news({0: (3, 30), 1: (4, 40)}) == {}
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {}
    known[9, 90] = "2"
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {}, "it was asked for just now"
    now[0] += EVERY_S
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {"0": "0", "1": "2"}
    assert executors.news({0: (3, 30), 1: (9, 90)}) == {}
    assert asked == [(3, 30), (4, 40), (9, 90), (9, 90)]


@pytest.mark.parametrize("period", [0.125, 1.0, 4.0, 2 * ASKING_S])
def test_spark_is_not_asked_for_ever_and_may_fail(period, caplog):
    """Whatever the period of the controller: for so many seconds, once a second at most."""
    asked, now = [], [0.0]
    caplog.set_level("DEBUG", "evenflow")

    def find(task):
        asked.append(now[0])
        raise OSError("the session is gone")

    executors = Executors(find, lambda: now[0])
    while now[0] < 3 * ASKING_S:
        assert executors.news({0: (3, 30)}) == {}
        now[0] += period
    assert asked[-2] < ASKING_S <= asked[-1]
    assert {later - before for before, later in pairwise(asked)} == {max(period, EVERY_S)}
    assert len(caplog.messages) == len(asked)
    assert caplog.messages[0] == (
        "Spark does not say which executor has task 30 of stage 3: OSError: the session is gone"
    )
