"""First Story Detection on simulated engines (cep §4): 4,096 keys, theta 15 %, windows of 500 texts a key, 40 minutes.

Texts are sent "with the maximum possible speed", and what sets it is the splitter, which "can be the bottleneck"
(§3.3), not the engines: by Table 1, KG does 93 % of what DLB-L does although its loads differ by 45 %, and with Zipf
keys, where one of five engines has half of the texts, still 88 % of what the splitter gives. If an engine that is
behind held back the others, that would be 40 %. So texts come at a rate, whatever the engines do, and wait for theirs.

- The rate is that of PKG, which never moves anything and spreads loads best: 2,926,853 texts in 2,400 s.
- What an engine needs for a text follows from LPTF, whose engines are never idle: of 5 x 2,400 s it spends
  9 x 677,886 x 1 ms on texts that engines fetch from the database when keys move (step iii), the rest on 2,042,201
  texts: 2.9 ms a text. That more texts of a key to compare with would take longer is not to be seen in Figure 3.
- The engine that gets a key fetches its texts, 1 ms each, beside the texts of other keys (step iv); the other one only
  forgets them (step i). With Zipf keys LPTF rebalances 12 times, with more than 600,000 texts each time: 120 s of
  fetching for each of five engines. The first 300 s call for none, and eleven are over before the last begins, so an
  engine gives at least 1,320 of 2,100 s to fetching while there is something to fetch: three quarters of its time here.
- Windows of loads go on while keys move: fetching takes LPTF's engines ten times as long as those of DLB-H (677,886
  texts, at most 70,400), and yet LPTF rebalances more often.
- They are 200 s long. §4 says how often there was a rebalance: in the default order 7, 7 and 9 times with DLB-L, DLB-H
  and LPTF, with Zipf keys 10, 10 and 12 times. Of windows of 100, 150, 200 and 240 s, the last two come
  nearest to the six figures together, and equally near (sum of squared logarithms of ratios).

Not told, and chosen: an engine has room for a million texts that wait (2.7 kB each: 8 GB of 2.95 million), which is
never used up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import KeyedSampleEntry, MovedEntry, MoveUndoneEntry, RebalanceEntry
from evenflow.policy import keyed_balance_named
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.loads import imbalance
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import KeyedSetup, KeyPhase
from evenflow.sim.simulation import Simulation
from evenflow.stories.operator import HISTORY
from evenflow.workloads.tweets import Tweets
from evenflow_lab.experiments.base import Data, Setting
from evenflow_lab.experiments.cep.loads import EmittedLoads
from evenflow_lab.workloads.story_rows import KEYS, TWEETS, StoryRows

Longs = npt.NDArray[np.int64]
RUN_S = 2_400
ENGINES = 5
FETCH_US = 1_000.0
"""To fetch one text from the database."""
RATE = 2_926_853 / RUN_S
"""Texts a second (Table 1, PKG)."""
TEXT_US = (ENGINES * RUN_S * 1e6 - 9 * 677_886 * FETCH_US) / 2_042_201
"""What an engine needs for a text (Table 1 and §4, LPTF)."""
TEXT_BYTES = 2_700
MOST_WAITING = 1 << 20
"""Texts that wait for engines, at most."""
FETCHING = 0.75
"""The share of an engine's time for fetching, while there is something to fetch."""
WINDOW_S = 200.0
"""Loads are counted over."""
REPORTS = 60
"""Reports of an engine in a window of loads."""
POINTS = 40
"""Of a curve of throughput."""
DATABASE_MBIT = 1e4
"""State goes by way of the database, and how long that takes is in FETCH_US."""
THETA = 15.0
PRINTED = {"theta": THETA, "least_rows": 0, "least_gain": 0.0, "through_moves": True}
"""Algorithm 1 and windows as they are printed, without what our own balances add to save moves."""
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
    keys: int = KEYS
    seed: int = 1

    def run(self) -> Data:
        """Simulate it; figures for each window of loads, and all moves."""
        options = dict(PRINTED, window=self.window) if self.balance in DYNAMIC else {}
        balance = keyed_balance_named(self.balance, **options)
        emitted = EmittedLoads(balance, self.engines, self.window)
        if self.balance != "auto":  # which needs them more often
            emitted.report_s = self.window / REPORTS
        plane = KeyedPlane(self.setup(), cast(KeyedBalance, emitted))
        if not balance.by_content:
            emitted.given = plane.arrays.lines["given"][:, 0]
        world = Simulation(plane, self.engines)
        world.run(float(self.seconds))
        entries = world.log.written
        return {
            "balance": self.balance,
            "engines": self.engines,
            "seconds": self.seconds,
            **_figures(entries_of(entries, KeyedSampleEntry), self.seconds / POINTS),
            "rstd_times": [time for time, _ in emitted.windows],
            "rstd": [round(imbalance(load), 3) for _, load in emitted.windows],
            "undone": len(entries_of(entries, MoveUndoneEntry)),
            "rebalances": [
                {
                    "second": entry.time,
                    "keys": entry.units,
                    "texts": int(np.minimum(entry.unit_rows, HISTORY).sum()),
                    "after": entry.detail.get("score_after"),
                }
                for entry in entries_of(entries, RebalanceEntry)
            ],
            "moves": [
                (entry.time, entry.units, entry.source, entry.target) for entry in entries_of(entries, MovedEntry)
            ],
        }

    def setup(self) -> KeyedSetup:
        """The engines, and what comes to them."""
        return KeyedSetup(
            workers=self.engines,
            units=self.keys,
            feeders=1,
            groups=self.keys,
            phases=self.phases,
            trace=self.trace,
            rates=((0.0, RATE),),
            skew_rows=MOST_WAITING,
            row_us=TEXT_US,
            row_jitter_us=TEXT_US / 10,
            row_bytes=TEXT_BYTES,
            feeder_us=0.0,
            packet_rows=4,
            unit_bytes=0,
            growth_bytes=float(TEXT_BYTES),
            most_unit_bytes=HISTORY * TEXT_BYTES,
            state_row_us=FETCH_US,
            source_part=0.0,
            state_share=FETCHING,
            link_mbit=DATABASE_MBIT,
            network_mbit=DATABASE_MBIT,
            seed=self.seed,
        )


