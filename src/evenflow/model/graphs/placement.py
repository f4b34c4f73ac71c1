"""What a placement of operators is decided from: operators with their loads, workers, and the links between them.

Operators and hosts are named by their index. Loads are benchmark loads: 1.0 keeps a benchmark machine busy all the
time, and a host with coefficient 2 takes twice as long for the same rows (potential-driven §2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of

LinkTable = npt.NDArray[np.float64]
"""A number for each pair of hosts: row is the sender, column the receiver."""


@dataclass(frozen=True, slots=True)
class Host:
    """A worker that operators can be placed on."""

    id: int
    coefficient: float = 1.0
    """What a benchmark cost is multiplied with on this worker (alpha_h)."""
    quota: float = 1.0
    """The load that it may have at most (q_h), above 0 and at most 1."""
    background: tuple[float, ...] = ()
    """Benchmark load in each period that is there whatever is placed, as of units of spread operators."""

    def __post_init__(self) -> None:
        if not 0 < self.coefficient < inf:
            raise InvalidArgument(f"the coefficient of worker {self.id} is {self.coefficient}: give a factor above 0")
        if not 0 < self.quota <= 1:
            raise InvalidArgument(
                f"the load quota of worker {self.id} is {self.quota}, which leaves no room: give one above 0, at most 1"
            )
        _check_series(f"the background of worker {self.id}", self.background)


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """A whole operator: what it costs, who reads what it gives, and what it would take to move it."""

    name: str
    series: tuple[float, ...]
    """Its benchmark load, rate times cost a row, in each of the last k periods."""
    readers: tuple[int, ...] = ()
    """The operators that read what it gives, each once."""
    rows_s: float = 0.0
    """Rows a second that it gives."""
    bytes_s: float = 0.0
    """The same in bytes: what one link has to carry, however many readers there are behind it."""
    state_bytes: int = 0
    pinned: int | None = None
    """The host that it must not leave."""
    endpoint: bool = False
    """Whether its rows are results too, although others read them. What nobody reads is a result anyway."""
    turn_ms: float | None = None
    """How long one turn of it takes on the benchmark machine, a frame of rows: others wait for it. None: not known."""

    def __post_init__(self) -> None:
        _check_series(f"the load of operator {self.name!r}", self.series)
        if not self.series:
            raise InvalidArgument(f"operator {self.name!r} has no load series: give at least one period")
        for what, value in (
            ("rows_s", self.rows_s),
            ("bytes_s", self.bytes_s),
            ("state_bytes", self.state_bytes),
            ("turn_ms", self.turn_ms or 0.0),
        ):
            if not 0 <= value < inf:
                raise InvalidArgument(
                    f"{what} of operator {self.name!r} is {value}: give a number that is not negative"
                )
        if len(set(self.readers)) < len(self.readers):
            raise InvalidArgument(f"operator {self.name!r} has the readers {self.readers}: name each once")


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Delay and bandwidth from each host to each other one, in one direction.

    Both are a number for all links, or a table with a row for each sender; `pairs` overrides single links with
    (delay, bandwidth). A link from a host to itself is memory: no delay, no limit.
    """

    delay_ms: float | LinkTable = 0.5
    bandwidth: float | LinkTable = 125e6
    """Bytes a second."""
    pairs: Mapping[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    def dense(self, hosts: int) -> tuple[LinkTable, LinkTable]:
        """New tables of delays in ms and of bandwidths in bytes a second, for so many hosts."""
        delay, bandwidth = (self._table(what, hosts) for what in ("delay_ms", "bandwidth"))
        for (sender, receiver), (ms, bytes_s) in self.pairs.items():
            if not (0 <= sender < hosts and 0 <= receiver < hosts):
                raise InvalidArgument(f"a link goes from host {sender} to host {receiver}: there are {hosts} hosts")
            delay[sender, receiver], bandwidth[sender, receiver] = ms, bytes_s
        np.fill_diagonal(delay, 0.0)
        np.fill_diagonal(bandwidth, inf)
        if not (np.isfinite(delay).all() and (delay >= 0).all()):
            raise InvalidArgument("a link has a negative or endless delay: give milliseconds, 0 or more")
        if not (bandwidth > 0).all():
            raise InvalidArgument("a link has no bandwidth: give bytes a second, above 0")
        return delay, bandwidth

    def _table(self, what: str, hosts: int) -> LinkTable:
        given = np.asarray(getattr(self, what), np.float64)
        if given.shape not in ((), (hosts, hosts)):
            raise InvalidArgument(f"{what} of the links has shape {given.shape}: there are {hosts} hosts")
        return np.full((hosts, hosts), given) if given.ndim == 0 else given.copy()


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """Operators, the hosts that are alive, the links between these, and where the operators are now.

    All load series have one length k; hosts without background may leave it empty. The operators form no cycle.
    """

    operators: tuple[OperatorLoad, ...]
    hosts: tuple[Host, ...]
    links: Links = field(default_factory=Links)
    placed: tuple[int, ...] = ()
    """The host of each operator, or -1 if it has none; empty: none has."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "placed", tuple(self.placed) or (-1,) * len(self.operators))
        self._check()
        flow_order(self.operators)

    @property
    def periods(self) -> int:
        """The number k of periods in a load series."""
        return len(self.operators[0].series) if self.operators else 0

    def _check(self) -> None:
        if not self.hosts:
            raise InvalidArgument("there is no worker to place operators on: start one")
        if len(self.placed) != len(self.operators):
            raise InvalidArgument(
                f"{len(self.placed)} hosts are given for {len(self.operators)} operators: give as many"
            )
        count, periods = len(self.hosts), self.periods
        for operator, host in zip(self.operators, self.placed, strict=True):
            if len(operator.series) != periods:
                raise InvalidArgument(f"operator {operator.name!r} has {len(operator.series)} periods, not {periods}")
            if not all(0 <= reader < len(self.operators) for reader in operator.readers):
                raise InvalidArgument(f"operator {operator.name!r} has the readers {operator.readers}: not all exist")
            if not -1 <= host < count or not (operator.pinned is None or 0 <= operator.pinned < count):
                raise InvalidArgument(
                    f"operator {operator.name!r} is on host {host}, pinned to {operator.pinned}: there are only {count}"
                )
        for each in self.hosts:
            if each.background and len(each.background) != periods and self.operators:
                raise InvalidArgument(
                    f"the background of worker {each.id} has {len(each.background)} periods, not {periods}"
                )


@dataclass(frozen=True, slots=True)
class EnergyWeights:
    """Weights of the load, correlation and network energies, and the overload penalty (§3.2, §5.3.4, Table 2)."""

    load: float = 100.0
    correlation: float = 1.0
    network: float = 0.001
    overload: float = 20.0
    """What load beyond the quota counts for, as a multiple of load below it (p)."""

    def __post_init__(self) -> None:
        for what in ("load", "correlation", "network"):
            if not 0 <= number_of(getattr(self, what)) < inf:
                raise InvalidArgument(f"the weight of {what} is {getattr(self, what)!r}: give one that is not negative")
        if not 1 <= number_of(self.overload) < inf:
            raise InvalidArgument(f"the overload penalty is {self.overload!r}: give a factor of at least 1")


PAPER_WEIGHTS = EnergyWeights()
"""What the paper recommends."""


def upstream(operators: Sequence[OperatorLoad]) -> list[list[int]]:
    """The operators that each one reads from."""
    found: list[list[int]] = [[] for _ in operators]
    for number, operator in enumerate(operators):
        for reader in operator.readers:
            found[reader].append(number)
    return found


def flow_order(operators: Sequence[OperatorLoad]) -> list[int]:
    """The operators so that each comes behind those that it reads from; refuses cycles."""
    waits = [len(each) for each in upstream(operators)]
    found = [number for number, count in enumerate(waits) if not count]
    for number in found:
        for reader in operators[number].readers:
            waits[reader] -= 1
            if not waits[reader]:
                found.append(reader)
    if len(found) < len(operators):
        name = next(operator.name for operator, count in zip(operators, waits, strict=True) if count)
        raise InvalidArgument(f"operator {name!r} is in a cycle: rows must flow in one direction")
    return found


def _check_series(what: str, series: Sequence[float]) -> None:
    wrong = [load for load in series if not (isfinite(load) and load >= 0)]
    if wrong:
        raise InvalidArgument(f"{what} has the value {wrong[0]}: loads are finite and not negative")
