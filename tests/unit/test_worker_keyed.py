"""What a worker keeps of keyed operators, when movements and evaluations end in other ways than they should."""

import queue

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import ProtocolError
from evenflow.model.messages import (
    DiscardUnits,
    DropState,
    FeederGone,
    ForgetEvaluation,
    LoadState,
    RestoreUnits,
    UnitsMoved,
)
from evenflow.runtime.worker.events import MarkerReachedEvent
from evenflow.runtime.worker.saving.checkpointer import Checkpointer
from evenflow.runtime.worker.saving.loader import Loaded
from evenflow.runtime.worker.saving.repeats import rows_to_repeat
from tests.support.keyed_actors import Fails, Fragile
from tests.support.keyed_rig import ROWS, Nth
from tests.support.keyed_site import UNITS, Site
from tests.support.query_log_model import FakeBlobWriter, saved


def sites(operator=None):
    return Site(operator or Nth()), Site(operator or Nth())


def test_a_unit_goes_over_with_its_state():
    source, target = sites()
    source.open()
    assert source.feed(1, 1, 2) == [1, 2, 1]
    source.move(1, [1])
    target.take(source.courier.sent[0])
    assert target.outcomes() == [(1, "installed")]
    target.open()
    assert target.feed(1) == [3]
    with pytest.raises(ProtocolError, match="have left"):
        source.feed(1)
    assert source.feed(2) == [2]


def test_feeders_that_count_units_otherwise_are_refused():
    """Found by the fuzz: arrays of a region with 0 units ended the worker when rows of unit 1 came."""
    site, _ = sites()
    with pytest.raises(ProtocolError, match=r"of operator op speaks of 0 units: it has 9"):
        site.server.open("r", "op", 0, 0.0, 0.0)
    code, site.code = site.code, None  # it is not here yet
    site.server.open("r", "op", 0, 0.0, 0.0)
    site.code = code
    with pytest.raises(ProtocolError, match=r"speaks of 0 units: it has 9"):
        site.feed(1)
    site.leave()
    site.open()
    assert site.feed(1) == [1]


def test_reports_are_as_frequent_as_the_feeder_says():
    site, _ = sites()
    assert site.server.due_in(0.0) == np.inf
    site.server.open("r", "op", UNITS, 0.0, 0.0, 0.01)
    site.open("other")
    site.server.report(0.005, 0.0)
    assert site.told == []
    assert site.server.due_in(0.004) == pytest.approx(0.006)
    site.server.report(0.011, 0.0)
    assert [(report.region, report.seconds) for report in site.told] == [("r", 0.011)]
    assert site.server.due_in(0.5) == 0
    site.server.report(0.5, 0.0)
    assert [report.region for report in site.told] == ["r", "r", "other"]


def test_restored_units_are_as_they_were():
    source, _ = sites()
    source.open()
    source.feed(1, 1)
    source.move(1, [1])
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]
    assert source.feed(1) == [3]


def test_units_without_a_row_are_restored_too():
    """Nobody has fed the operator here, so the worker does not know it: that is no reason to die."""
    source, _ = sites()
    source.move(1, [1])
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]


def test_units_are_restored_after_the_last_feeder_left():
    source, _ = sites()
    source.open()
    source.move(1, [1], feeders=[5])
    source.server.mover.handle(MarkerReachedEvent(1, 5))
    source.leave()
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]


def test_a_movement_is_discarded_after_its_evaluation_ended():
    source, target = sites()
    source.open()
    source.feed(1)
    source.move(1, [1])
    target.take(source.courier.sent[0])
    target.say(ForgetEvaluation("r", "query q"))
    target.say(DiscardUnits(1, "r"))
    assert target.outcomes() == [(1, "installed"), (1, "discarded")]


def test_rows_that_come_after_the_end_of_their_evaluation_make_no_state():
    site, _ = sites()
    site.open()
    site.feed(1)
    site.say(ForgetEvaluation("r", "query q"))
    with pytest.raises(ProtocolError):
        site.feed(1)
    site.leave()
    assert not site.server.regions


def test_markers_of_movements_that_are_over_are_not_kept():
    site, _ = sites()
    site.open()
    site.move(1, [1], feeders=[5])
    site.say(FeederGone(1, 5))
    site.say(UnitsMoved(1))
    site.server.mover.handle(MarkerReachedEvent(1, 5))
    assert not site.server.mover.movements.markers


def test_markers_may_overtake_the_controller():
    site, _ = sites()
    site.open()
    site.server.mover.handle(MarkerReachedEvent(1, 5))
    site.move(1, [1], feeders=[5])
    assert len(site.courier.sent) == 1