def _figures(samples: list[KeyedSampleEntry], seconds: float) -> Data:
    """All texts that were processed, and how many a second in spans of so many seconds."""
    picked, last = [], -seconds
    for sample in samples:
        if sample.time - last >= seconds:
            picked.append(sample)
            last = sample.time
    counts = np.array([[consumer.rows for consumer in sample.consumers] for sample in picked], np.int64)
    times = np.array([sample.time for sample in picked])
    done = np.diff(counts.sum(axis=1), prepend=0)
    return {
        "processed": sum(consumer.rows for consumer in samples[-1].consumers),
        "times": times.round(3).tolist(),
        "texts_s": (done / np.diff(times, prepend=0.0)).round(2).tolist(),
    }


@dataclass(frozen=True)
class CepSizes:
    """How long runs are."""

    seconds: int
    phases: tuple[float, float]
    """Seconds of an exponent of 0.2, and of one of 1.5."""
    window: float
    texts: int
    """As many as come in that time."""
    keys: int
    """Of texts in their own order; keys by Zipf's law are always as many as in the paper."""

    @classmethod
    def of(cls, setting: Setting) -> CepSizes:
        """The paper's, or an eighth of everything: texts a key, in all and in a window, are the same at either size."""
        part = 8 if setting.quick else 1
        return cls(RUN_S // part, (300.0 / part, 600.0 / part), WINDOW_S / part, 2_950_000 // part, KEYS // part)

    def rows(self, seed: int) -> StoryRows:
        """The texts, with keys from 0 to `keys` - 1: with fewer of them, fingerprints have fewer bits."""
        rows = StoryRows.draw(self.texts, seed=seed, tweets=self.tweets, first=self.first)
        return replace(rows, keys=rows.keys // (KEYS // self.keys))

    @property
    def first(self) -> int:
        """The number of the first text: tweets are a part of a stream that went on before, with topics of its own.

        At the very beginning there is one topic alone, and KG's loads differ most; in the paper they do so from 800 to
        1,700 s (§4). One topic of 16 is great: a great one begins with this text.
        """
        return 8 * 16 * self.tweets.spacing

    @property
    def tweets(self) -> Tweets:
        """The generator of texts, with topics of the same part of a run at either size: one lasts a quarter of it.

        Shares of topics and copies are those of all our stories. One text of a topic is copied: with that KG's loads
        differ by 42.5 % in the mean over six seeds, from 40.5 to 46.0 % (44.5 % in Table 1), and engines keep 764,000
        texts on average over a run. By LPTF's 677,886 texts in 76 % of the keys it is 892,000 in the paper. With 16
        texts of a topic copied, and so many more topics and copies that KG has as much, it is 552,000: many keys are
        warm then, in the paper few are hot.
        """
        return replace(TWEETS, hits=1, spacing=self.texts // 37, life=self.texts * 10 // 37)
