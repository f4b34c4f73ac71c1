"""What Spark says of the streaming queries that feed a cluster."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

KEPT = 100
"""Runs that are remembered, at most."""


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

    def untouched(self, query: str, epoch: int) -> bool:
        """Whether no batch of a query before this one had rows. Batch 0 often has none, and no tasks."""
        stream = self._spark.streams.get(query)
        rows = {progress["batchId"]: progress["numInputRows"] for progress in stream.recentProgress} if stream else {}
        return all(rows.get(earlier) == 0 for earlier in range(epoch))
