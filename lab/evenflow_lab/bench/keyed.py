"""`evenflow bench keyed`: a rolling mean by key, balance by balance, compared with plain Spark or with the bound."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.cli.polling import Watch, polled
from evenflow.model import KeyedSnapshot
from evenflow.model.capacity import Emulate
from evenflow.model.entries import MovedEntry
from evenflow.operators.aggregates.rolling import RollingMean
from evenflow.operators.hosted import units_of
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.feeder.hashing import hashes
from evenflow_lab.bench.choices import keyed_choice
from evenflow_lab.bench.identity import identity
from evenflow_lab.bench.latency import performance_of
from evenflow_lab.bench.measuring import keyed_snapshot, logged
from evenflow_lab.bench.memory import Pressure, Squeeze, back_after, most_on_disk
from evenflow_lab.bench.timeline import Timeline

WINDOW = 100
"""The rows in the rolling mean."""
AMPLE = 4
"""Memory of a worker that is not short of it, in bytes for each byte of all keys' windows."""
REACTED = 0.95
"""An operator has reacted to a change when it runs at this share of the new bound."""
REACTION_WINDOW_S = 1.0
POLL_S = 0.1
REGION = "bench"
NEAR = 1e-9
"""The relative error that rounding may cause in a sum of many means."""


@dataclass(frozen=True)
class KeyedSetting:
    """`rows` rows of `keys` keys. If `cost_us` is given, workers are emulated, `slow` of them `factor` times slower.

    With `rotate`, one worker after the other is slow instead, each for so many seconds (flux §4).
    """

    workers: int = 4
    keys: int = 16_384
    zipf: float = 0.0
    """The exponent of Zipf's law for the keys; 0 for uniform keys."""
    rows: int = 5_000_000
    units: int = 1024
    cost_us: float = 0.0
    slow: int = 0
    factor: float = 1.0
    since: float = 0.0
    until: float = 0.0
    seed: int = 1
    memory: int = 0
    """Bytes of state that `short` workers may keep in memory for a while; 0: nothing is on disk."""
    short: int = 0
    memory_since: float = 0.0
    memory_until: float = 0.0
    rotate: float = 0.0
    skew_bytes: str = "2m"
    """The room for rows that wait in the feeder."""

    def emulate(self) -> Emulate | None:
        """The emulated capacities; None if they are not emulated."""
        if not self.cost_us:
            return None
        if self.rotate:
            longest = 60 + 2 * self.rows * self.cost_us * 1e-6 * self.factor / self.workers
            return Emulate(self.cost_us, Emulate.rotating(self.workers, self.factor, self.rotate, longest))
        load = Emulate.load(self.factor, self.since, self.until)
        return Emulate(self.cost_us, dict.fromkeys(range(self.slow), load))

    def pressure(self) -> Pressure | None:
        """The memory that workers lack for a while; None if they have all they need."""
        if not self.memory:
            return None
        ample = AMPLE * self.keys * WINDOW * 8 + (64 << 20)
        return Pressure(self.memory, self.short, ample, self.memory_since, self.memory_until)

    def bound(self, loads: npt.NDArray[np.int64], second: float) -> float:
        """Rows a second with the best assignment of units; the hottest unit must be on one worker."""
        emulate = self.emulate()
        assert emulate is not None
        costs = np.array([emulate.row_s(worker, second) for worker in range(self.workers)])
        share = loads.max() / loads.sum()
        return float(min((1.0 / costs).sum(), 1.0 / (share * costs.min())))


@dataclass(frozen=True)
class KeyedResult:
    """The figures of one balance."""

    balance: str
    rows_per_s: float
    correct: bool
    seconds: float
    of_identity: float | None = None
    """Rows a second divided by those of an identity `mapInArrow` in the same run."""
    of_shuffle: float | None = None
    """Rows a second divided by those of Spark's `repartition` and an identity `mapInArrow`."""
    of_bound: float | None = None
    """All rows, divided by the rows of the best assignment from the first to the last row."""
    steady_of_bound: float | None = None
    """The same for the second half of the time in which rows came in; a backlog may lift it above 1."""
    reaction_s: float | None = None
    """Seconds from the last change of load until REACTED of the bound is reached for good."""
    rstd: float = 0.0
    """The relative standard deviation of the workers' busy time in the second half, in percent."""
    moves: int = 0
    late_moves: int = 0
    """Moves in the second half."""
    bytes_moved: int = 0
    most_on_disk: int = 0
    """The most bytes of state that were on disk at a time."""
    back_s: float | None = None
    """Seconds from the last change of memory until all state was in memory for good."""
    skew_bytes: str = ""
    pause_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    """Mean, p50 and p99 of the time from a row's arrival at the feeder until its result left."""


