"""A keyed operator as it is sent to the workers, and how a worker calls it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from evenflow.errors import FunctionError, ProtocolError
from evenflow.operators.conform import conform, refit
from evenflow.operators.growing import NOTE, Growing, earlier_of, noted
from evenflow.operators.keyed import KeyedOperator, Keys, Origin, Units
from evenflow.operators.row_marks import has_row
from evenflow.operators.time.timed import Timed

T = TypeVar("T")
KEY_AND_UNIT = pa.struct([pa.field("key", pa.int64()), pa.field("unit", pa.int32())])
"""What stands in place of a key's hash where the unit does not follow from it."""
ORIGIN = pa.field("__evenflow_origin", pa.int64())
"""The column with the position of the input row that a result row comes from."""


class Hosted:
    """The operator as the user gave it. It keeps no state itself: each evaluation works on a copy."""

    def __init__(
        self,
        operator: KeyedOperator,
        rows: pa.Schema,
        schema: pa.Schema,
        units: int,
        adds: bool = False,
        ordered: bool = False,
    ) -> None:
        self.operator = operator
        self._rows = rows
        self._schema = schema
        """The columns that travel back: with `adds`, only those that the operator adds to its rows."""
        self.adds = adds
        self.units = units
        """The number of units; the last is the unit of null keys."""
        self.ordered = ordered
        """Whether feeders put results into the order of their rows."""
        self.fixed_units: Sequence[int] = ()
        """Units whose state never goes to disk."""
        self._note = noted(_user_operator(operator))

    def warm_up(self) -> None:
        """Let the operator compile its code."""
        self.fresh().warm_up(self._rows)

    def no_results(self) -> pa.RecordBatch:
        """Results without rows."""
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self._schema], schema=self._schema)

    def named(self, unit: int) -> str:
        """What to call a unit in a message."""
        return f"unit {unit} of {type(self.operator).__name__}"

    def fresh(self) -> KeyedOperator:
        """A copy without state."""
        return copy.deepcopy(self.operator)

    def process(
        self,
        operator: KeyedOperator,
        rows: pa.RecordBatch,
        units: Units,
        keys: Keys,
        ordered: bool,
        placed: bool = False,
    ) -> tuple[pa.RecordBatch, Origin | None]:
        """The result and, where `ordered` or `placed`, the rows it comes from, by position, if the operator tells them.

        Without positions, result rows correspond to the given rows one to one; with `ordered` this is required.
        """
        placed = placed or ordered
        result = operator.process(rows, units, keys)
        given, origin = result if isinstance(result, tuple) else (result, None)
        who = f"{type(operator).__name__}.process"
        out = conform(self._new_columns(given) if self.adds else given, self._schema, who)
        if self.adds and (origin is not None or out.num_rows != rows.num_rows):
            raise FunctionError(
                f"{type(operator).__name__}.process gave {out.num_rows} rows for {rows.num_rows}: an operator that "
                "only adds columns (adds = True) gives its rows back one by one, without their places"
            )
        if ordered and origin is None and out.num_rows != rows.num_rows:
            raise FunctionError(
                f"{type(operator).__name__}.process gave {out.num_rows} rows for {rows.num_rows} and did not say "
                "which come from which: with ordered=True return the result and the places of its rows"
            )
        if origin is not None and placed:
            _check_origin(type(operator).__name__, np.asarray(origin), out.num_rows, rows.num_rows)
        return out, np.asarray(origin, np.int64) if placed and origin is not None else None

    def _new_columns(self, given: object) -> object:
        """The last columns of a result, as many as are declared; `conform` refuses what is no batch."""
        if not isinstance(given, pa.RecordBatch | pa.Table):
            return given
        return given.select(list(range(max(0, given.num_columns - len(self._schema)), given.num_columns)))

    def unpacked(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Units, Keys]:
        """The user's columns, the units and the keys of a batch whose last column is the hashes of the keys."""
        width = batch.num_columns - 1
        hashes = batch.column(width)
        width -= has_row(batch)
        rows = batch.select(list(range(width)))
        if isinstance(self.operator, Timed):
            rows = self.operator.whole(rows)
        return rows, units_of(hashes, self.units), values_of(hashes)

    def columns_in_log(self, schema: pa.Schema) -> pa.Schema:
        """The columns of rows as the log has them: with a note of the operator, if it may have more parts one day."""
        return schema.with_metadata({**(schema.metadata or {}), NOTE: self._note}) if self._note else schema

    def note_of(self, batch: pa.RecordBatch) -> str:
        """What the log notes of the operator that some rows went through; empty if it was this one."""
        note: bytes = (batch.schema.metadata or {}).get(NOTE, self._note)
        return "" if note == self._note else note.decode()

    def replay_as(self, operator: object, note: str) -> None:
        """Have rows of the log go through what `operator` had in common with the one of a note; empty: through all."""
        actor = _user_operator(operator)
        if isinstance(actor, Growing):
            actor.only(self._earlier(note) if note else None)

    def _earlier(self, note: str) -> Growing:
        found = earlier_of(_user_operator(self.operator), note)
        if found is None:
            raise FunctionError(f"rows of an earlier run of the query went through {note}: give that operator again")
        return found

    def replayed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Units, Keys]:
        """The same for a batch from the log, which an earlier run may have written: with the columns of today."""
        rows, units, keys = self.unpacked(batch)
        if not isinstance(self.operator, Timed) and not rows.schema.equals(self._rows):
            note = self.note_of(batch)
            rows = refit(rows, self._rows, (self._earlier(note) if note else self.operator).reads(self._rows))
        return rows, units, keys

    def blame(self, batch: pa.RecordBatch) -> tuple[int, int] | None:
        """Unit and key hash of the first row with which the batch fails on empty state; None if it does not fail."""
        if not self._fails(batch):
            return None
        least, most = 0, batch.num_rows  # fails with `most` rows, not with `least`
        while most - least > 1:
            middle = (least + most) // 2
            if self._fails(batch.slice(0, middle)):
                most = middle
            else:
                least = middle
        _, units, keys = self.unpacked(batch.slice(most - 1, 1))
        return int(units[0]), int(keys[0])

    def _fails(self, batch: pa.RecordBatch) -> bool:
        try:
            self.process(self.fresh(), *self.unpacked(batch), ordered=self.ordered)
        except BaseException:  # any error: the first one has been kept, this only looks for its row
            return True
        return False


