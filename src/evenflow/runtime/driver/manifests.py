"""The notes and manifests of queries in the store: puts them, and deletes blobs that no manifest needs any more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from evenflow.control.batches.epochs import LATE
from evenflow.control.events import SaveInstruction
from evenflow.errors import BlobMissing, CorruptState, StoreError
from evenflow.model.checkpoint import Base, BatchLog, Begun, Voided, WholeAttempt
from evenflow.runtime.driver.operator_names import Kept
from evenflow.state.checkpoint.chain import latest
from evenflow.state.checkpoint.manifest import Manifest, epochs, put_manifest, read_manifest
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import epoch_name, parse, prefix_of, whole_name
from evenflow.state.store.claims.fence import Fence

KEPT = 2
"""Manifests of epochs that are kept: the newest, and the one before."""


class ManifestWriter:
    """Carries out `SaveInstruction`s for the operators that are `kept`, by region."""

    def __init__(self, store: Store, kept: Mapping[str, Kept]) -> None:
        self._store, self._kept = store, kept
        self.grown: dict[tuple[str, str], tuple[int, str]] = {}
        """By region and query, the batch from which its operator has more parts, and the operator without them."""
        self._stale: dict[str, set[str]] = {}
        """By prefix, snapshots to be deleted once no manifest that is kept needs them."""

    def put(self, order: SaveInstruction) -> None:
        """Put a note or a manifest, or delete a note."""
        match order.content:
            case Begun() as begun:
                self._put_begun(order, begun)
            case WholeAttempt() as whole:
                told = replace(
                    self._manifest(order, whole),
                    kind="whole",
                    partitions=whole.partitions,
                    logs=(BatchLog(epoch=whole.epoch, attempt=whole.attempt, segments=whole.segments),),
                    before=whole.before,
                    expected=whole.expected,
                    run=whole.run,
                    repeatable=whole.repeatable,
                )
                put_manifest(self._store, told)
            case Voided() as voided:
                self._put_begun(order, voided.begun)
                self._store.delete([whole_name(prefix_of(order.region, order.query), *voided.key)])
            case Base() as base:
                told = replace(
                    self._manifest(order, base),
                    partitions=base.logs[-1].partitions if base.logs else (),
                    snapshots=tuple(snapshot.name for snapshot in base.snapshots),
                    logs=base.logs,
                )
                grown_at, earlier = self.grown.get((order.region, order.query), (-1, ""))
                if base.epoch < grown_at:  # until a batch is whole with the new parts, the query may do without them
                    told = replace(told, operator=earlier)
                self._put_epoch(told, order.stale)

    def _manifest(self, order: SaveInstruction, content: Begun | WholeAttempt | Base) -> Manifest:
        """The part that manifests of all kinds have in common."""
        kept = self._kept[order.region]
        return Manifest(
            region=order.region,
            query=order.query,
            operator=kept.operator,
            units=kept.units,
            epoch=content.epoch,
            attempt=content.attempt,
            partitions=(),
        )

    def _put_begun(self, order: SaveInstruction, begun: Begun) -> None:
        told = replace(
            self._manifest(order, begun), kind="begun", before=begun.before, run=begun.run, repeats=begun.repeats
        )
        whole = whole_name(told.prefix, begun.epoch, begun.repeats)
        if begun.repeats and not any(name == whole for name, _ in self._store.names(whole)):
            raise StoreError(f"attempt {begun.attempt} repeats one whose note {whole} could not be put")
        put_manifest(self._store, told)

    def _put_epoch(self, manifest: Manifest, stale: tuple[str, ...]) -> None:
        """Put the manifest of an epoch, and delete what neither it nor the one before needs."""
        prefix = manifest.prefix
        known = [epoch for epoch in epochs(self._store, prefix) if epoch != manifest.epoch]
        needed = set(manifest.blobs())
        previous = self._previous(prefix, known)
        if previous is not None:
            needed.update(previous.blobs())
        put_manifest(self._store, replace(manifest, before=previous.key if previous is not None else None))
        if manifest.epoch >= 0:  # a first state shows nothing of what else there is, and leaves nothing behind
            self._clean(manifest, [epoch_name(prefix, epoch) for epoch in known[KEPT - 1 :]], needed, stale)

    def _previous(self, prefix: str, known: list[int]) -> Manifest | None:
        """The newest manifest so far, which is kept beside the next; None if there is none, or it is damaged."""
        with suppress(BlobMissing, CorruptState):
            return read_manifest(self._store, epoch_name(prefix, known[0])) if known else None
        return None

    def _clean(self, manifest: Manifest, gone: list[str], needed: set[str], stale: tuple[str, ...]) -> None:
        """Delete `gone`, and all else of the query that is not `needed` any more."""
        prefix = manifest.prefix
        first = prefix not in self._stale
        waiting = self._stale.setdefault(prefix, set())
        waiting.update(stale)
        gone += waiting - needed
        waiting &= needed
        epoch = manifest.epoch  # older snapshots than LATE cannot be reported any more
        for kind, before in (("log", epoch + 1), ("whole", epoch + 1), ("begun", epoch), ("units", epoch - LATE)):
            for name, _ in self._store.names(f"{prefix}{kind}/"):
                parsed = parse(name)
                if parsed is not None and parsed.epoch < before and name not in needed:
                    gone.append(name)
        self._store.delete(gone)
        if first and isinstance(self._store, Fence):
            self._store.tidy(prefix, self._complete)

    def _complete(self) -> bool:
        """Whether no operator and query in the store lacks anything; by an altered claim, notes would be hidden."""
        prefixes = {parsed.prefix for name, _ in self._store.names() if (parsed := parse(name)) is not None}
        found = (latest(self._store, prefix) for prefix in prefixes)
        return not any(each.damaged or each.missing for each in found)
