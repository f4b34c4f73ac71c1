"""Which attempt at a batch counts, and what state the next one starts from."""

import numpy as np
import pytest

from evenflow.control.batches.epochs import Epochs
from evenflow.control.events import FeederJoinedEvent, StageFacts
from evenflow.errors import SEVERAL_ACTIONS
from evenflow.model.checkpoint import Base, BatchLog, Begun, Saved, SavedUnits, WholeAttempt

UNITS = 8


class Query:
    """A query's tasks, one line each."""

    def __init__(self, saved=None):
        self.epochs = Epochs(UNITS, saved)
        self.peers = iter(range(1, 1000))

    def task(self, epoch, partition=0, stage="s", run="r", rows=True, attempt=0, of=1, kinds=1, **facts):
        """Have a task join, and begin if it has rows; the task, or why it is refused.

        `of` is how many partitions the operator's input has.
        """
        told = StageFacts(**{"tasks": of, "partitions": of, "inputs": of} | facts)
        peer = next(self.peers)
        who = (0.0, peer, "n", partition, attempt, "q", epoch, stage)
        feeder = FeederJoinedEvent(*who, run=run, task=peer, facts=told, kinds=kinds)
        why = self.epochs.join(feeder)
        if not why and rows:
            why = self.begin(feeder)
        return why or feeder

    def begin(self, feeder):
        why = self.epochs.begin(feeder)
        if not why:
            self.epochs.admit()
            self.epochs.arrived(feeder.epoch, np.array([feeder.partition % UNITS]))
        return why

    def end(self, feeder, rows=True, **segments):
        return self.epochs.end(feeder, segments or {"0.1": 1} if rows else {}, rows)

    def load(self):
        """Workers have loaded what the attempt starts from."""
        self.epochs.load([0])
        self.epochs.loaded(0)

    def note(self):
        """The store has been told that the attempt has begun; tasks that may end."""
        return self.epochs.noted((self.epochs.epoch, self.epochs.attempt.number))

    def whole(self, epoch, partitions=(0,), of=0, **where):
        """A stage all of whose tasks get through; what is noted of it, if it has seen everything."""
        found = None
        tasks = [self.task(epoch, partition, of=of or len(partitions), **where) for partition in partitions]
        for feeder in tasks:
            assert isinstance(feeder, FeederJoinedEvent), feeder
            found = self.end(feeder) or found
            self.note()
            self.epochs.let_go(feeder.peer)
            assert self.epochs.leave(feeder, True) == ""
        return found

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


def test_a_batch_without_rows_changes_nothing():
    query = Query()
    query.whole(0)
    assert query.end(query.task(1, stage="s1", rows=False), rows=False) == WholeAttempt(
        1, 1, {}, (), 1, (0, 1), "r", True
    )
    query.task(4, stage="s4", rows=False)  # of 2 and 3 nobody has heard
    assert query.epochs.current
    assert query.logs() == [(0, 1), (1, 1)]
    query.epochs.settle()
    assert query.logs() == [(0, 1), (1, 1)]
    query.epochs.snapshot(SavedUnits("a", 0, np.arange(8, dtype=np.int32)))
    query.epochs.settle()
    assert query.logs() == [(1, 1)]


def test_a_batch_again_starts_from_the_state_before_it():
    query = Query()
    query.whole(0)
    query.whole(1, stage="s1")
    feeder = query.task(1, stage="s2", rows=False)
    assert query.epochs.attempt.number == 2
    assert not query.epochs.current
    assert query.epochs.base.epoch == 0
    query.load()
    assert query.epochs.current
    assert query.epochs.begin(feeder) == ""


def test_a_later_attempt_repeats_the_first_whole_one():
    query = Query()
    query.whole(0, (0, 1))
    first = query.epochs.attempt
    task = query.task(0, stage="again", rows=False)
    assert query.epochs.started.repeats == 1
    assert query.epochs.attempt.repeats is first
    assert not query.epochs.current  # workers have to load the rows to repeat
    query.load()
    assert query.epochs.current
    assert query.epochs.repeating
    assert query.begin(task) == ""
    assert query.epochs.end(task, {}, True, {"0.1": 0}) is None, "it has no note of its own"
    assert query.note() == [task.peer]
    assert not query.epochs.repeating
    query.task(1, stage="s1")
    assert query.logs() == [(0, 1)]
    assert query.epochs.current, "what is in memory is the state after the first"


