"""Why a task is refused, in words for the user: what is wrong, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.control.batches.attempts import Attempt
from evenflow.control.batches.evaluation import kept_of
from evenflow.control.events import FeederJoinedEvent, StageFacts
from evenflow.errors import SEVERAL_ACTIONS

PERSIST_ANEW = "unpersist() the DataFrame, persist() it again, and let the first action read all of it, as count() does"
"""The remedy if the state is gone that the rest of a persisted DataFrame needs."""
RUN_AGAIN = "The batch has to be run again as a whole: start the query again, or have evenflow.supervise do it"
TWO_NAMES = "If keyed is used twice in this query, give each use a name= of its own"
SHOWN = 4
"""The attempts at a batch that a message lists, at most."""


def what(feeder: FeederJoinedEvent) -> str:
    """The batch, persisted RDD or stage that a task belongs to."""
    if feeder.query:
        return f"batch {feeder.epoch} of query {feeder.query}"
    kept = kept_of(feeder)
    return f"stage {feeder.stage}" if kept is None else f"persisted RDD {kept}"


# -- evaluations without a store


def unfit(feeder: FeederJoinedEvent, forgotten: int) -> str:
    """Why a task cannot be the first of its evaluation; empty if it can.

    `forgotten` is the newest persisted RDD whose evaluation is over and no longer remembered.
    """
    if feeder.query:
        if feeder.first or feeder.saved is not None:
            return ""
        return (
            f"batch {feeder.epoch} of query {feeder.query} comes to a cluster that has no state of the batches "
            "before it: state ends with its cluster, unless that has a checkpoint. Give Cluster checkpoint=, for state "
            "that outlives it, and start the query with a new checkpointLocation"
        )
    if feeder.own_stage:
        return f"the rows of {what(feeder)} are gone, and Spark does not read them again: make the DataFrame anew"
    return _unfit_stage(feeder, feeder.facts, forgotten) if isinstance(feeder.facts, StageFacts) else ""


def _unfit_stage(feeder: FeederJoinedEvent, facts: StageFacts, forgotten: int) -> str:
    if facts.kept is not None:
        gone = facts.kept <= forgotten
        return f"the state of persisted RDD {facts.kept} was dropped: {PERSIST_ANEW}" if gone else ""
    some = f"{facts.tasks} of {facts.partitions} partitions"
    if not facts.whole and not facts.result:
        return (
            f"stage {feeder.stage} evaluates only {some}, since Spark has lost the others' files of a shuffle and "
            "not theirs, and the state after these is gone: make the DataFrame anew and run the action again"
        )
    if not facts.whole and not facts.execution:
        return (
            f"stage {feeder.stage} evaluates only {some}, for an action of an RDD, and nothing tells which others "
            "belong to it: use take, limit or toLocalIterator of the DataFrame, or persist() the DataFrame first"
        )
    return ""


def already_applied(feeder: FeederJoinedEvent, tried: bool = False) -> str:
    """The rows of a task are in state already; `tried`: the same stage brought them."""
    if feeder.own_stage:
        return (
            f"rows of {what(feeder)} were put in order and processed before (attempt {feeder.attempt}), and Spark "
            "has not read them again, so they cannot be once more. "
        ) + ("Start again from the beginning" if tried else f"In foreachBatch, {SEVERAL_ACTIONS}")
    return (
        f"partition {feeder.partition} of {what(feeder)} is here again (attempt {feeder.attempt}), and its rows "
        "are in the operator's state already, which cannot be taken back. "
    ) + (
        f"Spark has not kept it, or two actions evaluate it at once: {PERSIST_ANEW}"
        if not feeder.query and kept_of(feeder) is not None
        else "If a DataFrame is used more than once, in foreachBatch or in a union with itself, persist() it first;"
        " if a task failed, start again from the beginning"
    )


def read_in_parts(query: str, epoch: int) -> str:
    """A batch is over, but no action has read all of it."""
    return (
        f"batch {epoch} of query {query} was evaluated in parts: only actions that read some of its partitions were "
        "run on it, so rows are missing in the operator's state. In foreachBatch, run an action that reads all of the "
        "DataFrame, such as a write, and persist() it if others look at it before: start the query again from the "
        "beginning"
    )


# -- queries whose state is stored


def older(feeder: FeederJoinedEvent, newest: int) -> str:
    """A task's batch is older than the state in the checkpoint."""
    return (
        f"batch {feeder.epoch} of query {feeder.query} is older than the state in the checkpoint, which is of "
        f"batch {newest}: Spark's checkpoint and the cluster's do not belong together"
    )


