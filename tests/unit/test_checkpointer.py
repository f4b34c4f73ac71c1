"""What a worker keeps of all its queries: who is answered, what the controller is told."""

import numpy as np
import pytest

from evenflow.errors import ProtocolError
from evenflow.model.messages import LoadState, SaveAgain, UnitsSaved
from evenflow.runtime.worker.saving.checkpointer import Checkpointer
from tests.support.query_log_model import SCHEMA, UNITS, FakeBlobWriter, Sums, rows, saved


class Kept:
    """A checkpointer whose blob writer only notes."""

    def __init__(self):
        self.told, self.answers = [], []
        self.blob_writer = FakeBlobWriter()
        answer = lambda who, what: self.answers.append((who, what))  # noqa: E731
        self.checkpointer = Checkpointer("3.7", self.told.append, answer, self.blob_writer)

    def rows(self, stamp, *units, state=None):
        self.checkpointer.enter("r", "query q", UNITS, stamp, state or Sums())
        self.checkpointer.log("r", "query q", rows(*units), SCHEMA, np.array(units, np.int32))

    def load(self, epoch, attempt):
        blank = np.full(UNITS, -1, np.int64)
        order = LoadState("r", "query q", "op", UNITS, 1, epoch, attempt, (), (), np.arange(2))
        self.checkpointer.resume(order, blank, blank.copy())


@pytest.fixture
def kept():
    return Kept()


def test_a_feeder_is_answered_once_its_rows_are_durable(kept):
    kept.rows((0, 1), 0, 1)
    kept.checkpointer.end("r", "query q", (0, 1), "feeder")
    kept.checkpointer.collect()
    assert kept.answers == []
    (_, _, (_, stamp)) = kept.blob_writer.puts[0]  # and not the segment, which may go when it is put
    assert stamp == (0, 1)
    kept.blob_writer.done()
    kept.checkpointer.collect()
    ((who, answer),) = kept.answers
    assert (who, answer.segments) == ("feeder", 1)
    assert answer.writer == "3.7"


def test_a_feeder_that_sent_nothing_here_is_answered_at_once(kept):
    kept.checkpointer.end("r", "query q", (0, 1), "feeder")
    assert kept.answers[0][1].segments == 0


def test_a_store_that_fails_is_told_to_the_feeder(kept):
    kept.rows((0, 1), 0)
    kept.checkpointer.end("r", "query q", (0, 1), "feeder")
    kept.blob_writer.done(error="no room")
    kept.checkpointer.collect()
    assert kept.answers[0][1].error == "no room"


def test_the_controller_is_told_of_snapshots_that_are_durable(kept):
    kept.rows((0, 1), 0)
    kept.rows((1, 1), 1, state=Sums(u0=4))
    assert kept.told == []
    kept.blob_writer.done()
    kept.checkpointer.collect()
    (report,) = kept.told
    assert isinstance(report, UnitsSaved)
    assert (report.epoch, report.units.tolist()) == (0, [0])


def test_rows_of_attempts_before_the_one_that_was_loaded_for_are_refused(kept):
    kept.rows((2, 1), 0)
    kept.load(2, 2)
    with pytest.raises(ProtocolError, match="too late"):
        kept.rows((2, 1), 0)
    kept.rows((2, 2), 0)


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
    kept.checkpointer.forget("r", "query q")
    assert kept.checkpointer.touched("r", ["query q"], [0]) == {}


def snapshots(kept):
    return [saved(put)[:2] for put in kept.blob_writer.puts if "/units/" in put[0]]


def test_units_of_a_snapshot_that_came_too_late_are_saved_again(kept):
    kept.rows((0, 1), 0)
    kept.rows((1, 1), 1, state=Sums(u0=5))
    kept.checkpointer.save_again(SaveAgain("r", "query q", 0, np.array([0], np.int32)))
    kept.checkpointer.save_again(SaveAgain("r", "query over", 0, np.array([0], np.int32)))
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
