"""The functions of rules: built-in ones, and the user's own, which are called with pandas Series."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, InvalidArgument, first_line
from evenflow.rules.expressions.gathered import Gathered, Prepared
from evenflow.rules.expressions.values.datum import Apply, Datum
from evenflow.rules.expressions.values.time_parts import PARTS
from evenflow.rules.language.syntax import AGGREGATES

CHUNK = 65_536
"""Rows in one call of a user's function, at most."""
NO_COLUMN = (pd.DataFrame, pa.Table, pa.RecordBatch, Mapping, Set, str, bytes, bytearray)
"""Types that have a length but are not accepted as a column."""


class PairFunction(Protocol):
    """A user's function that is called for pairs (see `UserFunction`)."""

    def prepare(self, values: pa.Array) -> Prepared:
        """The distinct values of a column, prepared."""

    def meet(self, *columns: tuple[Prepared, npt.NDArray[np.integer]]) -> object:
        """The results for pairs: of each column the prepared values, and each pair's place among them."""


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A user's function: takes one Series per argument, returns one Series or array of `type` with the same length.

    In a join, one value occurs in many pairs. If the callable has a method `prepare`, that is called once with the
    distinct values of a column as an Arrow array, and `meet` is called for the pairs, with (prepared values, places in
    them) for each argument.
    """

    callable: Callable[..., object]
    type: pa.DataType = pa.float64()  # noqa: RUF009 - types cannot change


def normalised(functions: Mapping[str, UserFunction | Callable[..., object]] | None) -> dict[str, UserFunction]:
    """Functions by name; a plain callable returns doubles."""
    if not isinstance(functions, Mapping | None):
        raise InvalidArgument(f"functions={functions!r}: give a dict of functions by their names")
    found = {}
    for name, value in (functions or {}).items():
        function = value if isinstance(value, UserFunction) else UserFunction(value)
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"functions has the name {name!r}: give a string")
        if name.lower() in AGGREGATES:
            raise InvalidArgument(f"functions has '{name}', the name of an aggregate: give it another name")
        if not callable(function.callable):
            raise InvalidArgument(f"functions has {name}={value!r}: give something that can be called")
        found[name] = function
    return found


def call(name: str, rule: str, function: UserFunction, arguments: Sequence[object], rows: int) -> pa.Array:
    """Call a user's function; each argument is an array, or one value for all rows."""
    parts = []
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        series = [_slice(each, start, count) for each in arguments]
        parts.append(_checked(name, rule, function, count, partial(function.callable, *series)))
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts) if parts else pa.array([], function.type)


def _slice(argument: object, start: int, length: int) -> pd.Series:
    if isinstance(argument, np.ndarray):
        return pd.Series(argument[start : start + length])
    return pd.Series(np.full(length, argument) if not isinstance(argument, str | None) else [argument] * length)


def call_pairs(name: str, rule: str, function: UserFunction, arguments: Sequence[Gathered]) -> pa.Array:
    """Call a user's function that has `prepare` and `meet` on columns of pairs."""
    actor = cast("PairFunction", function.callable)
    rows = len(arguments[0].index)
    return _checked(
        name, rule, function, rows, lambda: actor.meet(*((each.made(actor.prepare), each.index) for each in arguments))
    )


