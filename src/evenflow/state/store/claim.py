"""One cluster at a time works on a checkpoint: a claim names who does.

Whether the checkpoint is free is told by a lock where the store has one. On the local disk that is a lock on a file
(flock), which the kernel frees when its holder ends, in whatever way; it goes with the open file, so a process forked
from the holder without an exec keeps it too. A database has locks that go with a connection. Elsewhere the holder
renews its claim by `beat`; after 60 s without a beat, by the clock of whoever asks, it is void.

None of these is more than a courtesy: the holder may be frozen, a server may forget a lock, clocks may differ. That a
holder which has lost its claim does no harm, and hears of it, is the business of `evenflow.state.store.fence`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from evenflow.state.store.base import Lock, Store
from evenflow.state.store.fence import Fence, holders, taken

BEAT_S = 15.0
"""Call `beat` this often."""
VOID_S = 60.0
"""Without a lock, a claim is void if its holder has been silent for so long."""


class Claim:
    """A checkpoint is ours. All that its holder puts and deletes goes by way of `store`."""

    def __init__(self, store: Fence, lock: Lock | None) -> None:
        self.store = store
        self._lock = lock

    def beat(self) -> None:
        """Say that we are still there; `StoreInUse` if the checkpoint has become somebody else's."""
        if self._lock is None:
            self.store.beat()
        else:
            self._lock.beat()
            self.store.check()

    def release(self) -> None:
        """Let others have it. Does nothing the second time."""
        if self._lock is None:
            self.store.release()
        else:
            self._lock.release()


def claim(store: Store, owner: str, now: Callable[[], float] = time.time) -> Claim:
    """Take the checkpoint, or raise a `StoreInUse` that says who has it; `owner` is for people to read."""
    mine = {"owner": owner, "host": os.uname().nodename, "pid": os.getpid(), "since": now()}
    lock = store.lock(mine)
    try:
        if lock is None:
            _refuse_if_held(store, mine, now)
        return Claim(Fence(store, mine, now), lock)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _refuse_if_held(store: Store, mine: dict[str, Any], now: Callable[[], float]) -> None:
    for holding in holders(store):
        there = holding.about
        ours = all(there.get(name) == mine[name] for name in ("owner", "host", "pid"))  # of a try that failed half-way
        if not holding.released and not ours and now() - float(there.get("beat", 0)) < VOID_S:
            raise taken("this checkpoint", there)
        return
