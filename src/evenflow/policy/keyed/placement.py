"""Where units should be: plans that even out, step by step, how long the workers take."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from evenflow.policy.keyed.owners import Floats, Ints, Units

CLOSE = 1.003
"""A plan is complete when the slowest worker takes at most this multiple of the least possible time."""
FORCED = 3
"""How often a plan may move a unit although that makes the slowest worker slower."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step of a plan. The first step of each plan is its start, and moves nothing."""

    units: Units
    placed: Ints
    """The places that the units go to; in the first step, the owners of all units."""
    worst: float
    """Seconds that the slowest worker takes for a row of the whole after this step."""


@dataclass(frozen=True, slots=True, eq=False)
class StateLimits:
    """Limits on the state that a plan may give to workers."""

    size: Ints
    """Bytes of each unit."""
    room: Floats
    """Bytes that each worker may get."""


class _Level:
    """Times by worker, and each worker's loaded units by falling load, while a plan is made.

    A unit that leaves a worker makes no room there: it may still be there when other units arrive.
    """

    def __init__(self, owner: Ints, load: Floats, cost: Floats, limits: StateLimits | None) -> None:
        self.cost, self.load = cost, load
        self.size = np.zeros(len(owner), np.int64) if limits is None else limits.size
        self.room = np.full(len(cost), inf) if limits is None else limits.room.copy()
        owned = np.flatnonzero((owner >= 0) & (load > 0))
        self.times: Floats = np.bincount(owner[owned], load[owned], len(cost)) * cost
        order = owned[np.argsort(owner[owned], kind="stable")]
        self._ends = np.searchsorted(owner[order], np.arange(len(cost) + 1))
        self._order, self._units, self._added = order, dict[int, Units](), dict[int, list[Units]]()
        self._gone = np.zeros(len(owner), bool)
        self.steps = [Step(order[:0], owner, float(self.times.max()))]

    def units(self, worker: int) -> Units:
        """A worker's units by falling load; sorted here, when they are asked for."""
        parts = self._added.pop(worker, [])
        if worker not in self._units:
            parts.append(self._order[self._ends[worker] : self._ends[worker + 1]])
        if parts:
            units = np.concatenate([self._units.get(worker, self._order[:0]), *parts])
            self._units[worker] = units[np.argsort(-self.load[units], kind="stable")]
        return self._units[worker]

    def shift(self, moves: list[tuple[Units, int, int]]) -> None:
        """Take one step; each move is some units, the worker that gives them and the worker that takes them."""
        for units, giver, taker in moves:
            amount = float(self.load[units].sum())
            self.times[giver] -= self.cost[giver] * amount
            self.times[taker] += self.cost[taker] * amount
            self.room[taker] -= float(self.size[units].sum())
            left = self.units(giver)
            self._gone[units] = True
            self._units[giver] = left[~self._gone[left]]
            self._gone[units] = False
            self._added.setdefault(taker, []).append(units)
        every = np.concatenate([units for units, _, _ in moves])
        targets = np.concatenate([np.full(len(units), taker, np.int64) for units, _, taker in moves])
        self.steps.append(Step(every, targets, float(self.times.max())))


def plan(
    owner: Ints, load: Floats, cost: Floats, bound: float, hottest_first: bool, limits: StateLimits | None = None
) -> list[Step]:
    """Steps that lower the slowest worker's time toward the bound; each takes units from the worker then slowest.

    When no step helps at once, up to FORCED times a unit is moved all the same, so that later steps can move others out
    of its way. With `hottest_first` the plan begins like that: the hottest unit goes to the fastest worker. So a step
    may make things worse, and a caller that takes only the first steps must choose well where to stop. No step exceeds
    the `limits`.
    """
    level = _Level(owner, load, cost, limits)
    if hottest_first:
        hottest, fastest = int(np.argmax(np.where(owner >= 0, load, -1.0))), int(np.argmin(cost))
        holder = int(owner[hottest])
        fits = level.size[hottest] <= level.room[fastest]
        if cost[fastest] > 0.95 * cost[holder] or cost[holder] * load[hottest] <= bound or not fits:
            return level.steps
        level.shift([(np.array([hottest]), holder, fastest)])
    forced = 0
    for _ in range(4 * len(cost) + 64):
        donor = int(np.argmax(level.times))
        if level.times[donor] <= bound * CLOSE:
            break
        lots = _run(level, donor, bound) or _single(level, donor) or _swap(level, donor)
        if not lots and forced < FORCED:
            lots, forced = _force(level, donor), forced + 1
        if not lots:
            break
        for part in _parts(lots):
            level.shift(part)
    return level.steps


