"""Names of blobs, and the manifests that say which of them make up the state at the end of an epoch.

Below `<region>/<query>/`, with E an epoch, A an attempt at it, W.I a worker and its incarnation, K a number from 0 and
P a partition of the input:

    log/E.A.W.I.K    segment K of what the worker was given
    units/E.W.I.K    states of units as they were at the end of epoch E
    task/E.A.P       manifest: the partition is through, and all it led to is in these segments
    epoch/E          manifest: all blobs needed to rebuild the state at the end of epoch E

The last two, which drivers put, are stored with the claim they are put under (`evenflow.state.fence`).

And while units move by way of the store, `evenflow.moves/<region>/C.M`: the units of movement M of cluster C.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import xxhash

from evenflow.errors import BlobMissing, CorruptState, StoreError
from evenflow.state.fence import split
from evenflow.state.layout import FORMAT
from evenflow.state.store import OWN, Store, corrupt, part, unpart

MOVES = f"{OWN}moves/"
"""What the names of movements begin with; no region is called so."""
_WRITER = r"(?P<writer>[0-9]+\.[0-9A-Za-z_-]+)"
_KINDS = {
    "log": re.compile(rf"(?P<epoch>[0-9]+)\.(?P<attempt>[0-9]+)\.{_WRITER}\.(?P<number>[0-9]+)"),
    "units": re.compile(rf"(?P<epoch>[0-9]+)\.{_WRITER}\.(?P<number>[0-9]+)"),
    "task": re.compile(r"(?P<epoch>[0-9]+)\.(?P<attempt>[0-9]+)\.(?P<number>[0-9]+)"),
    "epoch": re.compile(r"(?P<epoch>-1|[0-9]+)"),  # -1: before the first batch
}
"""Kinds of blobs, and what the last parts of their names look like."""


@dataclass(frozen=True, slots=True)
class BlobName:
    """A name taken apart."""

    region: str
    query: str
    kind: str
    """log, units, task or epoch."""
    epoch: int
    attempt: int = 0
    writer: str = ""
    """Worker and incarnation, "W.I"."""
    number: int = 0
    """Of the segment, the snapshot or the partition."""

    @property
    def prefix(self) -> str:
        """What the names of all blobs of this region and query begin with."""
        return prefix_of(self.region, self.query)


@dataclass(frozen=True, slots=True)
class Log:
    """All segments of one attempt at one epoch."""

    epoch: int
    attempt: int
    segments: Mapping[str, int]
    """By worker and incarnation, "W.I": how many."""

    def names(self, prefix: str) -> list[list[str]]:
        """The names of the segments, a list for each worker, in order: what `replay` takes."""
        return [
            [log_name(prefix, self.epoch, self.attempt, writer, segment) for segment in range(count)]
            for writer, count in sorted(self.segments.items())
        ]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is durable: of one partition (`task/E.A.P`: no snapshots, one log), or of a whole epoch (`epoch/E`)."""

    region: str
    query: str
    operator: str
    """Tells whether the state is that of the operator which is to go on with it."""
    units: int
    """How many there are."""
    epoch: int
    attempt: int
    partitions: tuple[int, ...]
    """Of the input, that are through."""
    snapshots: tuple[str, ...] = ()
    """Names of blobs; of a unit that is in several, the one of the latest epoch counts."""
    logs: tuple[Log, ...] = ()
    """Ascending by epoch."""
    format: int = FORMAT
    written: float = field(default=0.0, compare=False)
    """Seconds since 1970; `put_task` and `put_epoch` fill it in."""

    @property
    def prefix(self) -> str:
        """What the names of all its blobs begin with."""
        return prefix_of(self.region, self.query)

    def blobs(self) -> Iterator[str]:
        """All blobs it needs."""
        yield from self.snapshots
        for log in self.logs:
            for names in log.names(self.prefix):
                yield from names


@dataclass(frozen=True, slots=True)
class Latest:
    """Where a query stands."""

    manifest: Manifest | None
    """Of the newest epoch that has a readable one."""
    tasks: tuple[Manifest, ...]
    """Of later epochs, by epoch, attempt and partition."""
    damaged: tuple[CorruptState, ...]
    """Why newer manifests were passed over: who goes on from `manifest` nevertheless goes back in time."""


def prefix_of(region: str, query: str) -> str:
    """What the names of all blobs of a region and a query begin with."""
    return f"{part(region)}/{part(query)}/"


def log_name(prefix: str, epoch: int, attempt: int, writer: str, segment: int) -> str:
    """The name of a log segment; `writer` is the worker and its incarnation, "W.I"."""
    return f"{prefix}log/{epoch}.{attempt}.{writer}.{segment}"


