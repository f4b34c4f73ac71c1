"""Messages: everything that processes tell each other beside rows, code and state, by who tells whom.

A message is a frozen value. Its class name is its `type` on the wire, its fields are checked when it is decoded
(`runtime/wire/messages.py`): a field that is missing, unknown or of another type is refused by name. Fields with a
default may be left out. To add a message: add a class, put it into the union of its direction at the end of its group.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from evenflow.model.latency import Latencies
from evenflow.model.routing import MOST_UNITS

if TYPE_CHECKING:  # numpy weighs 20 MB, and every process imports this package
    import numpy as np
    import numpy.typing as npt

    Units = npt.NDArray[np.int32]
    Counts = npt.NDArray[np.int64]
    Batches = npt.NDArray[np.int64]
else:

    class Units:
        """An array of units."""

    class Counts:
        """An array of counts or sizes, one a unit."""

    class Batches:
        """An array of batches by number; -1 where there was none."""


Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
"""A number that is neither endless nor NaN."""
Share = Annotated[float, Meta(ge=0, le=1)]
Batch = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
"""A batch by number; -1 for what was before the first."""
MOST_ENTRIES = 100_000
"""A message with a longer list or table is not decoded: no cluster has as many workers, feeders or evaluations."""
Element = TypeVar("Element")
Key = TypeVar("Key")
Value = TypeVar("Value")
Several = Annotated[tuple[Element, ...], Meta(max_length=MOST_ENTRIES)]
Table = Annotated[dict[Key, Value], Meta(max_length=MOST_ENTRIES)]
UnitNumbers = Annotated[tuple[Whole, ...], Meta(max_length=MOST_UNITS)]
MOST_KEYS, MOST_KEY_TEXT = 10, 100
"""Units whose keys a message tells, and characters of each, at most."""
KeyText = Annotated[str, Meta(max_length=MOST_KEY_TEXT)]
MoveOutcome = Literal["quiet", "stored", "installed", "undelivered", "failed", "discarded", "restored", "lost"]
"""What a worker says of a movement; `failed` is for good."""


class MessagePart(Struct, frozen=True, forbid_unknown_fields=True):
    """A value inside a message."""


class Message(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """What a control frame holds."""


# -- worker to controller


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
        _check_pairs(units=self.units, unit_rows=self.unit_rows)
        _check_pairs(sized=self.sized, sizes=self.sizes)
        _check_pairs(on_disk=self.on_disk, pending=self.pending)


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
        _check_pairs(units=self.units, rows_in=self.rows_in, rows_out=self.rows_out, micros=self.micros)
        _check_pairs(units=self.units, calls=self.calls, bytes_out=self.bytes_out)


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

# -- feeder to controller


class FeederHello(Message, frozen=True):
    """Feeder to controller, first on its connection: for which region, and which task of Spark it is."""

    region: str
    partition: Whole
    attempt: Whole
    """Spark's number of this try within its stage."""
    query: str
    epoch: Whole
    stage: str = ""
    """Spark's stage id; of a task with ticks, that of the rows."""
    own_stage: str = ""
    """Of a task with ticks: its own stage id."""
    run: str = ""
    """Which start of the query it belongs to."""
    task: Whole = 0
    """Spark's number of this try of the task: no two are alike."""
    kinds: Whole = 1
    """How many stages, one behind the other, an evaluation has that feed the operator."""
    mark: str = ""
    """Text that shows where in Spark's plan the operator is; empty if nobody looks for it."""
    execution: str = ""
    """Spark's number of the action."""


class FeederBegan(Message, frozen=True):
    """Feeder of a keyed operator to controller, on its first row."""

    partition: Whole
    """Of the operator's input, which need not be the task's own number."""


class FeederArrivals(Message, frozen=True):
    """Feeder of a keyed operator to controller, ten times a second: rows by unit taken in since it last said so."""

    units: Units
    unit_rows: Counts
    keys: Annotated[dict[Whole, KeyText], Meta(max_length=MOST_KEYS)] = {}
    """By unit with many rows, the value of its most frequent key; only if the user asked for values of keys."""

    def __post_init__(self) -> None:
        _check_pairs(units=self.units, unit_rows=self.unit_rows)


class FlowProgress(Message, frozen=True):
    """Feeder of a graph to controller, once a second: what has come to it since it last said so."""

    arrived: Table[Whole, Whole]
    """Rows by source, also those that are not sent yet."""
    latencies: Latencies
    """How long results took."""
    waiting: Table[Whole, Whole] = {}
    """Rows by source that were sent and are not through now."""


