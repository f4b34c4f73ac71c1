"""Names of blobs: which region, query and epoch they belong to.

Below `<region>/<query>/`, with E an epoch (batch), A an attempt at it, W.I a worker and one life of it, K a number
from 0:

    log/E.A.W.I.K    segment K of the rows that the worker has applied
    units/E.W.I.K    states of units as they were at the end of epoch E
    begun/E.A        manifest: the attempt has begun; put before any task of it ends
    whole/E.A        manifest: all partitions of the attempt are durable, in the segments it lists
    epoch/E          manifest: all blobs needed to rebuild the state at the end of epoch E

While units move by way of the store, `evenflow.moves/<region>/C.M` holds the units of movement M of cluster C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenflow.model.checkpoint import BatchLog
from evenflow.state.store.base import OWN, part, unpart
from evenflow.state.store.claims.generations import split

MOVES = f"{OWN}moves/"
"""Prefix of the names of movements; no region has this name."""
_WRITER = r"(?P<writer>[0-9]+\.[0-9A-Za-z_-]+)"
_KINDS = {
    "log": re.compile(rf"(?P<epoch>[0-9]+)\.(?P<attempt>[0-9]+)\.{_WRITER}\.(?P<number>[0-9]+)"),
    "units": re.compile(rf"(?P<epoch>[0-9]+)\.{_WRITER}\.(?P<number>[0-9]+)"),
    "begun": re.compile(r"(?P<epoch>-1|[0-9]+)\.(?P<attempt>[0-9]+)"),
    "whole": re.compile(r"(?P<epoch>[0-9]+)\.(?P<attempt>[0-9]+)"),
    "epoch": re.compile(r"(?P<epoch>-1|[0-9]+)"),  # -1: before the first batch
}
"""By kind of blob, the pattern of the last part of its name."""


@dataclass(frozen=True, slots=True)
class BlobName:
    """A name taken apart."""

    region: str
    query: str
    kind: str
    """log, units, begun, whole or epoch."""
    epoch: int
    attempt: int = 0
    writer: str = ""
    """"W.I": the worker, and a number for one life of it."""
    number: int = 0
    """Of the segment or the snapshot."""

    @property
    def prefix(self) -> str:
        """The prefix of the names of all blobs of this region and query."""
        return prefix_of(self.region, self.query)


def prefix_of(region: str, query: str) -> str:
    """The prefix of the names of all blobs of a region and a query."""
    return f"{part(region)}/{part(query)}/"


def log_name(prefix: str, epoch: int, attempt: int, writer: str, segment: int) -> str:
    """The name of a log segment; `writer` is "W.I"."""
    return f"{prefix}log/{epoch}.{attempt}.{writer}.{segment}"


def segment_names(log: BatchLog, prefix: str) -> list[list[str]]:
    """The names of a log's segments, one list for each writer, in the order in which they were written."""
    return [
        [log_name(prefix, log.epoch, log.attempt, writer, segment) for segment in range(count)]
        for writer, count in sorted(log.segments.items())
    ]


def units_name(prefix: str, epoch: int, writer: str, number: int) -> str:
    """The name of a snapshot of units; `writer` is "W.I"."""
    return f"{prefix}units/{epoch}.{writer}.{number}"


def begun_name(prefix: str, epoch: int, attempt: int) -> str:
    """The name of the note that an attempt has begun."""
    return f"{prefix}begun/{epoch}.{attempt}"


def whole_name(prefix: str, epoch: int, attempt: int) -> str:
    """The name of the note that an attempt is whole."""
    return f"{prefix}whole/{epoch}.{attempt}"


def epoch_name(prefix: str, epoch: int) -> str:
    """The name of the manifest of an epoch."""
    return f"{prefix}epoch/{epoch}"


def move_name(region: str, cluster: str, move: int) -> str:
    """The name of the units of a movement while they are in the store."""
    return f"{MOVES}{part(region)}/{cluster}.{move}"


def parse(name: str) -> BlobName | None:
    """Take a name apart, without the claim it was put under; None if it is no name of these kinds."""
    match split(name)[0].split("/"):
        case [region, query, kind, rest] if kind in _KINDS:
            found = _KINDS[kind].fullmatch(rest)
            if found is not None:
                fields = {"attempt": "0", "writer": "", "number": "0"} | found.groupdict()
                epoch, attempt, number = (int(fields[key]) for key in ("epoch", "attempt", "number"))
                return BlobName(unpart(region), unpart(query), kind, epoch, attempt, fields["writer"], number)
    return None
