"""The queries of the jobs, each as a writer that is ready to be started: a keyed operator, with rules, or a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenflow.runtime.cluster.cluster import Cluster
from evenflow.torture.graph_drawing import draw_graph, plan_of
from evenflow.torture.inject import UnitRanges
from evenflow.torture.operator import Counted, Slowly
from evenflow.torture.rows import SCHEMA, SPAN_S, lateness_s, source_names
from evenflow.torture.schedule import Job, Schedule

REGION = "counted"
WINDOWS = "windows"
GRAPH = "graph"
RULE = (
    f"""SELECT min(id) AS id, k, sum(nth) AS nth, avg(mean) AS mean FROM Row.win:time_batch({SPAN_S} sec) GROUP BY k"""
)
BATCH = "streaming.sql.batchId"
"""Where Spark notes the number of the micro-batch for whatever runs in it."""


def regions(schedule: Schedule) -> UnitRanges:
    """The regions of a schedule's query, and their operators."""
    if schedule.job.kind == "graph":
        return {GRAPH: [range(node.first, node.first + node.units) for node in plan_of(draw_graph(schedule)).nodes]}
    return {REGION: (), WINDOWS: ()} if schedule.job.windows else {REGION: ()}


def writer(spark: SparkSession, cluster: Cluster, folder: Path, schedule: Schedule) -> DataStreamWriter:
    """The query of a schedule, which reads from `folder` and writes there."""
    if schedule.job.kind == "graph":
        return _graph(spark, cluster, folder, schedule)
    job, out = schedule.job, _keyed(spark, cluster, folder, schedule.job)
    if job.sink == "peeks":
        return out.writeStream.foreachBatch(lambda rows, number: _peek_and_write(rows, folder / "out" / str(number)))
    return out.writeStream.format("parquet").option("path", str(folder / "out"))


def _input(spark: SparkSession, folder: Path, job: Job) -> DataFrame:
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", job.files or job.partitions)
    return files.parquet(str(folder)).mapInArrow(Slowly(job.pause_s), SCHEMA)


def _keyed(spark: SparkSession, cluster: Cluster, folder: Path, job: Job) -> DataFrame:
    rows = _input(spark, folder / "in", job)
    operator = Counted(str(folder), job.ballast)
    options: dict[str, Any] = {"order_by": "id"} if job.order_by else {"ordered": job.ordered}
    out = cluster.keyed(rows, "k", operator, units=job.units, transfer=job.transfer, name=REGION, **options)
    if not job.windows:
        return out
    late = lateness_s(job)
    found = cluster.detect(out, RULE, key="k", time="at", lateness=late, units=job.units, name=WINDOWS)
    return found.where("late is null").where(found.k < job.keys).drop("late")


def _graph(spark: SparkSession, cluster: Cluster, folder: Path, schedule: Schedule) -> DataStreamWriter:
    job, drawn = schedule.job, draw_graph(schedule, str(folder))
    inputs = {name: _input(spark, folder / "in" / name, job) for name in source_names(job)}
    out = cluster.run(drawn.graph, inputs, placement=job.placement, transfer=job.transfer, name=GRAPH)

    def write(rows: DataFrame, endpoint: str) -> None:
        number = spark.sparkContext.getLocalProperty(BATCH)
        _write(rows, folder / "out" / endpoint / str(number))

    return out.writeStream(write)


def _peek_and_write(rows: DataFrame, target: Path) -> None:
    """Look at the rows of a batch before they are written."""
    rows.persist()
    try:
        if rows.count():
            rows.head(1)
        _write(rows, target)
    finally:
        rows.unpersist()


def _write(rows: DataFrame, target: Path) -> None:
    """Write the rows of a batch, overwriting what an earlier try wrote."""
    rows.write.mode("overwrite").parquet(str(target))