class FeederDraining(Message, frozen=True):
    """Feeder of a keyed operator to controller: it has taken in all its rows, and waits for the last results."""


class FeederEnded(Message, frozen=True):
    """Feeder of a keyed operator to controller: it has had answers to all its rows."""

    segments: Table[str, Whole] = {}
    """With a store: by worker, the segments of its log in which the rows are."""
    seconds: Real = 0.0
    """How long workers took to make the last of them durable."""
    left: Table[str, Whole] = {}
    """In an attempt that repeats another one: by worker, the logged rows that had not come again by then."""


class FeederUnread(Message, frozen=True):
    """Feeder of a keyed operator to controller: Spark wants no more of it, since its action has rows enough."""


MOST_ERROR = 4_000
"""Characters of a task's error that are told, at most: the error itself, and where it was raised."""


class FeederFailed(Message, frozen=True):
    """Feeder to controller, before it leaves: its task fails, and with it the evaluation of a keyed operator."""

    reason: str
    """At most MOST_ERROR characters."""
    worker: Whole | None = None
    """Where the operator failed, if it did."""


class ConnectionCounts(MessagePart, frozen=True):
    """What went over one connection since the last report."""

    blocked_s: Real = 0.0
    rows_sent: Whole = 0
    frames_sent: Whole = 0
    rows_done: Whole = 0
    frames_done: Whole = 0
    busy_s: Real = 0.0
    incarnation: Whole | None = None
    """The worker's incarnation that these are about; None stands for the present one."""
    under_way_s: Real = 0.0
    """Seconds that frames were under way, summed over the frames."""
    latencies: Latencies = Latencies()
    """How long rows took from when they were sent until the worker had answered, or taken them in."""


class FeederReport(Message, frozen=True):
    """Feeder to controller, once a period and at its end: what it did since its last report."""

    feeding_s: Real
    rows_out: Whole
    connections: Table[Whole, ConnectionCounts]
    """By worker."""
    resent: Whole = 0
    """Frames sent again to another worker."""
    rerouted: Whole = 0
    """Frames that did not go to the worker whose turn it was."""
    overhead: Real | None = None
    """What a call of the function costs beside its rows, in rows; None if not known."""
    rows_in: Whole = 0
    """Rows that arrived."""
    latencies: Latencies = Latencies()
    """How long rows took from their arrival until their results left; of a graph, `FlowProgress` has them."""
    shed: Whole = 0
    """Rows that were dropped (`ShedRows`)."""


FeederMessage = (
    FeederBegan
    | FeederArrivals
    | FlowProgress
    | FeederDraining
    | FeederEnded
    | FeederUnread
    | FeederFailed
    | FeederReport
)
"""What a feeder says to its region after its hello."""
Hello = WorkerHello | FeederHello
ToController = Hello | CodeWanted | WorkerMessage | FeederMessage

# -- controller to worker


class Shutdown(Message, frozen=True):
    """Controller to worker: end."""

    reason: str


class Prepare(Message, frozen=True):
    """Controller to worker, when regions are opened: load these operators, so that no row waits for that."""

    operators: Several[str]


class NoCode(Message, frozen=True):
    """Controller to worker, in answer to `CodeWanted`: no region uses this operator any more."""

    operator: str


class SetClock(Message, frozen=True):
    """Controller to worker, when the first feeder has come: emulated changes of capacity count from then."""

    elapsed: Real
    """Seconds since then."""


class SetMemory(Message, frozen=True):
    """Controller to worker: the state of operators may take so many bytes of its memory from now on."""

    memory: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class SendReport(Message, frozen=True):
    """Controller to worker: somebody asks what it has done, so send a `WorkerReport` now."""

    number: Whole


class ServiceWeights(Message, frozen=True):
    """Controller to all workers, when an operator misses its target of latency or has room again: serve by these."""

    weights: Table[str, Real]
    """By region; the others have what `qos` gives them."""


class SendUnits(Message, frozen=True):
    """Controller to the source of a movement: once the markers of all `feeders` are here, send the units."""

    move: Whole
    region: str
    units: UnitNumbers
    source: Whole
    target: Whole
    host: str
    port: Port
    """Where the target takes units."""
    feeders: Several[Whole]
    evaluations: Several[str]
    """Evaluations whose state is sent."""
    ticket: str
    """What lets the units in at the target (`model.tickets`)."""
    store: bool = False
    """Whether they go by way of the store."""
    flush: bool = False
    """Whether, before they leave, all that they gave must be where it goes: units of a graph."""


class FeederGone(Message, frozen=True):
    """Controller to the source of a movement: the marker of this feeder will not come."""

    move: Whole
    feeder: Whole


