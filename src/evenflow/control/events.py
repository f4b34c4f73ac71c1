"""What happens to the controller, and what it wants done: values, so that tests compare lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.model import MoveUnits
from evenflow.model.messages import FeederMessage, ToFeeder, ToWorker, WorkerHello, WorkerMessage
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.ordered.balance import Balance

Peer = int
"""Whoever is behind one control connection, by a number the I/O around the controller gives out."""
Said = WorkerHello | WorkerMessage | FeederMessage
"""What peers say; a feeder's hello comes as `FeederJoined`, with what else is known of its task."""
Transfer = Literal["direct", "store"]
"""How units move: from one worker to the other, or by way of the store."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A worker or a feeder has said something."""

    time: float
    peer: Peer
    message: Said


@dataclass(frozen=True, slots=True)
class RegionOpened:
    """The user made a region; feeders may join it from now on."""

    time: float
    region: str
    operator: str
    balance: Balance | KeyedBalance
    units: int = 0
    """How many units a keyed operator has; 0 for an ordered region."""
    durable: bool = False
    """Whether queries store their state."""
    transfer: Transfer = "direct"
    """How units move from worker to worker."""
    order_warning: str = ""
    """What to warn of, once, if rows of several partitions meet in the order of arrival; nothing if that is fine."""


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What Spark says of the stage that a task belongs to."""

    tasks: int
    """Of its present attempt: fewer than `partitions` where an action reads only some, or some are there already."""
    partitions: int
    """Of the RDD that it computes."""
    rdd: int = 0
    """The id of that: the same in all jobs of one `take` or `tail`."""
    result: bool = True
    """Whether its rows go to an action; otherwise they go to a shuffle."""
    execution: str = ""
    """Spark's number of the action; empty for actions of RDDs, which have none."""
    inputs: int = 0
    """Partitions of the operator itself, which are not those of the stage after a union or `coalesce`."""
    kept: int | None = None
    """The id of the persisted RDD that the operator's results go into: what is in there is not evaluated again."""
    live: frozenset[str] = frozenset()
    """Spark's stages when this one began: tasks of any other that are still here feed for nothing."""

    @property
    def whole(self) -> bool:
        """Whether it computes all that there is: nothing has to come from another stage, unless results are kept."""
        return self.tasks >= self.partitions


@dataclass(frozen=True, slots=True)
class FeederJoined:
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
    """Whether the batches of the query before this one had no rows."""
    run: str = ""
    """Which start of the query it belongs to."""
    task: int = 0
    """Spark's number of this try of the task: no two are alike."""
    kinds: int = 1
    """How many stages, one behind the other, an evaluation has that feed the operator."""
    saved: Any = None
    """What the store has of the query (`attempts.Saved`), for the first task of it that comes."""
    own_stage: str = ""
    """Of a task with ticks: Spark's stage of its own; its evaluation goes by `stage`, that of the rows."""
    facts: StageFacts | str | None = None
    """Of a keyed operator's task: what Spark says of its stage, or why it does not; None outside of Spark."""

    @property
    def first(self) -> bool:
        """Whether its query cannot have had rows before this batch."""
        return not self.epoch or self.untouched


@dataclass(frozen=True, slots=True)
class Stored:
    """Something that was to be saved is durable, or cannot be saved."""

    time: float
    save: Save
    error: str = ""
    final: bool = False
    """Whether it will not be otherwise if it is tried again."""


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """The checkpoint has become another cluster's: nothing that is stored here goes on."""

    time: float
    why: str


@dataclass(frozen=True, slots=True)
class MoveAsked:
    """Somebody beside the policy wants units moved."""

    time: float
    move: MoveUnits


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """A control connection is over."""

    time: float
    peer: Peer
    reason: str
    stopped: bool = False
    """Whether it is a feeder's, whose query was stopped."""


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The Spark job that held a worker's slot is over."""

    time: float
    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unpersisted:
    """Some RDDs are not persisted any more: what was evaluated for them is not needed."""

    time: float
    rdds: frozenset[int]


@dataclass(frozen=True, slots=True)
class Tick:
    """A sample period is over."""

    time: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The cluster is being stopped."""

    time: float


Event = (
    RegionOpened
    | Heard
    | FeederJoined
    | Stored
    | CheckpointTaken
    | MoveAsked
    | PeerLeft
    | TaskEnded
    | Unpersisted
    | Tick
    | Stop
)


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to a peer."""

    peer: Peer
    message: ToWorker | ToFeeder


@dataclass(frozen=True, slots=True)
class Record:
    """Write an entry to the event log."""

    time: float
    event: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Save:
    """Have something made durable: `begun` (Begun), `whole` (Whole), `epoch` (Base); `Stored` tells what became of it.

    Once an epoch is saved, whatever its base does not need is deleted: older logs, and the snapshots named in `stale`.
    """

    region: str
    query: str
    kind: str
    content: Any
    stale: tuple[str, ...] = ()
    peer: Peer = 0
    """The feeder that waits for it."""
    since: float = 0.0
    waited_s: float = 0.0
    """For how long the feeder had waited for its workers before."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Have Spark give a stage up: none of its tasks can come to anything, however often they are tried."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Warn:
    """Have the user told, on the driver, of something that works and may not be meant."""

    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Hang up on a worker that answers nothing, and have another started in its place."""

    peer: Peer
    worker: int
    reason: str


Instruction = Tell | Record | Save | Cancel | Warn | Replace
