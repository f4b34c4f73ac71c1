"""The streaming queries that feed a cluster, as Spark knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenflow.runtime.driver.stages import SCOPE, JvmObject

KEPT = 100
"""The most runs that are remembered."""
FIRST = ("GraphTask", "KeyedTask", "RowTask")
"""The tasks of plan nodes that take in rows for operators with state."""
LAST = ("GraphTask", "KeyedTask", "TickTask")
"""The tasks of plan nodes that give their results: an operator whose rows are put in order has two nodes."""


class Queries:
    """Tells whether a run of a query was stopped by the user, which is no failure."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, StreamingQuery | None] = {}

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
        """How often operators are in the plan of a query, by marks that only their code contains; None: not known."""
        with suppress(Exception):  # Spark's classes differ by version; None if the plan cannot be read
            stream: JvmObject = self._spark.streams.get(query)
            nodes = _nodes(stream._jsq.streamingQuery().logicalPlan())
            code = [_code(node) for node in nodes if _runs(node, LAST)]
            return {name: sum(mark.encode() in each for each in code) for name, mark in marks.items()}
        return None

    def untouched(self, query: str, epoch: int, mark: str) -> bool:
        """Whether no batch of a query before this one had rows for the operator with this mark.

        Batch 0 often has none of any source, and no tasks; and one source may have its first rows later than others.
        """
        stream = self._spark.streams.get(query)
        rows = {progress["batchId"]: progress["numInputRows"] for progress in stream.recentProgress} if stream else {}
        return all(rows.get(earlier) == 0 for earlier in range(epoch)) or self.quiet(query, 0, epoch - 1, mark)

    def quiet(self, query: str, first: int, last: int, mark: str = "") -> bool:
        """Whether Spark's log of offsets shows that an operator, or any of ours, cannot have had rows in these batches.

        Spark runs no task of an operator if the sources that feed it have nothing new: when another source has, or to
        let a watermark pass. Then the offsets of these sources are those of the batch before. A log that cannot be read
        shows nothing; Spark keeps that of the last 100 batches. Nor does a plan in which the operator is not found.
        """
        stream = self._spark.streams.get(query)
        if stream is not None:
            with suppress(Py4JError):  # another Spark, which names these things otherwise
                return _unread(stream._jsq.streamingQuery(), first - 1, last, mark)
        return False


def _unread(execution: JvmObject, before: int, after: int, mark: str) -> bool:
    """Whether all sources that feed an operator, or any, are after a batch where they were after an earlier one.

    Before batch 0, no source has an offset.
    """
    sources = list(_each(execution.sources()))
    old, new = ([None] * len(sources) if end < 0 else _offsets(execution.offsetLog(), end) for end in (before, after))
    if old is None or new is None or not len(old) == len(new) == len(sources):
        return False
    read = [source for source, *offsets in zip(sources, old, new, strict=True) if offsets[0] != offsets[1]]
    nodes = [node for node in _nodes(execution.logicalPlan()) if _runs(node, FIRST) and mark.encode() in _code(node)]
    fed = [_source(leaf) for node in nodes for leaf in _leaves(node)]
    return bool(fed) and not any(source.equals(each) for source in read for each in fed)


def _offsets(log: JvmObject, batch: int) -> list[str | None] | None:
    """How far each source was read by a batch, None where it had nothing yet; None if the log does not have it."""
    found = log.get(batch)
    if not found.isDefined():
        return None
    return [str(each.get()) if each.isDefined() else None for each in _each(found.get().offsets())]


def _each(sequence: JvmObject) -> Iterator[JvmObject]:
    """The elements of a sequence of Scala's."""
    return (sequence.apply(number) for number in range(sequence.size()))


def _nodes(plan: JvmObject) -> Iterator[JvmObject]:
    """All nodes of a plan, from the top."""
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _leaves(plan: JvmObject) -> Iterator[JvmObject]:
    """The streams that a part of a plan reads."""
    return (node for node in _nodes(plan) if node.children().isEmpty() and node.isStreaming())


def _source(leaf: JvmObject) -> JvmObject:
    """The source of a stream in a plan: Spark has two kinds of them."""
    return leaf.source() if "StreamingExecutionRelation" in leaf.getClass().getName() else leaf.stream()


def _runs(node: JvmObject, tasks: tuple[str, ...]) -> bool:
    """Whether a node of a plan runs one of these tasks, by the name of its function."""
    return str(node.nodeName()) == SCOPE and str(node.functionExpr().name()) in tasks


def _code(node: JvmObject) -> bytes:
    """The pickled function of a node in which an operator may run."""
    return bytes(node.functionExpr().func().command().unsafeArray())
