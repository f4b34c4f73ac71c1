"""The search for an equilibrium: a placement in which no move of one operator and no swap of two lowers the total."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evenflow.policy.graph.energies.landscape import Landscape
from evenflow.policy.graph.placement import Ints

EQUAL = 1e-9
"""Totals whose relative difference is smaller are equal."""


def least_gain(total: float) -> float:
    """What a change must save at least, so that rounding alone moves nothing."""
    return EQUAL * max(1.0, abs(total))


def fill(landscape: Landscape, hosts: Sequence[int], order: Iterable[int]) -> None:
    """Place the operators that have a host, then the others in an order, each where the total grows least."""
    for operator, host in enumerate(hosts):
        if host >= 0:
            landscape.add(operator, host)
    for operator in order:
        if hosts[operator] < 0:
            landscape.add(operator, int(np.argmin(landscape.costs(operator))))


def settle(landscape: Landscape, movable: Ints, rounds: int) -> bool:
    """Move and swap operators until nothing lowers the total; False if that took more than so many rounds.

    Moves first, each operator to its best host; swaps when no move is left. Every step lowers the total, so that no
    placement comes back.
    """
    for _ in range(rounds):
        least = least_gain(landscape.total())
        if not _move_all(landscape, movable, least) and not _swap_all(landscape, movable, least):
            return True
    return False


def _move_all(landscape: Landscape, movable: Ints, least: float) -> bool:
    moved = False
    for operator in movable.tolist():
        here = landscape.placed[operator]
        landscape.remove(operator)
        costs = landscape.costs(operator)
        best = int(np.argmin(costs))
        better = bool(costs[best] < costs[here] - least)
        landscape.add(operator, best if better else here)
        moved = moved or better
    return moved


def _swap_all(landscape: Landscape, movable: Ints, least: float) -> bool:
    """Swap, for each operator, with the first that helps; each pair is tried from the operator that comes first."""
    swapped = False
    for place, operator in enumerate(movable.tolist()):
        others = movable[place + 1 :]
        here = landscape.placed[operator]
        others = others[np.array(landscape.placed)[others] != here]
        other = landscape.swap(operator, others, least) if len(others) else None
        if other is not None:
            there = landscape.placed[other]
            landscape.remove(operator)
            landscape.remove(other)
            landscape.add(operator, there)
            landscape.add(other, here)
            swapped = True
    return swapped
