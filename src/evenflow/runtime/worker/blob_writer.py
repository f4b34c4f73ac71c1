"""The blob writer: a worker's third thread, which puts segments and snapshots into the store.

What was put, or could not be, waits in `inbox` for the worker's loop, which is woken. A store that fails is tried again
a few times; what has not been put by then is reported, and never dropped in silence, whatever the reason.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.errors import EvenflowError, StoreError, described
from evenflow.runtime.threads import heard
from evenflow.state.store.base import Part, Store
from evenflow.state.store.opening import open_store
from evenflow.state.store.retry import retry
from evenflow.state.store.sealed import Place

UNSAVED_BYTES = 64 * 1024 * 1024
"""With more than this waiting to be put, no rows are taken."""
CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Put:
    """A blob to be put."""

    name: str
    parts: Sequence[Part]
    about: Any
    """What whoever asked for it wants to hear when it is done."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(memoryview(part).nbytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a put."""

    about: Any
    error: str = ""


class BlobWriter:
    """Owns a thread and a store."""

    def __init__(self, where: str | Place, wake: Callable[[], None]) -> None:
        self.inbox: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self.unsaved = 0
        """Bytes still to be put; changed by the worker's loop only."""
        self._where = where
        self._store: Store | None = None
        self._wake = wake
        self._outbox: queue.SimpleQueue[Put | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self.failure = ""
        """Why the thread has ended, if it should not have."""
        self._thread = threading.Thread(
            target=heard, args=(self._run, self._failed), name="evenflow-blob-writer", daemon=True
        )
        self._thread.start()

    def put(self, name: str, parts: Sequence[Part], about: Any) -> None:
        """Have a blob put, after those asked for before."""
        order = Put(name, parts, (about, sum(memoryview(part).nbytes for part in parts)))
        self.unsaved += order.about[1]
        self._outbox.put(order)

    def collect(self) -> list[Outcome]:
        """What has become of puts since the last call."""
        found = []
        while not self.inbox.empty():
            outcome = self.inbox.get()
            about, size = outcome.about
            self.unsaved -= size
            found.append(Outcome(about, outcome.error))
        return found

    def close(self) -> None:
        """End the thread; what was not put by now is not needed by anybody."""
        self._closing.set()
        self._outbox.put(None)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            raise EvenflowError(f"the blob writer's thread did not end within {CLOSE_S:g} s: the store hangs")

    def _failed(self, error: BaseException) -> None:
        self.failure = described(error)
        self._wake()

    def _run(self) -> None:
        while (order := self._outbox.get()) is not None and not self._closing.is_set():
            self.inbox.put(Outcome(order.about, self._tried(order)))
            self._wake()
        if self._store is not None:
            self._store.close()

    def _tried(self, order: Put) -> str:
        """Put a blob; why that failed, or nothing."""
        try:
            retry(lambda: self._once(order), self._closing.wait)
        except (StoreError, OSError) as failure:
            return f"{failure}"
        except BaseException as failure:  # no memory, or anything else: whoever waits for this blob is told
            return described(failure)
        return ""

    def _once(self, order: Put) -> None:
        self._store = self._store or open_store(self._where)
        self._store.put(order.name, order.parts)
