"""Manifests: which blobs make up an attempt at an epoch (batch), or the state at the end of one.

There are three kinds (`state.store.blob_names`), and each names what it follows: `begun` and `whole` the state that
their attempt started from, `epoch` the manifest put before it. `chain` follows these, so that it notices what is
missing. Drivers put all three, under their claim (`state.store.claims.fence`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

from evenflow.errors import StoreError
from evenflow.model.checkpoint import AttemptKey, BatchLog
from evenflow.state.store.base import Store, corrupt
from evenflow.state.store.blob_names import begun_name, epoch_name, parse, prefix_of, segment_names, whole_name
from evenflow.state.store.checked_json import sealed, unsealed
from evenflow.state.store.layout import FORMAT


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is durable of one attempt (`whole/E.A`: no snapshots, one log), or up to the end of an epoch (`epoch/E`).

    One of kind `begun/E.A` only says that an attempt has begun.
    """

    region: str
    query: str
    operator: str
    """Identifies the operator: another one must not go on with its state."""
    units: int
    """How many units the operator has."""
    epoch: int
    attempt: int
    partitions: tuple[int, ...]
    """Partitions of the input that had rows, all of them durable."""
    snapshots: tuple[str, ...] = ()
    """Names of blobs of unit snapshots; if a unit is in several, that of the latest epoch counts."""
    logs: tuple[BatchLog, ...] = ()
    """Ascending by epoch."""
    kind: str = "epoch"
    """"epoch", "whole" or "begun"."""
    expected: int = 0
    """Of a whole attempt: how many partitions there are, with rows or without."""
    before: AttemptKey | None = None
    """Epoch and attempt of what it follows; None if it is the first."""
    run: str = ""
    """The start of the query that the attempt belongs to."""
    repeatable: bool = False
    """Of a whole attempt: whether later attempts can repeat it from its log."""
    repeats: int = 0
    """Of an attempt that has begun: the whole attempt at the same epoch that it repeats; 0 if there is none."""
    format: int = FORMAT
    written: float = field(default=0.0, compare=False)
    """Seconds since 1970; `put_manifest` fills it in."""

    @property
    def key(self) -> AttemptKey:
        """The epoch and the attempt."""
        return self.epoch, self.attempt

    @property
    def name(self) -> str:
        """The name of its blob."""
        match self.kind:
            case "begun":
                return begun_name(self.prefix, *self.key)
            case "whole":
                return whole_name(self.prefix, *self.key)
            case _:
                return epoch_name(self.prefix, self.epoch)

    @property
    def prefix(self) -> str:
        """The prefix of the names of all its blobs."""
        return prefix_of(self.region, self.query)

    def blobs(self) -> Iterator[str]:
        """The names of all blobs that it needs."""
        yield from self.snapshots
        for log in self.logs:
            for names in segment_names(log, self.prefix):
                yield from names


def put_manifest(store: Store, manifest: Manifest) -> str:
    """Put a manifest; the name of its blob."""
    store.put(manifest.name, [encode(replace(manifest, written=time.time()))])
    return manifest.name


def read_manifest(store: Store, name: str) -> Manifest:
    """Read a manifest; `CorruptState` if it is damaged, or belongs under another name."""
    found = decode(bytes(store.get(name)), name)
    if found.name != name:
        raise corrupt(name, 0, f"it holds what belongs in {found.name}")
    return found


def epochs(store: Store, prefix: str) -> list[int]:
    """The epochs that have an `epoch` manifest, newest first."""
    parsed = (parse(name) for name, _ in store.names(f"{prefix}epoch/"))
    return sorted((name.epoch for name in parsed if name is not None), reverse=True)


def encode(manifest: Manifest) -> bytes:
    """The manifest as JSON, with a checksum of itself."""
    fields = asdict(replace(manifest, logs=()))
    fields["logs"] = [
        {"epoch": log.epoch, "attempt": log.attempt, "segments": dict(log.segments)} for log in manifest.logs
    ]
    return sealed(fields)


def decode(content: bytes, name: str = "") -> Manifest:
    """The reverse of `encode`; `CorruptState` if any byte has changed."""
    fields = unsealed(content, name, "manifest")
    if fields["format"] != FORMAT:
        other = "a newer one" if fields["format"] > FORMAT else "that one, or start anew in another directory"
        raise StoreError(f"blob {name} has format {fields['format']}, this evenflow reads {FORMAT}: install {other}")
    known = {key: fields[key] for key in Manifest.__dataclass_fields__ if key in fields}
    known["logs"] = tuple(BatchLog(log["epoch"], log["attempt"], log["segments"]) for log in fields["logs"])
    known["before"] = tuple(fields["before"]) if fields["before"] is not None else None
    return Manifest(**known | {key: tuple(fields[key]) for key in ("partitions", "snapshots")})
