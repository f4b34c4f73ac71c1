"""How a join of two DataFrames is put into a query's plan: the rows and the operator that it gives to `keyed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.errors import InvalidArgument
from evenflow.graph.build.dialect import Dialect
from evenflow.graph.build.verbs import Pair, on_of, time_of
from evenflow.operators.aggregates.aggregating import check_window
from evenflow.operators.joins.sided_join import SIDE, SidedJoin
from evenflow.runtime.cluster.arguments.verbs import arrow_schema, case_sensitive, check_dataframe
from evenflow.runtime.cluster.plans.keys import hash_of

Places = tuple[int, int]
"""The places of a column of the left side and of one of the right."""


@dataclass(frozen=True)
class JoinPlan:
    """A join, as arguments of `Cluster.keyed`."""

    rows: DataFrame
    key: list[str]
    operator: SidedJoin
    order_by: list[str] | None


@dataclass(frozen=True)
class JoinInputs:
    """The two sides. A column of both, by which they are joined or ordered, is one in the rows that are sent."""

    left: DataFrame
    right: DataFrame
    dialect: Dialect

    def places(self, what: str, pair: Pair) -> Places:
        """The places of two columns of the same type."""
        left, right = (
            self.dialect.column(pa.schema([(name, pa.null()) for name in df.columns]), given, f"{what} of the {side}")
            for df, given, side in zip((self.left, self.right), pair, ("left side", "right side"), strict=True)
        )
        one, other = self.left.schema[left], self.right.schema[right]
        if one.dataType.simpleString() != other.dataType.simpleString():
            raise InvalidArgument(
                f"{what}: column '{one.name}' of the left side is {one.dataType.simpleString()}, and '{other.name}' of "
                f"the right side is {other.dataType.simpleString()}: cast one of them"
            )
        return left, right

    def shared_name(self, pair: Places) -> str:
        """The name of a column of both sides in the rows that are sent."""
        left, right = self.left.columns[pair[0]], self.right.columns[pair[1]]
        return left if left == right else f"{left} = {right}"

    def union(self, shared: Sequence[Places]) -> tuple[DataFrame, list[str], list[str]]:
        """The rows of both sides as one DataFrame, and what the columns of each side are called in it."""
        sides, called = (self.left, self.right), []
        for side, df in enumerate(sides):
            common = {pair[side]: self.shared_name(pair) for pair in reversed(shared)}
            prefix = ("left", "right")[side]
            called.append([common.get(place, f"{prefix}.{name}") for place, name in enumerate(df.columns)])
        parts = []
        for side, df in enumerate(sides):
            plain = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
            columns = [
                F.lit(side).alias(SIDE),
                *(F.col(f"c{pair[side]}").alias(self.shared_name(pair)) for pair in shared),
            ]
            for other, names in enumerate(called):
                own = {pair[other] for pair in shared}
                for place, field in enumerate(sides[other].schema.fields):
                    value = F.col(f"c{place}") if other == side else F.lit(None).cast(field.dataType)
                    columns += [] if place in own else [value.alias(names[place])]
            parts.append(plain.select(*columns))
        return parts[0].union(parts[1]), called[0], called[1]


def plan_join(
    spark: SparkSession,
    left: DataFrame,
    right: DataFrame,
    *,
    on: Any,
    rows: int | None,
    seconds: float | None,
    time: Any,
    suffixes: Any,
    order_by: Any,
) -> JoinPlan:
    """Plan a join; InvalidArgument if the sides do not fit."""
    inputs = _inputs(spark, left, right)
    times = time_of(time)
    window = check_window("join", rows, seconds, None if times is None else times[0])
    on_pairs = on_of(on)
    keys = [inputs.places("on", pair) for pair in on_pairs]
    for place, _ in keys:
        hash_of(left, [F.col(_quoted(left.columns[place]))], f"on: column '{left.columns[place]}'")
    clock = [] if times is None else [inputs.places("time", times)]
    order = list(clock)  # pairs do not depend on it where there is a time, but which of them come first does
    if order_by is not None:
        given = [inputs.places("order_by", pair) for pair in _order_pairs(order_by)]
        order += [places for places in given if places not in clock]
    shared = list(dict.fromkeys((*keys, *clock, *order)))
    union, *called = inputs.union(shared)
    key = [inputs.shared_name(pair) for pair in keys]
    for name in key:
        union = union.where(F.col(_quoted(name)).isNotNull())
    once = [places for places, pair in zip(keys, on_pairs, strict=True) if pair[0] == pair[1]]
    chosen = _chosen(inputs, once, suffixes)
    mine, theirs = ({names[place]: name for place, name in each} for names, each in zip(called, chosen, strict=True))
    operator = SidedJoin(
        arrow_schema(spark, union.schema),
        mine,
        theirs,
        last=window.rows or 0,
        span=window.span,
        time=inputs.shared_name(clock[0]) if clock else None,
    )
    return JoinPlan(union, key, operator, [inputs.shared_name(pair) for pair in order] or None)


def _inputs(spark: SparkSession, left: Any, right: Any) -> JoinInputs:
    for df in (left, right):
        check_dataframe(df)
    if left.isStreaming != right.isStreaming:
        still = "right" if left.isStreaming else "left"
        raise InvalidArgument(
            f"the {still} side of the join is a batch DataFrame and the other is streaming: give one kind, or use "
            "PySpark's own join with a static DataFrame"
        )
    dialect = Dialect(case_sensitive=case_sensitive(spark))
    for side, df in (("left", left), ("right", right)):
        twice = dialect.twice(df.columns)
        if twice is not None:
            raise InvalidArgument(f"the {side} side of the join has column '{twice}' twice: rename one of them")
    return JoinInputs(left, right, dialect)


def _order_pairs(order_by: Any) -> tuple[Pair, ...]:
    try:
        return on_of(order_by)
    except InvalidArgument as error:
        raise InvalidArgument(str(error).replace("on=", "order_by=", 1)) from None


def _chosen(inputs: JoinInputs, once: Sequence[Places], suffixes: Any) -> tuple[list[tuple[int, str]], ...]:
    """The columns of a pair, of the left and of the right side: places and names.

    Columns in `once` come first, from the left side; names that both sides have get suffixes.
    """
    first, dropped = [pair[0] for pair in once], {pair[1] for pair in once}
    lefts = [*first, *(place for place in range(len(inputs.left.columns)) if place not in first)]
    left = [(place, inputs.left.columns[place]) for place in lefts]
    right = [(place, name) for place, name in enumerate(inputs.right.columns) if place not in dropped]
    if suffixes is not None:
        fold = str if inputs.dialect.case_sensitive else str.lower
        both = {fold(name) for _, name in left} & {fold(name) for _, name in right}
        one, other = _suffixes(suffixes)
        left = [(place, name + one if fold(name) in both else name) for place, name in left]
        right = [(place, name + other if fold(name) in both else name) for place, name in right]
    twice = inputs.dialect.twice([name for _, name in (*left, *right)])
    if twice is not None:
        remedy = "give suffixes=('_left', '_right')" if suffixes is None else "give other suffixes"
        raise InvalidArgument(f"the join would have two columns '{twice}': rename one of them, or {remedy}")
    return left, right


def _suffixes(given: Any) -> tuple[str, str]:
    pair = tuple(given) if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(each, str) for each in pair) or pair[0] == pair[1]:
        raise InvalidArgument(f"suffixes={given!r:.100}: give two different strings, for the left and the right side")
    return pair


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
