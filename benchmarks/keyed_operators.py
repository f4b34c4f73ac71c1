"""Figures of docs/keyed-operators.md that `evenflow bench keyed` does not give: peers, micro-batches, pauses, scaling.

    .venv/bin/python benchmarks/keyed_operators.py --json out/keyed.json [--only peers,micro,…,order,exact]

Every figure is a ratio within one run, or stands beside what it is to be compared with. Nothing is emulated here.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from rich.console import Console

import evenflow as ef
from evenflow_lab.bench import keyed

WORKERS = 3
KEYS = 16_384
MEANS = "seq long, key long, value double, mean double"
console = Console(width=130)


def rolling() -> ef.RollingMean:
    """The work all peers do: the mean of the last 100 values of a key."""
    return ef.RollingMean("value", rows=100, into="mean")


def best(times: int, rows: int, job: Callable[[], Any]) -> float:
    """Rows a second of the fastest of some runs: others on the machine only ever slow one down."""
    return max(rows / _seconds(job) for _ in range(times))


def _seconds(job: Callable[[], Any]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def peers(spark: SparkSession) -> dict[str, Any]:
    """Batch: identity, shuffle, Spark's SQL window and ours over the same rows."""
    setting = keyed.KeyedSetting(workers=WORKERS, keys=KEYS, rows=6_000_000)
    with keyed.data(spark, setting) as made, ef.Cluster(spark, WORKERS) as cluster:
        rows = keyed.rows_of(spark, made.path)
        window = Window.partitionBy("key").orderBy("seq").rowsBetween(-99, 0)
        jobs = {
            "identity": (rows.mapInArrow(keyed.identity, rows.schema), "value"),
            "shuffle": (rows.repartition(WORKERS, "key").mapInArrow(keyed.identity, rows.schema), "value"),
            "sql_window": (rows.withColumn("mean", F.avg("value").over(window)), "mean"),
            "keyed": (cluster.keyed(rows, "key", rolling()), "mean"),
        }
        rates = {name: best(3, setting.rows, lambda j=job: keyed.timed_sum(*j)) for name, job in jobs.items()}
    ratios = {f"keyed_over_{name}": rates["keyed"] / rate for name, rate in rates.items() if name != "keyed"}
    return {"rows_per_s": rates, **ratios}


