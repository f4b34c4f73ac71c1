"""Filters of graphs, which must have the results of Spark: a condition with another result is refused.

Rules compare NaN as IEEE does and leave texts in quotes as they are written; Spark does neither. Functions and
divisions of decimals whose results differ from Spark's for some values are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.declared import COLUMN
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled
from evenflow.rules.expressions.values.datum import Apply, Datum
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show

REMEDY = "use a function of a record batch, or df.where before the graph"
DIFFERENT = {
    "ln": "is null in Spark where its argument is not above 0",
    "log10": "is null in Spark where its argument is not above 0",
    "lower": "goes by other tables for some letters in Spark",
    "upper": "goes by other tables for some letters in Spark",
    "trim": "strips only spaces in Spark",
}
"""Functions whose results differ from Spark's, and how."""
OF_FLOATS = {"greatest", "least", "nullif"}
"""Functions that treat NaN otherwise than Spark."""
CHAR = re.compile(rb"(?<!var)char\(\d+\)")


def comparison(operator: str) -> Apply:
    """A comparison of floating numbers: NaN is equal to itself, and greater than all others."""

    def equal(a: Datum, b: Datum) -> Datum:
        return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))

    def less(a: Datum, b: Datum) -> Datum:
        return pc.or_(pc.less(a, b), pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))

    return {
        "=": equal,
        "!=": lambda a, b: pc.invert(equal(a, b)),
        "<": less,
        "<=": lambda a, b: pc.invert(less(b, a)),
        ">": lambda a, b: less(b, a),
        ">=": lambda a, b: pc.invert(less(a, b)),
    }[operator]


def check_literal(node: s.Literal, scope: Scope) -> None:
    """Refuse a text with a backslash: Spark takes it, and the next character, for another one."""
    if scope.spark and isinstance(node.value, str) and "\\" in node.value:
        raise scope.text.error(
            f"{show(node)} has a backslash, which Spark reads as the sign of another character", node
        )


def check_span(node: s.Stretch, scope: Scope) -> None:
    """Refuse a span of time: Spark's days are as long as the calendar says."""
    if scope.spark:
        raise scope.text.error(f"{show(node)} is no number in Spark: {REMEDY}", node)


def check_column(node: s.Column, field: pa.Field, scope: Scope) -> None:
    """Refuse a column of type char(n): Spark pads the value that it is compared with."""
    told = (field.metadata or {}).get(COLUMN, b"")
    if scope.spark and CHAR.search(told):
        raise scope.text.error(f"'{node.name}' is a char(n), which Spark pads in comparisons: cast it to string", node)


def check_call(node: s.Call, name: str, parts: Sequence[Compiled], scope: Scope) -> None:
    """Refuse a function whose results differ from Spark's."""
    if not scope.spark:
        return
    if name in DIFFERENT:
        raise scope.text.error(f"{name} {DIFFERENT[name]}: {REMEDY}", node)
    if name in OF_FLOATS and any(pa.types.is_floating(part.type) for part in parts):
        raise scope.text.error(f"{name} of floating numbers takes NaN for something else than Spark: {REMEDY}", node)


def check_division(node: s.Node, operator: str, parts: Sequence[Compiled], scope: Scope) -> None:
    """Refuse a division of decimals: rules divide them as doubles."""
    if scope.spark and operator in "/%" and any(pa.types.is_decimal(part.type) for part in parts):
        raise scope.text.error(f"'{operator}' of decimals is rounded otherwise than in Spark: {REMEDY}", node)
