"""The facts that the verdict is made from, gathered from all that the view knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from evenflow.dashboard.actions import CHANGES, Actions
from evenflow.dashboard.failures import JobFailures
from evenflow.dashboard.graphs import GraphView
from evenflow.dashboard.keyed import KeyedView
from evenflow.dashboard.pace import SHORTEST_S, STEADY_S, Pace
from evenflow.dashboard.regions import RegionView
from evenflow.dashboard.verdict import FRESH_S, RegionSeen, Situation
from evenflow.dashboard.workers import WorkerState, WorkerTable

SPAN_S = SHORTEST_S
"""Time in which rows were fed is counted in pieces of so many seconds, at least."""


@dataclass(slots=True)
class FedTime:
    """For how much of the time some region is fed, by the same clock as the loads of workers."""

    _pace: Pace = field(default_factory=Pace)
    _since: float | None = None
    _fed: bool = False
    _seconds: float = 0.0
    """Seconds that were fed, of those before `_last` that are not in `_pace` yet."""
    _last: float = 0.0

    def tell(self, at: float, fed: bool) -> None:
        """Some region is fed from now on, or none is."""
        if self._since is None:
            if not fed:
                return  # a log whose beginning is gone may have feeders that nobody knows of
            self._since = self._last = at
        self._seconds += max(0.0, at - self._last) if self._fed else 0.0
        self._last, self._fed = at, fed
        if at - self._since >= SPAN_S:
            self._pace.add(at, self._seconds, at - self._since)
            self._since, self._seconds = at, 0.0

    def share(self, now: float) -> float:
        """The share of the time of late; 1 if it is not known."""
        return min(1.0, self._pace.recent(now, STEADY_S)) if self._pace.lives(now) else 1.0


class ViewFacts(Protocol):
    """What a view knows."""

    @property
    def workers(self) -> WorkerTable: ...
    @property
    def regions(self) -> Mapping[str, RegionView]: ...
    @property
    def actions(self) -> Actions: ...
    @property
    def failures(self) -> JobFailures: ...
    @property
    def fed(self) -> FedTime: ...
    @property
    def heard(self) -> float: ...
    @property
    def state(self) -> str: ...


def situation_of(view: ViewFacts, now: float) -> Situation:
    """The situation of late."""
    live, regions = view.workers.live, view.regions.values()
    told = {worker.id: worker.utilisation(now, STEADY_S) for worker in live}
    loads = {worker: load for worker, load in told.items() if load is not None}
    fed = any(region.feeders for region in regions)
    served = {name for worker in live for name, load in worker.loads.items() if load.busy.lives(now)}
    busiest = view.workers.get(max(loads, key=lambda worker: loads[worker])) if loads else None
    return Situation(
        loads=loads,
        row_s=relative_row_costs(live, view.regions, now),
        fed=view.fed.share(now),
        regions=[
            _region_seen(region, busiest, view.actions, now)
            for region in regions
            if region.feeders or region.name in served
        ],
        pending=sum(each.pending for each in live),
        begins=view.actions.begins(now),
        feeding=fed or any(loads.values()) or any(region.pace.recent(now) for region in regions),
        lost=[each.id for each in view.workers.all.values() if each.state == "lost"],
        failures=view.failures.standing(now),
        silent_s=now - view.heard if fed and view.state == "live" else 0.0,
        state=view.state,
        now=now,
    )


def _region_seen(region: RegionView, busiest: WorkerState | None, actions: Actions, now: float) -> RegionSeen:
    acted, refused = actions.last_of(region.name, CHANGES), actions.last_of(region.name, ("refused",))
    load = busiest.loads.get(region.name) if busiest is not None else None
    moving = region.owned.moving if isinstance(region, KeyedView | GraphView) else {}
    late = refused is not None and now - refused.time < FRESH_S and (acted is None or acted.time <= refused.time)
    return RegionSeen(
        region.name,
        region.balance,
        region.feeders,
        still_s=now - region.came_back if region.feeders else 0.0,
        waiting=region.waiting,
        load=load.busy.recent(now, STEADY_S) if load is not None and load.busy.lives(now) else 0.0,
        hot=region.heaviest(busiest.id) if isinstance(region, KeyedView) and busiest is not None else None,
        moving=len(moving),
        acted_s=None if acted is None else now - acted.until,
        refused=refused.why if refused is not None and late else "",
        decided=region.why if isinstance(region, GraphView) else "",
    )


def relative_row_costs(live: Iterable[WorkerState], regions: Iterable[str], now: float) -> dict[int, float]:
    """By worker, how long a row takes there, over what is usual, in the region where that is known best."""
    found: dict[int, float] = {}
    for name in regions:
        told = {
            worker.id: load.row_s
            for worker in live
            if (load := worker.loads.get(name)) is not None and load.row_s and load.busy.lives(now)
        }
        usual = median(told.values()) if told else 0.0
        for worker_id, cost in told.items() if usual else ():
            found[worker_id] = max(cost / usual, found.get(worker_id, 0.0))
    return found