def test_what_is_loaded_for_one_repeat_is_of_no_use_for_the_next():
    query = Query()
    query.whole(0)
    query.task(0, stage="again", rows=False)
    query.load()
    query.task(0, stage="once more", rows=False)
    assert query.epochs.attempt.repeats.number == 1
    assert not query.epochs.current


@pytest.mark.parametrize("left", [{"0.1": 3}, {"0.1": 0, "1.1": 1}, {}])
def test_rows_that_do_not_come_again(left):
    query = Query()
    query.whole(0)
    task = query.task(0, stage="again", rows=False)
    query.load()
    query.begin(task)
    query.epochs.end(task, {}, True, left)
    assert query.epochs.attempt.short
    voided = query.epochs.void()
    assert (voided.key, voided.begun) == ((0, 1), Begun(0, 2, run="r"))
    query.epochs.poison("other rows")
    assert query.task(0, stage="s3", run="r2", rows=False) is not None
    assert query.epochs.attempt.repeats is None, "it is run afresh"


def test_attempts_whose_rows_are_put_in_order_are_alike_and_the_last_counts():
    query = Query()
    for stage in ("a", "b"):
        tasks = [query.task(0, part, stage=stage, kinds=2) for part in (0, 1 << 20)]
        for task in tasks:
            query.end(task)
            query.note()
    query.task(1, stage="s1")
    assert query.logs() == [(0, 2)]
    assert query.epochs.current


def test_of_whole_attempts_of_an_earlier_version_the_last_counts():
    wholes = tuple(WholeAttempt(0, number, {"0.1": 1}, (0,), 1) for number in (1, 2))
    query = Query(Saved(Base(), wholes, Begun(0, 2)))
    query.task(0, stage="again", rows=False)
    assert query.epochs.attempt.repeats is None, "its log may lack what tells rows apart"
    query.task(1, stage="s1", rows=False)
    assert query.logs() == [(0, 2)]


def test_an_attempt_of_an_earlier_run_is_repeated():
    query = Query(Saved(Base(), (WholeAttempt(0, 1, {"0.1": 4}, (0,), 1, repeatable=True),), Begun(0, 3, repeats=1)))
    query.task(0, stage="again", rows=False)
    assert query.epochs.attempt.number == 4
    assert query.epochs.attempt.repeats.segments == {"0.1": 4}


def test_an_attempt_at_a_part_does_not_count_and_its_state_is_not_used():
    query = Query()
    query.whole(0, (0, 1))
    assert query.whole(0, (0,), stage="show", of=2, tasks=1) is None
    query.task(1, stage="s1", rows=False)
    assert query.logs() == [(0, 1)]
    assert not query.epochs.current


def test_parts_only_are_refused():
    query = Query()
    query.whole(0, (0,), stage="a", of=3, tasks=1)
    query.whole(0, (1, 2), stage="b", of=3, tasks=2)
    why = query.task(1)
    assert "batch 0 was evaluated in parts, and Spark has gone on: no single evaluation has seen all" in why
    assert "attempt 1 saw 1 of 3; attempt 2 saw 2 of 3" in why
    assert "delete the file commits/0 in the query's checkpointLocation" in why


def test_a_task_that_breaks_off_poisons_its_attempt():
    query = Query()
    one, other = query.task(0, 0, of=3), query.task(0, 1, of=3)
    assert "partition 0 of batch 0 of query q broke off" in query.epochs.leave(one, True)
    assert query.epochs.poison("it broke off") == {other.peer}
    assert query.task(0, 2, of=3) == "it broke off"
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


def test_ticks_of_a_second_action_are_told_from_ticks_that_are_tried_again():
    """With order_by the rows stay where they are: another action has a stage of ticks alone, a new try has the same."""
    query = Query()
    told = StageFacts(1, 1, inputs=1)

    def ticks(own_stage, attempt):
        peer = next(query.peers)
        feeder = FeederJoinedEvent(
            0.0, peer, "n", 0, attempt, "q", 0, "rows", run="r", task=peer, kinds=2, facts=told, own_stage=own_stage
        )
        assert query.epochs.join(feeder) == ""
        return query.begin(feeder)

    assert ticks("first", 0) == ""
    assert "run again as a whole" in ticks("first", 1)
    assert "run again as a whole" in ticks("first", 0), "Spark gives a stage that it submits anew first attempts"
    for attempt in (0, 3):
        assert SEVERAL_ACTIONS in ticks("second", attempt)


