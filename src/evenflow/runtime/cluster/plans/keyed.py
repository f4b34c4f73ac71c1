"""How a keyed operator is put into a query's plan: which columns are sent to the workers, which stay, which return."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from evenflow.errors import InvalidArgument, first_line, nearest
from evenflow.model.messages import LEAST_REPORT_S
from evenflow.operators.declared import (
    COLLATION,
    COLUMN,
    check_apart,
    check_declared,
    columns_of,
    reads_of,
    spelled,
)
from evenflow.operators.growing import new_parts
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator, identity
from evenflow.operators.row_marks import is_plain
from evenflow.operators.time.timed import Timed
from evenflow.policy import KeyedBalance
from evenflow.runtime.cluster.arguments.order import Ordering
from evenflow.runtime.cluster.arguments.verbs import arrow_schema, case_sensitive, schema_of
from evenflow.runtime.cluster.plans.bounds import digest_of
from evenflow.runtime.cluster.plans.keys import KeyColumns, Routed, key_types, marked, named_by_key, routed
from evenflow.runtime.driver.operator_names import Kept
from evenflow.runtime.feeder.keyed.feed import KeyedFeed
from evenflow.runtime.feeder.keyed.feeder import KeyedTask
from evenflow.runtime.feeder.keyed.ranges import Ranges
from evenflow.runtime.wire.settings import Settings, mark_of


@dataclass(frozen=True, kw_only=True)
class KeyedUse:
    """One use of an operator on one DataFrame; its arguments are checked."""

    spark: SparkSession
    df: DataFrame
    key: KeyColumns
    operator: KeyedOperator
    schema: StructType | str | None
    """The columns of the result, if the user declares them."""
    units: int
    """With the unit of null keys."""
    ordered: bool
    """Whether results come in the order of the rows."""
    spread: str
    """How keys fall on units."""
    ordering: Ordering | None
    """How rows are ordered; None if they are not."""
    bounds: pa.Array | None
    """The bounds of the ranges of keys, if keys fall on units by ranges."""
    stored: bool
    """Whether its state is stored."""


@dataclass(frozen=True, kw_only=True)
class KeyedPlan:
    """How one use of an operator is put into the plan of a query."""

    use: KeyedUse
    hosted: Hosted
    """The operator as it is sent to workers."""
    declared: StructType
    """The columns of the result."""
    route: Routed
    result: pa.Schema
    """The columns of the result, in Arrow."""
    reads: tuple[int, ...]
    """The places of the columns that the operator reads."""
    kept: int
    """How many columns stay with the feeder."""

    def feed(
        self,
        *,
        settings: Settings,
        region: str,
        digest: str,
        balance: KeyedBalance,
        skew_bytes: int,
        shed: int | None,
        target_ms: float | None,
        key_values: tuple[int, ...],
    ) -> KeyedFeed:
        """The settings of the region's feeders."""
        use, route = self.use, self.route
        ranges = None
        if use.bounds is not None and route.range_place is not None:
            ranges = Ranges(use.bounds, route.range_place, use.units)
        return KeyedFeed(
            settings=settings,
            region=region,
            operator=digest,
            schema=self.result.serialize().to_pybytes(),
            by_content=balance.by_content,
            ordered=use.ordered,
            names=tuple(route.names),
            streaming=use.df.isStreaming,
            key_place=route.key_place,
            reads=self.reads,
            kept=self.kept,
            choices=0 if balance.by_content else balance.choices,
            modulo=use.spread == "modulo",
            mark=mark_of(settings.cluster, region),
            skew_bytes=skew_bytes,
            divided=balance.divided,
            seed=balance.seed,
            report_s=max(LEAST_REPORT_S, balance.report_s),
            ranges=ranges,
            shed=shed,
            target_s=None if target_ms is None else target_ms / 1e3,
            key_values=key_values,
        )

    def applied(self, feed: KeyedFeed, shares: int) -> DataFrame:
        """The resulting DataFrame; results of ordered rows come back in `shares` tasks."""
        rows, by = self.route.rows, self.use.ordering
        if by is None:
            return rows.mapInArrow(KeyedTask(feed), self.declared)
        from evenflow.runtime.feeder.ticks import TimeColumn, ordered

        clock = None
        if by.lateness is not None:
            place = 0 if by.inputs is None else self.route.names.index(by.inputs.column)
            clock = TimeColumn(by.places[0], by.names[0], by.inputs, place)
        return ordered(
            rows,
            feed,
            units=self.use.units,
            shares=shares,
            clock=clock,
            lateness=by.lateness,
            waits=by.waits,
            declared=self.declared,
        )


