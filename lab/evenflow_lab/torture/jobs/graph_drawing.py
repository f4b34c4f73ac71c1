"""The graph of a seed: filters, maps, ordered maps, joins, keyed operators and rules, shared results and diamonds.

It never depends on the machine. Windows of joins are so large that results do not depend on who comes first; or they
are a few seconds, where both sides have the times of the input, and rows leave them while the job runs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from evenflow.graph.build.binding import bind
from evenflow.graph.build.builder import Graph, Stream
from evenflow.graph.build.plan import GraphPlan
from evenflow_lab.torture.jobs.graph_nodes import (
    ARROW,
    RIGHT,
    CountedInGraph,
    Paired,
    Ranked,
    Renamed,
    Scaled,
    Tallied,
    Thinned,
)
from evenflow_lab.torture.jobs.rows import GAP_US, SCHEMA, lateness_s, source_names
from evenflow_lab.torture.schedule import Job, Schedule

NODES = (3, 7)
"""How many steps are drawn; a join or a keyed operator is several nodes."""
PAIRS = 4000
"""About how many rows a join gives at most: its sides are thinned out until then."""
WHOLE = 1_000_000
"""The rows of a join's window: more than there are."""
RULE = "SELECT id, k, v, at, count(*) AS nth, avg(v) AS mean FROM Row GROUP BY k"
"""Counts by key, as the keyed operator does; its averages are of all rows."""
YEARS_S = 1e10
"""The seconds of a join's window: more than pass."""
SECONDS = (1, 3, 5)
"""The seconds of a join's window out of which rows go."""
FINITE = 0.7
"""The share of windows in seconds that are such, where times allow it."""
TWO_ENDS = ("counts", "means")
"""Two endpoints of one node, if the sink keeps what it has already."""


@dataclass(frozen=True, slots=True)
class DrawnStream:
    """A stream of the graph."""

    stream: Stream
    rows: float
    """About how many rows it has in all."""
    orderly: bool = True
    """Whether rows of one partition are in their order: only whole operators are before it."""
    timely: bool = True
    """Whether its times are those of rows of the input of the same micro-batch: no join is before it."""


@dataclass(slots=True)
class DrawnGraph:
    """A graph and its streams."""

    graph: Graph
    streams: list[DrawnStream] = field(default_factory=list)

    @property
    def orderly(self) -> set[str]:
        """The endpoints at which rows of one partition are in their order."""
        found = {drawn.stream for drawn in self.streams if drawn.orderly}
        return {name for name, stream in self.graph.endpoints.items() if stream in found}


def draw_graph(schedule: Schedule, folder: str = "") -> DrawnGraph:
    """The graph of a schedule; `folder` is that of the run whose faults strike it, or empty."""
    return _Drawing(schedule, folder).draw()


def plan_of(drawn: DrawnGraph) -> GraphPlan:
    """The plan of a graph without Spark; its units have the numbers that they have with Spark."""
    inputs = {source.name: ARROW[SCHEMA] for source in drawn.graph.sources}
    return bind(drawn.graph, inputs, schema_of=ARROW.__getitem__)


