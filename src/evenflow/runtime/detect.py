"""Rules put into a query's plan: which rows go to the operator that runs them (`Cluster.detect`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from evenflow.errors import InvalidArgument
from evenflow.rules.functions import Function
from evenflow.rules.operator import RuleOperator
from evenflow.runtime.arguments import check_dataframe, schema_of

Rules = str | Sequence[str] | Mapping[str, str]

STREAM, TIME = "__evenflow_stream", "__evenflow_time"
"""Columns that are added where there are several streams, and where rules go by the time of the micro-batch."""
SECONDS = {"millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


def plan_rules(
    df: DataFrame | Mapping[str, DataFrame],
    rules: Rules,
    key: str | Column | Sequence[str | Column],
    functions: Mapping[str, Callable[..., Any]] | None,
    time: str | None,
    lateness: str | float | timedelta | None,
) -> tuple[DataFrame, RuleOperator]:
    """The rows, and the operator that runs the rules over them."""
    given = {name: _function(name, function) for name, function in (functions or {}).items()}
    late_s = None if lateness is None else seconds_of(lateness)
    names = [name for name in ([key] if isinstance(key, str | Column) else key) if isinstance(name, str)]
    if isinstance(df, Mapping):
        rows, streams = _union(df)
    else:
        check_dataframe(df)
        rows, streams = df, {RuleOperator(rules, given).stream: df.columns}
    several = STREAM if len(streams) > 1 else None
    if time is not None and time not in rows.columns:
        raise InvalidArgument(f"time={time!r} is no column; there are: {', '.join(_columns(streams))}")
    if time is None and RuleOperator(rules, given).timed:
        time, rows = TIME, rows.withColumn(TIME, F.current_timestamp())
    operator = RuleOperator(
        rules, given, key=names, time=time, lateness_s=late_s, streams=streams, stream_column=several
    )
    return rows, operator


def seconds_of(lateness: str | float | timedelta) -> float:
    """Seconds, from a number of them, a timedelta or a text as Spark's withWatermark takes it."""
    if isinstance(lateness, timedelta):
        return lateness.total_seconds()
    if isinstance(lateness, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", lateness)
        if found is None or found[2] not in SECONDS:
            raise InvalidArgument(f"lateness={lateness!r}: give seconds, or a text such as '10 seconds' or '5 minutes'")
        return float(found[1]) * SECONDS[found[2]]
    if isinstance(lateness, bool) or not isinstance(lateness, int | float):
        raise InvalidArgument(f"lateness={lateness!r}: give seconds, or a text such as '10 seconds' or '5 minutes'")
    return float(lateness)


def _union(streams: Mapping[str, DataFrame]) -> tuple[DataFrame, dict[str, list[str]]]:
    """All rows, with a column that tells which stream each is of; columns that a stream has not are null."""
    if not streams:
        raise InvalidArgument("there are no streams: give a DataFrame, or several by name")
    for name, df in streams.items():
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"a stream is called {name!r}: give it a name")
        check_dataframe(df)
    kinds = {df.isStreaming for df in streams.values()}
    if len(kinds) > 1:
        still = [name for name, df in streams.items() if not df.isStreaming]
        raise InvalidArgument(f"stream {still[0]!r} is a batch DataFrame and others are streaming: give one kind")
    columns = {name: list(df.columns) for name, df in streams.items()}
    if len(streams) == 1:
        return next(iter(streams.values())), columns
    _check_types(streams)
    parts = [df.withColumn(STREAM, F.lit(name)) for name, df in streams.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts), columns


def _check_types(streams: Mapping[str, DataFrame]) -> None:
    seen: dict[str, tuple[str, DataType]] = {}
    for name, df in streams.items():
        for field in df.schema.fields:
            other, kind = seen.setdefault(field.name, (name, field.dataType))
            if kind != field.dataType:
                raise InvalidArgument(
                    f"column '{field.name}' is {kind.simpleString()} in stream '{other}' and "
                    f"{field.dataType.simpleString()} in '{name}': cast one of them, or rename it"
                )


def _columns(streams: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(column for columns in streams.values() for column in columns))


def _function(name: str, function: Any) -> Any:
    """A user's function; one that was made with `pandas_udf` tells what it returns."""
    returns = getattr(function, "returnType", None)
    if returns is None or not callable(getattr(function, "func", None)):
        return function
    kind = returns if isinstance(returns, DataType) else schema_of(f"value {returns}")[0].dataType
    return Function(function.func, to_arrow_type(kind))
