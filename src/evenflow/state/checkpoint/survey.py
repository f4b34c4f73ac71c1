"""What a store contains, and whether it is sound: the figures behind `evenflow state`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from evenflow.errors import BlobMissing, CorruptState, StoreError
from evenflow.model.checkpoint import BatchLog
from evenflow.state.checkpoint.chain import QUERIES, latest, leftovers, missing, unfinished, vanished
from evenflow.state.checkpoint.manifest import Manifest, read_manifest
from evenflow.state.checkpoint.segments import AppliedRows, read_segment
from evenflow.state.checkpoint.unit_snapshots import check_units, read_index
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import MOVES, BlobName, parse, segment_names
from evenflow.state.store.claims.generations import CLAIMS, Holding, marks, settled


@dataclass(slots=True)
class Query:
    """All blobs of one operator and query."""

    region: str
    query: str
    prefix: str
    blobs: dict[str, int] = field(default_factory=dict)
    """By name, how many bytes."""
    manifests: dict[int, Manifest] = field(default_factory=dict)
    """By epoch, the `epoch` manifests that can be read."""

    @property
    def newest(self) -> Manifest | None:
        """The manifest of the latest epoch."""
        return self.manifests[max(self.manifests)] if self.manifests else None

    @property
    def nbytes(self) -> int:
        """Bytes of all its blobs."""
        return sum(self.blobs.values())


@dataclass(frozen=True, slots=True)
class SnapshotBlob:
    """A blob of unit states."""

    name: str
    epoch: int
    units: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Bad:
    """A blob that is damaged or missing."""

    name: str
    why: str
    epoch: int
    restorable: tuple[int, ...]
    """Epochs whose state, of the same operator and query, can still be rebuilt."""


def survey(store: Store) -> list[Query]:
    """All operators and queries that have blobs in the store."""
    found: dict[str, Query] = {}
    for name, nbytes in store.names():
        blob = parse(name)
        if blob is None:
            continue
        query = found.setdefault(blob.prefix, Query(blob.region, blob.query, blob.prefix))
        query.blobs[name] = nbytes
        if blob.kind == "epoch":
            try:
                query.manifests[blob.epoch] = read_manifest(store, name)
            except (CorruptState, BlobMissing):  # `verify` says why
                continue
    return [found[prefix] for prefix in sorted(found)]


def snapshots(store: Store, manifest: Manifest) -> Iterator[SnapshotBlob]:
    """The snapshots of a manifest, with the number and the bytes of their units."""
    for name in manifest.snapshots:
        index = read_index(partial(store.get, name), name)
        blob = parse(name)
        nbytes = sum(entry.nbytes for entry in index.entries.values())
        yield SnapshotBlob(name, blob.epoch if blob else -1, len(index.entries), nbytes)


def count_rows(store: Store, log: BatchLog, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Name, bytes and rows of each segment of a log; reads all segments."""
    for names in segment_names(log, prefix):
        for name in names:
            content = store.get(name)
            _, records = read_segment(content, name)
            yield (
                name,
                content.nbytes,
                sum(record.batch.num_rows for record in records if isinstance(record, AppliedRows)),
            )


def verify_claims(store: Store) -> list[Bad]:
    """Read the claims of a store without a fence: what a damaged one says of all other blobs cannot be known."""
    found = []
    for mark in marks(store):
        try:
            Holding.read(store, mark)
        except BlobMissing:  # a cluster has tidied up meanwhile
            continue
        except CorruptState as error:
            found.append(Bad(f"{CLAIMS}{mark}", f"{error}", -1, ()))
    if not found:
        try:
            settled(store)
        except CorruptState as error:  # its numbers and what is in the store do not go together
            found.append(Bad(f"{CLAIMS}{marks(store)[-1]}", f"{error}", -1, ()))
    return found


def verify(store: Store, watch: Callable[[int], None] = lambda nbytes: None) -> list[Bad]:
    """Read every blob, check all checksums, and that nothing is missing; `watch` is told the bytes of each blob.

    The store is one with a fence around it; `verify_claims` checks what the fence is made of.
    """
    queries = survey(store)
    found = []
    there = {query.prefix for query in queries}
    for name, nbytes in store.names(MOVES):
        if why := _fault(store, name):
            found.append(Bad(name, why, epoch=-1, restorable=()))
        watch(nbytes)
    for name, nbytes in store.names(QUERIES):
        found += [Bad(gone, why, epoch=-1, restorable=()) for gone, why in vanished(store, name, there)]
        watch(nbytes)
    skipped = leftovers(store)
    for query in queries:
        if query.prefix in skipped:
            for nbytes in query.blobs.values():
                watch(nbytes)
        else:
            found += _verify_query(store, query, watch)
    return found


def _verify_query(store: Store, query: Query, watch: Callable[[int], None]) -> list[Bad]:
    """Check all blobs of an operator and query, and that none is missing."""
    faults: dict[str, str] = {}
    for name, nbytes in query.blobs.items():
        if why := _fault(store, name):
            faults[name] = why
        watch(nbytes)
    if not query.manifests and any((known := parse(name)) and known.epoch >= 0 for name in query.blobs):
        faults[f"{query.prefix}epoch"] = (
            "no manifest of an epoch counts, so the state is lost: restore all files of this operator from a copy, "
            'under their names without any "~..." suffix'
        )
    for manifest in query.manifests.values():
        for name in manifest.blobs():
            if name not in query.blobs:
                faults[name] = f"it is missing; the manifest of epoch {manifest.epoch} needs it"
    for name, why in missing(store, query.prefix, query.region, query.query):
        faults.setdefault(name, why)
    sound = tuple(sorted(epoch for epoch, it in query.manifests.items() if not faults.keys() & set(it.blobs())))
    blobs = {name: parse(name) for name in sorted(faults)}
    return [Bad(name, faults[name], blob.epoch if blob else -1, sound) for name, blob in blobs.items()]


def unfinished_batches(store: Store) -> list[tuple[Query, str]]:
    """Queries whose last batch has begun without becoming whole, each with the name of the missing manifest."""
    skipped = leftovers(store)
    there = (query for query in survey(store) if query.prefix not in skipped)
    notes = ((query, unfinished(latest(store, query.prefix), sys.maxsize)) for query in there)
    return [(query, name) for query, name in notes if name]


def _fault(store: Store, name: str) -> str:
    """What is wrong with a blob; empty if nothing is, or if it was deleted meanwhile."""
    try:
        _check(store, name, parse(name))
    except BlobMissing:
        return ""
    except (CorruptState, StoreError) as error:
        return str(error)
    return ""


def _check(store: Store, name: str, blob: BlobName | None) -> None:
    if blob is None or blob.kind == "units":  # a movement is packed as units are
        check_units(partial(store.get, name), name)
    elif blob.kind == "log":
        for _ in read_segment(store.get(name), name)[1]:
            pass
    else:
        read_manifest(store, name)
