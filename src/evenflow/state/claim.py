"""One cluster at a time works on a checkpoint: a claim names who does.

On the local disk it is a lock on a file (flock), which the kernel frees when its holder ends, in whatever way. It goes
with the open file, so a process forked from the holder without an exec keeps it too. A database has locks that go with
a connection (`Locks`). In other stores it is a blob with a time in it that the holder renews by `beat`; after 60 s
without a beat it is void. Two that claim in the same instant may then both believe to have it, until one of them beats
and finds the other's name: good enough against a second cluster started by mistake, no protection against a network
that is cut in two.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from evenflow.errors import BlobMissing, StoreInUse
from evenflow.state.disk import DiskStore
from evenflow.state.layout import explained
from evenflow.state.store import Store

LOCK_FILE = ".lock"
CLAIM_BLOB = "evenflow.claim"
BEAT_S = 15.0
"""Call `beat` this often."""
VOID_S = 60.0
"""A claim in a blob is void if its holder has been silent for so long."""


class Claim(Protocol):
    """A checkpoint is ours."""

    def beat(self) -> None:
        """Say that we are still there; `StoreError` if the checkpoint has become somebody else's."""

    def release(self) -> None:
        """Let others have it. Does nothing the second time."""


@runtime_checkable
class Locks(Protocol):
    """A store that has locks of its own."""

    def lock(self, mine: dict[str, Any]) -> Claim:
        """Take the checkpoint; `mine` is who does."""


def claim(store: Store, owner: str, now: Callable[[], float] = time.time) -> Claim:
    """Take the checkpoint, or raise a `StoreError` that says who has it; `owner` is for people to read."""
    mine = {"owner": owner, "host": os.uname().nodename, "pid": os.getpid(), "since": now()}
    if isinstance(store, DiskStore):
        return _Lock(store, mine)
    if isinstance(store, Locks):
        return store.lock(mine)
    return _Beats(store, mine, now)


class _Lock:
    def __init__(self, store: DiskStore, mine: dict[str, Any]) -> None:
        path = store.root / LOCK_FILE
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise explained(error, "lock", str(path)) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 4096, 0)
            os.close(self._file)
            if isinstance(error, BlockingIOError):
                raise taken(str(store.root), holder) from None
            raise explained(error, "lock", str(path)) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(mine).encode(), 0)

    def beat(self) -> None:
        """Nothing to do: the kernel knows whether we are there."""

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


class _Beats:
    def __init__(self, store: Store, mine: dict[str, Any], now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._mine = mine | {"id": uuid.uuid4().hex}
        self._released = False
        there = self._there()
        ours = all(there.get(name) == mine[name] for name in ("owner", "host", "pid"))  # of a try that failed half-way
        if there and not ours and now() - float(there.get("beat", 0)) < VOID_S:
            raise taken("this checkpoint", json.dumps(there).encode())
        self._write()
        self._check()

    def beat(self) -> None:
        if not self._released:
            self._check()
            self._write()

    def release(self) -> None:
        if not self._released and self._there().get("id") == self._mine["id"]:
            self._store.delete([CLAIM_BLOB])
        self._released = True

    def _check(self) -> None:
        there = self._there()
        if there.get("id") != self._mine["id"]:
            raise taken("this checkpoint", json.dumps(there).encode())

    def _there(self) -> dict[str, Any]:
        with suppress(BlobMissing, ValueError):
            there = json.loads(bytes(self._store.get(CLAIM_BLOB)))
            return there if isinstance(there, dict) else {}
        return {}

    def _write(self) -> None:
        self._store.put(CLAIM_BLOB, [json.dumps(self._mine | {"beat": self._now()}).encode()])


def taken(where: str, holder: bytes) -> StoreInUse:
    """The error for a checkpoint that another has; `holder` is what that one wrote about itself."""
    try:
        by = json.loads(holder)
        since = datetime.fromtimestamp(by["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        who = f"{by['owner']} (host {by['host']}, process {by['pid']}, since {since})"
    except (ValueError, KeyError, TypeError):  # it is being written, or has been released just now
        who = "another cluster"
    return StoreInUse(f"{where} is in use by {who}: stop that one first, or give this one a checkpoint of its own")
