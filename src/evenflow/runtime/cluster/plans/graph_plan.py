"""How a graph is put into a query's plan: its inputs as one DataFrame, its results by endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from evenflow.errors import InvalidArgument, first_line
from evenflow.graph.build.binding import bind
from evenflow.graph.build.builder import Graph
from evenflow.graph.build.plan import GraphPlan
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.operators.declared import COLUMN
from evenflow.runtime.cluster.arguments.verbs import (
    arrow_schema,
    case_sensitive,
    check_dataframe,
    extension_integers,
    schema_of,
)
from evenflow.runtime.cluster.plans.keyed import described
from evenflow.runtime.cluster.plans.keys import unfolded


def bound(spark: SparkSession, graph: Graph, inputs: Any, endpoints: Sequence[str] | None = None) -> GraphPlan:
    """The plan of a graph over DataFrames, of all endpoints or of some."""
    if not isinstance(inputs, Mapping):
        raise InvalidArgument(f"inputs={inputs!r:.100}: give a DataFrame for each source, by the source's name")
    for df in inputs.values():
        check_dataframe(df)
    kinds = {df.isStreaming for df in inputs.values()}
    if len(kinds) > 1:
        still = [name for name, df in inputs.items() if not df.isStreaming]
        raise InvalidArgument(f"input {still[0]!r} is a batch DataFrame and others are streaming: give one kind")

    def declared(given: Any) -> pa.Schema:
        schema = schema_of(given)
        return _may_be_null(described(arrow_schema(spark, schema), schema))

    return bind(
        graph,
        {name: _columns(spark, name, df) for name, df in inputs.items()},
        endpoints=endpoints,
        schema_of=declared,
        case_sensitive=case_sensitive(spark),
        ansi=spark.conf.get("spark.sql.ansi.enabled") == "true",
        extension_integers=extension_integers(spark),
    )


def _columns(spark: SparkSession, name: str, df: DataFrame) -> pa.Schema:
    """The columns of an input."""
    try:
        return _may_be_null(described(arrow_schema(spark, df.schema), df.schema))
    except PySparkException as error:
        raise InvalidArgument(
            f"input {name!r} has a column that Spark does not give to Python: {first_line(error)}"
        ) from None


def _may_be_null(schema: pa.Schema) -> pa.Schema:
    """The columns, all nullable, so that the columns of two streams that meet have one type."""
    return pa.schema([field.with_nullable(True) for field in schema])


def shape_of(plan: GraphPlan) -> GraphShape:
    """The graph as the controller knows it."""
    made_by = {node.stream: number for number, node in enumerate(plan.nodes)}
    nodes = []
    for node in plan.nodes:
        stream = plan.streams[node.stream]
        readers = tuple(dict.fromkeys(plan.ports[port].node for port in stream.readers))
        reads = tuple(plan.ports[port].stream for port in node.ports)
        inputs = tuple(made_by[each] if each in made_by else -1 - each for each in reads)
        shape = NodeShape(
            name=node.name,
            kind=node.operator.kind,
            first=node.first,
            units=node.units,
            readers=readers,
            inputs=inputs,
            endpoint=bool(stream.endpoints),
            lanes=node.operator.lanes,
            by_rows=node.operator.by_rows,
        )
        nodes.append(shape)
    return GraphShape(plan.sources, tuple(nodes))


def joined_inputs(plan: GraphPlan, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of all sources as feeders take them: see `runtime.feeder.graph.feed`. Names of columns play no part."""
    used = [inputs[name] for name in plan.sources]
    several = (_numbered(used, place) for place in range(len(used)))
    rows = _plain(used[0]) if len(used) == 1 else reduce(DataFrame.unionAll, several)
    whole = unfolded(rows).select("*", F.spark_partition_id())
    return whole.toDF(*(f"c{number}" for number in range(len(whole.columns))))


def _plain(df: DataFrame) -> DataFrame:
    """A DataFrame whose columns are called by their places."""
    return df.toDF(*(f"f{place}" for place in range(len(df.columns))))


def _numbered(inputs: Sequence[DataFrame], number: int) -> DataFrame:
    """One input: its number, and a struct for each input, null but for its own."""
    structs = []
    for place, df in enumerate(inputs):
        kind = StructType([StructField(each.name, each.dataType) for each in _plain(df).schema.fields])
        own = F.struct(*kind.names) if place == number else F.lit(None)
        structs.append(own.cast(kind).alias(f"s{place}"))
    return _plain(inputs[number]).select(F.lit(number).alias("source"), *structs)


def endpoint_schema(plan: GraphPlan, endpoint: int) -> StructType:
    """The columns of an endpoint's DataFrame. Columns of inputs keep the types that they have in Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = plan.streams[plan.endpoints[endpoint].stream].schema
    try:
        made = from_arrow_schema(schema)
    except PySparkException as error:
        name = plan.endpoints[endpoint].name
        raise InvalidArgument(f"endpoint {name!r} has a column that Spark cannot take: {first_line(error)}") from None
    fields = []
    for field, plain in zip(schema, made.fields, strict=True):
        told = (field.metadata or {}).get(COLUMN)
        known = StructField.fromJson(json.loads(told)) if told else plain
        fields.append(StructField(field.name, known.dataType, True, known.metadata))
    return StructType(fields)


def together_schema(plan: GraphPlan) -> StructType:
    """The columns of the DataFrame that has the results of all endpoints."""
    structs = []
    for number in range(len(plan.endpoints)):
        known = endpoint_schema(plan, number).fields
        structs.append(StructType([StructField(f"f{at}", each.dataType) for at, each in enumerate(known)]))
    fields = [StructField("c0", IntegerType())]
    return StructType([*fields, *(StructField(f"c{1 + at}", each) for at, each in enumerate(structs))])


def unpacked(together: DataFrame, plan: GraphPlan, endpoint: int) -> DataFrame:
    """The results of one endpoint, out of the results of all."""
    struct = F.col(f"c{1 + endpoint}")
    known = endpoint_schema(plan, endpoint).fields
    columns = [struct[f"f{at}"].alias(each.name, metadata=each.metadata) for at, each in enumerate(known)]
    return together.where(F.col("c0") == endpoint).select(*columns)


def described_graph(plan: GraphPlan) -> str:
    """A text that is the same for graphs that may share stored state: their operators, and who reads whom."""
    parts = []
    for node in plan.nodes:
        reads = [plan.streams[plan.ports[port].stream].name for port in node.ports]
        parts.append(f"{node.name}, {node.operator.stored_as()}, of {' and '.join(reads)} in {node.units} units")
    return f"graph of {', '.join(plan.sources)}: {'; '.join(parts)}"
