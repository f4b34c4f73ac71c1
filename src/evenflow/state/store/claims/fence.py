"""The fence around a checkpoint: what a driver that has lost its claim still puts does not count.

A driver may be frozen while another takes its checkpoint over, and wake up in the middle of a put. No check before a
put can prevent that, and most stores have no conditional put. So each claim has a generation G and a random token T
(`generations`), and all that drivers put, which is notes and manifests, is stored as `<name>~G.T.N`, where N counts the
puts of the claim. (Workers' blobs have names that only one process uses.) The holder is the highest claim, by G and
then by T. A claim's blob is written by that claim only, and the highest one is never deleted: a driver that has lost
its claim can never be the highest again.

1. *Taking a claim*: write its blob, with a G above all others. Then list the store, and note in the blob, for every
   lower claim and once and for all, the number of its last put that counts.
2. *A put* is done, then confirmed by listing the claims: only if there is no higher one has it happened. A confirmed
   put was in the store before the next claim, which therefore lists and counts it. Of a holder that has lost its claim
   at most one put gets through, with a number above the noted one: it is never read.
3. *A delete* is asked for after a manifest was confirmed that does not need the blob. Later holders begin with that
   manifest or a later one. A stale holder does not even see names of a higher generation.

This requires that a list shows all that was put before it, as the laws of stores (`conformance`) demand.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.state.store.base import OWN, Part, Store, WrappedStore
from evenflow.state.store.claims.generations import (
    CLAIMS,
    Holding,
    Mark,
    Version,
    about_holder,
    marks,
    settled,
    split,
)
from evenflow.state.store.claims.in_use import lost

WORKERS = ("log", "units")
"""Kinds of blobs that workers put, each under names that no other process uses."""
PLAIN = (CLAIMS, f"{OWN}moves/")
"""Prefixes of names that only one claim, or only one cluster, uses."""


class FencedView(WrappedStore):
    """A store in which each name shows the put of it that counts. What is put here is put without a claim."""

    def __init__(self, store: Store, counts: Mapping[Mark, int] | None = None) -> None:
        super().__init__(store)
        self._counts = dict(settled(store) if counts is None else counts)
        self._known: dict[str, list[str]] = {}
        """By name, how its puts that count are called in the store, in ascending order: the last one is read."""

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        if _passes(name):
            return self._store.get(name, start, length)
        if name not in self._known:
            self.names(name)
        known = self._known.get(name, [name])[-1]
        try:
            return self._store.get(known, start, length)
        except BlobMissing:
            self.names(name)  # it may have been put again meanwhile
            if (now := self._known.get(name, [name])[-1]) == known:
                raise
            return self._store.get(now, start, length)

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        passing: list[tuple[str, int]] = []
        found: dict[str, list[tuple[Version, str, int]]] = {}
        for stored, size in self._store.names(prefix):
            if _passes(stored):
                if not stored.startswith(CLAIMS):
                    passing.append((stored, size))
                continue
            name, version = split(stored)
            if name.startswith(prefix) and self._count(version):
                found.setdefault(name, []).append((version, stored, size))
        for name in [name for name in self._known if name.startswith(prefix)]:
            del self._known[name]
        for name, puts in found.items():
            puts.sort()
            self._known[name] = [stored for _, stored, _ in puts]
        return sorted(passing + [(name, puts[-1][2]) for name, puts in found.items()])

    def delete(self, names: Iterable[str]) -> None:
        wanted = list(names)
        for folder in {name.rpartition("/")[0] for name in wanted if not _passes(name)}:
            self.names(f"{folder}/" if folder else "")  # all puts of a name, or an earlier one would show
        self._store.delete([stored for name in wanted for stored in self._known.pop(name, [name])])

    def _count(self, version: Version) -> bool:
        return version.number <= self._counts.get(version.mark, -1)


class Fence(FencedView):
    """The store as the holder of a claim uses it. Once the claim is lost all writes fail with `StoreInUse`."""

    def __init__(self, store: Store, about: Mapping[str, object], now: Callable[[], float]) -> None:
        settled(store)  # if a claim is damaged or was altered, nothing is written
        held = marks(store)
        self.mark = Mark(1 + (held[-1].generation if held else 0), secrets.token_hex(4))
        self._store, self._now = store, now
        self._about = dict(about)
        self._holding = Holding(self._about)
        self._lost: StoreInUse | None = None
        self._released = False
        self._number = 0
        self._write()
        try:
            self._take()
        except BaseException:
            with suppress(StoreError, OSError):  # if it stays it becomes void after a while
                self.release()
            raise

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Put, then check that the claim is still ours: only then has it happened."""
        self._refuse_if_lost()
        if _passes(name):
            self._store.put(name, parts)
        else:
            self._number += 1
            stored = f"{name}~{self.mark}.{self._number}"
            self._store.put(stored, parts)
            self._counts[self.mark] = self._number
            self._known.setdefault(name, []).append(stored)
        self.check()
        if name.startswith(OWN):
            self._delete_earlier(name)

    def delete(self, names: Iterable[str]) -> None:
        self.check()
        super().delete(names)

    def _delete_earlier(self, name: str) -> None:
        """Delete what the confirmed put of a name that is put again and again has replaced.

        Nobody needs it any more; and if the newest one is lost, an older one would count without a word.
        """
        self.names(name)
        *earlier, newest = self._known.get(name, [name])
        if earlier:
            with suppress(StoreError, OSError):  # the next put deletes it, too
                self._store.delete(earlier)
                self._known[name] = [newest]

    def check(self) -> None:
        """Raise `StoreInUse`, now and ever after, if a higher claim has taken the checkpoint."""
        self._refuse_if_lost()
        highest = marks(self._store)[-1:]
        if highest and highest[0] == self.mark:
            return
        if not highest or highest[0] < self.mark:
            self._lost = StoreInUse(f"the blob {CLAIMS}{self.mark} of this cluster's claim was deleted by somebody")
        else:
            self._lost = lost(about_holder(self._store, highest[0]))
        raise self._lost

    def beat(self) -> None:
        """Renew the claim."""
        if not self._released:
            self.check()
            self._write()

    def release(self) -> None:
        """Let others have the checkpoint at once. A claim that was lost is not ours to release."""
        if not self._released and self._lost is None:
            self._holding = Holding(self._about, self._holding.counts, True)
            self._write()
        self._released = True

    def _take(self) -> None:
        self.check()
        counts = settled(self._store, self.mark)
        super().__init__(self._store, counts)
        self._holding = Holding(self._about, counts)
        self._write()
        self.check()

    def _write(self) -> None:
        about = self._about | {"beat": self._now()}
        holding = Holding(about, self._holding.counts, self._holding.released)
        self._store.put(f"{CLAIMS}{self.mark}", [holding.encode(self.mark)])

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost

    def tidy(self, prefix: str, complete: Callable[[], bool]) -> None:
        """Delete lower claims once the store is `complete`, and their puts below a prefix that do not count.

        Nobody reads them any more. But if a claim was altered they may be all that is left of a batch. So puts are
        deleted only after the state below the prefix was found complete and a batch on top of it is settled, and claims
        only once nothing is missing below any prefix.
        """
        lower = [f"{CLAIMS}{mark}" for mark in marks(self._store) if mark < self.mark]
        gone = lower if lower and complete() else []
        for name, _ in self._store.names(prefix):
            _, version = split(name)
            if version.mark < self.mark and not self._count(version):
                gone.append(name)
        if gone:
            self.check()
            self._store.delete(gone)


def _passes(name: str) -> bool:
    """Whether a name is stored without a version, since no two processes put it."""
    parts = name.split("/")
    return name.startswith(PLAIN) or (len(parts) == 4 and parts[2] in WORKERS)
