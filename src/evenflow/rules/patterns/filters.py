"""The filter of an atom: which rows it takes, alone and beside the tags of a match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.rules.expressions.code import Compiled, Name

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bound:
    """A comparison of two numeric columns, `own operator tag.column`."""

    own: str
    operator: str
    tag: str
    column: str


@dataclass(frozen=True)
class Filter:
    """An atom takes the rows of `stream` that pass `local`, on the row alone, and `cross`, which reads earlier tags."""

    stream: str
    own: frozenset[str]
    """The names of the row itself in the filter."""
    local: Compiled | None
    cross: Compiled | None
    bounds: list[Bound]
    """The conditions of `cross` that are comparisons of numbers."""
    simple: bool
    """Whether `cross` has no other conditions."""

    @property
    def reads(self) -> list[Name]:
        """The earlier tags and their columns that `cross` reads."""
        return [] if self.cross is None else [name for name in self.cross.columns if name[0] not in self.own]

    @property
    def columns(self) -> set[str]:
        """The columns of the stream that the filter reads."""
        codes = [code for code in (self.local, self.cross) if code is not None]
        return {column for code in codes for owner, column in code.columns if owner in self.own}

    def passing(self, rows: pa.RecordBatch, at: Rows | None = None) -> Mask:
        """Which rows pass `local`; if places are given, only the rows at these places are of the stream."""
        if at is not None:
            passing = np.zeros(rows.num_rows, np.bool_)
            passing[at] = True if self.local is None else self.local.holds(self._own(self.local, rows, at), len(at))
            return passing
        if self.local is None:
            return np.ones(rows.num_rows, np.bool_)
        return self.local.holds(self._own(self.local, rows), rows.num_rows)

    def matching(self, rows: pa.RecordBatch, at: Rows, fetch: Callable[[str, str], pa.Array]) -> Mask:
        """Which of the rows at these places pass `cross`; `fetch` gives a column of the matches, one for each row."""
        assert self.cross is not None
        values = self._own(self.cross, rows, at)
        values.update({name: fetch(*name) for name in self.reads})
        return self.cross.holds(values, len(at))

    def _own(self, code: Compiled, rows: pa.RecordBatch, at: Rows | None = None) -> dict[Name, pa.Array]:
        names = [name for name in code.columns if name[0] in self.own]
        columns = [rows.column(column) for _, column in names]
        if at is not None:
            index = pa.array(at)
            columns = [column.take(index) for column in columns]
        return dict(zip(names, columns, strict=True))
