"""What the Flux experiments share: the paper's cluster, runs of it by balance, and when a run is steady.

Full size is the paper's: 32 machines, each with a feeder and a worker. Quick size has 8, whose skew buffers are four
times as large: so an imbalance of one machine is felt after as long, and a machine's share of its rows is the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import MovedEntry
from evenflow.policy import keyed_balance_named
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import ExternalLoad, KeyedSetup
from evenflow.sim.simulation import Simulation
from evenflow_lab.experiments.base import Setting

SOURCE = "Shah et al., Flux (UCB/CSD-2-1205), "
MACHINES, QUICK_MACHINES = 32, 8
SKEW_ROWS = 2048
PAPER = {"delta_min": 0.01}
"""The paper's shortest collection phase; its other parameters are the defaults."""
FEEDING: dict[str, Any] = {"skew_by_unit": True, "full_packets": True}
"""How the paper's feeders differ from ours: rows wait by unit (§5.1), and packets have 1 KB, 12 rows of 80 bytes (§3).

That packets leave only when they are full is not said; it was chosen when figure 9 was looked into (see
docs/reproduction.md).
"""
FLUX = ("flux", "flux-memory", "flux-hybrid")
TAKEN = 100 / 175
"""Share of a machine that the external process takes (`ExternalLoad`); the paper says about 57 %."""


@dataclass(frozen=True, slots=True)
class FluxRun:
    """The figures of a run, second by second."""

    throughput: list[float]
    latency_ms: list[float]
    moved: list[float]
    """When units were installed."""
    most_moved: int
    """Moves of the unit that moved most often."""
    owned: list[int]
    """Units of each worker at the end."""
    on_disk: list[int]
    """By worker, units on disk at the end."""

    def data(self) -> dict[str, Any]:
        """The run as JSON."""
        return {
            "throughput": [round(value) for value in self.throughput],
            "latency_ms": [round(value, 3) for value in self.latency_ms],
            "moves": len(self.moved),
            "last_move": round(max(self.moved, default=0.0), 2),
            "owned": self.owned,
            "on_disk": self.on_disk,
        }


def machines(setting: Setting) -> int:
    """How many machines there are."""
    return QUICK_MACHINES if setting.quick else MACHINES


def cluster(setting: Setting, **changes: Any) -> KeyedSetup:
    """The paper's cluster (§3, §5.4), with changes."""
    count = machines(setting)
    given: dict[str, Any] = {
        "workers": count,
        "feeders": count,
        "units": 64 * count,
        "skew_rows": SKEW_ROWS * MACHINES // count,
        "seed": setting.seed,
    }
    return KeyedSetup(**(FEEDING | given | changes))


def run_flux(setup: KeyedSetup, balance: str, seconds: float, **options: Any) -> FluxRun:
    """Run a balance; the Flux policies with the paper's parameters, unless others are given."""
    if balance in FLUX:
        options = PAPER | options
    plane = KeyedPlane(setup, keyed_balance_named(balance, **options))
    world = Simulation(plane, setup.workers, period_s=5.0)
    world.run(seconds)
    moves = [(entry.time, unit) for entry in entries_of(world.log.written, MovedEntry) for unit in entry.units]
    moved, most = [time for time, _ in moves], max(Counter(unit for _, unit in moves).values(), default=0)
    on_disk = np.bincount(plane.memory.home[plane.arrays.units["away"] > 0], minlength=setup.workers)
    owned = np.bincount(plane.memory.home[plane.memory.home >= 0], minlength=setup.workers)
    measures = plane.measures
    rows, latency = measures.throughput.tolist(), measures.latency_ms.tolist()
    return FluxRun(
        throughput=rows,
        latency_ms=latency,
        moved=moved,
        most_moved=most,
        owned=owned.tolist(),
        on_disk=on_disk.tolist(),
    )


def loaded(setting: Setting, count: int, since: float = 0.0) -> tuple[ExternalLoad, ...]:
    """The external process on so many machines, drawn by the seed; for more machines, the same ones and others."""
    drawn = np.random.RandomState(setting.seed).permutation(machines(setting))[:count]
    return tuple(ExternalLoad(int(worker), since) for worker in drawn)


def last(values: list[float], seconds: int) -> float:
    """The mean of the last seconds."""
    return float(np.mean(values[-seconds:]))


def mean_latency(run: dict[str, Any], seconds: int) -> float:
    """Milliseconds of a row over the last seconds."""
    rows, latency = np.array(run["throughput"][-seconds:], float), np.array(run["latency_ms"][-seconds:])
    return float((rows * latency).sum() / max(rows.sum(), 1.0))


def first_below(values: list[float], level: float) -> int:
    """The second in which values are first below a level (1 is the first second); 0 if they never are."""
    return next((second for second, value in enumerate(values, 1) if value < level), 0)


def steady_since(values: list[float], level: float) -> int:
    """The second after which all means over three seconds are at least `level`; 0 if that is never so."""
    means = np.convolve(values, np.ones(3) / 3, "valid")
    below = np.flatnonzero(means < level)
    if not len(below):
        return 1
    return int(below[-1]) + 3 if below[-1] < len(means) - 1 else 0