class UnitsMoved(Message, frozen=True):
    """Controller to the source of a movement: the target has the units, drop the copy."""

    move: Whole


class FetchUnits(Message, frozen=True):
    """Controller to the target of a movement: the units are in the store, take them from there."""

    move: Whole
    region: str


class DiscardUnits(Message, frozen=True):
    """Controller to the target of a movement: it is called off; throw away what came of it, and what still comes."""

    move: Whole
    region: str


class RecallUnits(Message, frozen=True):
    """Controller to the source of a movement: it is called off, unless its units have been taken out already."""

    move: Whole
    region: str


class RestoreUnits(Message, frozen=True):
    """Controller to the source of a movement: it is called off; put the copy back."""

    move: Whole
    region: str


class AbandonMoves(Message, frozen=True):
    """Controller to all workers: the state that these movements were about is gone; forget them."""

    region: str
    moves: Several[Whole]


class ForgetEvaluation(Message, frozen=True):
    """Controller to all workers: an evaluation is over; drop its state, and refuse rows that still come for it."""

    region: str
    evaluation: str


class DropState(Message, frozen=True):
    """Controller to all workers: drop the state of an evaluation; it is loaded before more rows come."""

    region: str
    evaluation: str


class SnapshotEntry(MessagePart, frozen=True):
    """A unit snapshot in the store."""

    name: str
    epoch: Batch


class LogEntry(MessagePart, frozen=True):
    """The rows of one batch in the store."""

    epoch: Batch
    attempt: Whole
    segments: Table[str, Whole]
    """By writer."""


class LoadState(Message, frozen=True):
    """Controller to each worker: load the state of your units that an attempt starts from."""

    region: str
    evaluation: str
    operator: str
    count: Whole
    """All units of the region."""
    load: Whole
    """The number of this order: answers to earlier ones do not count."""
    epoch: Whole
    attempt: Whole
    """The batch and attempt that start from this state."""
    snapshots: Annotated[tuple[SnapshotEntry, ...], Meta(max_length=MOST_UNITS)]
    logs: Several[LogEntry]
    units: Units
    """Units of the worker that gets this message."""
    repeated: LogEntry | None = None
    """The log of the whole attempt at this batch that the attempt repeats; None if it repeats none."""


class SaveAgain(Message, frozen=True):
    """Controller to worker, in answer to a `UnitsSaved` that came too late: save these units again."""

    region: str
    evaluation: str
    epoch: Batch
    units: Units


class WorkerAddress(MessagePart, frozen=True):
    """Where a feeder finds a worker."""

    id: Whole
    incarnation: Whole
    host: str
    pid: Whole
    port: Port


class PausedUnits(MessagePart, frozen=True):
    """A movement that a feeder must know of when it begins: it holds the units' rows and sends no marker."""

    move: Whole
    units: UnitNumbers


class PauseUnits(Message, frozen=True):
    """Controller to feeders, and to workers of a graph, as a movement begins: hold rows, mark their end."""

    move: Whole
    region: str
    units: UnitNumbers
    source: Whole


class ReleaseUnits(Message, frozen=True):
    """Controller to feeders, and to workers of a graph, as a movement ends: the units are with this worker."""

    move: Whole
    region: str
    worker: Whole
    version: Whole
    """Of the routing table."""


class GraphRouting(Message, frozen=True):
    """Controller to all workers: who owns which unit of a graph, when that changes in another way than by movements.

    Rows held for movements that are not among `paused` are thrown away: what they belonged to is over.
    """

    region: str
    operator: str
    you: Whole
    """The number that the controller knows the worker by, for markers."""
    workers: Several[WorkerAddress]
    owners: Units
    """The worker that owns each unit."""
    version: Whole
    """Of the routing table."""
    paused: Several[PausedUnits]
    move: Whole = 0
    """The latest movement that has begun."""


MovementOrder = (
    SendUnits | FeederGone | UnitsMoved | FetchUnits | DiscardUnits | RecallUnits | RestoreUnits | AbandonMoves
)
"""About movements of units."""
EvaluationOrder = ForgetEvaluation | DropState | LoadState | SaveAgain
"""About the state of an evaluation."""
FlowOrder = GraphRouting | PauseUnits | ReleaseUnits
"""About the ways of a graph's rows."""
ToWorker = (
    Shutdown
    | Prepare
    | NoCode
    | SetClock
    | SetMemory
    | SendReport
    | ServiceWeights
    | MovementOrder
    | EvaluationOrder
    | FlowOrder
)

# -- controller to feeder


