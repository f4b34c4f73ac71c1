"""Small random operator graphs, and the totals of all their placements, computed directly from the formulas."""

import random
from itertools import product

import numpy as np

from evenflow.model.graphs.placement import PAPER_WEIGHTS, Host, Links, OperatorLoad, PlacementProblem
from evenflow.policy.graph.energies.latency import LatencyModel, result_shares

PERIODS = 5


def random_problem(seed, operators=None, hosts=None, filling=None):
    """A graph of filters and joins with fluctuating sources, hosts of different speed, links of different delay.

    Parameters are those of potential-driven Table 2, scaled so that the mean load of the hosts is `filling`.
    """
    draw = random.Random(seed)
    m, n = operators or draw.randint(4, 6), hosts or draw.randint(2, 3)
    filling = filling or draw.uniform(0.3, 0.9)
    waves = [[draw.choice((1.0, 4.0)) for _ in range(PERIODS)] for _ in range(2)]
    readers, rates, series, rows = [[] for _ in range(m)], [], [], []
    for number in range(m):
        inputs = draw.sample(range(-2, number), min(2 if draw.random() < 0.3 else 1, number + 2))
        arriving = [waves[stream] if stream < 0 else rates[stream] for stream in inputs]
        for stream in inputs:
            if stream >= 0:
                readers[stream].append(number)
        cost = draw.uniform(1, 5) if len(inputs) == 1 else draw.uniform(1, 2)
        selectivity = draw.uniform(0.8, 1) if len(inputs) == 1 else draw.uniform(0.01, 0.2)
        series.append([cost * sum(at) for at in zip(*arriving, strict=True)])
        rates.append([selectivity * float(np.prod(at)) for at in zip(*arriving, strict=True)])
        rows.append(100 * float(np.mean(rates[-1])))
    machines = tuple(Host(j, draw.uniform(1, 2), draw.choice((1.0, 1.0, 0.5))) for j in range(n))
    room = sum(machine.quota / machine.coefficient for machine in machines)
    scale = filling * room / float(np.mean(np.sum(series, axis=0)))
    loads = tuple(
        OperatorLoad(f"o{i}", tuple(scale * load for load in series[i]), tuple(readers[i]), rows[i], 100 * rows[i])
        for i in range(m)
    )
    links = Links(pairs={(a, b): (draw.uniform(1, 500), draw.uniform(1e4, 1e6)) for a in range(n) for b in range(n)})
    return PlacementProblem(loads, machines, links)


def every_placement(problem):
    """All n^m placements that leave pinned operators where they are, one a row."""
    every = range(len(problem.hosts))
    choices = [every if each.pinned is None else (each.pinned,) for each in problem.operators]
    return np.array(list(product(*choices)))


def _loads(problem, placements):
    series = np.array([operator.series for operator in problem.operators])
    there = placements[:, :, None] == np.arange(len(problem.hosts))
    background = np.array([host.background or (0.0,) * problem.periods for host in problem.hosts])
    return series, there, np.einsum("pmn,mk->pnk", there, series) + background


def _links(problem, placements, shares=None):
    """Bytes on, and mass of, each link (sender, receiver) in each placement."""
    n = len(problem.hosts)
    carried, mass = np.zeros((2, len(placements), n, n))
    rows = np.arange(len(placements))
    for number, operator in enumerate(problem.operators):
        for host in range(n):
            reads = [placements[:, reader] == host for reader in operator.readers]
            sends = np.any(reads, axis=0) & (placements[:, number] != host) if reads else np.zeros(len(rows), bool)
            carried[rows, placements[:, number], host] += sends * operator.bytes_s
            weight = (
                1.0
                if shares is None
                else sum(at * shares[number, reader] for at, reader in zip(reads, operator.readers, strict=True))
            )
            mass[rows, placements[:, number], host] += sends * weight
    delay, bandwidth = problem.links.dense(n)
    return delay, carried / bandwidth, mass


def _correlation(one, other, scale):
    def spread(series):
        return np.sqrt(np.mean(np.square(series), axis=-1) - np.mean(series, axis=-1) ** 2 + 0.0)

    one, other = np.broadcast_arrays(one, other)
    both = np.mean(one * other, axis=-1) - np.mean(one, axis=-1) * np.mean(other, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        varies = (spread(one) > 1e-7 * scale) & (spread(other) > 1e-7 * scale)
        return np.where(varies, both / (spread(one) * spread(other)), 0.0)


def energies(problem, placements, weights=PAPER_WEIGHTS):
    """The paper's total energy of each placement (§3.2)."""
    series, there, hosted = _loads(problem, placements)
    filled = hosted.mean(axis=2) * [host.coefficient / host.quota for host in problem.hosts]
    load = np.where(filled < 1, filled, 1 + weights.overload * (filled - 1))
    rest = np.take_along_axis(hosted, placements[:, :, None], axis=1) - series
    together = _correlation(series, rest, series.max(initial=1e-9))
    delay, use, mass = _links(problem, placements)
    network = (mass * np.where(use > 1, delay * use, delay)).sum(axis=(1, 2))
    total = weights.load * (load * there.sum(axis=1)).sum(axis=1) + weights.correlation * together.sum(axis=1)
    return total + weights.network * network


def latencies(problem, placements, model=None):
    """Our estimate of the latency of a result, in ms, for each placement."""
    model, shares = model or LatencyModel(), result_shares(problem)
    _, there, hosted = _loads(problem, placements)
    slow = np.array([host.coefficient for host in problem.hosts])
    quota = np.array([host.quota for host in problem.hosts])
    load = hosted * (slow / quota)[:, None]
    share = there.transpose(0, 2, 1) @ shares.operators
    slope = np.where(load < 0.95, 1 / (1 - np.minimum(load, 0.95)), 20 + 400 * (load - 0.95))
    wait = (model.turn_ms * slow[:, None] * load * slope).mean(axis=2)
    left, backlog = np.zeros(load.shape[:2]), np.zeros(load.shape[:2])
    for counts in (0, 1):  # only the second time round
        for period in range(load.shape[2]):
            after = np.maximum(0, left + 1e3 * model.period_s * (load[:, :, period] - 1))
            backlog, left = backlog + counts * (left + after) / 2 / load.shape[2], after
    over = 500 * model.horizon_s * np.maximum(0, load.mean(axis=2) - 1)
    found = (share * (wait + slow * model.turn_ms) + np.minimum(share, 1) * backlog + over).sum(axis=1)
    delay, use, mass = _links(problem, placements, shares.streams)
    return found + (mass * (delay + 500 * model.horizon_s * np.maximum(0, use - 1))).sum(axis=(1, 2))
