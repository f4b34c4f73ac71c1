"""The operator that gives the last value of a column that was not null."""

from __future__ import annotations

from evenflow.operators.aggregates.aggregating import Aggregating


class LastValue(Aggregating):
    """The last value of `column`, of any type, that was not null among the key's rows, this one included."""

    name = "last_known"

    def __init__(self, column: str, *, into: str | None = None) -> None:
        super().__init__(column, f"{column}_last" if into is None else into)
        self._open()
