"""What a worker keeps of all its queries: who is answered, what the controller is told, what is loaded."""

from types import SimpleNamespace

import numpy as np
import pytest

from evenflow.errors import ProtocolError
from evenflow.model.messages import LoadState, SaveAgain, StateLoaded, UnitsSaved
from evenflow.operators.hosted import Hosted
from evenflow.runtime.worker import checkpointer
from evenflow.runtime.worker.checkpointer import Checkpointer
from evenflow.runtime.worker.instances import Copies
from evenflow.runtime.worker.loader import Loaded
from tests.support.query_log_model import SCHEMA, UNITS, FakeJournal, Sums, rows, saved


class Kept:
    """A checkpointer whose threads are here."""

    def __init__(self, monkeypatch):
        self.told, self.answers, self.orders = [], [], []
        self.inbox = SimpleNamespace(items=[])
        self.inbox.empty = lambda: not self.inbox.items
        self.inbox.get = lambda: self.inbox.items.pop(0)
        loader = SimpleNamespace(
            inbox=self.inbox, start=lambda order, _hosted: self.orders.append(order), close=lambda: None
        )
        monkeypatch.setattr(checkpointer, "BlobWriter", FakeJournal)
        monkeypatch.setattr(checkpointer, "Loader", lambda *_: loader)
        answer = lambda who, what: self.answers.append((who, what))  # noqa: E731
        self.checkpointer = Checkpointer("w", 3, lambda: None, self.told.append, answer, Copies())
        self.hosted = Hosted(Sums(), SCHEMA, SCHEMA, UNITS)

    @property
    def blob_writer(self):
        return self.checkpointer._blob_writer

    def rows(self, stamp, *units, state=None):
        self.checkpointer.enter("r", "query q", UNITS, stamp, state or Sums())
        self.checkpointer.log("r", "query q", rows(*units), SCHEMA, np.array(units, np.int32))

    def load(self, number, epoch=2, attempt=1):
        self.checkpointer.load(LoadState("r", "query q", "op", UNITS, number, epoch, attempt, (), (), np.arange(2)))

    def collect(self, code=True):
        return self.checkpointer.collect(lambda _operator: self.hosted if code is True else code)

    def loaded(self, place=0, error=""):
        blank = np.full(UNITS, -1, np.int64)
        self.inbox.items.append(Loaded(self.orders.pop(place), Sums(), blank.copy(), blank.copy(), error=error))


@pytest.fixture
def kept(monkeypatch):
    return Kept(monkeypatch)


def test_a_feeder_is_answered_once_its_rows_are_durable(kept):
    kept.rows((0, 1), 0, 1)
    kept.checkpointer.end("r", "query q", (0, 1), "feeder")
    kept.collect()
    assert kept.answers == []
    kept.blob_writer.done()
    kept.collect()
    ((who, answer),) = kept.answers
    assert (who, answer.segments) == ("feeder", 1)
    assert answer.writer.startswith("3.")


def test_a_feeder_that_sent_nothing_here_is_answered_at_once(kept):
    kept.checkpointer.end("r", "query q", (0, 1), "feeder")
    assert kept.answers[0][1].segments == 0


def test_a_store_that_fails_is_told_to_the_feeder(kept):
    kept.rows((0, 1), 0)
    kept.checkpointer.end("r", "query q", (0, 1), "feeder")
    kept.blob_writer.done(error="no room")
    kept.collect()
    assert kept.answers[0][1].error == "no room"


def test_the_controller_is_told_of_snapshots_that_are_durable(kept):
    kept.rows((0, 1), 0)
    kept.rows((1, 1), 1, state=Sums(u0=4))
    assert kept.told == []
    kept.blob_writer.done()
    kept.collect()
    (report,) = kept.told
    assert (type(report), report.epoch, report.units.tolist()) == (UnitsSaved, 0, [0])


def test_of_several_orders_to_load_the_last_counts(kept):
    kept.load(1)
    assert kept.collect(code=None) == []
    assert kept.orders == []
    kept.collect()
    kept.load(2)
    kept.collect()
    assert [order.load for order in kept.orders] == [1, 2]
    kept.loaded()
    assert kept.collect() == []
    assert kept.told == []
    kept.loaded()
    assert [loaded.order.load for loaded in kept.collect()] == [2]
    assert [(type(report), report.load) for report in kept.told] == [(StateLoaded, 2)]


