"""The demo's first part: a stream through an ordered region with one slow worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evenflow.cli.demo.stage import REFRESH_S, DemoPart, DemoRun, Look, Stage, play_stream
from evenflow.model import Connection, Snapshot
from evenflow.model.capacity import Emulate
from evenflow.runtime.cluster.cluster import Cluster

BAR = 24
COST_US = 500.0
MICRO_BATCH_S = 1.0
"""A micro-batch has the rows of this many seconds at the ideal rate."""
FACTOR = 10.0
WITHOUT, BALANCED = "round-robin", "credits"


def run_ordered(stage: Stage) -> DemoPart:
    """One of the workers is slow; rows have to come out in order."""
    emulate = Emulate(COST_US, {0: FACTOR})
    ideal = emulate.rows(stage.workers, 0, 1)
    with Cluster(stage.spark, stage.workers, period=REFRESH_S, emulate=emulate, event_log=stage.log) as cluster:
        runs = [_run(stage, cluster, balance, ideal) for balance in (WITHOUT, BALANCED)]
    return DemoPart(
        "a slow worker",
        f"One of {stage.workers} workers is {FACTOR:g} times slower than the others, and rows must stay in order: "
        "shared out in turn, all wait for it.",
        "rows/s",
        runs[0][0],
        runs[1][0],
        sound=all(whole for _, whole in runs),
        checked="every row came out once, in order",
    )


def _run(stage: Stage, cluster: Cluster, balance: str, ideal: float) -> tuple[DemoRun, bool]:
    """Run one balance; also whether all rows of finished micro-batches came in order."""
    table = f"demo_{balance.replace('-', '_')}"
    source = stage.spark.readStream.format("rate-micro-batch")
    rows = source.options(rowsPerBatch=int(ideal * MICRO_BATCH_S), numPartitions=1).load()
    out = cluster.ordered_map(rows, _score, "timestamp timestamp, value long", balance=balance, name=balance)
    checked = out.mapInArrow(_check, "first long, last long, rows long, in_order boolean")
    query = checked.writeStream.format("memory").queryName(table).start()
    region = cluster.region(balance)
    seen = [cast(Snapshot, region.snapshot())]

    def look() -> Look:
        seen.append(cast(Snapshot, region.snapshot()))
        before, now = seen[-2:]
        return Look(
            now.feeding_s, now.rows_out, lambda elapsed: _page(balance, elapsed, stage.seconds, ideal, before, now)
        )

    run = play_stream(stage, balance, query, look)
    return run, _whole(stage.spark.table(table))


def _whole(table: DataFrame) -> bool:
    """Whether each micro-batch that `_check` told of continued where the last ended, and was in order."""
    seen = sorted(row for row in table.collect() if row.rows)
    starts, ends = [row.first for row in seen], [row.last + 1 for row in seen]
    return bool(seen) and starts == [0, *ends][: len(starts)] and all(row.in_order for row in seen)


def _page(
    balance: str, elapsed: float, seconds: float, ideal: float, before: Snapshot, now: Snapshot
) -> RenderableType:
    span = max(1e-9, now.time - before.time)
    rate = (now.rows_out - before.rows_out) / span
    head = Text.assemble(
        (f"{balance}  ", "bold"),
        f"{elapsed:4.0f} of {seconds:.0f} s   {rate:>9,.0f} rows/s, {rate / ideal:4.0%} of ideal",
    )
    table = Table("worker", "rows/s", "", "weight", "blocking", box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    table.columns[2].justify = "left"
    old = {connection.worker: connection for connection in before.connections}
    feeding = now.feeding_s - before.feeding_s
    rates = {c.worker: _rise(c, old, "rows_done") / span for c in now.connections}
    top = max([1.0, *rates.values()])
    for c in now.connections:
        blocked = _rise(c, old, "blocked_s") / feeding if feeding else 0.0
        bar = Text("█" * round(BAR * rates[c.worker] / top), style="cyan")
        table.add_row(str(c.worker), f"{rates[c.worker]:,.0f}", bar, f"{c.weight / 10:.1f} %", f"{blocked:.0%}")
    return Group(head, table)


def _rise(connection: Connection, old: dict[int, Connection], counter: str) -> float:
    past = old.get(connection.worker)
    known = past is not None and past.incarnation == connection.incarnation
    return float(getattr(connection, counter) - (getattr(past, counter) if known else 0))


def _score(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    values = [batch.column("value").to_numpy() for batch in batches if batch.num_rows]
    joined = np.concatenate(values) if values else np.empty(0, np.int64)
    first, last = (int(joined[0]), int(joined[-1])) if len(joined) else (0, 0)
    columns = [[first], [last], [len(joined)], [bool((np.diff(joined) == 1).all())]]
    yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=["first", "last", "rows", "in_order"])
