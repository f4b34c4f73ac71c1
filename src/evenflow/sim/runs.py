"""Simulated runs: a scenario under a balance, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from evenflow.errors import SimulationError
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
    """Seconds, and rows a second until then."""
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
        """Over the whole run, up to its last sample."""
        return self.rows / (self.series[-1][0] if self.series else self.seconds)

    @property
    def late_rows_per_s(self) -> float:
        """In the second half of the run, when a balance has had time."""
        late = [rate for second, rate in self.series if second > self.seconds / 2]
        return sum(late) / len(late) if late else 0.0

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
        second = 0.0
        while second < scenario.seconds:
            second = min(second + scenario.period_s, scenario.seconds)
            world.run(second)
            watch(second)
            stuck = plane.stuck()
            if stuck:
                raise SimulationError(f"nothing moves any more at second {second:g} of the simulation: {stuck}")
        world.run(scenario.seconds + 2 * scenario.delay_s)  # what was said at the end is heard, too
    finally:
        log.close()
    series = _series(log.entries)
    return SimulatedRun(
        balance=name,
        seconds=scenario.seconds,
        rows=_rows(log.entries),
        series=series,
        decisions=sum(entry["event"] in ("weights", "rebalance") or bool(entry.get("moves")) for entry in log.entries),
        units_moved=sum(len(entry["units"]) for entry in log.of("moved")),
        latency_ms=_latency(log.entries),
        messages_per_s=world.messages / scenario.seconds,
        entries=log.entries,
    )


def _counts(entries: list[dict[str, Any]]) -> list[tuple[float, int]]:
    """Seconds, and rows until then, as samples of the event log have them."""
    found, results = [(0.0, 0)], 0
    for entry in entries:
        match entry["event"]:
            case "sample":
                found.append((entry["time"], entry["rows_out"]))
            case "keyed-sample":
                found.append((entry["time"], sum(consumer["rows"] for consumer in entry["consumers"])))
            case "graph-results":
                results += entry["results"]
                found.append((entry["time"], results))
    return found


def _rows(entries: list[dict[str, Any]]) -> int:
    return max(rows for _, rows in _counts(entries))


def _series(entries: list[dict[str, Any]]) -> list[tuple[float, float]]:
    counts = _counts(entries)
    steps = pairwise(counts)
    return [(then, (after - before) / (then - now)) for (now, before), (then, after) in steps if then > now]


def _latency(entries: list[dict[str, Any]]) -> dict[str, float]:
    told = [entry for entry in entries if entry["event"] in ("performance", "graph-results") and "buckets" in entry]
    total = Latencies()
    for entry in told:
        total += Latencies.read(entry)
    return total.summary_ms
