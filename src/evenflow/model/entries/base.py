"""What all entries of the event log have, and how one is written as a dict."""

from __future__ import annotations

from math import nan
from typing import Any, TypeVar, Union

from msgspec import UNSET, Struct, UnsetType

Value = TypeVar("Value")
Maybe = Union[Value, UnsetType]  # noqa: UP007 - of a TypeVar: an alias with "|" cannot be subscribed
"""A field that is left out of the entry, UNSET, where it has no meaning."""
Number = int | float


class EntryPart(Struct, frozen=True, kw_only=True, gc=False):
    """A value inside an entry."""


# gc=False: none is part of a cycle, and a log has many
class EventEntry(Struct, frozen=True, kw_only=True, gc=False, tag_field="event"):
    """One line of the event log. As an instruction of the controller: write it."""

    time: float
    """Seconds since the cluster started."""
    at: float = nan
    """The wall clock, in seconds, when it was written; NaN before. In a simulation the same as `time`."""

    @property
    def event(self) -> str:
        """The name of its kind, as it is written."""
        return name_of(type(self))


class RegionEntry(EventEntry, frozen=True, kw_only=True):
    """An entry about one region."""

    region: str


class RawEntry(EventEntry, frozen=True, kw_only=True):
    """An entry as it stands in a log, of a kind that this version does not know, or that it cannot read."""

    kind: str
    fields: dict[str, Any] = {}
    why: str = ""
    """What is wrong with an entry of a known kind: it is damaged, or another version wrote it. Empty if unknown."""

    @property
    def event(self) -> str:
        return self.kind


def name_of(kind: type[EventEntry]) -> str:
    """The name of a kind, as it is written."""
    return str(kind.__struct_config__.tag)


def as_dict(entry: EventEntry) -> dict[str, object]:
    """An entry as it is written: plain values by name, without fields that are left out."""
    about = {"time": entry.time, "at": entry.at, "event": entry.event}
    if isinstance(entry, RawEntry):
        return about | entry.fields
    return about | {name: value for name, value in _fields(entry).items() if name not in about}


def _fields(struct: Struct) -> dict[str, object]:
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    found = ((written, getattr(struct, name)) for name, written in names)
    return {name: _plain(value) for name, value in found if value is not UNSET}


def _plain(value: object) -> object:
    """A field as JSON has it. What is no JSON, as in the detail of a user's balance, stays as it is."""
    match value:
        case Struct():
            return _fields(value)
        case list() | tuple() if value and isinstance(value[0], Struct | tuple):
            return [_plain(each) for each in value]
        case tuple():
            return list(value)
        case dict():
            return {str(key) if isinstance(key, int) else key: each for key, each in value.items()}
    return value
