"""What a placement means for latency: waiting on hosts and delays of links, in ms of a result (our own energies)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.model.graphs.placement import PlacementProblem, flow_order, upstream
from evenflow.policy.graph.energies.energy import HostLoads
from evenflow.policy.graph.placement import Floats, Ints

FLOOR = 0.01
"""The least share of results that an operator or stream counts with: what gives no rows now may give some soon."""


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """How load turns into waiting.

    `turn_ms` is how long one turn of an operator takes on the benchmark machine, a frame of rows, where that is not
    known of the operator itself: others on the same host wait for it. `period_s` is the length of a measurement period.
    `horizon_s` is how long a placement is to last: a host with too much load gets slower all that time.
    """

    turn_ms: float = 1.0
    period_s: float = 1.0
    horizon_s: float = 60.0

    def __post_init__(self) -> None:
        for what in ("turn_ms", "period_s", "horizon_s"):
            if not 0 < number_of(getattr(self, what)) < inf:
                raise InvalidArgument(f"{what} is {getattr(self, what)!r:.100}: give a time above 0")

    def waiting(self, load: Floats, residual: Floats) -> Floats:
        """Ms that a turn waits for those before it, of what hosts have in each period; the last axis are the periods.

        M/G/1 (Pollaczek-Khinchine): with load x_t, and r_t the mean rest of the turn that is under way, it is
        r_t / (1 - x_t), in the mean over the periods.
        """
        from evenflow.policy.graph.energies.queueing import waiting  # numba, which only those need who place a graph

        return np.asarray(waiting(load, residual), np.float64)

    def backlog(self, load: Floats) -> Floats:
        """Ms of work that lie on hosts in the mean, because a period brings more than it can take.

        What is beyond 1 is left for the next period (Lindley's recursion): b_t = max(0, b_{t-1} + period (x_t - 1)),
        and (b_{t-1} + b_t) / 2 during period t. The periods come again and again: b_0 is what they leave if they start
        from nothing, so that a host which is nearly full all the time never looks empty.
        """
        from evenflow.policy.graph.energies.queueing import backlog

        return np.asarray(1e3 * self.period_s * backlog(load), np.float64)

    def overload(self, load: Floats) -> Floats:
        """Ms that rows of the next `horizon_s` wait in the mean because a load, or a link's use, stays above 1."""
        return 500.0 * self.horizon_s * np.maximum(load - 1.0, 0.0)

    def link(self, delay: Floats, use: Floats) -> Floats:
        """Ms over a link: its delay, and what does not fit through it."""
        return delay + self.overload(use)


def compile_model() -> None:
    """Compile what a model estimates by, or load what was compiled before."""
    model, nothing = LatencyModel(), np.zeros((1, 1))
    model.waiting(nothing, nothing)
    model.backlog(nothing)


@dataclass(frozen=True, slots=True)
class ResultShares:
    """The weights that the energies give themselves: which part of all results passes through operators and streams."""

    operators: Floats
    streams: dict[tuple[int, int], float]
    """By operator and reader."""


def result_shares(problem: PlacementProblem) -> ResultShares:
    """Follow the results upstream: v_o = results of o + sum over its readers r of v_(o, r).

    Results of r are caused by the rows of one of its inputs, by their rates: v_(o, r) = v_r rows_o / sum of rows over
    the inputs of r. All are divided by the rate of all results. Without any rate, all endpoints count the same.
    """
    operators, reads = problem.operators, upstream(problem.operators)
    ends = np.array([operator.endpoint or not operator.readers for operator in operators])
    rows = np.array([operator.rows_s for operator in operators], np.float64)
    results = np.where(ends, rows, 0.0)
    results = np.where(ends, 1.0, 0.0) if not results.any() else results
    shares, streams = results / max(float(results.sum()), 1e-300), dict[tuple[int, int], float]()
    for reader in reversed(flow_order(operators)):
        arriving = sum(rows[sender] for sender in reads[reader])
        for sender in reads[reader]:
            part = rows[sender] / arriving if arriving > 0 else 1 / len(reads[reader])
            share = float(shares[reader] * part)
            shares[sender] += share
            streams[sender, reader] = max(share, FLOOR)
    return ResultShares(np.maximum(shares, FLOOR), streams)


class HostWaiting:
    """What hosts add to the latency of a result, under a partial placement.

        cost_h = V_h waiting(x_h, r_h) + min(1, V_h) backlog(x_h) + alpha_h sum of v_o turn_o + overload(mean of x_h)
        x_h = alpha_h / q_h (background + sum of series_o)         r_h = alpha_h x_h turn, with the turn of each part

    The sums go over the operators on h, with v_o their shares of the results and V_h the sum of these. A turn of
    exponential length that is under way lasts for as long again, so load times turn is what others wait for. A row
    waits for a backlog once, however many operators on the host it passes: what comes behind them has not arrived yet.
    A host that stays overloaded holds up everything, not only its own share.
    """

    def __init__(self, problem: PlacementProblem, model: LatencyModel, shares: Floats) -> None:
        turns = [model.turn_ms if each.turn_ms is None else each.turn_ms for each in problem.operators]
        self.loads, self._model = HostLoads(problem), model
        periods = self.loads.series.shape[1]
        # All that is summed by host, in one row: loads of the periods, loads times turn, share, share times turn.
        turn = np.array(turns, np.float64)[:, None]
        self._parts = np.hstack([self.loads.loads, self.loads.loads * turn, shares[:, None], shares[:, None] * turn])
        nothing = np.zeros((len(problem.hosts), 2))
        self._empty = np.hstack([self.loads.background, model.turn_ms * self.loads.background, nothing])
        self._sums, self._periods = self._empty.copy(), periods
        self._every = np.arange(len(problem.hosts))
        self._cost = self._costs(self._every, self._sums)

    def add(self, operator: int, host: int) -> None:
        """Put an operator on a host."""
        self.loads.add(operator, host)
        self._changed(host, self._sums[host] + self._parts[operator])

    def remove(self, operator: int, host: int) -> None:
        """Take an operator from a host; one without operators has its background exactly."""
        self.loads.remove(operator, host)
        left = self._sums[host] - self._parts[operator]
        self._changed(host, left if self.loads.counts[host] else self._empty[host])

    def _changed(self, host: int, sums: Floats) -> None:
        self._sums[host] = sums
        self._cost[host] = self._costs(self._every[host : host + 1], sums[None])[0]

    def _costs(self, hosts: Ints, sums: Floats) -> Floats:
        """The cost of some hosts if they had these sums."""
        slow, quota = self.loads.coefficient[hosts], self.loads.quota[hosts]
        load = (slow / quota)[:, None] * sums[:, : self._periods]
        rest = (slow * slow / quota)[:, None] * sums[:, self._periods : -2]
        share = sums[:, -2]
        mine = share * self._model.waiting(load, rest) + np.minimum(share, 1.0) * self._model.backlog(load)
        mine = mine + slow * sums[:, -1]
        return np.asarray(mine + self._model.overload(load.mean(axis=1)), np.float64)

    def costs(self, operator: int) -> Floats:
        """How much more the hosts cost with an operator that is nowhere on each of them."""
        return self._costs(self._every, self._sums + self._parts[operator]) - self._cost

    def swaps(self, operator: int, here: int, others: Ints, there: Ints) -> Floats:
        """How much more the hosts cost if an operator on `here` changes places with each of others, on `there`."""
        change = self._parts[others] - self._parts[operator]
        mine = self._costs(np.full(len(others), here), np.maximum(self._sums[here] + change, 0.0))
        theirs = self._costs(there, np.maximum(self._sums[there] - change, 0.0))
        return np.asarray(mine + theirs - self._cost[here] - self._cost[there], np.float64)

    def total(self) -> float:
        """What all hosts cost."""
        return float(self._cost.sum())
