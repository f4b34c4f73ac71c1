"""The driver's side of the store: notes tasks and batches that are through, and reads what was noted before.

A thread of its own reads, puts manifests, in the order they were asked for, and then deletes what they make
superfluous; the controller never waits for a disk.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evenflow.control.epochs import LATE
from evenflow.control.events import Save
from evenflow.errors import BlobMissing, CorruptState, StoreError, StoreInUse, described
from evenflow.model.checkpoint import NOTHING, Base, BatchLog, Begun, Saved, SavedUnits, Whole
from evenflow.runtime.threads import BackgroundThread
from evenflow.state.checkpoint.chain import Latest, latest, note_operators, operators, record_name, unfinished
from evenflow.state.checkpoint.manifest import Manifest, epochs, put_manifest, read_manifest
from evenflow.state.checkpoint.unit_snapshots import read_index
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import MOVES, epoch_name, parse, prefix_of
from evenflow.state.store.claim import BEAT_S, claim
from evenflow.state.store.opening import DATABASES, open_store
from evenflow.state.store.retry import RetryingStore, retry
from evenflow.state.store.sealed import placed

KEPT = 2
"""Manifests of epochs that stay: the newest, and the one before."""
CLOSE_S = 30.0
BRING_BACK = (
    "Bring back what is missing from a copy, under the name that is told here: without what follows a ~ in the copy's, "
    "or it is taken for a late put of a driver that was frozen. `evenflow state verify` lists it all"
)
"""What to do about a checkpoint that lacks something."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An operator whose state is stored: what must be the same for it to go on."""

    operator: str
    units: int
    named: bool = True
    """Whether the user has named it: then another name is another operator."""


