"""Dates and times as they are written in rules, the way Spark writes them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_CLOCK = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?"
_ZONE = r"(Z|UTC|[+-]\d{2}:\d{2})?"
_TIME = re.compile(rf"{_DATE}(?:[ T]{_CLOCK} ?{_ZONE})?")


def date_of(text: str) -> date | None:
    """The date in a text; None if the text is no date."""
    found = re.fullmatch(_DATE, text.strip())
    try:
        return None if found is None else date(*map(int, found.groups()))
    except ValueError:
        return None


def time_of(text: str) -> datetime | None:
    """The time in a text, with the zone if the text has one; None if the text is no time."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    *numbers, fraction, zone = found.groups()
    year, month, day, hour, minute, second = (int(each or 0) for each in numbers)
    parts = int((fraction or "0").ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, parts, None if zone is None else _zone(zone))
    except ValueError:
        return None


def _zone(text: str) -> timezone:
    if text in ("Z", "UTC"):
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return timezone(-offset if text[0] == "-" else offset)


def shown(value: date) -> str:
    """A date or a time as rules write it."""
    if isinstance(value, datetime):
        return f"timestamp '{value.isoformat(' ')}'"
    return f"date '{value.isoformat()}'"
