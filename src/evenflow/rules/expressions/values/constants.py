"""Constants, which are doubles or decimals depending on their neighbours in an expression.

A constant such as `0.1` is a double beside doubles and whole numbers, and a decimal beside decimals; there `2` is a
decimal of one digit. An expression of constants alone can be either, too. It is therefore compiled both ways
(`Compiled.exact` is the decimal), and the operator that combines it with another expression chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pyarrow as pa

from evenflow.operators.aggregates.measures import MOST_DIGITS
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, cast, scalar
from evenflow.rules.expressions.values.decimals import as_decimal, of_constant
from evenflow.rules.expressions.values.times import in_one_zone, time_constant
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show


def constant(node: s.Node, literal: s.Literal, scope: Scope, sign: int = 1) -> Compiled:
    """A literal, times `sign` if it is a number. Errors are shown at `node`."""
    value = literal.value
    if isinstance(value, date):
        return time_constant(value)
    if isinstance(value, bool | str | None):
        return scalar(pa.scalar(value))
    number = sign * value
    if isinstance(number, float):
        return replace(scalar(pa.scalar(number)), exact=_decimal(node, literal, scope, sign))
    if not -(2**63) <= number < 2**63:
        raise scope.text.error(f"{number} is too large for a whole number of 64 bits: write it with a point", node)
    return replace(scalar(pa.scalar(number)), exact=scalar(of_constant(Decimal(number))))


def _decimal(node: s.Node, literal: s.Literal, scope: Scope, sign: int) -> Compiled | None:
    """A number with a point as a decimal; None if it has an exponent, which makes it a double everywhere."""
    if not literal.text or "e" in literal.text.lower():
        return None
    digits = of_constant(Decimal(literal.text).copy_sign(sign))
    if digits is None:
        raise scope.text.error(
            f"{show(literal)} has more than {MOST_DIGITS} digits: write fewer, or a double, which has an exponent", node
        )
    return scalar(digits)


def comparable(parts: Sequence[Compiled]) -> Sequence[Compiled]:
    """The operands of a comparison: as decimals if one of them is a decimal and none is a double; times in one zone."""
    decimal = any(pa.types.is_decimal(part.type) for part in parts)
    return (_as_decimals(parts, digits_of) if decimal else None) or in_one_zone(parts)


def both_ways(
    parts: Sequence[Compiled],
    form: Callable[[Compiled], Compiled],
    build: Callable[[Sequence[Compiled]], Compiled],
) -> Compiled:
    """Build an expression of numbers: of decimals if one part is a decimal and none must be a double.

    If the parts are doubles only because constants are, the result is of doubles and has a decimal form, too.
    """
    kinds = [part.type for part in parts]
    forms = _as_decimals(parts, form)
    if forms is not None and any(map(pa.types.is_decimal, kinds)):
        return build(forms)
    whole = build(parts)
    if forms is not None and any(map(pa.types.is_floating, kinds)):
        return replace(whole, exact=build(forms))
    return whole


def _as_decimals(parts: Sequence[Compiled], form: Callable[[Compiled], Compiled]) -> list[Compiled] | None:
    """The parts in their decimal `form`; None if one of them stays a double, or none becomes a decimal."""
    forms = [form(part) for part in parts]
    fit = all(as_decimal(part.type) is not None or pa.types.is_null(part.type) for part in forms)
    return forms if fit and any(pa.types.is_decimal(part.type) for part in forms) else None


def digits_of(part: Compiled) -> Compiled:
    """A number as an operand beside decimals, to compute or compare: a constant has the digits it is written with."""
    return part.exact or part


def range_of(part: Compiled) -> Compiled:
    """A number as one of several results beside decimals, as in CASE: a whole constant has its SQL type, often int."""
    if part.exact is None or not pa.types.is_integer(part.type):
        return part.exact or part
    value = part.run({}, 1).as_py()
    return cast(part, pa.int32()) if -(2**31) <= value < 2**31 else part
