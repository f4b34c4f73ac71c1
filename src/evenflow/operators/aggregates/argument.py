"""What an aggregate is given of the rows of its column, and the type of its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.measures import Measure, measure
from evenflow.operators.columns import is_text, locked, validity

NUMBERS, VALUES, TEXTS, DISTINCT = "numbers", "values", "texts", "distinct"
"""How values are kept: as numbers that are aggregated, in a store, in one that compares texts, as members of a set."""
PICKING = ("min", "max", "first", "first_known", "last", "last_known")
"""Aggregates whose result is one of the values."""
EVERY = locked(np.empty(0, np.bool_))
"""All rows count."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What an aggregate is given of some rows."""

    kept: str
    """How values are kept: NUMBERS, VALUES, TEXTS or DISTINCT."""
    column: pa.Array
    """The values; of DISTINCT, their hashes."""
    valid: npt.NDArray[np.bool_]
    """Which of them count; all if it is empty."""
    measure: Measure | None = None
    """How NUMBERS are aggregated."""

    @property
    def form(self) -> str:
        """What goes with state: how values are kept, the 64-bit words of one (0: doubles), and what kind they are of.

        A text, since it is stored with every unit.
        """
        if self.measure is not None:
            return f"{self.kept}/{self.measure.words}/{self.measure.of}"
        return f"{self.kept}/1/{DISTINCT if self.kept == DISTINCT else self.column.type}"


def argument_of(how: str, column: pa.Array, what: str, ansi: bool, hashes: pa.Array | None = None) -> Argument:
    """The argument of the aggregate `how`, which messages call `what`; `hashes` are those of the values."""
    kept = _kept(how, column.type)
    valid = EVERY if how in ("first", "last") else validity(column)
    if kept == DISTINCT:
        assert hashes is not None
        return Argument(kept, hashes, valid)
    return Argument(kept, column, valid, _measure(how, column.type, what, ansi) if kept == NUMBERS else None)


def rows_counted(rows: int) -> Argument:
    """The argument of a count of rows."""
    return Argument(NUMBERS, pa.nulls(rows), EVERY, measure("count", pa.null(), "count()"))


def result_type(how: str, kind: pa.DataType, what: str, name: str) -> pa.DataType:
    """The type of the aggregate `how` of column `name`; InvalidArgument if there is none."""
    kept = _kept(how, kind)
    if kept == DISTINCT:
        return pa.int64()
    return _measure(how, kind, what, True, name).type if kept == NUMBERS else kind


def _kept(how: str, kind: pa.DataType) -> str:
    if how == "distinct":
        return DISTINCT
    if how in ("min", "max"):
        return TEXTS if is_text(kind) else NUMBERS
    return VALUES if how in PICKING else NUMBERS


def _measure(how: str, kind: pa.DataType, what: str, ansi: bool, name: str = "") -> Measure:
    found = measure(how, kind, what, ansi)
    if found is None:
        wanted = "numbers, strings, dates, times or booleans" if how in PICKING else "numbers"
        raise InvalidArgument(f"{what} needs {wanted}, column '{name}' is {kind}: cast it, or name another column")
    return found