def prepared(spark: SparkSession, operator: KeyedOperator, df: DataFrame) -> KeyedOperator:
    """The operator with columns spelled as in `df`, and planned for the session's settings."""
    exact = case_sensitive(spark)
    operator = spelled(operator, df.columns, exact)
    check_apart(operator, df.columns, exact)
    return operator.planned(ansi=spark.conf.get("spark.sql.ansi.enabled") == "true")


def stored_as(use: KeyedUse, was: str | None) -> Kept:
    """The description by which stored state of this use is found again; `was` is the name that it had before.

    Without names, this text was the name under which state was stored.
    """
    by = f"{use.key} ({key_types(use.df, use.key)})"
    if use.spread == "modulo":
        by = f"{by} modulo"
    elif use.bounds is not None:
        by = f"{by} in {digest_of(use.bounds)}"
    rest = f" by {by}{use.ordering or ''}"
    text = f"{identity(use.operator)}{rest}"

    def new_beside(stored: str) -> Sequence[str]:
        return new_parts(use.operator, stored.removesuffix(rest)) if stored.endswith(rest) else ()

    return Kept(text, use.units, text if was == "" else was, new_beside)


def plan_keyed(use: KeyedUse) -> KeyedPlan:
    """Plan an operator; InvalidArgument if it does not fit the rows."""
    spark, df, operator, ordering = use.spark, use.df, use.operator, use.ordering
    route = routed(df, use.key, operator.hashed, use.spread)
    declared = _declared(use)
    arrow = arrow_schema(spark, declared)
    if use.schema is not None:
        check_declared(operator, described(arrow_schema(spark, df.schema), df.schema), arrow)
    seen = zip(route.names[:-1], route.rows.schema.fields, strict=False)
    visible = arrow_schema(spark, StructType([StructField(name, f.dataType, f.nullable) for name, f in seen]))
    kept = _kept(operator, visible, arrow, len(df.columns)) if ordering is None else 0
    reads = _reads(operator, visible) if kept or not operator.adds else list(range(len(visible)))
    if ordering is not None:
        operator, reads = _timed(use, visible, reads, ordering, arrow)
    read = pa.schema([visible.field(place) for place in reads])
    hosted = Hosted(operator, read, pa.schema(list(arrow)[kept:]), use.units, kept > 0, use.ordered)
    if use.stored and ordering is None and (kept or use.ordered) and not _known_again(df, use.key, read, kept):
        route = marked(route, len(df.columns))
    return KeyedPlan(
        use=use, hosted=hosted, declared=declared, route=route, result=arrow, reads=tuple(reads), kept=kept
    )


def _declared(use: KeyedUse) -> StructType:
    """The columns of the result: as the user declares them, or as the operator says."""
    if use.schema is not None:
        return schema_of(use.schema)
    return _returned(use.spark, use.df, use.operator, use.ordering is not None and use.df.isStreaming)


def _known_again(df: DataFrame, key: KeyColumns, read: pa.Schema, kept: int) -> bool:
    """Whether the columns that are sent tell one row from another, so that a result finds its row again.

    If whole rows come back from the workers (`kept` is 0), rows that are sent as equal ones have equal results.
    """
    told = {*read.names, *([df.columns[place]] if (place := named_by_key(df, key)) is not None else [])}
    return all(is_plain(field.type) for field in read) and (not kept or told >= set(df.columns))


