"""`evenflow bench cep`: First Story Detection, balance by balance (Table 1 and Figures 3 and 4 of cep §4).

Engines are emulated: each row costs `cost_us` on every worker. Texts, their vectors and keys are made before the
measured time; each run has the same rows in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.cli.polling import Watch, polled
from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot, Performance
from evenflow.model.capacity import Emulate
from evenflow.model.entries import FeederDrainingEntry, MovedEntry, RebalanceEntry
from evenflow.policy.keyed.loads import imbalance
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.stories.operator import HISTORY, FirstStory
from evenflow_lab.bench.choices import keyed_choice
from evenflow_lab.bench.latency import performance_of
from evenflow_lab.bench.measuring import keyed_snapshot, logged
from evenflow_lab.workloads.story_rows import KEYS, TAU, StoryOrder, StoryRows, first_stories

Longs = npt.NDArray[np.int64]

POLL_S = 0.1
LOAD_S = 1.0
"""The loads of engines are compared over this time."""
DYNAMIC = ("dlb-h", "dlb-l", "lptf")
REGION = "stories"


@dataclass(frozen=True)
class CepSetting:
    """`rows` texts; with workload zipf their keys follow Zipf's law, with the exponents in turn."""

    engines: int = 5
    rows: int = 300_000
    workload: str = "default"
    cost_us: float = 400.0
    theta: float = 15.0
    window: float = 2.0
    """Seconds over which loads are counted before each decision."""
    exponents: tuple[float, ...] = (0.2, 1.5)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.workload not in get_args(StoryOrder):  # a command line may say anything
            raise InvalidArgument(f"workload {self.workload!r}: choose one of {', '.join(get_args(StoryOrder))}")


@dataclass(frozen=True)
class CepData:
    """The rows on disk, and the results that are expected for them."""

    path: str
    events: int
    """The number of first stories."""
    check: int
    """The sum of their seqs."""
    loads: list[Longs]
    """For each phase of the workload, the rows of each key."""

    def bound_s(self, engines: int, cost_us: float, first: float = 0.0, last: float = inf) -> float:
        """The least time that the rows can take: in each phase that of its hottest key, or of an even share.

        Of rows `first` to `last` only, if these are given: of each phase the part that they are of it.
        """
        rows, start = 0.0, 0
        for load in self.loads:
            count = int(load.sum())
            part = max(0.0, min(last, start + count) - max(first, start)) / count
            rows += part * max(float(load.max()), count / engines)
            start += count
        return rows * cost_us * 1e-6


@dataclass(frozen=True)
class CepResult:
    """The figures of one balance."""

    balance: str
    engines: int
    processed: int
    """The rows that were through when the fastest balance had finished all of them."""
    rows_per_s: float
    of_bound: float
    """Rows a second, divided by those of the best assignment of keys."""
    steady_of_bound: float
    """The same for the second half of the time in which rows came in; a backlog may lift it above 1."""
    events: int
    correct: bool
    """Whether the events are the same as with one engine."""
    rstd: float
    """The relative standard deviation of the engines' loads, in percent, averaged over windows of a second."""
    rebalances: int
    keys_moved: int
    rows_moved: int
    most_moved: float
    """The largest share of the keys that one rebalance moved."""
    seconds: float
    latency_ms: dict[str, float] = field(default_factory=dict)
    """Mean, p50 and p99 of the time from a row's arrival at the feeder until its result left."""
    by_engine: list[dict[str, float]] = field(default_factory=list)
    """Of each engine: rows a second that came to it, and mean, p50 and p99 in ms until they were answered."""
    through: list[tuple[float, int]] = field(repr=False, default_factory=list)
    """Points of time in seconds, and the rows that were through."""

    def by(self, second: float) -> int:
        """The rows that were through at a second."""
        seconds, rows = np.array(self.through, float).T
        return int(np.interp(second, seconds, rows))


@contextmanager
def data(setting: CepSetting) -> Iterator[CepData]:
    """Make the rows; their files are deleted afterwards."""
    with TemporaryDirectory(prefix="evenflow-bench-") as directory:
        path = str(Path(directory) / "rows.parquet")
        rows = StoryRows.draw(setting.rows, cast(StoryOrder, setting.workload), setting.exponents, setting.seed)
        table = rows.table()
        pq.write_table(table, path, row_group_size=1 << 17)
        alarms = first_stories(table)
        yield CepData(path, len(alarms), int(alarms.sum()), rows.loads())


def evaluate(df: DataFrame) -> tuple[float, int, int, int]:
    """Evaluate a DataFrame; returns the seconds, the number of rows, the number of alarms and the sum of their seqs."""
    alarm = F.col("similarity") <= TAU
    started = time.perf_counter()
    row = df.agg(F.count("*"), F.count_if(alarm), F.sum(F.when(alarm, F.col("seq")))).collect()[0]
    return time.perf_counter() - started, row[0], row[1], row[2] or 0


