"""The six schemes of potential-driven §5.2 with the parameters of its Tables 2 and 3, as simulated graphs.

What the paper leaves open: Scheme 4 has the stable input and Scheme 5 the fluctuating one; delays and capacities are
drawn for each direction of a link; rows of sources that find a full queue are lost, since latency counts from their
entry (§5.2.2); shapes of hybrid graphs are those of `workloads.scheme_graphs`. As printed, Schemes
2 and 5 often draw more work than all hosts can do together (Scheme 2: 1.09 of what they can, in the mean); then no
placement helps, and all that is seen are full queues. Where a claim is about placements, they are drawn again until
the hosts would have a load of at most FEASIBLE if it were shared evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evenflow.errors import SimulationError
from evenflow.policy.graph.energies.measures import cascade
from evenflow.sim.graphs.model import SimulatedGraph, SimulatedHost, SimulatedLink, SimulatedOperator, SimulatedSource
from evenflow.workloads.scheme_graphs import hybrid

Range = tuple[float, float]
"""Of a uniform distribution."""


@dataclass(frozen=True, slots=True)
class PaperScheme:
    """One scheme of Table 3; what it leaves out is as in Table 2. Costs and times in ms."""

    hosts: int
    operators: int
    chains: int = 0
    """0: the graph is hybrid."""
    sources: int = 5
    filters: float = 1.0
    """The share of filters in a hybrid graph."""
    coefficient: Range = (1.0, 1.0)
    filter_ms: Range = (1.0, 5.0)
    selectivity: Range = (0.8, 1.0)
    join_ms: Range = (1.0, 2.0)
    join_selectivity: Range = (0.01, 0.2)
    window: Range = (1.0, 10.0)
    arrival_ms: float = 70.0
    """Between two rows of a source; while its rate is high, if it fluctuates."""
    ratio: float = 1.0
    """High over low rate; 1 if the input is stable."""
    link_rows: Range = (4.0, 10_000.0)
    delay_ms: Range = (1.0, 500.0)
    quotas: tuple[float, ...] = ()
    """By host; empty: all 1."""


SCHEMES: Mapping[int, PaperScheme] = {
    1: PaperScheme(
        3, 9, 1, filter_ms=(20.0, 20.0), selectivity=(1.0, 1.0), arrival_ms=100.0,
        link_rows=(10_000.0, 10_000.0), delay_ms=(100.0, 100.0),
    ),
    2: PaperScheme(20, 200, 20, coefficient=(1.0, 10.0)),
    3: PaperScheme(10, 90, 3, coefficient=(1.0, 2.0), filter_ms=(10.0, 10.0), arrival_ms=100.0, ratio=2.5),
    4: PaperScheme(5, 40, filters=0.5),
    5: PaperScheme(10, 100, filters=0.85, coefficient=(1.0, 10.0), arrival_ms=50.0, ratio=4.0),
    6: PaperScheme(
        20, 200, 20, arrival_ms=15.0, ratio=4.0, link_rows=(10_000.0, 10_000.0), delay_ms=(0.0, 0.0),
    ),
}  # fmt: skip

SAMPLE_S = 5.0
"""Of a statistics window of 50 s with ten samples."""
WARM_S = 120.0
FEASIBLE = 0.8
DRAWS = 5000
"""How often a scheme is drawn at most."""
OPERATORS, HOSTS, LINKS = 0, 1, 2
"""What random numbers are for: each has its own."""


def simulated(scheme: PaperScheme, seed: int, draw: int = 0) -> SimulatedGraph:
    """Draw a scheme; the same for the same seed and number of the draw.

    Schemes that differ in one thing are alike in all else: with longer chains the first operators stay as they are,
    with more hosts the first hosts and their links (§5.3.1 varies "the length of chains" and "the number of hosts").
    """
    names = [f"s{place}" for place in range(scheme.chains or scheme.sources)]
    coefficients = np.random.default_rng([seed, draw, HOSTS]).uniform(*scheme.coefficient, scheme.hosts)
    quotas = scheme.quotas or (1.0,) * scheme.hosts
    high = 1e3 / scheme.arrival_ms
    return SimulatedGraph(
        sources=tuple(SimulatedSource(name, high, high / scheme.ratio) for name in names),
        operators=tuple((_chains if scheme.chains else _hybrid)(scheme, [seed, draw, OPERATORS], names)),
        hosts=tuple(SimulatedHost(float(each), quota) for each, quota in zip(coefficients, quotas, strict=True)),
        links=tuple(_links(scheme, np.random.default_rng([seed, draw, LINKS]))),
        outside="is lost",
        period_s=SAMPLE_S,
        warm=round(WARM_S / SAMPLE_S) - 1,  # the first sample begins with the first report
        every_s=1e6,
        report_s=SAMPLE_S,
        seed=seed,
    )


def feasible(scheme: PaperScheme, seed: int, most: float = FEASIBLE) -> int:
    """The first draw of a scheme with an even load of at most `most`."""
    for draw in range(DRAWS):
        if even_load(simulated(scheme, seed, draw)) <= most:
            return draw
    raise SimulationError(f"{DRAWS} draws of a scheme with {scheme.hosts} hosts have an even load above {most}")


def even_load(graph: SimulatedGraph, quotas: bool = False) -> float:
    """The load of each host if it were shared evenly; with `quotas`, as a part of its quota."""
    mean = [(source.high + (source.low or source.high)) / 2 for source in graph.sources]
    inputs = [[-1 - each if each < 0 else len(mean) + each for each in node.inputs] for node in graph.shape().nodes]
    given = [each.selectivity * max(1, each.window) for each in graph.operators]
    rows = cascade(mean, inputs, given, [each.window > 0 for each in graph.operators]).arrivals
    load = float((rows * np.array([each.cost_ms * 1e-3 for each in graph.operators])).sum())
    return load / sum((host.quota if quotas else 1.0) / host.coefficient for host in graph.hosts)


def _chains(scheme: PaperScheme, draw: list[int], names: list[str]) -> Iterator[SimulatedOperator]:
    """Independent chains of filters of the same length, each with its own random numbers."""
    length = scheme.operators // scheme.chains
    for chain, before in enumerate(names):
        random = np.random.default_rng([*draw, chain])
        for number in range(chain * length, (chain + 1) * length):
            selectivity, cost = (float(random.uniform(*each)) for each in (scheme.selectivity, scheme.filter_ms))
            yield SimulatedOperator(f"f{number}", (before,), cost, selectivity)
            before = f"f{number}"


def _hybrid(scheme: PaperScheme, draw: list[int], names: list[str]) -> Iterator[SimulatedOperator]:
    """Filters and joins, of a shape as in `workloads.scheme_graphs`."""
    random, bounds = np.random.default_rng(draw), (scheme.window, scheme.join_selectivity)
    drawn = hybrid(random, scheme.sources, scheme.operators, scheme.filters, scheme.selectivity, bounds)
    streams = [*names, *(each.name for each in drawn)]
    for each in drawn:
        inputs = tuple(streams[stream] for stream in each.inputs)
        if not each.join:
            cost, selectivity, window = float(random.uniform(*scheme.filter_ms)), each.selectivity, 0
        else:
            cost, selectivity = (float(random.uniform(*some)) for some in (scheme.join_ms, scheme.join_selectivity))
            window = round(random.uniform(*scheme.window))
        yield SimulatedOperator(each.name, inputs, cost, selectivity, window)


def _links(scheme: PaperScheme, random: np.random.Generator) -> Iterator[SimulatedLink]:
    """Both directions of every pair of hosts, those of the first hosts first."""
    for last in range(scheme.hosts):
        for first in range(last):
            for one, other in ((first, last), (last, first)):
                delay, rows = random.uniform(*scheme.delay_ms), random.uniform(*scheme.link_rows)
                yield SimulatedLink(one, other, float(delay), round(rows))
