"""The blob writer: a worker's third thread, which puts segments and snapshots into the store.

What was put, or could not be, waits in `inbox` for the worker's loop, which is woken. A store that fails is tried again
a few times; what has not been put by then is reported, and never dropped in silence, whatever the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.errors import StoreError, described
from evenflow.runtime.threads import Inbox, JobThread, Start
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
    """Given back with the outcome."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a put."""

    about: Any
    error: str = ""


class BlobWriter(JobThread):
    """Owns a thread and a store."""

    def __init__(
        self,
        where: str | Place,
        wake: Callable[[], None],
        start: Start | None = None,
    ) -> None:
        super().__init__("blob writer", lambda _error: wake(), start)
        self.inbox: Inbox[Outcome] = Inbox(wake)
        self.unsaved = 0
        """Bytes still to be put; changed by the worker's loop only."""
        self._where = where
        self._store: Store | None = None

    def put(self, name: str, parts: Sequence[Part], about: Any) -> None:
        """Have a blob put, after those asked for before."""
        order = Put(name, parts, (about, sum(memoryview(part).nbytes for part in parts)))
        self.unsaved += order.about[1]
        self.submit(lambda: self._put(order))

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
        self.end(CLOSE_S, "the store hangs")
        if self._store is not None:
            self._store.close()

    def _put(self, order: Put) -> None:
        self.inbox.put(Outcome(order.about, self._tried(order)))

    def _tried(self, order: Put) -> str:
        """Put a blob; why that failed, or nothing."""
        try:
            retry(lambda: self._once(order), self.closing.wait)
        except (StoreError, OSError) as failure:
            return f"{failure}"
        except BaseException as failure:  # no memory, or anything else: whoever waits for this blob is told
            return described(failure)
        return ""

    def _once(self, order: Put) -> None:
        self._store = self._store or open_store(self._where)
        self._store.put(order.name, order.parts)