def run(
    spark: SparkSession,
    setting: CepSetting,
    balance: str,
    made: CepData,
    event_log: Path | None = None,
    watch: Watch = lambda rows: None,
) -> CepResult:
    """Run one balance over all rows."""
    emulate = Emulate(setting.cost_us)
    with Cluster(spark, setting.engines, event_log=event_log, emulate=emulate, period=0.2) as cluster:
        out = _stories(cluster, setting, balance, spark.read.parquet(made.path).coalesce(1))
        seen: list[KeyedSnapshot] = []

        def poll() -> None:
            seen.append(keyed_snapshot(cluster, REGION))
            watch(float(_rows(seen[-1]).sum()))

        _, rows, events, check = polled(lambda: evaluate(out), poll, POLL_S)
        performance = performance_of(lambda: keyed_snapshot(cluster, REGION))
        drained, moves = logged(cluster, FeederDrainingEntry)[0].time, _moves(cluster)
    began, through = _through(seen)
    seconds = through[-1][0]
    return CepResult(
        balance=balance,
        engines=setting.engines,
        processed=rows,
        rows_per_s=rows / seconds,
        of_bound=made.bound_s(setting.engines, setting.cost_us) / seconds,
        steady_of_bound=_steady(setting, made, through, drained - began),
        events=events,
        correct=rows == setting.rows and (events, check) == (made.events, made.check),
        rstd=_rstd(seen, drained),
        seconds=seconds,
        latency_ms=performance.latencies.summary_ms,
        by_engine=_by_engine(seen[-1], performance, seconds),
        through=through,
        **moves,
    )


def _rows(snapshot: KeyedSnapshot) -> Longs:
    return np.array([consumer.rows for consumer in snapshot.consumers], np.int64)


def _by_engine(last: KeyedSnapshot, performance: Performance, seconds: float) -> list[dict[str, float]]:
    """Input rate and latency of each engine (cep §3)."""
    rates = {consumer.worker: {"rows_per_s": consumer.rows / seconds} for consumer in last.consumers}
    took = {worker: latencies.summary_ms for worker, latencies in performance.workers.items()}
    return [{"engine": worker, **rates[worker], **took.get(worker, {})} for worker in sorted(rates)]


def _through(seen: list[KeyedSnapshot]) -> tuple[float, list[tuple[float, int]]]:
    """When the first rows came; then seconds and the rows through at each, from the first rows through to the last."""
    rows = [int(_rows(snapshot).sum()) for snapshot in seen]
    last = next(place for place, count in enumerate(rows) if count == rows[-1])
    first = max(0, next(place for place, count in enumerate(rows) if count) - 1)
    began = seen[first].time
    return began, [(seen[place].time - began, rows[place]) for place in range(first, last + 1)]


def _steady(setting: CepSetting, made: CepData, through: list[tuple[float, int]], drained: float) -> float:
    """The share of the bound in the second half of the time until second `drained`, when all rows had been taken in."""
    seconds, rows = np.array(through, float).T
    low, high = np.interp((drained / 2, drained), seconds, rows)
    return made.bound_s(setting.engines, setting.cost_us, low, high) / (drained / 2)


def _rstd(seen: list[KeyedSnapshot], drained: float) -> float:
    """The mean over windows of LOAD_S until all rows had been taken in; after that engines become idle one by one."""
    scores, before = [], seen[0]
    for snapshot in seen:
        if snapshot.time - before.time >= LOAD_S and snapshot.time <= drained:
            load = _rows(snapshot) - _rows(before)
            scores += [imbalance(load)] if load.sum() else []
            before = snapshot
    return float(np.mean(scores)) if scores else 0.0


def _stories(cluster: Cluster, setting: CepSetting, balance: str, rows: DataFrame) -> DataFrame:
    """The rows with the similarity of each to the nearest text before it."""
    window = {} if "window_rows=" in balance else {"window": setting.window}
    options = {"theta": setting.theta, **window} if balance.split(":")[0] in DYNAMIC else {}
    return cluster.keyed(
        rows,
        "fingerprint",
        FirstStory(history=HISTORY),
        tuning=Tuning(units=KEYS, spread="modulo", split_keys=balance == "pkg"),
        balance=keyed_choice(balance, **options),
        name=REGION,
    )


def _moves(cluster: Cluster) -> dict[str, Any]:
    """The figures about moves: how often, how many keys, and how many rows of state."""
    decided = [entry for entry in logged(cluster, RebalanceEntry) if entry.region == REGION]
    moved = [entry for entry in logged(cluster, MovedEntry) if entry.region == REGION]
    return {
        "rebalances": len(decided),
        "keys_moved": sum(len(entry.units) for entry in moved),
        "rows_moved": sum(int(np.minimum(entry.unit_rows, HISTORY).sum()) for entry in decided),
        "most_moved": max((entry.units for entry in decided), default=0) / KEYS,
    }


def compared(results: list[CepResult]) -> list[CepResult]:
    """The results, each with the rows it had processed when the fastest had finished."""
    end = min(result.seconds for result in results)
    return [replace(result, processed=result.by(end)) for result in results]


def warm_up(spark: SparkSession) -> None:
    """Start Spark's Python processes and compile what they need, so that the first run does not pay for it."""
    small = CepSetting(engines=1, rows=2_000, cost_us=10)
    with data(small) as made:
        run(spark, small, "kg", made)


def report(setting: CepSetting, results: list[CepResult]) -> dict[str, object]:
    """The figures that the command writes as JSON."""
    return {"emulated": True, "setting": asdict(setting), "results": [asdict(result) for result in results]}
