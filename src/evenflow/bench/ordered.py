"""`evenflow bench ordered`: an ordered region on emulated workers, balance by balance, against the ideal capacity."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from evenflow.bench.probe import ROW_SCHEMA, TALLY_SCHEMA, Source, Tally, tally
from evenflow.model.capacity import Emulate, Slowdown
from evenflow.policy import Balance, BlockingRate, Oracle, balance_named
from evenflow.runtime.cluster.cluster import Cluster

REACTED = 0.9
"""A region has taken a change in when it runs at this share of the new ideal."""
REACTION_WINDOW_S = 0.5
FINE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
"""Spark settings for a bench session: rows reach the tally in small batches, so that short windows can be counted."""


@dataclass(frozen=True)
class Setting:
    """`slow` of the `workers` cost `factor` times `cost_us` a row, up to second `until` (0: always)."""

    workers: int = 8
    slow: int = 4
    factor: float = 10.0
    cost_us: float = 20.0
    seconds: float = 15.0
    until: float = 0.0
    period: float = 1.0
    since: float = 0.0
    """The slow workers are slow only from this second on."""
    also: tuple[tuple[int, float], ...] = ()
    """Further classes of workers after the slow ones, as (workers, factor); they stay as they are."""

    def emulate(self) -> Emulate:
        """The capacities."""
        load = Emulate.load(self.factor, self.since, self.until)
        slowdown: dict[int, Slowdown] = dict.fromkeys(range(self.slow), load)
        for count, factor in self.also:
            slowdown |= dict.fromkeys(range(len(slowdown), len(slowdown) + count), factor)
        return Emulate(self.cost_us, slowdown)

    def balance(self, name: str) -> Balance:
        """The balance of that name for this setting: `lb-static` is the blocking rate without exploration."""
        if name == "lb-static":
            return BlockingRate(explore=False)
        if name == Oracle.name:
            speeds = {second: self._speeds(second) for second in {0.0, self.since, self.until}}
            return Oracle(schedule=sorted(speeds.items()))
        return balance_named(name)

    def _speeds(self, second: float) -> dict[int, float]:
        emulate = self.emulate()
        return {worker: 1.0 / emulate.row_s(worker, second) for worker in range(self.workers)}

    def ideal(self, start: float, end: float) -> float:
        """Rows a second the workers could serve between two seconds."""
        return self.emulate().rows(self.workers, start, end) / (end - start)


@dataclass(frozen=True)
class Outcome:
    """What one balance did in one setting."""

    balance: str
    rows_per_s: float
    of_ideal: float
    """Rows a second from the feeder's joining to the last row out, over the ideal for that time."""
    steady_of_ideal: float
    """The same for the rows that came out in the second half of the feeding time."""
    final_rows_per_s: float
    """Rows a second in the last quarter of the feeding time."""
    reaction_s: float | None
    """From the change of load until the region runs at REACTED of the new ideal; None if never, or no change."""
    in_order: bool
    rows_in: int
    rows_out: int
    seconds: float
    delay_ms: dict[str, float] = field(default_factory=dict)
    weights: dict[int, int] = field(default_factory=dict)


def run(
    spark: SparkSession,
    setting: Setting,
    balance: str,
    event_log: Path | None = None,
    watch: Callable[[float], None] = lambda rows: None,
) -> Outcome:
    """One run; `watch` is told now and then how many rows are through."""
    emulate = setting.emulate()
    with Cluster(spark, setting.workers, period=setting.period, event_log=event_log, emulate=emulate) as cluster:
        made = spark.sparkContext.accumulator(0)
        rows = cast(DataFrame, Source(spark, setting.seconds, made))
        out = cluster.ordered_map(rows, _same, ROW_SCHEMA, balance=setting.balance(balance), name="bench")
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(out.mapInArrow(tally, TALLY_SCHEMA).collect)
            while not job.done():
                watch(cluster.snapshot("bench").rows_out)
                wait([job], timeout=0.2)
        began = next(event["at"] for event in cluster.events() if event["event"] == "feeder-joined")
        seen = Tally.of(job.result()[0], began)
        weights = {c.worker: c.weight for c in cluster.snapshot("bench").connections}
    return _outcome(setting, balance, seen, made.value, weights)


def warm_up(spark: SparkSession) -> None:
    """Start Spark's Python processes and import what they need, so that the first run does not pay for it."""
    with Cluster(spark, 1) as cluster:
        rows = cast(DataFrame, Source(spark, 10.0, spark.sparkContext.accumulator(0), rows=100_000))
        cluster.ordered_map(rows, _same, ROW_SCHEMA).mapInArrow(tally, TALLY_SCHEMA).collect()


def report(setting: Setting, outcomes: list[Outcome]) -> dict[str, object]:
    """The JSON the command writes."""
    return {
        "emulated": True,
        "setting": asdict(setting),
        "ideal_rows_per_s": setting.ideal(0.0, setting.seconds),
        "results": [asdict(outcome) for outcome in outcomes],
    }


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _outcome(setting: Setting, balance: str, seen: Tally, rows_in: int, weights: dict[int, int]) -> Outcome:
    half, end = setting.seconds / 2, setting.seconds
    steady = seen.rows_between(half, end) / (end - half)
    final = seen.rows_between((half + end) / 2, end) / (end - half) * 2
    rate = seen.rows / seen.seconds
    return Outcome(
        balance=balance,
        rows_per_s=rate,
        of_ideal=rate / setting.ideal(0.0, seen.seconds),
        steady_of_ideal=steady / setting.ideal(half, end),
        final_rows_per_s=final,
        reaction_s=_reaction(setting, seen),
        in_order=seen.in_order and seen.rows == rows_in,
        rows_in=rows_in,
        rows_out=seen.rows,
        seconds=seen.seconds,
        delay_ms={f"p{q}": float(np.percentile(seen.delays, q)) * 1e3 for q in (50, 99)},
        weights=weights,
    )


def _reaction(setting: Setting, seen: Tally) -> float | None:
    """Seconds from the change until the region runs at REACTED of the ideal, two half seconds in a row."""
    change = setting.until or setting.since
    if not change:
        return None
    for step in range(round((setting.seconds - change - 2 * REACTION_WINDOW_S) / 0.1)):
        start = change + step * 0.1
        windows = [start + k * REACTION_WINDOW_S for k in range(2)]
        if all(_share(setting, seen, window) >= REACTED for window in windows):
            return round(step * 0.1, 1)
    return None


def _share(setting: Setting, seen: Tally, start: float) -> float:
    end = start + REACTION_WINDOW_S
    return seen.rows_between(start, end) / REACTION_WINDOW_S / setting.ideal(start, end)
