"""Store transfer: a thread of a worker that moves units by way of the store (cep §3.3).

The source puts the units of a movement as one blob, the target gets it when the controller says that it is there, and
the source deletes it when the movement is over. Rows are processed meanwhile. Results and failures wait in `inbox` for
the worker's loop, which is woken. An operation that fails is tried again a few times.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from evenflow.errors import BlobMissing, described
from evenflow.runtime.threads import Inbox, JobThread, Start
from evenflow.runtime.worker.events import DeliveryFailedEvent, FetchFailedEvent, UnitsStoredEvent
from evenflow.runtime.worker.moves.direct_transfer import Parcel
from evenflow.state.checkpoint.unit_snapshots import load_units, pack_units
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import move_name
from evenflow.state.store.opening import open_store
from evenflow.state.store.retry import all_but, retry
from evenflow.state.store.sealed import Place

CLOSE_S = 30.0

T = TypeVar("T")


StoreNews = Parcel | UnitsStoredEvent | DeliveryFailedEvent | FetchFailedEvent


class StoreTransfer(JobThread):
    """Owns a store and a thread, which starts with the first movement."""

    def __init__(
        self,
        where: str | Place,
        cluster: str,
        wake: Callable[[], None],
        start: Start | None = None,
        opened: Callable[[str | Place], Store] | None = None,
    ) -> None:
        super().__init__("store transfer", lambda _error: wake(), start)
        self.inbox: Inbox[StoreNews] = Inbox(wake)
        self._open: Callable[[], Store] = lambda: (opened or open_store)(where)
        self._cluster = cluster
        self._store: Store | None = None

    def put(self, region: str, parcel: Parcel) -> None:
        """Put the units of a movement into the store, in the background.

        `UnitsStoredEvent` or `DeliveryFailedEvent` answers it.
        """
        self.submit(lambda: self.inbox.put(self._put(region, parcel)))

    def get(self, region: str, move: int) -> None:
        """Get the units of a movement, in the background. A `Parcel` or `FetchFailedEvent` answers it."""
        self.submit(lambda: self.inbox.put(self._get(region, move)))

    def delete(self, region: str, move: int) -> None:
        """Delete the blob of a movement that is over."""
        self.submit(lambda: self._delete(region, move))

    def close(self) -> None:
        """End the thread; blobs of movements that are under way are removed by the next cluster here."""
        self.end(CLOSE_S, "the store hangs")
        if self._store is not None:
            self._store.close()

    def _put(self, region: str, parcel: Parcel) -> UnitsStoredEvent | DeliveryFailedEvent:
        try:
            name = self._name(region, parcel.move)
            parts = pack_units({parcel.move: [pickle.PickleBuffer(part) for part in parcel.parts]}, name=name)
            self._tried(lambda store: store.put(name, parts))
        except BaseException as error:  # whatever it is, the movement is taken back
            return DeliveryFailedEvent(parcel.move, described(error))
        return UnitsStoredEvent(parcel.move)

    def _get(self, region: str, move: int) -> Parcel | FetchFailedEvent:
        name = self._name(region, move)
        try:
            units = self._tried(lambda store: load_units(partial(store.get, name), [move], name))
        except BaseException as error:
            return FetchFailedEvent(move, region, described(error))
        return Parcel(move, units[move])

    def _delete(self, region: str, move: int) -> None:
        with suppress(Exception):  # it stays until the next cluster here removes it
            self._tried(lambda store: store.delete([self._name(region, move)]))

    def _name(self, region: str, move: int) -> str:
        return move_name(region, self._cluster, move)

    def _tried(self, work: Callable[[Store], T]) -> T:
        def once() -> T:
            self._store = self._store or self._open()
            return work(self._store)

        return retry(once, self.closing.wait, passes=all_but(BlobMissing))
