"""What workers did between two snapshots, report by report: the cost of a row on each worker, and how sure that is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.model import KeyedSnapshot
from evenflow.policy.keyed.owners import Floats, Ints

REPORTS = 32
"""Reports kept: costs and noise are measured over these."""
FEWEST = 3
"""Reports before anything is decided; also the reports that must agree before a worker's cost counts as changed."""
ROUNDING = 1e-6
"""A sum of seconds may fall by this much through rounding; if it falls by more, counting has started anew."""


@dataclass(frozen=True, slots=True)
class IntervalReport:
    """What happened between two snapshots, by place of the worker."""

    seconds: Floats
    idle: Floats
    busy: Floats
    rows: Floats

    @classmethod
    def between(cls, before: KeyedSnapshot, now: KeyedSnapshot) -> IntervalReport | None:
        """The differences between two snapshots of the same workers; None if a counter went back."""
        pairs = list(zip(before.consumers, now.consumers, strict=True))
        table = np.array(
            [(c.seconds - b.seconds, c.idle_s - b.idle_s, c.busy_s - b.busy_s, c.rows - b.rows) for b, c in pairs],
            np.float64,
        ).reshape(-1, 4)
        return None if table.min(initial=0.0) < -ROUNDING else cls(*np.maximum(table, 0.0).T)


class Reports:
    """The last REPORTS reports of the same workers; for each worker, only those since its cost last changed count."""

    def __init__(self) -> None:
        self._kept: deque[IntervalReport] = deque(maxlen=REPORTS)
        self._fresh: Ints = np.zeros(0, np.int64)
        """For each worker, how many of the newest reports tell its present cost."""

    def __len__(self) -> int:
        return len(self._kept)

    def restart(self, workers: int) -> None:
        """Forget all reports; from now on there are `workers` workers."""
        self._kept.clear()
        self._fresh = np.zeros(workers, np.int64)

    def add(self, report: IntervalReport) -> bool:
        """Keep a report; returns whether the cost of some worker has changed suddenly."""
        self._kept.append(report)
        self._fresh = np.minimum(self._fresh + 1, len(self._kept))
        changed = self._changed()
        self._fresh[changed] = FEWEST
        return bool(changed.any())

    def utilisation(self) -> Floats:
        """The share of its time that each worker was not idle."""
        seconds, idle = self._sum("seconds"), self._sum("idle")
        used: Floats = 1 - idle / np.maximum(seconds, 1e-9)
        return used

    def rate(self) -> float:
        """Rows a second, of all workers together."""
        return float(self._sum("rows").sum() / max(self._sum("seconds").max(), 1e-9))

    def costs(self) -> tuple[Floats, Floats, float]:
        """c_j = sum of busy / sum of rows over a worker's fresh reports, its relative standard error, the mean cost.

        The error is that of a ratio: with e_i = busy_i - c rows_i, sqrt(n / (n - 1) * sum of e_i^2) / sum of busy.
        The cost is 0 for a worker that had no rows.
        """
        busy, rows = self._stacked()
        fresh = np.arange(len(busy))[:, None] >= len(busy) - self._fresh[None, :]
        busy, rows = np.where(fresh, busy, 0.0), np.where(fresh, rows, 0.0)
        used, done = busy.sum(axis=0), rows.sum(axis=0)
        seen = (used > 0) & (done > 0)
        if not seen.any():
            return np.zeros(len(used)), np.zeros(len(used)), 0.0
        cost = np.where(seen, used / np.maximum(done, 1), 0.0)
        count = np.maximum(self._fresh, 2)
        spread = np.sqrt(((busy - cost * rows) ** 2).sum(axis=0) * count / (count - 1))
        error = np.where(seen, spread / np.where(seen, used, 1.0), 0.0) * (1 + 3 / count)
        return cost, error, float(used[seen].sum() / done[seen].sum())

    def share_variance(self, floor: Floats, total: float) -> Floats:
        """Variance of each worker's share of `total` rows, relative to it; at least `floor`.

        Measured as differences from report to report, so that a step in the shares, which is news, adds little.
        """
        _, rows = self._stacked()
        done, all_rows = rows.sum(axis=0), rows.sum(axis=1)
        count = len(rows)
        off = np.diff(rows - done / max(float(all_rows.sum()), 1.0) * all_rows[:, None], axis=0)
        spread = (off**2).sum(axis=0) / 2 * count / (count - 1) / np.maximum(done, 1) ** 2
        variance: Floats = np.maximum(spread * float(all_rows.sum()) / total, floor)
        return variance

    def _changed(self) -> npt.NDArray[np.bool_]:
        """Workers whose last 3 costs all differ from the mean before, one way, by 15 % and by 4 deviations."""
        busy, rows = self._stacked()
        if len(busy) < 2 * FEWEST:
            return np.zeros(len(self._fresh), bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(rows > 0, busy / rows, np.nan)
        known = np.arange(len(cost))[:, None] >= len(cost) - self._fresh[None, :]
        old = np.where(known & ~np.isnan(cost), cost, 0.0)[:-FEWEST]
        count = (old > 0).sum(axis=0)
        mean = old.sum(axis=0) / np.maximum(count, 1)
        deviation = np.sqrt(np.where(old > 0, (old - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count - 1, 1))
        off = cost[-FEWEST:] - mean
        by = np.maximum(0.15 * mean, 4 * deviation)
        changed: npt.NDArray[np.bool_] = (count >= FEWEST) & ((off > by).all(axis=0) | (off < -by).all(axis=0))
        return changed

    def _stacked(self) -> tuple[Floats, Floats]:
        """Busy seconds and rows: one row a report, one column a worker."""
        return np.stack([report.busy for report in self._kept]), np.stack([report.rows for report in self._kept])

    def _sum(self, name: str) -> Floats:
        total: Floats = np.sum([getattr(report, name) for report in self._kept], axis=0)
        return total
