"""Flux without parameters: it finds out by itself how long to collect and what imbalance is worth a move.

Flux §5.4 ends with "autotuning of these values is an interesting and necessary direction for future work". This is it.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import ClassVar

import numpy as np

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.owners import Floats, Ints, Units, moves_between, places
from evenflow.policy.keyed.placement import StateLimits, Step, plan
from evenflow.policy.keyed.reports import FEWEST, IntervalReport, Reports
from evenflow.policy.keyed.unit_loads import UnitLoads

HALF_LIFE_S = (0.5, 5.0)
"""Half-life of rows in the load of a unit: half the time since the last moves, but within these limits."""
LEAST_GAIN = 0.03
"""A smaller gain is never worth a move, however sure it is."""
LEAST_HOT_GAIN = 0.01
"""The same where the hottest unit holds up all: what leaves its worker never has to come back."""
BOTTLENECK = 0.7
"""If the busiest worker's utilisation is lower than this, the source is the limit, not the workers."""
PATIENCE_S = (0.25, 20.0)
"""Seconds to collect before the next decision: at first, and at most."""
HORIZON_S = (10.0, 60.0)
"""Seconds that a gain is expected to last: as long as nothing has changed so far, but within these limits."""
UNIT_S = 0.0001
"""Seconds of work that moving a small unit costs, until one has been moved: it takes 1 ms, and others flow on."""
SILENT_S = 10.0
"""Half-life of what is known of a worker's cost once the worker has no more rows."""
SHORTEST_S = 0.095
"""Snapshots closer together than this make one report: so all reports together cover at least 3 s."""
REST_S = 0.5
"""Seconds from a plan that led to no move until the next plan: with many units, planning takes time."""