class Directory(Message, frozen=True):
    """Controller to feeders of an ordered region, when they join and when workers come or go."""

    workers: Several[WorkerAddress]
    weights: Table[Whole, Whole]
    """By worker, in thousandths."""
    costs: Table[Whole, Real] = {}
    """By worker, seconds a row, as far as known."""
    overhead: Real | None = None
    """What a call costs beside its rows, in rows; None if not known."""
    shed: Share = 0.0
    """As in `ShedRows`."""


class Weights(Message, frozen=True):
    """Controller to feeders of an ordered region: the balance has decided."""

    weights: Table[Whole, Whole]
    """By worker, in thousandths."""


class KeyedDirectory(Message, frozen=True):
    """Controller to a feeder of a keyed operator that may apply its rows, and again when workers come."""

    evaluation: str
    workers: Several[WorkerAddress]
    you: Whole
    """The feeder's own number, for markers."""
    owners: Units
    """The worker that owns each unit."""
    version: Whole
    """Of the routing table."""
    paused: Several[PausedUnits]
    attempt: Whole = 0
    """At its batch, if the state is stored; else 0."""
    costs: Table[Whole, Real] = {}
    overhead: Real | None = None
    shed: Share = 0.0
    """As in `Directory`."""


class ShedRows(Message, frozen=True):
    """Controller to feeders whose `qos` allows it: drop this share of the rows that come, from the lowest value on."""

    share: Share


class Loading(Message, frozen=True):
    """Controller to feeders that wait for state, once a period: it is being loaded, wait on."""


class Committed(Message, frozen=True):
    """Controller to feeder, in answer to `FeederEnded` where state is stored: all is noted, the task may end."""


class EvaluationLost(Message, frozen=True):
    """Controller to feeder: its evaluation is over, or its attempt cannot count."""

    reason: str


class FeederRefused(Message, frozen=True):
    """Controller to feeder: the cluster does not serve it (any more)."""

    reason: str


ToFeeder = (
    Directory
    | Weights
    | KeyedDirectory
    | ShedRows
    | PauseUnits
    | ReleaseUnits
    | Loading
    | Committed
    | EvaluationLost
    | FeederRefused
)

# -- between feeder and worker


class OpenOrdered(Message, frozen=True):
    """Feeder of an ordered region to worker, in an OPEN frame."""

    operator: Name
    region: Name


REPORT_S = 0.1
"""Seconds between two reports of a worker about a keyed region, unless its balance wants others."""
LEAST_REPORT_S = 0.01


class OpenKeyed(Message, frozen=True):
    """Feeder of a keyed operator to worker, in an OPEN frame."""

    operator: Name
    region: Name
    evaluation: str
    feeder: Whole
    """The number that the controller knows it by."""
    units: Annotated[int, Meta(ge=0, le=MOST_UNITS + 1)]
    epoch: Whole = 0
    attempt: Whole = 0
    """At its batch, if the state is stored; else 0."""
    version: Whole = 0
    """Of a graph's routing table: the worker must know it before rows come."""
    move: Whole = 0
    """The latest movement in a graph that was under way when the feeder was let in: the worker must have heard of it.
    """
    report_s: Annotated[float, Meta(ge=LEAST_REPORT_S, le=60)] = REPORT_S
    """Seconds between two reports of the worker about the region."""


class OpenPeer(Message, frozen=True):
    """Worker to worker, in an OPEN frame: rows of graphs come over this connection."""

    worker: Whole


Opening = OpenOrdered | OpenKeyed | OpenPeer


class MarkedUnits(Message, frozen=True):
    """Feeder of a keyed operator to worker, in a MARKER frame: the units of the movement, whose last rows went before.

    The worker may hear of the movement from the controller later than that.
    """

    units: UnitNumbers


class RowsDurable(Message, frozen=True):
    """Worker to feeder, in an END frame that answers its own: its rows are in the store, or `error` says why not."""

    writer: str
    segments: Whole
    """How many segments of this writer's log the rows are in."""
    units: Units
    """Units that had rows in this attempt, by the same log."""
    error: str = ""
    left: Whole | None = None
    """In an attempt that repeats another one: how many logged rows have not come again so far; None in others."""


class OperatorFailed(Message, frozen=True):
    """Worker to feeder, in an ERROR frame: why the DATA frame of this sequence could not be processed."""

    worker: Whole
    where: str
    """Which row it seems to come from; empty if that is not known."""
    error: str
    traceback: str


def _check_pairs(**arrays: Sized) -> None:
    """Refuse arrays of different lengths."""
    if len(set(map(len, arrays.values()))) > 1:
        counts = " and ".join(f"{len(array)} {name}" for name, array in arrays.items())
        raise ValueError(f"it has {counts}: there must be one of each")
