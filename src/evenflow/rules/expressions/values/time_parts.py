"""The parts of dates and times, such as their hour."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.rules.expressions.values.datum import Apply, Datum


def _part(function: Apply) -> Apply:
    """A part of a time as Spark has it, an int; that of a date is that of its first moment."""

    def run(value: Datum) -> Datum:
        if pa.types.is_date(value.type):
            value = pc.cast(value, pa.timestamp("us"))
        elif value.type.tz is not None:  # Arrow forgets the seconds of offsets of long ago
            value = pc.local_timestamp(value)
        return pc.cast(function(value), pa.int32())

    return run


PARTS: Mapping[str, Apply] = {
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "dayofmonth": _part(pc.day),
    "dayofyear": _part(pc.day_of_year),
    "dayofweek": _part(lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7)),
    "weekofyear": _part(pc.iso_week),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
}
"""By name: parts of a time, in the zone of its column. The first day of a week is Sunday, number 1."""
