"""Where one sender of a graph sends rows: to the workers that have the units of the rows.

Feeders and workers are senders. Rows of one stream go once to every worker that has readers of it, whatever their
number; rows for an operator that is spread over units go where their unit is. Rows of units that are being moved are
held, by movement, until it is known where they are. Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.graph.build.plan import GraphPlan
from evenflow.operators.hosted import units_of

HASH = pa.field("__evenflow_key", pa.int64())
"""The last column of rows for an operator with several units: the hash of the key."""

Owners = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Rows of one stream for some ports, all in one place."""

    worker: int
    """Where they go; if below 0, they are held for movement `-worker`."""
    ports: tuple[int, ...]
    rows: pa.RecordBatch
    turn: int
    uncut: bool = False
    """Whether they must go as one frame: their turn is waited for."""


class Ways:
    """The routing of one graph at one sender."""

    def __init__(self, plan: GraphPlan, owners: Owners, paused: Mapping[int, Iterable[int]] | None = None) -> None:
        self._plan = plan
        self._dense = plan.dense()
        self._destination = owners.astype(np.int64)
        self._moving: dict[int, npt.NDArray[np.int64]] = {}
        for move, units in (paused or {}).items():
            self.pause(move, units)

    @property
    def moving(self) -> frozenset[int]:
        """The movements whose units' rows are held."""
        return frozenset(self._moving)

    def uses(self, worker: int, over: Set[int] = frozenset()) -> bool:
        """Whether rows go to a worker, or may have gone there before a movement that is not in `over`."""
        return bool(self._moving.keys() - over) or bool((self._destination == worker).any())

    def pause(self, move: int, units: Iterable[int]) -> None:
        """Rows of these units are held from now on."""
        chosen = np.fromiter(units, np.int64)
        self._moving[move] = chosen
        self._destination[chosen] = -move

    def units_of(self, move: int) -> list[int]:
        """The units that a movement is about; none if it is not known here."""
        units = self._moving.get(move)
        return [] if units is None else units.tolist()

    def at(self, worker: int, units: Iterable[int]) -> list[int]:
        """The units, among the given ones, that are at a worker."""
        chosen = np.fromiter(units, np.int64)
        found: list[int] = chosen[self._destination[chosen] == worker].tolist()
        return found

    def release(self, move: int, worker: int) -> bool:
        """The units of a movement are at `worker`; whether the movement was known here."""
        chosen = self._moving.pop(move, None)
        if chosen is None:
            return False
        self._destination[chosen[self._destination[chosen] == -move]] = worker
        return True

    def has_turns(self, port: int) -> bool:
        """Whether a port gets one frame for every turn."""
        return port in self._dense

    def split(self, stream: int, rows: pa.RecordBatch, turn: int) -> Iterator[Bundle]:
        """Cut the rows of one turn of a stream by destination. An empty turn goes only to ports that get every turn."""
        whole: dict[int, list[int]] = {}
        for number in self._plan.streams[stream].readers:
            port = self._plan.ports[number]
            node = self._plan.nodes[port.node]
            if not rows.num_rows and number not in self._dense:
                continue
            if node.units == 1 or node.operator.lanes:
                unit = node.first + (turn % node.units)
                whole.setdefault(int(self._destination[unit]), []).append(number)
            else:
                hashes = node.operator.keys(port.side, rows)
                units = node.first + units_of(hashes, node.units)
                yield from self._spread(number, rows.append_column(HASH, hashes), self._destination[units], turn)
        for worker, ports in whole.items():
            yield Bundle(worker, tuple(ports), rows, turn, not self._dense.isdisjoint(ports))

    def _spread(
        self, port: int, rows: pa.RecordBatch, destination: npt.NDArray[np.int64], turn: int
    ) -> Iterator[Bundle]:
        targets, place = np.unique(destination, return_inverse=True)
        if len(targets) == 1:
            yield Bundle(int(targets[0]), (port,), rows, turn)
            return
        order = np.argsort(place, kind="stable")
        taken = rows.take(pa.array(order))
        start = 0
        for target, count in zip(targets.tolist(), np.bincount(place).tolist(), strict=True):
            yield Bundle(int(target), (port,), taken.slice(start, count), turn)
            start += count


def port_schema(plan: GraphPlan, number: int) -> pa.Schema:
    """The columns of rows for a port as they travel."""
    port = plan.ports[number]
    schema = plan.streams[port.stream].schema
    node = plan.nodes[port.node]
    return schema.append(HASH) if node.units > 1 and not node.operator.lanes else schema
