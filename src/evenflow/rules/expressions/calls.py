"""Calls of functions in expressions: the user's own functions and the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from evenflow.rules.expressions.as_spark import check_call
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, Values, cast, columns_of, make, require, require_bytewise
from evenflow.rules.expressions.functions import Builtin, UserFunction, call, call_pairs, null_if, part_of_text, rounded
from evenflow.rules.expressions.gathered import Gathered, as_numpy
from evenflow.rules.expressions.values.arithmetic import MOST_COMPARED, common_type
from evenflow.rules.expressions.values.constants import both_ways, comparable, range_of
from evenflow.rules.expressions.values.times import check_zone, in_one_zone
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show


def compile_call(
    node: s.Call, name: str, function: UserFunction | Builtin, parts: list[Compiled], scope: Scope
) -> Compiled:
    """A call of `function`, known as `name`, with compiled arguments."""
    if isinstance(function, Builtin):
        return _builtin(node, name, function, parts, scope)
    if not parts:
        raise scope.text.error(f"function '{name}' is called without arguments: give it at least one column", node)
    takers = [_taker(argument, part, scope) for argument, part in zip(node.arguments, parts, strict=True)]
    plain = all(isinstance(argument, s.Column) for argument in node.arguments)
    names = [scope.column(each)[:2] for each in node.arguments if isinstance(each, s.Column)]
    prepares = plain and hasattr(function.callable, "prepare")

    def run(values: Values, rows: int) -> pa.Array:
        pairs = [value for each in names if isinstance(value := values[each], Gathered)] if prepares else []
        if pairs and len(pairs) == len(names):
            return call_pairs(name, scope.text.title, function, pairs)
        given = [taker(values, rows) for taker in takers]
        return call(name, scope.text.title, function, given, rows)

    return Compiled(function.type, columns_of(parts), run, True)


def _taker(argument: s.Expression, part: Compiled, scope: Scope) -> Callable[[Values, int], object]:
    """How a user's function gets an argument: as a numpy array, or as one value for all rows."""
    key = scope.column(argument)[:2] if isinstance(argument, s.Column) else None

    def take(values: Values, rows: int) -> object:
        value = values[key] if key is not None else part.run(values, rows)
        if isinstance(value, Gathered):
            return value.objects()
        return value.as_py() if isinstance(value, pa.Scalar) else as_numpy(value)

    return take


def _builtin(node: s.Call, name: str, function: Builtin, parts: list[Compiled], scope: Scope) -> Compiled:
    check_call(node, name, parts, scope)
    if not function.least <= len(parts) <= function.most:
        wanted = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
        raise scope.text.error(f"{name} takes {wanted} arguments, here are {len(parts)}", node)
    if function.takes:
        constants = 1 if name in ("substring", "substr") else len(parts)
        for argument, part in zip(node.arguments[:constants], parts, strict=False):
            require(name, argument, part, function.takes, scope)
            if function.takes == "time":
                check_zone(argument, part, scope)
    if name == "nullif":
        return _null_if(node, parts, scope)
    if name == "round" and len(parts) == 2:
        digits = _digits(node.arguments[1], parts.pop(), scope)
        function = replace(function, apply=lambda value: rounded(value, digits))
    if name in ("substring", "substr"):
        first, *length = (_constant(name, *each, scope) for each in zip(node.arguments[1:], parts[1:], strict=True))
        stop = part_of_text(first, *length)
        parts, function = parts[:1], replace(function, apply=stop)
    if function.common:
        return both_ways(parts, range_of, lambda given: _applied(node, name, function, given, scope))
    return _applied(node, name, function, parts, scope)


def _applied(node: s.Call, name: str, function: Builtin, parts: Sequence[Compiled], scope: Scope) -> Compiled:
    if function.common:
        parts = in_one_zone(parts)
        kind = common_type([part.type for part in parts])
        if kind is None:
            raise scope.text.error(f"{name} needs arguments of one type, these are {_listed(parts)}", node)
        parts = [cast(part, kind) for part in parts]
    if function.takes:
        null_as = {"number": pa.float64(), "time": pa.timestamp("us")}.get(function.takes, pa.string())
        parts = [cast(part, null_as) if pa.types.is_null(part.type) else part for part in parts]
    return make(scope, node, parts, function.apply)


def _null_if(node: s.Call, parts: Sequence[Compiled], scope: Scope) -> Compiled:
    """The first argument, of its own type; null where the second equals it."""
    require_bytewise(node, parts, scope)
    compared = comparable(parts)
    kind = common_type([part.type for part in compared], MOST_COMPARED)
    if kind is None:
        raise scope.text.error(f"nullif needs arguments of one type, these are {_listed(parts)}", node)
    return make(scope, node, [*(cast(part, kind) for part in compared), parts[0]], null_if)


def _listed(parts: Sequence[Compiled]) -> str:
    return " and ".join(str(part.type) for part in parts)


def _constant(name: str, node: s.Expression, part: Compiled, scope: Scope) -> int:
    """An argument that is a whole number, the same for all rows."""
    value = None if part.columns or part.calls else part.run({}, 1).as_py()
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise scope.text.error(f"{name} takes whole numbers that are constant, not {show(node)}", node)
    return value


def _digits(node: s.Expression, part: Compiled, scope: Scope) -> int:
    """The second argument of `round`, which is a constant."""
    value = None if part.columns or part.calls else part.run({}, 1).as_py()
    if not isinstance(value, int) or not -308 <= value <= 308:
        raise scope.text.error(f"round takes a whole number of digits from -308 to 308, not {show(node)}", node)
    return value
