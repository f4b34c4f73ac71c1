"""What a simulated graph is made of: sources, operators, hosts and links, as plain values (potential-driven §2.1).

Scenario files fill these; `graph_plane` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal

from evenflow.errors import InvalidArgument
from evenflow.model.given import check_wholes
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.workloads.arrivals import PHASE_DEVIATION_S, PHASE_S

MOST_READERS = 62
"""Of one operator: which of them a row on a link is for is kept in the bits of a number."""

MOST_RATE = 1e9
"""Rows a second of a source: the virtual clock would hardly go on between two of more."""
MOST_PLACES = 1 << 24
"""Rows that all queues, or all windows, have room for, and that one row may give."""


@dataclass(frozen=True, slots=True)
class SimulatedSource:
    """Rows arrive at `high` a second or, in turns, at `high` and `low` (as `ArrivalRates`)."""

    name: str
    high: float
    low: float = 0.0
    """0, or as `high`: the rate is stable, and rows come at equal distances; otherwise the time between two is
    exponential."""
    phase_s: float = PHASE_S
    """How long a rate lasts in the mean."""
    deviation_s: float = PHASE_DEVIATION_S
    offset_s: float | None = None
    """How far into its first gap, or into its two phases, it is at second 0; None: drawn from the seed."""

    def __post_init__(self) -> None:
        if not 0 < self.high <= MOST_RATE or not 0 <= self.low <= self.high:
            raise InvalidArgument(
                f"source {self.name!r} has rates high={self.high} and low={self.low}: give rows a second, "
                f"high above 0, up to {MOST_RATE:g}, and low at most as large (0: stable)"
            )
        if not 0 < self.phase_s < inf or not 0 <= self.deviation_s < inf:
            raise InvalidArgument(
                f"source {self.name!r} has phase_s={self.phase_s} and deviation_s={self.deviation_s}: give seconds, "
                "the first above 0, the second 0 or more"
            )
        if self.offset_s is not None and not 0 <= self.offset_s < inf:
            raise InvalidArgument(f"source {self.name!r} has offset_s={self.offset_s}: give seconds, 0 or more")


@dataclass(frozen=True, slots=True)
class SimulatedOperator:
    """A filter, a map or, with two inputs, a join of windows in rows."""

    name: str
    inputs: tuple[str, ...]
    """One or two sources, or operators that come before it."""
    cost_ms: float = 1.0
    """Of a row on a host of coefficient 1 (p_o)."""
    selectivity: float = 1.0
    """Rows that a row gives, or a pair of rows in a join; more than 1 for a map that gives several."""
    window: int = 0
    """Of a join: rows of the other input that a row is paired with."""
    endpoint: bool = False
    """Whether its rows are results although others read them; what nobody reads is a result anyway."""

    def __post_init__(self) -> None:
        if len(self.inputs) not in (1, 2):
            raise InvalidArgument(f"operator {self.name!r} has the inputs {self.inputs}: name one or, for a join, two")
        for what in ("cost_ms", "selectivity"):
            if not 0 <= getattr(self, what) < inf:
                raise InvalidArgument(f"{what} of operator {self.name!r} is {getattr(self, what)}: give 0 or more")
        if max(self.window, 1) * ceil(self.selectivity) > MOST_PLACES:
            raise InvalidArgument(
                f"operator {self.name!r} has selectivity={self.selectivity} and window={self.window}: a row would give "
                f"too many at once; give less, so that it gives at most {MOST_PLACES}"
            )
        if (self.window > 0) != (len(self.inputs) == 2) or self.window < 0:
            raise InvalidArgument(
                f"operator {self.name!r} has window={self.window} and {len(self.inputs)} inputs: a join has two "
                "inputs and a window of at least 1 row, all others have one input and window=0"
            )


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """One worker, with one processor: rows are served in the order in which they came, whichever operator's."""

    coefficient: float = 1.0
    """What costs are multiplied with (alpha_h)."""
    quota: float = 1.0
    """The load that it may have (q_h)."""
    changes: tuple[tuple[float, float], ...] = ()
    """(second, coefficient): what the coefficient is from then on."""

    def __post_init__(self) -> None:
        for second, value in ((0.0, self.coefficient), *self.changes):
            if not 0 < value < inf or not 0 <= second < inf:
                raise InvalidArgument(
                    f"a host has the coefficient {value} from second {second}: give a factor above 0 and a second"
                )
        if not 0 < self.quota <= 1:
            raise InvalidArgument(f"the quota of a host is {self.quota}: give a load above 0, at most 1")


@dataclass(frozen=True, slots=True)
class SimulatedLink:
    """A link in one direction: a row takes `delay_ms`, and at most `rows` are on it at once (§5.1)."""

    source: int
    target: int
    delay_ms: float
    rows: int = 10_000

    def __post_init__(self) -> None:
        if not 0 <= self.delay_ms < inf or self.rows < 1:
            raise InvalidArgument(
                f"the link from host {self.source} to {self.target} has delay_ms={self.delay_ms} and rows={self.rows}: "
                "give milliseconds, 0 or more, and at least 1 row"
            )


