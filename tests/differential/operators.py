"""Ready-made operators, and what Spark SQL says they should give."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

import evenflow as ef
from tests.differential.cases import Case
from tests.differential.source import ENDING, key_of

SPARK = {"count": F.count, "sum": F.sum, "mean": F.avg, "min": F.min, "max": F.max, "std": F.stddev_samp}


def applied(cluster: ef.Cluster, df: DataFrame, case: Case) -> DataFrame:
    """The operator of a case over its rows."""
    options: dict[str, Any] = {"units": 64, "name": f"differential-{case.seed}"}
    if case.ordered:
        options["order_by"] = "at"
        if case.lateness:
            options["lateness"] = f"{case.lateness} seconds"
    out = cluster.keyed(df, key_of(case), _operator(case), **options)
    if "late" in out.columns and "late" not in df.columns:
        out = out.where("late is null").drop("late")
    return out.where(F.col("left_id" if case.what.startswith("join") else "id") < ENDING)


def _operator(case: Case) -> Any:
    named = case.how.title()
    match case.what:
        case "rolling-rows":
            return getattr(ef, f"Rolling{named}")("v", rows=case.window)
        case "rolling-seconds":
            return getattr(ef, f"Rolling{named}")("v", seconds=case.window, time="at")
        case "running":
            return getattr(ef, f"Running{named}")("v")
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
        case "last":
            return df.withColumn("v_last", F.last("v", ignorenulls=True).over(so_far))
        case "distinct":
            first = F.row_number().over(Window.partitionBy(*keys(case), "v").orderBy("at")) == 1
            counted = df.withColumn("first", F.when(first & F.col("v").isNotNull(), 1).otherwise(0))
            return counted.withColumn("v_distinct", F.sum("first").over(so_far)).drop("first")
        case "join-rows" | "join-seconds":
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
    if case.what == "join-seconds":
        apart = F.abs(F.unix_micros("left_at") - F.unix_micros("right_at"))
        near = apart < case.window * 1_000_000
    else:  # of those before it on the other side, the last ones
        before = F.col("left_at") < F.col("right_at")
        near = (before & (F.col("left_lefts") > F.col("right_lefts") - case.window)) | (
            ~before & (F.col("right_rights") > F.col("left_rights") - case.window)
        )
    joined = left.join(right, [*on, near])
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
