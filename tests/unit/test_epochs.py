"""Which attempt at a batch counts, and what state the next one starts from."""

import numpy as np
import pytest

from evenflow.control.attempts import Base, Log, Saved, SavedUnits, TaskThrough
from evenflow.control.epochs import Epochs
from evenflow.control.events import FeederJoined

UNITS = 8


class Query:
    """A query's tasks, one line each."""

    def __init__(self, saved=None):
        self.epochs = Epochs(UNITS, saved)
        self.peers = iter(range(1, 1000))

    def task(self, epoch, partition=0, stage="s", run="r", rows=True, attempt=0):
        """Have a task join, and begin if it has rows; the task, or why it is refused."""
        feeder = FeederJoined(0.0, next(self.peers), "n", partition, attempt, "q", epoch, stage, run=run)
        why = self.epochs.join(feeder)
        if not why and rows:
            why = self.epochs.begin(feeder)
            if not why:
                self.epochs.admit()
                self.epochs.arrived(epoch, np.array([partition]))
        return why or feeder

    def end(self, feeder, **segments):
        return self.epochs.end(feeder, segments or {"0.1": 1})

    def whole(self, epoch, partitions=(0,), **where):
        """A batch all of whose tasks get through."""
        for feeder in [self.task(epoch, partition, **where) for partition in partitions]:
            assert self.end(feeder) is not None
            assert self.epochs.leave(feeder, True) == ""

    def logs(self):
        return [(log.epoch, log.attempt) for log in self.epochs.base.logs]


def test_batch_after_batch():
    query = Query()
    for epoch in range(3):
        query.whole(epoch, (0, 1), stage=f"s{epoch}")
        assert query.epochs.current
    query.task(3, stage="s3")
    assert query.logs() == [(0, 1), (1, 1), (2, 1)]
    assert query.epochs.base.epoch == 2


def test_batches_without_rows_leave_no_trace():
    query = Query()
    query.whole(0)
    query.task(1, stage="s1", rows=False)
    query.whole(4, stage="s4")
    query.task(5, stage="s5")
    assert query.logs() == [(0, 1), (4, 1)]


def test_a_batch_again_starts_from_the_state_before_it():
    query = Query()
    query.whole(0)
    query.whole(1, stage="s1")
    feeder = query.task(1, stage="s2", rows=False)
    assert query.epochs.attempt.number == 2
    assert not query.epochs.current
    assert query.epochs.base.epoch == 0
    query.epochs.held = (0, 1)  # loaded
    assert query.epochs.current
    assert query.epochs.begin(feeder) == ""


def test_of_two_whole_attempts_the_last_counts():
    query = Query()
    query.whole(0, (0, 1))
    query.whole(0, (0, 1), stage="again")
    query.task(1, stage="s1")
    assert query.logs() == [(0, 2)]
    assert query.epochs.current


def test_an_attempt_at_a_part_does_not_count_and_its_state_is_not_used():
    query = Query()
    query.whole(0, (0, 1))
    query.whole(0, (0,), stage="show")
    query.task(1, stage="s1", rows=False)
    assert query.logs() == [(0, 1)]
    assert not query.epochs.current


def test_parts_only_are_refused():
    query = Query()
    query.whole(0, (0,), stage="a")
    query.whole(0, (1, 2), stage="b")
    assert "evaluated in parts: no single evaluation has seen all of its partitions [0, 1, 2]" in query.task(1)


def test_a_task_that_breaks_off_poisons_its_attempt():
    query = Query()
    one, other = query.task(0, 0), query.task(0, 1)
    assert "partition 0 of batch 0 of query q broke off" in query.epochs.leave(one, True)
    assert query.epochs.poison("it broke off") == {other.peer}
    assert query.task(0, 2) == "it broke off"
    assert query.end(other) is None
    query.whole(0, (0, 1), stage="again")
    query.task(1, stage="s1")
    assert query.logs() == [(0, 2)]


def test_a_task_without_rows_may_break_off():
    query = Query()
    assert query.epochs.leave(query.task(0, rows=False), False) == ""


