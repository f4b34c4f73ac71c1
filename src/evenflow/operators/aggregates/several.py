"""The operator that adds several aggregates at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.aggregating import WHOLE, AddedColumn, Aggregating, check_window
from evenflow.operators.aggregates.functions import AggregateColumn, called
from evenflow.operators.growing import Growing


class Aggregates(Aggregating, Growing):
    """Adds a column for each aggregate: `Aggregates(n=F.count(), top=F.max("price"), mean=F.mean("price"))`.

    `F` is `evenflow.functions`. The aggregates are over all rows of the key so far; with `rows=n` over its last n rows,
    the present one included; with `seconds=s, time=column` over its rows less than s seconds older than the latest.
    The operators `Running...` and `Rolling...` do the same for one column. Columns with another kind of name (`rows`,
    or "top price") are given in a dictionary, as the first argument.
    """

    naming = ("columns", "time")
    other_name = "give it another name"

    def __init__(
        self,
        named: Mapping[str, AggregateColumn] | None = None,
        /,
        *,
        rows: int | None = None,
        seconds: float | None = None,
        time: str | None = None,
        **more: AggregateColumn,
    ) -> None:
        given = _checked(named, more, rows=rows, seconds=seconds, time=time)
        self.into = tuple(given)
        self.hows = tuple(each.how for each in given.values())
        self.columns = tuple(each.column for each in given.values())
        whole = rows is None and seconds is None and time is None
        window = WHOLE if whole else check_window("Aggregates", rows, seconds, time)
        self.rows, self.seconds, self.time = window.rows, window.seconds, time
        self._open(window)

    def parts(self) -> list[AddedColumn]:
        each = zip(self.into, self.hows, self.columns, strict=True)
        return [AddedColumn(into, how, column, called(how, column)) for into, how, column in each]

    def earlier(self, stored: Mapping[str, Any]) -> Self | None:
        window = {name: getattr(self, name) for name in ("rows", "seconds", "time")}
        if {name: stored.get(name) for name in window} != window:
            return None
        then = zip(stored["into"], stored["hows"], stored["columns"], strict=True)
        named = {into: AggregateColumn(how, column) for into, how, column in then}
        now = zip(self.into, self.hows, self.columns, strict=True)
        own = {into: AggregateColumn(how, column) for into, how, column in now}
        return type(self)(named, **window) if named.items() <= own.items() else None

    def only(self, earlier: Self | None) -> None:
        self._idle = frozenset() if earlier is None else frozenset(self.more(earlier))

    def more(self, earlier: Self) -> list[str]:
        return [name for name in self.into if name not in earlier.into]

    def __str__(self) -> str:
        return "Aggregates"


def _checked(named: Any, more: dict[str, Any], **window: Any) -> dict[str, AggregateColumn]:
    """The aggregates by the names of their columns."""
    if not isinstance(named, Mapping | None):
        raise InvalidArgument(f"Aggregates got {named!r:.100}: give aggregates by the names of their columns")
    for name, value in window.items():
        if isinstance(value, AggregateColumn):
            raise InvalidArgument(
                f"Aggregates got {name}={value}, and {name}= tells the window: give the aggregate in a dictionary, "
                f"Aggregates({{'{name}': ...}})"
            )
    twice = [name for name in named or () if name in more]
    if twice:
        raise InvalidArgument(f"Aggregates got column '{twice[0]}' twice: give another name")
    given = {**(named or {}), **more}
    if not given:
        raise InvalidArgument("Aggregates got no aggregate: give some, as in Aggregates(n=ef.functions.count())")
    for into, aggregate in given.items():
        if not isinstance(into, str) or not into:
            raise InvalidArgument(f"Aggregates got an aggregate called {into!r}: give the name of a column")
        if not isinstance(aggregate, AggregateColumn):
            raise InvalidArgument(
                f"Aggregates got {into}={aggregate!r:.100}: give an aggregate, as ef.functions.max('price')"
            )
    return given
