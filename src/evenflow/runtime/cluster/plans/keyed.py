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


@dataclass(frozen=True)
class KeyedPlan:
    """One use of an operator on one DataFrame."""

    hosted: Hosted
    """The operator as it is sent to workers."""
    declared: StructType
    """The columns of the result."""
    streaming: bool
    _route: Routed
    _arrow: pa.Schema
    _reads: tuple[int, ...]
    _kept: int
    _modulo: bool = False
    _ordering: Ordering | None = None
    """How rows are ordered; None if they are not."""
    _ranges: Ranges | None = None
    """How keys fall on units, if not by their hashes."""

    def applied(
        self,
        settings: Settings,
        region: str,
        digest: str,
        balance: KeyedBalance,
        skew_bytes: int,
        shares: int = 1,
        shed: int | None = None,
        target_ms: float | None = None,
        key_values: tuple[int, ...] = (),
    ) -> DataFrame:
        """The resulting DataFrame; results of ordered rows come back in `shares` tasks."""
        feed = KeyedFeed(
            settings,
            region,
            digest,
            self._arrow.serialize().to_pybytes(),
            balance.by_content,
            self.hosted.ordered,
            tuple(self._route.names),
            self.streaming,
            self._route.key_place,
            self._reads,
            self._kept,
            0 if balance.by_content else balance.choices,
            self._modulo,
            mark_of(settings.cluster, region),
            skew_bytes,
            balance.divided,
            balance.seed,
            max(LEAST_REPORT_S, balance.report_s),
            self._ranges,
            shed,
            None if target_ms is None else target_ms / 1e3,
            key_values,
        )
        if self._ordering is None:
            return self._route.rows.mapInArrow(KeyedTask(feed), self.declared)
        from evenflow.runtime.feeder.ticks import TimeColumn, ordered

        by, clock = self._ordering, None
        if by.lateness is not None:
            place = 0 if by.inputs is None else self._route.names.index(by.inputs.column)
            clock = TimeColumn(by.places[0], by.names[0], by.inputs, place)
        return ordered(self._route.rows, feed, self.hosted.units, shares, clock, by.lateness, by.waits, self.declared)


def prepared(spark: SparkSession, operator: KeyedOperator, df: DataFrame) -> KeyedOperator:
    """The operator with columns spelled as in `df`, and planned for the session's settings."""
    exact = case_sensitive(spark)
    operator = spelled(operator, df.columns, exact)
    check_apart(operator, df.columns, exact)
    return operator.planned(ansi=spark.conf.get("spark.sql.ansi.enabled") == "true")


def stored_as(
    operator: KeyedOperator,
    df: DataFrame,
    key: KeyColumns,
    spread: str,
    ordering: Ordering | None,
    units: int,
    was: str | None,
    bounds: pa.Array | None = None,
) -> Kept:
    """What tells stored state of this use of an operator from that of others.

    Without names, this text was the name under which state was stored.
    """
    by = f"{key} ({key_types(df, key)})"
    by = f"{by} modulo" if spread == "modulo" else by if bounds is None else f"{by} in {digest_of(bounds)}"
    rest = f" by {by}{ordering or ''}"
    text = f"{identity(operator)}{rest}"

    def new_beside(stored: str) -> Sequence[str]:
        return new_parts(operator, stored.removesuffix(rest)) if stored.endswith(rest) else ()

    return Kept(text, units, text if was == "" else was, new_beside)


def plan_keyed(
    spark: SparkSession,
    df: DataFrame,
    key: KeyColumns,
    operator: KeyedOperator,
    schema: StructType | str | None,
    units: int,
    ordered: bool,
    spread: str = "hash",
    ordering: Ordering | None = None,
    bounds: pa.Array | None = None,
    stored: bool = False,
) -> KeyedPlan:
    """Plan an operator with `units` units, including the unit of null keys; `stored`: its state is."""
    route = routed(df, key, operator.hashed, spread)
    waiting = ordering is not None and df.isStreaming
    declared = schema_of(schema) if schema is not None else _returned(spark, df, operator, waiting)
    arrow = arrow_schema(spark, declared)
    if schema is not None:
        check_declared(operator, described(arrow_schema(spark, df.schema), df.schema), arrow)
    seen = zip(route.names[:-1], route.rows.schema.fields, strict=False)
    visible = arrow_schema(spark, StructType([StructField(name, f.dataType, f.nullable) for name, f in seen]))
    kept = _kept(operator, visible, arrow, len(df.columns)) if ordering is None else 0
    reads = _reads(operator, visible) if kept or not operator.adds else range(len(visible))
    if ordering is not None:
        operator, reads = _timed(operator, visible, list(reads), ordering, units, arrow)
    read = pa.schema([visible.field(place) for place in reads])
    hosted = Hosted(operator, read, pa.schema(list(arrow)[kept:]), units, kept > 0, ordered)
    modulo = spread == "modulo"
    if stored and ordering is None and (kept or ordered) and not _known_again(df, key, read, kept):
        route = marked(route, len(df.columns))
    ranges = Ranges(bounds, route.range_place, units) if bounds is not None and route.range_place is not None else None
    return KeyedPlan(hosted, declared, df.isStreaming, route, arrow, tuple(reads), kept, modulo, ordering, ranges)


def _known_again(df: DataFrame, key: KeyColumns, read: pa.Schema, kept: int) -> bool:
    """Whether the columns that are sent tell one row from another, so that a result finds its row again.

    If rows come back from the workers (`kept` is 0), those that are equal in what is sent have equal results.
    """
    told = {*read.names, *([df.columns[place]] if (place := named_by_key(df, key)) is not None else [])}
    return all(is_plain(field.type) for field in read) and (not kept or told >= set(df.columns))


def _timed(
    operator: KeyedOperator, rows: pa.Schema, reads: list[int], ordering: Ordering, units: int, result: pa.Schema
) -> tuple[KeyedOperator, list[int]]:
    """The operator behind a buffer of ordered rows, and the places of the columns to send: its own, and the order's."""
    source = [] if ordering.inputs is None else [_place_of_inputs(ordering.inputs.column, rows)]
    sent = sorted({*reads, *ordering.places, *source})
    mine, order = [sent.index(place) for place in reads], [sent.index(place) for place in ordering.places]
    columns = pa.schema([rows.field(place) for place in sent])
    timed = ordering.lateness is not None and ordering.waits
    return Timed(operator, columns, mine, order, timed, units, result, ordering.inputs), sent


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