def test_speculation_is_refused_and_does_no_harm():
    query = Query()
    first = query.task(0)
    assert "is here again" in query.task(0, attempt=1)
    assert query.end(first) is not None


def test_of_two_stages_at_a_time_the_first_gives_way():
    """It may be a look at the batch that Spark is done with; if not, no more tasks of it are let in."""
    query = Query()
    old = query.task(0, of=2)
    query.whole(0, stage="other")
    assert query.epochs.dropped == {old.peer}
    assert query.end(old) is None
    why = query.task(0, 1, of=2)
    assert "batch 0 of query q is being evaluated by stage other as well as by stage s" in why
    assert "persist() it first" in why


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
    Base(
        3,
        1,
        (SavedUnits("old", 1, np.arange(8, dtype=np.int32)),),
        (BatchLog(2, 1, {"0.1": 2}), BatchLog(3, 1, {"0.1": 1})),
    ),
    (
        WholeAttempt(4, 1, {"0.1": 1}, (0,), 2, (3, 1)),
        WholeAttempt(5, 1, {"0.1": 1}, (0,), 2, (4, 1)),
        WholeAttempt(5, 2, {"1.1": 3}, (0,), 1, (4, 1)),
    ),
    Begun(5, 3, (4, 1)),
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
    assert query.epochs.attempt.number == 4
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
    assert len(query.epochs._history._rows_in) <= 3


@pytest.mark.parametrize("seed", range(200))
def test_any_schedule_counts_every_batch_once(seed):
    """Tasks that break off, come again, come in parts; in the end one whole attempt at each batch counts."""
    random = np.random.default_rng(seed)
    query = Query()
    stage = 0
    for epoch in range(4):
        while True:
            stage += 1
            feeders = [query.task(epoch, partition, stage=f"s{stage}", of=3) for partition in range(3)]
            assert all(isinstance(feeder, FeederJoinedEvent) for feeder in feeders)
            broken = random.random() < 0.5
            for feeder in feeders:
                if broken and random.random() < 0.5:
                    why = query.epochs.leave(feeder, True)
                    if why:
                        query.epochs.poison(why)
                        break
                else:
                    query.end(feeder, **{f"{stage}.1": 1})
                    query.epochs.leave(feeder, True)
            if query.epochs.attempt.whole:
                break
            query.epochs.poison("the stage failed")
    query.task(4, stage="last")
    logs = query.epochs.base.logs
    assert [log.epoch for log in logs] == [0, 1, 2, 3]
    assert all(log.partitions == (0, 1, 2) and len(log.segments) == 1 for log in logs)


# -- found by tests/property/test_durable_protocol.py


def test_state_lost_after_all_is_durable_does_not_take_the_attempt_back():
    """Spark may have counted it, or will: the last task waits for nothing but the note."""
    query = Query()
    feeder = query.task(0)
    assert query.end(feeder) is not None
    assert query.epochs.poison("a worker was lost") == set()
    assert feeder.peer in query.epochs.attempt.feeders
    query.task(1, stage="s1")
    assert query.logs() == [(0, 1)]


def test_state_lost_before_all_is_durable_does():
    query = Query()
    query.end(query.task(0, 0, of=2))
    other = query.task(0, 1, of=2)
    assert other.peer in query.epochs.poison("a worker was lost")
    assert "evaluated in parts" in query.task(1, stage="s1")


def test_state_lost_between_tasks_of_one_stage():
    """Rows of the first are nowhere but in the log: the second must not go on from the state before both."""
    query = Query()
    query.whole(0, (0,), of=2)
    query.epochs.poison("a worker was lost")
    assert query.task(0, 1, of=2) == "a worker was lost"
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
    query = Query(Saved(Base(), (WholeAttempt(0, 1, {"0.1": 1}, (0, 1), 2),), Begun(0, 1)))
    query.whole(0, (0,), stage="show", of=2, tasks=1)
    query.whole(1, stage="s1")
    query.epochs.snapshot(SavedUnits("a", 1, np.array([0], np.int32)))
    query.task(2, stage="s2")
    query.epochs.settle()
    assert query.logs() == [(0, 1), (1, 1)]


# -- when an attempt is whole