class LastHundred(StatefulProcessor):
    """The same rolling mean as a user of `transformWithStateInPandas` would write it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "values array<double>")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        known = list(self.last.get()[0]) if self.last.exists() else []
        for batch in rows:
            batch = batch.sort_values("seq")
            values = np.array([*known, *batch["value"]])
            sums = np.concatenate([[0.0], np.cumsum(values)])
            ends = np.arange(len(known), len(values)) + 1
            starts = np.maximum(0, ends - 100)
            batch["mean"] = (sums[ends] - sums[starts]) / (ends - starts)
            known = values[-99:].tolist()
            yield batch[["seq", "key", "value", "mean"]]
        self.last.update((known,))

    def close(self) -> None:
        pass


@dataclass
class Files:
    """Micro-batches on disk: one file each."""

    directory: Path
    rows: int
    count: int
    trigger: int = 1
    """Files that make a micro-batch."""

    @classmethod
    def make(cls, directory: Path, rows: int, count: int) -> Files:
        """Write the files."""
        (directory / "in").mkdir(parents=True)
        keys, values = keyed.draw(keyed.KeyedSetting(keys=KEYS, rows=rows * count))
        table = pa.table({"seq": np.arange(rows * count), "key": keys, "value": values})
        for number in range(count):
            pq.write_table(table.slice(number * rows, rows), directory / "in" / f"{number:04}.parquet")
        return cls(directory, rows, count)

    def run(self, spark: SparkSession, name: str, work: Callable[[DataFrame], DataFrame]) -> list[float]:
        """Milliseconds each micro-batch took."""
        stream = spark.readStream.schema("seq long, key long, value double").option("maxFilesPerTrigger", self.trigger)
        rows = work(stream.parquet(str(self.directory / "in")))
        query = (
            rows.writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", str(self.directory / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        if query.exception() is not None:
            raise RuntimeError(f"{name}: {query.exception()}")
        return [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]


def micro(spark: SparkSession) -> dict[str, Any]:
    """Streaming: micro-batches of 1 M rows against `transformWithStateInPandas`, of 100,000 against an identity."""
    out: dict[str, Any] = {}
    directory = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", store)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        with ef.Cluster(spark, WORKERS) as cluster:

            def ours(rows: DataFrame) -> DataFrame:
                return cluster.keyed(rows, "key", rolling())

            def identity(rows: DataFrame) -> DataFrame:
                return rows.mapInArrow(keyed.identity, rows.schema)

            small = Files.make(directory / "small", 100_000, 20)
            plain = statistics.median(small.run(spark, "identity", identity)[5:])
            mine = statistics.median(small.run(spark, "keyed", ours)[5:])
            out |= {"identity_ms": plain, "keyed_ms": mine, "more_ms": mine - plain}
            large = Files.make(directory / "large", 1_000_000, 4)
            out["keyed_rows_per_s"] = 1e9 / statistics.median(large.run(spark, "keyed", ours)[1:])
        few = Files.make(directory / "few", 1_000_000, 2)
        out["transform_rows_per_s"] = 1e9 / few.run(spark, "transform", _transform)[-1]
        out["keyed_over_transform"] = out["keyed_rows_per_s"] / out["transform_rows_per_s"]
    finally:
        shutil.rmtree(directory)
    return out


def _transform(rows: DataFrame) -> DataFrame:
    grouped = rows.groupBy("key")
    return grouped.transformWithStateInPandas(
        LastHundred(), outputStructType=MEANS, outputMode="append", timeMode="none"
    )


@dataclass
class Heavy(ef.KeyedOperator):
    """Ten megabytes of state a unit."""

    size_bytes: int = 10 * 1024 * 1024
    blobs: dict[int, np.ndarray] = field(default_factory=dict)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """As they came."""
        return rows

    def process(self, rows: pa.RecordBatch, units: np.ndarray, keys: np.ndarray) -> pa.RecordBatch:
        """Touch the state of every unit."""
        for unit in np.unique(units).tolist():
            blob = self.blobs.get(unit)
            if blob is None:
                blob = self.blobs[unit] = np.zeros(self.size_bytes, np.uint8)
            blob[0] ^= 1
        return rows

    def extract(self, unit: int) -> Any:
        """The blob."""
        return self.blobs.pop(unit, None)

    def install(self, unit: int, state: Any) -> None:
        """The blob."""
        self.blobs[unit] = state.copy() if not state.flags.writeable else state

    def size(self, unit: int) -> int:
        """Its bytes."""
        return self.blobs[unit].nbytes if unit in self.blobs else 0


def state(spark: SparkSession) -> dict[str, Any]:
    """Units of 10 MB moved while rows flow: how long their rows wait, and what others feel of it."""
    units = 32
    setting = keyed.KeyedSetting(workers=WORKERS, keys=KEYS, rows=12_000_000)
    with keyed.data(spark, setting) as made, ef.Cluster(spark, WORKERS) as cluster:
        rows = keyed.rows_of(spark, made.path)
        still = cluster.keyed(rows, "key", Heavy(), tuning=ef.Tuning(units=units), balance="hash", name="still")
        moving = cluster.keyed(rows, "key", Heavy(), tuning=ef.Tuning(units=units), balance="hash", name="moving")
        keyed.timed_sum(still, "value")
        quiet = setting.rows / keyed.timed_sum(still, "value")[0]
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(keyed.timed_sum, moving, "value")
            turn = 0
            while not job.done():
                time.sleep(0.1)
                if cluster.region("moving").snapshot().feeders and not cluster.region("moving").snapshot().moving:
                    turn += 1
                    cluster.region("moving").move([turn % units], (turn + 1 + turn // units) % WORKERS)
            busy = setting.rows / job.result()[0]
        moved = [e for e in cluster.events() if e["event"] == "moved" and e["region"] == "moving" and e["bytes"] > 1e6]
    pauses = [event["seconds"] * 1e3 for event in moved]
    quantiles = {f"p{q}": float(np.percentile(pauses, q)) for q in (50, 99)} if pauses else {}
    return {"moves": len(moved), "pause_ms": quantiles | {"max": max(pauses, default=0.0)}, "throughput": busy / quiet}


def scale(spark: SparkSession) -> dict[str, Any]:
    """Rows a second by number of rows, and by number of units."""
    setting = keyed.KeyedSetting(workers=WORKERS, keys=KEYS, rows=8_000_000)
    by_rows, by_units = {}, {}
    with ef.Cluster(spark, WORKERS) as cluster:
        for count in (2_000_000, 4_000_000, 8_000_000):
            with keyed.data(spark, replace(setting, rows=count)) as made:
                out = cluster.keyed(keyed.rows_of(spark, made.path), "key", rolling())
                by_rows[count] = best(2, count, lambda o=out: keyed.timed_sum(o, "mean"))
        with keyed.data(spark, setting) as made:
            for units in (64, 1024, 16_384, 100_000):
                out = cluster.keyed(keyed.rows_of(spark, made.path), "key", rolling(), tuning=ef.Tuning(units=units))
                by_units[units] = best(2, setting.rows, lambda o=out: keyed.timed_sum(o, "mean"))
    return {"by_rows": by_rows, "by_units": by_units}


def even(spark: SparkSession) -> dict[str, Any]:
    """Balancing with nothing to balance: flux-auto against hash, turn by turn."""
    setting = keyed.KeyedSetting(workers=WORKERS, keys=KEYS, rows=6_000_000)
    with keyed.data(spark, setting) as made, ef.Cluster(spark, WORKERS) as cluster:
        rows = keyed.rows_of(spark, made.path)
        names = ("hash", "flux-auto")
        frames = {name: cluster.keyed(rows, "key", rolling(), balance=name, name=name) for name in names}
        rates: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(8):
            for name in names if turn % 2 else names[::-1]:
                rate = setting.rows / keyed.timed_sum(frames[name], "mean")[0]
                if turn:
                    rates[name].append(rate)
        moves = cluster.region("flux-auto").snapshot().moved
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {"rows_per_s": medians, "flux_auto_over_hash": medians["flux-auto"] / medians["hash"], "moves": moves}


def order(spark: SparkSession) -> dict[str, Any]:
    """Micro-batches of 1 M rows from four partitions, with order_by and without, turn by turn."""
    directory = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    rates: dict[str, list[float]] = {"arrival": [], "order_by": [], "lateness": []}
    asked: dict[str, dict[str, Any]] = {
        "arrival": {},
        "order_by": {"order_by": "seq"},
        "lateness": {"order_by": "seq", "lateness": 100_000},  # of the rows' numbers, as if these were seconds
    }
    try:
        files = replace(Files.make(directory, 250_000, 24), trigger=4)
        with ef.Cluster(spark, WORKERS) as cluster:
            for turn in range(3):
                for name in rates if turn % 2 else list(rates)[::-1]:

                    def ours(rows: DataFrame, name: str = name) -> DataFrame:
                        return cluster.keyed(rows, "key", rolling(), **asked[name])

                    rates[name] += [1e9 / ms for ms in files.run(spark, f"{name}-{turn}", ours)[1:]]
    finally:
        shutil.rmtree(directory)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratios = {f"{name}_over_arrival": medians[name] / medians["arrival"] for name in ("order_by", "lateness")}
    return {"rows_per_s": medians} | ratios


def exact(spark: SparkSession | None) -> dict[str, Any]:
    """The operator alone, without Spark: sums of longs and decimals beside those of doubles, in turns."""
    count, batch, rounds = 1_200_000, 12_000, 7
    random = np.random.default_rng(1)
    keys, cents = random.integers(0, KEYS, count), random.integers(0, 100_000, count)
    units, doubles = (keys % 1024).astype(np.int32), pa.array(cents.astype(np.float64))
    columns = {
        "double": doubles,
        "bigint": pa.array(cents),
        "decimal(12,2)": doubles.cast(pa.decimal128(12, 2)),
        "decimal(30,2)": doubles.cast(pa.decimal128(30, 2)),
    }
    makers = {"sum": lambda: ef.RollingSum("v", rows=100), "mean": lambda: ef.RollingMean("v", rows=100)}
    seconds: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        for how, make in makers.items():
            for kind, column in columns.items():
                operator, rows = make(), pa.record_batch({"v": column})
                started = time.process_time()
                for at in range(0, count, batch):
                    part = slice(at, at + batch)
                    operator.process(rows.slice(at, batch), units[part], keys[part])
                if turn:  # the first compiles
                    seconds.setdefault(f"{how} of {kind}", []).append(time.process_time() - started)
    rates = {name: count / min(found) for name, found in seconds.items()}
    ratios = {name: rate / rates[f"{name.split()[0]} of double"] for name, rate in rates.items()}
    return {"rows_per_s": rates, "of_doubles": ratios}


PARTS = {"peers": peers, "micro": micro, "state": state, "scale": scale, "even": even, "order": order, "exact": exact}


def main(
    only: Annotated[str, typer.Option(help="Parts to run.")] = ",".join(PARTS),
    json_file: Annotated[Path, typer.Option("--json", help="Where the figures go.")] = Path("out/keyed.json"),
) -> None:
    """Run the parts and print what they give."""
    json_file.parent.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {}
    spark = ef.local_session(WORKERS, slots=3)
    try:
        keyed.warm_up(spark)
        for name in only.split(","):
            done[name] = PARTS[name](spark)
            console.print(name, json.dumps(done[name], indent=1), highlight=False)
            json_file.write_text(json.dumps(done, indent=1) + "\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