def test_a_marker_that_overtakes_the_announcement_settles_the_units_it_is_for():
    """Others' rows go on waiting: to answer them all would read everything from disk."""
    site = Site(Nth(padding=2000))
    site.use_memory(7_000)
    site.open()
    for key in range(8):
        site.feed(key)
    (state,) = site.server.regions["r"].paged
    away = np.flatnonzero(~state.resident).tolist()
    assert len(away) >= 5
    site.feed(*away)
    assert state.pending_rows == len(away)
    read = state.traffic[0]
    site.server.mark(1, 5, "r", away[-1:])
    answered = [key for answer in site.given for key in answer.batch.column(1).to_pylist()]
    assert away[-1] in answered
    assert state.traffic[0] - read == len(answered) <= 2
    assert state.pending_rows == len(away) - len(answered)
    site.move(1, away[-1:], feeders=[5])
    assert len(site.courier.sent) == 1
    site.server.close()


def test_a_marker_for_a_unit_that_does_not_exist_is_refused():
    site, _ = sites()
    site.open()
    with pytest.raises(ProtocolError, match="a marker names unit 9 of region r: it has 9"):
        site.server.mark(1, 5, "r", [1, 9])


def test_state_returns_from_disk_when_units_have_left_although_no_row_waits_for_it():
    """Found by an audit: it stayed there for as long as no row came."""
    site = Site(Nth(padding=2000))
    site.use_memory(9_000)
    site.open()
    for key in range(8):
        site.feed(key)
    (state,) = site.server.regions["r"].paged
    assert not state.resident[[0, 1]].any()
    assert not state.pending_rows
    site.move(1, range(2, 8))
    for _ in range(20):
        assert list(site.server.rotate()) == []
        site.seconds += 1.0
    assert state.resident.all()
    assert not site.server.returning
    assert site.server.regions.memory()[2] == 0
    site.server.close()


def test_a_unit_without_state_may_come_back():
    """Its way: here, to a worker that has seen no row of the operator, and back."""
    first, second = sites()
    first.open()
    first.feed(2)
    first.move(1, [1])
    second.take(first.courier.sent[0])
    second.say(UnitsMoved(1))
    second.leave()
    second.server.regions.clear()  # as after the last feeder of a micro-batch
    second.move(2, [1])
    first.take(second.courier.sent[0])
    assert first.feed(1) == [1]


def test_the_end_of_one_evaluation_does_not_stop_a_movement():
    source, _ = sites()
    source.open()
    source.feed(1)
    source.move(1, [1], feeders=[5])
    source.say(ForgetEvaluation("r", "query q"))
    source.say(FeederGone(1, 5))
    assert len(source.courier.sent) == 1


@pytest.mark.parametrize("where", ["extract", "pickle"])
def test_state_that_cannot_leave_stays(where):
    source, _ = sites(Fragile(fails=Fails(where, 1, 1, f"leaves-{where}")))
    source.open()
    source.feed(1, 1)
    source.move(1, [1])
    assert source.outcomes() == [(1, "failed")]
    assert source.courier.sent == []
    source.say(RestoreUnits(1, "r"))
    assert source.feed(1) == [3]


@pytest.mark.parametrize("where", ["install", "unpickle"])
def test_state_that_cannot_arrive_is_put_back(where):
    source, target = sites(Fragile(fails=Fails(where, 1, 1, f"arrives-{where}")))
    source.open()
    source.feed(1, 1)
    source.move(1, [1])
    target.take(source.courier.sent[0])
    assert target.outcomes() == [(1, "failed")]
    target.say(DiscardUnits(1, "r"))
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]
    assert source.feed(1) == [3]


def test_state_that_cannot_be_put_back_is_reported_and_costs_nobody_else():
    source, _ = sites(Fragile(fails=Fails("install", 1, 100, "never")))
    source.open()
    source.feed(1, 2)
    source.move(1, [1])
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "lost")]
    assert source.feed(2) == [2]


# -- state that is stored


class Loads:
    """A loader that only notes what it is to load."""

    def __init__(self):
        self.inbox = queue.SimpleQueue()
        self.orders = []

    def start(self, order, _hosted):
        self.orders.append(order)


