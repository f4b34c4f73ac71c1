"""First Story Detection on simulated engines (cep §4): 4,096 keys, theta 15 %, windows of 500 texts a key.

The splitter gives engines texts as fast as they take them, for 40 minutes. What an engine needs for a text is not told;
with 3.6 ms five engines that share evenly do 1,389 a second (Figure 3 has 1,200). A text has 2.7 kB (8 GB of 2.95
million), and fetching one from the database takes 1 ms: half of it is charged to either side of a movement. Loads are
counted over a minute, which the paper does not tell either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.experiments.base import Data, Setting
from evenflow.policy import keyed_balance_named
from evenflow.policy.keyed.loads import imbalance
from evenflow.sim.keyed_plane import KeyedPlane
from evenflow.sim.keyed_setup import KeyedSetup, KeyPhase
from evenflow.sim.simulation import Simulation
from evenflow.stories.operator import HISTORY
from evenflow.workloads.story_rows import KEYS

Longs = npt.NDArray[np.int64]
TEXT_US = 3_600.0
TEXT_BYTES = 2_700
FETCH_US = 500.0
THETA = 15.0
DYNAMIC = ("dlb-l", "dlb-h", "lptf")


@dataclass(frozen=True)
class EngineRun:
    """One balance on some engines: `trace` has the keys of texts in their order; without it, keys follow Zipf's law."""

    balance: str
    engines: int
    seconds: int
    window: float
    trace: tuple[int, ...] = ()
    phases: tuple[KeyPhase, ...] = (KeyPhase(),)
    seed: int = 1

    def run(self) -> Data:
        """Simulate it; figures for each window of loads, and all moves."""
        options = {"theta": THETA, "window": self.window} if self.balance in DYNAMIC else {}
        plane = KeyedPlane(self._setup(), keyed_balance_named(self.balance, **options))
        world = Simulation(plane, self.engines)
        world.run(float(self.seconds))
        entries = world.log.entries
        return {
            "balance": self.balance,
            "engines": self.engines,
            "seconds": self.seconds,
            **_figures([entry for entry in entries if entry["event"] == "keyed-sample"], self.window),
            "rebalances": [
                {"second": entry["time"], "keys": entry["units"], "texts": _texts(entry["unit_rows"])}
                for entry in entries
                if entry["event"] == "rebalance"
            ],
            "moves": [
                [entry["time"], entry["units"], entry["source"], entry["target"]]
                for entry in entries
                if entry["event"] == "moved"
            ],
        }

    def _setup(self) -> KeyedSetup:
        return KeyedSetup(
            workers=self.engines,
            units=KEYS,
            feeders=1,
            groups=KEYS,
            phases=self.phases,
            trace=self.trace,
            row_us=TEXT_US,
            row_jitter_us=TEXT_US / 10,
            row_bytes=TEXT_BYTES,
            feeder_us=0.0,
            packet_rows=4,
            unit_bytes=0,
            growth_bytes=float(TEXT_BYTES),
            most_unit_bytes=HISTORY * TEXT_BYTES,
            state_row_us=FETCH_US,
            seed=self.seed,
        )


def _texts(unit_rows: list[int]) -> int:
    """Texts that are kept for some keys."""
    return int(np.minimum(unit_rows, HISTORY).sum())


def _figures(samples: list[dict[str, Any]], window: float) -> Data:
    """By window of loads: texts a second, and the relative standard deviation of the engines' loads in percent."""
    picked, last = [], -window
    for sample in samples:
        if sample["time"] - last >= window:
            picked.append(sample)
            last = sample["time"]
    counts = np.array([[consumer["rows"] for consumer in sample["consumers"]] for sample in picked], np.int64)
    times = np.array([sample["time"] for sample in picked])
    loads = np.diff(counts, axis=0, prepend=0)
    spans = np.diff(times, prepend=0.0)
    return {
        "processed": sum(consumer["rows"] for consumer in samples[-1]["consumers"]),
        "times": times.round(3).tolist(),
        "texts_s": (loads.sum(axis=1) / spans).round(2).tolist(),
        "rstd": [round(imbalance(load), 3) if load.sum() else 0.0 for load in loads],
    }


@dataclass(frozen=True)
class CepSizes:
    """How long runs are."""

    seconds: int
    phases: tuple[float, float]
    """Seconds of an exponent of 0.2, and of one of 1.5."""
    window: float
    texts: int

    @classmethod
    def of(cls, setting: Setting) -> CepSizes:
        """The paper's, or an eighth of these."""
        return cls(300, (37.5, 75.0), 7.5, 40_000) if setting.quick else cls(2_400, (300.0, 600.0), 60.0, 300_000)
