"""State under another name: all blobs of an operator and a query, put again under the name that the operator has now.

Blobs carry their names, so each is checked and written anew. The list of the query's operators names the new one only
after all its blobs are there, and the old blobs are deleted only after that: a crash in between leaves either the old
name with all of its state, or the new one. `QueryRecord.leaving` says of which names blobs may be left then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evenflow.state.checkpoint.chain import QueryRecord, note_operators
from evenflow.state.checkpoint.manifest import put_manifest, read_manifest
from evenflow.state.checkpoint.segments import renamed_segment
from evenflow.state.checkpoint.unit_snapshots import renamed_units
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import BlobName, parse, prefix_of
from evenflow.state.store.claims.generations import split

MANIFESTS = ("begun", "whole", "epoch")


def adopt(
    store: Store, query: str, record: QueryRecord, was: str, name: str, beat: Callable[[], None] = lambda: None
) -> None:
    """Give the state that operator `was` has in a query to operator `name`; `beat` is called after each blob."""
    drop(store, query, name)  # what another one, broken off, may have left: it would count as newer
    old, new = prefix_of(was, query), prefix_of(name, query)
    for blob, parsed in sorted(_blobs(store, old), key=lambda each: each[1].kind in MANIFESTS):
        target = new + split(blob)[0].removeprefix(old)
        if parsed.kind == "log":
            store.put(target, renamed_segment(store.get(blob), blob, target))
        elif parsed.kind == "units":
            store.put(target, renamed_units(store.get(blob), blob, target))
        else:
            manifest = read_manifest(store, blob)
            snapshots = tuple(new + snapshot.removeprefix(old) for snapshot in manifest.snapshots)
            put_manifest(store, replace(manifest, region=name, snapshots=snapshots))
        beat()
    renamed = record.renamed(was, name)
    note_operators(store, query, renamed)
    drop(store, query, was)
    note_operators(store, query, renamed.dropped(was))


def drop(store: Store, query: str, name: str) -> None:
    """Delete all blobs of an operator and a query; manifests before the blobs that they need."""
    found = _blobs(store, prefix_of(name, query))
    store.delete([blob for blob, parsed in found if parsed.kind in MANIFESTS])
    store.delete([blob for blob, parsed in found if parsed.kind not in MANIFESTS])


def _blobs(store: Store, prefix: str) -> list[tuple[str, BlobName]]:
    return [(blob, parsed) for blob, _ in store.names(prefix) if (parsed := parse(blob)) is not None]
