"""Simulated runs: a scenario under a balance, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from evenflow.errors import SimulationError
from evenflow.model.entries import (
    EventEntry,
    GraphResultsEntry,
    GraphSampleEntry,
    MovedEntry,
    PerformanceEntry,
    RebalanceEntry,
    WeightsEntry,
)
from evenflow.model.latency import Latencies
from evenflow.sim.log import SimulatedLog
from evenflow.sim.scenario import Scenario
from evenflow.sim.simulation import Simulation

Watch = Callable[[float], None]
"""Told the second that a simulation has reached."""


@dataclass(frozen=True)
class SimulatedRun:
    """What one balance made of a scenario."""

    balance: str
    seconds: float
    rows: int
    """Rows served; of a graph, results."""
    series: list[tuple[float, float]]
    """Seconds, and rows a second until then since the second before; to the end of the run or of its rows."""
    decisions: int
    """How often the balance wanted something changed."""
    units_moved: int
    latency_ms: dict[str, float]
    messages_per_s: float
    """To and from the controller."""
    entries: list[dict[str, Any]] = field(repr=False)
    """The event log."""

    @property
    def rows_per_s(self) -> float:
        """Over the whole run, or until its rows had ended."""
        return self.rows / self.series[-1][0]

    @property
    def late_rows_per_s(self) -> float:
        """In the second half of that time, when a balance has had time: in the steps that end there."""
        steps = zip([0.0, *(second for second, _ in self.series)], self.series, strict=False)
        late = [(end - begin, rate) for begin, (end, rate) in steps if end > self.series[-1][0] / 2]
        return sum(length * rate for length, rate in late) / sum(length for length, _ in late)

    def figures(self) -> dict[str, Any]:
        """For JSON: all but the event log."""
        told = asdict(self)
        del told["entries"]
        return told | {"rows_per_s": self.rows_per_s, "late_rows_per_s": self.late_rows_per_s}


def _nobody(second: float) -> None:
    """Nobody wants to know how far it is."""


def simulate(
    scenario: Scenario | str | Path,
    balance: str | None = None,
    *,
    event_log: str | Path | None = None,
    watch: Watch = _nobody,
) -> SimulatedRun:
    """Simulate a scenario under one balance: the one that is named or else the first of the scenario.

    `event_log` is a file for the same event log that a live cluster writes: `evenflow plot` draws it.
    """
    scenario = scenario if isinstance(scenario, Scenario) else Scenario.read(scenario)
    name = balance or scenario.balances[0]
    plane, log = scenario.plane(name), SimulatedLog(event_log)
    world = Simulation(plane, scenario.workers, period_s=scenario.period_s, delay_s=scenario.delay_s, log=log)
    try:
        second, ended, counts = 0.0, False, [(0.0, 0)]
        while second < scenario.seconds:
            second = min(second + scenario.period_s, scenario.seconds)
            world.run(second)
            watch(second)
            if not ended:
                counts.append((second, plane.served))
            ended = plane.ended
            stuck = plane.stuck()
            if stuck:
                raise SimulationError(f"nothing moves any more at second {second:g} of the simulation: {stuck}")
        world.run(scenario.seconds + 2 * scenario.delay_s)  # what was said at the end is heard, too
    finally:
        log.close()
    return SimulatedRun(
        balance=name,
        seconds=scenario.seconds,
        rows=counts[-1][1],
        series=_series(counts),
        decisions=sum(map(_decides, log.written)),
        units_moved=sum(len(entry.units) for entry in log.written if isinstance(entry, MovedEntry)),
        latency_ms=_latency(log.written),
        messages_per_s=world.messages / scenario.seconds,
        entries=log.entries,
    )


def _series(counts: list[tuple[float, int]]) -> list[tuple[float, float]]:
    """Rows a second, from seconds and the rows until then."""
    return [(then, (after - before) / (then - now)) for (now, before), (then, after) in pairwise(counts)]


def _decides(entry: EventEntry) -> bool:
    """Whether an entry tells of a decision of the balance, or of a placement that moves operators."""
    return isinstance(entry, WeightsEntry | RebalanceEntry) or (
        isinstance(entry, GraphSampleEntry) and bool(entry.moves)
    )


def _latency(entries: list[EventEntry]) -> dict[str, float]:
    total = Latencies()
    for entry in entries:
        if isinstance(entry, PerformanceEntry | GraphResultsEntry):
            total += entry.latencies
    return total.summary_ms
