"""The types of aggregates, by the type of the column, as in Spark.

| of | sum | mean | min, max | std, var |
|---|---|---|---|---|
| whole numbers | bigint | double | as the column | double |
| decimal(p, s) | decimal(p + 10, s) | decimal(p + 4, s + 4) | as the column | double |
| float, double | double | double | as the column | double |
| dates, times, durations, booleans | | | as the column | |

Precision and scale are at most 38. Whole numbers and decimals are added and compared exactly. A sum, or a mean of
decimals, that does not fit its type is an error, or null without `ansi`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.columns import Array, Bools, locked, nullable, numbers

MOST_DIGITS = 38
"""Digits of a decimal, in Spark."""
LONG_DIGITS = 18
"""Digits of a decimal that fit in 64 bits."""
DOUBLES = "double"
DEVIATIONS = ("std", "var")


@dataclass(frozen=True)
class Measure:
    """An aggregate of a column: how values are passed to compiled code, and how its results become a column."""

    name: str
    what: str
    """Its name in messages."""
    kind: pa.DataType
    """The type of the values."""
    type: pa.DataType
    """The type of the result."""
    words: int = 0
    """The 64-bit words of an exact value; 0 if values are doubles."""
    ansi: bool = True

    @property
    def of(self) -> str:
        """The kind of values that can be aggregated together: decimals of one scale, or whole numbers of any size."""
        if not self.words:
            return DOUBLES
        if pa.types.is_integer(self.kind):
            return "bigint"
        if pa.types.is_decimal(self.kind):
            return f"decimal of {self.kind.scale} digits behind the point{', large' if self.words > 1 else ''}"
        return str(self.kind)

    def values(self, column: pa.Array) -> Array:
        """The values as compiled code takes them; nulls become arbitrary values."""
        if self.name == "count":
            return locked(np.zeros(len(column)))
        if not self.words:
            return numbers(column)
        if pa.types.is_decimal(self.kind):
            return locked(words_of(pc.cast(column, self.kind))[:, : self.words])
        return locked(_whole(column).reshape(-1, 1))

    def column(self, out: Array, known: Bools) -> pa.Array:
        """The results of compiled code as a column; `known` tells which of them exist."""
        if self.name == "count":
            return pa.array(out.astype(np.int64))
        if not self.words:
            found = nullable(out, known)
            return found if self.type == pa.float64() else pc.cast(found, self.type, safe=False)
        if self.name in ("min", "max"):
            return self._picked(out[:, 1:], known)
        if pa.types.is_decimal(self.type):
            return self._decimals(out, known)
        fits = out[:, 2] == out[:, 1] >> 63
        if self.name == "mean":
            return nullable(_divided(out, fits), known)
        return nullable(np.ascontiguousarray(out[:, 1]), self._held(known, fits))

    def _picked(self, words: Array, known: Bools) -> pa.Array:
        """Values of the column, or of stored state, when it may have been of a type with more digits."""
        try:
            found = from_words(words, known, self.type)
            if pa.types.is_decimal(self.type):
                found.validate(full=True)
            return found
        except pa.ArrowInvalid:
            raise InvalidArgument(
                f"the state of {self.what} has a value that does not fit the column's type, which is {self.type} now: "
                "cast it to what it was, or start without the state, with a new checkpoint"
            ) from None

    def _decimals(self, out: Array, known: Bools) -> pa.Array:
        from evenflow.operators.windows.exact import bounded, divided

        total = np.empty((len(out), 2), np.int64)
        digits = min(MOST_DIGITS, self.kind.precision + 10)
        fits = bounded(out, *_limit(digits), total)
        if self.name == "mean":
            more = self.type.scale - self.kind.scale
            extra = 10 ** min(18, MOST_DIGITS + 1 - self.type.scale)
            fits &= divided(out, 10**more, extra, *_limit(self.type.precision), total)
        return from_words(total, self._held(known, fits), self.type)

    def _held(self, known: Bools, fits: Bools) -> Bools:
        """Which results exist and fit their type; with `ansi`, one that does not fit is an error."""
        if self.ansi and not fits[known].all():
            raise FunctionError(
                f"{self.what} is too large for {_spark_name(self.type)}: cast the column to a larger type, or set "
                "spark.sql.ansi.enabled to false for null instead"
            )
        held: Bools = known & fits
        return held


def measure(name: str, kind: pa.DataType, what: str, ansi: bool = True) -> Measure | None:
    """The aggregate `name` of a column of type `kind`; None if there is none for this type."""
    is_ = pa.types
    if name == "count":
        return Measure(name, what, kind, pa.int64())
    if is_.is_floating(kind):
        return Measure(name, what, kind, kind if name in ("min", "max") else pa.float64())
    if kind == pa.uint64():
        kind = pa.decimal128(20, 0)
    if is_.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return _of_decimals(name, what, pa.decimal128(kind.precision, kind.scale), ansi)
    if is_.is_integer(kind):
        if name in DEVIATIONS:
            return Measure(name, what, kind, pa.float64())
        made = {"sum": pa.int64(), "mean": pa.float64()}.get(name, kind)
        return Measure(name, what, kind, made, 1, ansi)
    ordered = is_.is_date(kind) or is_.is_timestamp(kind) or is_.is_duration(kind) or is_.is_boolean(kind)
    return Measure(name, what, kind, kind, 1) if ordered and name in ("min", "max") else None


def _of_decimals(name: str, what: str, kind: pa.Decimal128Type, ansi: bool) -> Measure:
    if name in DEVIATIONS:
        return Measure(name, what, kind, pa.float64())
    more = {"sum": (10, 0), "mean": (4, 4)}.get(name, (0, 0))
    digits, scale = min(MOST_DIGITS, kind.precision + more[0]), min(MOST_DIGITS, kind.scale + more[1])
    return Measure(name, what, kind, pa.decimal128(digits, scale), 1 if kind.precision <= LONG_DIGITS else 2, ansi)


def _limit(digits: int) -> tuple[np.uint64, np.uint64]:
    """10**digits, as its high and its low word."""
    return np.uint64(10**digits >> 64), np.uint64(10**digits & 0xFFFFFFFFFFFFFFFF)


def words_of(column: pa.Array) -> Array:
    """A decimal column as pairs of 64-bit words, low before high."""
    content = column.buffers()[1]
    if content is None or not len(column):
        return np.zeros((len(column), 2), np.int64)
    return np.frombuffer(content, np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]


def _whole(column: pa.Array) -> Array:
    """A column of whole numbers, dates, times or booleans as 64-bit numbers."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif not pa.types.is_integer(column.type) and not pa.types.is_boolean(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    wide = column.cast(pa.int64())
    found: Array = (pc.fill_null(wide, 0) if wide.null_count else wide).to_numpy()
    return found


