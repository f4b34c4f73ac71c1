"""How rows fall on units, as tables from which a unit is drawn in one step (the alias method, in whole numbers)."""

from __future__ import annotations

from math import log

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.draws import draw
from evenflow.sim.keyed.setup import KeyedSetup, KeyPhase
from evenflow.sim.records import Records

Longs = npt.NDArray[np.int64]
ALIAS = np.dtype([("keep", np.int64), ("other", np.int64)])
"""Of a unit: below which of WEIGHT a draw stays with it, and the unit that it goes to otherwise."""
WEIGHT = 1 << 40
"""Weights of units add up to about this. Whole numbers: powers may differ in the last bit from machine to machine."""


def unit_shares(setup: KeyedSetup, phase: KeyPhase) -> npt.NDArray[np.float64]:
    """Each unit's share of the rows in a phase."""
    weights = _weights(setup, phase)
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def _weights(setup: KeyedSetup, phase: KeyPhase) -> Longs:
    groups = setup.groups
    match phase.kind:
        case "uniform":
            popularity = np.full(groups, 1 / groups)
        case "self-similar":
            popularity = np.diff((np.arange(groups + 1) / groups) ** (log(phase.share) / log(1 - phase.share)))
        case "zipf":
            popularity = 1.0 / np.arange(1, groups + 1) ** phase.exponent
            popularity /= popularity.sum()
    place = np.random.RandomState(setup.seed).permutation(groups) % setup.units
    weights: Longs = np.zeros(setup.units, np.int64)
    np.add.at(weights, place, np.round(popularity * WEIGHT).astype(np.int64))
    return weights


def alias_tables(setup: KeyedSetup) -> Records:
    """The table of each phase."""
    return np.array([_alias(_weights(setup, phase)) for phase in setup.phases], ALIAS)


def _alias(weights: Longs) -> list[tuple[int, int]]:
    count, total = len(weights), int(weights.sum())
    left = [int(weight) * count for weight in weights]
    keep, other = [0] * count, list(range(count))
    small = [unit for unit in range(count) if left[unit] < total]
    large = [unit for unit in range(count) if left[unit] >= total]
    while small and large:
        less, more = small.pop(), large[-1]
        keep[less], other[less] = left[less] * WEIGHT // total, more
        left[more] -= total - left[less]
        if left[more] < total:
            small.append(large.pop())
    for unit in small + large:
        keep[unit] = WEIGHT
    return list(zip(keep, other, strict=True))


@compiled_in_place
def drawn_unit(state: Records, alias: Records) -> np.int64:
    """A unit by the shares of one phase."""
    spot = draw(state) * len(alias)
    unit = np.int64(spot)
    return unit if (spot - unit) * 1099511627776.0 < alias[unit].keep else alias[unit].other
