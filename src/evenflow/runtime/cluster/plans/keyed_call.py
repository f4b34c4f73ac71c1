"""An operator over a DataFrame, as `Cluster.keyed` was given it: makes a region and a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenflow.model.given import check_flag
from evenflow.operators.keyed import KeyedOperator
from evenflow.policy import KeyedBalance
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments import verbs as arguments
from evenflow.runtime.cluster.arguments.order import ordering_of, warning_of
from evenflow.runtime.cluster.arguments.qos import shed_place
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.plans.bounds import bounds_of
from evenflow.runtime.cluster.plans.keyed import KeyedUse, plan_keyed, prepared, stored_as
from evenflow.runtime.cluster.plans.keys import KeyColumns, value_places
from evenflow.runtime.cluster.running import RunningCluster


@dataclass(frozen=True, kw_only=True)
class KeyedCall:
    """One call of `Cluster.keyed`."""

    df: DataFrame
    key: KeyColumns
    operator: KeyedOperator
    schema: StructType | str | None
    balance: str | KeyedBalance
    ordered: bool
    name: str
    was: str | None
    order_by: str | Sequence[str] | None
    lateness: str | float | timedelta | None
    idle: str | float | timedelta | None
    keys: bool
    tuning: Tuning
    """With a value for each setting."""
    options: dict[str, Any]
    """Of the balance, if it is given by its name."""

    def output(self, running: RunningCluster) -> DataFrame:
        """The resulting DataFrame; InvalidArgument if the arguments make no sense."""
        use, balance = self._checked(running)
        values = value_places(self.df, self.key) if self.keys else ()
        room, name = amounts.room_of(self.tuning.skew_bytes), self.name or "keyed"
        plan = plan_keyed(use)
        code, qos = arguments.pickled(plan.hosted), running.qos(name)
        shed = shed_place(qos, name, self.df, use.stored, use.ordering is not None)
        region, digest = self._opened(running, use, balance, code)
        running.named.use(self.name or region)
        running.regions.await_operator(digest)
        feed = plan.feed(
            settings=running.settings,
            region=region,
            digest=digest,
            balance=balance,
            skew_bytes=room,
            shed=shed,
            target_ms=qos.latency_ms,
            key_values=values,
        )
        return plan.applied(feed, running.shares)

    def _checked(self, running: RunningCluster) -> tuple[KeyedUse, KeyedBalance]:
        df, tuning = self.df, self.tuning
        arguments.check_dataframe(df)
        arguments.check_name(self.name, self.was)
        arguments.check_operator(self.operator)
        operator = prepared(running.spark, self.operator, df)
        balance = arguments.keyed_balance_of(self.balance, self.options)
        arguments.check_sharing(operator, balance, bool(tuning.split_keys))
        units, spread = amounts.check_units(tuning.units, running.workers), str(tuning.spread)
        check_flag("ordered", self.ordered)
        check_flag("keys", self.keys)
        ordering = ordering_of(df, self.order_by, self.lateness, self.ordered, balance, operator, self.idle)
        arguments.check_transfer(tuning.transfer, running.stores)
        use = KeyedUse(
            spark=running.spark,
            df=df,
            key=self.key,
            operator=operator,
            schema=self.schema,
            units=units + 1,
            ordered=self.ordered,
            spread=spread,
            ordering=ordering,
            bounds=bounds_of(df, self.key, spread, tuning.bounds, units),
            stored=running.stores and df.isStreaming and balance.by_content,
        )
        return use, balance

    def _opened(self, running: RunningCluster, use: KeyedUse, balance: KeyedBalance, code: bytes) -> tuple[str, str]:
        """A new region, or the one in which the state of this operator is stored: its name, and the code's digest."""
        warning, transfer = (
            warning_of(use.operator, use.ordering, self.name or "keyed"),
            self.tuning.transfer or "direct",
        )
        if use.stored:
            kept = stored_as(use, self.was)
            return running.regions.open_stored(code, self.name, kept, balance, transfer, warning)
        return running.regions.open(code, self.name or "keyed", balance, use.units, transfer, warning)
