"""Runs of ordered regions as in ordered-regions §6: costs, buffers, and how long a run takes.

What the paper says: base costs in integer multiplies a tuple; samples of a second; one PE a core; weights in units of
0.1 %; a simulated load that multiplies the cost of a tuple, on half of the PEs, for all tuples or the first eighth.

What it leaves out, and what is chosen here:

- A multiply takes 1 ns: three cycles at 3 GHz, each waiting for the one before.
- A PE takes 1 us beside that to receive a tuple and send its result; no load makes that longer. It is why 10 times the
  multiplies is 5.5 times the time at a base cost of 1,000, and round-robin no more than 4 times worse there (§6.3).
- The splitter takes 0.25 us a tuple, since 8 PEs are said to be the most that a base cost of 1,000 keeps busy (§6.3).
- Kernel buffers of 64 kB on each side of a connection hold 1,024 tuples of 64 bytes; the connections to the merger
  likewise. How deep they are shows in Figure 10, load that stays, 2 PEs, where LB takes at least 1.3 times as long as
  Oracle* and being adaptive costs little (§6.4): with 2,048 tuples a side LB-static takes 1.12 and LB-adaptive 1.27
  times as long, with 1,024 it is 1.48 and 1.54, with 512 it is 1.66 and 1.76.
- The merger's queues (Figure 3) hold 32 million tuples, which the 15 GB of its host (§6) have room for, and which is
  never the limit. Connections alone hold a splitter back (§4.3), so no room in the merger may run out first: at a
  weight of a thousandth, 1,000 tuples wait in the merger for each in the buffers of the slow PE, and more come while
  these are worked off. A splitter that waits for the merger has no connection to blame, and nothing is learned then.
- A run has as many tuples as the PEs can do in 1,000 s, none of them ever idle: the load of Figure 8 goes after about
  125 s, an eighth of that. `quick`: in 100, 200 and 400 s at base costs of 1,000, 10,000 and 60,000.
- Tuples move in lumps of about 1 to 2 ms of work, or 4 times that (`quick`, and at 60,000): a run takes seconds.

`blocking-rate` and `credits` are ours: they run on the same workers with the connections of the live engine, frames
sized by service time and two of them at a time on a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import SampleEntry, WeightsEntry
from evenflow.policy import balance_named
from evenflow.sim.ordered.plane import OrderedPlane
from evenflow.sim.ordered.scene import OrderedScene, WorkerLoad
from evenflow.sim.simulation import Simulation
from evenflow_lab.experiments.base import Setting

MULTIPLY_S = 1e-9
OVERHEAD_S = 1e-6
SPLIT_S = 2.5e-7
SIDE = 1024
"""Tuples in the kernel buffer of one side of a connection."""
MERGER = 32_000_000
"""Tuples in the queues of the merger, at most."""
LUMP_S = 1.5e-3
"""Seconds of work in a lump, about."""
OURS = ("blocking-rate", "credits")
PAPER = ("oracle", "lb-static", "lb-adaptive", "round-robin")
LABELS = {
    "oracle": "Oracle*",
    "lb-static": "LB-static",
    "lb-adaptive": "LB-adaptive",
    "round-robin": "RR",
    "blocking-rate": "blocking-rate (ours)",
    "credits": "credits (ours)",
}
EIGHTH = 0.125
FULL_S = 1000.0
QUICK_S = {1000: 100.0, 10_000: 200.0, 60_000: 400.0}
"""Seconds that the PEs take for the tuples of a run, none of them ever idle, by base cost."""


def tuple_s(multiplies: int, factor: float = 1.0) -> float:
    """Seconds that a PE takes for a tuple, under a load of `factor`."""
    return multiplies * MULTIPLY_S * factor + OVERHEAD_S


def scene_of(setting: Setting, multiplies: int, workers: int, balance: str, **fields: Any) -> OrderedScene:
    """The workers of an experiment, with the connections of the paper or, for balances of ours, of the live engine."""
    common = {
        "row_s": multiplies * MULTIPLY_S,
        "row_overhead_s": OVERHEAD_S,
        "send_s": 0.0,
        "send_row_s": SPLIT_S,
        "seed": setting.seed,
    }
    if balance in OURS:
        return OrderedScene(workers, **{**common, "send_s": 2e-5, **fields})
    times = 4 if setting.quick or multiplies >= 60_000 else 1
    lump = 1 << max(0, int(LUMP_S * times / tuple_s(multiplies)).bit_length() - 1)
    kernel = {
        "window": 0,
        "send_buffer": SIDE,
        "receive_buffer": SIDE,
        "result_buffer": 2 * SIDE,
        "reorder_rows": MERGER,
    }
    return OrderedScene(workers, **{**common, **kernel, "frame_rows": min(lump, SIDE // 4), **fields})


@dataclass(frozen=True, slots=True)
class DepthRun:
    """An in-depth run, sample by sample."""

    weights: list[list[float]]
    """By sample: the percentage of the tuples that each connection was to get."""
    rates: list[list[float]]
    """By sample: the blocking rate of each connection."""
    throughput: list[float]
    """By sample: tuples a second."""
    clusters: list[tuple[float, dict[str, int]]]
    """Second, and the cluster of each connection, of decisions that had any."""

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {"weights": self.weights, "rates": self.rates, "throughput": self.throughput, "clusters": self.clusters}


def in_depth(scene: OrderedScene, balance: str, seconds: float, **options: Any) -> DepthRun:
    """Run for some seconds, a sample each; what each connection had and did."""
    world = Simulation(OrderedPlane(scene, balance_named(balance, **options)), scene.workers, period_s=1.0)
    world.run(seconds + 0.5)
    samples = entries_of(world.log.written, SampleEntry)
    weights = [[round(each.weight / 10, 1) for each in entry.connections] for entry in samples]
    blocked = np.array([[0.0] * scene.workers, *([each.blocked_s for each in entry.connections] for entry in samples)])
    rows = np.diff([0, *(entry.rows_out for entry in samples)])
    moves = [entry for entry in entries_of(world.log.written, WeightsEntry) if "clusters" in entry.detail]
    rates = np.clip(np.diff(blocked, axis=0), 0.0, 1.0).round(4).tolist()
    return DepthRun(weights, rates, rows.tolist(), [(entry.time, entry.detail["clusters"]) for entry in moves])


def paper_and_ours(setting: Setting, cost: int, workers: int, full_s: float, **fields: Any) -> dict[str, DepthRun]:
    """In-depth runs at a base cost, by balance: the adaptive one of the paper, and ours."""
    runs = {}
    for place, balance in enumerate(("lb-adaptive", "blocking-rate")):
        scene = scene_of(setting, cost, workers, balance, **fields)
        runs[balance] = in_depth(scene, balance, seconds_of(setting, full_s))
        setting.progress((place + 1) / 2)
    return runs


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run of a number of tuples, to its end."""

    seconds: float
    final: float
    """Tuples a second in the last tenth of them."""


