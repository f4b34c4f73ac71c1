"""Snapshots: what a balance sees in one round, as frozen values with cumulative counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.model.latency import Latencies
from evenflow.model.routing import RoutingTable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

RESOLUTION = 1000
"""Weights are whole numbers in units of 1/RESOLUTION (0.1 %) and sum to RESOLUTION."""


def _everything() -> Flags:
    import numpy as np

    return np.array(True)


@dataclass(frozen=True, slots=True)
class Performance:
    """Rows that came to a region and how long they took, as its feeders have said so far."""

    rows_in: int = 0
    """Rows that arrived."""
    latencies: Latencies = Latencies()  # noqa: RUF009 - it is frozen
    """From a row's arrival at its feeder until its results left."""
    workers: Mapping[int, Latencies] = field(default_factory=dict)
    """By worker: from when a row was sent there until it was answered, or taken in. Waiting at the worker counts."""
    shed: int = 0
    """Rows that were dropped, since `qos` allows it and its target could not be met."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One worker as one region's splitters see it, pooled over all of the region's feeders.

    Counters are cumulative since the worker's present incarnation joined the region; a policy takes differences.
    """

    worker: int
    incarnation: int
    weight: int
    blocked_s: float = 0.0
    """Seconds for which splitters waited for room on this connection; each of them waits for one at a time."""
    rows_sent: int = 0
    frames_sent: int = 0
    rows_done: int = 0
    frames_done: int = 0
    busy_s: float = 0.0
    """Service time that the worker spent on this region's frames."""
    under_way_s: float = 0.0
    """Seconds that frames were under way, sent and not answered, summed over the frames."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An ordered region in one round."""

    time: float
    """Seconds on the controller's clock."""
    region: str
    feeders: int
    """Feeders alive now."""
    feeding_s: float
    """Cumulative feeder-seconds: a blocking rate is blocking time divided by these."""
    connections: tuple[Connection, ...]
    rows_out: int = 0
    """Rows the mergers have yielded, cumulative."""
    performance: Performance = Performance()


@dataclass(frozen=True, slots=True)
class KeyedWorker:
    """One worker as one keyed operator sees it. Counters are cumulative since its present incarnation joined."""

    worker: int
    incarnation: int
    seconds: float = 0.0
    """The time that the other counters cover."""
    idle_s: float = 0.0
    """Seconds spent waiting for rows."""
    busy_s: float = 0.0
    """Service time spent on this operator's rows."""
    rows: int = 0
    bytes: int = 0
    memory: int = 0
    """Bytes that the worker may use for state of keyed operators; 0 if there is no budget."""
    resident: int = 0
    """Bytes of state in the worker's memory now, of all operators."""
    spilled: int = 0
    """Bytes of state on the worker's disk now, of all operators."""
    pending: int = 0
    """Bytes of this operator's rows that wait for state on disk now."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyedSnapshot:
    """A keyed operator in one round."""

    time: float
    """Seconds on the controller's clock."""
    region: str
    feeders: int
    """Feeders alive now."""
    table: RoutingTable
    consumers: tuple[KeyedWorker, ...]
    """The live workers."""
    unit_rows: Counts
    """Rows of each unit that were processed, cumulative."""
    unit_bytes: Counts
    """Bytes of state of each unit, as last reported."""
    moving: int = 0
    """Units under way now."""
    moved: int = 0
    """Units moved so far."""
    bytes_moved: int = 0
    pause_s: float = 0.0
    """How long the rows of moved units had to wait, summed over the units moved so far."""
    undone: int = 0
    """Units whose move was taken back, so far."""
    unit_arrived: Counts | None = None
    """Rows of each unit that feeders took in, cumulative; None if they are not counted."""
    unit_resident: Flags = field(default_factory=_everything)
    """Whether the state of each unit is in memory, as last reported; by default, all of it is."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What the operator itself has counted so far, such as late rows."""
    unit_pending: Counts | None = None
    """Bytes of the rows that wait for the state of each unit, as last reported; None if that is not known."""
    performance: Performance = Performance()
    moves_ended: float = 0.0
    """When the last movement ended, on the controller's clock; 0 if there was none."""

    def __post_init__(self) -> None:
        if self.unit_resident.ndim == 0:
            object.__setattr__(self, "unit_resident", self.unit_resident.repeat(len(self.unit_rows)))

    @property
    def unit_asked(self) -> Counts:
        """Rows of each unit that workers were to process, cumulative: those that arrived or, if unknown, those done."""
        return self.unit_rows if self.unit_arrived is None else self.unit_arrived

    @property
    def incarnations(self) -> list[tuple[int, int]]:
        """Worker and incarnation of each consumer."""
        return [(consumer.worker, consumer.incarnation) for consumer in self.consumers]

    def comparable(self, later: KeyedSnapshot) -> bool:
        """Whether a later snapshot is of the same units and the same incarnations of workers."""
        return len(self.unit_rows) == len(later.unit_rows) and self.incarnations == later.incarnations


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker as `Cluster.workers()` lists it."""

    id: int
    state: str
    """`starting`, `live`, `lost` or `stopped`."""
    executor: str = ""
    host: str = ""
    pid: int = 0
    port: int = 0
    incarnation: int = 0
    restarts: int = 0
    rows: int = 0
    frames: int = 0
    busy_s: float = 0.0
    heard_s: float = 0.0
    """Seconds since the worker's last message."""
