"""Flux without parameters: it finds out by itself how long to collect and what imbalance is worth a move.

Flux §5.4 ends with "autotuning of these values is an interesting and necessary direction for future work". This is it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.placement import Floats, Ints, Limits, Step, Units, plan

REPORTS = 32
"""Reports kept: what costs and noise are measured over."""
FEWEST = 3
"""Reports before anything is decided, and reports that must agree before a worker's cost has changed."""
HALF_LIFE_S = (0.5, 5.0)
"""Rows this old count half in the load of a unit: half as old as the time since the last moves, within these."""
LEAST_GAIN = 0.03
"""Less is never worth a move, however sure."""
BOTTLENECK = 0.7
"""Utilisation of the busiest worker below which the source is the limit, not the workers."""
PATIENCE_S = (0.25, 20.0)
"""Seconds collected anew before the next decision: at first, and at most."""
HORIZON_S = (10.0, 60.0)
"""Seconds that a gain is expected to last: as long as things have been quiet, within these."""
SILENT_S = 10.0
"""Half-life of what is known of a worker's cost when it no longer has rows."""
SHORTEST_S = 0.095
"""Reports that come sooner are taken together: what is kept then covers at least 3 s."""
REST_S = 0.5
"""Seconds after a plan that came to nothing until the next is made: with many units, plans are work."""
ROUNDING = 1e-6
"""Sums of seconds may go back by this much without having been counted anew."""


@dataclass(frozen=True, slots=True)
class _Report:
    """What happened between two snapshots, by worker."""

    seconds: Floats
    idle: Floats
    busy: Floats
    rows: Floats


