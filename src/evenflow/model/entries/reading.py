"""From a line of an event log, or what stands in it, to an entry."""

from __future__ import annotations

from math import nan
from typing import Any, Union

import msgspec

from evenflow.model.entries import batches, cluster, feeders, graphs, regions, units, workers
from evenflow.model.entries.base import EventEntry, RawEntry, name_of

KINDS: tuple[type[EventEntry], ...] = (
    *cluster.KINDS,
    *workers.KINDS,
    *feeders.KINDS,
    *regions.KINDS,
    *units.KINDS,
    *graphs.KINDS,
    *batches.KINDS,
)
"""All kinds of entries."""
NAMES = {name_of(kind) for kind in KINDS}
_KNOWN: Any = Union[KINDS]  # noqa: UP007 - of a tuple
_DECODER: msgspec.json.Decoder[EventEntry] = msgspec.json.Decoder(_KNOWN)
_HEAD = "event", "time", "at"


def decode(line: bytes) -> EventEntry:
    """The entry in a line; a ValueError if it is none of this version, which `entry_of` may still make something of."""
    return _DECODER.decode(line)


def entry_of(told: dict[str, object]) -> EventEntry:
    """The entry that was written as a dict: raw, if this version does not know its kind or cannot read it.

    Fields that are missing have their defaults, fields that are not known are ignored.
    """
    try:
        return msgspec.convert(told, _KNOWN, str_keys=True)  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        kind, time, at = (told.get(name) for name in _HEAD)
        fields = {name: value for name, value in told.items() if name not in _HEAD}
        why = "" if isinstance(kind, str) and kind not in NAMES else str(error)
        return RawEntry(time=_seconds(time), at=_seconds(at), kind=str(kind), fields=fields, why=why)


def _seconds(told: object) -> float:
    """A time in a damaged entry; NaN if it is none."""
    try:
        return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else nan
    except OverflowError:
        return nan
