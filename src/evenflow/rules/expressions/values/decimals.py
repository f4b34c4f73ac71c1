"""The arithmetic of decimals as in Spark: the types of results, and results of more than 38 digits.

A sum or a product keeps all its digits if there are at most 38. Otherwise it has 38: those before the point first, the
rest behind the point, but there at least 6 (or as many as there were). It is rounded to that, half away from 0. A
result with more digits before the point than its type has is an error, or null without spark.sql.ansi.enabled.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.aggregates.measures import MOST_DIGITS, from_words, words_of
from evenflow.operators.columns import nullable, validity
from evenflow.rules.expressions.values.datum import Apply, Datum

PythonIntegers: TypeAlias = npt.NDArray[np.object_]
"""Integers of any length in a numpy array."""
KEPT = 6
"""Digits behind the point that a result always keeps."""
SIGNIFICANT = 39
"""Digits to which Spark rounds a product first."""
WORD = (1 << 64) - 1
EXACT, POWERS = 1 << 53, 22
"""Whole numbers up to EXACT and powers of ten up to 10**POWERS are exact as doubles, so that their quotient is the
double nearest to the decimal."""


def as_decimal(kind: pa.DataType) -> pa.DataType | None:
    """The decimal type that Spark converts a numeric type to; None for doubles."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= MOST_DIGITS else kind
    if not pa.types.is_integer(kind):
        return None
    return pa.decimal128(20 if kind.bit_width == 64 else len(str(1 << kind.bit_width)), 0)


def of_constant(value: Decimal) -> pa.Scalar | None:
    """A decimal constant with the digits it is written with; None if these are more than 38."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits), scale)
    return pa.scalar(value, pa.decimal128(precision, scale)) if precision <= MOST_DIGITS else None


def of_result(operator: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of `a + b`, `a - b` or `a * b`."""
    whole, scale = _full(operator, a, b)
    if whole + scale <= MOST_DIGITS:
        return pa.decimal128(whole + scale, scale)
    return pa.decimal128(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, KEPT)))


def _full(operator: str, a: pa.DataType, b: pa.DataType) -> tuple[int, int]:
    """The digits of an exact result, before and behind the point."""
    before = [kind.precision - kind.scale for kind in (a, b)]
    if operator == "*":
        return sum(before) + 1, a.scale + b.scale
    return max(before) + 1, max(a.scale, b.scale)


def rescaled(value: Datum, kind: pa.DataType) -> Datum:
    """Decimals rounded to the fewer digits behind the point of type `kind`."""
    wide = pc.cast(value, pa.decimal256(value.type.precision + 1, value.type.scale))
    return pc.cast(pc.round(wide, kind.scale, round_mode="half_towards_infinity"), kind)


def as_double(value: Datum) -> Datum:
    """The doubles nearest to decimals. Arrow's own cast may be off by one bit, so that decimal 0.3 would not be 0.3."""
    if isinstance(value, pa.Scalar) or value.type.scale > POWERS or pa.types.is_decimal256(value.type):
        return pc.cast(pc.cast(value, pa.string()), pa.float64())
    words, known = words_of(value), np.broadcast_to(_valid(value), len(value))
    low = words[:, 0]
    found = low / 10.0**value.type.scale
    large = known & ((words[:, 1] != low >> 63) | (low > EXACT) | (low < -EXACT))
    if large.any():
        found[large] = pc.cast(pc.cast(value.filter(pa.array(large)), pa.string()), pa.float64()).to_numpy()
    return nullable(found, known)


def arithmetic(operator: str, a: pa.DataType, b: pa.DataType, ansi: bool) -> Apply:
    """The function that adds, subtracts or multiplies decimals of these types."""
    plain: Apply = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[operator]
    made = of_result(operator, a, b)
    whole, scale = _full(operator, a, b)
    if whole + scale <= MOST_DIGITS:
        return plain
    fewer = scale - made.scale

    def rounding(one: Datum, other: Datum) -> Datum:
        x, y = _unscaled(one), _unscaled(other)
        if operator == "*":
            found = x * y
        else:
            x, y = x * 10 ** (scale - a.scale), y * 10 ** (scale - b.scale)
            found = x + y if operator == "+" else x - y
        known = np.ones(len(found), np.bool_)
        for each in (one, other):
            known &= _valid(each)
        size: PythonIntegers = np.abs(found)
        if operator == "*" and fewer:
            size = _significant(size)
        if fewer:
            size = (size + 5 * 10 ** (fewer - 1)) // 10**fewer
        fits = (size < 10**MOST_DIGITS).astype(np.bool_)
        if ansi and not fits[known].all():
            raise pa.ArrowInvalid(
                f"the result is too large for decimal({made.precision}, {made.scale}): give columns of fewer digits, "
                "or set spark.sql.ansi.enabled to false for null instead"
            )
        size[~fits] = 0
        result = from_words(_words(np.where(found < 0, -size, size)), known & fits, made)
        both = isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar)
        return result[0] if both else result

    return rounding


def _array(value: Datum) -> Datum:
    """A scalar as an array of length 1."""
    return pa.repeat(value, 1) if isinstance(value, pa.Scalar) else value


def _unscaled(value: Datum) -> PythonIntegers:
    """Decimals without their point, as Python integers."""
    words = words_of(_array(value))
    found: PythonIntegers = (words[:, 1].astype(object) << 64) + words[:, 0].view(np.uint64).astype(object)
    return found


def _valid(value: Datum) -> npt.NDArray[np.bool_]:
    valid = validity(_array(value))
    return valid if len(valid) else np.ones(1, np.bool_)


def _significant(sizes: PythonIntegers) -> PythonIntegers:
    """Numbers rounded to 39 digits, as Spark does before it rounds to the result's type."""
    for more in range(1, 2 * MOST_DIGITS - SIGNIFICANT + 1):
        least, unit = 10 ** (SIGNIFICANT + more - 1), 10**more
        if not (sizes >= least).any():
            break
        long = ((sizes >= least) & (sizes < 10 * least)).astype(np.bool_)
        sizes[long] = (sizes[long] + unit // 2) // unit * unit
    return sizes


def _words(numbers: PythonIntegers) -> npt.NDArray[np.int64]:
    """Python integers as pairs of 64-bit words, low before high."""
    pairs = np.empty((len(numbers), 2), np.int64)
    pairs[:, 0] = (numbers & WORD).astype(np.uint64).view(np.int64)
    pairs[:, 1] = (numbers >> 64).astype(np.int64)
    return pairs
