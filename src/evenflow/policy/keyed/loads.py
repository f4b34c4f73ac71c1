"""The common part of balances by load (cep-load-balancing §2.2, §3.1): windows, the imbalance score, when to decide.

A key of the paper is a unit here, an engine a worker, keys_map the routing table.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.model.given import check_flag, number_of, whole_of
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.owners import moves_between, places

Longs = npt.NDArray[np.int64]
WINDOW_S = 5.0
"""Seconds that loads are counted over, unless said otherwise."""


@dataclass
class Windowed(KeyedBalance):
    """At the end of each window, if the score is above `theta` percent, keys get new places.

    A window is one of time, `window` seconds (5 if nothing is said), or one of length, `window_rows` rows of all keys.

        keys_load[k]  rows of unit k that feeders took in during the window
        eng_load[e]   sum of keys_load[k] over the units of live worker e
        imbScore      100 * std(eng_load) / mean(eng_load), with the standard deviation of a population

    Windows follow each other without a gap. A window begins only when all moves are done, and begins anew when workers
    join, leave or restart. With `through_moves` it goes on while keys move, since a key's rows count for the key
    wherever it is, as in §2.2; one that would end meanwhile ends with the moves. A window ends with a report, so one of
    length may have the rows of a report more. A window of time with fewer than `least_rows` rows a worker on average
    goes on until it has them: by chance alone, n rows a worker have a score of 100 / sqrt(n), which is 5 % for 400
    rows. The first window of time ends as soon as it has them: until then keys are where they were dealt, which nobody
    chose by their loads, and their states are small. With `least_rows=0` all windows of time, the first as well, are as
    long as `window`, whatever they have (§2.2).

    Where one key has more rows than a worker's share, no placement reaches theta, and every window would ask for moves
    that only follow chance. So a rebalance that does not reach theta must lower the score by `least_gain` points.
    """

    by_arrivals: ClassVar[bool] = True

    theta: float = 15.0
    window: float | None = None
    least_rows: int = 400
    least_gain: float = 1.0
    window_rows: int | None = None
    through_moves: bool = False

    def __post_init__(self) -> None:
        if self.window is None and self.window_rows is None:
            self.window = WINDOW_S
        elif self.window is not None and self.window_rows is not None:
            raise InvalidArgument(
                f"window is {self.window!r} and window_rows is {self.window_rows!r}: "
                "loads are counted over seconds or over rows, give one of them"
            )
        if not 0 <= number_of(self.theta) < inf:
            raise InvalidArgument(f"theta is {self.theta!r}: give the imbalance to put up with, in percent, 0 or above")
        if self.window is not None and not 0 < number_of(self.window) < inf:
            raise InvalidArgument(f"window is {self.window!r}: give the seconds that loads are counted over, above 0")
        if self.window_rows is not None and not 1 <= whole_of(self.window_rows) < inf:
            raise InvalidArgument(
                f"window_rows is {self.window_rows!r}: give the rows that loads are counted over, 1 or more"
            )
        if not 0 <= number_of(self.least_rows) < inf:
            raise InvalidArgument(f"least_rows is {self.least_rows!r}: give a number of rows a worker, 0 or above")
        if not 0 <= number_of(self.least_gain) < inf:
            raise InvalidArgument(
                f"least_gain is {self.least_gain!r}: give points of the score, in percent, 0 or above"
            )
        check_flag("through_moves", self.through_moves)
        self._began: KeyedSnapshot | None = None
        self._first = True
        """Whether no window has ended yet."""
        self._prepare()

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """The moves of a rebalance, at the end of a window; nothing at other times."""
        if snapshot.moving:
            if not self.through_moves:
                self._began = None
            return []
        if self._began is None or not _continues(self._began, snapshot):
            self._began = snapshot
            return []
        seconds = snapshot.time - self._began.time
        load = np.maximum(snapshot.unit_asked - self._began.unit_asked, 0)
        if not self._over(seconds, int(load.sum()), len(snapshot.consumers)):
            return []
        self._began, self._first = snapshot, False
        return self._rebalance(snapshot, load, seconds)

    def _over(self, seconds: float, rows: int, workers: int) -> bool:
        """Whether a window with so many seconds and rows has come to its end."""
        if self.window_rows is not None:
            return rows >= self.window_rows
        assert self.window is not None
        soon = self._first and self.least_rows > 0
        return rows >= self.least_rows * workers and (soon or seconds >= self.window * (1 - 1e-9))

    def _rebalance(self, snapshot: KeyedSnapshot, load: Longs, seconds: float) -> list[MoveUnits]:
        """The moves to the places that `_place` gives the keys, if the score calls for it and gets better."""
        workers = np.array(sorted(consumer.worker for consumer in snapshot.consumers))
        owner = places(snapshot.table.owners, workers)
        load = np.where(owner >= 0, load, 0)  # units without a live owner stay as they are
        engines = engine_loads(owner, load, len(workers))
        score = imbalance(engines)
        if not score > self.theta:
            return []
        placed = self._place(owner, load, engines.copy())
        after = imbalance(engine_loads(placed, load, len(workers)))
        if after > self.theta and score - after < self.least_gain:
            return []
        moved = placed != owner
        detail = {
            "score": round(score, 3),
            "score_after": round(after, 3),
            "keys": int(moved.sum()),
            "keys_with_rows": int((load > 0).sum()),
            "rows": int(load[moved].sum()),
            "window_rows": int(load.sum()),
            "window_s": round(seconds, 3),
        }
        return moves_between(
            snapshot.region, owner, placed, workers, f"score {score:.1f} %, then {after:.1f} %", detail
        )

    def _prepare(self) -> None:
        """Compile what decisions need, by a small one, so that none has to wait for it."""
        self._place(np.zeros(2, np.int64), np.ones(2, np.int64), np.array([2, 0]))

    @abstractmethod
    def _place(self, owner: Longs, load: Longs, engines: Longs) -> Longs:
        """The new place of each key among the engines; `engines` holds their loads, and may be changed."""


def engine_loads(owner: Longs, load: Longs, engines: int) -> Longs:
    """eng_load; keys without an owner (-1) count for no engine."""
    totals = np.zeros(engines, np.int64)
    np.add.at(totals, owner[owner >= 0], load[owner >= 0])
    return totals


def spread(engines: Longs) -> tuple[int, int]:
    """The exact n * sum(L^2) - sum(L)^2 and sum(L) of n engines: the score is 100 * sqrt(the first) / the second."""
    loads = [int(load) for load in engines]
    total = sum(loads)
    return len(loads) * sum(load * load for load in loads) - total * total, total


def imbalance(engines: Longs) -> float:
    """The score; 0 without any load."""
    deviation, total = spread(engines)
    return 100 * sqrt(deviation) / total if total else 0.0


def _continues(before: KeyedSnapshot, now: KeyedSnapshot) -> bool:
    """Whether the window that began with `before` goes on: same workers, same units, rows not counted anew."""
    return before.comparable(now) and bool(before.unit_asked.sum() <= now.unit_asked.sum())
