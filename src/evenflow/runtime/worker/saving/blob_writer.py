"""The blob writer: a thread of a worker that puts segments and unit snapshots into the store.

Outcomes wait in `inbox` for the worker's loop, which is woken. A put that fails is tried again a few times, and then
reported: no blob is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evenflow.errors import StoreError, described
from evenflow.runtime.threads import Inbox, JobThread, Start
from evenflow.state.store.base import Part, Store
from evenflow.state.store.opening import open_store
from evenflow.state.store.retry import all_but, retry
from evenflow.state.store.sealed import Place

CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Put:
    """A blob to be put."""

    name: str
    parts: Sequence[Part]
    about: object
    """Given back with the outcome."""
    size: int
    """Bytes of all parts."""


@dataclass(frozen=True, slots=True)
class PutOutcome:
    """The outcome of a put."""

    about: object
    error: str = ""
    size: int = field(default=0, compare=False)
    """Bytes that wait no longer."""


class BlobWriter(JobThread):
    """Owns a thread and a store."""

    def __init__(
        self,
        where: str | Place,
        wake: Callable[[], None],
        start: Start | None = None,
        opened: Callable[[str | Place], Store] | None = None,
    ) -> None:
        super().__init__("blob writer", lambda _error: wake(), start)
        self.inbox: Inbox[PutOutcome] = Inbox(wake)
        self.unsaved = 0
        """Bytes still to be put; changed by the worker's loop only."""
        self._open: Callable[[], Store] = lambda: (opened or open_store)(where)
        self._store: Store | None = None

    def put(self, name: str, parts: Sequence[Part], about: object) -> None:
        """Have a blob put; blobs are put in the order of the calls."""
        order = Put(name, parts, about, sum(memoryview(part).nbytes for part in parts))
        self.unsaved += order.size
        self.submit(lambda: self._put(order))

    def collect(self) -> list[PutOutcome]:
        """The outcomes of puts since the last call."""
        found = []
        while not self.inbox.empty():
            outcome = self.inbox.get()
            self.unsaved -= outcome.size
            found.append(outcome)
        return found

    def close(self) -> None:
        """End the thread; blobs that have not been put are not needed any more."""
        self.end(CLOSE_S, "the store hangs")
        if self._store is not None:
            self._store.close()

    def _put(self, order: Put) -> None:
        self.inbox.put(PutOutcome(order.about, self._tried(order), order.size))

    def _tried(self, order: Put) -> str:
        """Put a blob, and try again; returns why that failed, or an empty text."""
        try:
            retry(lambda: self._once(order), self.closing.wait, passes=all_but())
        except (StoreError, OSError) as failure:
            return f"{failure}"
        except BaseException as failure:  # no memory, or anything else: whoever waits for this blob is told
            return described(failure)
        return ""

    def _once(self, order: Put) -> None:
        self._store = self._store or self._open()
        self._store.put(order.name, order.parts)
