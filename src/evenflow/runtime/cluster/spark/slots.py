"""Spark's task slots, and how many of them each cluster of a session holds.

A worker holds a slot for as long as it runs. Clusters of one session share its slots, and so do the queries that feed
them: at least one slot must be left for queries, or every query would wait for ever without an error.
"""

from __future__ import annotations

import threading
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from evenflow.errors import ClusterStartError

_lock = threading.Lock()
_held: WeakKeyDictionary[SparkContext, dict[str, int]] = WeakKeyDictionary()
"""For each session, the number of workers of each of its clusters."""


def slot_count(context: SparkContext) -> int:
    """The number of tasks that Spark can run at once now."""
    spark = context._jsc.sc()
    return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))


def hold_slots(context: SparkContext, cluster: str, workers: int) -> None:
    """Note the slots of a cluster that is about to start; refused if no slot can be left for queries."""
    with _lock:
        if _fixed(context):
            _check(context, cluster, workers)
        _held.setdefault(context, {})[cluster] = workers


def check_slots(context: SparkContext, cluster: str) -> None:
    """Refuse a cluster whose workers run, if all clusters together leave no slot for queries."""
    with _lock:
        if not _may_grow(context):
            _check(context, cluster, _held[context][cluster])


def give_back(context: SparkContext, cluster: str) -> None:
    """Forget the slots of a cluster that has stopped."""
    with _lock:
        _held.get(context, {}).pop(cluster, None)


def slots_needed(context: SparkContext) -> int:
    """The number of slots for the workers of all clusters, and one for a query."""
    with _lock:
        return sum(_held.get(context, {}).values()) + 1


class SlotUse(NamedTuple):
    """The slots of a session, and the tasks that run in them now."""

    slots: int
    mine: int
    """Tasks of the workers of the cluster that asks."""
    others: int

    def why_waiting(self, missing: int, workers: int, timeout: float, remedy: str) -> str:
        """Why `missing` of the workers do not serve after `timeout` seconds; `remedy` is that for too few slots."""
        mine = max(self.mine, workers - missing)  # Spark's count is a little behind
        seen = (
            f"{workers - missing} of {workers} workers started within {timeout:g} s; the session has {self.slots} task "
            f"slots, in which {mine} tasks of its workers and {self.others} others run. "
        )
        if mine >= workers:
            return (
                f"{seen}All workers have a slot, and {missing} of them had not connected to the driver yet: the "
                "machine is slow, or executors cannot reach spark.driver.host. Give a longer start_timeout"
            )
        if mine + self.others < self.slots:
            return f"{seen}Slots are free, so Spark was still starting the others: give a longer start_timeout"
        return f"{seen}No slot is free. {remedy}"


def slot_use(context: SparkContext, group: str) -> SlotUse:
    """The tasks in the slots now; `group` is the job group of the workers."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    mine = {stage for job in jobs if job is not None for stage in job.stageIds}
    running = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
    tasks = {stage: int(info.numActiveTasks) for stage, info in running.items() if info is not None}
    own = sum(count for stage, count in tasks.items() if stage in mine)
    return SlotUse(slot_count(context), own, sum(tasks.values()) - own)


def remedy_for_slots(context: SparkContext, slots: int) -> str:
    """The remedy for a session with fewer than `slots` slots."""
    if (context.master or "").startswith("local["):
        return f"Use master local[{slots},4] or more, or evenflow.local_session(workers={slots - 1})"
    return (
        f"Give the session at least {slots} slots (executors times spark.executor.cores over spark.task.cpus), "
        "end other jobs that hold them, or ask for fewer workers"
    )


def _check(context: SparkContext, cluster: str, workers: int) -> None:
    slots = slot_count(context)
    others = {name: held for name, held in _held.get(context, {}).items() if name != cluster}
    taken = sum(others.values())
    if workers + taken < slots:
        return
    beside = f", {' and '.join(f'{held} of cluster {name}' for name, held in others.items())}," if others else ""
    first = "Stop a cluster that is done. " if others else ""
    raise ClusterStartError(
        f"{workers} workers{beside} and at least one task of the query need {workers + taken + 1} task slots, and this "
        f"session has {slots}. {first}{remedy_for_slots(context, workers + taken + 1)}"
    )


def _may_grow(context: SparkContext) -> bool:
    """Whether the session adds executors as it needs them."""
    return context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true"


def _fixed(context: SparkContext) -> bool:
    """Whether the session has all its slots from the start; elsewhere executors come one by one."""
    return (context.master or "").startswith("local[")
