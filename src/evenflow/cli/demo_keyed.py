"""The demo's second part: a running count by key, of which one is hot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evenflow.cli.demo_stage import REFRESH_S, DemoPart, DemoRun, Look, Stage, play
from evenflow.model import KeyedSnapshot
from evenflow.model.capacity import Emulate
from evenflow.operators.rolling import RunningCount
from evenflow.policy.keyed.loads import imbalance
from evenflow.runtime.cluster.cluster import Cluster

BAR = 24
COST_US = 500.0
MICRO_BATCH_S = 1.0
KEYS = 997
HOT = 4
"""One of so many rows has the hot key."""
UNITS = 256
WITHOUT, BALANCED = "hash", "auto"


def run_keyed(stage: Stage) -> DemoPart:
    """A quarter of all rows has the same key."""
    emulate = Emulate(COST_US)
    with Cluster(stage.spark, stage.workers, period=REFRESH_S / 2, emulate=emulate, event_log=stage.log) as cluster:
        runs = [_run(stage, cluster, balance) for balance in (WITHOUT, BALANCED)]
    return DemoPart(
        "a hot key",
        f"One row in {HOT} has the same key: its worker has more to do than the others, and all wait for it, until "
        "the other keys have left that worker.",
        "rows/s",
        runs[0][0],
        runs[1][0],
        sound=all(right for _, right in runs),
        checked="every count of every key",
    )


def _run(stage: Stage, cluster: Cluster, balance: str) -> tuple[DemoRun, bool]:
    """Run one balance; also whether all counts were right."""
    table = f"demo_keyed_{balance}"
    batch = int(stage.workers / COST_US * 1e6 * MICRO_BATCH_S)
    source = stage.spark.readStream.format("rate-micro-batch").options(rowsPerBatch=batch, numPartitions=1).load()
    key = F.when(F.col("value") % HOT == 0, F.lit(-1)).otherwise(F.col("value") % KEYS)
    rows = source.select("value", key.alias("key"))
    out = cluster.keyed(rows, "key", RunningCount("value", into="n"), units=UNITS, balance=balance, name=balance)
    query = out.mapInArrow(_tally, "rows long, counts long").writeStream.format("memory").queryName(table).start()
    run = play(stage, balance, query, keyed_look(cluster, balance, stage.seconds, "rows/s"))
    return run, _right(stage.spark.table(table))


def _tally(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    totals = [(batch.num_rows, pc.sum(batch.column("n")).as_py() or 0) for batch in batches]
    rows, counts = (sum(each[place] for each in totals) for place in (0, 1))
    yield pa.RecordBatch.from_arrays([pa.array([rows]), pa.array([counts])], names=["rows", "counts"])


def _right(table: DataFrame) -> bool:
    """Whether the counts of all rows are those of the keys that the rows had: 1 + 2 + ... for each key."""
    rows, counts = table.agg(F.sum("rows"), F.sum("counts")).collect()[0]
    values = np.arange(rows or 0)
    keys = np.bincount(np.where(values % HOT == 0, KEYS, values % KEYS), minlength=1)
    return bool(rows) and int((keys * (keys + 1) // 2).sum()) == counts


def keyed_look(
    cluster: Cluster, region: str, seconds: float, unit: str, more: Callable[[], list[Text]] = list
) -> Callable[[], Look]:
    """Looks at a keyed region, for `play`; what `more` gives is shown below its workers."""
    seen = [cluster.keyed_snapshot(region)]

    def look() -> Look:
        seen.append(cluster.keyed_snapshot(region))
        before, now = seen[-2:]
        lines = more()

        def page(elapsed: float) -> RenderableType:
            return Group(_head(region, elapsed, seconds, unit, before, now), _workers(unit, before, now), *lines)

        return Look(now.time, int(_rows(now).sum()), page)

    return look


def _rows(snapshot: KeyedSnapshot) -> np.ndarray:
    return np.array([consumer.rows for consumer in snapshot.consumers], np.int64)


def _head(
    label: str, elapsed: float, seconds: float, unit: str, before: KeyedSnapshot, now: KeyedSnapshot
) -> RenderableType:
    load, span = _rows(now) - _rows(before), max(1e-9, now.time - before.time)
    return Text.assemble(
        (f"{label}  ", "bold"),
        f"{elapsed:4.0f} of {seconds:.0f} s   {load.sum() / span:>9,.0f} {unit}   ",
        f"imbalance {imbalance(load):3.0f} %   {now.moved:,} units moved",
    )


def _workers(unit: str, before: KeyedSnapshot, now: KeyedSnapshot) -> Table:
    load, span = _rows(now) - _rows(before), max(1e-9, now.time - before.time)
    table = Table("worker", unit, "", "units", box=None, pad_edge=False)
    for place in (0, 1, 3):
        table.columns[place].justify = "right"
    owners = np.bincount(now.table.owners, minlength=len(now.consumers))
    for place, consumer in enumerate(now.consumers):
        bar = Text("█" * round(BAR * load[place] / max(1, load.max())), style="cyan")
        table.add_row(str(consumer.worker), f"{load[place] / span:,.0f}", bar, f"{owners[consumer.worker]:,}")
    return table