def _user_operator(operator: T) -> T | KeyedOperator:
    """The operator that the user gave, without what holds its rows back."""
    return operator.inner if isinstance(operator, Timed) else operator


def units_of(hashes: pa.Array, units: int) -> Units:
    """The unit of each row: pmod(hash, units - 1), and the last unit where the key is null; or as told beside it."""
    if hashes.type == KEY_AND_UNIT:
        told: Units = hashes.field(1).to_numpy()
        if len(told) and not 0 <= told.min() <= told.max() < units:
            raise ProtocolError(f"rows are of units from {told.min()} to {told.max()}, and there are {units}")
        return told
    least = units - 1
    keys = values_of(hashes)
    found = keys & (least - 1) if least & (least - 1) == 0 else keys % least  # a power of two needs no division
    if hashes.null_count:
        found[hashes.is_null().to_numpy(zero_copy_only=False)] = least
    return found.astype(np.int32)


def values_of(hashes: pa.Array) -> Keys:
    """The hashes of the keys; 0 for null keys."""
    if hashes.type == KEY_AND_UNIT:
        hashes = hashes.field(0)
    keys: Keys = (hashes.fill_null(0) if hashes.null_count else hashes).to_numpy()
    return keys


def _check_origin(name: str, origin: Origin, rows: int, given: int) -> None:
    fits = len(origin) == rows and (
        rows == 0 or (origin[0] >= 0 and origin[-1] < given and (np.diff(origin) >= 0).all())
    )
    if not fits:
        raise FunctionError(
            f"{name}.process gave {len(origin)} places for {rows} rows, to be among 0 to {given - 1} and not falling"
        )
