"""Spark's task slots, and which clusters of a session hold how many of them.

A worker holds a slot for as long as it runs. Clusters of one session share its slots, and so do the queries that feed
them: at least one slot must be left, or every query waits for ever, without a word.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from evenflow.errors import ClusterStartError

_lock = threading.Lock()
_held: WeakKeyDictionary[SparkContext, dict[str, int]] = WeakKeyDictionary()
"""By session, the workers of each of its clusters."""


def slot_count(context: SparkContext) -> int:
    """How many tasks Spark can run at once now."""
    spark = context._jsc.sc()
    return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))


def hold_slots(context: SparkContext, cluster: str, workers: int) -> None:
    """A cluster is about to start; refused if its session cannot have a slot left for queries, now or later."""
    with _lock:
        if _fixed(context):
            _check(context, cluster, workers)
        _held.setdefault(context, {})[cluster] = workers


def check_slots(context: SparkContext, cluster: str) -> None:
    """Once its workers run: refused if all clusters together leave no slot for queries."""
    with _lock:
        if not _may_grow(context):
            _check(context, cluster, _held[context][cluster])


def give_back(context: SparkContext, cluster: str) -> None:
    """A cluster is over."""
    with _lock:
        _held.get(context, {}).pop(cluster, None)


def slots_needed(context: SparkContext) -> int:
    """For the workers of all clusters, and a query."""
    with _lock:
        return sum(_held.get(context, {}).values()) + 1


def remedy_for_slots(context: SparkContext, slots: int) -> str:
    """What to do where a session has fewer slots than are needed."""
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
    """Whether the session asks for executors as it needs them."""
    return context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true"


def _fixed(context: SparkContext) -> bool:
    """Whether all slots there will ever be are there from the start: elsewhere executors come one by one."""
    return (context.master or "").startswith("local[")