def _timed(
    use: KeyedUse, rows: pa.Schema, reads: list[int], ordering: Ordering, result: pa.Schema
) -> tuple[KeyedOperator, list[int]]:
    """The operator behind a buffer of ordered rows, and the places of the columns to send: its own, and the order's."""
    source = [] if ordering.inputs is None else [_place_of_inputs(ordering.inputs.column, rows)]
    sent = sorted({*reads, *ordering.places, *source})
    timed = Timed(
        inner=use.operator,
        rows=pa.schema([rows.field(place) for place in sent]),
        mine=[sent.index(place) for place in reads],
        order=[sent.index(place) for place in ordering.places],
        timed=ordering.lateness is not None and ordering.waits,
        units=use.units,
        schema=result,
        inputs=ordering.inputs,
    )
    return timed, sent


def _place_of_inputs(name: str, rows: pa.Schema) -> int:
    """The place of the column that tells inputs apart."""
    if name not in rows.names:
        raise InvalidArgument(
            f"inputs of the operator are told apart by column {name!r}, which does not exist; "
            f"{nearest(name, rows.names)}"
        )
    return int(rows.names.index(name))


def _returned(spark: SparkSession, df: DataFrame, operator: KeyedOperator, waiting: bool) -> StructType:
    """The columns that the operator returns; columns of the input keep the type that they have in Spark.

    Only an operator that adds to the rows keeps the input's columns as they are. With any other operator a column may
    be null although the input's column of that name may not; if Spark were told otherwise, it would drop null filters.
    So may any column if rows are `waiting`: they may come from an earlier run of the query, which had fewer columns.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    given = described(arrow_schema(spark, df.schema), df.schema)
    try:
        returned = columns_of(operator, given)
    except NotImplementedError as error:
        raise InvalidArgument(str(error)) from None
    try:
        known = from_arrow_schema(returned).fields
    except PySparkException as error:
        name = type(operator).__name__
        raise InvalidArgument(f"{name}.schema has a column that Spark cannot take: {first_line(error)}") from None
    fields = []
    for field, made in zip(returned, known, strict=True):
        known_as = _known(field, made, given, df.schema)
        may_be_null = known_as.nullable or waiting or not operator.adds or known_as.name != made.name
        fields.append(StructField(made.name, known_as.dataType, may_be_null, known_as.metadata))
    return StructType(fields)


def described(arrow: pa.Schema, schema: StructType) -> pa.Schema:
    """The columns with what Spark knows of them but Arrow does not: collations, char and varchar, interval types."""
    told = []
    for field, known in zip(arrow, schema.fields, strict=True):
        told.append(field.with_metadata({COLUMN: known.json(), COLLATION: _collation(known.dataType)}))
    return pa.schema(told)


def _known(field: pa.Field, made: StructField, given: pa.Schema, rows: StructType) -> StructField:
    """The column as Spark is told it: the input's column if the operator says so, or by the same name and type."""
    told = (field.metadata or {}).get(COLUMN)
    if told:
        return StructField.fromJson(json.loads(told))
    same = given.names.count(field.name) == 1 and given.field(field.name).type == field.type
    return rows[field.name] if same and told is None else made


def _collation(kind: DataType) -> str:
    """The first collation in a column's type that is not that of bytes; empty if there is none."""
    match kind:
        case StringType():
            return "" if kind.isUTF8BinaryCollation() else str(kind.collation)
        case ArrayType():
            return _collation(kind.elementType)
        case StructType():
            return next(filter(None, (_collation(field.dataType) for field in kind.fields)), "")
    return ""


def _kept(operator: KeyedOperator, rows: pa.Schema, schema: pa.Schema, width: int) -> int:
    """How many columns need not be sent to the workers and back: all of the user's, if the operator only adds columns.

    If the declared schema has other names or types for them, the whole result must be made to fit it: then 0.
    """
    own, declared = list(rows)[:width], list(schema)[:width]
    same = [(field.name, field.type) for field in own] == [(field.name, field.type) for field in declared]
    return width if operator.adds and same and len(schema) > width else 0


def _reads(operator: KeyedOperator, rows: pa.Schema) -> list[int]:
    """The places of the columns that an operator reads."""
    names = reads_of(operator, rows)
    wrong = [name for name in names if name not in rows.names]
    if wrong:
        raise InvalidArgument(
            f"{type(operator).__name__} reads column {wrong[0]!r}, which does not exist; "
            f"{nearest(wrong[0], rows.names)}"
        )
    return [place for place, name in enumerate(rows.names) if name in names]