@dataclass(frozen=True)
class KeyedData:
    """The rows on disk, and the results that are expected for them."""

    path: str
    total: float
    """The sum of all rolling means."""
    check: float
    """Their sum with weights that depend on the row."""
    loads: npt.NDArray[np.int64]
    """The rows of each unit."""


@contextmanager
def data(spark: SparkSession, setting: KeyedSetting) -> Iterator[KeyedData]:
    """Make the rows; their files are deleted afterwards."""
    with TemporaryDirectory(prefix="evenflow-bench-") as directory:
        path = str(Path(directory) / "rows.parquet")
        keys, values = draw(setting)
        seq = np.arange(setting.rows)
        pq.write_table(pa.table({"seq": seq, "key": keys, "value": values}), path, row_group_size=1 << 20)
        means = rolling_means(keys, values, WINDOW)
        loads = np.bincount(units_of(hashes(pa.array(keys)), setting.units + 1), minlength=setting.units + 1)
        yield KeyedData(path, float(means.sum()), float((means * (seq % 1009)).sum()), loads)


def draw(setting: KeyedSetting) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Random keys, by Zipf's law or uniform, and values."""
    random = np.random.default_rng(setting.seed)
    if setting.zipf:
        shares = np.cumsum(1.0 / np.arange(1, setting.keys + 1) ** setting.zipf)
        keys = np.searchsorted(shares, random.random(setting.rows) * shares[-1]).astype(np.int64)
    else:
        keys = random.integers(0, setting.keys, setting.rows)
    return keys, random.random(setting.rows) * 100


def rolling_means(keys: npt.NDArray[np.int64], values: npt.NDArray[np.float64], window: int) -> npt.NDArray[np.float64]:
    """The reference: the mean of the last `window` values of each row's key, by sums over sorted keys."""
    order = np.argsort(keys, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(values[order])])
    place = np.arange(len(keys))
    first = np.concatenate([[0], np.flatnonzero(np.diff(keys[order])) + 1])
    start = np.repeat(first, np.diff(np.concatenate([first, [len(keys)]])))
    low = np.maximum(start, place - window + 1)
    means = np.empty(len(keys))
    means[order] = (sums[place + 1] - sums[low]) / (place + 1 - low)
    return means


def rows_of(spark: SparkSession, path: str) -> DataFrame:
    """The rows in their order, in one partition."""
    return spark.read.parquet(path).coalesce(1)


def timed_sum(df: DataFrame, column: str) -> tuple[float, tuple[float, float, int]]:
    """Evaluate a DataFrame; returns the seconds, two checksums and the number of rows."""
    started = time.perf_counter()
    row = df.agg(F.sum(column), F.sum(F.col(column) * (F.col("seq") % 1009)), F.count("*")).collect()[0]
    return time.perf_counter() - started, (float(row[0]), float(row[1]), int(row[2]))


def baselines(spark: SparkSession, setting: KeyedSetting, path: str) -> tuple[float, float]:
    """Rows a second of an identity `mapInArrow`, and of a shuffle before it."""
    rows = rows_of(spark, path)
    plain, _ = timed_sum(rows.mapInArrow(identity, rows.schema), "value")
    shuffled = rows.repartition(setting.workers, "key")
    moved, _ = timed_sum(shuffled.mapInArrow(identity, rows.schema), "value")
    return setting.rows / plain, setting.rows / moved


