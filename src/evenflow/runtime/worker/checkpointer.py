"""What a worker does so that the state of queries outlives it: query logs, the blob writer, and loading."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.model.messages import (
    LoadState,
    RowsDurable,
    SaveAgain,
    StateLoaded,
    UnitsSaved,
    WorkerAlive,
    WorkerMessage,
    WorkerTrouble,
)
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import Units
from evenflow.runtime.worker.blob_writer import UNSAVED_BYTES, BlobWriter
from evenflow.runtime.worker.instances import Copies, State, let_go
from evenflow.runtime.worker.loader import Loaded, Loader
from evenflow.runtime.worker.query_log import QueryLog, Segment, Snapshot
from evenflow.state.store.sealed import Place

ALIVE_S = 1.0

Tell = Callable[[WorkerMessage], None]
Answer = Callable[[Any, RowsDurable], None]
"""Tells a feeder that its rows are durable, or why not."""


class Checkpointer:
    """All of one worker that has to do with the store."""

    def __init__(
        self, where: str | Place, worker: int, wake: Callable[[], None], tell: Tell, answer: Answer, copies: Copies
    ) -> None:
        self._writer = f"{worker}.{secrets.randbits(48)}"
        self._tell = tell
        self._answer = answer
        self._blob_writer = BlobWriter(where, wake)
        self._loader = Loader(where, wake, copies)
        self._loader.progress = self._alive
        self._told = 0.0
        self._query_logs: dict[tuple[str, str], QueryLog] = {}
        self._orders: dict[tuple[str, str], LoadState] = {}
        """Loads that are asked for, the latest of each; they begin when the operator's code is here."""
        self._begun: set[tuple[str, str, int]] = set()
        self._dropped: set[tuple[str, str]] = set()
        """Queries whose state was dropped and is not loaded yet: rows that still come for them must not be taken."""

    @property
    def full(self) -> bool:
        """Whether the store is so far behind that no rows should be taken."""
        return self._blob_writer.unsaved >= UNSAVED_BYTES

    @property
    def failure(self) -> str:
        """Why a thread has ended, if it should not have."""
        return getattr(self._blob_writer, "failure", "")

    def close(self) -> None:
        """End all threads."""
        try:
            self._loader.close()
        finally:
            self._blob_writer.close()

    # -- rows

    def enter(
        self,
        region: str,
        evaluation: str,
        units: int,
        stamp: tuple[int, int],
        copy: State,
        away: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Rows of an attempt are about to be applied; if they are the first of a batch, save what was before.

        Units that are `away` have left this worker: their state is not here to be saved.
        """
        if (region, evaluation) in self._dropped:
            raise ProtocolError(f"rows of region {region} came for {evaluation}, whose state was dropped")
        query_log = self._query_log(region, evaluation, units)
        if query_log.enter(*stamp):
            query_log.save(copy, stamp[0] - 1, away)

    def log(self, region: str, evaluation: str, body: Any, schema: pa.Schema, units: Units) -> None:
        """Rows were applied."""
        self._query_logs[region, evaluation].log(body, schema, units)

    def idle(
        self, region: str, evaluation: str, stamp: tuple[int, int], copy: State, away: npt.NDArray[np.bool_] | None
    ) -> None:
        """A task of an attempt ends; if no rows of it came here, save what was before all the same.

        Or the logs that hold the rows of units that get no more would be needed for good.
        """
        query_log = self._query_logs.get((region, evaluation))
        if query_log is None or (region, evaluation) in self._dropped or stamp <= (query_log.epoch, query_log.attempt):
            return
        if query_log.enter(*stamp):
            query_log.save(copy, stamp[0] - 1, away)

    def end(self, region: str, evaluation: str, stamp: tuple[int, int], who: Any) -> None:
        """A feeder wants to know when its rows are durable; one that sent none here is told at once."""
        query_log = self._query_logs.get((region, evaluation))
        if query_log is None or (query_log.epoch, query_log.attempt) != stamp:
            self._answer(who, RowsDurable(self._writer, 0))
            return
        query_log.end(who)
        self._acknowledge(query_log)

    def _acknowledge(self, query_log: QueryLog) -> None:
        for who in query_log.acknowledged():
            self._answer(who, RowsDurable(self._writer, query_log.durable, query_log.error))

    def _query_log(self, region: str, evaluation: str, units: int) -> QueryLog:
        known = self._query_logs.get((region, evaluation))
        if known is None:
            known = self._query_logs[region, evaluation] = QueryLog(
                region, evaluation, self._writer, self._blob_writer, units
            )
        return known

    # -- moves

    def touched(self, region: str, evaluations: list[str], units: list[int]) -> dict[str, npt.NDArray[np.int64]]:
        """What has to be known of units that leave."""
        known = {name: self._query_logs.get((region, name)) for name in evaluations}
        return {name: query_log.touched[units] for name, query_log in known.items() if query_log is not None}

    def arrived(self, region: str, count: int, move: int, units: list[int], touched: dict[str, Any]) -> None:
        """Units have come from elsewhere."""
        for evaluation, batches in touched.items():
            self._query_log(region, evaluation, count).arrived(move, units, batches)

    def gone(self, region: str, units: list[int]) -> None:
        """Units that had come are taken back: they must not be saved from here, not even those without state."""
        for (name, _), query_log in self._query_logs.items():
            if name == region:
                query_log.touched[units] = -1

    # -- loading

    def load(self, order: LoadState) -> None:
        """State is to be loaded; an earlier order for the same does not count any more."""
        self.drop(order.region, order.evaluation)
        self._orders[order.region, order.evaluation] = order

    def drop(self, region: str, evaluation: str) -> None:
        """State is let go of until it is loaded: nothing of what is here then may be saved as that of a batch."""
        self._dropped.add((region, evaluation))

    def unsaved(self, order: SaveAgain) -> None:
        """A snapshot was reported too late, and is not used: its units are to be saved again."""
        query_log = self._query_logs.get((order.region, order.evaluation))
        if query_log is not None:
            query_log.not_saved(order.units, order.epoch)

    def forget(self, region: str, evaluation: str) -> None:
        """An evaluation is over."""
        self._query_logs.pop((region, evaluation), None)
        self._orders.pop((region, evaluation), None)
        self._dropped.discard((region, evaluation))

    def collect(self, code: Callable[[str], Any]) -> list[Loaded]:
        """Pass on what the blob writer has done; state that has been loaded and is still wanted."""
        for outcome in self._blob_writer.collect():
            match outcome.about:
                case Segment(query_log=query_log, attempt=attempt):
                    query_log.put(attempt, outcome.error)
                    self._acknowledge(query_log)
                case Snapshot(query_log=query_log) as snapshot:
                    if outcome.error:
                        query_log.not_saved(snapshot.units, snapshot.epoch)
                        what = f"snapshot {snapshot.name}"
                        self._tell(WorkerTrouble(what, outcome.error))
                    else:
                        self._report_saved(snapshot)
        self._begin_loads(code)
        return list(self._loaded())

    def _alive(self) -> None:
        """Loading takes its time, and the controller waits: once a second it hears that this goes on."""
        now = time.monotonic()
        if now - self._told >= ALIVE_S:
            self._told = now
            self._tell(WorkerAlive())

    def _begin_loads(self, code: Callable[[str], Any]) -> None:
        for key, order in self._orders.items():
            if (*key, order.load) in self._begun:
                continue
            hosted = code(order.operator)
            if isinstance(hosted, Hosted):
                self._begun.add((*key, order.load))
                self._loader.start(order, hosted)
            elif hosted is not None:
                self._begun.add((*key, order.load))
                self._report_loaded(Loaded(order, error="the operator could not be loaded on this worker"))

    def _loaded(self) -> list[Loaded]:
        wanted = []
        while not self._loader.inbox.empty():
            loaded = self._loader.inbox.get()
            order = loaded.order
            key = order.region, order.evaluation
            self._begun.discard((*key, order.load))
            if self._orders.get(key) is not order:
                let_go(loaded.copy)
                continue
            del self._orders[key]
            if not loaded.error:
                self._dropped.discard(key)
                query_log = self._query_log(*key, order.count)
                query_log.resume(order.epoch, order.attempt, loaded.saved, loaded.touched)
                wanted.append(loaded)
            self._report_loaded(loaded)
        return wanted

    def _report_loaded(self, loaded: Loaded) -> None:
        order = loaded.order
        found = (loaded.error, loaded.bytes, loaded.rows, loaded.seconds)
        self._tell(StateLoaded(order.region, order.evaluation, order.load, *found))

    def _report_saved(self, snapshot: Snapshot) -> None:
        of = (snapshot.query_log.region, snapshot.query_log.evaluation, snapshot.epoch)
        self._tell(UnitsSaved(*of, snapshot.name, snapshot.units, snapshot.size))
