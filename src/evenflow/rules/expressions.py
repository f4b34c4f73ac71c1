"""Expressions as code over Arrow arrays, checked against the types of the columns before any row comes.

    compiled = compile_expression(expression, scope)
    compiled.type, compiled.columns                        # an Arrow type, {(alias, column), ...}
    compiled.evaluate({("LE", "price"): array}, rows)      # an Arrow array of that many rows

Null is SQL's: unknown, in comparisons, `and`, `or` and `not` too. Arithmetic is in 64 bits, that of whole numbers wraps
around; `/` always divides as doubles, and gives null if the divisor is 0, like `%`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.rules import syntax as s
from evenflow.rules.arithmetic import ARITHMETIC, COMPARISONS, common_type, family, seconds_between
from evenflow.rules.binding import Scope
from evenflow.rules.functions import Builtin, call
from evenflow.rules.gathered import Gathered, as_numpy
from evenflow.rules.printing import show

Name = tuple[str, str]
"""An alias and one of its columns."""
Values = Mapping[Name, Any]
Run = Callable[[Values, int], Any]


@dataclass(frozen=True)
class Compiled:
    """An expression that can be run."""

    type: pa.DataType
    columns: frozenset[Name]
    run: Run
    """Gives an array, or a scalar where all rows have one value."""
    calls: bool = False
    """Whether a user's function is called."""

    def evaluate(self, values: Values, rows: int) -> pa.Array:
        """The value for each of the rows."""
        found = self.run(values, rows)
        return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found

    def holds(self, values: Values, rows: int) -> npt.NDArray[np.bool_]:
        """For a condition: where it is true, neither false nor null."""
        found = self.evaluate(values, rows)
        found = pc.fill_null(found, False) if found.null_count else found
        held: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return held


def compile_expression(expression: s.Expression, scope: Scope) -> Compiled:
    """Code for an expression; RuleError at the place of what is not known or does not fit."""
    try:
        return _compile(expression, scope)
    except RecursionError:
        raise scope.text.error("the expression is nested too deeply: split it", expression) from None


def compile_condition(expression: s.Expression, scope: Scope) -> Compiled:
    """Code for an expression that is true, false or null."""
    compiled = compile_expression(expression, scope)
    if pa.types.is_null(compiled.type):
        return _make(scope, expression, [compiled], lambda value: pc.cast(value, pa.bool_()))
    if not pa.types.is_boolean(compiled.type):
        raise scope.text.error(
            f"{scope.clause} needs a condition, {show(expression)} is {compiled.type}: compare it with something",
            expression,
        )
    return compiled


def _compile(node: s.Expression, scope: Scope) -> Compiled:
    match node:
        case s.Literal(value=value):
            return _constant(node, value, scope)
        case s.Column():
            owner, name, kind = scope.column(node)
            key = owner, name
            return Compiled(kind, frozenset({key}), lambda values, rows: _array(values[key]))
        case s.Aggregate():
            return _aggregate(node, scope)
        case s.Unary(operator=operator, operand=operand):
            return _unary(node, operator, _compile(operand, scope), scope)
        case s.Binary(operator=operator, left=left, right=right):
            return _binary(node, operator, left, right, scope)
        case s.In(operand=operand, options=options):
            parts = [_binary(node, "=", operand, option, scope) for option in options]
            return _negated(node, _folded(node, parts, pc.or_kleene, scope), scope)
        case s.Between(operand=operand, low=low, high=high):
            parts = [_binary(node, ">=", operand, low, scope), _binary(node, "<=", operand, high, scope)]
            return _negated(node, _folded(node, parts, pc.and_kleene, scope), scope)
        case s.Like():
            return _negated(node, _like(node, scope), scope)
        case s.IsNull(operand=operand):
            return _negated(node, _make(scope, node, [_compile(operand, scope)], pc.is_null), scope)
        case s.Case():
            return _case(node, scope)
        case s.Call():
            return _call(node, scope)


def _make(scope: Scope, node: s.Node, parts: Sequence[Compiled], apply: Callable[..., Any]) -> Compiled:
    """An expression that applies Arrow code to its parts; its type is what that gives for no rows."""
    try:
        kind = apply(*(pa.array([], part.type) for part in parts)).type
    except (pa.ArrowException, TypeError) as error:
        kinds = " and ".join(str(part.type) for part in parts)
        reason = str(error).splitlines()[0]
        raise scope.text.error(f"{show(node)} does not fit {kinds}: {reason}", node) from None
    runs = [part.run for part in parts]
    columns = frozenset().union(*(part.columns for part in parts))
    if len(runs) == 1:
        run: Run = lambda values, rows, inner=runs[0]: apply(inner(values, rows))  # type: ignore[misc]  # noqa: E731
    else:
        run = lambda values, rows: apply(*[inner(values, rows) for inner in runs])  # noqa: E731
    return Compiled(kind, columns, run, any(part.calls for part in parts))


