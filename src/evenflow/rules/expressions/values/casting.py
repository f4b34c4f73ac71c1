"""`cast(value as type)`, with the results of Spark. A cast that would differ from Spark for some values is refused.

| from | to |
|---|---|
| whole numbers | whole numbers, decimals, float, double, boolean, string |
| decimals | the same, but string |
| float, double | whole numbers, float, double, boolean |
| boolean | whole numbers, float, double, string |
| text | string; with `spark.sql.ansi.enabled` whole numbers, double |
| dates | date, string |
| timestamps | date, in the zone of the column |

A value that does not fit is an error. Without `spark.sql.ansi.enabled` it becomes what Spark makes of it: a whole
number wraps around if made of a whole number or decimal, and is the nearest that fits if made of a double; a decimal
is null.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError
from evenflow.operators.aggregates.measures import MOST_DIGITS
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, cast, make
from evenflow.rules.expressions.values.arithmetic import family
from evenflow.rules.expressions.values.datum import Apply, Datum
from evenflow.rules.expressions.values.decimals import as_decimal, as_double, rescaled
from evenflow.rules.expressions.values.times import check_zone
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show

WHOLE = {
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
}
TYPES = {
    **WHOLE,
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
}
DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:, *(\d+))?\))?")
NUMBER = {
    "whole": r"^[+-]?[0-9]{1,19}$",
    "double": r"^[+-]?([0-9]{1,17}(\.[0-9]{0,17})?|\.[0-9]{1,17})([eE][+-]?[0-9]{1,2})?$",
}
"""Texts that are numbers. Spark accepts more texts, such as '1d': these are an error here, never another number."""


def type_of(node: s.Cast, scope: Scope) -> pa.DataType:
    """The type that the text of a cast names."""
    text = node.type.lower()
    found = DECIMAL.fullmatch(text)
    if found is not None:
        digits, scale = int(found[1] or 10), int(found[2] or 0)
        if 1 <= digits <= MOST_DIGITS and scale <= digits:
            return pa.decimal128(digits, scale)
    elif text in TYPES:
        return TYPES[text]
    raise scope.text.error(f"there is no cast to '{node.type}'; there are: {', '.join(TYPES)}, decimal(p, s)", node)


def compile_cast(node: s.Cast, part: Compiled, scope: Scope) -> Compiled:
    """A value of another type."""
    kind = type_of(node, scope)
    if pa.types.is_null(part.type):
        return cast(part, kind)
    fraction = pa.types.is_floating(part.type) and pa.types.is_integer(kind)
    if part.exact is not None and (pa.types.is_decimal(kind) or fraction):
        part = part.exact  # Spark's constants are decimals
    if part.type == kind or (family(part.type) == "text" and kind == pa.string()):
        return make(scope, node, [part], lambda value: value)
    check_zone(node, part, scope)
    apply = _found(part.type, kind, scope.ansi, f"{show(node)} of {scope.text.title}")
    if apply is None:
        raise scope.text.error(f"there is no cast of {part.type} to '{node.type}'", node)
    return make(scope, node, [part], apply)


def _found(old: pa.DataType, new: pa.DataType, ansi: bool, what: str) -> Apply | None:
    is_ = pa.types
    whole, floats, decimal = is_.is_integer(old), is_.is_floating(old), is_.is_decimal(old)
    if is_.is_boolean(old) and new == pa.string():
        return lambda value: pc.if_else(value, "true", "false")
    if new == pa.string():
        return (lambda value: pc.cast(value, new)) if whole or is_.is_date(old) else None
    if new == pa.date32() and is_.is_timestamp(old):
        return _day
    if family(old) == "text":
        return _of_text(new, ansi, what)
    if is_.is_boolean(old) and (is_.is_integer(new) or is_.is_floating(new)):
        return lambda value: pc.cast(pc.cast(value, pa.int8()), new)
    if not (whole or floats or decimal):
        return None
    if is_.is_boolean(new):
        return lambda value: pc.not_equal(value, pa.scalar(0, value.type))
    if is_.is_floating(new):
        return lambda value: pc.cast(as_double(value) if decimal else value, new, safe=False)
    if is_.is_integer(new):
        return (lambda value: _wrapped(value, new, ansi, what)) if whole else _truncated(new, floats, ansi, what)
    return _to_decimal(old, new, ansi, what) if is_.is_decimal(new) and not floats else None


def _day(value: Datum) -> Datum:
    local = value if value.type.tz is None else pc.local_timestamp(value)
    return pc.cast(pc.floor_temporal(local, unit="day"), pa.date32())


def _wrapped(value: Datum, new: pa.DataType, ansi: bool, what: str) -> Datum:
    """Whole numbers of another size."""
    try:
        return pc.cast(value, new, safe=ansi)
    except pa.ArrowInvalid:
        raise FunctionError(f"{what} fails: a value is too large for {new}") from None


def _truncated(new: pa.DataType, floats: bool, ansi: bool, what: str) -> Apply:
    """Numbers with a fraction as whole ones, without it."""

    def run(value: Datum) -> Datum:
        if isinstance(value, pa.Scalar):
            return run(pa.array([value.as_py()], value.type))[0]
        if not floats:
            whole = pc.cast(pc.trunc(value), pa.decimal256(76, 0))
            return _wrapped(whole if ansi else _low_words(whole), new, ansi, what)
        numbers = np.trunc(pc.fill_null(pc.cast(value, pa.float64()), 0.0).to_numpy(zero_copy_only=False))
        middle = new if new in (pa.int32(), pa.int64()) else pa.int32()  # Spark makes small ones of an int
        limits = np.iinfo((new if ansi else middle).to_pandas_dtype())
        fits = (numbers >= limits.min) & (numbers < float(limits.max) + 1)
        if ansi and not fits.all():
            raise FunctionError(f"{what} fails: a value is too large for {new}, or is no number")
        inside = np.where(fits, numbers, 0.0).astype(np.int64)
        ends = np.where(np.isnan(numbers), 0, np.where(numbers > 0, limits.max, limits.min))
        found = pa.array(np.where(fits, inside, ends), mask=value.is_null().to_numpy(zero_copy_only=False))
        return pc.cast(found, new, safe=False)

    return run


def _low_words(whole: pa.Array) -> pa.Array:
    """The lowest 64 bits of decimals without a fraction, as Java cuts decimals that are too large."""
    words = np.frombuffer(whole.buffers()[1], np.int64).reshape(-1, 4)[whole.offset : whole.offset + len(whole)]
    return pa.array(words[:, 0], mask=whole.is_null().to_numpy(zero_copy_only=False))


def _to_decimal(old: pa.DataType, new: pa.DataType, ansi: bool, what: str) -> Apply:
    """Whole numbers and decimals as decimals of other digits, rounded half away from zero."""
    given = as_decimal(old)
    assert given is not None
    wide = pa.decimal256(76, new.scale)
    limit = pa.scalar(Decimal(10) ** (new.precision - new.scale), wide)

    def run(value: Datum) -> Datum:
        exact = pc.cast(value, given)
        rounded = pc.cast(exact, wide) if given.scale <= new.scale else rescaled(exact, wide)
        fits = pc.less(pc.abs(rounded), limit)
        if ansi and _some_false(fits):
            raise FunctionError(f"{what} fails: a value is too large for {new}")
        return pc.cast(pc.if_else(fits, rounded, pa.scalar(None, rounded.type)), new)

    return run


def _some_false(found: Datum) -> bool:
    return found.as_py() is False if isinstance(found, pa.Scalar) else bool(pc.any(pc.invert(found)).as_py())


def _of_text(new: pa.DataType, ansi: bool, what: str) -> Apply | None:
    if not ansi or not (pa.types.is_integer(new) or new == pa.float64()):
        return None
    pattern = NUMBER["double" if new == pa.float64() else "whole"]

    def run(value: Datum) -> Datum:
        text = pc.ascii_trim(value, " ")
        plain = pc.match_substring_regex(text, pattern)
        if _some_false(plain):
            raise FunctionError(f"{what} fails: a text is no number")
        numbers = pc.cast(pc.replace_substring_regex(text, r"^\+", ""), pa.int64() if new != pa.float64() else new)
        return _wrapped(numbers, new, True, what) if new != pa.float64() else numbers

    return run