def to_the_end(scene: OrderedScene, balance: str, step_s: float, **options: Any) -> WholeRun:
    """Run until all tuples are through, looking every `step_s` seconds."""
    plane = OrderedPlane(scene, balance_named(balance, **options))
    # round-robin decides nothing, and takes 45 times as long
    world = Simulation(plane, scene.workers, period_s=1.0 if balance != "round-robin" else step_s)
    times, rows = [0.0], [0]
    while plane.finished_s == np.inf:
        world.run(times[-1] + step_s)
        times.append(min(world.time, plane.finished_s))
        rows.append(plane.rows_out)
    late = float(np.interp(0.9 * scene.rows, rows, times))
    return WholeRun(round(times[-1], 3), round(0.1 * scene.rows / (times[-1] - late), 1))


@dataclass(frozen=True, slots=True)
class HalfLoaded:
    """Half of the PEs take `factor` times as long: for all tuples or, if `removed`, for the first eighth of them."""

    multiplies: int
    factor: float
    removed: bool

    def capacities(self, workers: int) -> tuple[list[float], list[float]]:
        """Tuples a second of each worker, with and without the load."""
        fast, slow = 1 / tuple_s(self.multiplies), 1 / tuple_s(self.multiplies, self.factor)
        return [slow] * (workers // 2) + [fast] * (workers - workers // 2), [fast] * workers

    def run(self, setting: Setting, workers: int, balance: str) -> WholeRun:
        """One cell of Figures 9, 10 and 13."""
        work_s = QUICK_S[self.multiplies] if setting.quick else FULL_S
        loaded, free = self.capacities(workers)
        before, after = (min(sum(speeds), 1 / SPLIT_S) for speeds in (loaded, free))
        share = EIGHTH if self.removed else 1.0
        rows = int(work_s / (share / before + (1 - share) / after))
        last = int(EIGHTH * rows) if self.removed else 0
        loads = tuple(WorkerLoad(worker, self.factor, end_row=last) for worker in range(workers // 2))
        scene = scene_of(setting, self.multiplies, workers, balance, rows=rows, loads=loads)
        options: dict[str, Any] = {}
        if balance == "oracle":
            steps: Sequence[tuple[float, list[float]]] = [(0.0, loaded)]
            options["schedule"] = [*steps, (last / before, free)] if self.removed else steps
        return to_the_end(scene, balance, work_s / 40, **options)


def seconds_of(setting: Setting, full: float) -> float:
    """How long an in-depth run is."""
    return full / 2 if setting.quick else full