def test_rows_of_attempts_before_the_one_that_was_loaded_for_are_refused(kept):
    kept.rows((2, 1), 0)
    kept.load(1, epoch=2, attempt=2)
    kept.collect()
    kept.loaded()
    kept.collect()
    with pytest.raises(ProtocolError, match="too late"):
        kept.rows((2, 1), 0)
    kept.rows((2, 2), 0)


def test_between_drop_and_load_no_rows_are_taken(kept):
    """Or a unit that is not here would be saved as one without state."""
    kept.rows((0, 1), 0)
    kept.checkpointer.drop("r", "query q")
    with pytest.raises(ProtocolError, match="whose state was dropped"):
        kept.rows((1, 1), 0)
    assert kept.blob_writer.puts == []
    kept.load(1, epoch=1, attempt=2)
    kept.collect()
    with pytest.raises(ProtocolError, match="whose state was dropped"):
        kept.rows((1, 1), 0)
    kept.loaded()
    kept.collect()
    kept.rows((1, 2), 0)


def test_state_that_cannot_be_loaded_is_reported(kept):
    kept.load(1)
    kept.collect()
    kept.loaded(error="damaged")
    assert kept.collect() == []
    assert kept.told[0].error == "damaged"
    kept.load(2)
    kept.collect(code=object())
    assert kept.told[1].error == "the operator could not be loaded on this worker"


def test_units_taken_back_are_not_saved_from_here(kept):
    kept.rows((0, 1), 0)
    kept.checkpointer.arrived("r", UNITS, 4, [2, 3], {"query q": np.array([0, 0])})
    kept.checkpointer.gone("r", [2, 3])
    kept.rows((1, 1), 1, state=Sums(u0=1))
    assert saved(kept.blob_writer.puts[0])[1] == {0: 1}


def test_what_leaves_takes_along_when_it_had_rows(kept):
    kept.rows((0, 1), 0, 2)
    kept.rows((1, 1), 2)
    touched = kept.checkpointer.touched("r", ["query q", "query other"], [0, 1, 2])
    assert {name: batches.tolist() for name, batches in touched.items()} == {"query q": [0, -1, 1]}


def test_an_evaluation_that_is_over_leaves_nothing(kept):
    kept.rows((0, 1), 0)
    kept.load(1)
    kept.checkpointer.forget("r", "query q")
    kept.collect()
    assert (kept.orders, kept.checkpointer._query_logs) == ([], {})


def snapshots(kept):
    return [saved(put)[:2] for put in kept.blob_writer.puts if "/units/" in put[0]]


def test_units_of_a_snapshot_that_came_too_late_are_saved_again(kept):
    kept.rows((0, 1), 0)
    kept.rows((1, 1), 1, state=Sums(u0=5))
    kept.checkpointer.unsaved(SaveAgain("r", "query q", 0, np.array([0], np.int32)))
    kept.checkpointer.unsaved(SaveAgain("r", "query over", 0, np.array([0], np.int32)))
    kept.rows((4, 1), 1, state=Sums(u0=5, u1=7))
    assert snapshots(kept) == [(0, {0: 5}), (3, {0: 5})]


def test_units_are_saved_where_no_rows_come_any_more(kept):
    """Or the logs with their last rows would be needed for good."""
    kept.rows((0, 1), 0, 1)
    kept.checkpointer.idle("r", "query q", (0, 1), Sums(u0=1, u1=2), None)
    assert snapshots(kept) == []
    kept.checkpointer.idle("r", "query q", (1, 1), Sums(u0=1, u1=2), np.array([False, True, False, False]))
    kept.checkpointer.end("r", "query q", (1, 1), "feeder")
    assert snapshots(kept) == [(0, {0: 1})]
    assert kept.answers[-1][1].segments == 0
    kept.checkpointer.drop("r", "query q")
    kept.checkpointer.idle("r", "query q", (2, 1), Sums(u0=1, u1=2), None)
    assert snapshots(kept) == [(0, {0: 1})]
