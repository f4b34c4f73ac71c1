"""What the checkpoint thread gives a query to go on from: state, fresh state, or why neither."""

import numpy as np
import pytest

from evenflow.control.events import Save
from evenflow.model.checkpoint import Base, BatchLog, Begun, Saved, SavedUnits, WholeAttempt
from evenflow.runtime.driver.checkpoint import CheckpointThread, Kept
from evenflow.state.checkpoint.chain import operators
from evenflow.state.checkpoint.survey import verify
from evenflow.state.checkpoint.unit_snapshots import pack_units
from evenflow.state.store.blob_names import log_name, units_name
from tests.support.state_memory import Memory

WRITER = "0.7"


class Unthreaded(CheckpointThread):
    """The checkpoint thread without its thread and its claim."""

    def __init__(self):
        self._store = self._patient = Memory()
        self._kept, self._stale = {}, {}
        for name in ("mean", "count"):
            self.add(name, Kept(name, 8))

    @property
    def blobs(self):
        return self._store.blobs

    def put(self, region, content):
        self._put(Save(region, "q", "", content))

    def batch(self, region, epoch, attempt=1, before=None):
        """A batch that gets through, up to the note that it is whole."""
        prefix = f"{region}/q/"
        before = before or (epoch - 1, 1 if epoch else 0)
        self.put(region, Begun(epoch, attempt, before, "run"))
        self._store.put(log_name(prefix, epoch, attempt, WRITER, 0), [b"rows"])
        self.put(region, WholeAttempt(epoch, attempt, {WRITER: 1}, (0,), 3, before, "run"))

    def settle(self, region, epoch):
        """The next batch begins."""
        name = units_name(f"{region}/q/", max(epoch - 1, 0), WRITER, 0)
        self._store.put(name, pack_units({0: "state"}, name=name))
        saved = SavedUnits(name, max(epoch - 1, 0), np.zeros(1, np.int32))
        self.put(region, Base(epoch, 1, (saved,), (BatchLog(epoch, 1, {WRITER: 1}, (0,)),)))


@pytest.fixture
def thread():
    """A query with one operator; batches 0 and 1 are settled, 2 is whole."""
    made = Unthreaded()
    assert made.saved("mean", "q", 0, new=True) == Saved(Base())
    for epoch in range(3):
        made.batch("mean", epoch)
        if epoch < 2:
            made.settle("mean", epoch)
    return made


def test_it_goes_on(thread):
    saved = thread.saved("mean", "q", 3, new=False)
    assert saved.base.key == (1, 1)
    assert [snapshot.name for snapshot in saved.base.snapshots] == ["mean/q/units/0.0.7.0"]
    assert saved.wholes == (WholeAttempt(2, 1, {WRITER: 1}, (0,), 3, (1, 1), "run"),)
    assert saved.begun == Begun(2, 1, (1, 1), "run")
    assert [bad.name for bad in verify(thread._store) if "it is missing" in bad.why] == []


@pytest.mark.parametrize(
    "gone", ["begun/", "whole/2.1", "epoch/1", "epoch/", "log/1.1.0.7.0", "log/2.1.0.7.0", "units/0.0.7.0"]
)
def test_what_is_missing_is_named_and_refused(thread, gone):
    for name in [name for name in thread.blobs if name.startswith(f"mean/q/{gone}")]:
        del thread.blobs[name]
    why = thread.saved("mean", "q", 3, new=False)
    assert isinstance(why, str)
    assert "the checkpoint of region mean and query q is not complete" in why
    assert f"mean/q/{gone}" in why
    assert "is missing" in why


def test_notes_of_another_batch_are_refused(thread):
    thread.blobs["mean/q/whole/2.1"] = thread.blobs["mean/q/epoch/1"]
    why = thread.saved("mean", "q", 3, new=False)
    assert "blob mean/q/whole/2.1 is damaged" in why
    assert "it holds what belongs in mean/q/epoch/1" in why


def test_a_batch_that_spark_runs_again_lacks_nothing(thread):
    del thread.blobs["mean/q/whole/2.1"]
    saved = thread.saved("mean", "q", 2, new=False)
    assert (saved.wholes, saved.begun.key) == ((), (2, 1))


# -- operators that come and go


def test_an_operator_with_a_new_name_has_fresh_state(thread):
    assert thread.saved("count", "q", 3, new=False) == Saved(Base())
    assert operators(thread._store, "q") == {"mean": 0, "count": 3}
    assert thread.saved("count", "q", 3, new=False).base == Base()  # the batch is run again
    thread.batch("count", 3, before=(-1, 0))
    assert thread.saved("count", "q", 4, new=False).wholes[0].key == (3, 1)


def test_an_operator_that_was_killed_before_it_left_anything(thread):
    thread.saved("count", "q", 3, new=False)
    for name in [name for name in thread.blobs if name.startswith("count/q/")]:
        del thread.blobs[name]
    assert thread.saved("count", "q", 3, new=False) == Saved(Base())
    for name in [name for name in thread.blobs if name.startswith("count/q/")]:
        del thread.blobs[name]
    assert "for operator count, which it has had since batch 3: that is lost" in thread.saved(
        "count", "q", 4, new=False
    )


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            Kept("median", 8),
            "is of mean, and this is median: give that operator, in a new Cluster, or another name, which",
        ),
        (
            Kept("mean", 16),
            "has 7 units, and this has 15: give units=7, in a new Cluster, or another name, which begins",
        ),
    ],
)
def test_another_operator_is_refused_with_what_another_name_means(thread, kept, said):
    thread.batch("mean", 3)
    thread.add("mean", kept)
    assert said in thread.saved("mean", "q", 4, new=False)


def test_an_operator_whose_state_is_lost_is_not_a_new_one(thread):
    for name in [name for name in thread.blobs if name.startswith("mean/q/")]:
        del thread.blobs[name]
    why = thread.saved("mean", "q", 3, new=False)
    assert "query q is at batch 3, and this checkpoint has no state of the batches before it" in why
    assert "Bring back mean/q/, or give keyed another name=" in why


def test_a_checkpoint_that_does_not_know_the_query(thread):
    thread.blobs.clear()
    why = thread.saved("mean", "q", 3, new=False)
    assert "give the checkpoint that it had, or start the query with a new checkpointLocation" in why
    assert thread.saved("mean", "q", 3, new=True) == Saved(Base())


def test_an_operator_without_a_name_may_be_another_that_was_changed(thread):
    thread.add("RollingMean(9) by k", Kept("RollingMean(9) by k", 8, named=False))
    why = thread.saved("RollingMean(9) by k", "q", 3, new=False)
    assert (
        "only for mean. If it is to be added to the query, with fresh state from this batch on, give it a name=" in why
    )


def test_the_list_of_operators_is_missing(thread):
    del thread.blobs["evenflow.queries/q"]
    why = thread.saved("mean", "q", 3, new=False)
    assert "evenflow.queries/q is missing or does not list it" in why


def test_an_operator_that_comes_back_goes_on_from_where_it_was(thread):
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    assert thread.saved("mean", "q", 9, new=False).wholes[0].key == (2, 1)
