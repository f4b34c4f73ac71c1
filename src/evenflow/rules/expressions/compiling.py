"""Expressions as code over Arrow arrays, checked against the types of the columns before any row comes.

    compiled = compile_expression(expression, scope)
    compiled.type, compiled.columns                        # an Arrow type, {(alias, column), ...}
    compiled.evaluate({("LE", "price"): array}, rows)      # an Arrow array of that many rows

Null is SQL's: unknown, in comparisons, `and`, `or` and `not` too. Whole numbers are computed in 64 bits, and a result
that does not fit is an error (in a session without spark.sql.ansi.enabled it wraps around). Arithmetic of decimals is
Spark's. `/` always divides as doubles, and gives null if the divisor is 0, as does `%`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.declared import collation_of
from evenflow.rules.expressions.as_spark import check_column, check_literal, check_span
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.calls import compile_call
from evenflow.rules.expressions.code import Compiled, Values, make, require_bytewise, scalar
from evenflow.rules.expressions.gathered import Gathered
from evenflow.rules.expressions.operations import binary, case, like, member, negated, unary
from evenflow.rules.expressions.values.arithmetic import family
from evenflow.rules.expressions.values.casting import compile_cast
from evenflow.rules.expressions.values.constants import constant
from evenflow.rules.expressions.values.times import shifted
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import TOO_DEEP
from evenflow.rules.language.printing import show


def compile_expression(expression: s.Expression, scope: Scope) -> Compiled:
    """Code for an expression; RuleError at the place of an unknown name or a type that does not fit."""
    try:
        return _compile(expression, scope)
    except RecursionError:
        raise scope.text.error(TOO_DEEP, expression) from None


def compile_condition(expression: s.Expression, scope: Scope) -> Compiled:
    """Code for an expression that is true, false or null."""
    compiled = compile_expression(expression, scope)
    if pa.types.is_null(compiled.type):
        return make(scope, expression, [compiled], lambda value: pc.cast(value, pa.bool_()))
    if not pa.types.is_boolean(compiled.type):
        raise scope.text.error(
            f"{scope.clause} needs a condition, {show(expression)} is {compiled.type}: compare it with something",
            expression,
        )
    return compiled


def compile_group(expression: s.Expression, scope: Scope) -> Compiled:
    """Code for an expression that rows are grouped by."""
    compiled = compile_expression(expression, scope)
    require_bytewise(expression, [compiled], scope)
    if pa.types.is_map(compiled.type):
        raise scope.text.error(f"{show(expression)} is a map: rows cannot be grouped by it", expression)
    return compiled


def _compile(node: s.Expression, scope: Scope) -> Compiled:
    match node:
        case s.Literal():
            check_literal(node, scope)
            return constant(node, node, scope)
        case s.Column():
            return _column(node, scope)
        case s.Aggregate():
            return _aggregate(node, scope)
        case s.Unary(operator="-", operand=s.Literal(value=int() | float()) as literal) if not isinstance(
            literal.value, bool
        ):
            return constant(node, literal, scope, -1)
        case s.Unary(operand=operand):
            return unary(node, _compile(operand, scope), scope)
        case s.Stretch(seconds=seconds):
            check_span(node, scope)
            return scalar(pa.scalar(seconds))
        case s.Binary(operator=operator, left=left, right=right):
            one = _compile(left, scope)
            if operator in ("+", "-") and isinstance(right, s.Stretch) and family(one.type) == "time":
                check_span(right, scope)
                return shifted(node, one, right, scope)
            return binary(node, operator, (left, one), (right, _compile(right, scope)), scope)
        case s.In(operand=operand, options=options):
            found = _compile(operand, scope), [(option, _compile(option, scope)) for option in options]
            return negated(node, member(node, *found, scope), scope)
        case s.Between():
            return _between(node, scope)
        case s.Like(operand=operand):
            return negated(node, like(node, _compile(operand, scope), scope), scope)
        case s.IsNull(operand=operand):
            return negated(node, make(scope, node, [_compile(operand, scope)], pc.is_null), scope)
        case s.Case():
            return _case(node, scope)
        case s.Cast(operand=operand):
            return compile_cast(node, _compile(operand, scope), scope)
        case s.Call(arguments=arguments):
            return compile_call(node, *scope.function(node), [_compile(each, scope) for each in arguments], scope)


def _between(node: s.Between, scope: Scope) -> Compiled:
    value = node.operand, _compile(node.operand, scope)
    bounds = ((">=", node.low), ("<=", node.high))
    parts = [binary(node, operator, value, (end, _compile(end, scope)), scope) for operator, end in bounds]
    return negated(node, make(scope, node, parts, pc.and_kleene), scope)


def _case(node: s.Case, scope: Scope) -> Compiled:
    pairs = [(_compile(condition, scope), _compile(value, scope)) for condition, value in node.whens]
    conditions, values = [condition for condition, _ in pairs], [value for _, value in pairs]
    values.append(_compile(s.Literal(None) if node.otherwise is None else node.otherwise, scope))
    return case(node, conditions, values, scope)


def _column(node: s.Column, scope: Scope) -> Compiled:
    owner, name, kind = scope.column(node)
    field = scope.sources[owner].field(name)
    check_column(node, field, scope)

    def run(values: Values, rows: int) -> pa.Array:
        value = values[owner, name]
        return value.array() if isinstance(value, Gathered) else value

    return Compiled(kind, frozenset({(owner, name)}), run, of=field, collation=collation_of(field))


def _aggregate(node: s.Aggregate, scope: Scope) -> Compiled:
    found = scope.aggregates.get(show(node))
    if found is None:
        raise scope.text.error(f"{show(node)} cannot stand in {scope.clause}: aggregates go to SELECT or HAVING", node)
    name, kind = found
    return Compiled(kind, frozenset({("", name)}), lambda values, rows: values["", name])
