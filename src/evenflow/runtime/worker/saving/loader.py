"""The loader: reads state from the store into a fresh instance of its operator, on a thread for each order.

It takes each unit's newest snapshot, then its rows in the logs since, batch by batch. Nothing else touches the instance
until it is whole: no feeder is let in before every worker has said that it has its part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import EvenflowError, described
from evenflow.model.checkpoint import BatchLog
from evenflow.model.messages import LoadState, LogEntry
from evenflow.operators.hosted import Hosted, units_of
from evenflow.runtime.threads import BackgroundThread, Inbox, Start
from evenflow.runtime.worker.limits import LIMITS, WorkerLimits
from evenflow.runtime.worker.rows.instances import Instance, Instances, let_go, operator_of, process
from evenflow.runtime.worker.saving.query_log import query_of
from evenflow.runtime.worker.saving.repeats import RepeatedAttempt, rows_to_repeat
from evenflow.state.checkpoint.replay import Mask, replay
from evenflow.state.checkpoint.unit_snapshots import load_units, read_index
from evenflow.state.paging.paged import Paged
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import prefix_of, segment_names
from evenflow.state.store.opening import open_store
from evenflow.state.store.retry import RetryingStore
from evenflow.state.store.sealed import Place

CLOSE_S = 30.0

Longs = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Loaded:
    """The result of an order to load."""

    order: LoadState
    instance: Instance | None = None
    saved: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    """By unit, the batch of the snapshot it came from; -1 without one."""
    touched: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    """By unit, the latest batch in which it may have had rows."""
    repeat: RepeatedAttempt | None = None
    """The attempt that is to be repeated; None if there is none."""
    bytes: int = 0
    rows: int = 0
    seconds: float = 0.0
    error: str = ""


class Loader:
    """Owns the threads that load; there is one for each order under way."""

    def __init__(
        self,
        where: str | Place,
        wake: Callable[[], None],
        instances: Instances,
        start: Start | None = None,
        opened: Callable[[str | Place], Store] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        limits: WorkerLimits = LIMITS,
    ) -> None:
        self._instances = instances
        self.inbox: Inbox[Loaded] = Inbox(wake)
        self._open: Callable[[], Store] = lambda: (opened or open_store)(where)
        self._clock = clock
        self._limits = limits
        self._start = start
        self._closing = threading.Event()
        self._threads: list[BackgroundThread] = []
        self.progress: Callable[[], None] = lambda: None
        """Called now and then while state is loaded in the worker's own loop, which says nothing else meanwhile."""

    def start(self, order: LoadState, hosted: Hosted) -> None:
        """Load in the background; with a budget of memory, which is counted in the worker's loop, at once."""
        if self._instances.pool is not None:
            self._run(order, hosted)
            return
        self._threads = [thread for thread in self._threads if thread.alive]
        run, failed = partial(self._run, order, hosted), partial(self._failed, order)
        thread = BackgroundThread("loader", run, failed, self._start)
        try:
            thread.begin()
        except RuntimeError as error:  # there are too many threads
            self._failed(order, error)
        else:
            self._threads.append(thread)

    def close(self) -> None:
        """Stop loading; loaded state is not needed any more."""
        self._closing.set()
        for thread in self._threads:
            thread.end(CLOSE_S, "the store hangs")

    def _failed(self, order: LoadState, error: BaseException) -> None:
        """A thread has failed, or could not be started: report that nothing was loaded."""
        self.inbox.put(Loaded(order, error=described(error)))

    def _run(self, order: LoadState, hosted: Hosted) -> None:
        began = self._clock()
        loaded = Loaded(order)
        instance = None
        try:
            loaded.saved, loaded.touched = (np.full(order.count, -1, np.int64) for _ in range(2))
            with RetryingStore(self._open(), self._closing.wait) as store:
                instance = self._instances.fresh(hosted)
                self.fill(store, loaded, instance, hosted)
            loaded.instance = instance
        except BaseException as error:  # the store's, or the user's code
            let_go(instance)
            loaded.error = described(error)
        loaded.seconds = self._clock() - began
        self.inbox.put(loaded)

    def fill(self, store: Store, loaded: Loaded, instance: Instance, hosted: Hosted) -> None:
        """Bring the state of the units from the store into an instance of their operator."""
        self._install(store, loaded, instance)
        self._replay(store, loaded, instance, hosted)
        if loaded.order.repeated is not None:
            self._prepare(store, loaded, loaded.order.repeated, instance, hosted)

    def _install(self, store: Store, loaded: Loaded, instance: Instance) -> None:
        order = loaded.order
        missing = set(order.units.tolist())
        for snapshot in reversed(order.snapshots):
            self._check_open()
            name = snapshot.name
            get = partial(store.get, name)
            index = read_index(get, name)
            mine = missing & index.entries.keys()
            for unit, state in load_units(get, mine, name, index).items():
                self._check_open()
                if state is not None:
                    instance.install(unit, state)
            loaded.bytes += sum(index.entries[unit].nbytes for unit in mine)
            loaded.saved[list(mine)] = snapshot.epoch
            missing -= mine

    def _replay(self, store: Store, loaded: Loaded, instance: Instance, hosted: Hosted) -> None:
        note = ""
        for log in loaded.order.logs:
            wanted = _owned(loaded.order) & (loaded.saved < log.epoch)
            if not wanted.any():
                continue
            for batch in self._logged(store, loaded, log, wanted):
                if hosted.note_of(batch) != note:
                    note = hosted.note_of(batch)
                    _replay_as(instance, hosted, note)
                process(instance, hosted, None, *hosted.replayed(batch))
            loaded.touched[wanted] = log.epoch
        _replay_as(instance, hosted, "")

    def _prepare(self, store: Store, loaded: Loaded, log: LogEntry, instance: Instance, hosted: Hosted) -> None:
        """Read the attempt that is to be repeated."""
        stamp = loaded.order.epoch, loaded.order.attempt
        rows = self._logged(store, loaded, log, _owned(loaded.order))
        loaded.repeat = rows_to_repeat(stamp, rows, instance, hosted)
        loaded.touched[loaded.repeat.units] = log.epoch

    def _logged(self, store: Store, loaded: Loaded, log: LogEntry, wanted: Mask) -> Iterator[pa.RecordBatch]:
        """The rows of some units in the log of a batch."""
        prefix = prefix_of(loaded.order.region, query_of(loaded.order.evaluation))
        names = segment_names(BatchLog(log.epoch, log.attempt, log.segments), prefix)
        for batch in replay(store, names, wanted, units_of, self._limits.replayed_bytes):
            self._check_open()
            yield batch
            loaded.rows += batch.num_rows
            loaded.bytes += batch.nbytes

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise EvenflowError("the worker is stopping")
        if self._instances.pool is not None:
            self.progress()


def _replay_as(instance: Instance, hosted: Hosted, note: str) -> None:
    """Rows of the log that follow went through the operator of this note; earlier rows are applied first."""
    if isinstance(instance, Paged):
        instance.drain()
    hosted.replay_as(operator_of(instance), note)


def _owned(order: LoadState) -> Mask:
    """Marks the units of this worker."""
    owned = np.zeros(order.count, np.bool_)
    owned[order.units] = True
    return owned
