"""One case from its rows to a verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import evenflow as ef
from tests.differential import actions, operators, rules
from tests.differential.actions import Seen, Stream, refusal_of
from tests.differential.cases import CHECKPOINTED, Case
from tests.differential.compare import difference, schema_difference
from tests.differential.source import ONE_FILE_A_PARTITION, Source, make, packed

QUICK = {"spark.sql.shuffle.partitions": "2", "spark.sql.execution.arrow.maxRecordsPerBatch": "50"}
CASE_S = 180.0
MAY_REFUSE = ("foreach-empty",)
"""Streams that are evaluated twice: right, or refused."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    case: Case
    wrong: str = ""
    """What differs, and the first rows that do; nothing if all is well."""
    refused: tuple[str, ...] = ()
    """What was refused, where that is allowed."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.case}\n{self.wrong or 'right'}" + "".join(f"\nrefused: {said}" for said in self.refused)


class Clusters:
    """The clusters that cases run on: one of them has a checkpoint, and starts when it is needed."""

    def __init__(self, plain: ef.Cluster, stored: Callable[[], ef.Cluster]) -> None:
        self._plain, self._stored = plain, stored

    def of(self, case: Case) -> ef.Cluster:
        return self._stored() if case.workers_store else self._plain


def run_case(spark: SparkSession, clusters: Clusters, case: Case, folder: Path) -> Outcome:
    """Run it, whatever happens; the verdict."""
    begun = time.monotonic()
    refused: list[str] = []
    try:
        cluster = clusters.of(case)
        with settings(spark, QUICK | ONE_FILE_A_PARTITION), patience(spark, f"differential-{case.seed}"):
            wrong = _run(spark, cluster, case, folder, refused)
    except Exception as error:
        said = refusal_of(error)
        if said and case.action in MAY_REFUSE:
            refused.append(said)
            wrong = ""
        else:
            wrong = f"failed: {said or str(error)[:2000]}"
    return Outcome(case, wrong, tuple(refused), time.monotonic() - begun)


@dataclass(frozen=True)
class Expected:
    """The rows of the reference, and how those of a result are compared with them."""

    schema: StructType
    rows: list[Any]
    given: list[bool]
    groups: dict[int, int] | None
    """Of each id its key's number, where only how often each key was counted so far is compared."""

    @classmethod
    def of(cls, df: DataFrame, case: Case) -> Expected:
        """What Spark makes of the rows of a case."""
        reference = (rules if case.rule else operators).expected(df, case)
        rows = reference.collect()
        if case.what != "tally":
            return cls(reference.schema, rows, [name in df.columns for name in reference.columns], None)
        number = F.dense_rank().over(Window.orderBy(*operators.keys(case)))
        groups = {row["id"]: row["number"] for row in df.select("id", number.alias("number")).collect()}
        return cls(reference.schema, [(groups[row["id"]], row["n"]) for row in rows], [True, True], groups)

    def verdict(self, seen: Seen) -> str:
        """What is wrong with what was seen; nothing if it is right, or was refused."""
        if seen.rows is None:
            return ""
        if seen.count is not None and len(seen.rows) != seen.count:
            return f"{seen.what}: {len(seen.rows)} rows instead of {seen.count}"
        rows = [row for row in seen.rows if row is not None]
        if self.groups is not None:
            rows = [(self.groups[row["id"]], row["n"]) for row in rows]
        wrong = difference(rows, self.rows, self.given, seen.partial)
        return wrong and f"{seen.what}: {wrong}"


def _run(spark: SparkSession, cluster: ef.Cluster, case: Case, folder: Path, refused: list[str]) -> str:
    source = make(case, folder / "in")
    applied = (rules if case.rule else operators).applied

    def result(df: DataFrame) -> DataFrame:
        return applied(cluster, df, case)

    seen: Iterator[Seen] | list[Seen]
    if case.streaming:
        out, seen = _stream(spark, source, result, folder)
        expected = Expected.of(source.batch(spark), case)
    else:
        source.write()
        expected = Expected.of(source.batch(spark), case)
        out = result(source.batch(spark))
        seen = actions.batch(out, case, len(expected.rows), folder)
    found = [schema_difference(out.schema, expected.schema)]
    for one in seen:
        found.append(expected.verdict(one))
        refused += [f"{one.what}: {one.refused}"] if one.refused else []
    return "\n".join(filter(None, found))


def _stream(
    spark: SparkSession, source: Source, result: Callable[[DataFrame], DataFrame], folder: Path
) -> tuple[DataFrame, list[Seen]]:
    """Run a stream to its end, with a restart on the way if the case has one; what came out."""
    case = source.case
    stream = Stream(spark, folder, case)
    if case.action in CHECKPOINTED:
        source.write(last=case.batches - 1)
        stream.run(result(source.stream(spark)), all_there=False)
        source.write(first=case.batches - 1)
        with settings(spark, packed(case.after)):
            out = result(source.stream(spark))
            stream.run(out)
    else:
        source.write()
        out = result(source.stream(spark))
        stream.run(out)
    return out, [stream.rows(out)]


@contextmanager
def patience(spark: SparkSession, group: str) -> Iterator[None]:
    """Cancel what this thread asks Spark for if it takes too long; streams have limits of their own."""
    context = spark.sparkContext
    context.setJobGroup(group, f"no more than {CASE_S:.0f} s", interruptOnCancel=True)
    alarm = threading.Timer(CASE_S, context.cancelJobGroup, [group])
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()
        alarm.join()
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Spark's settings for a while."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
