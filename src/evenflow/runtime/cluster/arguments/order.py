"""The arguments `order_by`, `lateness` and `idle`, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType

from evenflow.errors import InvalidArgument
from evenflow.operators.columns import is_time, require_time
from evenflow.operators.declared import fitting
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.time.inputs import Inputs
from evenflow.operators.time.ordering import require_sortable
from evenflow.policy import KeyedBalance
from evenflow.runtime.cluster.arguments.verbs import case_sensitive, check_columns
from evenflow.runtime.cluster.plans.detect import seconds_of

LONGEST_S = 1e9
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
"""Spark's setting: whether time is the least of what inputs have reached ("min"), or the greatest ("max")."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """The columns by which rows are ordered, and how long rows wait."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    """The places of these columns in the DataFrame."""
    lateness: int | None
    """Microseconds; None if rows are ordered within their micro-batch only."""
    inputs: Inputs | None = None
    """The inputs, if there are several and rows are ordered by a time; it is the least of theirs where it is told."""
    waits: bool = True
    """Whether rows wait for their time; else they are through at the end of their micro-batch."""
    given: bool = False
    """Whether the user has given a lateness."""

    def __str__(self) -> str:
        """The part of it that stored state depends on: whether rows wait, but not how long."""
        return f" ordered by {', '.join(self.names)}{' as time' if self.given else ''}"


def ordering_of(
    df: DataFrame,
    order_by: str | Sequence[str] | None,
    lateness: str | float | timedelta | None,
    ordered: bool,
    balance: KeyedBalance,
    operator: KeyedOperator,
    idle: str | float | timedelta | None = None,
) -> Ordering | None:
    """How rows are to be ordered; None if they are not to be."""
    _check_idle(idle, operator, order_by, lateness)
    if order_by is None:
        if lateness is not None:
            raise InvalidArgument(f"lateness={lateness!r} and no order_by: name the column that holds the time")
        return None
    if ordered:
        raise InvalidArgument(
            "order_by and ordered=True: with order_by, results come when their time has come, not in the order in "
            "which Spark has their rows: leave out one of them"
        )
    if not balance.by_content:
        raise InvalidArgument(
            f"order_by and balance {balance.name!r}, which sends rows of one key to several workers: there is no one "
            "place where they could be put in order; use another balance"
        )
    given: Any = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(given, Sequence) or not given or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"order_by={order_by!r}: give the name of a column, or a list of names")
    places = tuple(_place(df, name) for name in given)
    if len(set(places)) < len(places):
        raise InvalidArgument(f"order_by={order_by!r} names a column twice: name each once")
    told = lateness is not None or (df.isStreaming and not operator.waits)
    _check_types(df, places, told)
    names, late = tuple(df.columns[place] for place in places), _micros("lateness", lateness)
    if not told:
        kind = to_arrow_type(df.schema[places[0]].dataType, timezone="UTC")
        counted = df.isStreaming and is_time(kind)  # rows of one input that others have overtaken are counted
        return Ordering(names, places, None, _inputs(df, operator, None) if counted else None)
    return Ordering(names, places, late or 0, _inputs(df, operator, idle), operator.waits, lateness is not None)


def _inputs(df: DataFrame, operator: KeyedOperator, idle: Any) -> Inputs | None:
    """The inputs of an operator, with the session's policy."""
    if operator.inputs is None:
        return None
    policy: Any = df.sparkSession.conf.get(POLICY, "min")
    column, names = operator.inputs
    return Inputs(column, names, idle=_micros("idle", idle), policy=policy)


def _check_idle(idle: Any, operator: KeyedOperator, order_by: Any, lateness: Any) -> None:
    """Refuse an idle time that would say nothing."""
    if idle is None:
        return
    if operator.inputs is None:
        raise InvalidArgument(f"idle={idle!r}: there is one input, which nobody waits for; leave out idle")
    if order_by is None or (lateness is None and operator.waits):
        raise InvalidArgument(f"idle={idle!r} and no lateness: rows do not wait for other inputs; leave out idle")


def warning_of(operator: KeyedOperator, ordering: Ordering | None, name: str) -> str:
    """The warning that results depend on the order of arrival; empty if they do not."""
    if ordering is not None or not operator.order_sensitive or not operator.content_sensitive:
        return ""
    return (
        f"{name}: rows of one key that are in several Spark partitions reach {type(operator).__name__} in the order of "
        "arrival, which may be another each time, and so may its results. Give order_by=, the column to order rows by "
        "(detect: time=, or order_by=; order='arrival' says that any order will do). If all rows of a key are in one "
        "partition, or order does not matter, set order_sensitive = False on the operator"
    )


def _place(df: DataFrame, name: str) -> int:
    """The place of a column; its name may be in another case if only one column fits."""
    there = df.columns
    fit = fitting(name, there, case_sensitive(df.sparkSession))
    if len(fit) != 1:
        wrong = "there is more than once" if fit else "does not exist"
        raise InvalidArgument(f"order_by: column {name!r} {wrong}; the columns are {', '.join(there)}")
    return fit[0]


def _check_types(df: DataFrame, places: Sequence[int], timed: bool) -> None:
    check_columns(df.schema)
    for place in places:
        name, kind = df.columns[place], df.schema[place].dataType
        if isinstance(kind, StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            raise InvalidArgument(
                f"order_by: column {name!r} is a {kind.simpleString()}, and rows are ordered by the bytes of strings: "
                "order by another column, or cast it to string"
            )
        require_sortable(name, to_arrow_type(kind, timezone="UTC"))
    if timed:
        name = df.columns[places[0]]
        require_time("lateness=", name, to_arrow_type(df.schema[places[0]].dataType, timezone="UTC"))


def _micros(what: str, given: str | float | timedelta | None) -> int | None:
    if given is None:
        return None
    seconds = seconds_of(given, what)
    if not 0 <= seconds <= LONGEST_S or math.isnan(seconds):
        raise InvalidArgument(f"{what}={given!r}: give seconds from 0 on")
    return round(seconds * 1e6)