def _parts(lots: list[tuple[Units, int, int]]) -> list[list[tuple[Units, int, int]]]:
    """Several units of one worker in steps of 1, 2, 4, ... units, so that a caller can stop when the rest is too light.

    The few hot units are most of what is gained, the many light ones behind them most of what it costs.
    """
    if len(lots) > 1:
        return [lots]
    ((units, donor, receiver),) = lots
    edges = 2 ** np.arange(1, len(units).bit_length()) - 1
    return [[(part, donor, receiver)] for part in np.split(units, edges) if len(part)]


def _run(level: _Level, donor: int, bound: float) -> list[tuple[Units, int, int]]:
    """Units, largest first, to the worker with most room: no more than it can take, and than the donor has too much."""
    room = (bound - level.times) / level.cost
    room[level.room <= 0] = -1.0
    room[donor] = -1.0
    receiver = int(np.argmax(room))
    fits = min(float((level.times[donor] - bound) / level.cost[donor]), float(room[receiver]))
    units = level.units(donor)
    start = int(np.searchsorted(-level.load[units], -fits))
    units = units[start:-1]  # the lightest stays: a worker without rows could not show that it is fast again
    units = units[level.size[units] <= level.room[receiver]]
    count = int(np.searchsorted(np.cumsum(level.load[units]), fits, side="right"))
    held = int(np.searchsorted(np.cumsum(level.size[units]), level.room[receiver], side="right"))
    units = units[: min(count, held)]
    return [(units, donor, receiver)] if len(units) else []


def _single(level: _Level, donor: int) -> list[tuple[Units, int, int]]:
    """The one unit and the receiver after which the slower of donor and receiver is fastest; empty if no better."""
    units, times, cost = level.units(donor), level.times, level.cost
    if not len(units):
        return []
    ideal = (times[donor] - times) / (cost[donor] + cost)
    at = np.searchsorted(-level.load[units], -ideal)
    near = np.clip(np.stack([at - 1, at]), 0, len(units) - 1)
    amount = level.load[units][near]
    after = np.maximum(times[donor] - cost[donor] * amount, times + cost * amount)
    after[level.size[units][near] > level.room] = inf
    after[:, donor] = inf
    which, receiver = np.unravel_index(int(np.argmin(after)), after.shape)
    if after[which, receiver] > 0.998 * times[donor]:
        return []
    return [(units[near[which, receiver]][None], donor, int(receiver))]


def _swap(level: _Level, donor: int) -> list[tuple[Units, int, int]]:
    """A heavy unit of the donor, exchanged for a lighter one of a worker with time to spare; empty if no better."""
    times, cost = level.times, level.cost
    mine = level.units(donor)[:256]
    best, found = 0.995 * float(times[donor]), []
    for other in np.argsort(times, kind="stable")[:4]:
        theirs = level.units(int(other))
        if other == donor or not len(theirs) or not len(mine):
            continue
        ideal = (times[donor] - times[other]) / (cost[donor] + cost[other])
        at = np.searchsorted(-level.load[theirs], -(level.load[mine] - ideal))
        near = np.clip(np.stack([at - 1, at]), 0, len(theirs) - 1)
        amount = level.load[mine] - level.load[theirs][near]
        after = np.maximum(times[donor] - cost[donor] * amount, times[other] + cost[other] * amount)
        after[(level.size[mine] > level.room[other]) | (level.size[theirs][near] > level.room[donor])] = inf
        row, column = np.unravel_index(int(np.argmin(after)), after.shape)
        if after[row, column] < best:
            best = float(after[row, column])
            taken = theirs[near[row, column]]
            found = [(mine[column][None], donor, int(other)), (taken[None], int(other), donor)]
    return found


def _force(level: _Level, donor: int) -> list[tuple[Units, int, int]]:
    """The donor's lightest unit, to the worker that takes least time afterwards, although that is more than before.

    Not its only one: that would take as long elsewhere, and others would have to make room for it.
    """
    units = level.units(donor)[-1:]
    if len(level.units(donor)) < 2:
        return []
    after = level.times + level.cost * level.load[units[0]]
    after[level.size[units[0]] > level.room] = inf
    after[donor] = inf
    receiver = int(np.argmin(after))
    return [(units, donor, receiver)] if after[receiver] < inf else []
