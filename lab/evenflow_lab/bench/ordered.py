"""`evenflow bench ordered`: an ordered region on emulated workers, balance by balance, against the ideal capacity."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import ceil, log
from pathlib import Path
from typing import cast

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from evenflow.cli.polling import Watch, polled
from evenflow.model import Snapshot
from evenflow.model.capacity import Emulate, Slowdown
from evenflow.model.entries import FeederJoinedEntry
from evenflow.policy import Balance, Oracle, balance_named
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.bench.identity import same
from evenflow_lab.bench.latency import performance_of
from evenflow_lab.bench.measuring import logged
from evenflow_lab.bench.probe import ROW_SCHEMA, TALLY_SCHEMA, ProbeSource, Tally, tally

REACTED = 0.9
"""A region has reacted to a change when it runs at this share of the new ideal."""
REACTION_WINDOW_S = 0.5
FINE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
"""Spark settings with which rows reach the tally in small batches, so that rows in short windows can be counted."""


@dataclass(frozen=True)
class OrderedSetting:
    """On `slow` of the `workers` a row costs `factor` times `cost_us`, up to second `until` (0: always)."""

    workers: int = 8
    slow: int = 4
    factor: float = 10.0
    cost_us: float = 20.0
    seconds: float = 15.0
    until: float = 0.0
    period: float = 1.0
    since: float = 0.0
    """The second from which on the slow workers are slow."""
    also: tuple[tuple[int, float], ...] = ()
    """Further classes of workers after the slow ones, as (workers, factor); their factors do not change."""
    change: float = 0.0
    """If above 0, all workers are another 1 to `factor` times slower every so many seconds, whatever else is given."""

    def emulate(self) -> Emulate:
        """The emulated capacities."""
        if self.change:
            logs = np.random.default_rng(1).uniform(0.0, log(self.factor), (self.workers, len(self._turns)))
            drawn = enumerate(np.exp(logs).tolist())
            return Emulate(self.cost_us, {worker: list(zip(self._turns, each, strict=True)) for worker, each in drawn})
        load = Emulate.load(self.factor, self.since, self.until)
        slowdown: dict[int, Slowdown] = dict.fromkeys(range(self.slow), load)
        for count, factor in self.also:
            slowdown |= dict.fromkeys(range(len(slowdown), len(slowdown) + count), factor)
        return Emulate(self.cost_us, slowdown)

    def balance(self, name: str) -> Balance:
        """The balance of a name for this setting."""
        if name == Oracle.name:
            speeds = {second: self._speeds(second) for second in {0.0, self.since, self.until, *self._turns}}
            return Oracle(schedule=sorted(speeds.items()))
        return balance_named(name)

    @property
    def _turns(self) -> list[float]:
        """The seconds at which all speeds change."""
        return [turn * self.change for turn in range(ceil(self.seconds / self.change))] if self.change else []

    def _speeds(self, second: float) -> dict[int, float]:
        emulate = self.emulate()
        return {worker: 1.0 / emulate.row_s(worker, second) for worker in range(self.workers)}

    def ideal(self, start: float, end: float) -> float:
        """Rows a second that the workers could serve between two seconds."""
        return self.emulate().rows(self.workers, start, end) / (end - start)


@dataclass(frozen=True)
class OrderedResult:
    """The figures of one balance in one setting."""

    balance: str
    rows_per_s: float
    of_ideal: float
    """Rows a second from the feeder's joining to the last row out, divided by the ideal for that time."""
    steady_of_ideal: float
    """The same for the second half of the feeding time."""
    final_rows_per_s: float
    """Rows a second in the last quarter of the feeding time."""
    reaction_s: float | None
    """Seconds from the change of load until the region runs at REACTED of the new ideal; None if there is none."""
    in_order: bool
    rows_in: int
    rows_out: int
    seconds: float
    delay_ms: dict[str, float] = field(default_factory=dict)
    weights: dict[int, int] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    """Mean, p50 and p99 of the time from a row's arrival at the feeder until its result left."""


def run(
    spark: SparkSession,
    setting: OrderedSetting,
    balance: str,
    event_log: Path | None = None,
    watch: Watch = lambda rows: None,
) -> OrderedResult:
    """Run one balance."""
    emulate = setting.emulate()
    with Cluster(spark, setting.workers, period=setting.period, event_log=event_log, emulate=emulate) as cluster:
        made = spark.sparkContext.accumulator(0)
        rows = cast(DataFrame, ProbeSource(spark, setting.seconds, made))
        out = cluster.ordered_map(rows, same, ROW_SCHEMA, balance=setting.balance(balance), name="bench")
        counted = out.mapInArrow(tally, TALLY_SCHEMA)
        told = polled(counted.collect, lambda: watch(_now(cluster).rows_out), 0.2)
        began = logged(cluster, FeederJoinedEntry)[0].at
        seen = Tally.of(told[0], began)
        weights = {c.worker: c.weight for c in _now(cluster).connections}
        latency_ms = performance_of(lambda: _now(cluster)).latencies.summary_ms
    return replace(_result(setting, balance, seen, made.value, weights), latency_ms=latency_ms)


def _now(cluster: Cluster) -> Snapshot:
    return cast(Snapshot, cluster.region("bench").snapshot())


def warm_up(spark: SparkSession) -> None:
    """Start Spark's Python processes and import what they need, so that the first run does not pay for it."""
    with Cluster(spark, 1) as cluster:
        rows = cast(DataFrame, ProbeSource(spark, 10.0, spark.sparkContext.accumulator(0), rows=100_000))
        cluster.ordered_map(rows, same, ROW_SCHEMA).mapInArrow(tally, TALLY_SCHEMA).collect()


def report(setting: OrderedSetting, results: list[OrderedResult]) -> dict[str, object]:
    """The figures that the command writes as JSON."""
    return {
        "emulated": True,
        "setting": asdict(setting),
        "ideal_rows_per_s": setting.ideal(0.0, setting.seconds),
        "results": [asdict(result) for result in results],
    }


def _result(setting: OrderedSetting, balance: str, seen: Tally, rows_in: int, weights: dict[int, int]) -> OrderedResult:
    half, end = setting.seconds / 2, setting.seconds
    steady = seen.rows_between(half, end) / (end - half)
    final = seen.rows_between((half + end) / 2, end) / (end - half) * 2
    rate = seen.rows / seen.seconds
    return OrderedResult(
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


def _reaction(setting: OrderedSetting, seen: Tally) -> float | None:
    """Seconds from the change until the region runs at REACTED of the ideal in two windows in a row."""
    change = setting.until or setting.since
    if not change:
        return None
    for step in range(round((setting.seconds - change - 2 * REACTION_WINDOW_S) / 0.1)):
        start = change + step * 0.1
        windows = [start + k * REACTION_WINDOW_S for k in range(2)]
        if all(_share(setting, seen, window) >= REACTED for window in windows):
            return round(step * 0.1, 1)
    return None


def _share(setting: OrderedSetting, seen: Tally, start: float) -> float:
    """The share of the ideal in the window that begins at second `start`."""
    end = start + REACTION_WINDOW_S
    return seen.rows_between(start, end) / REACTION_WINDOW_S / setting.ideal(start, end)