class Stored(Site):
    """A site whose blobs are only noted."""

    def use_store(self, transfer):
        self.blob_writer, self.loader, self.answers = FakeBlobWriter(), Loads(), []
        answer = lambda feeder, durable: self.answers.append((feeder, durable.segments))  # noqa: E731
        checkpointer = Checkpointer("3.7", self.told.append, answer, self.blob_writer)
        self.server = self.made(checkpointer=checkpointer, store_transfer=transfer, loader=self.loader)

    def feed_stored(self, stamp, *keys):
        batch = pa.RecordBatch.from_arrays(
            [pa.array(range(len(keys)), pa.int64()), pa.array(keys, pa.int64())], schema=ROWS
        )
        self.server.process("r", "query q", batch, None, stamp, memoryview(batch.serialize()))

    @property
    def snapshots(self):
        return [saved(put)[0] for put in self.blob_writer.puts if "/units/" in put[0]]


def load(number, epoch=3, attempt=1):
    return LoadState("r", "query q", "op", UNITS, number, epoch, attempt, (), (), np.arange(UNITS))


def test_the_end_of_a_task_without_rows_saves_units_unless_their_state_was_dropped():
    """Or a unit that is not here would be saved as one without state."""
    site = Stored(Nth())
    site.open()
    site.feed_stored((0, 1), 1, 2)
    site.server.end("r", "query q", (1, 1), "feeder")
    assert (site.snapshots, site.answers) == ([0], [("feeder", 0)])
    site.feed_stored((2, 1), 1)
    before = site.snapshots
    site.say(DropState("r", "query q"))
    site.server.regions.instance_of(site.server.regions["r"], "query q")  # as units that come before the load make one
    site.server.end("r", "query q", (3, 1), "feeder")
    assert site.snapshots == before
    assert site.answers[1:] == [("feeder", 0)]


def test_state_of_an_operator_that_could_not_be_loaded_is_not_loaded():
    site = Stored(Nth())
    site.say(load(1))
    code, site.code = site.code, None  # it is not here yet
    site.server.collect()
    assert (site.told, site.loader.orders) == ([], [])
    site.code = object()
    site.server.collect()
    site.server.collect()
    (report,) = site.told
    assert (report.load, report.error) == (1, "the operator could not be loaded on this worker")
    site.code = code
    site.say(load(2))
    site.server.collect()
    assert [order.load for order in site.loader.orders] == [2]


class Counting(Nth):
    """Counts every row as late."""

    def __init__(self):
        super().__init__()
        self.late = 0

    def process(self, rows, units, keys):
        self.late += rows.num_rows
        return super().process(rows, units, keys)

    def tallies(self):
        return {"late": self.late}


@pytest.mark.parametrize("repeated", [False, True])
def test_what_was_counted_before_a_recovery_is_counted_once(repeated):
    """Rows of the log go through the operator once more; so do those of an attempt that is repeated."""
    site = Stored(Counting())
    site.open()

    def counted():
        return site.server.regions["r"].news("r", 0.0, 0.0, (0, 0, 0)).counts

    site.feed_stored((0, 1), 1, 2)
    assert counted() == {"late": 2}
    site.feed_stored((1, 1), 1, 2, 3)
    assert counted() == {"late": 3}
    site.say(DropState("r", "query q"))
    assert counted() == {}
    site.say(order := load(1, *((1, 2) if repeated else (2, 1))))
    site.server.collect()
    hosted, logged = site.code, [logged_rows(1, 2), logged_rows(1, 2, 3)]
    instance, repeat = hosted.fresh(), None
    for batch in logged[: 1 if repeated else 2]:
        hosted.process(instance, *hosted.replayed(batch), ordered=False)
    if repeated:
        repeat = rows_to_repeat((1, 2), iter(logged[1:]), instance, hosted)
    site.loader.inbox.put(Loaded(order, instance, *np.full((2, UNITS), 1), repeat))
    site.server.collect()
    assert counted() == {"late": 0}
    if repeated:
        site.feed_stored((1, 2), 1)
        assert counted() == {"late": 0}
        site.feed_stored((1, 2), 2, 3)
    site.feed_stored((2, 1), 7)
    assert counted() == {"late": 1}


def logged_rows(*keys):
    return pa.RecordBatch.from_arrays([pa.array(range(len(keys)), pa.int64()), pa.array(keys, pa.int64())], schema=ROWS)


class Miscounting(Counting):
    """Its counts cannot be told, or are no numbers."""

    def tallies(self):
        return {"late": "many"}


def test_counts_that_cannot_be_told_do_not_end_a_worker():
    site = Stored(Miscounting())
    site.open()
    site.feed_stored((0, 1), 1, 2)
    news = site.server.regions["r"].news("r", 0.0, 0.0, (0, 0, 0))
    assert (news.counts, news.rows) == ({}, 2)
