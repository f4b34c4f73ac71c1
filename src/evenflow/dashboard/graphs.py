"""Graphs as the event log tells of them: operators on workers, their loads and energies, rows between workers."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import UNSET

from evenflow.dashboard.keyed import OwnedUnits
from evenflow.dashboard.regions import WALL, RegionView
from evenflow.dashboard.workers import STALE_S, WorkerTable, rounded, whole
from evenflow.model.entries import (
    EventEntry,
    FeederJoinedEntry,
    GraphResultsEntry,
    GraphSampleEntry,
    HostPart,
    LinkPart,
    MovedEntry,
    RegionOpenedEntry,
)

MOST_OPERATORS = 200
"""Operators that are listed."""


class GraphView(RegionView):
    """A graph of operators: which worker has which, and what that costs."""

    kind = "graph"

    def __init__(self, entry: RegionOpenedEntry) -> None:
        super().__init__(entry)
        self.operators: list[dict[str, Any]] = [
            {
                "name": each.name,
                "kind": each.kind,
                "units": max(0, whole(each.units)),
                "endpoint": each.endpoint,
            }
            for each in entry.operators or ()
        ]
        self.edges, self.sources = list(entry.edges or ()), list(entry.sources or ())
        self.owned = OwnedUnits(entry.units or 0)
        self.energy: float | None = None
        self.load_std: float | None = None
        self.hosts: list[HostPart] = []
        self.links: list[LinkPart] = []
        self.why = ""
        self.loads: dict[str, float] = {}
        self.energies: dict[str, float] = {}
        self.on: dict[str, int] = {}
        """By whole operator, its worker, as the placement last saw it."""
        self.moved = self.results = 0
        self._arrived = 0
        self._noted = self.sampled = self.told

    def apply(self, entry: EventEntry, workers: WorkerTable) -> None:
        if isinstance(entry, FeederJoinedEntry) and not self.feeders:
            self._noted = max(self._noted, entry.at)
        super().apply(entry, workers)
        self.owned.apply(entry)
        match entry:
            case MovedEntry():
                self.moved += len(entry.units)
            case GraphSampleEntry():
                self._sample(entry, workers)
            case GraphResultsEntry():
                self._results(entry)

    def _sample(self, entry: GraphSampleEntry, workers: WorkerTable) -> None:
        now = self.sampled = entry.at
        self.energy, self.load_std, self.why = entry.total_pe, entry.load_std, entry.why
        self.hosts, self.links = entry.hosts, entry.links[:MOST_OPERATORS]
        self.loads = {each.name: each.load for each in entry.operators}
        self.energies = {each.name: each.pe for each in entry.operators if each.pe is not UNSET}
        self.on = {each.name: each.worker for each in entry.operators}
        span = self._span(now)  # as in older logs; a period may have several batches, with rests between them
        span = span if entry.seconds is UNSET else entry.seconds
        for host in self.hosts:
            load, share = workers.get(host.worker).load(self.name), max(0.0, host.load)
            rows = None if host.rows_s is UNSET else host.rows_s * span
            load.add(now, span, min(1.0, share) * span, rows)
            load.row_s = host.coefficient
            if host.queue is not UNSET:
                load.waits(now, whole(host.queue))

    def _results(self, entry: GraphResultsEntry) -> None:
        seconds, self._noted = entry.at - self._noted, entry.at
        self.results += whole(entry.results)  # the latencies are those of `performance`
        self._arrived += whole(entry.arrived)
        if self._noted < WALL and not self.rows_in:  # a simulation tells of rows only here
            self.told = self._noted
            self.pace.add(self._noted, entry.arrived, seconds)

    @property
    def rows(self) -> int:
        """Rows that came; `performance` and `graph-results` tell of the same ones, and one of them can be behind."""
        return max(super().rows, self._arrived)

    def _places(self) -> list[list[int]]:
        """For each operator, the workers that it is on: from the owners of units, else from the last sample."""
        places, first = [], 0
        for operator in self.operators:
            units = operator["units"]
            mine = self.owned.owners[first : first + units]
            first += units
            known = self.owned.known and len(mine)
            told = self.on.get(operator["name"])
            places.append(np.unique(mine).tolist() if known else [] if told is None else [told])
        return places

    def columns(self, now: float) -> dict[str, float | None]:
        return {f"energy:{self.name}": self.energy} if now - self.sampled <= 2 * STALE_S else {}

    def shown(self, now: float) -> dict[str, object]:
        operators = [
            operator
            | {
                "workers": places,
                "load": rounded(self.loads.get(operator["name"]), 4),
                "energy": rounded(self.energies.get(operator["name"]), 3),
            }
            for operator, places in list(zip(self.operators, self._places(), strict=True))[:MOST_OPERATORS]
        ]
        figures = {"energy": rounded(self.energy, 4), "load_std": rounded(self.load_std, 4), "results": self.results}
        parts = {"operators": operators, "edges": self.edges[: 4 * MOST_OPERATORS], "sources": self.sources}
        links = {"hosts": self.hosts, "links": self.links, "why": self.why, "moved": self.moved}
        return super().shown(now) | self.owned.shown() | figures | parts | links
