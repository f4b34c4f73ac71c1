"""Evaluations: who may apply rows to which state."""

from dataclasses import replace

import pytest

from evenflow.control.batches.evaluation import evaluation_of
from evenflow.control.batches.evaluations import AWAITED_S, IDLE_S, REMEMBERED, Evaluations
from evenflow.control.events import FeederJoinedEvent, StageFacts
from evenflow.model.routing import FIRST_SHARE


def batch(partition=0, attempt=0, stage="1", peer=None):
    return FeederJoinedEvent(0.0, peer or 100 + partition + 10 * attempt, "r", partition, attempt, stage=stage)


def micro(epoch=0, partition=0, attempt=0, query="q"):
    return FeederJoinedEvent(0.0, 1000 * epoch + 10 * partition + attempt, "r", partition, attempt, query, epoch, "9")


def run(evaluations, feeder, time=0.0, *, ended=True):
    """A task from its start to its end; why it, or its evaluation, may not go on."""
    why = evaluations.register(feeder) or evaluations.begin(feeder)
    return why or evaluations.leave(feeder, time, begun=True, ended=ended)


def test_a_query_keeps_its_state_and_a_stage_has_its_own():
    assert [evaluation_of(feeder) for feeder in (micro(0), micro(5), batch(), batch(stage="2"))] == [
        "query q",
        "query q",
        "stage 1",
        "stage 2",
    ]


def test_epochs_follow_each_other():
    evaluations = Evaluations()
    assert [run(evaluations, micro(epoch, partition)) for epoch in range(3) for partition in range(2)] == [""] * 6
    assert evaluations.ids == ["query q"]
    assert evaluations.feeding


def test_a_query_whose_state_never_was_here_is_refused():
    assert "no state of the batches before it" in Evaluations().register(micro(3))


@pytest.mark.parametrize("make", [batch, micro])
def test_a_task_that_comes_again_is_refused(make):
    evaluations = Evaluations()
    run(evaluations, make())
    assert evaluations.register(make(attempt=1)) == ""
    assert "is here again (attempt 1)" in evaluations.begin(make(attempt=1))


def test_an_earlier_epoch_is_refused():
    evaluations = Evaluations()
    run(evaluations, micro(0))
    run(evaluations, micro(1))
    assert "batch 0 of query q is here again" in evaluations.register(micro(0, partition=1))


def test_a_task_that_had_no_row_yet_may_come_again():
    evaluations = Evaluations()
    assert evaluations.register(micro()) == ""
    assert evaluations.leave(micro(), 0.0, begun=False, ended=False) == ""
    assert run(evaluations, micro(attempt=1)) == ""


def test_of_two_attempts_the_first_to_begin_counts():
    evaluations = Evaluations()
    assert [evaluations.register(batch(attempt=n)) for n in range(2)] == ["", ""]
    assert evaluations.begin(batch(attempt=1)) == ""
    assert "partition 0 of stage 1 is here again" in evaluations.begin(batch())
    assert evaluations.leave(batch(), 0.0, begun=False, ended=False) == ""


def test_a_task_left_over_from_an_earlier_epoch_may_not_begin():
    evaluations = Evaluations()
    evaluations.register(micro(0, partition=1))
    evaluations.register(micro(1))
    assert "partition 1 of batch 0 of query q is here again" in evaluations.begin(micro(0, partition=1))


def test_a_query_that_breaks_off_cannot_go_on_but_a_stage_only_lacks_a_task():
    assert "broke off" in run(Evaluations(), micro(), ended=False)
    assert run(Evaluations(), batch(), ended=False) == ""


def test_what_is_over_stays_over():
    evaluations = Evaluations()
    evaluations.register(batch())
    evaluations.register(batch(partition=1))
    assert evaluations.end("stage 1", "a worker was lost") == {100, 101}
    assert evaluations.begin(batch()) == "a worker was lost"
    assert evaluations.leave(batch(), 0.0, begun=False, ended=False) == ""
    assert evaluations.register(batch(attempt=1)) == "a worker was lost"
    assert evaluations.end("stage 1", "again") == set()
    assert evaluations.ids == []
    assert not evaluations.feeding


def test_ends_are_remembered_up_to_a_bound():
    evaluations = Evaluations()
    for number in range(REMEMBERED + 1):
        evaluations.end(f"stage {number}", "over")
    assert evaluations.register(batch(stage="0")) == ""
    assert evaluations.register(batch(stage="1")) == "over"