class Unpassing(str):
    """Why something could not be saved, and cannot be if it is tried again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """The operators of a query, each with the batch in which it came."""

    operators: Mapping[str, int]


class CheckpointThread(BackgroundThread):
    """Owns the store, its claim and a thread."""

    lost = ""
    """Who has taken the checkpoint over, once it is not ours any more: then nothing is read or put."""

    def __init__(self, where: str, owner: str, key: bytes = b"") -> None:
        super().__init__("checkpoint", self._run, lambda _error: None)
        own = where.startswith(DATABASES)  # that has patience of its own
        place = placed(where, key)
        self._store: Store = open_store(place) if own else retry(lambda: open_store(place))
        self.on_lost: Callable[[str], None] = lambda why: None
        """Called, on the checkpoint thread's thread, when the checkpoint is found to be somebody else's."""
        try:
            left = retry(lambda: [name for name, _ in self._store.names(MOVES)])  # before the claim: of nobody later
            patient = RetryingStore(self._store)
            self._claim = retry(lambda: claim(patient, owner))
        except BaseException:
            self._store.close()
            raise
        self._store = self._claim.store
        with suppress(StoreError, OSError):  # movements of a cluster that was killed: they do no harm
            self._store.delete(left)
        self._patient: Store = self._store
        self._kept: dict[str, Kept] = {}
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._stale: dict[str, set[str]] = {}
        """By prefix, snapshots that are to be deleted once no manifest that stays needs them."""
        self._due = time.monotonic() + BEAT_S
        self.begin()

    def add(self, region: str, kept: Kept) -> None:
        """Note what a region's state is of."""
        self._kept[region] = kept

    def keeps(self, region: str) -> Kept | None:
        """What a region's state is of, if it is stored."""
        return self._kept.get(region)

    def look(self, region: str, query: str, epoch: int, new: bool, done: Callable[[Saved | str], None]) -> None:
        """Have it looked up what the store has of a query: `done` is called with that there."""
        self._orders.put(lambda: done(self.saved(region, query, epoch, new)))

    def saved(self, region: str, query: str, epoch: int = 0, new: bool = True) -> Saved | str:
        """What the store has of an operator of a query that is at this batch; if that cannot be used, why.

        Of a `new` query, which has had no rows before, and of an operator that is new in its query, it is noted then
        that there is nothing to miss.
        """
        if self.lost:
            return self.lost
        kept, prefix = self._kept[region], prefix_of(region, query)
        try:
            found = latest(self._patient, prefix)
            what = f"the checkpoint of region {region} and query {query}"
            if found.damaged:
                return f"{found.damaged[0]}"
            if found.missing:
                return f"{what} is not complete: {': '.join(found.missing[0])}. {BRING_BACK}"
            for manifest in (found.manifest, *found.wholes):
                why = _mismatch(manifest, kept) if manifest is not None else ""
                if why:
                    return f"{what} {why}"
            if found.manifest is None:
                return self._fresh(region, query, epoch, new)
            if region not in (operators(self._patient, query) or {}):
                return f"{what} is there, but {record_name(query)} is missing or does not list it. {BRING_BACK}"
            lacking = unfinished(found, epoch)
            if lacking:
                return (
                    f"{what} is not complete: Spark is at batch {epoch}, and of the one that has begun before "
                    f"{lacking} is missing. {BRING_BACK}. If it never was there, since only parts of that batch were "
                    "evaluated, delete its file in commits/ of the query's checkpointLocation: Spark then runs it again"
                )
            return self._resumed(found)
        except StoreInUse as failure:
            self._lose(failure)
            return self.lost
        except Exception as error:  # whatever it is, the task that asks is told, and this thread goes on
            return f"{error}" if isinstance(error, StoreError | OSError) else f"{type(error).__name__}: {error}"

    def _fresh(self, region: str, query: str, epoch: int, new: bool) -> Saved | str:
        """Nothing is there of an operator: begin with that, or say why it cannot be."""
        known = operators(self._patient, query)
        since = (known or {}).get(region)
        if not new and since != epoch:
            here = f"query {query} is at batch {epoch}, and this checkpoint has no state of the batches before it"
            if known is None:
                return f"{here}: give the checkpoint that it had, or start the query with a new checkpointLocation"
            if since is not None:
                return (
                    f"{here} for operator {region}, which it has had since batch {since}: that is lost. Bring back "
                    f"{prefix_of(region, query)}, or give keyed another name= for an operator with fresh state"
                )
            if not self._kept[region].named:
                return (
                    f"{here} for operator {region}, only for {', '.join(sorted(known))}. If it is to be added to the "
                    "query, with fresh state from this batch on, give it a name=; if it was changed, change it back"
                )
        for content in (Listed({**(known or {}), region: epoch}), Begun(), Base()):
            error = self._tried(Save(region, query, "", content))
            if error:
                return error
        return Saved(Base())

    def _resumed(self, found: Latest) -> Saved:
        assert found.manifest is not None
        assert found.begun is not None
        snapshots = []
        for name in found.manifest.snapshots:
            units = np.fromiter(read_index(partial(self._patient.get, name), name).entries, np.int32)
            parsed = parse(name)
            assert parsed is not None
            snapshots.append(SavedUnits(name, parsed.epoch, units))
        base = Base(*found.manifest.key, tuple(snapshots), found.manifest.logs)
        wholes = tuple(
            Whole(*each.key, each.logs[0].segments, each.partitions, each.expected, each.before or NOTHING, each.run)
            for each in found.wholes
        )
        begun = Begun(*found.begun.key, found.begun.before or NOTHING, found.begun.run)
        return Saved(base, wholes, begun)

    def save(self, order: Save, done: Callable[[Save, str], None]) -> None:
        """Have something made durable; `done` is called, on the checkpoint thread's thread, with the error or nothing.

        An error that is not the store's, so that it will not pass, is an `Unpassing`.
        """
        self._orders.put(lambda: done(order, self._tried(order)))

    def close(self) -> None:
        """Finish what was asked for, and give the store back."""
        self.end(CLOSE_S, "the store hangs")
        try:
            with suppress(StoreError, OSError):  # whoever comes next has to wait until the claim is void
                retry(self._claim.release)
        finally:
            self._store.close()

    def rouse(self) -> None:
        self._orders.put(None)

    def _run(self) -> None:
        while (order := self._next()) is not None:
            order()

    def _next(self) -> Callable[[], None] | None:
        """What to do next, None at the end. However much there is to do, a claim must be renewed or becomes void."""
        left = self._due - time.monotonic()
        with suppress(queue.Empty):
            if left > 0:
                return self._orders.get(timeout=left)
        self._due = time.monotonic() + BEAT_S
        return self._beat

    def _tried(self, order: Save) -> str:
        """Put what is to be made durable; why that failed, or nothing."""
        try:
            retry(lambda: self._put(order), time.sleep)
        except StoreInUse as failure:
            self._lose(failure)
            return f"{failure}"
        except (StoreError, OSError) as failure:
            return f"{failure}"
        except BaseException as failure:  # a damaged manifest, no memory: whoever waits is told, and at once
            return Unpassing(described(failure))
        return ""

    def _beat(self) -> None:
        """Renew the claim; a store that does not answer now is asked again, and whoever needs it will notice."""
        try:
            self._claim.beat()
        except StoreInUse as failure:
            self._lose(failure)
        except (StoreError, OSError):
            return

    def _lose(self, failure: StoreInUse) -> None:
        """The checkpoint has become somebody else's."""
        if not self.lost:
            self.lost = f"{failure}"
            self.on_lost(self.lost)

    def _put(self, order: Save) -> None:
        kept = self._kept[order.region]
        about = (order.region, order.query, kept.operator, kept.units)
        match order.content:
            case Listed(operators=listed):
                note_operators(self._store, order.query, listed)
            case Begun() as begun:
                told = Manifest(*about, *begun.key, (), kind="begun", before=begun.before, run=begun.run)
                put_manifest(self._store, told)
            case Whole() as whole:
                log = (BatchLog(*whole.key, whole.segments),)
                told = Manifest(*about, *whole.key, whole.partitions, logs=log, kind="whole", before=whole.before)
                put_manifest(self._store, replace(told, expected=whole.expected, run=whole.run))
            case Base() as base:
                partitions = base.logs[-1].partitions if base.logs else ()
                names = tuple(snapshot.name for snapshot in base.snapshots)
                self._put_epoch(Manifest(*about, *base.key, partitions, names, base.logs), order.stale)

    def _put_epoch(self, manifest: Manifest, stale: tuple[str, ...]) -> None:
        """Put it, and delete what neither it nor one that stays needs."""
        prefix = manifest.prefix
        known = [epoch for epoch in epochs(self._store, prefix) if epoch != manifest.epoch]
        needed = set(manifest.blobs())
        previous = self._previous(prefix, known)
        if previous is not None:
            needed.update(previous.blobs())
        put_manifest(self._store, replace(manifest, before=previous.key if previous is not None else None))
        self._clean(manifest, [epoch_name(prefix, epoch) for epoch in known[KEPT - 1 :]], needed, stale)

    def _previous(self, prefix: str, known: list[int]) -> Manifest | None:
        """The manifest that stays beside the newest; if it is gone or damaged, nothing can be done about it here."""
        with suppress(BlobMissing, CorruptState):
            return read_manifest(self._store, epoch_name(prefix, known[0])) if known else None
        return None

    def _clean(self, manifest: Manifest, gone: list[str], needed: set[str], stale: tuple[str, ...]) -> None:
        """Delete `gone`, and all else that is not `needed` any more."""
        prefix = manifest.prefix
        waiting = self._stale.setdefault(prefix, set())
        waiting.update(stale)
        gone += waiting - needed
        waiting &= needed
        epoch = manifest.epoch  # of snapshots, those go that nobody may report any more
        for kind, before in (("log", epoch + 1), ("whole", epoch + 1), ("begun", epoch), ("units", epoch - LATE)):
            for name, _ in self._store.names(f"{prefix}{kind}/"):
                parsed = parse(name)
                if parsed is not None and parsed.epoch < before and name not in needed:
                    gone.append(name)
        self._store.delete(gone)


def _mismatch(manifest: Manifest, kept: Kept) -> str:
    if manifest.operator != kept.operator:
        return f"is of {manifest.operator}, and this is {kept.operator}: give keyed another name, or that operator"
    if manifest.units != kept.units:
        return (
            f"has {manifest.units - 1} units, and this has {kept.units - 1}: give keyed units={manifest.units - 1}, or "
            "another name"
        )
    return ""
