"""Flux: the load-balancing policy of flux §5.3, with its three parameters."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.model.given import number_of
from evenflow.policy.keyed.flux.rounds import Rounds
from evenflow.policy.keyed.owners import Floats, Ints

EQUAL = 1e-9
"""Utilisations whose relative difference is smaller are equal."""


@dataclass
class Flux(Rounds):
    """Rounds of a collection phase and a move phase (see `Rounds`); at most one unit moves in each pair of workers.

    After a collection phase of `delta` seconds, worker j has been idle for I_j and unit p has had N_p rows:

        U_j = 1 - I_j / delta          T_j = sum of N_p over the units of j

    Workers are sorted by falling U_j and paired from the ends toward the middle: a donor and a receiver. Pairs are
    looked at in turn, until one fails the test: U_d is at least the mean, U_d / U_r is at least `th_imb`, U_r is at
    most `th_util`. In each pair, the donor's units are tried by falling N_p, and the first that makes the ratio of the
    two utilisations smaller is moved, unless U'_r > 1:

        U'_d = U_d (1 - N_p / T_d)     U'_r = U_r (1 + N_p / T_r)

    Symbols are those of flux §5.3. A receiver without rows or without busy time has no rate U_r / T_r of its own; it is
    given the average, sum of U_j / sum of T_j over the workers that have one. With no rows at all nothing moves.
    """

    name: ClassVar[str] = "flux"

    th_imb: float = 1.2
    th_util: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thresholds(self.th_imb, self.th_util)

    def _round(self, before: KeyedSnapshot, now: KeyedSnapshot) -> list[MoveUnits]:
        return balance_load(before, now, self.th_imb, self.th_util)


def check_thresholds(th_imb: float, th_util: float) -> None:
    """Refuse thresholds that mean nothing."""
    check_imbalance(th_imb)
    if not 0 < number_of(th_util) <= 1:
        raise InvalidArgument(f"th_util is {th_util!r:.100}: give a utilisation above 0, at most 1")


def check_imbalance(th_imb: float) -> None:
    """Refuse a threshold of imbalance that means nothing."""
    if not 1 <= number_of(th_imb) < inf:
        raise InvalidArgument(f"th_imb is {th_imb!r:.100}: give a ratio of two utilisations, at least 1")


def balance_load(
    before: KeyedSnapshot, now: KeyedSnapshot, th_imb: float, th_util: float, room: Floats | None = None
) -> list[MoveUnits]:
    """The moves of one round; with `room`, in bytes by worker, only units whose state fits (flux §6.4)."""
    rows = now.unit_rows - before.unit_rows
    owners, workers = now.table.owners, [consumer.worker for consumer in now.consumers]
    used = _utilisation(before, now)
    total = np.array([rows[owners == worker].sum() for worker in workers], np.float64)
    measured = (used > 0) & (total > 0)
    if not measured.any():
        return []
    average = float(used[measured].sum() / total[measured].sum())
    rate = np.where(measured, used / np.maximum(total, 1), average)
    mean = float(used.mean())
    order = sorted(range(len(workers)), key=lambda j: (-used[j], workers[j]))
    moves = []
    for donor, receiver in zip(order[: len(order) // 2], reversed(order), strict=False):
        u_d, u_r = float(used[donor]), float(used[receiver])
        if _less(u_d, mean) or _less(u_d, th_imb * u_r) or _less(th_util, u_r):
            break
        units = np.flatnonzero((owners == workers[donor]) & (rows > 0))
        if room is not None:
            units = units[now.unit_bytes[units] <= room[receiver]]
        units = units[np.argsort(-rows[units], kind="stable")]
        found = _first(rows[units], u_d, u_r, float(total[donor]), float(rate[receiver]))
        if found is not None:
            reason = f"utilisation {u_d:.2f} and {u_r:.2f}, mean {mean:.2f}"
            unit = (int(units[found]),)
            moves.append(MoveUnits(now.region, unit, workers[donor], workers[receiver], reason))
    return moves


def _first(rows: Ints, u_d: float, u_r: float, total: float, rate: float) -> int | None:
    """Place of the first unit that makes the ratio smaller; None if there is none, or it overloads the receiver."""
    if not len(rows):
        return None
    donor, receiver = u_d * (1 - rows / total), u_r + rate * rows
    least, most = np.minimum(donor, receiver), np.maximum(donor, receiver)
    # most / least < u_d / u_r, without dividing by what may be 0; two ratios that are both infinite are equal.
    better = (most * u_r < u_d * least * (1 - EQUAL)) & (least > EQUAL)
    if not better.any():
        return None
    place = int(np.argmax(better))
    return None if _less(1.0, float(receiver[place])) else place


def _less(one: float, other: float) -> bool:
    """Whether one is less than the other, by more than rounding."""
    return one < other * (1 - EQUAL)


def _utilisation(before: KeyedSnapshot, now: KeyedSnapshot) -> Floats:
    """U_j of each worker, over the time between its own two reports."""
    idle = [c.idle_s - b.idle_s for b, c in zip(before.consumers, now.consumers, strict=True)]
    covered = [c.seconds - b.seconds for b, c in zip(before.consumers, now.consumers, strict=True)]
    apart = now.time - before.time
    return np.clip([1 - i / (s if s > 0 else apart) for i, s in zip(idle, covered, strict=True)], 0.0, 1.0)
