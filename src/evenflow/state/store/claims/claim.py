"""Claims: one cluster at a time works on a checkpoint.

Where the store has a lock, that tells whether the checkpoint is free. On the local disk it is a lock on a file (flock),
which the kernel frees when its holder ends, however it ends; it belongs to the open file, so a process forked from the
holder without an exec keeps it too. A lock in a database belongs to a connection. Elsewhere the holder renews its claim
by `beat`; after the store's `claim_s` without a beat, by the clock of the one who asks, it is void.

All of this only avoids conflicts: the holder may be frozen, a server may forget a lock, clocks may differ. `fence`
makes sure that a holder which has lost its claim does no harm, and learns of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from evenflow.state.store.base import Lock, Store
from evenflow.state.store.claims.fence import Fence
from evenflow.state.store.claims.generations import holders
from evenflow.state.store.claims.in_use import taken

BEATS = 4
"""How often a holder calls `beat` in the store's `claim_s`."""


class Claim:
    """A checkpoint that is ours: all puts and deletes go through `store`."""

    def __init__(self, store: Fence, lock: Lock | None) -> None:
        self.store = store
        self._lock = lock

    def beat(self) -> None:
        """Renew the claim; `StoreInUse` if another cluster has taken the checkpoint."""
        if self._lock is None:
            self.store.beat()
        else:
            self._lock.beat()
            self.store.check()

    def release(self) -> None:
        """Let others have the checkpoint. Does nothing the second time."""
        if self._lock is None:
            self.store.release()
        else:
            self._lock.release()


def wall() -> float:
    """The wall clock, looked up whenever it is read: a clock that is put in its place later is seen by old claims."""
    return time.time()


def claim(store: Store, owner: str, now: Callable[[], float] = wall) -> Claim:
    """Take the checkpoint, or raise a `StoreInUse` that says who has it; `owner` is our name in such errors."""
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
        ours = all(there.get(name) == mine[name] for name in ("owner", "host", "pid"))  # a try of ours failed half-way
        if not holding.released and not ours and now() - float(there.get("beat", 0)) < store.claim_s:
            raise taken("this checkpoint", there)
        return
