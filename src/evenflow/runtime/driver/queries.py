"""The streaming queries that feed a cluster, as Spark knows them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

KEPT = 100
"""Runs that are remembered."""


class Queries:
    """Tells whether a query was stopped, which is no failure; by its runs, since it may be started again."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Any] = {}

    def meet(self, query: str, run: str) -> None:
        """A task of a query is here: after its end Spark does not give out the query any more."""
        if run and run not in self._runs:
            with suppress(Exception):  # Spark's failures come in many classes; what is not known was not stopped
                self._runs[run] = self._spark.streams.get(query)
                for old in list(self._runs)[:-KEPT]:
                    del self._runs[old]

    def stopped(self, run: str) -> bool:
        """Whether somebody has stopped this run of a query."""
        stream = self._runs.get(run)
        with suppress(Exception):  # the session is stopped, too
            return stream is not None and not stream.isActive and stream.exception() is None
        return False

    def untouched(self, query: str, epoch: int) -> bool:
        """Whether no batch of a query before this one had any rows; batch 0 often has none, and no tasks."""
        stream = self._spark.streams.get(query)
        rows = {progress["batchId"]: progress["numInputRows"] for progress in stream.recentProgress} if stream else {}
        return all(rows.get(earlier) == 0 for earlier in range(epoch))
