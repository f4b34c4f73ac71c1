"""The view: what a page shows, computed from the entries of an event log and nothing else.

`apply` takes one entry after the other; `frame` gives what is shown at a time. There is no clock and no I/O here, so
the live page, the replay of a finished log, and tests compute the same from the same entries. Memory is bounded,
however long the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from evenflow.dashboard.actions import Actions
from evenflow.dashboard.effects import Effect
from evenflow.dashboard.epochs import EpochTable
from evenflow.dashboard.failures import JobFailures
from evenflow.dashboard.graphs import GraphView
from evenflow.dashboard.history import Chronicle
from evenflow.dashboard.keyed import KeyedView
from evenflow.dashboard.pace import Pace
from evenflow.dashboard.regions import KEPT_REGIONS, LATENCY_S, WALL, OrderedView, RegionView
from evenflow.dashboard.situation import FedTime, situation_of
from evenflow.dashboard.verdict import Situation, tones, verdict
from evenflow.dashboard.words import action_words
from evenflow.dashboard.workers import WorkerTable, rounded
from evenflow.eventlog.reading import DAMAGED, begins_run
from evenflow.model.entries import (
    ClusterStoppingEntry,
    EventEntry,
    FeederFailedEntry,
    RawEntry,
    RegionEntry,
    RegionOpenedEntry,
    WorkerJoinedEntry,
)
from evenflow.model.latency import Latencies

MOST_REGIONS = 12
"""Regions that are shown: those that had rows last."""
SHOWN_ACTIONS = 40
QUIET_S = 10.0
"""A log without a new entry for so long is quiet."""
LATEST = 1e11
"""No entry is of a later time, in seconds."""


class PageView:
    """All that the page shows. `stepped`, if given, is called at the end of each step with its time."""

    def __init__(self, stepped: Callable[[float], None] | None = None) -> None:
        self.history = Chronicle()
        self.workers = WorkerTable()
        self.regions: dict[str, RegionView] = {}
        self.actions, self.epochs = Actions(), EpochTable()
        self.failures, self.fed = JobFailures(), FedTime()
        self.first: float | None = None
        self.now = 0.0
        """The time of the latest entry, or of the latest tick, if that is later."""
        self.heard = 0.0
        """The time of the latest entry."""
        self.entries = self.unread = 0
        self.state = "empty"
        self._stepped = stepped
        self._last: EventEntry | None = None
        self._step_end = 0.0

    def apply(self, entry: EventEntry) -> None:
        """Take in an entry; one that makes no sense is counted, and changes as little as possible."""
        self.entries += 1
        try:
            at, _ = _moment(entry.at), _moment(entry.time)
            if begins_run(entry, self._last):
                self._begin_again(at)
            self._last = entry
            if self.first is None:
                self.first, self._step_end = at, at + self.history.step_s
            self.tick(at)
            self.heard = max(self.heard, at)
            self._take(entry)
        except DAMAGED:
            self.unread += 1

    def tick(self, time: float) -> None:
        """Time has passed without an entry, or until the next."""
        if self.first is None or time <= self.now:
            return
        while time > self._step_end:
            self._step_on(time)
        self.now = max(self.now, time)

    def _step_on(self, time: float) -> None:
        """The step at hand is over; the next one is as long, unless much more time has passed."""
        ended, gap = self._step_end, time - self._step_end
        self._step_end = time if gap > 60 * self.history.step_s else ended + self.history.step_s
        self._close(ended)

    def _begin_again(self, at: float) -> None:
        """Another run begins: of the last one only its history stays, and not even that if the clock goes back."""
        self.workers, self.regions = WorkerTable(), {}
        self.actions, self.epochs = Actions(), EpochTable()
        self.failures, self.fed = JobFailures(), FedTime()
        self.state = "live"
        if at < self.heard:
            self.history = Chronicle(generation=self.history.generation + 1)
            self.first, self.now, self.heard = None, 0.0, 0.0

    def _take(self, entry: EventEntry) -> None:
        if isinstance(entry, RawEntry) and entry.why:
            raise ValueError(entry.why)
        stops = isinstance(entry, ClusterStoppingEntry)
        if self.state != "stopped" or isinstance(entry, WorkerJoinedEntry):
            self.state = "stopped" if stops else "live"
        self.workers.apply(entry)
        failed = isinstance(entry, FeederFailedEntry) and entry.worker is not UNSET  # the function, whenever that is
        if self.state != "stopped" or failed:  # what goes wrong because the cluster stops is no trouble
            self.actions.apply(entry)
            self.failures.apply(entry)
        elif stops:
            self.actions.rest(entry.at)
        self.epochs.apply(entry)
        if isinstance(entry, RegionOpenedEntry):
            self._open(entry)
        elif isinstance(entry, RegionEntry):
            region = self.regions.get(entry.region)
            if region is not None:
                region.apply(entry, self.workers)
        self.fed.tell(entry.at, any(region.feeders for region in self.regions.values()))
        if self.state == "stopped":
            self._rest()

    def _rest(self) -> None:
        """The cluster stops: nothing is fed or done any more. All rows that were told of go into the history first."""
        while any(region.pace.counts for region in self.regions.values()):
            self._step_on(self._step_end)
        for region in self.regions.values():
            region.feeders, region.pace = 0, Pace(self._step_end - self.history.step_s)
        for worker in self.workers.all.values():
            worker.loads.clear()

    def _open(self, entry: RegionOpenedEntry) -> None:
        unset = entry.operators is UNSET, entry.units is UNSET
        kind = OrderedView if all(unset) else KeyedView if unset[0] else GraphView
        known = self.regions.get(entry.region)
        if known is None or known.kind != kind.kind:
            self.regions[entry.region] = kind(entry)
        while len(self.regions) > KEPT_REGIONS:
            del self.regions[min(self.regions, key=lambda name: self.regions[name].told)]

    def _close(self, time: float) -> None:
        """A step is over: its figures go into the history."""
        total, figures, rows = Latencies(), {}, 0.0
        for region in self.regions.values():
            came = region.pace.step(time)
            rows += came
            recent = region.latencies(time) if self.history.step_s <= LATENCY_S else region.step
            total, region.step = total + recent, Latencies()
            if time - region.told <= 60:
                figures[f"rows:{region.name}"] = rounded(came, 1)
            figures |= region.columns(time)
        summary = total.summary
        told = {worker.id: worker.step(time) for worker in self.workers.live}
        loads = {worker: load for worker, load in told.items() if load is not None}
        figures |= {
            "rows": rounded(rows, 1),
            "p50": rounded(summary.p50, 3) if summary else None,
            "p99": rounded(summary.p99, 3) if summary else None,
            "imbalance": rounded(Situation(loads, {}).imbalance, 4),
        }
        figures |= {f"load:{worker}": rounded(load, 3) for worker, load in loads.items()}
        self.history.add(round(time, 3), figures)
        self.actions.settle(self.history)
        if self._stepped is not None:
            self._stepped(time)

    def frame(self, now: float | None = None) -> dict[str, Any]:
        """What the page shows at a time; that of the latest entry, if none is given."""
        now = self.now if now is None else max(now, self.now)
        seen, latest = situation_of(self, now), self.actions.latest()
        effect = latest.effect(self.history, now) if latest is not None else Effect()
        by_credits = any(region.balance == "credits" and region.told for region in self.regions.values())
        did = action_words(latest, effect, now, self.state, by_credits)
        total = Latencies()
        for region in self.regions.values():
            total += region.latencies(now)
        summary = total.summary
        shown = sorted(self.regions.values(), key=lambda region: -region.told)[:MOST_REGIONS]
        state = "quiet" if self.state == "live" and now - self.heard > QUIET_S else self.state
        return {
            "time": round(now, 3),
            "first": self.first,
            "heard": round(self.heard, 3),
            "clock": "wall" if (self.first or 0.0) > WALL else "virtual",
            "state": state,
            "entries": self.entries,
            "unread": self.unread,
            "headline": [verdict(seen), did],
            "figures": self._figures(now, summary),
            "workers": self.workers.shown(
                now, {each: 1 / cost for each, cost in seen.row_s.items() if cost}, tones(seen)
            ),
            "regions": [region.shown(now) for region in shown],
            "more_regions": len(self.regions) - len(shown),
            "actions": [each.shown(self.history, now) for each in list(self.actions.all)[: -SHOWN_ACTIONS - 1 : -1]],
            "epochs": self.epochs.shown(now),
            "troubles": list(self.actions.troubles)[: -SHOWN_ACTIONS - 1 : -1],
        }

    def _figures(self, now: float, summary: Any) -> Mapping[str, object]:
        regions = self.regions.values()
        told = {worker.id: worker.utilisation(now) for worker in self.workers.live}
        loads = {worker: load for worker, load in told.items() if load is not None}
        return {
            "rows_s": rounded(sum(region.pace.recent(now) for region in regions), 1),
            "rows": sum(region.rows for region in regions),
            "p50": rounded(summary.p50, 3) if summary else None,
            "p99": rounded(summary.p99, 3) if summary else None,
            "imbalance": rounded(Situation(loads, {}).imbalance, 4),
            "live": len(self.workers.live),
            "workers": len(self.workers.all),
            "moved": self.actions.moved,
            "refused": self.actions.refused,
            "undone": self.actions.undone,
            "lost": self.actions.lost,
            "restarts": self.actions.restarts,
        }


def _moment(told: float) -> float:
    """A time in an entry, in seconds."""
    if not -LATEST < told < LATEST:
        raise ValueError(f"{told!r:.50} is no time")
    return told
