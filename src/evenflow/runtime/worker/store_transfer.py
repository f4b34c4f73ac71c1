"""Units by way of the store (cep §3.3): a worker's thread that puts and gets them.

The source puts the units of a movement as one blob, the target gets it when the controller says that it is there, and
the source deletes it when the movement is over. Rows are processed meanwhile. What was put, has arrived or cannot be
done waits in `inbox` for the worker's loop, which is woken; a store that fails is tried again a few times.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from evenflow.errors import EvenflowError, described
from evenflow.runtime.threads import heard
from evenflow.runtime.worker.direct_transfer import Parcel, Undelivered
from evenflow.state.checkpoint.unit_snapshots import load_units, pack_units
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import move_name
from evenflow.state.store.opening import open_store
from evenflow.state.store.retry import retry
from evenflow.state.store.sealed import Place

CLOSE_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """The units of a movement are in the store."""

    move: int


@dataclass(frozen=True, slots=True)
class Unfetched:
    """The units of a movement could not be got from the store."""

    move: int
    region: str
    reason: str


Job = Callable[[], Parcel | Stored | Undelivered | Unfetched | None]


class StoreTransfer:
    """Owns a store and a thread, which is there from the first move on."""

    def __init__(self, where: str | Place, cluster: str, wake: Callable[[], None]) -> None:
        self.inbox: queue.SimpleQueue[Parcel | Stored | Undelivered | Unfetched] = queue.SimpleQueue()
        self._where = where
        self._cluster = cluster
        self._wake = wake
        self._store: Store | None = None
        self._outbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure = ""
        """Why the thread has ended, if it should not have."""

    def put(self, region: str, parcel: Parcel) -> None:
        """Put the units of a movement into the store, in the background: then comes `Stored` or `Undelivered`."""
        self._begin(lambda: self._put(region, parcel))

    def get(self, region: str, move: int) -> None:
        """Get the units of a movement: then comes a `Parcel` or `Unfetched`."""
        self._begin(lambda: self._get(region, move))

    def delete(self, region: str, move: int) -> None:
        """A movement is over."""
        self._begin(lambda: self._delete(region, move))

    def close(self) -> None:
        """End the thread; blobs of movements that are under way are removed by the next cluster here."""
        self._closing.set()
        self._outbox.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_S)
            if self._thread.is_alive():
                raise EvenflowError(f"the store transfer's thread did not end within {CLOSE_S:g} s: the store hangs")

    def _begin(self, job: Job) -> None:
        self._outbox.put(job)
        if self._thread is None:
            self._thread = threading.Thread(
                target=heard, args=(self._run, self._failed), name="evenflow-store-transfer", daemon=True
            )
            self._thread.start()

    def _failed(self, error: BaseException) -> None:
        self.failure = described(error)
        self._wake()

    def _run(self) -> None:
        while (job := self._outbox.get()) is not None and not self._closing.is_set():
            self._do(job)
        if self._store is not None:
            self._store.close()

    def _do(self, job: Job) -> None:
        news = job()
        if news is not None:
            self.inbox.put(news)
            self._wake()

    def _put(self, region: str, parcel: Parcel) -> Stored | Undelivered:
        try:
            parts = pack_units({parcel.move: [pickle.PickleBuffer(part) for part in parcel.parts]})
            self._tried(lambda store: store.put(self._name(region, parcel.move), parts))
        except BaseException as error:  # whatever it is, the movement is taken back
            return Undelivered(parcel.move, described(error))
        return Stored(parcel.move)

    def _get(self, region: str, move: int) -> Parcel | Unfetched:
        name = self._name(region, move)
        try:
            units = self._tried(lambda store: load_units(partial(store.get, name), [move], name))
        except BaseException as error:
            return Unfetched(move, region, described(error))
        return Parcel(move, units[move])

    def _delete(self, region: str, move: int) -> None:
        with suppress(Exception):  # it stays until the next cluster here removes it
            self._tried(lambda store: store.delete([self._name(region, move)]))

    def _name(self, region: str, move: int) -> str:
        return move_name(region, self._cluster, move)

    def _tried(self, work: Callable[[Store], T]) -> T:
        def once() -> T:
            self._store = self._store or open_store(self._where)
            return work(self._store)

        return retry(once, self._closing.wait)
