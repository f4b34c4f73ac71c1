"""Events that the controller handles, and its instructions: values, so that tests can compare lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evenflow.model import MoveUnits
from evenflow.model.checkpoint import Base, Begun, Saved, Voided, WholeAttempt
from evenflow.model.entries import EventEntry
from evenflow.model.graphs.shape import GraphShape
from evenflow.model.messages import FeederMessage, ToFeeder, ToWorker, WorkerHello, WorkerMessage
from evenflow.policy.graph.placement import Placement
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.ordered.balance import Balance

Peer = int
"""The number of a control connection, given out by the controller thread: a worker or a feeder."""
Said = WorkerHello | WorkerMessage | FeederMessage
"""The messages of peers; a feeder's hello comes as `FeederJoinedEvent`, with more facts about its task."""
Transfer = Literal["direct", "store"]
"""How units move: from one worker to the other, or by way of the store."""
WARM = 3
"""Periods with rows before operators of a graph are placed by measurements, unless a user says otherwise."""


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A message of a worker or a feeder has come."""

    time: float
    peer: Peer
    message: Said


@dataclass(frozen=True, slots=True)
class GraphPlacing:
    """A graph, and facts known beforehand about the workers that its operators are placed on."""

    shape: GraphShape
    placement: Placement
    first: Placement | None = None
    """Where operators are until something is known of them; None: where `placement` puts operators that cost alike."""
    quotas: Mapping[int, float] = field(default_factory=dict)
    """By worker, the load that it may have at most; 1 if not given."""
    coefficients: Mapping[int, float] = field(default_factory=dict)
    """By worker, the factor by which a row takes longer there than usual; measured if not given."""
    links: Mapping[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    """By pair of workers, delay in ms and bytes a second; measured if not given."""
    period: float = 1.0
    """Seconds between two samples of the loads."""
    every_s: float = 30.0
    """Seconds after which a placement that does not weigh moves itself is asked again."""
    warm: int = WARM
    """Periods with rows before operators are placed by measurements."""


@dataclass(frozen=True, slots=True)
class RegionOpenedEvent:
    """The user has made a region; feeders may join it from now on."""

    time: float
    region: str
    operator: str
    balance: Balance | KeyedBalance
    units: int = 0
    """The number of units of a keyed operator; 0 for an ordered region."""
    durable: bool = False
    """Whether queries store their state."""
    transfer: Transfer = "direct"
    """How units move from worker to worker."""
    order_warning: str = ""
    """The warning to give, once, if several partitions of a batch have rows; empty if their order does not matter."""
    graph: GraphPlacing | None = None
    """The graph, if the region is one, and how its operators are placed."""
    given: str = ""
    """The name that the user asked for, if it was not free; otherwise empty."""


@dataclass(frozen=True, slots=True)
class RegionFailedEvent:
    """An instruction for a region could not be carried out: the region is to be closed."""

    time: float
    region: str
    error: str


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What Spark says of the stage that a task belongs to."""

    tasks: int
    """The tasks of its present attempt: fewer than `partitions` if only some are read, or some are there already."""
    partitions: int
    """The partitions of the RDD that it computes."""
    rdd: int = 0
    """The id of that RDD: the same in all jobs of one `take` or `tail`."""
    result: bool = True
    """Whether its rows go to an action; otherwise they go to a shuffle."""
    execution: str = ""
    """Spark's number of the action; empty for actions of RDDs, which have none."""
    inputs: int = 0
    """The partitions of the operator's input, which differ from those of the stage after a union or `coalesce`."""
    kept: int | None = None
    """The id of the persisted RDD that the operator's results go into: its partitions are not evaluated again."""
    live: frozenset[str] = frozenset()
    """Spark's live stages when this one began: results of tasks of other stages are no longer wanted."""

    @property
    def whole(self) -> bool:
        """Whether it computes all partitions of its RDD."""
        return self.tasks >= self.partitions