def test_a_task_that_is_through_comes_again():
    """It failed in what comes after us: rows of it are in state, so the batch is run again as a whole."""
    query = Query()
    query.whole(0, (0,))
    assert "partition 0 of batch 0 of query q is here again (attempt 1)" in query.task(0, attempt=1)
    query.whole(0, stage="again")


def test_speculation_is_refused_and_does_no_harm():
    query = Query()
    first = query.task(0)
    assert "is here again" in query.task(0, attempt=1)
    assert query.end(first) is not None


def test_two_stages_at_a_time_are_refused():
    query = Query()
    query.task(0)
    assert "is being evaluated by stage s already" in query.task(0, stage="other")


def test_a_query_started_anew_does_not_wait_for_tasks_of_the_last_run():
    query = Query()
    old = query.task(0)
    query.whole(0, run="new", stage="other")
    assert query.end(old) is None
    query.task(1, run="new", stage="s1")
    assert query.logs() == [(0, 2)]


def test_an_older_batch_is_refused():
    query = Query()
    query.whole(3)
    assert "batch 1 of query q is older than the state in the checkpoint, which is of batch 3" in query.task(1)


def test_lost_state_is_loaded_even_if_no_task_was_there():
    query = Query()
    query.whole(0)
    assert query.epochs.poison("a worker was lost") == set()
    query.task(1, stage="s1", rows=False)
    assert query.logs() == [(0, 1)]
    assert not query.epochs.current


SAVED = Saved(
    Base(3, 1, (SavedUnits("old", 1, np.arange(8, dtype=np.int32)),), (Log(2, 1, {"0.1": 2}), Log(3, 1, {"0.1": 1}))),
    (TaskThrough(4, 1, 0, {"0.1": 1}), TaskThrough(5, 1, 0, {"0.1": 1}), TaskThrough(5, 2, 0, {"1.1": 3})),
)


def test_what_the_store_has_is_gone_on_with():
    query = Query(SAVED)
    query.task(6, stage="s6", rows=False)
    assert not query.epochs.current
    base = query.epochs.base
    assert query.logs() == [(2, 1), (3, 1), (4, 1), (5, 2)]
    assert base.logs[-1].segments == {"1.1": 3}
    assert [snapshot.name for snapshot in base.snapshots] == ["old"]


def test_the_last_batch_of_the_store_comes_again():
    query = Query(SAVED)
    query.task(5, stage="s5", rows=False)
    assert query.epochs.attempt.number == 3
    assert query.logs() == [(2, 1), (3, 1), (4, 1)]


def test_logs_go_when_all_units_with_rows_in_them_are_saved():
    query = Query()
    for epoch in range(4):
        query.whole(epoch, (0, 1), stage=f"s{epoch}")
    query.epochs.snapshot(SavedUnits("a", 1, np.array([0], np.int32)))
    query.task(4, stage="s4")
    assert query.epochs.settle()[1] == ()
    assert query.logs()[0] == (0, 1)
    query.epochs.snapshot(SavedUnits("b", 2, np.array([1], np.int32)))
    query.epochs.snapshot(SavedUnits("c", 3, np.array([0], np.int32)))
    assert query.epochs.settle()[1] == ("a",)
    assert query.logs() == [(3, 1)]
    assert [snapshot.name for snapshot in query.epochs.base.snapshots] == ["b", "c"]


def test_a_unit_that_is_never_saved_holds_only_the_logs_it_has_rows_in():
    query = Query()
    query.whole(0, (0, 1))
    for epoch in range(1, 50):
        query.whole(epoch, (1,), stage=f"s{epoch}")
        query.epochs.snapshot(SavedUnits(f"n{epoch - 1}", epoch - 1, np.array([1], np.int32)))
        query.epochs.settle()
    assert query.logs() == [(0, 1), (48, 1)]
    assert len(query.epochs._rows_in) <= 3


