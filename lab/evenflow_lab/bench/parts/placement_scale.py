"""How placements of operator graphs scale, and how far from the best they are.

The first table places m operators on n workers with INIT_GREEDY, k = 10 periods: 10,000 on 1,000 must take under 5 s.
Seconds are those of the clock and those of the processor, which others on the machine disturb less. Time grows with
m; an operator costs a fixed part and one that grows with n, so time over m n falls and does not rise. *fullest* is the
load of the fullest worker over the load that all would have if it were shared evenly, below which no placement gets it;
*links* is the part of all streams that go over a link. The second table has the processor time of each placement. The
third compares with brute force on 200 random small graphs: how much more the total is than the least, in the median,
the 90th percentile and the worst case; by the paper's energy with weights (100, 1, 0.001) and by estimated latency.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from time import perf_counter, process_time
from typing import Annotated

import numpy as np
import typer
from tests.support.placement_model import energies, every_placement, latencies, random_problem

from evenflow.model.graphs.placement import PAPER_WEIGHTS, Host, Links, OperatorLoad, PlacementProblem
from evenflow.policy import PLACEMENTS, placement_named

PERIODS = 10
CHAIN = 10


def chains(operators: int, hosts: int) -> PlacementProblem:
    """Chains of ten filters with fluctuating load, on workers of different speed that are half full."""
    draw = random.Random(1)
    machines = tuple(Host(j, draw.uniform(1, 10)) for j in range(hosts))
    scale = 0.5 * sum(1 / machine.coefficient for machine in machines) / operators
    loads = []
    for number in range(operators):
        readers = () if number % CHAIN == CHAIN - 1 or number + 1 == operators else (number + 1,)
        series = tuple(scale * draw.uniform(0.5, 1.5) for _ in range(PERIODS))
        loads.append(OperatorLoad(f"o{number}", series, readers, 100.0, 1e4, 1000))
    delays = np.random.default_rng(1).uniform(1, 500, (hosts, hosts))
    return PlacementProblem(tuple(loads), machines, Links(delays))


def greedy_table(most: int) -> None:
    """What INIT_GREEDY takes, by operators and workers."""
    print(f"\nINIT_GREEDY, k = {PERIODS}")
    columns = f"{'m':>7} {'n':>6} {'seconds':>9} {'cpu':>9} {'cpu us an operator':>19} {'ns / (m n)':>11}"
    print(f"{columns} {'fullest':>8} {'links':>6}")
    greedy = placement_named("greedy")
    sizes = (100, 10), (1000, 10), (1000, 100), (10_000, 100), (1000, 1000), (5000, 1000), (10_000, 1000)
    for operators, hosts in sizes:
        if operators > most:
            continue
        problem = chains(operators, hosts)
        start, busy = perf_counter(), process_time()
        placed = greedy.place(problem)
        seconds, cpu = perf_counter() - start, process_time() - busy
        each, pair = cpu / operators * 1e6, cpu / operators / hosts * 1e9
        fullest, links = quality(problem, placed)
        told = f"{operators:>7,} {hosts:>6,} {seconds:>9.3f} {cpu:>9.3f} {each:>19.1f} {pair:>11.1f}"
        print(f"{told} {fullest:>8.3f} {links:>6.0%}")


def quality(problem: PlacementProblem, placed: Sequence[int]) -> tuple[float, float]:
    """The load of the fullest worker over the even one, and the part of the streams that leave their worker."""
    coefficients = np.array([host.coefficient for host in problem.hosts])
    own = np.array([np.mean(operator.series) for operator in problem.operators])
    loads = coefficients * np.bincount(placed, own, len(coefficients))
    streams = [(o, r) for o, operator in enumerate(problem.operators) for r in operator.readers]
    away = sum(placed[o] != placed[r] for o, r in streams)
    return float(loads.max() / (own.sum() / (1 / coefficients).sum())), away / len(streams)


def all_table() -> None:
    """What each placement takes."""
    print("\nprocessor seconds of each placement")
    sizes = ((40, 6), (100, 10), (200, 20))
    print(f"{'placement':>12} " + " ".join(f"{f'{m} on {n}':>12}" for m, n in sizes))
    for name in PLACEMENTS:
        times = []
        for size in sizes:
            problem, placement = chains(*size), placement_named(name)
            start = process_time()
            placement.place(problem)
            times.append(process_time() - start)
        print(f"{name:>12} " + " ".join(f"{seconds:>12.4f}" for seconds in times))


def distance_table(graphs: int) -> None:
    """How far each placement is from the best one."""
    print(f"\nabove the brute-force optimum, {graphs} random graphs of 4 to 6 operators on 2 or 3 workers")
    print(f"{'':>18} {'energy (100, 1, 0.001)':>28} {'estimated latency':>28}")
    print(f"{'placement':>18} " + f"{'median':>9}{'p90':>9}{'worst':>10} " * 2)
    placements = {name: placement_named(name) for name in PLACEMENTS}
    placements["dp, by sums"] = placement_named("dp", by_sum=True)
    placements["potential, weights"] = placement_named("potential", weights=PAPER_WEIGHTS)
    gaps: dict[str, list[list[float]]] = {name: [[], []] for name in placements}
    for seed in range(graphs):
        problem = random_problem(seed)
        least = [totals(problem, every_placement(problem)).min() for totals in (energies, latencies)]
        for name, placement in placements.items():
            placed = np.array([placement.place(problem)])
            for which, totals in enumerate((energies, latencies)):
                gaps[name][which].append(float(totals(problem, placed)[0] / least[which] - 1))
    for name, both in gaps.items():
        cells = [(np.median(each), np.quantile(each, 0.9), max(each)) for each in both]
        print(f"{name:>18} " + "".join(f"{a:>9.1%}{b:>9.1%}{c:>10.0%} " for a, b, c in cells))


def main(
    most: Annotated[int, typer.Option(help="Operators in the first table, at most.")] = 10_000,
    graphs: Annotated[int, typer.Option(help="Random graphs in the third table.", min=1)] = 200,
) -> None:
    """Print the tables."""
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}")
    greedy_table(most)
    all_table()
    distance_table(graphs)
