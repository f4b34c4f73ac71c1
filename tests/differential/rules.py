"""Rules, and what Spark SQL says they should find."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import evenflow as ef
from tests.differential.cases import Case
from tests.differential.operators import aggregate, key_window, keys, last_rows, last_seconds
from tests.differential.source import ENDING

FUNCTIONS = {"mean": "avg", "std": "stddev"}
WITHIN = 20
"""Seconds that a pattern waits."""


def applied(cluster: ef.Cluster, df: DataFrame, case: Case) -> DataFrame:
    """The rule of a case over its rows, which are ordered by their times."""
    options: dict[str, Any] = {"tuning": ef.Tuning(units=64), "name": f"differential-{case.seed}", "time": "at"}
    if case.ordered or case.streaming:
        options["lateness"] = f"{case.lateness or 10} seconds"
    streams: Any = df
    if case.what == "two-streams":
        streams = {"A": df.where("tag = 'R'").drop("tag"), "P": df.where("tag = 'L'").drop("tag")}
    out = cluster.detect(streams, _rule(case), key=keys(case), **options)
    if case.ordered or case.streaming:
        out = out.where("late is null").drop("late")
    return out.where(F.col("id") < ENDING)


def _rule(case: Case) -> str:
    how = f"{FUNCTIONS.get(case.how, case.how)}(v)"
    match case.what:
        case "length":
            return f"SELECT id, {how} AS x FROM S.win:length({case.window})"
        case "filtered":
            return f"SELECT id, {how} AS x FROM S(p > 1).win:length({case.window})"
        case "where":
            return f"SELECT id, {how} AS x FROM S.win:length({case.window}) WHERE p > 1"
        case "time":
            return f"SELECT id, {how} AS x FROM S.win:time({case.window} sec)"
        case "endless":
            return f"SELECT id, {how} AS x FROM S"
        case "length-batch":
            return f"SELECT min(id) AS id, count(*) AS n, {how} AS x FROM S.win:length_batch({case.window})"
        case "time-batch":
            return f"SELECT min(id) AS id, count(*) AS n, {how} AS x FROM S.win:time_batch({case.window} sec)"
        case "pattern":
            found = f"every a=S(p = 3) -> b=S(p = 0) where timer:within({WITHIN} sec)"
        case _:
            found = f"every a=P(p > 1) -> b=A(p > 1) where timer:within({WITHIN} sec)"
    return f"SELECT a.id AS id, b.id AS other, a.v AS v FROM PATTERN [{found}]"


def expected(df: DataFrame, case: Case) -> DataFrame:
    """The reference."""
    match case.what:
        case "length":
            return df.select("id", aggregate(case).over(last_rows(case)).alias("x"))
        case "filtered":
            return df.where("p > 1").select("id", aggregate(case).over(last_rows(case)).alias("x"))
        case "where":
            passing = df.withColumn("v", F.when(F.col("p") > 1, F.col("v")))
            return passing.withColumn("x", aggregate(case).over(last_rows(case))).where("p > 1").select("id", "x")
        case "time":
            return df.select("id", aggregate(case).over(last_seconds(case)).alias("x"))
        case "endless":
            so_far = key_window(case).rowsBetween(Window.unboundedPreceding, 0)
            return df.select("id", aggregate(case).over(so_far).alias("x"))
        case "length-batch":
            place = F.floor((F.row_number().over(key_window(case)) - 1) / case.window)
            return _batches(df.withColumn("batch", place), case).where(F.col("n") == case.window)
        case "time-batch":
            return _batches(df.withColumn("batch", F.floor(F.unix_micros("at") / (case.window * 1_000_000))), case)
        case "pattern":
            return _pairs(df, case, F.col("p") == 3, F.col("p") == 0)
        case _:
            first, then = ((F.col("tag") == tag) & (F.col("p") > 1) for tag in "LR")
            return _pairs(df, case, first, then)


def _batches(df: DataFrame, case: Case) -> DataFrame:
    found = df.groupBy(*keys(case), "batch").agg(
        F.min("id").alias("id"), F.count("*").alias("n"), aggregate(case).alias("x")
    )
    return found.select("id", "n", "x")


def _pairs(df: DataFrame, case: Case, first: Any, then: Any) -> DataFrame:
    """Each first one with the next of its key that comes then, if it comes soon."""
    later = key_window(case).rowsBetween(1, Window.unboundedFollowing)
    coming = F.first(F.when(then, F.struct("id", "at")), ignorenulls=True).over(later)
    waited = F.unix_micros("coming.at") - F.unix_micros("at")
    found = df.withColumn("coming", coming).where(first & (waited <= WITHIN * 1_000_000))
    return found.select("id", F.col("coming.id").alias("other"), "v")
