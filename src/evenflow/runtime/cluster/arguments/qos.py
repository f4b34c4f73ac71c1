"""`qos` as users give it: rows that may be dropped, and warnings about names that no operator has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, NumericType

from evenflow.errors import InvalidArgument, nearest
from evenflow.model.qos import Qos
from evenflow.runtime.cluster.arguments.verbs import case_sensitive
from evenflow.runtime.cluster.arguments.warned import warn_user


class Named:
    """Compares the names in `qos` with the names that operators have had so far."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._used: set[str] = set()

    def use(self, name: str) -> None:
        """Note an operator's name; warn if it is not in `qos` but looks like a name that is."""
        new = name not in self._used
        self._used.add(name)
        like = difflib.get_close_matches(name, self._names - self._used, 1) if new and name not in self._names else []
        if like:
            warn_user(
                f"operator {name!r} has weight 1: it is not in qos, which has {like[0]!r}. If that is meant, give "
                f"it name={like[0]!r}; if not, let qos have no names like it",
            )

    def check(self) -> None:
        """Warn of names in `qos` that no operator has had; called when no more operators come."""
        unused = sorted(self._names - self._used)
        if unused and self._used:
            warn_user(
                f"qos has weights for {', '.join(map(repr, unused))}, and no operator had such a name; there were "
                f"{', '.join(map(repr, sorted(self._used)))}: give name=",
            )
        self._names = set()


def shed_place(qos: Qos, name: str, df: DataFrame, stored: bool = False, ordered_by: bool = False) -> int | None:
    """The place of the column by whose values rows may be dropped; None if none may be.

    Refused where the user has asked for what dropped rows would break: which rows are dropped depends on the load, so a
    batch that is run again would drop others.
    """
    if qos.shed is None:
        return None
    who = f"qos of {name!r} has shed={qos.shed!r}"
    remedy = "leave shed out of its Qos"
    if stored:
        raise InvalidArgument(
            f"{who}, and its state is stored for exactly-once results: a batch that is run again would drop other rows "
            f"than those in the state. {remedy}, or use a Cluster without a checkpoint"
        )
    if ordered_by:
        raise InvalidArgument(
            f"{who}, and order_by or time promises the same results every time: {remedy}, or leave order_by out "
            "(detect: order='arrival')"
        )
    if not df.isStreaming:
        raise InvalidArgument(
            f"{who}, and its rows are a batch DataFrame: each action would drop other rows. Use a streaming DataFrame, "
            f"or {remedy}"
        )
    alike = str if case_sensitive(df.sparkSession) else str.lower
    places = [place for place, column in enumerate(df.columns) if alike(column) == alike(qos.shed)]
    if len(places) != 1:
        found = nearest(qos.shed, df.columns) if not places else f"{len(places)} columns have that name"
        raise InvalidArgument(f"{who}, which is not one column of its rows: {found}")
    kind = df.schema.fields[places[0]].dataType
    if not isinstance(kind, NumericType | BooleanType):
        raise InvalidArgument(f"{who}, which is {kind.simpleString()}: give a column with numbers or booleans")
    return places[0]


def refuse_shedding(qos: Qos, name: str) -> None:
    """Refuse to drop rows of a graph, in which rows have many ways."""
    if qos.shed is not None:
        raise InvalidArgument(
            f"qos of {name!r} has shed={qos.shed!r}, and it is a graph: rows can be dropped before ordered_map, keyed "
            "and detect only. Leave shed out of its Qos"
        )
