"""Rows that come in a later micro-batch than later rows of their key: where nobody waits for rows, they are counted."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evenflow.operators.columns import EVER
from evenflow.operators.keyed import Keys, Units

Longs = npt.NDArray[np.int64]
KEYS = 1024
"""So many keys of a unit are known, those with the latest rows: of others no row is counted."""
LatestByKey: TypeAlias = tuple[Keys, Longs]
"""Keys of a unit, ascending, and the time of the latest row of each."""
_NONE = np.zeros(0, np.int64), np.zeros(0, np.int64)


class Overtaken:
    """Knows the latest time of each key, by unit."""

    def __init__(self) -> None:
        self._latest: dict[int, LatestByKey] = {}

    def note(self, units: Units, keys: Keys, times: Longs) -> npt.NDArray[np.bool_]:
        """Take note of all rows of a micro-batch; which of them later rows of their key have overtaken before it."""
        order = np.lexsort((keys, units))
        unit, key, time = units[order], keys[order], times[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(unit) != 0) | (key[1:] != key[:-1])
        starts = np.flatnonzero(new)
        best, before = np.maximum.reduceat(time, starts), np.empty(len(starts), np.int64)
        each, first = np.unique(unit[starts], return_index=True)
        for one, start, stop in zip(each.tolist(), first, [*first[1:], len(starts)], strict=True):
            mine = key[starts[start:stop]]
            before[start:stop] = self._pass(one, mine, best[start:stop])
        behind = np.empty(len(order), np.bool_)
        behind[order] = time < before[np.cumsum(new) - 1]
        return behind

    def _pass(self, unit: int, keys: Keys, times: Longs) -> Longs:
        """Note times of some keys, which ascend; what was the latest of each before, EVER if it is not known."""
        known, latest = self._latest.get(unit, _NONE)
        places = np.searchsorted(known, keys)
        there = places < len(known)
        there[there] = known[places[there]] == keys[there]
        before = np.full(len(keys), EVER)
        before[there] = latest[places[there]]
        latest = latest.copy()
        latest[places[there]] = np.maximum(latest[places[there]], times[there])
        known = np.insert(known, places[~there], keys[~there])
        latest = np.insert(latest, places[~there], times[~there])
        if len(known) > KEYS:
            kept = np.sort(np.argpartition(latest, len(known) - KEYS)[len(known) - KEYS :])
            known, latest = known[kept], latest[kept]
        self._latest[unit] = known, latest
        return before

    def look(self, unit: int) -> LatestByKey | None:
        """What is known of a unit."""
        return self._latest.get(unit)

    def extract(self, unit: int) -> LatestByKey | None:
        """Take out what is known of a unit."""
        return self._latest.pop(unit, None)

    def install(self, unit: int, latest: LatestByKey) -> None:
        """Put in what is known of a unit."""
        self._latest[unit] = latest

    def sizes(self, units: Units) -> Longs:
        """Bytes of each of the units."""
        return np.array([16 * len(self._latest.get(unit, _NONE)[0]) for unit in units.tolist()], np.int64)