def uncounted(feeder: FeederJoinedEvent) -> str:
    """Spark does not tell the number of partitions."""
    told = f": {feeder.facts}" if isinstance(feeder.facts, str) else ""
    return (
        f"it cannot be told how many partitions stage {feeder.stage} of batch {feeder.epoch} has{told}, so not "
        "either when all of them are through: start the query again"
    )


def mixed(feeder: FeederJoinedEvent, kept: str) -> str:
    """Results of a new evaluation would be mixed with results of another; `kept` says how Spark keeps the latter."""
    return (
        f"batch {feeder.epoch} of query {feeder.query}: some results of another evaluation are {kept} and some "
        f"of them are lost: together with new ones they make no sense. {RUN_AGAIN}"
    )


def evaluated_twice(feeder: FeederJoinedEvent, stage: str) -> str:
    """Two stages evaluate one batch at the same time."""
    return (
        f"batch {feeder.epoch} of query {feeder.query} is being evaluated by stage {feeder.stage} as well "
        f"as by stage {stage}: if a DataFrame is used more than once in one plan, persist() it first"
    )


def begun_before(feeder: FeederJoinedEvent, other_stage: bool) -> str:
    """Rows of a task's partition are in state already; `other_stage`: another stage brought them."""
    if feeder.own_stage and other_stage:
        remedy = f"Spark has not read them again: in foreachBatch, {SEVERAL_ACTIONS}"
    elif feeder.own_stage:
        remedy = RUN_AGAIN
    else:
        remedy = f"{TWO_NAMES}; if one DataFrame is used twice, persist() it first"
        remedy = f"If a task failed: {RUN_AGAIN[0].lower()}{RUN_AGAIN[1:]}. {remedy}" if feeder.attempt else remedy
    return (
        f"partition {feeder.partition} of batch {feeder.epoch} of query {feeder.query} is here again (attempt "
        f"{feeder.attempt}), and rows of it are in state already. {remedy}"
    )


def evaluated_in_part(feeder: FeederJoinedEvent) -> str:
    """Results of part of a batch were given out, and another action evaluates the batch again."""
    return (
        f"an action has read part of batch {feeder.epoch} of query {feeder.query}, and the next action evaluates the "
        "batch again: where rows of one key come from several partitions, the two may differ. In foreachBatch, call "
        "persist() before the first action"
    )


def other_rows(evaluation: str, epoch: int, what: str, same_run: bool) -> str:
    """The source does not give the rows of a batch again that it gave to an attempt which was whole.

    `same_run`: that attempt was of the same start of the query.
    """
    remedy = "In foreachBatch, call persist() before the first action. " if same_run else ""
    return (
        f"batch {epoch} of {evaluation} was evaluated as a whole before, and its source gives other rows now: {what}. "
        f"{remedy}It is run afresh when the query is started again; results of the first evaluation that a sink has "
        "kept do not go together with those. Sources have to give the rows of a batch again, what comes before the "
        "operator has to be deterministic, and columns may be changed only when Spark has committed all batches"
    )


def never_whole(epoch: int, attempts: Sequence[Attempt]) -> str:
    """Spark has gone on to the next batch, but no attempt at the last one is whole."""
    seen = "; ".join(
        f"attempt {each.number} saw {each.seen}{f' ({each.poisoned})' if each.poisoned else ''}"
        for each in attempts[-SHOWN:]
    )
    return (
        f"batch {epoch} was evaluated in parts, and Spark has gone on: no single evaluation has seen all of "
        f"its partitions through ({seen}), so the state after it is not known. In foreachBatch, persist() the "
        "DataFrame, let count() or the write itself be the first action, and let no failure pass. To go on, delete "
        f"the file commits/{epoch} in the query's checkpointLocation: Spark then runs that batch again"
    )
