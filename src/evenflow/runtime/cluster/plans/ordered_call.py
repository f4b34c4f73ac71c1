"""A function over a DataFrame, as `Cluster.ordered_map` was given it: makes a region and a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenflow.operators.map import Input, MapOperator
from evenflow.policy import Balance
from evenflow.runtime.cluster.arguments import verbs as arguments
from evenflow.runtime.cluster.arguments.qos import shed_place
from evenflow.runtime.cluster.running import RunningCluster
from evenflow.runtime.feeder.ordered.feeder import OrderedTask


@dataclass(frozen=True, kw_only=True)
class OrderedCall:
    """One call of `Cluster.ordered_map`."""

    df: DataFrame
    function: Callable[[Any], Any]
    schema: StructType | str
    balance: str | Balance
    input: Input
    name: str
    ordered: bool
    options: dict[str, Any]
    """Of the balance, if it is given by its name."""

    def output(self, running: RunningCluster) -> DataFrame:
        """The resulting DataFrame; InvalidArgument if the arguments make no sense."""
        df, name = self.df, self.name or "region"
        arguments.check_dataframe(df)
        arguments.check_name(self.name)
        arguments.check_function(self.function, self.input)
        arguments.check_ordered(self.ordered)
        balance = arguments.balance_of(self.balance, self.options, running.workers)
        declared = arguments.schema_of(self.schema)
        arguments.check_columns(df.schema)
        arrow = arguments.arrow_schema(running.spark, declared)
        shed = shed_place(running.qos(name), name, df)
        rows = arguments.resolvable(df)
        rows.mapInArrow(lambda batches: batches, declared)  # what Spark refuses, it refuses before there is a region
        mapped = MapOperator(self.function, arrow, self.input, arguments.extension_integers(running.spark))
        region, operator = running.regions.open(arguments.pickled(mapped), name, balance)
        running.named.use(name)
        task = OrderedTask(
            settings=running.settings,
            region=region,
            operator=operator,
            schema=arrow.serialize().to_pybytes(),
            splitting=balance.splitting,
            ordered=self.ordered,
            shed=shed,
            names=() if rows is df else tuple(df.schema.names),
            pandas=self.input == "pandas",
        )
        return rows.mapInArrow(task, declared)
