"""How rules are put into a query's plan: the rows and the operator that `Cluster.detect` gives to `keyed`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any, Literal, get_args

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType
from pyspark.util import PythonEvalType

from evenflow.errors import InvalidArgument
from evenflow.model.given import is_one_of, number_of
from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.operator import RuleOperator
from evenflow.runtime.cluster.arguments.verbs import check_dataframe, schema_of

PANDAS = PythonEvalType.SQL_SCALAR_PANDAS_UDF
Rules = str | Sequence[str] | Mapping[str, str]
Order = Literal["time", "arrival"]
"""How rules see the rows of one key: in the order of their times, or as they arrive."""

STREAM, TIME = "__evenflow_stream", "__evenflow_time"
"""Columns that are added: if there are several streams, and if rules use the time of the micro-batch."""
SECONDS = {
    **dict.fromkeys(("microsecond", "us"), 1e-6),
    **dict.fromkeys(("millisecond", "msec", "ms"), 1e-3),
    **dict.fromkeys(("second", "sec", "s"), 1.0),
    **dict.fromkeys(("minute", "min", "m"), 60.0),
    **dict.fromkeys(("hour", "h"), 3600.0),
    **dict.fromkeys(("day", "d"), 86400.0),
    **dict.fromkeys(("week", "w"), 604800.0),
}
SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


@dataclass(frozen=True)
class Detection:
    """Rules over some rows, as arguments of `Cluster.keyed`."""

    rows: DataFrame
    operator: RuleOperator
    order_by: tuple[str, ...] | None
    """The columns by which rows are put in order; the time, if there is one, is the first. None: order of arrival."""
    lateness: float | None
    """Seconds for which rows wait for others; None if they do not wait."""


def plan_rules(
    df: DataFrame | Mapping[str, DataFrame],
    rules: Rules,
    *,
    key: str | Column | Sequence[str | Column],
    functions: Mapping[str, Callable[..., Any]] | None,
    variables: Mapping[str, Any] | None,
    time: str | None,
    lateness: str | float | timedelta | None,
    order: Order | None = None,
    order_by: str | Sequence[str] | None = None,
    ordered: bool = False,
) -> Detection:
    """The rows, the operator that runs the rules over them, and the order in which it is to see them."""
    given = _functions(functions)
    plain = RuleOperator(rules, given, variables=variables)
    late_s = None if lateness is None else seconds_of(lateness)
    keys = _keys(key)
    if isinstance(df, Mapping):
        rows, streams = _union(df, keys)
    else:
        check_dataframe(df)
        rows, streams = df, {plain.stream: df.columns}
    several = STREAM if len(streams) > 1 else None
    by = _order_by(order, order_by, time, ordered)
    in_order = time is not None and by is not None
    if time is not None:
        time = _time(time, streams)
    elif plain.timed:
        time, rows = TIME, rows.withColumn(TIME, F.current_timestamp())
    if in_order and by is not None:
        by = (str(time), *(name for name in by if name.lower() != str(time).lower()))
        _check_waiting(plain, rows, late_s)
    names = [_resolved(one, rows.columns) or one for one in keys if isinstance(one, str)]
    operator = RuleOperator(
        rules,
        given,
        variables=variables,
        key=names,
        time=time,
        lateness_s=late_s,
        streams=streams,
        stream_column=several,
        in_order=in_order,
        as_they_come=order == "arrival",
    )
    return Detection(rows, operator, by, late_s if in_order else None)


def _order_by(order: Any, order_by: Any, time: Any, ordered: bool) -> tuple[str, ...] | None:
    """The columns by which rows are put in order beside the time; None for the order of arrival."""
    if order is not None and not is_one_of(order, get_args(Order)):
        raise InvalidArgument(f"order={order!r}: give 'time', or 'arrival' for rows as they come")
    if order == "time" and time is None:
        raise InvalidArgument("order='time' and time is None: name the column that holds the time")
    if order == "arrival" and order_by is not None:
        raise InvalidArgument(f"order='arrival' and order_by={order_by!r}: leave out one of them")
    names = [order_by] if isinstance(order_by, str) else order_by
    if names is not None and (not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names)):
        raise InvalidArgument(f"order_by={order_by!r}: give the name of a column, or a list of names")
    if names is None and (time is None or order == "arrival"):
        return None
    if ordered:
        raise InvalidArgument(
            f"{'time=' if order_by is None else 'order_by='} and ordered=True: rules see rows in the order of their "
            "times, and results come then, not in the order in which Spark has the rows: leave out ordered=True, or "
            "give order='arrival'"
        )
    return tuple(names or ())


def _check_waiting(operator: RuleOperator, rows: DataFrame, lateness: float | None) -> None:
    """Refuse windows and waits over a stream without a lateness: it would never be known when they end."""
    what = operator.awaits_time
    if rows.isStreaming and lateness is None and what:
        raise InvalidArgument(
            f"{what} over a stream with time= and without lateness=: it ends when no row of its time can come any "
            "more. Say by lateness= how far rows may be behind the latest, such as '10 seconds' (0 for not at all), or "
            "give order='arrival': for each key it then ends with the key's own rows only"
        )


def seconds_of(given: str | float | timedelta, what: str = "lateness") -> float:
    """A time in seconds, given as a number, a timedelta, or a text as for Spark's withWatermark."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    if isinstance(given, str):
        text = given.lower()
        parts = [(float(number), _unit(unit)) for number, unit in SPAN.findall(text)]
        if parts and not SPAN.sub("", text) and all(unit is not None for _, unit in parts):
            return sum(number * (unit or 0.0) for number, unit in parts)
    if math.isnan(number_of(given)):
        raise InvalidArgument(f"{what}={given!r}: give seconds, or a text such as '10 seconds' or '5 minutes'")
    return float(given)


