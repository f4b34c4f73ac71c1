"""Who may write to a checkpoint: every claim has a generation, and what is put by a stale one loses by its name.

A driver may be frozen while another takes its checkpoint, and wake up in the middle of a put. No check before a put
can keep it from that, and most stores have no put with a condition. So what drivers put (notes and manifests; workers'
blobs have names of their own anyhow) carries generation, token and a number that counts up: `<name>~G.T.N`. For each
claim there is a blob `evenflow.claims/G.T`. The highest one, by G and then by T, is the holder; such a blob is written
by its own claim only, and the highest is never deleted, so who has once lost can never again be the highest.

1. A claim is taken by writing its blob, with a G above all others. Then what is in the store is listed, and for every
   lower generation it is noted in the blob, once and for all, up to which number its puts count.
2. A put is confirmed, after it was done, by a list of the claims: only if there is no higher one has it happened. So a
   put that was confirmed was there before the next claim, which then lists it; and of a holder that is stale at most
   one put gets through, with a number above the one noted: nobody ever reads it.
3. What is deleted is asked for after a manifest was confirmed that does not need it. Whoever comes later begins with
   that manifest or a later one. Names of a higher generation are not even seen.

It takes a store in which a list shows what was put before, which is what the laws ask of any.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.state.store.base import OWN, Part, Store

CLAIMS = f"{OWN}claims/"
WORKERS = ("log", "units")
"""Kinds of blobs that workers put: their names are of one process each."""
PLAIN = (CLAIMS, f"{OWN}moves/")
"""What the names of blobs begin with that are of one claim, or of one cluster, as they are."""
_CLAIM = re.compile(rf"{re.escape(CLAIMS)}([0-9]+)\.([0-9a-f]+)")
_VERSION = re.compile(r"(.*[^/])~([0-9]+)\.([0-9a-f]+)\.([0-9]+)")


class Mark(NamedTuple):
    """Which claim: the higher one has the checkpoint."""

    generation: int
    token: str
    """Random: of two that claim in the same instant one is higher."""

    def __str__(self) -> str:
        return f"{self.generation}.{self.token}"


NOBODY = Mark(0, "")
"""Of blobs that were put without a claim, or before there were generations."""


class Version(NamedTuple):
    """One put of a name; of several that count the highest does."""

    mark: Mark
    number: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What the blob of a claim says."""

    about: Mapping[str, Any]
    """Who: `owner`, `host`, `pid`, `since`, and the time of the last `beat`."""
    counts: Mapping[Mark, int] | None = None
    """By lower generation, the last of its numbers that counts; None while the claim is being taken."""
    released: bool = False

    def encode(self) -> bytes:
        """As JSON."""
        counts = None if self.counts is None else {str(mark): number for mark, number in sorted(self.counts.items())}
        return json.dumps({"about": dict(self.about), "counts": counts, "released": self.released}).encode()

    @classmethod
    def read(cls, store: Store, mark: Mark) -> Holding:
        """The blob of a claim."""
        name = f"{CLAIMS}{mark}"
        try:
            fields = json.loads(bytes(store.get(name)))
            counts = fields["counts"]
            if counts is not None:
                counts = {_mark(*text.split(".")): int(number) for text, number in counts.items()}
            return cls(dict(fields["about"]), counts, bool(fields["released"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"blob {name} cannot be read ({type(error).__name__}: {error}), and it says which notes and manifests "
                "count: bring it back from a backup, or give a checkpoint of its own"
            ) from None


def marks(store: Store) -> list[Mark]:
    """All claims that there are, the holder's last."""
    found = (_CLAIM.fullmatch(name) for name, _ in store.names(CLAIMS))
    return sorted(_mark(match[1], match[2]) for match in found if match is not None)


def _mark(generation: str, token: str) -> Mark:
    return Mark(int(generation), token)


def split(name: str) -> tuple[str, Version]:
    """The name that was meant, and which put of it."""
    match = _VERSION.fullmatch(name)
    return (
        (name, Version(NOBODY, 0)) if match is None else (match[1], Version(_mark(*match.group(2, 3)), int(match[4])))
    )


def settled(store: Store, before: Mark | None = None) -> dict[Mark, int]:
    """By generation, the last number that counts, of all claims or of those below one."""
    for mark in reversed([mark for mark in marks(store) if before is None or mark < before]):
        try:
            holding = Holding.read(store, mark)
        except BlobMissing:  # deleted since, by a higher one
            continue
        if holding.counts is not None:
            return _counted(store, mark, holding.counts)
    return _counted(store, NOBODY, {})


def _counted(store: Store, holder: Mark, counts: Mapping[Mark, int]) -> dict[Mark, int]:
    found = {NOBODY: 0}
    for name, _ in store.names():
        _, (mark, number) = split(name)
        if mark > holder:
            raise StoreError(
                f"blob {name} is of claim {mark}, and there is no blob {CLAIMS}{mark} nor a later one, which says what "
                "counts: bring it back from a backup, or give a checkpoint of its own"
            )
        if mark == holder:
            found[mark] = max(number, found.get(mark, 0))
        elif mark in counts:
            found[mark] = counts[mark]
    return found


class View(Store):
    """A store as it is to be read: of every name the put that counts. What is put here is put without a claim."""

    def __init__(self, store: Store, counts: Mapping[Mark, int] | None = None) -> None:
        self._inner = store
        self._counts = dict(settled(store) if counts is None else counts)
        self._known: dict[str, list[str]] = {}
        """By name, what its puts are called in the store, as far as they count: the one to read last."""

    def put(self, name: str, parts: Iterable[Part]) -> None:
        self._inner.put(name, parts)

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        if _passes(name):
            return self._inner.get(name, start, length)
        if name not in self._known:
            self.names(name)
        return self._inner.get(self._known.get(name, [name])[-1], start, length)

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        passing: list[tuple[str, int]] = []
        found: dict[str, list[tuple[Version, str, int]]] = {}
        for stored, size in self._inner.names(prefix):
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
            self.names(f"{folder}/" if folder else "")  # all puts of a name go, or an earlier one would show again
        self._inner.delete([stored for name in wanted for stored in self._known.pop(name, [name])])

    def close(self) -> None:
        self._inner.close()

    def _count(self, version: Version) -> bool:
        return version.number <= self._counts.get(version.mark, -1)


class Fence(View):
    """The store as the holder of a claim writes to it: `StoreInUse`, and nothing has happened, if that is lost."""

    def __init__(self, store: Store, about: Mapping[str, Any], now: Callable[[], float]) -> None:
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
            with suppress(StoreError, OSError):  # or it is void after a while
                self.release()
            raise

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Put, then see that it was ours to put; only then has it happened."""
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

    def delete(self, names: Iterable[str]) -> None:
        self.check()
        super().delete(names)

    def check(self) -> None:
        """Whether the checkpoint is ours still; `StoreInUse` says whose it is, from now on every time."""
        self._refuse_if_lost()
        highest = marks(self._store)[-1:]
        if highest and highest[0] == self.mark:
            return
        if not highest or highest[0] < self.mark:
            self._lost = StoreInUse(f"the blob {CLAIMS}{self.mark} of this cluster's claim was deleted by somebody")
        else:
            self._lost = lost(_about(self._store, highest[0]))
        raise self._lost

    def beat(self) -> None:
        """Say that we are still there."""
        if not self._released:
            self.check()
            self._write()

    def release(self) -> None:
        """Let others have it at once. What was lost is not ours to give."""
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
        self._tidy()

    def _write(self) -> None:
        about = self._about | {"beat": self._now()}
        holding = Holding(about, self._holding.counts, self._holding.released)
        self._store.put(f"{CLAIMS}{self.mark}", [holding.encode()])

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _tidy(self) -> None:
        """Remove claims before this one, and what came too late to count."""
        gone = [f"{CLAIMS}{mark}" for mark in marks(self._store) if mark < self.mark]
        for name, _ in self._store.names():
            _, version = split(name)
            if version.mark < self.mark and not self._count(version):
                gone.append(name)
        with suppress(StoreError, OSError):  # the next one will
            self._store.delete(gone)


def _passes(name: str) -> bool:
    """Whether a name is stored as it is: no two processes put it."""
    parts = name.split("/")
    return name.startswith(PLAIN) or (len(parts) == 4 and parts[2] in WORKERS)


def holders(store: Store) -> Iterator[Holding]:
    """What the claims that there are say, the holder's first."""
    for mark in reversed(marks(store)):
        try:
            yield Holding.read(store, mark)
        except BlobMissing:
            continue


def _about(store: Store, mark: Mark) -> Mapping[str, Any]:
    try:
        return Holding.read(store, mark).about
    except StoreError:
        return {}


def taken(where: str, about: Mapping[str, Any]) -> StoreInUse:
    """The error for a checkpoint that another has; `about` is what that one wrote about itself."""
    who = _who(about)
    return StoreInUse(f"{where} is in use by {who}: stop that one first, or give this one a checkpoint of its own")


def said_by(holder: bytes) -> Mapping[str, Any]:
    """What the holder of a lock wrote about itself; nothing if it is being written, or was released just now."""
    try:
        about = json.loads(holder)
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def lost(about: Mapping[str, Any]) -> StoreInUse:
    """The error for a checkpoint that was ours."""
    return StoreInUse(
        f"the checkpoint was taken over by {_who(about)} while this cluster was frozen or cut off: nothing it does now "
        "counts, so its queries have ended; stop it, and let them go on there"
    )


def _who(about: Mapping[str, Any]) -> str:
    try:
        since = datetime.fromtimestamp(about["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{about['owner']} (host {about['host']}, process {about['pid']}, since {since})"
    except (ValueError, KeyError, TypeError, OverflowError, OSError):  # it is being written, or released just now
        return "another cluster"
