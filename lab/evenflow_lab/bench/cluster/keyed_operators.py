"""Figures of docs/keyed-operators.md that `evenflow bench keyed` does not give: peers, micro-batches, order, sums.

Every figure is a ratio within one run, or stands beside the one that it is compared with. Nothing is emulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import evenflow as ef
from evenflow.cli.terminal import JsonFile, embedded_spark
from evenflow_lab.bench import keyed
from evenflow_lab.bench.identity import identity
from evenflow_lab.bench.measuring import Figures, flat, in_turns, keyed_snapshot, medians, run_parts, workplace
from evenflow_lab.bench.micro_batches import MicroBatches, batch_seconds

WORKERS = 3
KEYS = 16_384
MEANS = "seq long, key long, value double, mean double"
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROWS = 6_000_000


def rolling() -> ef.RollingMean:
    """The work of all peers: the mean of the last 100 values of a key."""
    return ef.RollingMean("value", rows=100, into="mean")


def setting_of(size: float) -> keyed.KeyedSetting:
    """The rows of a batch."""
    return keyed.KeyedSetting(workers=WORKERS, keys=KEYS, rows=int(size * ROWS))


def rate(df: DataFrame, column: str) -> float:
    """Rows a second of evaluating a batch."""
    seconds, (_, _, rows) = keyed.timed_sum(df, column)
    return rows / seconds


def peers(spark: SparkSession, size: float) -> Figures:
    """Batch: identity, shuffle, Spark's SQL window and ours over the same rows; the fastest of three runs counts."""
    with keyed.data(spark, setting_of(size)) as made, ef.Cluster(spark, WORKERS) as cluster:
        rows = keyed.rows_of(spark, made.path)
        window = Window.partitionBy("key").orderBy("seq").rowsBetween(-99, 0)
        jobs = {
            "identity": partial(rate, rows.mapInArrow(identity, rows.schema), "value"),
            "shuffle": partial(rate, rows.repartition(WORKERS, "key").mapInArrow(identity, rows.schema), "value"),
            "sql_window": partial(rate, rows.withColumn("mean", F.avg("value").over(window)), "mean"),
            "keyed": partial(rate, cluster.keyed(rows, "key", rolling()), "mean"),
        }
        rates = {name: max(found) for name, found in in_turns(jobs, 3).items()}
    ratios = {f"keyed_over_{name}": rates["keyed"] / each for name, each in rates.items() if name != "keyed"}
    return {"rows_per_s": rates, **ratios}


class LastHundred(StatefulProcessor):
    """The same rolling mean as a user of `transformWithStateInPandas` would write it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "values array<double>")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        found = self.last.get() if self.last.exists() else None
        known = list(found[0]) if found is not None else []
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


def batches(folder: Path, rows: int, files: int, trigger: int = 1) -> MicroBatches:
    """Files of so many rows each."""
    keys, values = keyed.draw(keyed.KeyedSetting(keys=KEYS, rows=rows * files))
    table = pa.table({"seq": np.arange(rows * files), "key": keys, "value": values})
    made = MicroBatches(folder, "seq long, key long, value double", trigger)
    return made.write(table.slice(number * rows, rows) for number in range(files))


def micro(spark: SparkSession, size: float) -> Figures:
    """Streaming: micro-batches of 1 M rows against `transformWithStateInPandas`, of 100,000 against an identity."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STORE)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    many = int(size * 1_000_000)
    with workplace() as home:

        def seconds(files: MicroBatches, name: str, work: Callable[[DataFrame], DataFrame]) -> list[float]:
            return batch_seconds(work(files.stream(spark)), home / f"{files.folder.name}-{name}", "triggerExecution")

        with ef.Cluster(spark, WORKERS) as cluster:

            def ours(rows: DataFrame) -> DataFrame:
                return cluster.keyed(rows, "key", rolling())

            small = batches(home / "small", int(size * 100_000), 20)
            plain = 1e3 * median(seconds(small, "identity", lambda rows: rows.mapInArrow(identity, rows.schema))[5:])
            mine = 1e3 * median(seconds(small, "keyed", ours)[5:])
            rows_per_s = many / median(seconds(batches(home / "large", many, 4), "keyed", ours)[1:])
        theirs = many / seconds(batches(home / "few", many, 2), "transform", _transform)[-1]
    return {
        "identity_ms": plain,
        "keyed_ms": mine,
        "more_ms": mine - plain,
        "keyed_rows_per_s": rows_per_s,
        "transform_rows_per_s": theirs,
        "keyed_over_transform": rows_per_s / theirs,
    }


