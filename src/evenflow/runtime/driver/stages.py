"""What Spark knows of a feeder's stage: how much of its RDD it computes, and which RDD persists the result.

It is read from the scheduler, which has a stage from before its first task until its job is over; the status store may
be behind. A stage is read once, with a few calls over py4j and one text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from pyspark import SparkContext

from evenflow.control.events import StageFacts
from evenflow.errors import first_line

KEPT = 1000
"""The most pairs of stage and operator that are remembered."""
TRIES = 5
"""The scheduler changes its table while it is read, so that a stage may be missed once."""
PAUSE_S = 0.02
JvmObject: TypeAlias = Any
"""An object of Spark's, reached over py4j, which has no types."""
SCOPE = "MapInArrow"
"""The node of Spark's plan in which an operator runs."""


@dataclass(frozen=True, slots=True)
class RDD:
    """An RDD that a stage computes."""

    id: int
    partitions: int
    parents: tuple[int, ...]
    persisted: bool
    node: str = ""
    """The node of Spark's plan that it comes from; empty if that is not a `mapInArrow`."""


class Stages:
    """Reads the stages of a session from its scheduler."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._known: dict[tuple[str, str], StageFacts] = {}

    def facts(self, stage: str, mark: str, execution: str) -> StageFacts | str:
        """The facts of a stage in which an operator runs; a text that says why if they cannot be read.

        `mark` identifies the operator: only its code contains it.
        """
        known = self._known.get((stage, mark))
        if known is None:
            try:
                known = self._read(int(stage), mark, execution)
            except Exception as error:  # py4j and Spark raise many classes; nothing is guessed then
                return f"Spark does not tell what stage {stage} computes: {first_line(error)}"
            if known is None:
                return f"stage {stage} is given up: Spark has no job any more that it belongs to"
            self._known[stage, mark] = known
            for old in list(self._known)[:-KEPT]:
                del self._known[old]
        return known

    def unpersisted(self, rdds: Iterable[int]) -> frozenset[int]:
        """Which of some RDDs are no longer persisted; none if Spark does not say."""
        try:
            kept = self._context._jsc.sc().persistentRdds()
            return frozenset(rdd for rdd in rdds if not kept.contains(rdd))
        except Exception:  # the session is being stopped, and all state with it
            return frozenset()

    def _read(self, stage: int, mark: str, execution: str) -> StageFacts | None:
        found = self._find(stage)
        if found is None:
            return None
        told = self._told(self._scheduler.SparkListenerStageSubmitted(found.latestInfo(), None))["Stage Info"]
        rdds = {rdd.id: rdd for rdd in map(_rdd, told["RDD Info"])}
        top = next(iter(rdds.values()))
        operators = operators_in(rdds)
        if len(operators) > 1:
            operators = [rdd for rdd in operators if mark.encode() in _code(_object(found.rdd(), rdds, top.id, rdd))]
        if not operators and any(rdd.persisted for rdd in rdds.values()):
            raise ValueError(f"operator {mark} is not to be found among what it computes")
        return StageFacts(
            tasks=int(told["Number of Tasks"]),
            partitions=top.partitions,
            rdd=top.id,
            result=str(found.toString()).startswith("ResultStage"),
            execution=execution,
            inputs=sum(rdds[rdd].partitions for rdd in operators),
            kept=keeper_of(rdds, operators),
            live=frozenset(str(self._table.keys().mkString(",")).split(",")),
        )

    def warm_up(self) -> None:
        """Have Spark load the classes that it needs to answer: the first time that takes a second."""
        self._told(self._scheduler.SparkListenerLogStart(""))

    def _told(self, event: JvmObject) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._protocol.sparkEventToJsonString(event))
        return told

    @cached_property  # cached: each name on the path is a call over py4j
    def _scheduler(self) -> JvmObject:
        jvm: JvmObject = self._context._jvm
        return jvm.org.apache.spark.scheduler

    @cached_property
    def _protocol(self) -> JvmObject:
        jvm: JvmObject = self._context._jvm
        return jvm.org.apache.spark.util.JsonProtocol

    @cached_property
    def _table(self) -> JvmObject:
        return self._context._jsc.sc().dagScheduler().stageIdToStage()

    def _find(self, stage: int) -> JvmObject:
        for again in range(TRIES):
            found = self._table.get(stage)
            if not found.isEmpty():
                return found.get()
            if again < TRIES - 1:
                time.sleep(PAUSE_S)
        return None


def _rdd(told: Mapping[str, Any]) -> RDD:
    scope = json.loads(told.get("Scope", "{}"))
    level = told["Storage Level"]
    return RDD(
        int(told["RDD ID"]),
        int(told["Number of Partitions"]),
        tuple(told["Parent IDs"]),
        bool(level["Use Memory"] or level["Use Disk"]),
        scope["id"] if scope.get("name") == SCOPE else "",
    )


def operators_in(rdds: Mapping[int, RDD]) -> list[int]:
    """The RDDs that apply operators: the first RDD of each node of the plan; later RDDs of a node only pack rows."""
    return [
        rdd.id
        for rdd in rdds.values()
        if rdd.node and all(parent not in rdds or rdds[parent].node != rdd.node for parent in rdd.parents)
    ]


def keeper_of(rdds: Mapping[int, RDD], operators: list[int]) -> int | None:
    """The first persisted RDD that the rows of an operator reach; None if there is none."""
    after: dict[int, list[int]] = {}
    for rdd in rdds.values():
        for parent in rdd.parents:
            after.setdefault(parent, []).append(rdd.id)
    front = list(operators)
    while front:
        persisted = [rdd for rdd in front if rdds[rdd].persisted]
        if persisted:
            return min(persisted)
        front = [following for rdd in front for following in after.get(rdd, ())]
    return None


def _object(top: JvmObject, rdds: Mapping[int, RDD], start: int, target: int) -> JvmObject:
    """Spark's own object for RDD `target`, found from that of `start`, the last RDD of the stage."""
    ways: dict[int, tuple[int, int]] = {}
    """By RDD, the RDD that follows it, and its place among the parents of that RDD."""
    front = [start]
    while front and target not in ways and target != start:
        reached = [(rdd, place, parent) for rdd in front for place, parent in enumerate(rdds[rdd].parents)]
        front = []
        for rdd, place, parent in reached:
            if parent in rdds and parent not in ways:
                ways[parent] = rdd, place
                front.append(parent)
    places = []
    while target != start:
        target, place = ways[target]
        places.append(place)
    for place in reversed(places):
        top = top.dependencies().apply(place).rdd()
    return top


def _code(rdd: JvmObject) -> bytes:
    """The pickled function that an RDD applies to its partitions: it lies within two closures of Spark's."""
    closure = _field(_field(rdd, "f"), "arg$1")
    made_by = _field(closure, "arg$1")
    chained = next(field for field in made_by.getClass().getDeclaredFields() if field.getName().endswith("chainedFunc"))
    chained.setAccessible(True)
    return bytes(chained.get(made_by).head()._1().funcs().head().command().unsafeArray())


def _field(owner: JvmObject, name: str) -> JvmObject:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)
