"""Operators of expressions: logic, comparison, arithmetic, IN, LIKE and CASE, built from compiled operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.aggregates.measures import MOST_DIGITS
from evenflow.rules.expressions.as_spark import check_division, check_literal, comparison
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, cast, make, require, require_bytewise
from evenflow.rules.expressions.values.arithmetic import (
    ARITHMETIC,
    CHECKED,
    COMPARISONS,
    MOST_COMPARED,
    common_type,
    family,
    seconds_between,
)
from evenflow.rules.expressions.values.constants import both_ways, comparable, digits_of, range_of
from evenflow.rules.expressions.values.datum import Apply, Datum
from evenflow.rules.expressions.values.decimals import arithmetic, as_decimal
from evenflow.rules.expressions.values.times import in_one_zone
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show

Operand = tuple[s.Expression, Compiled]
"""An expression, for messages, and its code."""


def unary(node: s.Unary, operand: Compiled, scope: Scope) -> Compiled:
    """`not` or `-`."""
    if node.operator == "not":
        require("not", node.operand, operand, "boolean", scope)
        return make(scope, node, [cast(operand, pa.bool_())], pc.invert)
    require("-", node.operand, operand, "number", scope)
    return both_ways([operand], digits_of, lambda parts: _minus(node, parts[0], scope))


def _minus(node: s.Unary, operand: Compiled, scope: Scope) -> Compiled:
    if pa.types.is_decimal(operand.type):
        return make(scope, node, [operand], pc.negate)
    negate = pc.negate_checked if scope.ansi else pc.negate
    return make(scope, node, [cast(operand, _wide([operand]))], negate)


def binary(node: s.Node, operator: str, left: Operand, right: Operand, scope: Scope) -> Compiled:
    """Any operator between two operands."""
    one, other = left[1], right[1]
    if operator in ("and", "or"):
        require(operator, *left, "boolean", scope)
        require(operator, *right, "boolean", scope)
        apply = pc.and_kleene if operator == "and" else pc.or_kleene
        return make(scope, node, [cast(one, pa.bool_()), cast(other, pa.bool_())], apply)
    if operator in COMPARISONS:
        return _comparison(node, operator, left, right, scope)
    if operator == "||":
        return _concatenation(node, left, right, scope)
    if operator == "-" and family(one.type) == family(other.type) == "time":
        parts = [cast(part, pa.timestamp("us")) for part in in_one_zone([one, other])]
        return make(scope, node, parts, seconds_between)
    if not {family(one.type), family(other.type)} <= {"number", "null"}:
        raise _misfit(node, operator, left, right, scope)
    if operator in "+-*":
        return both_ways([one, other], digits_of, lambda parts: _arithmetic(node, operator, parts, scope))
    return _arithmetic(node, operator, [one, other], scope)


def _comparison(node: s.Node, operator: str, left: Operand, right: Operand, scope: Scope) -> Compiled:
    parts, kind = _meet(node, operator, left, right, scope)
    require_bytewise(node, parts, scope)
    kind = pa.bool_() if pa.types.is_null(kind) else kind
    as_spark = scope.spark and pa.types.is_floating(kind)
    apply = comparison(operator) if as_spark else COMPARISONS[operator]
    return make(scope, node, [cast(part, kind) for part in parts], apply)


def _concatenation(node: s.Node, left: Operand, right: Operand, scope: Scope) -> Compiled:
    parts, kind = _meet(node, "||", left, right, scope)
    kind = pa.string() if pa.types.is_null(kind) else kind
    joined = [cast(part, kind) for part in parts]
    return make(scope, node, joined, lambda a, b: pc.binary_join_element_wise(a, b, pa.scalar("", a.type)))


def _meet(
    node: s.Node, operator: str, left: Operand, right: Operand, scope: Scope
) -> tuple[Sequence[Compiled], pa.DataType]:
    """The two operands, as decimals where they have to be, and the type that both are to be cast to."""
    parts = comparable([left[1], right[1]])
    kind = common_type([part.type for part in parts], MOST_COMPARED)
    if kind is None or (operator == "||" and family(kind) not in ("text", "null")):
        raise _misfit(node, operator, (left[0], parts[0]), (right[0], parts[1]), scope)
    return parts, kind


def _arithmetic(node: s.Node, operator: str, parts: Sequence[Compiled], scope: Scope) -> Compiled:
    decimals = [part.type for part in parts if pa.types.is_decimal(part.type)]
    check_division(node, operator, parts, scope)
    if operator in "+-*" and decimals and not any(pa.types.is_floating(part.type) for part in parts):
        if max(kind.precision for kind in decimals) > MOST_DIGITS:
            raise scope.text.error(f"{show(node)} is of decimals with more than {MOST_DIGITS} digits: cast them", node)
        a, b = (as_decimal(decimals[0] if pa.types.is_null(part.type) else part.type) for part in parts)
        return make(scope, node, [cast(parts[0], a), cast(parts[1], b)], arithmetic(operator, a, b, scope.ansi))
    kind = pa.float64() if operator == "/" else _wide(parts)
    apply = (CHECKED if scope.ansi and kind == pa.int64() else ARITHMETIC)[operator]
    return make(scope, node, [cast(part, kind) for part in parts], apply)


def _wide(parts: Sequence[Compiled]) -> pa.DataType:
    """The type in which numbers that are no decimals are computed: int64 if all are whole, else float64."""
    whole = all(pa.types.is_integer(part.type) and part.type != pa.uint64() for part in parts)
    return pa.int64() if whole else pa.float64()


def _misfit(node: s.Node, what: str, left: Operand, right: Operand, scope: Scope) -> Exception:
    (first, one), (second, other) = left, right
    return scope.text.error(
        f"'{what}' does not fit {show(first)}, which is {one.type}, and {show(second)}, which is {other.type}", node
    )


def member(node: s.In, operand: Compiled, options: Sequence[Operand], scope: Scope) -> Compiled:
    """IN: whether a value equals one of several options. Constant options are looked up together, by type."""
    parts = []
    sets: dict[pa.DataType, tuple[Compiled, list[pa.Scalar]]] = {}
    for option in options:
        value, part = comparable([operand, option[1]])
        kind = common_type([value.type, part.type], MOST_COMPARED)
        require_bytewise(node, [value, part], scope)
        scalar = None if part.columns or part.calls else part.run({}, 1)
        if isinstance(scalar, pa.Scalar) and scalar.is_valid and kind is not None:
            sets.setdefault(kind, (value, []))[1].append(pc.cast(scalar, kind, safe=False))
        else:
            parts.append(_comparison(node, "=", (node.operand, operand), option, scope))
    parts += [make(scope, node, [cast(value, kind)], _among(kind, found)) for kind, (value, found) in sets.items()]
    return make(scope, node, parts, lambda *found: reduce(pc.or_kleene, found))


def _among(kind: pa.DataType, options: list[pa.Scalar]) -> Apply:
    zero = 0.0 if pa.types.is_floating(kind) else None  # is_in tells -0.0 from 0.0, which are equal: adding 0.0 helps
    among = pa.array([each.as_py() if zero is None else each.as_py() + zero for each in options], kind)

    def find(value: Datum) -> Datum:
        given = value if zero is None else pc.add(value, pa.scalar(zero, kind))
        return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), pc.is_in(given, among))

    return find


def negated(node: s.In | s.Between | s.Like | s.IsNull, whole: Compiled, scope: Scope) -> Compiled:
    """`whole`, or its opposite if the node says `not`."""
    return make(scope, node, [whole], pc.invert) if node.negated else whole


def like(node: s.Like, operand: Compiled, scope: Scope) -> Compiled:
    """LIKE; the pattern is a constant."""
    require("like", node.operand, operand, "text", scope)
    require_bytewise(node, [operand], scope)
    if not isinstance(node.pattern, s.Literal) or not isinstance(node.pattern.value, str):
        raise scope.text.error(f"like needs a string in quotes, not {show(node.pattern)}", node.pattern)
    check_literal(node.pattern, scope)
    pattern = node.pattern.value
    if pa.types.is_null(operand.type):
        operand = cast(operand, pa.string())
    return make(scope, node, [operand], lambda value: pc.match_like(value, pattern))


def case(node: s.Case, conditions: Sequence[Compiled], values: Sequence[Compiled], scope: Scope) -> Compiled:
    """CASE: `values` has one more than `conditions`, the value of ELSE."""
    for (condition, _), part in zip(node.whens, conditions, strict=True):
        require("when", condition, part, "boolean", scope)
    tests = [cast(condition, pa.bool_()) for condition in conditions]

    def build(given: Sequence[Compiled]) -> Compiled:
        parts = in_one_zone(given)
        kind = common_type([part.type for part in parts])
        if kind is None:
            kinds = ", ".join(str(part.type) for part in parts)
            raise scope.text.error(f"case needs values of one type, these are {kinds}", node)
        return make(scope, node, [*tests, *(cast(part, kind) for part in parts)], _choose)

    return both_ways(values, range_of, build)


def _choose(*parts: Datum) -> Datum:
    """From n conditions and n + 1 values: the value of the first condition that is true, else the last value."""
    count = len(parts) // 2
    whole = parts[-1]
    for condition, value in zip(reversed(parts[:count]), reversed(parts[count:-1]), strict=True):
        whole = pc.if_else(pc.fill_null(condition, False), value, whole)
    return whole