def run(
    spark: SparkSession,
    setting: KeyedSetting,
    balance: str,
    made: KeyedData,
    against: tuple[float, float] | None,
    event_log: Path | None = None,
    watch: Watch = lambda rows: None,
) -> KeyedResult:
    """Run one balance over all rows."""
    pressure = setting.pressure()
    memory = pressure.ample if pressure else None
    with Cluster(spark, setting.workers, event_log=event_log, emulate=setting.emulate(), memory=memory) as cluster:
        squeeze = Squeeze(pressure, cluster) if pressure else None
        out = cluster.keyed(
            rows_of(spark, made.path),
            "key",
            RollingMean("value", rows=WINDOW, into="mean"),
            tuning=Tuning(units=setting.units, skew_bytes=setting.skew_bytes),
            balance=keyed_choice(balance),
            name=REGION,
        )
        seen: list[KeyedSnapshot] = []

        def poll() -> None:
            seen.append(keyed_snapshot(cluster, REGION))
            if squeeze is not None:
                squeeze.follow(seen[-1])
            watch(sum(consumer.rows for consumer in seen[-1].consumers))

        seconds, found = polled(lambda: timed_sum(out, "mean"), poll, POLL_S)
        rate = setting.rows / seconds
        return KeyedResult(
            balance=balance,
            rows_per_s=rate,
            correct=found[2] == setting.rows and np.allclose(found[:2], (made.total, made.check), rtol=NEAR),
            seconds=seconds,
            of_identity=rate / against[0] if against else None,
            of_shuffle=rate / against[1] if against else None,
            skew_bytes=setting.skew_bytes,
            latency_ms=performance_of(lambda: keyed_snapshot(cluster, REGION)).latencies.summary_ms,
            most_on_disk=most_on_disk(seen) if squeeze else 0,
            back_s=back_after(seen, squeeze.changed) if squeeze else None,
            **_moves(cluster, seen[-1]),
            **_course(setting, made, Timeline.of(cluster, seen)),
        )


def _moves(cluster: Cluster, last: KeyedSnapshot) -> dict[str, Any]:
    """The figures about moves."""
    moved = (entry for entry in logged(cluster, MovedEntry) if entry.region == REGION)
    pauses = [entry.seconds * 1e3 for entry in moved for _ in entry.units]
    quantiles = {f"p{q}": float(np.percentile(pauses, q)) for q in (50, 99)} | {"max": max(pauses)} if pauses else {}
    return {"moves": last.moved, "bytes_moved": last.bytes_moved, "pause_ms": quantiles}


def _course(setting: KeyedSetting, made: KeyedData, timeline: Timeline) -> dict[str, Any]:
    """The figures about the second half; beside the bound, if that is known."""
    late = {"rstd": timeline.rstd(), "late_moves": timeline.late_moves()}
    return late | (_emulated(setting, made, timeline) if setting.cost_us else {})


def _emulated(setting: KeyedSetting, made: KeyedData, timeline: Timeline) -> dict[str, Any]:
    """Throughput divided by the bound, which is known only if capacities are emulated."""
    edges = np.arange(timeline.start, timeline.end, POLL_S)
    could = sum(
        setting.bound(made.loads, second) * POLL_S for second in np.arange(timeline.start, timeline.over, POLL_S)
    )
    late = [second for second in edges if second >= timeline.half]
    could_late = sum(setting.bound(made.loads, second) * POLL_S for second in late)
    done_late = timeline.rate(timeline.half, timeline.end) * (timeline.end - timeline.half)
    return {
        "of_bound": setting.rows / could,
        "steady_of_bound": done_late / could_late if could_late else None,
        "reaction_s": _reaction(setting, made, timeline),
    }


def _reaction(setting: KeyedSetting, made: KeyedData, timeline: Timeline) -> float | None:
    """Seconds from the last change until every later window of two seconds runs at REACTED of the bound."""
    change = max(setting.until, setting.since)
    wide = 2 * REACTION_WINDOW_S
    starts = np.arange(max(change, timeline.start), timeline.end - wide, POLL_S)
    good = [timeline.rate(s, s + wide) >= REACTED * setting.bound(made.loads, s + wide / 2) for s in starts]
    if not good or not good[-1]:
        return None
    last_bad = max((place for place, ok in enumerate(good) if not ok), default=-1)
    return round(float(starts[last_bad + 1] - starts[0]), 1)


def warm_up(spark: SparkSession) -> None:
    """Start Spark's Python processes and compile what they need, so that the first run does not pay for it."""
    small = KeyedSetting(workers=1, keys=100, rows=100_000)
    with data(spark, small) as made:
        baselines(spark, small, made.path)
        run(spark, small, "hash", made, None)


def report(setting: KeyedSetting, results: list[KeyedResult], against: tuple[float, float] | None) -> dict[str, object]:
    """The figures that the command writes as JSON."""
    plain = {"identity_rows_per_s": against[0], "shuffle_rows_per_s": against[1]} if against else {}
    return {
        "emulated": bool(setting.cost_us),
        "setting": asdict(setting),
        **plain,
        "results": [asdict(result) for result in results],
    }
