"""Whole operators that are worth moving: of all moves to a better equilibrium, the few that save most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenflow.model.graphs.placement import PlacementProblem
from evenflow.model.graphs.spread import OperatorMove
from evenflow.policy.graph.energies.latency import result_shares
from evenflow.policy.graph.equilibrium import least_gain
from evenflow.policy.graph.moves.weighing import Weighing


def operator_moves(weighing: Weighing, problem: PlacementProblem) -> tuple[list[OperatorMove], str]:
    """The moves that `PotentialPlacement.moves` has, less those that hardly matter; and why."""
    moves = [OperatorMove(each, source, target) for each, source, target in weighing.potential.moves(problem)]
    if not moves or min(problem.placed) < 0:
        return moves, "operators without a host" if moves else ""
    charges = _charges(weighing, problem, moves)
    chosen, saved, now = _most_of_it(weighing, problem, moves, charges)
    if saved <= weighing.least(now) or not _sure(weighing, problem, chosen, sum(charges[move] for move in chosen)):
        return [], ""
    return sorted(chosen), f"operators: saves {saved:.3g} of {now:.3g}"


def _charges(weighing: Weighing, problem: PlacementProblem, moves: Sequence[OperatorMove]) -> dict[OperatorMove, float]:
    _, bandwidth = problem.links.dense(len(problem.hosts))
    shares, found = result_shares(problem).operators, {}
    for move in moves:
        size, link = problem.operators[move.operator].state_bytes, bandwidth[move.source, move.target]
        found[move] = weighing.charge(float(shares[move.operator]), float(size), float(link))
    return found


def _most_of_it(
    weighing: Weighing,
    problem: PlacementProblem,
    moves: Sequence[OperatorMove],
    charges: Mapping[OperatorMove, float],
) -> tuple[list[OperatorMove], float, float]:
    """The first few of the moves, best first; what they save, and the total now.

    A new equilibrium often differs from the present placement in operators that hardly matter: these stay. What the
    rest would save is less than the margin, so that it is not worth a decision of its own.
    """
    landscape = weighing.landscape(problem)
    now, left, saved = landscape.total(), list(moves), [0.0]
    order: list[OperatorMove] = []
    while left:
        gains = []
        for move in left:
            landscape.remove(move.operator)
            costs = landscape.costs(move.operator)
            gains.append(float(costs[move.source] - costs[move.target]) - charges[move])
            landscape.add(move.operator, move.source)
        best = int(np.argmax(gains))
        order.append(left.pop(best))
        landscape.remove(order[-1].operator)
        landscape.add(order[-1].operator, order[-1].target)
        saved.append(saved[-1] + gains[best])
    rest = ((count, saved[-1] - gain, now - gain) for count, gain in enumerate(saved) if gain > 0)
    few = next((count for count, more, then in rest if more <= weighing.least(then)), 0)
    return order[:few], saved[few], now


def _sure(weighing: Weighing, problem: PlacementProblem, moves: Sequence[OperatorMove], charges: float) -> bool:
    """Whether moves lower the total even if hosts are not quite as fast as measured."""
    change, after = np.zeros(len(problem.hosts)), list(problem.placed)
    for operator, source, target in moves:
        load = float(np.mean(problem.operators[operator].series))
        after[operator] = target
        change[source] -= load
        change[target] += load
    doubted = weighing.doubted(problem, change)
    now, then = weighing.total(doubted), weighing.total(doubted, after)
    return now - then - charges > least_gain(now)
