"""The operator that joins two inputs: rows of the same key that come within a window of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.aggregates.adding import column_type, rehearse, sample
from evenflow.operators.aggregates.aggregating import check_window
from evenflow.operators.columns import NO_TIMES, locked, microseconds, require_time
from evenflow.operators.conform import one_batch
from evenflow.operators.delegating import Delegating
from evenflow.operators.keyed import Keys, Origin, Units

if TYPE_CHECKING:
    from evenflow.operators.joins.pairs import Pairs


class WindowJoin(Delegating):
    """Joins two inputs that come as one, told apart by the string in column `tag`: `left` or `right`.

    Each row is paired with the rows of its key from the other side that are still in the window, oldest first.
    `rows=n`: the window is the last n rows of that side. `seconds=s, time=column`: it is the rows whose time is less
    than s seconds behind the latest time that the key has seen on either side; a row that is later than that is paired
    with none. A pair has each column but the tag twice, as `left_...` and `right_...`.
    """

    naming = ("tag", "time")
    _state: Pairs

    def __init__(
        self,
        tag: str,
        left: str,
        right: str,
        *,
        rows: int | None = None,
        seconds: float | None = None,
        time: str | None = None,
    ) -> None:
        for argument, value in (("tag", tag), ("left", left), ("right", right)):
            if not isinstance(value, str):
                raise InvalidArgument(f"WindowJoin got {argument}={value!r}: give a string")
        if left == right:
            raise InvalidArgument(f"WindowJoin got left={left!r} and right={right!r}: the sides need different tags")
        window = check_window("WindowJoin", rows, seconds, time)
        if time == tag:
            raise InvalidArgument(f"WindowJoin got tag={tag!r} and time={time!r}: give two columns")
        self.tag, self.left, self.right = tag, left, right
        self.rows, self.seconds, self.time = window.rows, window.seconds, time
        from evenflow.operators.joins.pairs import Pairs  # numba comes with it: only those who use it pay

        self._state = Pairs(window.rows or 0, window.span)

    @property
    def inputs(self) -> tuple[str, tuple[str, ...]]:  # type: ignore[override]
        """The sides, which have their own progress."""
        return self.tag, (self.left, self.right)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        kind = column_type(self, rows, self.tag)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InvalidArgument(f"{self} tells sides apart by strings, column '{self.tag}' is {kind}: cast it")
        if self.time is not None:
            require_time(self, self.time, column_type(self, rows, self.time))
        fields = [field for field in rows if field.name != self.tag]
        return pa.schema(
            [field.with_name(f"{side}_{field.name}") for side in ("left", "right") for field in fields],
        )

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> tuple[pa.RecordBatch, Origin]:
        sides = self._sides(rows.column(self.tag))
        times = NO_TIMES if self.time is None else microseconds(rows.column(self.time), self.time)
        kept = rows.drop_columns([self.tag])
        left, right, origin = self._state.push(units, keys, sides, times, kept)
        return one_batch([*left.columns, *right.columns], self.schema(rows.schema)), origin

    def tallies(self) -> dict[str, int]:
        return self._state.tallies(self.left, self.right)

    def warm_up(self, rows: pa.Schema) -> None:
        column_type(self, rows, self.tag)
        some = sample(rows).take(pa.array([1, 1]))
        tags = pa.array([self.left, self.right]).cast(rows.field(self.tag).type)
        rehearse(self, some.set_column(rows.get_field_index(self.tag), rows.field(self.tag), tags))

    def _sides(self, tags: pa.Array) -> npt.NDArray[np.int32]:
        sides = pc.index_in(tags, pa.array([self.left, self.right], tags.type))
        if sides.null_count:
            strange = tags.filter(pc.is_null(sides))[0].as_py()
            raise FunctionError(
                f"column '{self.tag}' is {strange!r} in a row: {self} knows '{self.left}' and '{self.right}'"
            )
        return locked(sides.to_numpy())

    def __str__(self) -> str:
        return f"WindowJoin('{self.tag}')"
