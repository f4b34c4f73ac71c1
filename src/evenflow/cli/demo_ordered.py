"""The demo's first part: a stream through an ordered region with one slow worker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evenflow.model import Connection, Snapshot
from evenflow.model.capacity import Emulate
from evenflow.runtime.cluster.cluster import Cluster

REFRESH_S = 0.5
BAR = 24
COST_US = 100.0
MICRO_BATCH_S = 0.5
"""A micro-batch has the rows of this many seconds at the ideal rate."""
BATCH_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class OutputTotals:
    """What has come out of the region so far."""

    rows: int
    batches: int
    in_order: bool

    @classmethod
    def of(cls, table: DataFrame) -> OutputTotals:
        """The totals of the rows that `_check` gave for each micro-batch; each must continue where the last ended."""
        seen = sorted(row for row in table.collect() if row.rows)
        starts, ends = [row.first for row in seen], [row.last + 1 for row in seen]
        whole = starts == [0, *ends][: len(starts)] and all(row.in_order for row in seen)
        return cls(sum(row.rows for row in seen), len(seen), whole)


def run_ordered(
    console: Console, spark: SparkSession, seconds: float, workers: int, factor: float, balances: list[str]
) -> None:
    """Run each balance for `seconds` with one slow worker, show it live, and compare them at the end."""
    emulate = Emulate(COST_US, {0: factor})
    ideal = emulate.rows(workers, 0, 1)
    results = [(name, *_run(console, spark, name, seconds, workers, emulate)) for name in balances]
    table = Table(title=f"{workers} workers, worker 0 {factor:g}x slower: ideal {ideal:,.0f} rows/s (emulated)")
    for heading in ("balance", "rows", "rows/s", "of ideal", "micro-batches", "in order"):
        table.add_column(heading, justify="left" if heading == "balance" else "right")
    for name, totals, rate in results:
        right = "yes" if totals.in_order else "[red]NO[/red]"
        cells = (f"{totals.rows:,}", f"{rate:,.0f}", f"{rate / ideal:.2f}", str(totals.batches), right)
        table.add_row(name, *cells)
    console.print(table)


def _run(
    console: Console, spark: SparkSession, balance: str, seconds: float, workers: int, emulate: Emulate
) -> tuple[OutputTotals, float]:
    """Run one balance; returns the totals of all finished micro-batches, and rows a second of feeding time."""
    spark.sparkContext.setLogLevel("ERROR")
    ideal = emulate.rows(workers, 0, 1)
    table = f"demo_{balance.replace('-', '_')}"
    rows = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=int(ideal * MICRO_BATCH_S), numPartitions=1)
        .load()
    )
    with Cluster(spark, workers, period=REFRESH_S, emulate=emulate) as cluster:
        out = cluster.ordered_map(rows, _score, "timestamp timestamp, value long", balance=balance, name="demo")
        checked = out.mapInArrow(_check, "first long, last long, rows long, in_order boolean")
        query = checked.writeStream.format("memory").queryName(table).start()
        started = time.monotonic()
        try:
            with Live(console=console, refresh_per_second=4, transient=not console.is_terminal) as live:
                before = cluster.snapshot("demo")
                while (elapsed := time.monotonic() - started) < seconds and query.isActive:
                    time.sleep(REFRESH_S)
                    now = cluster.snapshot("demo")
                    live.update(
                        _page(balance, elapsed, seconds, ideal, OutputTotals.of(spark.table(table)), before, now)
                    )
                    before = now
            if (error := query.exception()) is not None:
                raise error
            spark.sparkContext.setLogLevel("OFF")  # stopping an endless query is no error
            await_batch(query)
        finally:
            query.stop()
        last = cluster.snapshot("demo")
        return OutputTotals.of(spark.table(table)), last.rows_out / max(1e-9, last.feeding_s)


def await_batch(query: StreamingQuery) -> None:
    """Wait for the end of the present micro-batch: processes that are stopped inside one print tracebacks."""
    before, deadline = query.lastProgress, time.monotonic() + BATCH_TIMEOUT_S
    while query.isActive and query.lastProgress == before and time.monotonic() < deadline:
        time.sleep(0.01)


def _page(
    balance: str, elapsed: float, seconds: float, ideal: float, totals: OutputTotals, before: Snapshot, now: Snapshot
) -> Group:
    span = max(1e-9, now.time - before.time)
    rate = (now.rows_out - before.rows_out) / span
    order = "in order" if totals.in_order else "OUT OF ORDER"
    head = Text.assemble(
        (f"{balance}  ", "bold"),
        f"{elapsed:4.0f} of {seconds:.0f} s   {rate:>9,.0f} rows/s, {rate / ideal:4.0%} of ideal   ",
        f"{totals.rows:,} rows through, {order}",
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
