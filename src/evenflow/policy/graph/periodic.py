"""Periodic optimisation: which operators stay where they are, so that little is moved (potential-driven §4.2)."""

from __future__ import annotations

from math import floor, inf

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.placement import Ints, by_load, pins


def check_theta(theta: float, theta_bytes: float, theta_s: float) -> None:
    """Refuse thresholds that mean nothing."""
    if not 0 <= number_of(theta) <= 1:
        raise InvalidArgument(f"theta is {theta!r:.100}: give the part of the operators that stay, from 0 to 1")
    if not number_of(theta_bytes) >= 0:
        raise InvalidArgument(f"theta_bytes is {theta_bytes!r:.100}: give the bytes of state that may move, 0 or more")
    if not number_of(theta_s) >= 0:
        raise InvalidArgument(f"theta_s is {theta_s!r:.100}: give the seconds that moving state may take, 0 or more")


def settled(problem: PlacementProblem, theta: float = 0.0, theta_bytes: float = inf, theta_s: float = inf) -> Ints:
    """The host that each operator has before the algorithm starts, or -1 if it is to choose one.

    Pinned operators have theirs. Of the list by falling load, the last floor(theta * m) stay on their hosts: they
    have the least impact. With `theta_bytes`, operators may move from the head of the list on as long as their state
    together is no more than that; all others stay. `theta_s` is the same in seconds, of state on the slowest link of
    its host. What has no host yet is always placed.
    """
    order, placed = by_load(problem), np.array(problem.placed, np.int64)
    stays = np.zeros(len(order), bool)
    stays[order[len(order) - floor(theta * len(order)) :]] = True
    sizes = np.array([operator.state_bytes for operator in problem.operators], np.float64)
    _, bandwidth = problem.links.dense(len(problem.hosts))
    for amounts, most in ((sizes, theta_bytes), (sizes / bandwidth.min(axis=1)[placed], theta_s)):
        moving = np.cumsum(np.where(placed[order] >= 0, amounts[order], 0.0))
        stays[order[moving > most]] = True
    pinned = pins(problem)
    return np.where(pinned >= 0, pinned, np.where(stays, placed, -1))
