"""The six schemes of potential-driven §5.2 with the parameters of its Tables 2 and 3, as simulated graphs.

What the paper leaves open: Scheme 4 has the stable input and Scheme 5 the fluctuating one; delays and capacities are
drawn for each direction of a link; rows of sources that find a full queue are lost, since latency counts from their
entry (§5.2.2); shapes of hybrid graphs are those of `workloads.scheme_graphs`. As printed, Schemes
2 and 5 often draw more work than all hosts can do together (Scheme 2: 1.09 of what they can, in the mean); then no
placement helps, and all that is seen are full queues. Where a claim is about placements, they are drawn again until
the hosts would have a load of at most FEASIBLE if it were shared evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from evenflow.errors import SimulationError
from evenflow.policy.graph.measures import cascade
from evenflow.sim.graph_model import SimulatedGraph, SimulatedHost, SimulatedLink, SimulatedOperator, SimulatedSource
from evenflow.workloads.scheme_graphs import Drawn, chains, hybrid

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


def simulated(scheme: PaperScheme, seed: int, most: float = inf) -> SimulatedGraph:
    """Draw a scheme, the same for the same seed, of an even load of at most `most`."""
    for number in range(DRAWS):
        found = _simulated(scheme, np.random.default_rng([seed, number]), seed)
        if even_load(found) <= most:
            return found
    raise SimulationError(f"{DRAWS} draws of a scheme with {scheme.hosts} hosts have an even load above {most}")


def even_load(graph: SimulatedGraph, quotas: bool = False) -> float:
    """The load of each host if it were shared evenly; with `quotas`, as a part of its quota."""
    mean = [(source.high + (source.low or source.high)) / 2 for source in graph.sources]
    inputs = [[-1 - each if each < 0 else len(mean) + each for each in node.inputs] for node in graph.shape().nodes]
    given = [each.selectivity * max(1, each.window) for each in graph.operators]
    rows = cascade(mean, inputs, given, [each.window > 0 for each in graph.operators]).arrivals
    load = float((rows * np.array([each.cost_ms * 1e-3 for each in graph.operators])).sum())
    return load / sum((host.quota if quotas else 1.0) / host.coefficient for host in graph.hosts)


def _simulated(scheme: PaperScheme, random: np.random.Generator, seed: int) -> SimulatedGraph:
    inputs = scheme.chains or scheme.sources
    names = [f"s{place}" for place in range(inputs)]
    drawn = _drawn(scheme, random)
    streams = [*names, *(each.name for each in drawn)]
    operators = tuple(_operator(scheme, each, streams, random) for each in drawn)
    coefficients = random.uniform(*scheme.coefficient, scheme.hosts)
    quotas = scheme.quotas or (1.0,) * scheme.hosts
    high = 1e3 / scheme.arrival_ms
    return SimulatedGraph(
        sources=tuple(SimulatedSource(name, high, high / scheme.ratio) for name in names),
        operators=operators,
        hosts=tuple(SimulatedHost(float(each), quota) for each, quota in zip(coefficients, quotas, strict=True)),
        links=tuple(_links(scheme, random)),
        outside="is lost",
        period_s=SAMPLE_S,
        warm=round(WARM_S / SAMPLE_S) - 1,  # the first sample begins with the first report
        every_s=1e6,
        report_s=SAMPLE_S,
        seed=seed,
    )


def _drawn(scheme: PaperScheme, random: np.random.Generator) -> list[Drawn]:
    if scheme.chains:
        return chains(random, scheme.chains, scheme.operators, scheme.selectivity)
    bounds = scheme.window, scheme.join_selectivity
    return hybrid(random, scheme.sources, scheme.operators, scheme.filters, scheme.selectivity, bounds)


def _operator(scheme: PaperScheme, drawn: Drawn, streams: list[str], random: np.random.Generator) -> SimulatedOperator:
    inputs = tuple(streams[each] for each in drawn.inputs)
    if not drawn.join:
        return SimulatedOperator(drawn.name, inputs, float(random.uniform(*scheme.filter_ms)), drawn.selectivity)
    cost, selectivity = (float(random.uniform(*each)) for each in (scheme.join_ms, scheme.join_selectivity))
    return SimulatedOperator(drawn.name, inputs, cost, selectivity, round(random.uniform(*scheme.window)))


def _links(scheme: PaperScheme, random: np.random.Generator) -> list[SimulatedLink]:
    found = []
    for one in range(scheme.hosts):
        for other in range(scheme.hosts):
            if one != other:
                delay, rows = random.uniform(*scheme.delay_ms), random.uniform(*scheme.link_rows)
                found.append(SimulatedLink(one, other, float(delay), round(rows)))
    return found