def test_a_driver_that_dies_in_the_middle_leaves_no_attempt_that_could_count():
    """Two of eight partitions were through; run again on fewer cores, the batch has three, and those count."""
    query = Query(Saved(Base(), (), Begun(0, 1, run="killed")))
    query.whole(0, (0, 1, 2), run="after")
    query.task(1, run="after", stage="s1", of=3)
    assert query.logs() == [(0, 2)]
    assert query.epochs.base.logs[0].partitions == (0, 1, 2)


def test_what_has_begun_and_is_not_whole_is_missed():
    query = Query(Saved(Base(), (), Begun(0, 1, run="killed")))
    assert "batch 0 was evaluated in parts" in query.task(1, run="after")


def test_of_whole_attempts_of_two_runs_the_later_counts():
    query = Query(Saved(Base(), (WholeAttempt(0, 1, {"0.1": 9}, tuple(range(8)), 8),), Begun(0, 1)))
    query.whole(0, (0, 1, 2), run="after")
    query.task(1, run="after", stage="s1")
    assert query.logs() == [(0, 2)]


def test_an_earlier_run_counts_if_the_later_has_only_looked_at_a_part():
    """The sink had the batch already, and did not want it again."""
    query = Query(Saved(Base(), (WholeAttempt(0, 1, {"0.1": 9}, tuple(range(8)), 8),), Begun(0, 1)))
    query.whole(0, (0,), of=3, tasks=1, run="after")
    query.task(1, run="after", stage="s1")
    assert query.logs() == [(0, 1)]


def test_the_attempt_that_a_later_one_started_from_is_kept_to():
    wholes = (
        WholeAttempt(0, 1, {"0.1": 1}, (0,), 1),
        WholeAttempt(0, 2, {"0.1": 1}, (0,), 1),
        WholeAttempt(1, 1, {}, (), 1, (0, 1)),
    )
    query = Query(Saved(Base(), wholes, Begun(1, 1, (0, 1))))
    query.task(2)
    assert query.logs() == [(0, 1), (1, 1)]


def test_partitions_without_rows_are_accounted_for():
    query = Query()
    tasks = [query.task(0, number, rows=number == 1, of=3) for number in range(3)]
    assert query.end(tasks[0], rows=False) is None
    assert query.end(tasks[1]) is None
    assert query.end(tasks[2], rows=False) == WholeAttempt(0, 1, {"0.1": 1}, (1,), 3, run="r", repeatable=True)


def test_a_task_without_rows_that_is_not_heard_to_end_may_have_some():
    query = Query()
    query.end(query.task(0, 0, of=2))
    query.epochs.leave(query.task(0, 1, of=2, rows=False), False)
    assert "attempt 1 saw 1 of 2" in query.task(1, stage="s1")


def test_a_task_without_rows_that_is_tried_again_counts_once():
    query = Query()
    for _ in range(2):
        assert query.end(query.task(0, 0, rows=False, of=2), rows=False) is None
    assert query.end(query.task(0, 1, of=2)) is not None


def test_a_task_that_goes_through_several_partitions_counts_them_all():
    """As after coalesce: its number is not theirs, and of those without rows nobody knows the number."""
    query = Query()
    feeders = [query.task(0, 0, rows=False, of=4, tasks=1, partitions=1) for _ in range(4)]
    one_try = [FeederJoinedEvent(*(getattr(f, n) for n in WHO), run="r", task=7, facts=f.facts) for f in feeders]
    assert [query.end(feeder, rows=False) is None for feeder in one_try] == [True, True, True, False]


WHO = ("time", "peer", "region", "partition", "attempt", "query", "epoch", "stage")


def test_tasks_end_when_it_is_noted_that_their_attempt_has_begun():
    query = Query()
    first, second = query.task(0, 0, of=3), query.task(0, 1, of=3)
    assert query.epochs.started == Begun(0, 1, run="r")
    query.end(first)
    assert query.epochs.released() == []
    assert query.note() == [first.peer]
    query.end(second)
    assert query.epochs.released() == [second.peer]
    assert query.epochs.attempt.feeders == set()


def test_an_attempt_of_which_the_store_cannot_be_told_does_not_count():
    query = Query()
    query.end(query.task(0))
    assert query.epochs.unnoted((0, 1), "the disk is full")
    query.epochs.poison("the disk is full")
    assert "attempt 1 saw 1 of 1 (the disk is full)" in query.task(1, stage="s1")


