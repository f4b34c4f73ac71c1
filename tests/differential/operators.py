"""Ready-made operators, and what Spark SQL says they should give."""

from __future__ import annotations

import random
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.operators.aggregates.functions import AggregateColumn
from tests.differential.cases import Case
from tests.differential.source import ENDING, key_of
from tests.differential.values import COLLATED, KINDS

SPARK = {"count": F.count, "sum": F.sum, "mean": F.avg, "min": F.min, "max": F.max, "std": F.stddev_samp}


def applied(cluster: ef.Cluster, df: DataFrame, case: Case) -> DataFrame:
    """The operator of a case over its rows."""
    room = {"skew_bytes": 0} if case.seed % 5 == 0 else {}
    options: dict[str, Any] = {
        "name": f"differential-{case.seed}",
        "tuning": ef.Tuning(units=64, **_spread(case), **room),
    }
    if case.ordered:
        options["order_by"] = "at"
        if case.lateness:
            options["lateness"] = f"{case.lateness} seconds"
    if case.what.startswith("sided"):
        return _sided(cluster, df, case, options).where(F.col("id_left") < ENDING)
    out = cluster.keyed(df, key_of(case), _operator(case), **options)
    if "late" in out.columns and "late" not in df.columns:
        out = out.where("late is null").drop("late")
    return out.where(F.col("left_id" if case.what.startswith("join") else "id") < ENDING)


def _sided(cluster: ef.Cluster, df: DataFrame, case: Case, options: dict[str, Any]) -> DataFrame:
    """The two tags as two DataFrames."""
    window = {"rows": case.window} if case.what == "sided-rows" else {"seconds": case.window, "time": "at"}
    left, right = (df.where(F.col("tag") == tag).drop("tag") for tag in "LR")
    return cluster.join(left, right, key_of(case), suffixes=("_left", "_right"), **window, **options)


def aggregates_of(case: Case) -> dict[str, tuple[AggregateColumn, Column]]:
    """All aggregates that there are of the kind of the values, ours and Spark's; of `kinds`, Spark's is a set."""
    kind = KINDS[case.value]
    found = {
        "rows": (ef.functions.count(), F.count("*")),
        "known": (ef.functions.count("v"), F.count("v")),
        "first": (ef.functions.first("v"), F.first("v")),
        "last": (ef.functions.last("v"), F.last("v")),
        "first_known": (ef.functions.first("v", ignorenulls=True), F.first("v", True)),
        "last_known": (ef.functions.last("v", ignorenulls=True), F.last("v", True)),
    }
    if case.value not in COLLATED:
        found |= {"min": (ef.functions.min("v"), F.min("v")), "max": (ef.functions.max("v"), F.max("v"))}
    if case.value not in (*COLLATED, "double", "float"):
        found["kinds"] = ef.functions.count_distinct("v"), F.collect_set("v")
    if kind.sums:
        found |= {"sum": (ef.functions.sum("v"), F.sum("v")), "mean": (ef.functions.mean("v"), F.avg("v"))}
        found |= {
            "std": (ef.functions.stddev("v"), F.stddev("v")),
            "var": (ef.functions.variance("v"), F.variance("v")),
        }
    return found


def _spread(case: Case) -> dict[str, Any]:
    """How keys fall on units: one in three that can be are in ranges, with bounds that a restart gives again."""
    if case.seed % 3 or case.nested or len(case.keys) > 1:
        return {}
    if not case.streaming:
        return {"spread": "range"}
    drawn, kind = random.Random(case.seed), KINDS[case.keys[0]]
    values = [kind.value(drawn) for _ in range(6)]
    return {"spread": "range", "bounds": [value for value in values if value == value]}  # NaN is no bound


def _operator(case: Case) -> Any:
    named = case.how.title()
    match case.what:
        case "rolling-rows":
            return getattr(ef, f"Rolling{named}")("v", rows=case.window)
        case "rolling-seconds":
            return getattr(ef, f"Rolling{named}")("v", seconds=case.window, time="at")
        case "running":
            return getattr(ef, f"Running{named}")("v")
        case "aggregates-rows" | "aggregates-seconds" | "aggregates-running":
            window = {"rows": {"rows": case.window}, "seconds": {"seconds": case.window, "time": "at"}}
            ours = {name: one for name, (one, _) in aggregates_of(case).items()}
            return ef.Aggregates(ours, **window.get(case.what.partition("-")[2], {}))
        case "last":
            return ef.LastValue("v")
        case "distinct":
            return ef.DistinctCount("v")
        case "join-rows":
            return ef.WindowJoin("tag", "L", "R", rows=case.window)
        case "join-seconds":
            return ef.WindowJoin("tag", "L", "R", seconds=case.window, time="at")
        case _:
            return ef.RunningCount("id", into="n")