@dataclass(frozen=True, slots=True)
class FeederJoinedEvent:
    """A feeder has connected for a region."""

    time: float
    peer: Peer
    region: str
    partition: int = 0
    attempt: int = 0
    query: str = ""
    epoch: int = 0
    stage: str = ""
    """Spark's stage id."""
    untouched: bool = False
    """Whether the batches of the query before this one had no rows for the operator."""
    run: str = ""
    """The start of the query that it belongs to."""
    task: int = 0
    """Spark's number of this try of the task, which is unique."""
    kinds: int = 1
    """The number of stages, one after the other, that feed the operator in one evaluation: 2 if there are ticks."""
    saved: Saved | str | None = None
    """For the first task of a query: what the store has of the query, or why that cannot be used."""
    own_stage: str = ""
    """For a task with ticks: its own stage; `stage` is that of the rows, and names the evaluation."""
    facts: StageFacts | str | None = None
    """For a task of a keyed operator: what Spark says of its stage, or why that is not known; None outside of Spark."""

    @property
    def first(self) -> bool:
        """Whether its operator cannot have had rows of its query before this batch."""
        return not self.epoch or self.untouched


@dataclass(frozen=True, slots=True)
class SaveEndedEvent:
    """The content of a `SaveInstruction` is durable, or could not be saved."""

    time: float
    save: SaveInstruction
    error: str = ""
    final: bool = False
    """Whether another try would fail as well."""


@dataclass(frozen=True, slots=True)
class CheckpointTakenEvent:
    """Another cluster has taken the checkpoint: queries whose state is stored cannot go on here."""

    time: float
    why: str


@dataclass(frozen=True, slots=True)
class MoveAskedEvent:
    """The user wants units moved."""

    time: float
    move: MoveUnits


@dataclass(frozen=True, slots=True)
class MemoryAskedEvent:
    """The user gives workers more memory for state, or takes some."""

    time: float
    memory: Mapping[int, int]
    """By worker, bytes."""


@dataclass(frozen=True, slots=True)
class QosAskedEvent:
    """The user gives a region another weight."""

    time: float
    region: str
    weight: float


@dataclass(frozen=True, slots=True)
class ReportsAskedEvent:
    """The user asks what workers have done."""

    time: float
    number: int
    """Of the question; it rises."""


@dataclass(frozen=True, slots=True)
class PeerLeftEvent:
    """A control connection has ended."""

    time: float
    peer: Peer
    reason: str
    stopped: bool = False
    """Whether it is that of a feeder whose query was stopped."""


@dataclass(frozen=True, slots=True)
class TaskEndedEvent:
    """The Spark job of a worker has ended."""

    time: float
    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResultUnpersistedEvent:
    """Some RDDs are no longer persisted: the state of their evaluations is not needed."""

    time: float
    rdds: frozenset[int]


@dataclass(frozen=True, slots=True)
class TickEvent:
    """A sample period is over."""

    time: float


@dataclass(frozen=True, slots=True)
class StopEvent:
    """The cluster is being stopped."""

    time: float


Event = (
    RegionOpenedEvent
    | RegionFailedEvent
    | MessageEvent
    | FeederJoinedEvent
    | SaveEndedEvent
    | CheckpointTakenEvent
    | MoveAskedEvent
    | MemoryAskedEvent
    | QosAskedEvent
    | ReportsAskedEvent
    | PeerLeftEvent
    | TaskEndedEvent
    | ResultUnpersistedEvent
    | TickEvent
    | StopEvent
)


@dataclass(frozen=True, slots=True)
class SendInstruction:
    """Send a message to a peer."""

    peer: Peer
    message: ToWorker | ToFeeder


@dataclass(frozen=True, slots=True)
class SaveInstruction:
    """Put a note or a manifest into the store. `SaveEndedEvent` answers it.

    `kind` says which: `begun` (Begun), `whole` (WholeAttempt) or `epoch` (Base). `void` (Voided) deletes a note.
    Once an epoch is saved, blobs that its base does not need are deleted: older logs, and the snapshots in `stale`.
    """

    region: str
    query: str
    kind: str
    content: Begun | WholeAttempt | Base | Voided
    stale: tuple[str, ...] = ()
    peer: Peer = 0
    """The feeder that waits for it."""
    since: float = 0.0
    waited_s: float = 0.0
    """How many seconds the feeder had waited for its workers before."""


@dataclass(frozen=True, slots=True)
class CancelInstruction:
    """Have Spark cancel a stage whose tasks cannot succeed, however often they are tried."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class WarnInstruction:
    """Warn the user, on the driver."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplaceInstruction:
    """Close the connection of a worker that does not answer, and start another one in its place."""

    peer: Peer
    worker: int
    reason: str


Instruction = SendInstruction | EventEntry | SaveInstruction | CancelInstruction | WarnInstruction | ReplaceInstruction
"""What the controller wants done. An entry is to be written to the event log."""