def from_words(words: Array, known: Bools, kind: pa.DataType) -> pa.Array:
    """A column of type `kind` from the words of its values; null where `known` is False."""
    if pa.types.is_decimal(kind):
        pairs = np.empty((len(words), 2), np.int64)
        pairs[:, 0], pairs[:, 1] = words[:, 0], words[:, 1] if words.shape[1] > 1 else words[:, 0] >> 63
        bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
        return pa.Array.from_buffers(kind, len(words), [bits, pa.py_buffer(pairs)])
    found = nullable(np.ascontiguousarray(words[:, 0]), known)
    if pa.types.is_date32(kind):
        return found.cast(pa.int32(), safe=False).view(kind)
    if pa.types.is_boolean(kind):
        return found.cast(pa.bool_())
    return found.cast(kind) if pa.types.is_integer(kind) else found.view(kind)


def _divided(out: Array, fits: Bools) -> Array:
    """Means of whole numbers: the exact sum divided by the count. `fits` tells which sums are one word."""
    low = np.where(fits, out[:, 1].astype(np.float64), out[:, 1].view(np.uint64).astype(np.float64))
    total = np.where(fits, low, out[:, 2] * 2.0**64 + low)
    return total / np.maximum(out[:, 0], 1)


def _spark_name(kind: pa.DataType) -> str:
    return "bigint" if kind == pa.int64() else f"decimal({kind.precision}, {kind.scale})"
