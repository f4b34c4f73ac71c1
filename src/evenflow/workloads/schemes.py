"""Seeded graphs and inputs in the style of the six schemes of potential-driven §5.2, scaled to any size and load.

Parameters are those of the paper's Tables 2 and 3, but for three that are scaled: time runs PACE times as fast, so that
a run of a minute sees rates go up and down often enough; rates are such that operators take a given number of rows a
second together; and costs are such that all workers have a given load if it is shared evenly. Delays between workers
are a tenth of the paper's, and coefficients of Schemes 2 and 5 go to 3 instead of 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.graph.build.builder import Graph
from evenflow.model.capacity import Emulate, Slowdown
from evenflow.workloads.arrivals import PHASE_DEVIATION_S, PHASE_S, ArrivalRates
from evenflow.workloads.scheme_graphs import Drawn, arrivals, built, chains, hybrid
from evenflow.workloads.sieves import KEYS

PACE = 5.0
"""Seconds of the paper that pass in a second."""
WORKER_ROWS_S = 100.0
"""Rows a second that the operators of a worker take in the mean, unless told otherwise."""
ARRIVAL = "at"
"""The column with the second at which a row arrives."""
FREE_US = 1.0
"""What a row costs where no cost is drawn."""

Range = tuple[float, float]


@dataclass(frozen=True)
class SchemeKind:
    """One scheme of Table 3; what it leaves out is as in Table 2. Ranges are those of uniform distributions."""

    chains: int | None = None
    """Chains of filters; None: as many as give chains of ten."""
    sources: int = 0
    """Sources of a hybrid graph; 0: it has chains."""
    filters: float = 1.0
    """The share of filters among the operators."""
    coefficient: Range = (1.0, 1.0)
    filter_ms: Range = (1.0, 5.0)
    selectivity: Range = (0.8, 1.0)
    join_ms: Range = (1.0, 2.0)
    join_selectivity: Range = (0.01, 0.2)
    window: Range = (1.0, 10.0)
    ratio: float = 1.0
    """High over low rate; 1 if the rate is stable."""
    delay_ms: Range = (1.0, 50.0)


SCHEMES: Mapping[int, SchemeKind] = {
    1: SchemeKind(chains=1, filter_ms=(20.0, 20.0), selectivity=(1.0, 1.0), delay_ms=(10.0, 10.0)),
    2: SchemeKind(coefficient=(1.0, 3.0)),
    3: SchemeKind(chains=3, coefficient=(1.0, 2.0), filter_ms=(10.0, 10.0), ratio=2.5),
    4: SchemeKind(sources=5, filters=0.5),
    5: SchemeKind(sources=5, filters=0.85, coefficient=(1.0, 3.0), ratio=4.0),
    6: SchemeKind(ratio=4.0, delay_ms=(0.0, 0.0)),
}


@dataclass(frozen=True)
class Scheme:
    """A graph with its costs, its workers and its rows."""

    graph: Graph
    costs_us: Mapping[str, float]
    """By operator, microseconds a row on a worker of coefficient 1."""
    coefficients: tuple[float, ...]
    """By worker, how much longer a row takes there."""
    link_ms: Mapping[tuple[int, int], float]
    """The delay between two workers, the same in both directions."""
    rows: Mapping[str, pa.Table]
    """By source: `at`, the second at which a row arrives, its `id`, and `k`, a key for joins."""
    taken: Mapping[str, float]
    """By operator, the rows a second that it takes in the mean."""
    rates: Mapping[str, ArrivalRates] = field(default_factory=dict)
    """By source."""
    drawn: tuple[Drawn, ...] = ()
    """The operators, as the graph was built from them."""

    @property
    def loads(self) -> dict[str, float]:
        """By operator, its mean load on a worker of coefficient 1."""
        return {name: rows * self.costs_us[name] * 1e-6 for name, rows in self.taken.items()}

    @property
    def load(self) -> float:
        """The load of each worker if it is shared evenly, that is in proportion to what workers can do."""
        return sum(self.loads.values()) / sum(1 / each for each in self.coefficients)

    @property
    def fastest(self) -> int:
        """The worker that can do most."""
        return int(np.argmin(self.coefficients))

    def emulate(self, worker: int | None = None, factor: float = 1.0, since: float = 0.0) -> Emulate:
        """The emulated workers and links; from second `since` on, one worker is `factor` times slower."""
        slowdown: dict[int, Slowdown] = dict(enumerate(self.coefficients))
        if worker is not None:
            usual = self.coefficients[worker]
            slowdown[worker] = [(second, usual * times) for second, times in Emulate.load(factor, since)]
        return Emulate(FREE_US, slowdown, self.costs_us, self.link_ms, arrival=ARRIVAL)


def scheme(
    number: int,
    workers: int,
    operators: int,
    seconds: float,
    load: float = 0.6,
    seed: int = 1,
    rows_s: float | None = None,
) -> Scheme:
    """Draw a scheme; the same for the same arguments. `rows_s`: rows a second that all operators take together."""
    if number not in SCHEMES:
        raise InvalidArgument(f"there is no scheme {number}: choose one of {', '.join(map(str, SCHEMES))}")
    kind = SCHEMES[number]
    inputs = _sources(kind, operators)
    if workers < 1 or operators < inputs or not seconds > 0 or not load > 0:
        raise InvalidArgument(
            f"{operators} operators on {workers} workers for {seconds:g} s with a load of {load:g}: scheme {number} "
            f"needs at least {inputs} operators and a worker, and more than 0 seconds and load"
        )
    random = np.random.default_rng(seed)
    drawn = _draw(kind, inputs, operators, random)
    costs = np.array([random.uniform(*(kind.join_ms if each.join else kind.filter_ms)) for each in drawn])
    coefficients = tuple(float(each) for each in random.uniform(*kind.coefficient, workers))
    taken = arrivals(drawn, [1.0] * inputs)
    source_rate = (rows_s or WORKER_ROWS_S * workers) / float(taken.sum())
    taken = taken * source_rate
    scale = load * sum(1 / each for each in coefficients) / float((taken * costs).sum())
    names = [f"s{place}" for place in range(inputs)]
    low = 2 * source_rate / (1 + kind.ratio)
    rates = ArrivalRates(kind.ratio * low, low, PHASE_S / PACE, PHASE_DEVIATION_S / PACE)
    return Scheme(
        graph=built(drawn, names, seed),
        costs_us={each.name: float(cost * scale * 1e6) for each, cost in zip(drawn, costs, strict=True)},
        coefficients=coefficients,
        link_ms=_links(kind, workers, random),
        rows={name: _rows(place, rates, seconds, random) for place, name in enumerate(names)},
        taken={each.name: float(rows) for each, rows in zip(drawn, taken, strict=True)},
        rates=dict.fromkeys(names, rates),
        drawn=tuple(drawn),
    )


def _sources(kind: SchemeKind, operators: int) -> int:
    """How many sources a scheme has."""
    return kind.sources or kind.chains or max(1, operators // 10)


def _draw(kind: SchemeKind, inputs: int, operators: int, random: np.random.Generator) -> list[Drawn]:
    if not kind.sources:
        return chains(random, inputs, operators, kind.selectivity)
    return hybrid(random, inputs, operators, kind.filters, kind.selectivity, (kind.window, kind.join_selectivity))


def _links(kind: SchemeKind, workers: int, random: np.random.Generator) -> dict[tuple[int, int], float]:
    found = {}
    for one in range(workers):
        for other in range(one):
            found[one, other] = found[other, one] = float(random.uniform(*kind.delay_ms))
    return found


def _rows(place: int, rates: ArrivalRates, seconds: float, random: np.random.Generator) -> pa.Table:
    times = rates.seconds(random, seconds)
    ids = np.arange(len(times), dtype=np.int64) + place * 1_000_000_000
    return pa.table({ARRIVAL: times, "id": ids, "k": random.integers(0, KEYS, len(times))})
