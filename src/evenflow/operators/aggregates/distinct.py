"""The operator that counts the distinct values of a column."""

from __future__ import annotations

from evenflow.operators.aggregates.aggregating import Aggregating


class DistinctCount(Aggregating):
    """The number of different values of `column`, of any type, among the key's rows so far; nulls do not count.

    Values are told apart by their 64-bit hashes: among a million values of one key, two are taken for one with a
    probability of 3e-8.
    """

    name = "distinct"

    def __init__(self, column: str, *, into: str | None = None) -> None:
        super().__init__(column, f"{column}_distinct" if into is None else into)
        self._open()
