"""Expressions as code over Arrow arrays, checked against the types of the columns before any row comes.

    compiled = compile_expression(expression, scope)
    compiled.type, compiled.columns                        # an Arrow type, {(alias, column), ...}
    compiled.evaluate({("LE", "price"): array}, rows)      # an Arrow array of that many rows

Null is SQL's: unknown, in comparisons, `and`, `or` and `not` too. Arithmetic of whole numbers is in 64 bits, and what
does not fit is an error (in a session without spark.sql.ansi.enabled it wraps around); that of decimals is Spark's;
`/` always divides as doubles, and gives null if the divisor is 0, like `%`.

A constant such as `0.1` is a double among doubles and whole numbers, and a decimal beside decimals, as `2` is one of
one digit there. So is what is made of them: it is compiled both ways until it is known what it stands beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, first_line
from evenflow.operators.declared import collation_of
from evenflow.rules.expressions.arithmetic import (
    ARITHMETIC,
    CHECKED,
    COMPARISONS,
    MOST_COMPARED,
    common_type,
    family,
    seconds_between,
)
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.decimals import MOST_DIGITS, arithmetic, as_decimal, as_double, of_constant, rescaled
from evenflow.rules.expressions.functions import Builtin, call, call_pairs, rounded
from evenflow.rules.expressions.gathered import Gathered, as_numpy
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import TOO_DEEP
from evenflow.rules.language.printing import show

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
    of: pa.Field | None = None
    """The column that it is, if it is nothing else."""
    collation: str = ""
    """That of the strings that it gives, if they may be equal though their bytes are not: rules compare bytes."""
    exact: Compiled | None = None
    """The same as a decimal, which it is beside decimals: of constants, and of what is made of them."""

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
        raise scope.text.error(TOO_DEEP, expression) from None


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
        case s.Literal():
            return _constant(node, node, scope)
        case s.Column():
            owner, name, kind = scope.column(node)
            key, field = (owner, name), scope.sources[owner].field(name)
            return Compiled(
                kind,
                frozenset({key}),
                lambda values, rows: _array(values[key]),
                of=field,
                collation=collation_of(field),
            )
        case s.Aggregate():
            return _aggregate(node, scope)
        case s.Unary(operator="-", operand=s.Literal(value=int() | float()) as literal) if not isinstance(
            literal.value, bool
        ):
            return _constant(node, literal, scope, -1)
        case s.Unary(operator=operator, operand=operand):
            return _unary(node, operator, _compile(operand, scope), scope)
        case s.Binary(operator=operator, left=left, right=right):
            return _binary(node, operator, left, right, scope)
        case s.In(operand=operand, options=options):
            return _negated(node, _in(node, operand, options, scope), scope)
        case s.Between(operand=operand, low=low, high=high):
            parts = [_binary(node, ">=", operand, low, scope), _binary(node, "<=", operand, high, scope)]
            return _negated(node, _make(scope, node, parts, pc.and_kleene), scope)
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

    def run(values: Values, rows: int) -> Any:
        given = []
        for inner in runs:
            given.append(inner(values, rows))  # in a comprehension it would be one level deeper
        try:
            return apply(*given)
        except pa.ArrowException as error:
            raise FunctionError(f"{show(node)} of {scope.text.title} fails: {first_line(error)}") from None

    collation = _collation(parts) if family(kind) not in ("number", "boolean", "time") else ""
    return Compiled(kind, columns, run, any(part.calls for part in parts), collation=collation)


def _collation(parts: Sequence[Compiled]) -> str:
    return next((part.collation for part in parts if part.collation), "")


def _compares(node: s.Node, parts: Sequence[Compiled], scope: Scope) -> None:
    """Refuse to compare strings that Spark would not compare byte by byte."""
    collation = _collation(parts)
    if collation:
        raise scope.text.error(
            f"{show(node)} compares strings of collation {collation}, and rules compare bytes: give a column of "
            "collation UTF8_BINARY, made with F.collate; what is the key need not be compared",
            node,
        )


def compile_group(expression: s.Expression, scope: Scope) -> Compiled:
    """Code for what rows are grouped by."""
    compiled = compile_expression(expression, scope)
    _compares(expression, [compiled], scope)
    if pa.types.is_map(compiled.type):
        raise scope.text.error(f"{show(expression)} is a map: rows cannot be grouped by it", expression)
    return compiled


def _array(value: Any) -> pa.Array:
    return value.array() if isinstance(value, Gathered) else value


def _constant(node: s.Node, literal: s.Literal, scope: Scope, sign: int = 1) -> Compiled:
    value = literal.value
    if isinstance(value, bool | str | None):
        return _scalar(pa.scalar(value))
    number = sign * value
    if isinstance(number, float):
        return replace(_scalar(pa.scalar(number)), exact=_written(node, literal, scope, sign))
    if not -(2**63) <= number < 2**63:
        raise scope.text.error(f"{number} is too large for a whole number of 64 bits: write it with a point", node)
    return replace(_scalar(pa.scalar(number)), exact=_scalar(of_constant(Decimal(number))))


def _written(node: s.Node, literal: s.Literal, scope: Scope, sign: int) -> Compiled | None:
    """A number with a point as the decimal that it is; None if it has an exponent, which makes it a double."""
    if not literal.text or "e" in literal.text.lower():
        return None
    digits = of_constant(Decimal(literal.text).copy_sign(sign))
    if digits is None:
        raise scope.text.error(
            f"{show(literal)} has more than {MOST_DIGITS} digits: write fewer, or a double, which has an exponent", node
        )
    return _scalar(digits)


def _scalar(value: pa.Scalar) -> Compiled:
    return Compiled(value.type, frozenset(), lambda values, rows: value)


def _beside(parts: Sequence[Compiled], form: Callable[[Compiled], Compiled]) -> list[Compiled] | None:
    """Numbers as decimals and whole numbers; None if one of them is a double, or none is a decimal then."""
    forms = [form(part) for part in parts]
    fit = all(as_decimal(part.type) is not None or pa.types.is_null(part.type) for part in forms)
    return forms if fit and any(pa.types.is_decimal(part.type) for part in forms) else None


def _met(parts: Sequence[Compiled]) -> Sequence[Compiled]:
    """What is to be compared: as decimals, if any of it is one."""
    decimal = any(pa.types.is_decimal(part.type) for part in parts)
    return (_beside(parts, _digits_of) if decimal else None) or parts


def _either(
    parts: Sequence[Compiled],
    form: Callable[[Compiled], Compiled],
    build: Callable[[Sequence[Compiled]], Compiled],
) -> Compiled:
    """What is made of numbers: of decimals, if any is one; also of decimals, if constants make it doubles."""
    kinds = [part.type for part in parts]
    forms = _beside(parts, form)
    if forms is not None and any(map(pa.types.is_decimal, kinds)):
        return build(forms)
    whole = build(parts)
    if forms is not None and any(map(pa.types.is_floating, kinds)):
        return replace(whole, exact=build(forms))
    return whole


def _digits_of(part: Compiled) -> Compiled:
    """A number as it is added to decimals and compared with them: a constant has the digits that it is written with."""
    return part.exact or part


def _range_of(part: Compiled) -> Compiled:
    """A number as it is returned together with decimals: a constant that is whole is of the type that it has in SQL."""
    if part.exact is None or not pa.types.is_integer(part.type):
        return part.exact or part
    value = part.run({}, 1).as_py()
    return _cast(part, pa.int32()) if -(2**31) <= value < 2**31 else part


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
    return _either([operand], _digits_of, lambda parts: _minus(node, parts[0], scope))


def _minus(node: s.Unary, operand: Compiled, scope: Scope) -> Compiled:
    if pa.types.is_decimal(operand.type):
        return _make(scope, node, [operand], pc.negate)
    negate = pc.negate_checked if scope.ansi else pc.negate
    return _make(scope, node, [_cast(operand, _wide([operand]))], negate)


def _binary(node: s.Node, operator: str, left: s.Expression, right: s.Expression, scope: Scope) -> Compiled:
    one, other = _compile(left, scope), _compile(right, scope)
    if operator in ("and", "or"):
        _require(node, operator, left, one, "boolean", scope)
        _require(node, operator, right, other, "boolean", scope)
        apply = pc.and_kleene if operator == "and" else pc.or_kleene
        return _make(scope, node, [_cast(one, pa.bool_()), _cast(other, pa.bool_())], apply)
    if operator in COMPARISONS or operator == "||":
        one, other = _met([one, other])
        kind = common_type([one.type, other.type], MOST_COMPARED)
        if kind is None or (operator == "||" and family(kind) not in ("text", "null")):
            raise _misfit(node, operator, left, one, right, other, scope)
        parts = [_cast(one, kind), _cast(other, kind)]
        if operator in COMPARISONS:
            _compares(node, [one, other], scope)
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
    if operator in "+-*":
        return _either([one, other], _digits_of, lambda parts: _arithmetic(node, operator, parts, scope))
    return _arithmetic(node, operator, [one, other], scope)


def _arithmetic(node: s.Node, operator: str, parts: Sequence[Compiled], scope: Scope) -> Compiled:
    decimals = [part.type for part in parts if pa.types.is_decimal(part.type)]
    if operator in "+-*" and decimals and not any(pa.types.is_floating(part.type) for part in parts):
        if max(kind.precision for kind in decimals) > MOST_DIGITS:
            raise scope.text.error(f"{show(node)} is of decimals with more than {MOST_DIGITS} digits: cast them", node)
        a, b = (as_decimal(decimals[0] if pa.types.is_null(part.type) else part.type) for part in parts)
        return _make(scope, node, [_cast(parts[0], a), _cast(parts[1], b)], arithmetic(operator, a, b, scope.ansi))
    kind = pa.float64() if operator == "/" else _wide(parts)
    apply = (CHECKED if scope.ansi and kind == pa.int64() else ARITHMETIC)[operator]
    return _make(scope, node, [_cast(part, kind) for part in parts], apply)


def _wide(parts: Sequence[Compiled]) -> pa.DataType:
    """The type in which numbers are added and multiplied."""
    whole = all(pa.types.is_integer(part.type) and part.type != pa.uint64() for part in parts)
    return pa.int64() if whole else pa.float64()


def _cast(part: Compiled, kind: pa.DataType) -> Compiled:
    if part.type == kind:
        return part
    run = part.run
    cast: Callable[[Any], Any] = partial(pc.cast, target_type=kind, safe=False)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(part.type) and kind.scale < part.type.scale:
        cast = partial(rescaled, kind=kind)
    elif kind == pa.float64() and pa.types.is_decimal(part.type):
        cast = as_double
    return replace(part, type=kind, run=lambda values, rows: cast(run(values, rows)), of=None, exact=None)


def _require(node: s.Node, what: str, expression: s.Expression, part: Compiled, wanted: str, scope: Scope) -> None:
    if family(part.type) not in (wanted, "null"):
        raise scope.text.error(f"'{what}' needs a {wanted}, {show(expression)} is {part.type}", expression)


def _misfit(
    node: s.Node, what: str, left: s.Expression, one: Compiled, right: s.Expression, other: Compiled, scope: Scope
) -> Exception:
    return scope.text.error(
        f"'{what}' does not fit {show(left)}, which is {one.type}, and {show(right)}, which is {other.type}", node
    )


def _in(node: s.In, operand: s.Expression, options: Sequence[s.Expression], scope: Scope) -> Compiled:
    """Whether a value is one of several; those that are constants are looked up all at a time."""
    parts = []
    sets: dict[pa.DataType, tuple[Compiled, list[pa.Scalar]]] = {}
    whole = _compile(operand, scope)
    for option in options:
        value, part = _met([whole, _compile(option, scope)])
        kind = common_type([value.type, part.type], MOST_COMPARED)
        _compares(node, [value, part], scope)
        scalar = None if part.columns or part.calls else part.run({}, 1)
        if isinstance(scalar, pa.Scalar) and scalar.is_valid and kind is not None:
            sets.setdefault(kind, (value, []))[1].append(pc.cast(scalar, kind, safe=False))
        else:
            parts.append(_binary(node, "=", operand, option, scope))
    parts += [_make(scope, node, [_cast(value, kind)], _member(kind, found)) for kind, (value, found) in sets.items()]
    return _make(scope, node, parts, lambda *found: reduce(pc.or_kleene, found))


def _member(kind: pa.DataType, options: list[pa.Scalar]) -> Callable[[Any], Any]:
    zero = 0.0 if pa.types.is_floating(kind) else None  # -0.0 = 0.0, but is not found as it
    among = pa.array([each.as_py() if zero is None else each.as_py() + zero for each in options], kind)

    def member(value: Any) -> Any:
        given = value if zero is None else pc.add(value, pa.scalar(zero, kind))
        return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), pc.is_in(given, among))

    return member


def _negated(node: s.In | s.Between | s.Like | s.IsNull, whole: Compiled, scope: Scope) -> Compiled:
    return _make(scope, node, [whole], pc.invert) if node.negated else whole


def _like(node: s.Like, scope: Scope) -> Compiled:
    operand = _compile(node.operand, scope)
    _require(node, "like", node.operand, operand, "text", scope)
    _compares(node, [operand], scope)
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
    tests = [_cast(condition, pa.bool_()) for condition in conditions]

    def build(parts: Sequence[Compiled]) -> Compiled:
        kind = common_type([part.type for part in parts])
        if kind is None:
            kinds = ", ".join(str(part.type) for part in parts)
            raise scope.text.error(f"case needs values of one type, these are {kinds}", node)
        return _make(scope, node, [*tests, *(_cast(part, kind) for part in parts)], _choose)

    return _either(values, _range_of, build)


def _choose(*parts: Any) -> Any:
    """Of as many conditions and then values, and one more, the value of the first condition that is true."""
    count = len(parts) // 2
    whole = parts[-1]
    for condition, value in zip(reversed(parts[:count]), reversed(parts[count:-1]), strict=True):
        whole = pc.if_else(pc.fill_null(condition, False), value, whole)
    return whole


def _call(node: s.Call, scope: Scope) -> Compiled:
    name, function = scope.function(node)
    parts = [_compile(argument, scope) for argument in node.arguments]
    if isinstance(function, Builtin):
        return _builtin(node, name, function, parts, scope)
    if not parts:
        raise scope.text.error(f"function '{name}' is called without arguments: give it at least one column", node)
    columns = frozenset().union(*(part.columns for part in parts))
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
    if name == "nullif":
        _compares(node, parts, scope)
    if name == "round" and len(parts) == 2:
        digits = _digits(node.arguments[1], parts.pop(), scope)
        function = replace(function, apply=lambda value: rounded(value, digits))
    if function.common:
        return _either(parts, _range_of, lambda given: _applied(node, name, function, given, scope))
    return _applied(node, name, function, parts, scope)


def _applied(node: s.Call, name: str, function: Builtin, parts: Sequence[Compiled], scope: Scope) -> Compiled:
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


def _digits(node: s.Expression, part: Compiled, scope: Scope) -> int:
    value = None if part.columns or part.calls else part.run({}, 1).as_py()
    if not isinstance(value, int) or not -308 <= value <= 308:
        raise scope.text.error(f"round takes a whole number of digits from -308 to 308, not {show(node)}", node)
    return value


__all__ = ["Compiled", "Name", "Values", "compile_condition", "compile_expression", "compile_group"]