def units_name(prefix: str, epoch: int, writer: str, number: int) -> str:
    """The name of a snapshot of units; `writer` is the worker and its incarnation, "W.I"."""
    return f"{prefix}units/{epoch}.{writer}.{number}"


def task_name(prefix: str, epoch: int, attempt: int, partition: int) -> str:
    """The name of the manifest of a partition."""
    return f"{prefix}task/{epoch}.{attempt}.{partition}"


def epoch_name(prefix: str, epoch: int) -> str:
    """The name of the manifest of an epoch."""
    return f"{prefix}epoch/{epoch}"


def move_name(region: str, cluster: str, move: int) -> str:
    """The name of the units of a movement, while they move."""
    return f"{MOVES}{part(region)}/{cluster}.{move}"


def parse(name: str) -> BlobName | None:
    """A name taken apart, without the claim it was put under; None if it is none of ours."""
    match split(name)[0].split("/"):
        case [region, query, kind, rest] if kind in _KINDS:
            found = _KINDS[kind].fullmatch(rest)
            if found is not None:
                fields = {"attempt": "0", "writer": "", "number": "0"} | found.groupdict()
                epoch, attempt, number = (int(fields[key]) for key in ("epoch", "attempt", "number"))
                return BlobName(unpart(region), unpart(query), kind, epoch, attempt, fields["writer"], number)
    return None


def put_task(store: Store, manifest: Manifest) -> str:
    """Write that a partition is through; gives the name of the blob."""
    if len(manifest.partitions) != 1:
        raise StoreError(f"the manifest of a task names partitions {manifest.partitions}: it is about one")
    name = task_name(manifest.prefix, manifest.epoch, manifest.attempt, manifest.partitions[0])
    store.put(name, [encode(replace(manifest, written=time.time()))])
    return name


def put_epoch(store: Store, manifest: Manifest) -> str:
    """Write what the state at the end of an epoch is made of; gives the name of the blob."""
    name = epoch_name(manifest.prefix, manifest.epoch)
    store.put(name, [encode(replace(manifest, written=time.time()))])
    return name


def read_manifest(store: Store, name: str) -> Manifest:
    """The manifest in a blob."""
    return decode(bytes(store.get(name)), name)


def latest(store: Store, prefix: str) -> Latest:
    """The newest readable manifest of an epoch, and the tasks that were through after it."""
    found, damaged = None, []
    for epoch in epochs(store, prefix):
        try:
            found = read_manifest(store, epoch_name(prefix, epoch))
            break
        except BlobMissing:  # deleted while we look
            continue
        except CorruptState as error:
            damaged.append(error)
    tasks = []
    for name, _ in store.names(f"{prefix}task/"):
        parsed = parse(name)
        if parsed is not None and (found is None or parsed.epoch > found.epoch):
            try:
                tasks.append(read_manifest(store, name))
            except BlobMissing:
                continue
            except CorruptState as error:
                damaged.append(error)
    tasks.sort(key=lambda task: (task.epoch, task.attempt, task.partitions))
    return Latest(found, tuple(tasks), tuple(damaged))


def epochs(store: Store, prefix: str) -> list[int]:
    """The epochs that have a manifest, newest first."""
    parsed = (parse(name) for name, _ in store.names(f"{prefix}epoch/"))
    return sorted((name.epoch for name in parsed if name is not None), reverse=True)


def encode(manifest: Manifest) -> bytes:
    """The manifest as JSON, with a checksum of itself."""
    fields = asdict(replace(manifest, logs=()))
    fields["logs"] = [
        {"epoch": log.epoch, "attempt": log.attempt, "segments": dict(log.segments)} for log in manifest.logs
    ]
    return _sealed(fields)


def decode(content: bytes, name: str = "") -> Manifest:
    """The reverse of `encode`; `CorruptState` if any byte has changed."""
    try:
        fields = json.loads(content)["manifest"]
        intact = _sealed(fields) == content
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise corrupt(name, 0, f"it is no manifest: {type(error).__name__}: {error}") from None
    if not intact:
        raise corrupt(name, 0, "it fails its checksum")
    if fields["format"] > FORMAT:
        raise StoreError(
            f"blob {name} has format {fields['format']}, this evenflow reads up to {FORMAT}: install a newer one"
        )
    known = {key: fields[key] for key in Manifest.__dataclass_fields__ if key in fields}
    known["logs"] = tuple(Log(log["epoch"], log["attempt"], log["segments"]) for log in fields["logs"])
    return Manifest(**known | {key: tuple(fields[key]) for key in ("partitions", "snapshots")})


def _sealed(fields: Any) -> bytes:
    """In one way only, so that equal manifests are equal bytes."""
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    checksum = xxhash.xxh3_64_hexdigest(body.encode())
    return f'{{"checksum":"{checksum}","manifest":{body}}}\n'.encode()
