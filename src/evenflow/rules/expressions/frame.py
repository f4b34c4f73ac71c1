"""The input of one call of the rules (rows, or a time), and intermediate results that several rules share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import Longs
from evenflow.rules.expressions.code import Compiled, Name
from evenflow.rules.expressions.gathered import one_array

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)
Places = npt.NDArray[np.int64]


class Columns(dict[Name, pa.Array]):
    """The columns of rows at some places, taken on first use. Columns of alias '' are computed, and set by `beside`."""

    def __init__(
        self,
        rows: pa.RecordBatch | pa.Table,
        index: Places | None = None,
        called: Callable[[Name], str] = itemgetter(1),
    ) -> None:
        super().__init__()
        self._rows, self._index, self._called = rows, index, called

    def __missing__(self, name: Name) -> pa.Array:
        array = one_array(self._rows.column(self._called(name)))
        array = array if self._index is None else array.take(pa.array(self._index))
        self[name] = array
        return array

    def at(self, index: Places) -> Columns:
        """The same columns for some of the rows; `index` counts among the rows of this object."""
        found = Columns(self._rows, index if self._index is None else self._index[index], self._called)
        where = pa.array(index)
        found.update({name: array.take(where) for name, array in self.items() if name[0] == ""})
        return found

    def beside(self, values: Mapping[str, pa.Array]) -> Columns:
        """These columns and further ones of alias ''."""
        found = Columns(self._rows, self._index, self._called)
        found.update(self)
        found.update({("", name): array for name, array in values.items()})
        return found


@dataclass
class Shared:
    """Intermediate results that several rules share in one call."""

    _done: dict[Hashable, Any] = field(default_factory=dict, kw_only=True)
    """Each of the type that its `compute` returns."""

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called for each key only once."""
        if key not in self._done:
            self._done[key] = compute()
        found: T = self._done[key]
        return found


@dataclass
class RuleFrame(Shared):
    """Rows that are not late. `latest` is the latest time of each row's key so far.

    Times are in microseconds; `times` and `latest` are empty if the rows have no time.
    """

    rows: pa.RecordBatch
    units: Units
    keys: Keys
    times: Longs
    latest: Longs
    streams: npt.NDArray[np.integer] | None = None
    """The number of each row's stream, if there are several."""


@dataclass
class Moment(Shared):
    """Time has reached `now` (microseconds) for these units: no row with an earlier time comes any more."""

    now: int
    units: Units


@dataclass(frozen=True)
class Intake:
    """The rows of one stream that pass its filter."""

    stream: int
    label: str
    """Equal for equal filters."""
    condition: Compiled | None = None

    def part(self, frame: RuleFrame) -> FramePart:
        """The rows of a frame that pass; computed once per frame."""
        return frame.once(("part", self.stream, self.label), lambda: self._part(frame))

    def _part(self, frame: RuleFrame) -> FramePart:
        index = None if frame.streams is None else np.flatnonzero(frame.streams == self.stream)
        if self.condition is not None:
            rows = frame.rows.num_rows if index is None else len(index)
            holds = np.flatnonzero(self.condition.holds(Columns(frame.rows, index), rows))
            index = holds if index is None else index[holds]
        return FramePart(frame, index)


class FramePart:
    """Some rows of a frame; `index` holds their places in the frame, None means all rows."""

    def __init__(self, frame: RuleFrame, index: Places | None) -> None:
        self.frame, self.index = frame, index
        self.count = frame.rows.num_rows if index is None else len(index)
        self.columns = Columns(frame.rows, index)

    @property
    def places(self) -> Places:
        """The places of the rows in the frame."""
        return np.arange(self.count) if self.index is None else self.index

    def of(self, values: npt.NDArray[N]) -> npt.NDArray[N]:
        """The values of these rows, from values of all rows of the frame."""
        return values if self.index is None or not len(values) else values[self.index]


@dataclass(frozen=True)
class Results:
    """The result of a rule for a frame: columns, and the place in the frame that each row comes from, in rising order.

    Results for a `Moment` have times as `places`: when the batch ended that a row comes from.
    """

    columns: list[pa.Array]
    places: Places