def _checked(name: str, rule: str, function: UserFunction, rows: int, work: Callable[[], object]) -> pa.Array:
    try:
        result = work()
    except Exception as error:
        raise FunctionError(
            f"function '{name}' of {rule} raised {type(error).__name__}: {first_line(error)}"
        ) from error
    if isinstance(result, NO_COLUMN) or not isinstance(result, Sized):
        raise FunctionError(
            f"function '{name}' of {rule} returned {type(result).__name__}: return a Series or an array, one value for "
            "each row"
        )
    if len(result) != rows:
        raise FunctionError(
            f"function '{name}' of {rule} returned {len(result)} values for {rows} rows: return one for each"
        )
    try:
        array = result if isinstance(result, pa.Array) else pa.array(result, from_pandas=True)
        if array.type != function.type:
            array = array.cast(function.type, safe=not pa.types.is_floating(function.type))  # large numbers are rounded
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FunctionError(
            f"function '{name}' of {rule} returned what is no {function.type}: {first_line(error)}"
        ) from None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function of `least` to `most` arguments; `takes` is their family, empty for any."""

    apply: Apply
    least: int = 1
    most: int = 1
    takes: str = ""
    common: bool = False
    """Whether all arguments are cast to a common type."""


def _double(function: Apply) -> Apply:
    return lambda *values: function(*(pc.cast(value, pa.float64(), safe=False) for value in values))


def _join(*values: Datum) -> Datum:
    return pc.binary_join_element_wise(*values, "")


def null_if(compared: Datum, other: Datum, value: Datum) -> Datum:
    """`value`, or null where it equals `other`; `compared` is `value` as it is compared."""
    equal = pc.fill_null(pc.equal(compared, other), False) if not pa.types.is_null(other.type) else pa.scalar(False)
    return pc.if_else(equal, pa.scalar(None, value.type), value)


def _fraction(function: Apply) -> Apply:
    """The function for numbers with a fraction; whole numbers stay as they are."""
    return lambda value: value if pa.types.is_integer(value.type) else function(value)


def rounded(value: Datum, digits: int = 0) -> Datum:
    """Round to `digits` behind the point, half away from zero. A double too large to have such digits is unchanged."""
    kind = value.type
    if pa.types.is_integer(kind) and digits >= 0:
        return value
    if not pa.types.is_floating(kind):
        return pc.round(value, digits, round_mode="half_towards_infinity")
    double = pc.cast(value, pa.float64())
    exact = pc.greater_equal(pc.multiply(pc.abs(double), 10.0**digits), 2.0**53) if digits >= 0 else pa.scalar(False)
    found = pc.round(pc.if_else(exact, 0.0, double), digits, round_mode="half_towards_infinity")
    return pc.cast(pc.if_else(exact, double, found), kind, safe=False)


def part_of_text(first: int, length: int = 1 << 31) -> Apply:
    """Spark's substring: characters from `first` on, counted from 1, or from the end if it is negative."""
    start = first - 1 if first > 0 else first
    stop: int | None = start + length
    if length <= 0:
        start, stop = 0, 0
    elif start < 0 and start + length >= 0:
        stop = None  # it reaches the end
    return lambda value: pc.utf8_slice_codeunits(value, start, stop)


BUILTINS: Mapping[str, Builtin] = {
    "abs": Builtin(pc.abs, takes="number"),
    "ceil": Builtin(_fraction(pc.ceil), takes="number"),
    "floor": Builtin(_fraction(pc.floor), takes="number"),
    "round": Builtin(rounded, 1, 2, takes="number"),
    "sqrt": Builtin(_double(pc.sqrt), takes="number"),
    "exp": Builtin(_double(pc.exp), takes="number"),
    "ln": Builtin(_double(pc.ln), takes="number"),
    "log10": Builtin(_double(pc.log10), takes="number"),
    "power": Builtin(_double(pc.power), 2, 2, takes="number"),
    "length": Builtin(pc.utf8_length, takes="text"),
    "lower": Builtin(pc.utf8_lower, takes="text"),
    "upper": Builtin(pc.utf8_upper, takes="text"),
    "trim": Builtin(pc.utf8_trim_whitespace, takes="text"),
    "concat": Builtin(_join, 1, 100, takes="text", common=True),
    "coalesce": Builtin(pc.coalesce, 1, 100, common=True),
    "greatest": Builtin(pc.max_element_wise, 2, 100, takes="number", common=True),
    "least": Builtin(pc.min_element_wise, 2, 100, takes="number", common=True),
    "nullif": Builtin(null_if, 2, 2),
    "substring": Builtin(part_of_text(1), 2, 3, takes="text"),
    "substr": Builtin(part_of_text(1), 2, 3, takes="text"),
    **{name: Builtin(part, takes="time") for name, part in PARTS.items()},
}