def _array(value: Any) -> pa.Array:
    return value.array() if isinstance(value, Gathered) else value


def _constant(node: s.Node, value: object, scope: Scope) -> Compiled:
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise scope.text.error(f"{value} is too large for a whole number of 64 bits: write it with a point", node)
    scalar = pa.scalar(value)
    return Compiled(scalar.type, frozenset(), lambda values, rows: scalar)


def _aggregate(node: s.Aggregate, scope: Scope) -> Compiled:
    found = scope.aggregates.get(show(node))
    if found is None:
        raise scope.text.error(f"{show(node)} cannot stand in {scope.clause}: aggregates go to SELECT or HAVING", node)
    name, kind = found
    return Compiled(kind, frozenset({("", name)}), lambda values, rows: values["", name])


def _unary(node: s.Unary, operator: str, operand: Compiled, scope: Scope) -> Compiled:
    if operator == "not":
        _require(node, "not", node.operand, operand, "boolean", scope)
        return _make(scope, node, [_cast(operand, pa.bool_())], pc.invert)
    _require(node, "-", node.operand, operand, "number", scope)
    return _make(scope, node, [_cast(operand, _wide([operand]))], pc.negate)


def _binary(node: s.Node, operator: str, left: s.Expression, right: s.Expression, scope: Scope) -> Compiled:
    one, other = _compile(left, scope), _compile(right, scope)
    if operator in ("and", "or"):
        _require(node, operator, left, one, "boolean", scope)
        _require(node, operator, right, other, "boolean", scope)
        apply = pc.and_kleene if operator == "and" else pc.or_kleene
        return _make(scope, node, [_cast(one, pa.bool_()), _cast(other, pa.bool_())], apply)
    if operator in COMPARISONS or operator == "||":
        kind = common_type([one.type, other.type])
        if kind is None or (operator == "||" and family(kind) not in ("text", "null")):
            raise _misfit(node, operator, left, one, right, other, scope)
        parts = [_cast(one, kind), _cast(other, kind)]
        if operator == "||":
            parts = [_cast(part, pa.string()) if pa.types.is_null(kind) else part for part in parts]
            return _make(scope, node, parts, lambda a, b: pc.binary_join_element_wise(a, b, pa.scalar("", a.type)))
        if pa.types.is_null(kind):
            parts = [_cast(part, pa.bool_()) for part in parts]
        return _make(scope, node, parts, COMPARISONS[operator])
    if operator == "-" and family(one.type) == family(other.type) == "time":
        parts = [_cast(one, pa.timestamp("us")), _cast(other, pa.timestamp("us"))]
        return _make(scope, node, parts, seconds_between)
    if not {family(one.type), family(other.type)} <= {"number", "null"}:
        raise _misfit(node, operator, left, one, right, other, scope)
    kind = pa.float64() if operator == "/" else _wide([one, other])
    return _make(scope, node, [_cast(one, kind), _cast(other, kind)], ARITHMETIC[operator])


def _wide(parts: Sequence[Compiled]) -> pa.DataType:
    """The type in which numbers are added and multiplied."""
    whole = all(pa.types.is_integer(part.type) and part.type != pa.uint64() for part in parts)
    return pa.int64() if whole else pa.float64()


def _cast(part: Compiled, kind: pa.DataType) -> Compiled:
    if part.type == kind:
        return part
    run = part.run
    return Compiled(kind, part.columns, lambda values, rows: pc.cast(run(values, rows), kind, safe=False), part.calls)


def _require(node: s.Node, what: str, expression: s.Expression, part: Compiled, wanted: str, scope: Scope) -> None:
    if family(part.type) not in (wanted, "null"):
        raise scope.text.error(f"'{what}' needs a {wanted}, {show(expression)} is {part.type}", expression)


def _misfit(
    node: s.Node, what: str, left: s.Expression, one: Compiled, right: s.Expression, other: Compiled, scope: Scope
) -> Exception:
    return scope.text.error(
        f"'{what}' does not fit {show(left)}, which is {one.type}, and {show(right)}, which is {other.type}", node
    )


