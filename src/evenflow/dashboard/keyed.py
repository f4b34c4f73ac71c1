"""Keyed regions as the event log tells of them: owners of units, movements under way, the hottest units."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import islice

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from evenflow.dashboard.pace import RECENT_S, STEADY_S
from evenflow.dashboard.regions import Counters, RegionView
from evenflow.dashboard.verdict import HotUnit
from evenflow.dashboard.workers import WorkerTable, rounded, whole
from evenflow.model.entries import (
    ConsumerPart,
    EventEntry,
    KeyedSampleEntry,
    MovedEntry,
    MoveEntry,
    MoveUndoneEntry,
    RegionOpenedEntry,
    UnitOwnersEntry,
    UnitRowsEntry,
)
from evenflow.model.messages import MOST_KEY_TEXT

MOST_UNITS = 16_384
"""Of a region with more units the page gets only how many each worker has."""
LIMIT = 2_000_000
"""Regions have fewer units; what has more is no region of ours."""
HOTTEST = 12
"""Units that are listed as the hottest."""


class OwnedUnits:
    """Who owns which unit, and which units are on their way to whom."""

    def __init__(self, units: int) -> None:
        if not 0 <= units <= LIMIT:
            raise ValueError(f"{units} units: a region has at most {LIMIT}")
        self.count = units
        self.owners: npt.NDArray[np.int32] = np.full(units, -1, np.int32)
        self.moving: dict[int, int] = {}
        """By unit under way, the worker that it goes to."""

    def deal(self, workers: list[int]) -> None:
        """Units go to workers in turn, where nothing else is known of them."""
        if workers:
            self.owners = np.asarray(sorted(workers), np.int32)[np.arange(self.count) % len(workers)]

    @property
    def known(self) -> bool:
        """Whether owners are known."""
        return bool(self.count) and int(self.owners[0]) >= 0

    def apply(self, entry: EventEntry) -> None:
        """Take in an entry, if it is about owners or movements."""
        match entry:
            case UnitOwnersEntry():
                self._told(entry)
            case MoveEntry():
                self.moving.update(dict.fromkeys(entry.units, entry.target))
            case MovedEntry():
                self._set(entry.units, entry.target)
                self._landed(entry.units)
            case MoveUndoneEntry():
                self._landed(entry.units)

    def _told(self, entry: UnitOwnersEntry) -> None:
        if entry.even is not UNSET:
            self.deal(entry.even)
        elif entry.owners is UNSET:
            raise ValueError("an entry about owners has none")
        elif entry.units is not UNSET:
            self.owners[np.asarray(entry.units, np.int64)] = entry.owners
        elif len(entry.owners) == self.count:
            self.owners = np.asarray(entry.owners, np.int32).reshape(self.count)

    def _set(self, units: list[int], worker: int) -> None:
        self.owners[np.asarray(units, np.int64)] = worker

    def _landed(self, units: list[int]) -> None:
        for unit in units:
            self.moving.pop(unit, None)

    def shown(self) -> dict[str, object]:
        """What the page shows: owners as one digit sequence in base 64 of two bytes each, -1 as the largest."""
        found: dict[str, object] = {"units": self.count}
        if self.known and self.count <= MOST_UNITS:
            found["owners"] = self.owners.astype("<u2").tobytes()
            found["moving"] = [[unit, target] for unit, target in sorted(self.moving.items())]
        return found


class KeyedView(RegionView):
    """A keyed region."""

    kind = "keyed"

    def __init__(self, entry: RegionOpenedEntry) -> None:
        super().__init__(entry)
        self.owned = OwnedUnits(max(0, entry.units or 0))
        self.moved = self.bytes_moved = self.state_bytes = 0
        self.counts: dict[str, int] = {}
        self.per_worker: dict[int, int] = {}
        """Units that each worker has."""
        self.hottest: list[tuple[int, float]] = []
        """Units with the most rows of late, and their rows a second."""
        self.keys: dict[int, str] = {}
        """By unit, its most frequent key, where values were asked for."""
        self._counters: defaultdict[int, Counters] = defaultdict(Counters)
        self._unit_rows: dict[int, int] = {}
        self._sampled: float | None = None
        self._lately: deque[tuple[float, dict[int, int], dict[int, float]]] = deque()
        """Samples of the last STEADY_S: when, rows so far of the hottest units, and rows so far by worker."""

    def apply(self, entry: EventEntry, workers: WorkerTable) -> None:
        super().apply(entry, workers)
        self.owned.apply(entry)
        match entry:
            case MovedEntry():
                self.moved += len(entry.units)
                self.bytes_moved += whole(entry.bytes)
            case KeyedSampleEntry():
                self._sample(entry, workers)
            case UnitRowsEntry():
                seconds = max(entry.seconds, 1e-3)
                listed = zip(entry.units, entry.unit_rows, strict=True)
                self.hottest = self._known_units((unit, rows / seconds) for unit, rows in listed)

    def _sample(self, entry: KeyedSampleEntry, workers: WorkerTable) -> None:
        now = entry.at
        self.state_bytes = whole(entry.state_bytes)
        self.counts = {name: whole(count) for name, count in entry.counts.items()}
        self.keys = {unit: key[:MOST_KEY_TEXT] for unit, key in (entry.keys or {}).items()}
        if not self.owned.known:
            self.owned.deal([worker.id for worker in workers.live])
        span = self._span(now)
        for each in entry.consumers:
            self._consumer(now, span, each, workers)
        self._heat(now, entry.hottest)
        self._sampled = now
        rows = {each.worker: float(each.rows) for each in entry.consumers}
        self._lately.append((now, self._unit_rows, rows))
        while now - self._lately[0][0] > STEADY_S:
            self._lately.popleft()

    def _consumer(self, now: float, span: float, each: ConsumerPart, workers: WorkerTable) -> None:
        number = each.worker
        worker, counters = workers.get(number), self._counters[number]
        new = counters.grown(each, ("rows", "busy_s"))
        self.per_worker[number] = whole(each.units)
        worker.memory, worker.resident = whole(each.memory), whole(each.resident)
        worker.spilled, worker.pending = whole(each.spilled), whole(each.pending)
        worker.load(self.name).add(now, span, new["busy_s"], new["rows"])

    def _heat(self, now: float, listed: list[tuple[int, int]]) -> None:
        """Rows of the hottest units since the last sample; the log lists the ten with the most rows so far."""
        span = now - self._sampled if self._sampled is not None else 0.0
        before, self._unit_rows = self._unit_rows, dict(listed)
        rates = [(u, (rows - before[u]) / span) for u, rows in listed if u in before and span > 0 and rows >= before[u]]
        others = [(unit, rate) for unit, rate in self.hottest if unit not in self._unit_rows]
        if rates:
            self.hottest = self._known_units(sorted([*rates, *others], key=lambda each: -each[1]))

    def _known_units(self, listed: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
        """The first of them that are units of this region."""
        known = ((unit, float(rate)) for unit, rate in listed if 0 <= unit < self.owned.count)
        return list(islice(known, HOTTEST))

    def heaviest(self, worker: int) -> HotUnit | None:
        """The unit with most of a worker's rows of late, and its share of them; None if that is not known."""
        if not self.owned.known or not self._lately:
            return None
        (_, before, rows_before), (_, now, rows_now) = self._lately[0], self._lately[-1]
        came = rows_now.get(worker, 0.0) - rows_before.get(worker, 0.0)
        owned = [unit for unit in now if unit in before and unit < self.owned.count]
        mine = [(now[unit] - before[unit], unit) for unit in owned if self.owned.owners[unit] == worker]
        if came <= 0 or not mine:
            return None
        most, unit = max(mine)
        return HotUnit(unit, min(1.0, most / came), self.keys.get(unit, "")) if most > 0 else None

    def shown(self, now: float) -> dict[str, object]:
        owners, known = self.owned.owners, self.owned.known
        fed = self._sampled is not None and now - self._sampled <= RECENT_S
        hottest = [
            {"unit": unit, "rows_s": rounded(rate, 1) if fed else None, "worker": int(owners[unit]) if known else None}
            | ({"key": self.keys[unit]} if unit in self.keys else {})
            for unit, rate in self.hottest
            if rate > 0
        ]
        figures = {"moved": self.moved, "bytes_moved": self.bytes_moved, "state_bytes": self.state_bytes}
        listed = {"hottest": hottest, "counts": self.counts, "per_worker": sorted(self.per_worker.items())}
        return super().shown(now) | self.owned.shown() | figures | listed