def test_an_attempt_whose_note_fails_after_the_next_has_begun_does_not_count():
    """Nor does the next, which repeats it: the store would miss what that one follows."""
    query = Query()
    query.end(query.task(0))
    query.load()
    query.task(0, stage="again", rows=False)
    assert query.epochs.attempt.repeats is not None
    assert query.epochs.unnoted((0, 1), "the disk is full")
    assert [(each.whole, each.poisoned) for each in query.epochs.attempts] == [(False, "the disk is full")] * 2
    query.task(0, stage="once more", rows=False)
    assert query.epochs.attempt.repeats is None
    assert not query.epochs.unnoted((0, 2), "the disk is full"), "that one was given up before"
    assert not query.epochs.attempt.poisoned


def test_stages_of_which_spark_does_not_tell_are_refused():
    query = Query()
    assert "it cannot be told how many partitions stage s of batch 0 has" in query.task(0, inputs=0)
    feeder = FeederJoinedEvent(0.0, 1, "n", 0, 0, "q", 0, "s", run="r", facts="the session is stopped")
    assert "has: the session is stopped, so" in query.epochs.join(feeder)


def test_two_stages_one_behind_the_other():
    """The second feeds the same operator, from behind a shuffle; its partitions have numbers of their own."""
    query = Query()
    behind = 1 << 20

    def task(partition, of):
        told = StageFacts(of, of, inputs=of)
        peer = next(query.peers)
        feeder = FeederJoinedEvent(0.0, peer, "n", partition, 0, "q", 0, "s", run="r", task=peer, kinds=2, facts=told)
        assert query.epochs.join(feeder) == ""
        return feeder

    tasks = [task(0, 2), task(1, 2), task(behind, 1)]
    query.begin(tasks[0])
    query.begin(tasks[2])
    assert [query.end(each, rows=each is not tasks[1]) is None for each in tasks] == [True, True, False]


# -- results that are persisted


def test_stages_that_share_persisted_results_are_one_evaluation():
    """persist(), show(1), write: the second evaluates what the first has not, after it."""
    query = Query()
    query.whole(0, (0,), stage="show", of=3, tasks=1, kept=5)
    assert query.whole(0, (1, 2), stage="write", of=3, kept=5).partitions == (0, 1, 2)
    query.task(1, stage="s1", of=3)
    assert query.logs() == [(0, 1)]


def test_what_is_lost_of_persisted_results_cannot_be_evaluated_alone():
    query = Query()
    query.whole(0, (0, 1), stage="count", kept=5)
    assert "some results of another evaluation are persisted" in query.task(0, stage="write", of=2, kept=5)
    query.whole(0, (0, 1), stage="unpersisted")


def test_what_is_lost_of_shuffled_results_cannot_be_evaluated_alone():
    assert "are shuffled and some of them are lost" in Query().task(0, of=2, tasks=1, result=False)


def test_state_that_is_lost_between_stages_that_share_results():
    query = Query()
    query.whole(0, (0,), stage="show", of=2, tasks=1, kept=5)
    query.epochs.poison("a worker was lost")
    assert "some results of another evaluation are persisted" in query.task(0, 1, stage="write", of=2, kept=5)


def test_a_batch_that_is_asked_in_parts_whether_it_has_rows():
    """isEmpty looks at one partition, then at more; if none has rows, that is all there is."""
    query = Query()
    assert query.end(query.task(0, 0, stage="a", rows=False, of=3, tasks=1, rdd=9), rows=False) is None
    query.note()
    others = [query.task(0, number, stage="b", rows=False, of=3, tasks=2, rdd=9) for number in (1, 2)]
    assert [query.end(each, rows=False) is None for each in others] == [True, False]


def test_partitions_of_another_plan_are_other_partitions():
    """One that had no rows in one evaluation may have some in the next, which has been cut otherwise."""
    query = Query()
    query.end(query.task(0, 0, stage="look", rows=False, of=2, tasks=1, rdd=9), rows=False)
    query.note()
    first, second = (query.task(0, number, stage="write", of=2, rdd=10) for number in (0, 1))
    assert query.epochs.attempt.number == 2
    assert query.end(first) is None
    assert query.end(second) is not None


def test_a_query_of_which_nothing_is_there_yet_has_nothing_to_load():
    query = Query(Saved(Base()))
    query.task(0, rows=False)
    assert query.epochs.current