def expected(df: DataFrame, case: Case) -> DataFrame:
    """The reference: the same in Spark's own window functions, rows of a key in order of time."""
    so_far = key_window(case).rowsBetween(Window.unboundedPreceding, 0)
    match case.what:
        case "rolling-rows":
            return df.withColumn(f"v_{case.how}", aggregate(case).over(last_rows(case)))
        case "rolling-seconds":
            return df.withColumn(f"v_{case.how}", aggregate(case).over(last_seconds(case)))
        case "running":
            return df.withColumn(f"v_{case.how}", aggregate(case).over(so_far))
        case "aggregates-rows" | "aggregates-seconds" | "aggregates-running":
            frames = {"rows": last_rows(case), "seconds": last_seconds(case), "running": so_far}
            frame = frames[case.what.partition("-")[2]]
            made = {name: theirs.over(frame) for name, (_, theirs) in aggregates_of(case).items()}
            sized = {"kinds": F.size(made["kinds"]).cast("long")} if "kinds" in made else {}
            return df.select("*", *(one.alias(name) for name, one in (made | sized).items()))
        case "last":
            return df.withColumn("v_last", F.last("v", ignorenulls=True).over(so_far))
        case "distinct":
            first = F.row_number().over(Window.partitionBy(*keys(case), "v").orderBy("at")) == 1
            counted = df.withColumn("first", F.when(first & F.col("v").isNotNull(), 1).otherwise(0))
            return counted.withColumn("v_distinct", F.sum("first").over(so_far)).drop("first")
        case "join-rows" | "join-seconds" | "sided-rows" | "sided-seconds":
            return _joined(df, case)
        case _:
            return df.withColumn("n", F.count("id").over(so_far))


def _joined(df: DataFrame, case: Case) -> DataFrame:
    """Pairs of rows of both sides; the later of the two finds the other in its window."""
    order = key_window(case).rowsBetween(Window.unboundedPreceding, 0)
    sides = ("left", "right")
    columns = [name for name in df.columns if name != "tag"]
    ranked = df.withColumn("lefts", F.count(F.when(F.col("tag") == "L", 1)).over(order))
    ranked = ranked.withColumn("rights", F.count(F.when(F.col("tag") == "R", 1)).over(order))
    left, right = (
        ranked.where(F.col("tag") == tag).select(
            *(F.col(name).alias(f"{side}_{name}") for name in (*columns, "lefts", "rights"))
        )
        for tag, side in zip("LR", sides, strict=True)
    )
    on = [F.col(f"left_{name}").eqNullSafe(F.col(f"right_{name}")) for name in keys(case)]
    if case.what.endswith("seconds"):
        apart = F.abs(F.unix_micros("left_at") - F.unix_micros("right_at"))
        near = apart < case.window * 1_000_000
    else:  # of those before it on the other side, the last ones
        before = F.col("left_at") < F.col("right_at")
        near = (before & (F.col("left_lefts") > F.col("right_lefts") - case.window)) | (
            ~before & (F.col("right_rights") > F.col("left_rights") - case.window)
        )
    joined = left.join(right, [*on, near])
    if case.what.startswith("sided"):  # null keys meet nobody
        known = joined.dropna(subset=[f"left_{name}" for name in keys(case)])
        others = [name for name in columns if name not in keys(case)]
        told = [F.col(f"{side}_{name}").alias(f"{name}_{side}") for side in sides for name in others]
        return known.select(*(F.col(f"left_{name}").alias(name) for name in keys(case)), *told)
    return joined.select(*(f"{side}_{name}" for side in sides for name in columns))


def keys(case: Case) -> list[str]:
    named = key_of(case)
    return [named] if isinstance(named, str) else named


def aggregate(case: Case) -> Column:
    return SPARK[case.how]("v")


def key_window(case: Case) -> WindowSpec:
    return Window.partitionBy(*keys(case)).orderBy("at")


def last_rows(case: Case) -> WindowSpec:
    return key_window(case).rowsBetween(1 - case.window, 0)


def last_seconds(case: Case) -> WindowSpec:
    """Less than so many seconds older."""
    return Window.partitionBy(*keys(case)).orderBy(F.unix_micros("at")).rangeBetween(1 - case.window * 1_000_000, 0)
