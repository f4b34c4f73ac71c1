"""What Spark says of the streaming queries that feed a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from evenflow.runtime.driver.stages import SCOPE

ROWS = b"RowTask"
"""In the code of the first of two nodes that put rows in order (`runtime.feeder.ticks`)."""
KEPT = 100
"""Runs that are remembered, at most."""
OURS = re.compile(r"MapInArrow (GraphTask|KeyedTask|RowTask)\(")
"""Nodes of a plan by which rows come to operators with state; that of ticks follows that of rows."""


class Queries:
    """Tells whether a run of a query was stopped by the user, which is no failure."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Any] = {}

    def meet(self, query: str, run: str) -> None:
        """Remember the run of a query that has a task here: once it has ended Spark does not return the query."""
        if run and run not in self._runs:
            with suppress(Exception):  # Spark's failures come in many classes; a run not known counts as not stopped
                self._runs[run] = self._spark.streams.get(query)
                for old in list(self._runs)[:-KEPT]:
                    del self._runs[old]

    def stopped(self, run: str) -> bool:
        """Whether a run of a query was stopped by the user."""
        stream = self._runs.get(run)
        with suppress(Exception):  # the session has been stopped, too
            return stream is not None and not stream.isActive and stream.exception() is None
        return False

    def uses(self, query: str, marks: Mapping[str, str]) -> dict[str, int] | None:
        """How often operators are in the plan of a query, by the marks that only their code contains; None: not known.

        An operator whose rows are put in order is in two nodes, of which the first is left out.
        """
        with suppress(Exception):  # Spark's classes differ by version; None if the plan cannot be read
            stream: Any = self._spark.streams.get(query)
            code = [each for each in _functions(stream._jsq.streamingQuery().logicalPlan()) if ROWS not in each]
            return {name: sum(mark.encode() in each for each in code) for name, mark in marks.items()}
        return None

    def untouched(self, query: str, epoch: int) -> bool:
        """Whether no batch of a query before this one had rows. Batch 0 often has none, and no tasks."""
        stream = self._spark.streams.get(query)
        rows = {progress["batchId"]: progress["numInputRows"] for progress in stream.recentProgress} if stream else {}
        return all(rows.get(earlier) == 0 for earlier in range(epoch))

    def quiet(self, query: str, first: int, last: int) -> bool:
        """Whether Spark's log of offsets shows that no operator of ours can have had rows in these batches.

        Spark runs no task of an operator if the sources that feed it have nothing new: when another source has, or to
        let a watermark pass. Then the offsets of these sources are those of the batch before. A log that cannot be read
        shows nothing; Spark keeps that of the last 100 batches.
        """
        stream = self._spark.streams.get(query)
        if stream is not None:
            with suppress(Py4JError):  # another Spark, which names these things otherwise
                return _unread(stream._jsq.streamingQuery(), first - 1, last)
        return False


def _unread(execution: Any, before: int, after: int) -> bool:
    """Whether all sources that feed operators of ours are after a batch where they were after an earlier one."""
    log = execution.offsetLog()
    ends = [log.get(batch) for batch in (before, after)]
    if not all(each.isDefined() for each in ends):
        return False
    old, new = ([str(offset) for offset in _each(end.get().offsets())] for end in ends)
    sources = list(_each(execution.sources()))
    if not len(old) == len(new) == len(sources):
        return False
    read = [source for source, *offsets in zip(sources, old, new, strict=True) if offsets[0] != offsets[1]]
    plan = execution.logicalPlan()
    fed = [_source(leaf) for node in _nodes(plan) if OURS.search(node.simpleString(100)) for leaf in _leaves(node)]
    return not any(source.equals(each) for source in read for each in fed)


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    return (sequence.apply(number) for number in range(sequence.size()))


def _nodes(plan: Any) -> Iterator[Any]:
    """All nodes of a plan, from the top."""
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _leaves(plan: Any) -> Iterator[Any]:
    """The streams that a part of a plan reads."""
    return (node for node in _nodes(plan) if node.children().isEmpty() and node.isStreaming())


def _source(leaf: Any) -> Any:
    """The source of a stream in a plan: Spark has two kinds of them."""
    return leaf.source() if "StreamingExecutionRelation" in leaf.getClass().getName() else leaf.stream()


def _functions(plan: Any) -> Iterator[bytes]:
    """The pickled functions of all nodes of a plan in which an operator may run."""
    if str(plan.nodeName()) == SCOPE:
        yield bytes(plan.functionExpr().func().command().unsafeArray())
    children = plan.children()
    for number in range(children.size()):
        yield from _functions(children.apply(number))