class _Drawing:
    def __init__(self, schedule: Schedule, folder: str) -> None:
        self._random = random.Random(f"{schedule.seed} graph")
        self._windows = random.Random(f"{schedule.seed} windows")
        self._job: Job = schedule.job
        self._folder = folder
        self._read: set[Stream] = set()
        graph = Graph("torture")
        rows = float(self._job.batches * self._job.rows + self._job.keys)
        self._drawn = DrawnGraph(graph, [DrawnStream(graph.source(name), rows) for name in source_names(self._job)])

    def draw(self) -> DrawnGraph:
        steps: tuple[Callable[[], None], ...] = (
            *(self._filter, self._commuting, self._map, self._ordered_map),
            *(self._keyed, self._keyed, self._detect, self._join, self._join),
        )
        for _ in range(self._random.randint(*NODES)):
            self._random.choice(steps)()
        if not any(stream.kind == "keyed" for stream in self._drawn.graph.nodes):
            self._keyed()
        unread = [drawn.stream for drawn in self._drawn.streams if drawn.stream not in self._read]
        others = [stream for stream in self._read if stream in {drawn.stream for drawn in self._drawn.streams}]
        shared = [stream for stream in sorted(others, key=lambda each: each.name) if self._random.random() < 0.2]
        for number, stream in enumerate((*unread, *shared)):
            self._drawn.graph.endpoint(f"end{number}", stream)
        if self._job.sink == "skips":
            self._two_ends()
        return self._drawn

    def _two_ends(self) -> None:
        """Two endpoints of a node that counts the rows of the first source."""
        graph = self._drawn.graph
        counted = graph.sources[0].keyed("k", self._operator(), units=self._job.units)
        for name, column in zip(TWO_ENDS, ("nth", "mean"), strict=True):
            graph.endpoint(name, counted.map(Ranked(column), SCHEMA))

    def _operator(self) -> CountedInGraph:
        return CountedInGraph(self._folder, self._job.ballast)

    def _take(self, orderly: bool = False) -> DrawnStream:
        """A stream to read, `orderly` or any. In 60 % of the draws it has no reader yet; otherwise readers share it."""
        fit = [drawn for drawn in self._drawn.streams if drawn.orderly or not orderly]
        waiting = [drawn for drawn in fit if drawn.stream not in self._read]
        found = self._random.choice(waiting if waiting and self._random.random() < 0.6 else fit)
        self._read.add(found.stream)
        return found

    def _add(self, stream: Stream, rows: float, orderly: bool, timely: bool) -> None:
        self._drawn.streams.append(DrawnStream(stream, rows, orderly, timely))

    def _filter(self) -> None:
        given, of = self._take(), self._random.choice((2, 3, 5))
        condition = self._random.choice((f"k % {of} <> 0", f"v >= {of * 60}", f"id % {of} > 0", Thinned(of)))
        self._add(given.stream.filter(condition), given.rows * 0.7, given.orderly, given.timely)

    def _commuting(self) -> None:
        given = self._take()
        several = given.stream.filter("v < 900", commutative=True).filter("k % 7 <> 3", commutative=True)
        self._add(several, given.rows * 0.8, given.orderly, given.timely)

    def _map(self, ordered: bool = False) -> None:
        given = self._take(ordered)
        times = self._random.choice((1, 1, 2)) if given.rows < 20_000 else 1
        scaled = Scaled(self._random.choice((0.5, 2.0, -1.0)), times)
        self._add(given.stream.map(scaled, SCHEMA, ordered=ordered), given.rows * times, given.orderly, given.timely)

    def _ordered_map(self) -> None:
        self._map(ordered=True)

    def _keyed(self) -> None:
        given = self._take()
        self._tally(given, given.stream.keyed("k", self._operator(), units=self._job.units))

    def _detect(self) -> None:
        given = self._take()
        self._tally(given, given.stream.detect(RULE, key="k", units=self._job.units))

    def _tally(self, given: DrawnStream, counted: Stream) -> None:
        """Add the stream of counted rows; its rows have their times only if their order is defined."""
        ordered = given.orderly and not self._job.racing
        self._add(counted.map(Tallied(ordered), SCHEMA), given.rows, False, ordered and given.timely)

    def _join(self) -> None:
        left, right = self._take(), self._take()
        by_rows, finite = self._random.random() < 0.5, self._windows.random() < FINITE
        seconds = self._windows.choice(SECONDS) if finite and left.timely and right.timely else YEARS_S
        pairs = left.rows * right.rows / self._job.keys
        if not by_rows:
            pairs *= min(1.0, 2e6 * seconds / (GAP_US * self._drawn.streams[0].rows))
        of = max(1, math.ceil(math.sqrt(pairs / PAIRS)))
        one, other = (side.stream if of == 1 else side.stream.filter(Thinned(of)) for side in (left, right))
        renamed = other.map(Renamed(), RIGHT)
        units = self._random.choice((1, self._job.units)) if not self._job.memory else self._job.units
        if by_rows:
            joined = one.join(renamed, "k", rows=WHOLE, units=units)
        else:
            late = lateness_s(self._job) if self._job.racing else 0.0  # a micro-batch has parts of batches then
            joined = one.join(renamed, "k", seconds=seconds, time=("at", "at2"), lateness=late, units=units)
        self._add(joined.map(Paired(), SCHEMA), pairs / of**2, False, False)
