"""How the policies scale: allocation from 2 to 4,096 connections, a whole decision at 64.

    python benchmarks/policy_scaling.py

The last column of the first table is the time over N + R log2 N: it is flat if the greedy takes O(N + R log N).
"""

from __future__ import annotations

import sys
from math import log2
from time import perf_counter

import numpy as np

from evenflow.model import RESOLUTION, Connection, Snapshot
from evenflow.policy.ordered.allocation import allocate
from evenflow.policy.ordered.balance import even_weights
from evenflow.policy.ordered.blocking_rate import BlockingRate


def least(call, repeats: int) -> float:
    """The least of some times, in seconds: what the work takes when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


def allocation_table(units: int) -> None:
    print(f"\nallocate, R = {units:,} units")
    print(f"{'N':>6} {'ms':>9} {'ns / (N + R log2 N)':>20}")
    rng = np.random.default_rng(1)
    knees = rng.integers(1, units, 8)
    shapes = [np.maximum(0.0, np.arange(units + 1) / knee - 1.0) + 1e-9 * np.arange(units + 1) for knee in knees]
    for count in (2**power for power in range(1, 13)):
        curves = [shapes[place % len(shapes)] for place in range(count)]
        lower, upper = [0] * count, [units] * count
        seconds = least(lambda c=curves, lo=lower, up=upper: allocate(c, lo, up, units), 5)
        print(f"{count:>6,} {seconds * 1e3:>9.2f} {seconds * 1e9 / (count + units * log2(count)):>20.1f}")


def decision_table(samples: int = 60) -> None:
    print(f"\nBlockingRate.decide, {samples} samples each, rates at random")
    print(f"{'N':>6} {'clusters':>9} {'mean ms':>9} {'worst ms':>9}")
    for count in (2, 8, 16, 32, 64, 128):
        for clustered in (False, True):
            times = decisions(count, samples, cluster_from=2 if clustered else 10**6)
            print(f"{count:>6} {clustered!s:>9} {np.mean(times) * 1e3:>9.2f} {np.max(times) * 1e3:>9.2f}")


def decisions(count: int, samples: int, cluster_from: int) -> list[float]:
    """Seconds that each decision took."""
    rng = np.random.default_rng(2)
    balance = BlockingRate(every=1, cluster_from=cluster_from)
    weights, blocked, times = even_weights(list(range(count))), np.zeros(count), []
    for sample in range(samples):
        connections = tuple(
            Connection(j, 1, weights[j], float(blocked[j]), sample * 100, 0, sample * 100) for j in range(count)
        )
        snapshot = Snapshot(float(sample), "r", 1, float(sample), connections)
        start = perf_counter()
        moves = balance.decide(snapshot)
        times.append(perf_counter() - start)
        for move in moves:
            weights = dict(move.weights)
        blocked += rng.dirichlet(np.full(count, 0.05)) * 0.9
    return times[1:]  # the first only meets the workers


def main() -> None:
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}")
    allocation_table(RESOLUTION)
    allocation_table(10 * 4096)
    decision_table()


if __name__ == "__main__":
    main()