def test_a_stage_that_nobody_feeds_is_idle_in_time():
    evaluations = Evaluations()
    run(evaluations, batch(), time=10.0)
    evaluations.register(batch(stage="2"))
    run(evaluations, micro(), time=10.0)
    assert list(evaluations.idle(10.0 + IDLE_S)) == []
    assert [name for name, _ in evaluations.idle(10.1 + IDLE_S)] == ["stage 1"]


def some(partition=0, *, stage, tasks=1, attempt=0, **facts):
    """A task of a stage that reads some of four partitions."""
    told = StageFacts(tasks, 4, **{"rdd": 7, "execution": "5", "inputs": 4} | facts)
    peer = 1000 * int(stage) + 10 * partition + attempt
    return FeederJoinedEvent(0.0, peer, "r", partition, attempt, stage=stage, facts=told)


def test_the_stages_of_one_take_share_their_state():
    evaluations = Evaluations()
    assert run(evaluations, some(0, stage="1")) == ""
    assert [run(evaluations, some(number, stage="2", tasks=3), ended=number < 2) for number in (1, 2, 3)] == [""] * 3
    assert evaluations.ids == ["action 5 on rdd 7"]


def test_a_stage_that_reads_everything_has_its_own():
    """A sort reads all rows twice in one action: to learn how they are spread, and to sort them."""
    first, second = (some(stage=stage, tasks=4, rdd=int(stage)) for stage in "34")
    evaluations = Evaluations()
    assert [run(evaluations, first), run(evaluations, second)] == ["", ""]
    assert evaluations.ids == ["stage 3", "stage 4"]


def test_parts_that_nothing_ties_together_are_refused():
    assert "use take, limit or toLocalIterator of the DataFrame" in Evaluations().register(
        some(stage="1", execution="")
    )


def test_a_shuffle_of_which_files_are_lost_is_refused():
    why = Evaluations().register(some(stage="1", tasks=2, result=False))
    assert "evaluates only 2 of 4 partitions, since Spark has lost" in why


def test_a_stage_of_which_spark_says_nothing_is_refused():
    assert Evaluations().register(FeederJoinedEvent(0.0, 1, "r", facts="stage 9 is given up")) == "stage 9 is given up"


def kept(partition=0, *, stage, execution, tasks=4, attempt=0):
    return some(partition, stage=stage, tasks=tasks, attempt=attempt, execution=execution, kept=3)


def test_what_is_persisted_is_one_evaluation_over_all_actions():
    evaluations = Evaluations()
    assert run(evaluations, kept(0, stage="1", execution="1", tasks=1)) == ""
    assert list(evaluations.idle(10 * IDLE_S)) == []
    assert [run(evaluations, kept(number, stage="2", execution="2")) for number in (1, 2)] == ["", ""]
    assert list(evaluations.idle(10 * IDLE_S)) == []
    assert run(evaluations, kept(3, stage="2", execution="2")) == ""
    assert [name for name, _ in evaluations.idle(10 * IDLE_S)] == ["rdd 3"]


def test_what_was_persisted_and_is_lost_is_refused():
    evaluations = Evaluations()
    run(evaluations, kept(0, stage="1", execution="1"))
    again = kept(0, stage="2", execution="2")
    assert evaluations.register(again) == ""
    assert "unpersist() the DataFrame, persist() it again" in evaluations.begin(again)
    evaluations.leave(again, 0.0, begun=False, ended=False)
    for number in (1, 2, 3):
        run(evaluations, kept(number, stage="3", execution="3"))
    for name, why in list(evaluations.idle(10 * IDLE_S)):
        evaluations.end(name, why)
    assert "Spark has not kept some of it: unpersist() the DataFrame" in evaluations.register(again)
    for number in range(REMEMBERED + 1):
        evaluations.end(f"stage {number}", "over")
    assert "persisted RDD 3 was dropped: unpersist()" in evaluations.register(again)


def test_what_is_persisted_and_breaks_off_is_over():
    why = run(Evaluations(), kept(0, stage="1", execution="1"), ended=False)
    assert "partition 0 of persisted RDD 3 broke off" in why


