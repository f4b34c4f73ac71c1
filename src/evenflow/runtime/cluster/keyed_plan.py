"""How a keyed operator is put into a query's plan: what travels to the workers, what stays, what comes back."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from evenflow.errors import InvalidArgument, first_line, nearest
from evenflow.operators.declared import COLLATION, COLUMN, check_declared, columns_of, reads_of
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.timed import Timed
from evenflow.runtime.cluster.arguments import arrow_schema, schema_of
from evenflow.runtime.cluster.keys import Key, Routed, routed
from evenflow.runtime.cluster.order import Ordering
from evenflow.runtime.feeder.keyed import KeyedFeed
from evenflow.runtime.wire.settings import Settings


@dataclass(frozen=True)
class KeyedPlan:
    """One use of an operator on one DataFrame."""

    hosted: Hosted
    """The operator as workers get it."""
    declared: StructType
    """The columns of the result."""
    streaming: bool
    _route: Routed
    _arrow: pa.Schema
    _reads: tuple[int, ...]
    _kept: int
    _modulo: bool = False
    _ordering: Ordering | None = None
    """How rows are ordered, if they are."""

    def applied(
        self, settings: Settings, region: str, digest: str, by_content: bool, choices: int = 0, shares: int = 1
    ) -> DataFrame:
        """The result; rows that wait for their time come back in as many tasks as there are `shares`."""
        feed = KeyedFeed(
            settings,
            region,
            digest,
            self._arrow.serialize().to_pybytes(),
            by_content,
            self.hosted.ordered,
            tuple(self._route.names),
            self.streaming,
            self._route.key_place,
            self._reads,
            self._kept,
            choices,
            self._modulo,
            f"{settings.cluster}/{region}/",
        )
        if self._ordering is None:
            return self._route.rows.mapInArrow(feed, self.declared)
        from evenflow.runtime.feeder.ticks import ordered

        time = (self._ordering.places[0], self._ordering.names[0]) if self._ordering.lateness is not None else None
        units, lateness = self.hosted.units, self._ordering.lateness
        return ordered(self._route.rows, feed, units, shares, time, lateness, self.declared)


def plan_keyed(
    spark: SparkSession,
    df: DataFrame,
    key: Key,
    operator: KeyedOperator,
    schema: StructType | str | None,
    units: int,
    ordered: bool,
    spread: str = "hash",
    ordering: Ordering | None = None,
) -> KeyedPlan:
    """Plan an operator with so many units, the one of null keys included."""
    route = routed(df, key, operator.hashed, spread)
    declared = schema_of(schema) if schema is not None else _returned(spark, df, operator)
    arrow = arrow_schema(spark, declared)
    if schema is not None:
        check_declared(operator, _described(arrow_schema(spark, df.schema), df.schema), arrow)
    seen = zip(route.names[:-1], route.rows.schema.fields, strict=False)
    visible = arrow_schema(spark, StructType([StructField(name, f.dataType, f.nullable) for name, f in seen]))
    kept = _kept(operator, visible, arrow, len(df.columns)) if ordering is None else 0
    reads = _reads(operator, visible) if kept or not operator.adds else range(len(visible))
    if ordering is not None:
        operator, reads = _timed(operator, visible, list(reads), ordering, units, arrow)
    read = pa.schema([visible.field(place) for place in reads])
    hosted = Hosted(operator, read, pa.schema(list(arrow)[kept:]), units, kept > 0, ordered)
    modulo = spread == "modulo"
    return KeyedPlan(hosted, declared, df.isStreaming, route, arrow, tuple(reads), kept, modulo, ordering)


def _timed(
    operator: KeyedOperator, rows: pa.Schema, reads: list[int], ordering: Ordering, units: int, result: pa.Schema
) -> tuple[KeyedOperator, list[int]]:
    """The operator behind rows that wait, and the places of the columns that travel: its own, and the order's."""
    sent = sorted({*reads, *ordering.places})
    mine, order = [sent.index(place) for place in reads], [sent.index(place) for place in ordering.places]
    columns = pa.schema([rows.field(place) for place in sent])
    return Timed(operator, columns, mine, order, ordering.lateness is not None, units, result), sent


def _returned(spark: SparkSession, df: DataFrame, operator: KeyedOperator) -> StructType:
    """What the operator says it returns; columns that are the input's are of the type that Spark knows them by.

    Only an operator that adds to the rows keeps the input's columns as they are. With any other, a column may be null
    whatever the input's column of that name is, and Spark drops filters for nulls where it is told that there are none.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    given = _described(arrow_schema(spark, df.schema), df.schema)
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
        may_be_null = known_as.nullable or not operator.adds or known_as.name != made.name
        fields.append(StructField(made.name, known_as.dataType, may_be_null, known_as.metadata))
    return StructType(fields)


def _described(arrow: pa.Schema, schema: StructType) -> pa.Schema:
    """The columns with what Spark knows of them and Arrow does not: collations, char and varchar, kinds of interval."""
    told = []
    for field, known in zip(arrow, schema.fields, strict=True):
        told.append(field.with_metadata({COLUMN: known.json(), COLLATION: _collation(known.dataType)}))
    return pa.schema(told)


def _known(field: pa.Field, made: StructField, given: pa.Schema, rows: StructType) -> StructField:
    """What Spark is told of a column: that it is one of the input's if the operator says so, or has it by its name."""
    told = (field.metadata or {}).get(COLUMN)
    if told:
        return StructField.fromJson(json.loads(told))
    same = given.names.count(field.name) == 1 and given.field(field.name).type == field.type
    return rows[field.name] if same and told is None else made


def _collation(kind: DataType) -> str:
    """The collation of the strings that a column holds, the first that is not of bytes."""
    match kind:
        case StringType():
            return "" if kind.isUTF8BinaryCollation() else str(kind.collation)
        case ArrayType():
            return _collation(kind.elementType)
        case StructType():
            return next(filter(None, (_collation(field.dataType) for field in kind.fields)), "")
    return ""


def _kept(operator: KeyedOperator, rows: pa.Schema, schema: pa.Schema, width: int) -> int:
    """How many columns need not travel to the workers and back: all the user's, where the operator only adds to them.

    With a schema that has them otherwise, the whole result must be made to fit it.
    """
    own, declared = list(rows)[:width], list(schema)[:width]
    same = [(field.name, field.type) for field in own] == [(field.name, field.type) for field in declared]
    return width if operator.adds and same and len(schema) > width else 0


def _reads(operator: KeyedOperator, rows: pa.Schema) -> list[int]:
    """The places of the columns an operator wants to see."""
    names = reads_of(operator, rows)
    wrong = [name for name in names if name not in rows.names]
    if wrong:
        raise InvalidArgument(
            f"{type(operator).__name__} reads column {wrong[0]!r}, which does not exist; "
            f"{nearest(wrong[0], rows.names)}"
        )
    return [place for place, name in enumerate(rows.names) if name in names]
