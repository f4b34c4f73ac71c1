"""Which types can be compared, and the arithmetic of SQL on Arrow arrays and scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.aggregates.measures import MOST_DIGITS
from evenflow.rules.expressions.values.datum import Datum
from evenflow.rules.expressions.values.decimals import as_decimal

MOST_COMPARED = 76
"""Most digits of decimals in comparisons; results of computations have at most MOST_DIGITS."""
COMPARISONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def family(kind: pa.DataType) -> str:
    """The family of a type, whose values can be compared: number, text, boolean, time, null, or the type's own name."""
    is_ = pa.types
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        return "number"
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return "text"
    if is_.is_timestamp(kind) or is_.is_date(kind):
        return "time"
    return "boolean" if is_.is_boolean(kind) else str(kind)


def common_type(kinds: Sequence[pa.DataType], most: int = MOST_DIGITS) -> pa.DataType | None:
    """The type to which values can be cast to be compared or returned together; None if there is none.

    Whole numbers and decimals together become decimals. If these would have more than `most` digits, digits behind the
    point are dropped, as in Spark.
    """
    known = [kind for kind in kinds if not pa.types.is_null(kind)]
    if not known:
        return pa.null()
    if all(kind == known[0] for kind in known):
        return known[0]
    families = {family(kind) for kind in known}
    if families == {"number"}:
        if all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in known):
            return pa.int64()
        return _common_decimal(known, most) or pa.float64()
    if families == {"text"}:
        return pa.large_string()
    if families == {"time"}:
        zones = {getattr(kind, "tz", None) for kind in known}
        return pa.timestamp("us", zones.pop()) if len(zones) == 1 else None
    return None


def _common_decimal(kinds: Sequence[pa.DataType], most: int) -> pa.DataType | None:
    decimals = [as_decimal(kind) for kind in kinds]
    if any(kind is None for kind in decimals):
        return None
    scale = max(kind.scale for kind in decimals if kind is not None)
    digits = scale + max(kind.precision - kind.scale for kind in decimals if kind is not None)
    if digits > most:
        digits, scale = most, max(0, scale - (digits - most))
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else pa.decimal256(digits, scale)


def seconds_between(a: Datum, b: Datum) -> Datum:
    """The seconds from `b` to `a`, both timestamps in microseconds."""
    return pc.divide(pc.cast(pc.subtract(a, b).cast(pa.int64()), pa.float64()), 1e6)


def _divide(a: Datum, b: Datum) -> Datum:
    return pc.divide(a, pc.if_else(pc.equal(b, pa.scalar(0, b.type)), pa.scalar(None, b.type), b))


def _remainder(a: Datum, b: Datum) -> Datum:
    """The remainder of a / b, with the sign of `a`; null if `b` is 0. Arrow has no such function."""
    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        return _remainder(pa.array([a.as_py()], a.type), pa.array([b.as_py()], b.type))[0]
    rows = len(b) if isinstance(a, pa.Scalar) else len(a)
    one, other = (pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each for each in (a, b))
    known = pc.and_(pc.is_valid(one), pc.and_kleene(pc.is_valid(other), pc.not_equal(other, pa.scalar(0, b.type))))
    known = pc.fill_null(known, False).to_numpy(zero_copy_only=False)
    top = pc.fill_null(one, pa.scalar(0, one.type)).to_numpy(zero_copy_only=False)
    under = np.where(known, pc.fill_null(other, pa.scalar(1, other.type)).to_numpy(zero_copy_only=False), 1)
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(top, under.astype(top.dtype)), mask=~known)


ARITHMETIC = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": _divide, "%": _remainder}
CHECKED = {**ARITHMETIC, "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
"""For whole numbers where a result that is too large is an error."""
