"""What workers tell the controller."""

from __future__ import annotations

from typing import Literal

from evenflow.model.messages.base import (
    Batch,
    Counts,
    Message,
    MessagePart,
    Port,
    Real,
    Table,
    Units,
    Whole,
    check_pairs,
)

MoveOutcome = Literal["quiet", "stored", "installed", "undelivered", "failed", "discarded", "restored", "lost"]
"""What a worker says of a movement; `failed` is for good."""


class WorkerHello(Message, frozen=True):
    """Worker to controller, first on its connection: who it is, and where it listens."""

    worker: Whole
    host: str
    port: Port
    """Where feeders of ordered regions connect."""
    pid: Whole
    task: tuple[Whole, Whole] = (0, 0)
    """Spark's stage id and task attempt id, by which its executor is found."""
    transfer_port: Port = 0
    """Where other workers send it units."""
    deep: Port = 0
    """Where feeders of keyed operators connect; these connections have deep buffers."""
    key: str = ""
    """Signs the tickets of movements to this worker."""


class WorkerReport(Message, frozen=True):
    """Worker to controller, once a period and when asked: a heartbeat, with counters since the worker started."""

    rows: Whole
    frames: Whole
    busy_s: Real
    graphs: dict[str, Real] = {}
    """By region of a graph that is fed, the part of `busy_s` that was for it."""
    answers: Whole = 0
    """The number of the `SendReport` that it answers; 0 if nobody asked for it."""


class WorkerAlive(Message, frozen=True):
    """Worker to controller, once a second while it loads state: a heartbeat."""


class WorkerTrouble(Message, frozen=True):
    """Worker to controller: a part of it has failed, or it refused a peer."""

    what: str
    reason: str
    ends: bool = False
    """Whether the worker cannot go on without that part, and ends now."""


class MemorySet(Message, frozen=True):
    """Worker to controller, in answer to `SetMemory`: its budget now; `error` says why it is not the new one."""

    asked: Whole
    memory: Whole
    resident: Whole
    spilled: Whole
    """Bytes of state in memory and on disk, of all operators."""
    seconds: Real
    """How long it took: what does not fit goes to disk before anything else is done."""
    error: str = ""


class CodeWanted(Message, frozen=True):
    """Worker to controller, when it needs an operator that it does not have: send its code."""

    operator: str


class OperatorReady(Message, frozen=True):
    """Worker to controller, when it has loaded an operator and compiled what that needs."""

    operator: str


class SentCounts(MessagePart, frozen=True):
    """What a worker has sent to another since its last report."""

    frames: Whole = 0
    rows: Whole = 0
    bytes: Whole = 0


class ConsumerReport(Message, frozen=True):
    """Worker to controller, ten times a second while a keyed operator is fed: what it did since its last report."""

    region: str
    seconds: Real
    idle_s: Real
    busy_s: Real
    rows: Whole
    bytes: Whole
    units: Units
    unit_rows: Counts
    """Rows of each of `units`."""
    sized: Units
    sizes: Counts
    """Bytes of state of each of `sized`."""
    on_disk: Units
    """Units of this operator whose state is on disk."""
    pending: Counts
    """Bytes of the rows that wait for each of `on_disk`."""
    memory: Whole = 0
    """The worker's budget; 0 if there is none."""
    resident: Whole = 0
    spilled: Whole = 0
    """Bytes of state in memory and on disk, of all operators."""
    counts: Table[str, int] = {}
    """What the operator has counted; a count may fall."""

    def __post_init__(self) -> None:
        check_pairs(units=self.units, unit_rows=self.unit_rows)
        check_pairs(sized=self.sized, sizes=self.sizes)
        check_pairs(on_disk=self.on_disk, pending=self.pending)


class FilterOrder(MessagePart, frozen=True):
    """The order in which an operator applies filters that commute, and what each was found to cost and let through."""

    operator: str
    filters: tuple[str, ...]
    cost_us: tuple[Real, ...]
    """Microseconds a row."""
    selectivity: tuple[Real, ...]


class FlowReport(Message, frozen=True):
    """Worker to controller, ten times a second while a graph is fed: what its units here did since its last report."""

    region: str
    seconds: Real
    units: Units
    """Units that had rows."""
    rows_in: Counts
    rows_out: Counts
    micros: Counts
    """Time spent on the rows of each of `units`, in microseconds."""
    calls: Counts
    """How often the operator of each of `units` was called."""
    bytes_out: Counts
    sent: Table[Whole, SentCounts] = {}
    """By worker, what went there."""
    queued: Whole | None = None
    """Rows that wait here; None if that is not known."""
    standard_us: Real = 0.0
    """How long a standard piece of work took lately, in microseconds; 0 if that was not measured."""
    round_trips: Table[Whole, Real] = {}
    """By worker, seconds until a small frame that was sent there was answered, at best lately."""
    bandwidths: Table[Whole, Real] = {}
    """By worker, bytes a second that went there, at best lately."""
    orders: tuple[FilterOrder, ...] = ()
    """Of operators whose filters are applied in another order than at the last report."""

    def __post_init__(self) -> None:
        check_pairs(units=self.units, rows_in=self.rows_in, rows_out=self.rows_out, micros=self.micros)
        check_pairs(units=self.units, calls=self.calls, bytes_out=self.bytes_out)


class MoveReport(Message, frozen=True):
    """Worker to controller: how far it is with a movement of which it is the source or the target."""

    region: str
    move: Whole
    outcome: MoveOutcome
    reason: str = ""
    bytes: Whole = 0


class StateLoaded(Message, frozen=True):
    """Worker to controller, in answer to `LoadState`: its part of the state is loaded, or `error` says why not."""

    region: str
    evaluation: str
    load: Whole
    error: str = ""
    bytes: Whole = 0
    rows: Whole = 0
    seconds: Real = 0.0


class RowsDiffer(Message, frozen=True):
    """Worker to controller, in an attempt that repeats another one: its rows are not those of the other one."""

    region: str
    evaluation: str
    epoch: Whole
    attempt: Whole
    """The batch and the attempt that repeats."""
    why: str


class UnitsSaved(Message, frozen=True):
    """Worker to controller: it has saved units, as they were at the end of a batch, in the store."""

    region: str
    evaluation: str
    epoch: Batch
    name: str
    """The name of the unit snapshot in the store."""
    units: Units
    bytes: Whole = 0


WorkerRegionMessage = ConsumerReport | FlowReport | MoveReport | StateLoaded | RowsDiffer | UnitsSaved
"""What a worker says to a keyed region, or to that of a graph."""
WorkerMessage = WorkerReport | WorkerAlive | WorkerTrouble | OperatorReady | MemorySet | WorkerRegionMessage
"""What a worker says of itself and to its regions, after its hello."""