class FluxAuto:
    """Move units, several at once, when it is certain and pays; no parameters.

    With c_j = busy_s / rows the cost of a row on worker j and l_u the share of all rows that falls on unit u,

        t_j = c_j * (sum of l_u over the units of j)      seconds that j needs for one row of the whole

    and throughput is 1 / max t_j. No placement can beat

        T* = max(1 / sum(1 / c_j),  min c_j * max l_u).

    Costs come from the last reports, those before a sudden change left out; loads from all reports without moves, which
    fade more slowly the longer nothing has moved. So a worker that slows down shows at once, though the rows it no
    longer gets through make its units look lighter. What chance explains is taken out of loads (see `_smooth`).

    Moves begin only if all of this holds:

    1. the busiest worker's utilisation is above 0.7: otherwise the source is the limit, and nothing can be gained;
    2. the plan's gain, 1 - max t'_j / max t_j, is above 3 % and above the noise: (2 + sqrt(2 ln N)) times the standard
       error of the slowest of N workers' t_j, which follows from how costs and shares vary from report to report;
    3. the gain, for as long as things have been quiet so far (10 to 60 s), is more time than the moves cost, judged by
       the rows that moves have cost so far. Of a plan, as many steps are taken as leave the greatest surplus.

    This is the collection time: it ends when the noise is small enough, at once if the imbalance is plain. After moves,
    and a while to drain what they held back, costs and noise are measured anew. A decision that takes back what the
    last one gave doubles the seconds that must be collected before a decision, 0.25 to 20; a quiet time of four times
    as much, or a worker whose cost changed suddenly, sets them back. So moves that do not bring what they promised
    become rare (flux Fig. 9). The promise rests on rows that cost the same whatever their unit: where one unit's rows
    cost many times another's, that is taken for the worker's slowness, and patience is all that limits the damage.

    A worker that never had rows counts as the mean; what is known of one that no longer has any fades to the mean. A
    plan leaves every worker a unit with rows if it can, so that capacity that comes back is seen.
    """

    name: ClassVar[str] = "flux-auto"
    by_content: ClassVar[bool] = True

    def __init__(self) -> None:
        self._last: KeyedSnapshot | None = None
        self._reports: deque[_Report] = deque(maxlen=REPORTS)
        self._loads: Floats = np.zeros(0)
        self._squares = 0.0
        """Rows, weighted by the square of what they count in loads: the variance that loads have by chance."""
        self._fresh: Ints = np.zeros(0, np.int64)
        """For each worker, how many of the last reports tell its present cost."""
        self._known: dict[tuple[int, int], tuple[float, float]] = {}
        """Cost by worker and incarnation, and when it was last measured."""
        self._since = -inf
        """When collecting began; in the future while what moves held back drains."""
        self._patience = PATIENCE_S[0]
        self._decided: float | None = None
        self._began = 0.0
        self._phase: KeyedSnapshot | None = None
        """What things were like when the moves began that are under way."""
        self._rate = 0.0
        """Rows a second then."""
        self._lost_s, self._lost_units = 0.0, 0.0
        """Seconds without rows that moves have cost, and the units moved at that price; older moves count less."""
        self._rest = -inf
        """No plan before that, since the last came to nothing."""
        self._net: Floats = np.zeros(0)
        """Load that each worker gained by the last decision."""

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """The moves that are certain to help and pay; none while others are under way."""
        before, self._last = self._last, snapshot
        if before is None or not _same_workers(before, snapshot):
            self._restart(snapshot)
            return []
        if self._moving(before, snapshot) or snapshot.time <= self._since:
            return []
        if snapshot.time - before.time < SHORTEST_S:
            self._last = before
            return []
        report = _difference(before, snapshot)
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
        """Other workers, or counters that went back: only loads, which are the keys', outlast that."""
        self._reports.clear()
        self._fresh = np.zeros(len(snapshot.consumers), np.int64)
        self._net = np.zeros(len(snapshot.consumers))
        self._since, self._began, self._phase = snapshot.time, snapshot.time, None
        self._patience = PATIENCE_S[0]
        if len(self._loads) != len(snapshot.unit_rows):
            self._loads, self._squares = np.zeros(len(snapshot.unit_rows)), 0.0
        present = {(consumer.worker, consumer.incarnation) for consumer in snapshot.consumers}
        self._known = {who: cost for who, cost in self._known.items() if who in present}

    def _moving(self, before: KeyedSnapshot, snapshot: KeyedSnapshot) -> bool:
        """Whether moves are under way or have just ended; at their end, learn what they took and start to collect."""
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
        if snapshot.undone > began.undone:  # somebody does not answer: the same again would fare no better
            self._patience = min(2 * max(self._patience, 1.0), PATIENCE_S[1])
        self._reports.clear()
        self._fresh[:] = 0
        self._since, self._phase = snapshot.time + min(max(took, 0.1), 1.0), None
        return True

    def _collect(self, report: _Report, before: KeyedSnapshot, snapshot: KeyedSnapshot) -> None:
        rows = _asked(snapshot) - _asked(before)
        if rows.min(initial=0) >= 0:
            half_life = min(max((snapshot.time - self._since) / 2, HALF_LIFE_S[0]), HALF_LIFE_S[1])
            fading = 0.5 ** ((snapshot.time - before.time) / half_life)
            self._loads = fading * self._loads + rows
            self._squares = fading**2 * self._squares + float(rows.sum())
        self._reports.append(report)
        self._fresh = np.minimum(self._fresh + 1, len(self._reports))
        changed = _changed(self._reports, self._fresh)
        if changed.any():
            self._fresh[changed] = FEWEST
            self._patience = PATIENCE_S[0]

    def _judge(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        seconds, idle, _, _ = _sums(self._reports)
        used = 1 - idle / np.maximum(seconds, 1e-9)
        workers = np.array([consumer.worker for consumer in snapshot.consumers])
        owner = places(snapshot.table.owners, workers)
        cost, error = self._costs(snapshot)
        if used.max() < BOTTLENECK or not cost.min() > 0 or not self._loads[owner >= 0].any():
            return []
        load, chance = self._shares(owner, len(workers))
        hottest, even = int(np.argmax(load)), 1 / float((1 / cost).sum())
        hot = float(cost.min() * load[hottest])
        times = np.bincount(owner[owner >= 0], load[owner >= 0], len(workers)) * cost
        bound, slowest = max(even, hot), int(np.argmax(times))
        possible = 1 - bound / float(times[slowest])
        varies = float(chance[slowest])
        if hot > even and owner[hottest] == slowest:
            varies *= sqrt(max(0.0, possible * (1 - possible)))  # rows of its own, to stay or to go: binomial
        noise = sqrt(max(float(error[slowest]) ** 2, float((error**2).mean())) + varies**2)
        sure = max(LEAST_GAIN, (2 + sqrt(2 * log(len(workers)))) * noise)
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

    def _limits(self, snapshot: KeyedSnapshot) -> Limits | None:
        """How much state workers may get; as much as they like."""
        return None

    def _shares(self, owner: Ints, workers: int) -> tuple[Floats, Floats]:
        """l_u, 0 for units nobody owns, and by how much the share of each worker may be off by chance."""
        owned = owner >= 0
        total = float(self._loads[owned].sum())
        chance = self._share_error(np.bincount(owner[owned], self._loads[owned], workers).astype(np.float64), total)
        load, real = _smooth(self._loads, owner, chance, self._squares / total)
        return np.where(owned, load, 0.0) / total, real * chance

    def _promise(self, net: Floats) -> None:
        """Note what a decision gives each worker; one that takes back what the last gave doubles the patience."""
        if float(net @ self._net) < 0:
            self._patience = min(2 * self._patience, PATIENCE_S[1])
        self._net = net
        seconds, _, _, rows = _sums(self._reports)
        self._rate = float(rows.sum() / max(seconds.max(), 1e-9))

    def _costs(self, snapshot: KeyedSnapshot) -> tuple[Floats, Floats]:
        """c_j = sum of busy / sum of rows over a worker's fresh reports, and its standard error relative to it.

        The error is that of a ratio: with e_i = busy_i - c rows_i, sqrt(n / (n - 1) * sum of e_i^2) / sum of busy.
        """
        busy, rows = _stacked(self._reports)
        fresh = np.arange(len(busy))[:, None] >= len(busy) - self._fresh[None, :]
        busy, rows = np.where(fresh, busy, 0.0), np.where(fresh, rows, 0.0)
        used, done = busy.sum(axis=0), rows.sum(axis=0)
        seen = (used > 0) & (done > 0)
        if not seen.any():
            return np.zeros(len(used)), np.zeros(len(used))
        cost = np.where(seen, used / np.maximum(done, 1), 0.0)
        count = np.maximum(self._fresh, 2)
        spread = np.sqrt(((busy - cost * rows) ** 2).sum(axis=0) * count / (count - 1))
        error = np.where(seen, spread / np.where(seen, used, 1.0), 0.0) * (1 + 3 / count)
        mean = float(used[seen].sum() / done[seen].sum())
        for place, consumer in enumerate(snapshot.consumers):
            who = (consumer.worker, consumer.incarnation)
            if seen[place]:
                self._known[who] = (float(cost[place]), snapshot.time)
            else:
                known, when = self._known.get(who, (mean, snapshot.time))
                cost[place] = mean + (known - mean) * 0.5 ** ((snapshot.time - when) / SILENT_S)
        return cost, error

    def _share_error(self, loads: Floats, total: float) -> Floats:
        """Standard error of each worker's share of the rows, relative to it; never below that of counts.

        Measured from report to report since the last moves, so that a step in the shares, which is news, adds little.
        Loads remember more rows than those, or fewer, and vary less, or more.
        """
        _, rows = _stacked(self._reports)
        done, all_rows = rows.sum(axis=0), rows.sum(axis=1)
        count = len(rows)
        off = np.diff(rows - done / max(float(all_rows.sum()), 1.0) * all_rows[:, None], axis=0)
        spread = (off**2).sum(axis=0) / 2 * count / (count - 1) / np.maximum(done, 1) ** 2
        weight = self._squares / total
        error: Floats = np.sqrt(np.maximum(spread * float(all_rows.sum()) / total, 1 / np.maximum(loads, 1)) * weight)
        return error

    def _best(self, snapshot: KeyedSnapshot, plans: list[list[Step]], sure: float) -> Ints | None:
        """Owners after the steps that leave the greatest surplus of time; None if no gain is sure, or none pays."""
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
        """Seconds that moving `units` will cost: what moves cost so far, in proportion to their bytes."""
        size = float(snapshot.unit_bytes[units].sum())
        if self._lost_units == 0:
            return 0.001 * len(units) + size / 1e8
        each = self._lost_s / self._lost_units
        if snapshot.bytes_moved > 0 and size > 0:
            return each * size / (snapshot.bytes_moved / snapshot.moved)
        return each * len(units)


def _asked(snapshot: KeyedSnapshot) -> Ints:
    """Rows of each unit: those that came in, which is what the workers have to do; if that is not known, those done."""
    return snapshot.unit_rows if snapshot.unit_arrived is None else snapshot.unit_arrived


def _smooth(loads: Floats, owner: Ints, chance: Floats, weight: float) -> tuple[Floats, float]:
    """Loads of units with differences taken out as far as chance explains them, first of workers, then of units.

    Worker j has n_j units of mean load m_j, the mean of all is m; by chance m_j is off by chance_j * m_j. What is more
    than that is real, and the like holds for units in a worker, whose n_u vary by chance with variance `weight` * m:

        r  = max(0, 1 - sum of n_j (chance_j m_j)^2 / sum of n_j (m_j - m)^2)      m'_j = m + r (m_j - m)
        r' = max(0, 1 - weight * m / variance of n_u in workers)                   l_u  = m'_j + r' (n_u - m_j)

    Also returns r. Without this, workers and units that happened to have more rows of late would be taken for loaded,
    and moves would go on for ever.
    """
    owned = owner >= 0
    place, workers = np.where(owned, owner, 0), len(chance)
    count = np.bincount(owner[owned], minlength=workers)
    mean = np.bincount(owner[owned], loads[owned], workers) / np.maximum(count, 1)
    overall = float(loads[owned].mean())
    between = float((count * (mean - overall) ** 2).sum())
    real = max(0.0, 1 - float((count * (chance * mean) ** 2).sum()) / between) if between > 0 else 0.0
    off = np.where(owned, loads - mean[place], 0.0)
    within = float((off**2).sum() / owned.sum())
    kept = max(0.0, 1 - weight * overall / within) if within > 0 else 0.0
    drawn = overall + real * (mean - overall)
    smooth: Floats = np.maximum(drawn[place] + kept * off, 0.0)
    return smooth, real


def moves_between(
    region: str, owner: Ints, placed: Ints, workers: Ints, reason: str, detail: Mapping[str, Any] | None = None
) -> list[MoveUnits]:
    """One MoveUnits a pair of workers, from owners before and after."""
    units = np.flatnonzero(owner != placed)
    pair = owner[units] * len(workers) + placed[units]
    order = np.argsort(pair, kind="stable")
    units, pair = units[order], pair[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    ends = np.append(starts, len(units))[1:].tolist()
    sources, targets = (workers[place].tolist() for place in np.divmod(pair[starts], len(workers)))
    listed, told = units.tolist(), detail or {}
    lots = [tuple(listed[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    return [MoveUnits(region, lot, s, t, reason, told) for lot, s, t in zip(lots, sources, targets, strict=True)]


def _changed(reports: deque[_Report], fresh: Ints) -> npt.NDArray[np.bool_]:
    """Workers whose cost in each of the last 3 reports is off the mean of those before, by 15 % and by 4 deviations."""
    busy, rows = _stacked(reports)
    if len(busy) < 2 * FEWEST:
        return np.zeros(len(fresh), bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(rows > 0, busy / rows, np.nan)
    known = np.arange(len(cost))[:, None] >= len(cost) - fresh[None, :]
    old = np.where(known & ~np.isnan(cost), cost, 0.0)[:-FEWEST]
    count = (old > 0).sum(axis=0)
    mean = old.sum(axis=0) / np.maximum(count, 1)
    deviation = np.sqrt(np.where(old > 0, (old - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count - 1, 1))
    off = cost[-FEWEST:] - mean
    by = np.maximum(0.15 * mean, 4 * deviation)
    changed: npt.NDArray[np.bool_] = (count >= FEWEST) & ((off > by).all(axis=0) | (off < -by).all(axis=0))
    return changed


def _stacked(reports: deque[_Report]) -> tuple[Floats, Floats]:
    return np.stack([report.busy for report in reports]), np.stack([report.rows for report in reports])


def _sums(reports: deque[_Report]) -> tuple[Floats, Floats, Floats, Floats]:
    names = ("seconds", "idle", "busy", "rows")
    seconds, idle, busy, rows = (np.sum([getattr(report, name) for report in reports], axis=0) for name in names)
    return seconds, idle, busy, rows


def places(owners: npt.NDArray[np.int32], workers: Ints) -> Ints:
    """The place among `workers` of each unit's owner; -1 where it is not among them."""
    order = np.argsort(workers)
    at = np.minimum(np.searchsorted(workers[order], owners), len(workers) - 1)
    places: Ints = np.where(workers[order][at] == owners, order[at], -1)
    return places


def _same_workers(before: KeyedSnapshot, now: KeyedSnapshot) -> bool:
    return len(before.unit_rows) == len(now.unit_rows) and [(c.worker, c.incarnation) for c in before.consumers] == [
        (c.worker, c.incarnation) for c in now.consumers
    ]


def _difference(before: KeyedSnapshot, now: KeyedSnapshot) -> _Report | None:
    """What happened between two snapshots; None if a counter went back."""
    pairs = list(zip(before.consumers, now.consumers, strict=True))
    table = np.array(
        [(c.seconds - b.seconds, c.idle_s - b.idle_s, c.busy_s - b.busy_s, c.rows - b.rows) for b, c in pairs],
        np.float64,
    ).reshape(-1, 4)
    return None if table.min(initial=0.0) < -ROUNDING else _Report(*np.maximum(table, 0.0).T)
