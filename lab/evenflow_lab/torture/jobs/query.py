"""The queries of the jobs, each as a writer that is ready to start: a keyed operator, with rules, a join, a graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.torture.faults.hooks import Hooks
from evenflow_lab.torture.faults.inject import UnitRanges
from evenflow_lab.torture.jobs import sinks
from evenflow_lab.torture.jobs.graph_drawing import draw_graph, plan_of
from evenflow_lab.torture.jobs.operator import Counted, Slowly
from evenflow_lab.torture.jobs.renaming import AS_BEFORE, OTHER, Naming
from evenflow_lab.torture.jobs.rows import SCHEMA, SPAN_S, lateness_s, source_names
from evenflow_lab.torture.schedule import GRAPH, REGION, WINDOWS, Job, Schedule, place_of

RULE = (
    f"""SELECT min(id) AS id, k, sum(nth) AS nth, avg(mean) AS mean FROM Row.win:time_batch({SPAN_S} sec) GROUP BY k"""
)


def regions(schedule: Schedule) -> UnitRanges:
    """The regions of a schedule's queries, and their operators."""
    found: dict[str, Any] = {}
    for number in range(schedule.job.queries):
        if schedule.job.kind == "graph":
            nodes = plan_of(draw_graph(schedule)).nodes
            found[place_of(GRAPH, number)] = [range(node.first, node.first + node.units) for node in nodes]
            continue
        found[place_of(REGION, number)] = ()
        if schedule.job.windows or schedule.job.pairs_s:
            found[place_of(WINDOWS, number)] = ()
    renamed = any(fault.kind == "rename" for fault in schedule.faults)
    return found | ({name + OTHER: units for name, units in found.items()} if renamed else {})


@dataclass(frozen=True, slots=True)
class TortureQuery:
    """One of a job's queries, on a cluster."""

    spark: SparkSession
    cluster: Cluster
    hooks: Hooks
    number: int = 0
    naming: Naming = AS_BEFORE

    @property
    def job(self) -> Job:
        return self.hooks.schedule.job

    @property
    def out(self) -> Path:
        """Where it writes."""
        return self.hooks.folder / place_of("out", self.number)

    def writer(self) -> DataStreamWriter:
        """The query, ready to be started."""
        if self.job.kind == "graph":
            return self._graph()
        rows = self._pairs() if self.job.pairs_s else self._windows() if self.job.windows else self._counted()
        out, hooks, job = self.out, self.hooks, self.job
        match job.sink:
            case "peeks":
                return rows.writeStream.foreachBatch(lambda some, epoch: sinks.peek_and_write(some, out / str(epoch)))
            case "skips":
                return rows.writeStream.foreachBatch(lambda some, epoch: sinks.write_all(some, job, out, epoch, hooks))
            case _:
                return rows.writeStream.format("parquet").option("path", str(out))

    def _named(self, name: str) -> dict[str, Any]:
        """The name and the tuning of an operator."""
        tuning = Tuning(transfer=self.job.transfer, units=None if name == GRAPH else self.job.units)
        return {"tuning": tuning} | self.naming.options(place_of(name, self.number))

    def _input(self, source: str = "", files: int = 0) -> DataFrame:
        taken = self.spark.readStream.schema(SCHEMA).option(
            "maxFilesPerTrigger", files or self.job.files or self.job.partitions
        )
        rows = taken.parquet(str(self.hooks.folder / "in" / source))
        return rows.mapInArrow(Slowly(self.job.pause_s), SCHEMA)

    def _counted(self, source: str = "") -> DataFrame:
        job = self.job
        operator = Counted(str(self.hooks.folder), job.ballast)
        options: dict[str, Any] = {"order_by": "id"} if job.order_by else {"ordered": job.ordered}
        options |= self._named(REGION)
        return self.cluster.keyed(self._input(source), "k", operator, **options)

    def _windows(self) -> DataFrame:
        job, out = self.job, self._counted()
        options: dict[str, Any] = {"time": "at", "lateness": lateness_s(job)} | self._named(WINDOWS)
        found = self.cluster.detect(out, RULE, key="k", **options)
        return found.where("late is null").where(found.k < job.keys).drop("late")

    def _pairs(self) -> DataFrame:
        """Pairs of a counted stream and one that may lag; `id` and `nth` are the ids of both rows."""
        job, (left, right) = self.job, source_names(self.job)
        other = self._input(right, job.lag).toDF("id2", "k", "v2", "at2")
        options: dict[str, Any] = {
            "seconds": job.pairs_s,
            "time": ("at", "at2"),
            "lateness": lateness_s(job),
        }
        one = self._counted(left).drop("nth", "mean")
        found = self.cluster.join(one, other, "k", **options | self._named(WINDOWS))
        pairs = found.where(col("k") < job.keys)
        return pairs.selectExpr("id", "k", "id2 AS nth", "v + v2 AS mean")

    def _graph(self) -> DataStreamWriter:
        job, hooks = self.job, self.hooks
        drawn = draw_graph(hooks.schedule, str(hooks.folder))
        inputs = {name: self._input(name) for name in source_names(job)}
        out = self.cluster.run(drawn.graph, inputs, placement=job.placement, **self._named(GRAPH))

        def write(rows: DataFrame, endpoint: str, epoch: int) -> None:
            target = self.out / endpoint / str(epoch)
            if job.sink == "skips":
                sinks.keep_first(rows, target, hooks)
            else:
                sinks.overwrite(rows, target)

        return out.writeStream(write)