def _transform(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(
        LastHundred(), outputStructType=MEANS, outputMode="append", timeMode="none"
    )


def even(spark: SparkSession, size: float) -> Figures:
    """Balancing with nothing to balance: flux-auto against hash."""
    with keyed.data(spark, setting_of(size)) as made, ef.Cluster(spark, WORKERS) as cluster:
        rows = keyed.rows_of(spark, made.path)
        jobs = {
            name: partial(rate, cluster.keyed(rows, "key", rolling(), balance=name, name=name), "mean")
            for name in ("hash", "flux-auto")
        }
        found = medians(in_turns(jobs, 7, warm=1))
        moves = keyed_snapshot(cluster, "flux-auto").moved
    return {"rows_per_s": found, "flux_auto_over_hash": found["flux-auto"] / found["hash"], "moves": moves}


def order(spark: SparkSession, size: float) -> Figures:
    """Micro-batches of 1 M rows from four partitions, with `order_by` and without."""
    asked: dict[str, dict[str, Any]] = {
        "arrival": {},
        "order_by": {"order_by": "seq"},
        "lateness": {"order_by": "seq", "lateness": 100_000},  # of the rows' numbers, as if these were seconds
    }
    with workplace() as home, ef.Cluster(spark, WORKERS) as cluster:
        files, turns = batches(home / "in", int(size * 250_000), 24, trigger=4), count()

        def rates(options: dict[str, Any]) -> list[float]:
            out = cluster.keyed(files.stream(spark), "key", rolling(), **options)
            return [
                4 * int(size * 250_000) / each
                for each in batch_seconds(out, home / f"{next(turns)}", "triggerExecution")[1:]
            ]

        found = in_turns({name: partial(rates, options) for name, options in asked.items()}, 3)
    middle = medians({name: flat(runs) for name, runs in found.items()})
    ratios = {f"{name}_over_arrival": middle[name] / middle["arrival"] for name in ("order_by", "lateness")}
    return {"rows_per_s": middle} | ratios


def exact(spark: SparkSession, size: float) -> Figures:
    """The operator alone, without Spark: sums of longs and decimals beside those of doubles."""
    rows, batch = int(size * 1_200_000), 12_000
    random = np.random.default_rng(1)
    keys, cents = random.integers(0, KEYS, rows), random.integers(0, 100_000, rows)
    units, doubles = (keys % 1024).astype(np.int32), pa.array(cents.astype(np.float64))
    columns = {
        "double": doubles,
        "bigint": pa.array(cents),
        "decimal(12,2)": doubles.cast(pa.decimal128(12, 2)),
        "decimal(30,2)": doubles.cast(pa.decimal128(30, 2)),
    }
    kinds: dict[str, Callable[..., ef.KeyedOperator]] = {"sum": ef.RollingSum, "mean": ef.RollingMean}

    def seconds(make: Callable[..., ef.KeyedOperator], column: pa.Array) -> float:
        operator, table = make("v", rows=100), pa.record_batch({"v": column})
        began = time.process_time()
        for at in range(0, rows, batch):
            part = slice(at, at + batch)
            operator.process(table.slice(at, batch), units[part], keys[part])
        return time.process_time() - began

    jobs = {
        f"{how} of {kind}": partial(seconds, make, column)
        for how, make in kinds.items()
        for kind, column in columns.items()
    }
    rates = {name: rows / min(found) for name, found in in_turns(jobs, 7, warm=1).items()}  # the first one compiles
    ratios = {name: each / rates[f"{name.split()[0]} of double"] for name, each in rates.items()}
    return {"rows_per_s": rates, "of_doubles": ratios}


PARTS = {"peers": peers, "micro": micro, "even": even, "order": order, "exact": exact}


def main(
    only: Annotated[str, typer.Option(help="Parts to run.")] = ",".join(PARTS),
    size: Annotated[float, typer.Option(help="Of all inputs: 0.1 for a tenth of the rows.", min=0.001)] = 1.0,
    json_file: JsonFile = None,
) -> None:
    """Run the parts, and print the figures of each."""
    with embedded_spark(WORKERS, 3) as spark:
        keyed.warm_up(spark)
        run_parts({name: partial(part, spark, size) for name, part in PARTS.items()}, only, json_file)
