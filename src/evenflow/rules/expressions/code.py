"""Code over Arrow arrays: a compiled expression, and the functions that build one from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, first_line
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.gathered import Gathered
from evenflow.rules.expressions.values.arithmetic import family
from evenflow.rules.expressions.values.datum import Apply, Datum
from evenflow.rules.expressions.values.decimals import as_double, rescaled
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show

Name = tuple[str, str]
"""An alias and one of its columns."""
Values: TypeAlias = Mapping[Name, pa.Array | Gathered]
"""The columns that an expression reads."""


@dataclass(frozen=True)
class Compiled:
    """An expression that can be evaluated."""

    type: pa.DataType
    columns: frozenset[Name]
    run: Callable[[Values, int], Datum]
    """From columns and their number of rows: an array, or a scalar where all rows have one value."""
    calls: bool = False
    """Whether it calls a user's function."""
    of: pa.Field | None = None
    """The column, if the expression is nothing but a column."""
    collation: str = ""
    """The collation of its strings if equal strings may differ in bytes; empty if not. Rules compare bytes."""
    exact: Compiled | None = None
    """The same value as a decimal, for use beside decimals; only constants and expressions of constants have it."""

    def evaluate(self, values: Values, rows: int) -> pa.Array:
        """The value for each row."""
        found = self.run(values, rows)
        return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found

    def holds(self, values: Values, rows: int) -> npt.NDArray[np.bool_]:
        """For a condition: where it is true. False and null both give False."""
        found = self.evaluate(values, rows)
        found = pc.fill_null(found, False) if found.null_count else found
        held: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return held


def make(scope: Scope, node: s.Node, parts: Sequence[Compiled], apply: Apply) -> Compiled:
    """An expression that applies an Arrow function to its parts; its type is the type of the result for no rows."""
    try:
        kind = apply(*(pa.array([], part.type) for part in parts)).type
    except (pa.ArrowException, TypeError) as error:
        kinds = " and ".join(str(part.type) for part in parts)
        reason = str(error).splitlines()[0]
        raise scope.text.error(f"{show(node)} does not fit {kinds}: {reason}", node) from None
    runs = [part.run for part in parts]

    def run(values: Values, rows: int) -> Datum:
        given = []
        for inner in runs:
            given.append(inner(values, rows))  # a comprehension would add one level to the recursion
        try:
            return apply(*given)
        except pa.ArrowException as error:
            raise FunctionError(f"{show(node)} of {scope.text.title} fails: {first_line(error)}") from None

    collation = _collation(parts) if family(kind) not in ("number", "boolean", "time") else ""
    return Compiled(kind, columns_of(parts), run, any(part.calls for part in parts), collation=collation)


def scalar(value: pa.Scalar) -> Compiled:
    """A constant."""
    return Compiled(value.type, frozenset(), lambda values, rows: value)


def columns_of(parts: Sequence[Compiled]) -> frozenset[Name]:
    """All columns that the parts read."""
    return frozenset().union(*(part.columns for part in parts))


def cast(part: Compiled, kind: pa.DataType) -> Compiled:
    """The same expression with values of another type."""
    if part.type == kind:
        return part
    run = part.run
    convert: Apply = partial(pc.cast, target_type=kind, safe=False)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(part.type) and kind.scale < part.type.scale:
        convert = partial(rescaled, kind=kind)
    elif kind == pa.float64() and pa.types.is_decimal(part.type):
        convert = as_double
    return replace(part, type=kind, run=lambda values, rows: convert(run(values, rows)), of=None, exact=None)


def require(what: str, expression: s.Expression, part: Compiled, wanted: str, scope: Scope) -> None:
    """Refuse an operand of `what` that is neither of the family `wanted` nor null."""
    if family(part.type) not in (wanted, "null"):
        raise scope.text.error(f"'{what}' needs a {wanted}, {show(expression)} is {part.type}", expression)


def require_bytewise(node: s.Node, parts: Sequence[Compiled], scope: Scope) -> None:
    """Refuse to compare strings that Spark would not compare byte by byte."""
    collation = _collation(parts)
    if collation:
        raise scope.text.error(
            f"{show(node)} compares strings of collation {collation}, and rules compare bytes: give a column of "
            "collation UTF8_BINARY, made with F.collate; what is the key need not be compared",
            node,
        )


def _collation(parts: Sequence[Compiled]) -> str:
    return next((part.collation for part in parts if part.collation), "")