def _unit(name: str) -> float | None:
    """The seconds of a unit, in the singular or the plural."""
    return SECONDS.get(name, SECONDS.get(name.removesuffix("s")))


def _keys(key: Any) -> list[str | Column]:
    keys = [key] if isinstance(key, str | Column) or not isinstance(key, Sequence) else list(key)
    if not keys or not all(isinstance(one, str | Column) for one in keys):
        raise InvalidArgument(f"key={key!r}: give the name of a column or a Column, or a list of them")
    return keys


def _resolved(name: str, columns: Sequence[str]) -> str | None:
    """The column with this name or, if there is only one, with this name in another case; None if there is none."""
    if name in columns:
        return name
    fit = {column for column in columns if column.lower() == name.lower()}
    return fit.pop() if len(fit) == 1 else None


def _time(time: Any, streams: Mapping[str, Sequence[str]]) -> str:
    """The column that `time` names; every stream must have it."""
    if not isinstance(time, str):
        raise InvalidArgument(f"time={time!r}: give the name of a column")
    found = None
    for name, columns in streams.items():
        found = _resolved(time, columns)
        if found is None:
            where = f" of stream {name!r}" if len(streams) > 1 else ""
            raise InvalidArgument(f"time={time!r} is no column{where}; there are: {', '.join(columns)}")
    assert found is not None  # there is a stream
    return found


def _union(streams: Mapping[str, DataFrame], keys: Sequence[str | Column]) -> tuple[DataFrame, dict[str, list[str]]]:
    """The rows of all streams, and the columns of each; columns that a stream does not have are null.

    The first column is the number of the row's stream: so rows of one time are in the order of the streams given.
    """
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
    for name, df in streams.items():
        _check_keys(name, df, keys)
    parts = [df.select(F.lit(number).alias(STREAM), "*") for number, df in enumerate(streams.values())]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts), columns


def _check_keys(stream: str, df: DataFrame, keys: Sequence[str | Column]) -> None:
    """Refuse a key that a stream does not have: all its rows would be without a key."""
    for one in keys:
        try:
            if isinstance(one, Column) or one not in df.columns:
                df.select(one)
        except PySparkException:
            raise InvalidArgument(
                f"key {one!r} is no column of stream {stream!r}, which would have no keys; there are: "
                f"{', '.join(df.columns)}"
            ) from None


def _check_types(streams: Mapping[str, DataFrame]) -> None:
    """Refuse a column that has different types in two streams, or two columns that differ only in case."""
    seen: dict[str, tuple[str, DataType]] = {}
    cases: dict[str, tuple[str, str]] = {}
    for name, df in streams.items():
        for field in df.schema.fields:
            stream, column = cases.setdefault(field.name.lower(), (name, field.name))
            if field.name not in seen and stream != name:
                raise InvalidArgument(
                    f"column '{column}' of stream '{stream}' and '{field.name}' of '{name}' differ in case only: "
                    "rename one of them"
                )
            other, kind = seen.setdefault(field.name, (name, field.dataType))
            if kind != field.dataType:
                raise InvalidArgument(
                    f"column '{field.name}' is {kind.simpleString()} in stream '{other}' and "
                    f"{field.dataType.simpleString()} in '{name}': cast one of them, or rename it"
                )


def _functions(functions: Any) -> Any:
    """The user's functions by name; anything but a mapping is left to the operator, which refuses it."""
    if not isinstance(functions, Mapping):
        return functions
    return {name: _function(name, function) for name, function in functions.items()}


def _function(name: str, function: Any) -> Any:
    """A user's function; with its type, if it was made with `pandas_udf`."""
    returns = getattr(function, "returnType", None)
    if returns is None or not callable(getattr(function, "func", None)):
        return function
    if getattr(function, "evalType", PANDAS) != PANDAS:
        raise InvalidArgument(
            f"functions has {name}, a udf that is not called with pandas Series: make it with F.pandas_udf, or give "
            "the Python function itself, which then gets Series"
        )
    kind = returns if isinstance(returns, DataType) else schema_of(f"value {returns}")[0].dataType
    return UserFunction(function.func, to_arrow_type(kind))
