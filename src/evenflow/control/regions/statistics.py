"""The statistics of one keyed operator, from the reports of workers and feeders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from evenflow.control.workers import WorkerLife
from evenflow.model import KeyedSnapshot, KeyedWorker
from evenflow.model.entries import ConsumerPart, KeyedSampleEntry
from evenflow.model.messages import ConsumerReport, FeederArrivals

KEPT_KEYS = 256
"""The most units whose keys are kept; the keys reported last stay."""


class Statistics:
    """Counters by worker and by unit, pooled over evaluations."""

    def __init__(self, units: int) -> None:
        self.consumers: dict[int, KeyedWorker] = {}
        """The live workers."""
        self.unit_rows = np.zeros(units, np.int64)
        self.unit_arrived = np.zeros(units, np.int64)
        self.unit_bytes = np.zeros(units, np.int64)
        self.counts: Counter[str] = Counter()
        self.keys: dict[int, str] = {}
        """By unit, the value of its most frequent key as told last, where the user asked for values of keys."""
        self.fresh: set[int] = set()
        """Workers that have reported since the balance was last asked."""
        self._on_disk: dict[int, tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]] = {}
        """By worker, its units on disk, and bytes of the rows that wait for each."""

    def set_workers(self, workers: Mapping[int, WorkerLife]) -> None:
        """Set the live workers: counters of new and restarted workers start at 0, counters of lost ones are dropped."""
        before, self.consumers = self.consumers, {w: KeyedWorker(w, life.incarnation) for w, life in workers.items()}
        kept = {w for w in before.keys() & workers.keys() if before[w].incarnation == workers[w].incarnation}
        self.consumers.update({worker: before[worker] for worker in kept})
        self.fresh &= kept
        self._on_disk = {worker: units for worker, units in self._on_disk.items() if worker in kept}

    def report(self, worker: int, told: ConsumerReport) -> None:
        """Add a worker's report of the time since its last one."""
        known = self.consumers[worker]
        self.consumers[worker] = KeyedWorker(
            worker=worker,
            incarnation=known.incarnation,
            seconds=known.seconds + told.seconds,
            idle_s=known.idle_s + told.idle_s,
            busy_s=known.busy_s + told.busy_s,
            rows=known.rows + told.rows,
            bytes=known.bytes + told.bytes,
            memory=told.memory,
            resident=told.resident,
            spilled=told.spilled,
            pending=int(told.pending.sum()),
        )
        self._on_disk[worker] = told.on_disk, told.pending
        self.counts.update(told.counts)
        np.add.at(self.unit_rows, told.units, told.unit_rows)
        self.unit_bytes[told.sized] = told.sizes
        self.fresh.add(worker)

    def arrived(self, told: FeederArrivals) -> None:
        """Add the rows that a feeder has taken in since its last message."""
        np.add.at(self.unit_arrived, told.units, told.unit_rows)
        for unit, key in told.keys.items():
            self.keys.pop(unit, None)  # so that the newest are last
            self.keys[unit] = key
        while len(self.keys) > KEPT_KEYS:
            del self.keys[next(iter(self.keys))]

    @property
    def due(self) -> bool:
        """Whether every live worker has reported since the balance was last asked."""
        return bool(self.consumers) and self.fresh >= self.consumers.keys()

    def resident(self) -> npt.NDArray[np.bool_]:
        """For each unit, whether its state is in memory, as last reported."""
        marks = np.ones(len(self.unit_rows), np.bool_)
        for units, _ in self._on_disk.values():
            marks[units] = False
        return marks

    def pending(self) -> npt.NDArray[np.int64]:
        """For each unit, bytes of the rows that wait for its state, as last reported."""
        sizes = np.zeros(len(self.unit_rows), np.int64)
        for units, pending in self._on_disk.values():
            sizes[units] += pending
        return sizes


def sampled(snapshot: KeyedSnapshot, keys: Mapping[int, str]) -> KeyedSampleEntry:
    """The entry of a snapshot for the event log, with the values of keys of the hottest units that are known."""
    hottest = _hottest(snapshot.unit_rows)
    known = {unit: keys[unit] for unit, _ in hottest if unit in keys}
    owned = np.bincount(snapshot.table.owners, minlength=1 + max((c.worker for c in snapshot.consumers), default=0))
    return KeyedSampleEntry(
        time=snapshot.time,
        region=snapshot.region,
        feeders=snapshot.feeders,
        version=snapshot.table.version,
        moving=snapshot.moving,
        moved=snapshot.moved,
        bytes_moved=snapshot.bytes_moved,
        state_bytes=int(snapshot.unit_bytes.sum()),
        hottest=hottest,
        keys=known or UNSET,
        counts=dict(snapshot.counts),
        consumers=[
            ConsumerPart(
                worker=c.worker,
                units=int(owned[c.worker]),
                rows=c.rows,
                bytes=c.bytes,
                busy_s=round(c.busy_s, 6),
                idle_s=round(c.idle_s, 6),
                seconds=round(c.seconds, 6),
                memory=c.memory,
                resident=c.resident,
                spilled=c.spilled,
                pending=c.pending,
            )
            for c in snapshot.consumers
        ],
    )


def _hottest(rows: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """The ten units with the most rows so far, and their rows."""
    top = np.argsort(rows)[::-1][:10]
    return [(int(unit), int(rows[unit])) for unit in top if rows[unit]]
