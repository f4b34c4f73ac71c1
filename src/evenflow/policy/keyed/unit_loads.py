"""How the rows fall on units: recent rows count more, and differences that chance explains are taken out."""

from __future__ import annotations

import numpy as np

from evenflow.policy.keyed.owners import Floats, Ints
from evenflow.policy.keyed.reports import Reports


class UnitLoads:
    """Rows of each unit, of which older ones count less."""

    def __init__(self) -> None:
        self.rows: Floats = np.zeros(0)
        self._squares = 0.0
        """Rows, weighted by the square of what they count in `rows`: the variance that the loads have by chance."""

    def resize(self, units: int) -> None:
        """Start anew if the number of units is another."""
        if len(self.rows) != units:
            self.rows, self._squares = np.zeros(units), 0.0

    def add(self, rows: Ints, fading: float) -> None:
        """Add new rows; those from before count `fading` of what they did."""
        self.rows = fading * self.rows + rows
        self._squares = fading**2 * self._squares + float(rows.sum())

    def shares(self, owner: Ints, workers: int, reports: Reports) -> tuple[Floats, Floats]:
        """l_u, which is 0 for units without an owner, and how far the share of each worker may be off by chance."""
        owned = owner >= 0
        total = float(self.rows[owned].sum())
        loads = np.bincount(owner[owned], self.rows[owned], workers).astype(np.float64)
        weight = self._squares / total  # loads remember more rows than the reports, or fewer, and vary less, or more
        chance: Floats = np.sqrt(reports.share_variance(1 / np.maximum(loads, 1), total) * weight)
        load, real = smooth(self.rows, owner, chance, weight)
        return np.where(owned, load, 0.0) / total, real * chance


def smooth(loads: Floats, owner: Ints, chance: Floats, weight: float) -> tuple[Floats, float]:
    """Loads of units with differences taken out as far as chance explains them, first of workers, then of units.

    Worker j has n_j units of mean load m_j, the mean of all is m; by chance m_j is off by chance_j * m_j. What is more
    than that is real, and the same holds for units in a worker, whose n_u vary by chance with variance `weight` * m:

        r  = max(0, 1 - sum of n_j (chance_j m_j)^2 / sum of n_j (m_j - m)^2)      m'_j = m + r (m_j - m)
        r' = max(0, 1 - weight * m / variance of n_u in workers)                   l_u  = m'_j + r' (n_u - m_j)

    Also returns r. Without this, workers and units that happened to have more rows of late would be taken for loaded,
    and moves would go on for ever.
    """
    owned = owner >= 0
    place, workers = np.where(owned, owner, 0), len(chance)
    count = np.bincount(owner[owned], minlength=workers)
    mean = np.bincount(owner[owned], loads[owned], workers) / np.maximum(count, 1)
    overall = float(loads[owned].mean())
    between = float((count * (mean - overall) ** 2).sum())
    real = max(0.0, 1 - float((count * (chance * mean) ** 2).sum()) / between) if between > 0 else 0.0
    off = np.where(owned, loads - mean[place], 0.0)
    within = float((off**2).sum() / owned.sum())
    kept = max(0.0, 1 - weight * overall / within) if within > 0 else 0.0
    drawn = overall + real * (mean - overall)
    smoothed: Floats = np.maximum(drawn[place] + kept * off, 0.0)
    return smoothed, real