@dataclass(frozen=True, slots=True)
class SimulatedGraph:
    """A graph on its hosts. What the paper leaves out is as in Table 2 of it, or as in a live cluster.

    A queue is full if `queue_rows` rows wait in it or are on their way to it: its sender then waits. So no row that is
    in the graph is lost, and no circle of hosts can wait for itself.
    """

    sources: tuple[SimulatedSource, ...]
    operators: tuple[SimulatedOperator, ...]
    hosts: tuple[SimulatedHost, ...]
    links: tuple[SimulatedLink, ...] = ()
    """Those that are not as `delay_ms` and `link_rows` say."""
    delay_ms: float = 0.5
    link_rows: int = 10_000
    queue_rows: int = 100
    """Of each input of an operator."""
    move_ms: float = 20.0
    """For each row in the queues and windows of an operator that moves."""
    row_bytes: int = 100
    outside: Literal["waits", "is lost"] = "waits"
    """What becomes of a source's row for which there is no room. Latency counts from its arrival."""
    told: bool = True
    """Whether the controller is told coefficients and links beforehand; otherwise it measures them."""
    period_s: float = 1.0
    """Between two samples of the loads."""
    warm: int = 3
    """Samples before operators are placed by them."""
    every_s: float = 30.0
    """Between two placements, of a placement that does not weigh moves itself."""
    report_s: float = 0.1
    """Between two reports of a worker."""
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.sources or not self.operators or not self.hosts:
            raise InvalidArgument("a simulated graph lacks sources, operators or hosts: give at least one of each")
        for what in ("queue_rows", "link_rows", "warm", "row_bytes"):
            if getattr(self, what) < 1:
                raise InvalidArgument(f"{what} of a simulated graph is {getattr(self, what)}: give at least 1")
        for what in ("period_s", "report_s", "every_s"):
            if not 0 < getattr(self, what) < inf:
                raise InvalidArgument(f"{what} of a simulated graph is {getattr(self, what)}: give seconds above 0")
        check_wholes(self, seed=(0, 2**62))
        for what in ("delay_ms", "move_ms"):
            if not 0 <= getattr(self, what) < inf:
                raise InvalidArgument(f"{what} of a simulated graph is {getattr(self, what)}: give ms, 0 or more")
        longest = max(self.queue_rows, *(max(each.window, 1) for each in self.operators))
        if 2 * len(self.operators) * longest > MOST_PLACES:
            raise InvalidArgument(
                f"queue_rows of a simulated graph is {self.queue_rows}, and its longest queue or window {longest}: "
                f"give at most {MOST_PLACES // (2 * len(self.operators))}, for {len(self.operators)} operators"
            )
        _check_names(self.sources, self.operators)
        if len({(link.source, link.target) for link in self.links}) < len(self.links):
            raise InvalidArgument(f"links has two from one host to the same other: give one; there are {self.links}")
        for link in self.links:
            if link.source == link.target or not {link.source, link.target} <= set(range(len(self.hosts))):
                raise InvalidArgument(
                    f"a link goes from host {link.source} to host {link.target}: name two of hosts 0 to "
                    f"{len(self.hosts) - 1}"
                )

    def shape(self) -> GraphShape:
        """What the controller knows of it."""
        numbers = {source.name: -1 - place for place, source in enumerate(self.sources)}
        numbers |= {operator.name: place for place, operator in enumerate(self.operators)}
        inputs = [tuple(numbers[name] for name in operator.inputs) for operator in self.operators]
        nodes = []
        for place, operator in enumerate(self.operators):
            readers = tuple(other for other, reads in enumerate(inputs) if place in reads)
            kind = "join" if operator.window else "filter" if operator.selectivity <= 1 else "map"
            end, by_rows = operator.endpoint or not readers, operator.window > 0
            nodes.append(NodeShape(operator.name, kind, place, 1, readers, inputs[place], end, by_rows=by_rows))
        return GraphShape(tuple(source.name for source in self.sources), tuple(nodes))


def _check_names(sources: Sequence[SimulatedSource], operators: Iterable[SimulatedOperator]) -> None:
    """Refuse names that are there twice, inputs that do not come before, and sources that nobody reads."""
    known: dict[str, int] = {}
    for source in sources:
        if source.name in known:
            raise InvalidArgument(f"two sources are called {source.name!r}: give each its own name")
        known[source.name] = 0
    for operator in operators:
        for name in operator.inputs:
            if name not in known:
                raise InvalidArgument(
                    f"operator {operator.name!r} reads {name!r}, which is no source and no operator before it: "
                    f"there are {', '.join(known)}"
                )
            known[name] += 1
            if known[name] > MOST_READERS:
                raise InvalidArgument(f"{name!r} has more than {MOST_READERS} readers: put a map between them")
        if operator.name in known:
            raise InvalidArgument(f"two are called {operator.name!r}: give each operator its own name")
        known[operator.name] = 0
    unread = [source.name for source in sources if not known[source.name]]
    if unread:
        raise InvalidArgument(
            f"no operator reads the source {unread[0]!r}: name it in the inputs of one, or leave the source out"
        )
