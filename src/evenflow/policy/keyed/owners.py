"""Owners of units as places: the workers of a snapshot are numbered from 0, so that arrays can be indexed by worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model import MoveUnits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Units = npt.NDArray[np.intp]


def places(owners: npt.NDArray[np.int32], workers: Ints) -> Ints:
    """The place among `workers` of each unit's owner; -1 if the owner is not among them."""
    order = np.argsort(workers)
    at = np.minimum(np.searchsorted(workers[order], owners), len(workers) - 1)
    places: Ints = np.where(workers[order][at] == owners, order[at], -1)
    return places


def moves_between(
    region: str, owner: Ints, placed: Ints, workers: Ints, reason: str, detail: Mapping[str, Any] | None = None
) -> list[MoveUnits]:
    """The moves that turn the places `owner` into `placed`: one MoveUnits for each pair of workers."""
    units = np.flatnonzero(owner != placed)
    pair = owner[units] * len(workers) + placed[units]
    order = np.argsort(pair, kind="stable")
    units, pair = units[order], pair[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    ends = np.append(starts, len(units))[1:].tolist()
    sources, targets = (workers[place].tolist() for place in np.divmod(pair[starts], len(workers)))
    listed, told = units.tolist(), detail or {}
    lots = [tuple(listed[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    return [MoveUnits(region, lot, s, t, reason, told) for lot, s, t in zip(lots, sources, targets, strict=True)]