def _folded(node: s.Node, parts: Sequence[Compiled], apply: Callable[..., Any], scope: Scope) -> Compiled:
    whole = parts[0]
    for part in parts[1:]:
        whole = _make(scope, node, [whole, part], apply)
    return whole


def _negated(node: s.In | s.Between | s.Like | s.IsNull, whole: Compiled, scope: Scope) -> Compiled:
    return _make(scope, node, [whole], pc.invert) if node.negated else whole


def _like(node: s.Like, scope: Scope) -> Compiled:
    operand = _compile(node.operand, scope)
    _require(node, "like", node.operand, operand, "text", scope)
    if not isinstance(node.pattern, s.Literal) or not isinstance(node.pattern.value, str):
        raise scope.text.error(f"like needs a string in quotes, not {show(node.pattern)}", node.pattern)
    pattern = node.pattern.value
    if pa.types.is_null(operand.type):
        operand = _cast(operand, pa.string())
    return _make(scope, node, [operand], lambda value: pc.match_like(value, pattern))


def _case(node: s.Case, scope: Scope) -> Compiled:
    conditions, values = [], []
    for condition, value in node.whens:
        conditions.append(_compile(condition, scope))
        _require(node, "when", condition, conditions[-1], "boolean", scope)
        values.append(_compile(value, scope))
    otherwise = s.Literal(None) if node.otherwise is None else node.otherwise
    values.append(_compile(otherwise, scope))
    kind = common_type([value.type for value in values])
    if kind is None:
        kinds = ", ".join(str(value.type) for value in values)
        raise scope.text.error(f"case needs values of one type, these are {kinds}", node)
    whole = _cast(values[-1], kind)
    for test, result in reversed(list(zip(map(_boolean, conditions), values[:-1], strict=True))):
        whole = _make(scope, node, [test, _cast(result, kind), whole], _choose)
    return whole


def _boolean(part: Compiled) -> Compiled:
    return _cast(part, pa.bool_())


def _choose(condition: Any, value: Any, otherwise: Any) -> Any:
    return pc.if_else(pc.fill_null(condition, False), value, otherwise)


def _call(node: s.Call, scope: Scope) -> Compiled:
    name, function = scope.function(node)
    parts = [_compile(argument, scope) for argument in node.arguments]
    if isinstance(function, Builtin):
        return _builtin(node, name, function, parts, scope)
    if not parts:
        raise scope.text.error(f"function '{name}' is called without arguments: give it at least one column", node)
    columns = frozenset().union(*(part.columns for part in parts))
    takers = [_taker(argument, part, scope) for argument, part in zip(node.arguments, parts, strict=True)]

    def run(values: Values, rows: int) -> pa.Array:
        given = [taker(values, rows) for taker in takers]
        return call(name, scope.text.title, function, given, rows)

    return Compiled(function.type, columns, run, True)


def _taker(argument: s.Expression, part: Compiled, scope: Scope) -> Callable[[Values, int], Any]:
    """How a user's function gets an argument: as a numpy array, or as one value for all rows."""
    key = scope.column(argument)[:2] if isinstance(argument, s.Column) else None

    def take(values: Values, rows: int) -> Any:
        value = values[key] if key is not None else part.run(values, rows)
        if isinstance(value, Gathered):
            return value.objects()
        return value.as_py() if isinstance(value, pa.Scalar) else as_numpy(value)

    return take


def _builtin(node: s.Call, name: str, function: Builtin, parts: list[Compiled], scope: Scope) -> Compiled:
    if not function.least <= len(parts) <= function.most:
        wanted = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
        raise scope.text.error(f"{name} takes {wanted} arguments, here are {len(parts)}", node)
    if function.takes:
        for argument, part in zip(node.arguments, parts, strict=True):
            _require(node, name, argument, part, function.takes, scope)
    if function.common:
        kind = common_type([part.type for part in parts])
        if kind is None:
            kinds = " and ".join(str(part.type) for part in parts)
            raise scope.text.error(f"{name} needs arguments of one type, these are {kinds}", node)
        parts = [_cast(part, kind) for part in parts]
    if function.takes:
        null_as = pa.float64() if function.takes == "number" else pa.string()
        parts = [_cast(part, null_as) if pa.types.is_null(part.type) else part for part in parts]
    return _make(scope, node, parts, function.apply)


__all__ = ["Compiled", "Name", "Values", "compile_condition", "compile_expression"]