@pytest.mark.parametrize("seed", range(200))
def test_any_schedule_counts_every_batch_once(seed):
    """Tasks that break off, come again, come in parts; in the end one whole attempt at each batch counts."""
    random = np.random.default_rng(seed)
    query = Query()
    stage = 0
    for epoch in range(4):
        while True:
            stage += 1
            feeders = [query.task(epoch, partition, stage=f"s{stage}") for partition in range(3)]
            assert all(isinstance(feeder, FeederJoined) for feeder in feeders)
            broken = random.random() < 0.5
            for feeder in feeders:
                if broken and random.random() < 0.5:
                    why = query.epochs.leave(feeder, True)
                    if why:
                        query.epochs.poison(why)
                        break
                elif query.end(feeder, **{f"{stage}.1": 1}) is not None:
                    query.epochs.leave(feeder, True)
            if query.epochs.attempt.whole and query.epochs.attempt.begun == {0, 1, 2}:
                break
            query.epochs.poison("the stage failed")
    query.task(4, stage="last")
    logs = query.epochs.base.logs
    assert [log.epoch for log in logs] == [0, 1, 2, 3]
    assert all(log.partitions == (0, 1, 2) and len(log.segments) == 1 for log in logs)


# -- found by tests/property/test_durable_protocol.py


def test_state_lost_after_all_was_noted_does_not_take_the_attempt_back():
    """Spark may have counted it: a task that was told so is none of the attempt's any more, even if still here."""
    query = Query()
    feeder = query.task(0)
    assert query.end(feeder) is not None
    query.epochs.noted(feeder.peer)
    assert query.epochs.poison("a worker was lost") == set()
    query.task(1, stage="s1")
    assert query.logs() == [(0, 1)]


def test_state_lost_before_all_was_noted_does():
    query = Query()
    feeder = query.task(0)
    assert query.end(feeder) is not None
    assert query.epochs.poison("a worker was lost") == {feeder.peer}
    assert "evaluated in parts" in query.task(1, stage="s1")


def test_state_lost_between_tasks_of_one_stage():
    """Rows of the first are nowhere but in the log: the second must not go on from the state before both."""
    query = Query()
    query.whole(0, (0,))
    query.epochs.poison("a worker was lost")
    assert query.task(0, 1) == "a worker was lost"
    query.whole(0, (0, 1), stage="again")
    query.task(1, stage="s1")
    assert query.logs() == [(0, 2)]


def test_feeders_of_an_attempt_that_is_given_up_are_to_be_told():
    query = Query()
    old = query.task(0)
    query.task(0, run="new", stage="other")
    assert query.epochs.dropped == {old.peer}


def test_a_batch_that_comes_while_state_is_loaded_for_the_one_before():
    query = Query()
    query.whole(0)
    query.whole(1, stage="s1")
    query.task(1, stage="show", rows=False)
    assert query.epochs.load([0, 1]).epoch == 0
    assert not query.epochs.outdated
    query.task(2, stage="s2", rows=False)
    assert query.epochs.outdated
    query.epochs.loaded(0)
    assert query.epochs.held is None
    query.epochs.loaded(1)
    assert query.epochs.held == (0, 1)
    assert not query.epochs.current


def test_the_batch_that_the_state_is_of_is_refused():
    query = Query(Saved(SAVED.base))
    assert "batch 3 of query q is older than the state in the checkpoint, which is of batch 3" in query.task(3)
    assert not isinstance(query.task(4), str)


def test_snapshots_that_are_reported_too_late_are_not_used():
    query = Query()
    for epoch in range(4):
        query.whole(epoch, stage=f"s{epoch}")
    query.task(4, stage="s4")
    assert not query.epochs.reported(SavedUnits("late", 1, np.array([0], np.int32)))
    assert query.epochs.reported(SavedUnits("good", 2, np.array([0], np.int32)))
    assert [snapshot.name for snapshot in query.epochs.base.snapshots] == ["good"]


def test_which_units_had_rows_before_the_driver_was_killed_is_not_known():
    """The attempt of the last life counts, and of the part that was looked at since only some rows are known."""
    query = Query(Saved(Base(), tuple(TaskThrough(0, 1, partition, {"0.1": 1}) for partition in (0, 1))))
    query.whole(0, (0,), stage="show")
    query.whole(1, stage="s1")
    query.epochs.snapshot(SavedUnits("a", 1, np.array([0], np.int32)))
    query.task(2, stage="s2")
    query.epochs.settle()
    assert query.logs() == [(0, 1), (1, 1)]