def test_what_is_not_persisted_any_more_is_not_kept():
    evaluations = Evaluations()
    last = kept(1, stage="1", execution="1")
    run(evaluations, kept(0, stage="1", execution="1"))
    evaluations.register(last)
    assert evaluations.unpersisted(frozenset({3})) == []
    evaluations.leave(last, 0.0, begun=False, ended=True)
    assert (evaluations.kept, evaluations.unpersisted(frozenset({3}))) == ({3}, ["rdd 3"])


def piece(epoch, partition, tasks, kept=None):
    told = StageFacts(tasks, 4, inputs=4, kept=kept)
    return FeederJoinedEvent(0.0, 100 * epoch + 10 * partition + tasks, "r", partition, 0, "q", epoch, "9", facts=told)


def test_a_query_does_not_go_on_from_a_batch_of_which_only_a_part_was_read():
    evaluations = Evaluations()
    assert run(evaluations, piece(0, 0, tasks=1)) == ""
    assert "batch 0 of query q was evaluated in parts" in evaluations.register(piece(1, 0, tasks=4))


@pytest.mark.parametrize("tasks", [3, 4])
def test_a_batch_that_is_persisted_may_be_read_in_parts(tasks):
    evaluations = Evaluations()
    pieces = [piece(0, 0, 1, kept=1), *(piece(0, partition, tasks, kept=1) for partition in (1, 2, 3))]
    assert [run(evaluations, each) for each in pieces] == [""] * 4
    assert evaluations.register(piece(1, 0, tasks=4)) == ""


def waiting(partition=0, tasks=2, **more):
    """A task with rows that wait, or, from FIRST_SHARE on, one of two with ticks."""
    own = {"own_stage": "2", "facts": StageFacts(tasks, 2, inputs=2, **more)} if partition >= FIRST_SHARE else {}
    return replace(batch(partition), kinds=2, **own)


def test_rows_that_wait_for_ticks_are_kept_longer_and_ticks_may_come_again():
    evaluations = Evaluations()
    assert run(evaluations, waiting()) == ""
    assert list(evaluations.idle(IDLE_S + 1)) == []
    assert run(evaluations, waiting(FIRST_SHARE)) == ""
    assert evaluations.ids == ["stage 1"]
    assert run(evaluations, replace(waiting(FIRST_SHARE), peer=8), ended=False) == ""
    assert run(evaluations, replace(waiting(FIRST_SHARE), peer=9)) == ""
    assert list(evaluations.idle(IDLE_S + 1)) == []
    assert [name for name, _ in evaluations.idle(AWAITED_S + 1)] == ["stage 1"]
    assert run(evaluations, replace(waiting(), stage="2", peer=7)) == ""
    assert "stage 2" in [name for name, _ in evaluations.idle(AWAITED_S + 1)]


def test_ticks_into_what_is_persisted_may_come_in_several_actions():
    evaluations = Evaluations()
    assert run(evaluations, waiting()) == ""
    assert run(evaluations, waiting(FIRST_SHARE, tasks=1, kept=5)) == ""
    assert list(evaluations.idle(AWAITED_S + 1)) == []
    assert run(evaluations, waiting(FIRST_SHARE + 1, tasks=1, kept=5)) == ""
    assert [name for name, _ in evaluations.idle(IDLE_S + 1)] == ["stage 1"]


@pytest.mark.parametrize(("tasks", "shares", "refused"), [(1, 1, True), (2, 1, True), (2, 2, False)])
def test_a_query_does_not_go_on_from_a_batch_of_which_some_rows_still_wait(tasks, shares, refused):
    evaluations = Evaluations()
    for partition in (0, 1, *range(FIRST_SHARE, FIRST_SHARE + shares)):
        assert run(evaluations, replace(waiting(partition, tasks), query="q")) == ""
    why = evaluations.register(replace(waiting(), query="q", epoch=1, peer=7))
    assert ("batch 0 of query q was evaluated in parts" in why) == refused


def test_a_query_does_not_go_on_from_rows_whose_ticks_never_came():
    evaluations = Evaluations()
    assert run(evaluations, replace(waiting(), query="q")) == ""
    assert "batch 0 of query q was evaluated in parts" in evaluations.register(
        replace(waiting(), query="q", epoch=1, peer=7)
    )


def test_ticks_of_rows_that_are_forgotten_get_no_fresh_state():
    assert "make the DataFrame anew" in Evaluations().register(waiting(FIRST_SHARE))
