"""The vault: the driver's side of the store. Notes tasks and batches that are through, and reads what was noted before.

A thread of its own reads, puts manifests, in the order they were asked for, and then deletes what they make
superfluous; the controller never waits for a disk.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from evenflow.control.attempts import Base, Saved, SavedUnits, TaskThrough
from evenflow.control.attempts import Log as ChosenLog
from evenflow.control.epochs import LATE
from evenflow.control.events import Save
from evenflow.errors import EvenflowError, StoreError, StoreInUse, described
from evenflow.runtime.journal import PAUSE_S, TRIES
from evenflow.runtime.patience import Patient, tried
from evenflow.runtime.threads import heard
from evenflow.state.claim import BEAT_S, claim
from evenflow.state.manifest import (
    MOVES,
    Log,
    Manifest,
    epoch_name,
    epochs,
    latest,
    parse,
    prefix_of,
    put_epoch,
    put_task,
    read_manifest,
)
from evenflow.state.sealed import placed
from evenflow.state.store import DATABASES, Store, open_store
from evenflow.state.units import read_index

KEPT = 2
"""Manifests of epochs that stay: the newest, and the one before."""
CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Kept:
    """An operator whose state is stored: what must be the same for it to go on."""

    operator: str
    units: int


class Unpassing(str):
    """Why something could not be saved, and cannot be if it is tried again."""

    __slots__ = ()


class Vault:
    """Owns the store, its claim and a thread."""

    lost = ""
    """Who has taken the checkpoint over, once it is not ours any more: then nothing is read or put."""

    def __init__(self, where: str, owner: str, key: bytes = b"") -> None:
        own = where.startswith(DATABASES)  # that has patience of its own
        place = placed(where, key)
        self._store: Store = open_store(place) if own else tried(lambda: open_store(place))
        self.on_lost: Callable[[str], None] = lambda why: None
        """Called, on the vault's thread, when the checkpoint is found to be somebody else's."""
        try:
            left = tried(lambda: [name for name, _ in self._store.names(MOVES)])  # before the claim: of nobody later
            patient = Patient(self._store)
            self._claim = tried(lambda: claim(patient, owner))
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
        self.failure = ""
        """Why the thread has ended, if it should not have."""
        self._thread = threading.Thread(
            target=heard, args=(self._run, self._failed), name="evenflow-vault", daemon=True
        )
        self._thread.start()

    def add(self, region: str, kept: Kept) -> None:
        """Note what a region's state is of."""
        self._kept[region] = kept

    def keeps(self, region: str) -> Kept | None:
        """What a region's state is of, if it is stored."""
        return self._kept.get(region)

    def look(self, region: str, query: str, new: bool, done: Callable[[Saved | str | None], None]) -> None:
        """Have it looked up what the store has of a query: `done` is called with that on the vault's thread."""
        self._orders.put(lambda: done(self.saved(region, query, new)))

    def saved(self, region: str, query: str, new: bool = False) -> Saved | str | None:
        """What the store has of a query; if that cannot be used, why; None if there is nothing.

        Of a `new` query, which has had no rows before, it is noted then that there is nothing to miss: this batch may
        have none either, and who goes on with the next cannot know.
        """
        if self.lost:
            return self.lost
        kept = self._kept[region]
        try:
            found = latest(self._patient, prefix_of(region, query))
            if found.damaged:
                return f"{found.damaged[0]}"
            for manifest in (found.manifest, *found.tasks):
                why = _mismatch(manifest, kept) if manifest is not None else ""
                if why:
                    return f"the checkpoint of region {region} and query {query} {why}"
            if found.manifest is None and not found.tasks:
                return (new and self._tried(Save(region, query, "epoch", Base()))) or None
            return self._resumed(found.manifest, found.tasks)
        except Exception as error:  # whatever it is, the task that asks is told, and this thread goes on
            return f"{error}" if isinstance(error, StoreError | OSError) else f"{type(error).__name__}: {error}"

    def _resumed(self, manifest: Manifest | None, tasks: tuple[Manifest, ...]) -> Saved:
        base = Base()
        if manifest is not None:
            snapshots = []
            for name in manifest.snapshots:
                units = np.fromiter(read_index(partial(self._patient.get, name), name).entries, np.int32)
                parsed = parse(name)
                assert parsed is not None
                snapshots.append(SavedUnits(name, parsed.epoch, units))
            logs = tuple(ChosenLog(log.epoch, log.attempt, log.segments) for log in manifest.logs)
            base = Base(manifest.epoch, manifest.attempt, tuple(snapshots), logs)
        through = tuple(
            TaskThrough(
                task.epoch,
                task.attempt,
                task.partitions[0],
                task.logs[0].segments if task.logs else {},
                broken=not task.logs,
            )
            for task in tasks
        )
        return Saved(base, through)

    def save(self, order: Save, done: Callable[[Save, str], None]) -> None:
        """Have something made durable; `done` is called, on the vault's thread, with the error or nothing.

        An error that is not the store's, so that it will not pass, is an `Unpassing`.
        """
        self._orders.put(lambda: done(order, self._tried(order)))

    def close(self) -> None:
        """Finish what was asked for, and give the store back."""
        self._orders.put(None)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            raise EvenflowError(f"the vault's thread did not end within {CLOSE_S:g} s: the store hangs")
        try:
            with suppress(StoreError, OSError):  # whoever comes next has to wait until the claim is void
                tried(self._claim.release)
        finally:
            self._store.close()

    def _failed(self, error: BaseException) -> None:
        self.failure = described(error)

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
        error = ""
        for attempt in range(TRIES):
            try:
                self._put(order)
                return ""
            except StoreInUse as failure:
                self._lose(failure)
                return f"{failure}"
            except (StoreError, OSError) as failure:
                error = f"{failure}"
                if attempt + 1 < TRIES:
                    time.sleep(PAUSE_S * 2**attempt)
            except BaseException as failure:  # a damaged manifest, no memory: whoever waits is told, and at once
                return Unpassing(described(failure))
        return error

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
            case TaskThrough(epoch=epoch, attempt=attempt, partition=partition) as task:
                through = () if task.broken else (Log(epoch, attempt, dict(task.segments)),)
                put_task(self._store, Manifest(*about, epoch, attempt, (partition,), logs=through))
            case Base() as base:
                logs = tuple(Log(log.epoch, log.attempt, dict(log.segments)) for log in base.logs)
                partitions = base.logs[-1].partitions if base.logs else ()
                names = tuple(snapshot.name for snapshot in base.snapshots)
                manifest = Manifest(*about, base.epoch, base.attempt, partitions, names, logs)
                put_epoch(self._store, manifest)
                self._clean(manifest, order.stale)

    def _clean(self, manifest: Manifest, stale: tuple[str, ...]) -> None:
        """Delete what neither this manifest nor one that stays needs."""
        prefix = manifest.prefix
        known = epochs(self._store, prefix)
        needed = set(manifest.blobs())
        for epoch in known[1:KEPT]:
            needed.update(read_manifest(self._store, epoch_name(prefix, epoch)).blobs())
        gone = [epoch_name(prefix, epoch) for epoch in known[KEPT:]]
        waiting = self._stale.setdefault(prefix, set())
        waiting.update(stale)
        gone += waiting - needed
        waiting &= needed
        for kind in ("log", "task", "units"):  # of snapshots, those that nobody may report any more
            before = manifest.epoch - LATE if kind == "units" else manifest.epoch + 1
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