class FluxAuto(KeyedBalance):
    """Move units, several at once, when the gain is certain and worth the cost; no parameters.

    With c_j = busy_s / rows the cost of a row on worker j and l_u the share of all rows that falls on unit u,

        t_j = c_j * (sum of l_u over the units of j)      seconds that j needs for one row of the whole

    and throughput is 1 / max t_j. No placement can beat

        T* = max(1 / sum(1 / c_j),  min c_j * max l_u).

    Costs come from the last reports (see `Reports`), without those before a sudden change. Loads come from all reports
    in which nothing moved (see `UnitLoads`); they fade more slowly the longer nothing has moved. So a worker that slows
    down shows at once, although the rows that it no longer gets through make its units look lighter.

    Moves begin only if all of this holds:

    1. the busiest worker's utilisation is above 0.7: otherwise the source is the limit, and nothing can be gained;
    2. the plan's gain, 1 - max t'_j / max t_j, is above 3 % (1 % if the slowest worker is that of the hottest unit,
       which alone is more than an even share) and above the noise: (2 + sqrt(2 ln N)) times the standard
       error of the slowest of N workers' t_j, which follows from how costs and shares vary from report to report;
    3. the time gained is more than the time that the moves cost. The gain is expected to last as long as nothing has
       changed so far (10 to 60 s); the cost of moves is judged by that of earlier moves. Of a plan, those first steps
       are taken that leave the greatest surplus.

    So collecting ends as soon as the noise is small enough: at once, if the imbalance is plain. After moves, and some
    time for the rows that they held back, costs and noise are measured anew.

    The patience is how many seconds are collected before a decision, 0.25 to 20. A decision that takes back what the
    last one gave doubles it; a quiet time of four times the patience, or a sudden change of a worker's cost, resets it.
    So moves that do not bring what they promised become rare (flux Fig. 9). All of this assumes that rows cost the same
    whatever their unit: if the rows of one unit cost many times those of another, that is taken for slowness of the
    worker, and patience is all that limits the damage.

    A worker that never had rows is given the mean cost; the cost of one that no longer has rows fades to the mean. A
    plan leaves every worker a unit with rows if it can, so that it shows when the worker becomes fast again.
    """

    name: ClassVar[str] = "flux-auto"

    def __init__(self) -> None:
        self._last: KeyedSnapshot | None = None
        self._reports = Reports()
        self._loads = UnitLoads()
        self._known: dict[tuple[int, int], tuple[float, float]] = {}
        """Cost by worker and incarnation, and when it was last measured."""
        self._since = -inf
        """When collecting began; lies in the future while the rows that moves held back are worked off."""
        self._patience = PATIENCE_S[0]
        self._decided: float | None = None
        self._began = 0.0
        self._phase: KeyedSnapshot | None = None
        """The snapshot at which the moves under way began; None if there are none."""
        self._rate = 0.0
        """Rows a second at that time."""
        self._lost_s, self._lost_units = 0.0, 0.0
        """Seconds of work that moves have cost, and the units moved for it; older moves count less."""
        self._rest = -inf
        """There is no new plan before this time, because the last plan led to no move."""
        self._net: Floats = np.zeros(0)
        """Load that each worker gained by the last decision."""

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """The moves that are certain to help and worth their cost; none while others are under way."""
        before, self._last = self._last, snapshot
        if before is None or not before.comparable(snapshot):
            self._restart(snapshot)
            return []
        if self._moving(before, snapshot) or snapshot.time <= self._since:
            return []
        if snapshot.time - before.time < SHORTEST_S:
            self._last = before
            return []
        report = IntervalReport.between(before, snapshot)
        if report is None:
            self._restart(snapshot)
            return []
        self._collect(report, before, snapshot)
        few = len(snapshot.consumers) < 2 or len(self._reports) < FEWEST
        if few or snapshot.time - self._since < self._patience:
            return []
        moves = self._judge(snapshot)
        if moves:
            self._decided, self._phase = snapshot.time, snapshot
        elif self._decided is None or snapshot.time - self._decided > 4 * self._patience:
            self._patience = PATIENCE_S[0]
        return moves

    def _restart(self, snapshot: KeyedSnapshot) -> None:
        """Workers have changed, or counters went back: forget all but the loads, which do not depend on workers."""
        self._reports.restart(len(snapshot.consumers))
        self._net = np.zeros(len(snapshot.consumers))
        self._since, self._began, self._phase = snapshot.time, snapshot.time, None
        self._patience = PATIENCE_S[0]
        self._loads.resize(len(snapshot.unit_rows))
        self._known = {who: cost for who, cost in self._known.items() if who in snapshot.incarnations}

    def _moving(self, before: KeyedSnapshot, snapshot: KeyedSnapshot) -> bool:
        """Whether moves are under way or have just ended; at their end, learn what they cost and start to collect."""
        if self._phase is None and snapshot.moving == 0 and snapshot.table.version == before.table.version:
            return False
        began = self._phase = self._phase or before
        if snapshot.moving > 0:
            return True
        took, units = snapshot.time - began.time, snapshot.moved - began.moved
        if units > 0 and self._rate > 0:
            rows = max(0.0, float(snapshot.unit_rows.sum() - began.unit_rows.sum()))
            self._lost_s = self._lost_s / 2 + min(took, max(0.1 * took, took - rows / self._rate))
            self._lost_units = self._lost_units / 2 + units
        if snapshot.undone > began.undone:  # a worker does not answer: the same moves would fail again
            self._patience = min(2 * max(self._patience, 1.0), PATIENCE_S[1])
        self._reports.restart(len(snapshot.consumers))
        self._since, self._phase = snapshot.time + min(max(took, 0.1), 1.0), None
        return True

    def _collect(self, report: IntervalReport, before: KeyedSnapshot, snapshot: KeyedSnapshot) -> None:
        """Take in what happened since the snapshot before."""
        rows = snapshot.unit_asked - before.unit_asked
        if rows.min(initial=0) >= 0:
            half_life = min(max((snapshot.time - self._since) / 2, HALF_LIFE_S[0]), HALF_LIFE_S[1])
            self._loads.add(rows, 0.5 ** ((snapshot.time - before.time) / half_life))
        if self._reports.add(report):
            self._patience = PATIENCE_S[0]

    def _judge(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """The moves of the best plan, if the three conditions hold."""
        workers = np.array([consumer.worker for consumer in snapshot.consumers])
        owner = places(snapshot.table.owners, workers)
        cost, error = self._costs(snapshot)
        idle = self._reports.utilisation().max() < BOTTLENECK
        if idle or not cost.min() > 0 or not self._loads.rows[owner >= 0].any():
            return []
        load, chance = self._loads.shares(owner, len(workers), self._reports)
        hottest, even = int(np.argmax(load)), 1 / float((1 / cost).sum())
        hot = float(cost.min() * load[hottest])
        times = np.bincount(owner[owner >= 0], load[owner >= 0], len(workers)) * cost
        bound, slowest = max(even, hot), int(np.argmax(times))
        possible = 1 - bound / float(times[slowest])
        varies, least = float(chance[slowest]), LEAST_GAIN
        if hot > even and owner[hottest] == slowest:
            varies *= sqrt(max(0.0, possible * (1 - possible)))  # each of its rows stays or goes: binomial
            least = LEAST_HOT_GAIN
        noise = sqrt(max(float(error[slowest]) ** 2, float((error**2).mean())) + varies**2)
        sure = max(least, (2 + sqrt(2 * log(len(workers)))) * noise)
        if possible <= sure or snapshot.time < self._rest:
            return []
        limits = self._limits(snapshot)
        plans = [plan(owner, load, cost, bound, hottest_first, limits) for hottest_first in (False, True)]
        placed = self._best(snapshot, plans, sure)
        if placed is None:
            self._rest = snapshot.time + REST_S
            return []
        after = np.bincount(placed[owner >= 0], load[owner >= 0], len(workers)) * cost
        self._promise((after - times) / cost)
        told = (
            f"worker {workers[slowest]} takes {times[slowest] / bound:.2f} of the least possible time, "
            f"{after.max() / bound:.2f} after; noise {noise:.3f}"
        )
        return moves_between(snapshot.region, owner, placed, workers, told)

    def _limits(self, snapshot: KeyedSnapshot) -> StateLimits | None:
        """How much state each worker may get; None for no limit."""
        return None

    def _promise(self, net: Floats) -> None:
        """Note the load that a decision gives each worker; if it takes back what the last gave, double the patience."""
        if (net * self._net).sum() < 0:
            self._patience = min(2 * self._patience, PATIENCE_S[1])
        self._net = net
        self._rate = self._reports.rate()

    def _costs(self, snapshot: KeyedSnapshot) -> tuple[Floats, Floats]:
        """c_j of each worker, and its standard error relative to it; all 0 if no worker had rows."""
        cost, error, mean = self._reports.costs()
        for place, who in enumerate(snapshot.incarnations if mean else ()):
            if cost[place] > 0:
                self._known[who] = (float(cost[place]), snapshot.time)
            else:
                known, when = self._known.get(who, (mean, snapshot.time))
                cost[place] = mean + (known - mean) * 0.5 ** ((snapshot.time - when) / SILENT_S)
        return cost, error

    def _best(self, snapshot: KeyedSnapshot, plans: list[list[Step]], sure: float) -> Ints | None:
        """Owners after the steps that leave the greatest surplus of time; None if no gain is sure and worth it."""
        quiet = snapshot.time - (self._began if self._decided is None else self._decided)
        horizon = min(max(quiet, HORIZON_S[0]), HORIZON_S[1])
        best, most = None, 0.0
        for steps in plans:
            spent = 0.0
            for step in steps[1:]:
                spent += self._seconds(snapshot, step.units)
                gain = 1 - step.worst / steps[0].worst
                if gain > sure and gain * horizon - spent > most:
                    best, most = (steps, step), gain * horizon - spent
        if best is None:
            return None
        steps, last = best
        placed = steps[0].placed.copy()
        for step in steps[1:]:
            placed[step.units] = step.placed
            if step is last:
                break
        return placed

    def _seconds(self, snapshot: KeyedSnapshot, units: Units) -> float:
        """Seconds that moving `units` will cost, judged by earlier moves in proportion to the bytes moved."""
        size = float(snapshot.unit_bytes[units].sum())
        if self._lost_units == 0:
            return UNIT_S * len(units) + size / 1e8
        each = self._lost_s / self._lost_units
        if snapshot.bytes_moved > 0 and size > 0:
            return each * size / (snapshot.bytes_moved / snapshot.moved)
        return each * len(units)
