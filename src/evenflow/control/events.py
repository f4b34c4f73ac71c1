"""What happens to the controller, and what it wants done: values, so that tests compare lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenflow.model import MoveUnits
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.ordered.balance import Balance

Peer = int
"""Whoever is behind one control connection, by a number the I/O around the controller gives out."""
Transfer = Literal["direct", "store"]
"""How units move: from one worker to the other, or by way of the store."""


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """A worker process has connected and said who it is."""

    time: float
    peer: Peer
    worker: int
    host: str
    port: int
    pid: int
    task: tuple[int, int] = (0, 0)
    """Spark's stage id and task attempt id, by which its executor is found."""
    transfer_port: int = 0
    """The port on which other workers bring it units."""
    deep: int = 0
    """The port for feeders of keyed operators, whose connections have deep buffers."""
    key: str = ""
    """For tickets of movements to it."""


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
class FeederBegan:
    """A feeder of a keyed operator has its first row."""

    time: float
    peer: Peer
    partition: int
    """Of the operator's input, which need not be the task's own number."""


@dataclass(frozen=True, slots=True)
class FeederUnread:
    """Spark does not want more of a feeder: its action has rows enough, or its task has failed for another reason."""

    time: float
    peer: Peer


@dataclass(frozen=True, slots=True)
class FeederFailed:
    """A feeder's rows made the operator fail: the evaluation is over."""

    time: float
    peer: Peer
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class FeederArrivals:
    """Rows by unit that a feeder of a keyed operator has taken in since it last said so."""

    time: float
    peer: Peer
    units: npt.NDArray[np.int32]
    unit_rows: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FeederDraining:
    """A feeder of a keyed operator has taken in all its rows, and waits for the last results."""

    time: float
    peer: Peer


@dataclass(frozen=True, slots=True)
class FeederEnded:
    """A feeder of a keyed operator has had answers to all its rows."""

    time: float
    peer: Peer
    segments: Mapping[str, int] = field(default_factory=dict)
    """With a store: by worker, the segments of its log in which the rows are."""
    seconds: float = 0.0
    """How long workers took to make the last of them durable."""


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
class StateLoaded:
    """A worker has loaded the state that an attempt starts from, or could not."""

    time: float
    peer: Peer
    region: str
    evaluation: str
    load: int
    error: str = ""
    bytes: int = 0
    rows: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class UnitsSaved:
    """A worker has saved units as they were at the end of a batch."""

    time: float
    peer: Peer
    region: str
    evaluation: str
    epoch: int
    name: str
    units: npt.NDArray[np.int32]
    bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerReport:
    """What a worker did for one keyed operator since its last report."""

    time: float
    peer: Peer
    region: str
    seconds: float
    idle_s: float
    busy_s: float
    rows: int
    bytes: int
    units: npt.NDArray[np.int32]
    unit_rows: npt.NDArray[np.int64]
    sized: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]
    """Bytes of state of the units in `sized`."""
    memory: int = 0
    """The worker's budget; 0 if there is none."""
    resident: int = 0
    spilled: int = 0
    """Bytes of state in memory and on disk, of all operators."""
    on_disk: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """Units of this operator whose state is on disk."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What the operator has counted."""


@dataclass(frozen=True, slots=True)
class MoveReport:
    """What a worker has to say about a movement.

    `quiet`, `stored`, `installed`, `undelivered`, `failed` (for good), `discarded` or `restored`.
    """

    time: float
    peer: Peer
    region: str
    move: int
    outcome: str
    reason: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's heartbeat: cumulative counters."""

    time: float
    peer: Peer
    rows: int
    frames: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class OperatorReady:
    """A worker has loaded an operator, and compiled what that needs."""

    time: float
    peer: Peer
    operator: str


@dataclass(frozen=True, slots=True)
class WorkerAlive:
    """A worker that has long been at one thing says that it goes on."""

    time: float
    peer: Peer


@dataclass(frozen=True, slots=True)
class WorkerTrouble:
    """A part of a worker has failed, or somebody who spoke to it was turned out."""

    time: float
    peer: Peer
    what: str
    reason: str
    ends: bool = False
    """Whether the worker cannot go on without it, and ends now."""


@dataclass(frozen=True, slots=True)
class FeederReport:
    """What a feeder did since its last report: by worker, (rows sent, frames sent, rows done, frames done, ...)."""

    time: float
    peer: Peer
    feeding_s: float
    rows_out: int
    connections: Mapping[int, Mapping[str, float]]
    resent: int = 0
    """Frames sent again to another worker."""
    rerouted: int = 0
    """Frames that did not go to the worker whose turn it was."""
    overhead: float | None = None
    """What a call of the function costs beside its rows, in rows; None if not known."""


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


FeederEvent = FeederBegan | FeederArrivals | FeederDraining | FeederEnded | FeederUnread | FeederFailed | FeederReport
"""What a feeder says to its region."""
WorkerEvent = ConsumerReport | MoveReport | StateLoaded | UnitsSaved
"""What a worker says to a keyed region."""
Event = (
    RegionOpened
    | WorkerJoined
    | WorkerReport
    | WorkerAlive
    | WorkerTrouble
    | OperatorReady
    | WorkerEvent
    | FeederJoined
    | FeederEvent
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
    message: Mapping[str, Any]


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
