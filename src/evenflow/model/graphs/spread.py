"""Operators that are spread over workers in units: what they cost, and which host owns which unit.

A whole operator is an `OperatorLoad` of a `PlacementProblem`. A spread one has many units: lanes of an ordered map,
which keep nothing, or the units of a keyed operator, which keep state. Units are named by their index in the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.model.graphs.placement import Host, PlacementProblem

LANES, KEYED = 0, 1
"""The levels of spread operators: lanes of ordered maps, and units of keyed operators. Whole operators are level 2."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SpreadOperator:
    """One operator that is spread. Operators are numbered: those of the problem first, then the spread ones."""

    name: str
    level: int
    """LANES or KEYED: what is cheaper to move has the lower one."""
    series: tuple[float, ...]
    """The benchmark load of all units together, in each of the last k periods."""
    unit_loads: Floats
    """By unit, its part of that load; only proportions count. Without any load, all units count the same."""
    owners: npt.NDArray[np.int64]
    """By unit, the index of the host that has it."""
    readers: tuple[int, ...] = ()
    """The operators, whole or spread, that read what it gives, each once."""
    rows_s: float = 0.0
    """Rows a second that all units together give."""
    bytes_s: float = 0.0
    """The same in bytes."""
    unit_bytes: Floats | None = None
    """By unit, the bytes of its state; None: there is none."""
    senders: tuple[int, ...] = ()
    """The whole operators that it reads from."""
    endpoint: bool = False
    """Whether its rows are results too, although others read them."""
    turn_ms: float | None = None
    """How long one turn of it takes on the benchmark machine; None: not known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_loads", np.asarray(self.unit_loads, np.float64))
        object.__setattr__(self, "owners", np.asarray(self.owners, np.int64))
        sizes = np.zeros(len(self.owners)) if self.unit_bytes is None else np.asarray(self.unit_bytes, np.float64)
        object.__setattr__(self, "unit_bytes", sizes)
        self._check(sizes)

    def _check(self, sizes: Floats) -> None:
        if self.level not in (LANES, KEYED):
            raise InvalidArgument(
                f"operator {self.name!r} has level {self.level}: give {LANES} for lanes, {KEYED} for units with keys"
            )
        if not len(self.owners) or not len(self.owners) == len(self.unit_loads) == len(sizes):
            raise InvalidArgument(
                f"operator {self.name!r} has {len(self.unit_loads)} loads and {len(sizes)} sizes of units, and "
                f"{len(self.owners)} owners: give one of each for every unit"
            )
        for what, values in (("unit_loads", self.unit_loads), ("unit_bytes", sizes), ("series", self.series)):
            array = np.asarray(values, np.float64)
            if not (np.isfinite(array).all() and (array >= 0).all()):
                raise InvalidArgument(f"{what} of operator {self.name!r} are to be finite and not negative")
        for what, value in (("rows_s", self.rows_s), ("bytes_s", self.bytes_s), ("turn_ms", self.turn_ms or 0.0)):
            if not 0 <= value < inf:
                raise InvalidArgument(
                    f"{what} of operator {self.name!r} is {value}: give a number that is not negative"
                )

    @property
    def shares(self) -> Floats:
        """By unit, its share of the load: they sum to 1."""
        total = float(self.unit_loads.sum())
        if total <= 0:
            return np.full(len(self.owners), 1 / len(self.owners))
        found: Floats = self.unit_loads / total
        return found


class OperatorMove(NamedTuple):
    """A whole operator that is to go from one host, -1 if it has none, to another."""

    operator: int
    source: int
    target: int


class UnitsMove(NamedTuple):
    """Units of a spread operator that are to go from one host to another."""

    spread: int
    units: tuple[int, ...]
    source: int
    target: int


def check_spread(problem: PlacementProblem, spread: Sequence[SpreadOperator]) -> None:
    """Refuse spread operators that do not fit the problem: hosts, operators or periods that it does not have."""
    whole, count = len(problem.operators), len(problem.operators) + len(spread)
    for each in spread:
        if problem.operators and len(each.series) != problem.periods:
            raise InvalidArgument(f"operator {each.name!r} has {len(each.series)} periods, not {problem.periods}")
        if each.owners.min() < 0 or each.owners.max() >= len(problem.hosts):
            raise InvalidArgument(f"operator {each.name!r} has units on hosts that are not among {len(problem.hosts)}")
        if not all(0 <= reader < count for reader in each.readers):
            raise InvalidArgument(f"operator {each.name!r} has the readers {each.readers}: not all exist")
        if not all(0 <= sender < whole for sender in each.senders):
            raise InvalidArgument(
                f"operator {each.name!r} has the senders {each.senders}: name whole operators that exist"
            )


def as_background(problem: PlacementProblem, spread: Sequence[SpreadOperator]) -> PlacementProblem:
    """The same problem with the load of all units as background of the hosts that have them."""
    if not spread:
        return problem
    added = np.zeros((len(problem.hosts), len(spread[0].series)))
    for each in spread:
        held = np.bincount(each.owners, each.shares, len(problem.hosts))
        added += held[:, None] * np.array(each.series)
    hosts = tuple(
        Host(host.id, host.coefficient, host.quota, tuple((more + (np.array(host.background or (0.0,)))).tolist()))
        for host, more in zip(problem.hosts, added, strict=True)
    )
    return PlacementProblem(problem.operators, hosts, problem.links, problem.placed)
