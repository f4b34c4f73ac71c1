"""Dates and times in expressions: constants in the zone of the columns beside them, and spans of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, make, scalar
from evenflow.rules.expressions.values.datum import Datum
from evenflow.rules.language import syntax as s
from evenflow.rules.language.printing import show

NAIVE = pa.timestamp("us")
"""Times without a zone."""


def time_constant(value: date) -> Compiled:
    """A date or a time. One with an offset is kept as UTC."""
    if not isinstance(value, datetime):
        return scalar(pa.scalar(value, pa.date32()))
    if value.tzinfo is None:
        return scalar(pa.scalar(value, NAIVE))
    return scalar(pa.scalar(value.astimezone(UTC), pa.timestamp("us", "UTC")))


def check_zone(node: s.Expression, part: Compiled, scope: Scope) -> None:
    """Refuse a constant with an offset where its day or hour matters: they depend on Spark's unknown zone."""
    constant = not part.columns and not part.calls
    if constant and pa.types.is_timestamp(part.type) and part.type.tz is not None:
        raise scope.text.error(f"{show(node)} has an offset: its days and hours are not known, write it without", node)


def in_one_zone(parts: Sequence[Compiled]) -> Sequence[Compiled]:
    """Times to compare or subtract: dates and constants are put in the zone of the columns, if these have one.

    This is the zone of Spark's session. A date becomes its first moment there.
    """
    zones = {part.type.tz for part in parts if pa.types.is_timestamp(part.type) and part.type.tz and part.columns}
    if len(zones) != 1:
        return parts
    return [_in_zone(part, zones.copy().pop()) for part in parts]


def _in_zone(part: Compiled, zone: str) -> Compiled:
    kind, constant = pa.timestamp("us", zone), not part.columns and not part.calls
    run = part.run

    def placed(value: Datum) -> Datum:
        return pc.assume_timezone(pc.cast(value, NAIVE), zone, ambiguous="earliest", nonexistent="latest")

    def at_moment(value: Datum) -> Datum:
        """A constant in the zone; a time in the gap of a clock change moves on by the gap's length, as in Spark."""
        if zone[0] in "+-":
            return placed(value)
        return pa.scalar(value.as_py().replace(tzinfo=ZoneInfo(zone)).astimezone(UTC), kind)

    if constant and part.type == NAIVE:
        return replace(part, type=kind, run=lambda values, rows: at_moment(run(values, rows)), of=None)
    if pa.types.is_date(part.type):
        return replace(part, type=kind, run=lambda values, rows: placed(run(values, rows)), of=None)
    if constant and pa.types.is_timestamp(part.type) and part.type != kind:
        return replace(part, type=kind, run=lambda values, rows: pc.cast(run(values, rows), kind), of=None)
    return part


def shifted(node: s.Binary, part: Compiled, span: s.Stretch, scope: Scope) -> Compiled:
    """A time, plus or minus a span of time."""
    if not pa.types.is_timestamp(part.type):
        raise scope.text.error(f"{show(node)} is of {part.type}: a span of time is added to a timestamp", node)
    sign = 1 if node.operator == "+" else -1
    by = pa.scalar(sign * round(span.seconds * 1e6), pa.duration("us"))
    return make(scope, node, [part], lambda value: pc.add_checked(pc.cast(value, part.type), by))
