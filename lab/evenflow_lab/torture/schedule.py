"""Schedules: a job, and the faults that happen to it.

A fault is either timed (so many seconds after a batch has begun) or aimed at a point in the code: then it strikes when
a process comes to that point for the nth time. Every fault strikes once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from evenflow.control.events import Transfer
from evenflow.errors import InvalidArgument

REGION, WINDOWS, GRAPH = "counted", "windows", "graph"
"""The names of the operators and of the graph."""
JobKind: TypeAlias = Literal["keyed", "graph"]
"""Kinds of jobs: a keyed operator, in some with rules behind it; or a graph of operators."""
MOVE = ("extract", "install")
"""Points: a unit is taken out of a worker, or installed in another."""
SAVE = ("snapshot", "units", "log")
"""Points: a unit is read for a snapshot; a snapshot, or a segment of the log, is put."""
RESTORE = ("restore",)
"""Point: state is loaded."""
COMMIT = ("begun", "whole", "epoch")
"""Points on the driver: the note that an attempt has begun or is whole, or the manifest of a batch, is put."""
BY_STORE = ("move",)
"""Point if units move by way of the store: the units of a movement are put."""
SPILL = ("spill", "unspill")
"""Points with a memory budget: state is written to the local disk, or read from it."""
WORKER_POINTS = (*MOVE, *SAVE, *RESTORE, *BY_STORE, *SPILL)
MOMENTS = ("before", "half", "after")
"""Moments of a put: nothing, half of a temporary file, or all of the blob is on the disk."""
SINK = ("written",)
"""Point on the driver: a function for each batch, or for each endpoint of a graph, has written something."""
DAMAGES = ("vanish", "cut", "stale", "alter")
"""Damage to a blob while no driver runs: it is deleted, cut in half, replaced, or a number in it is changed."""
BLOBS = (*COMMIT, "units", "log", "claim", "list", "format")
"""Kinds of blobs that are damaged: notes of the driver, manifests, snapshots, segments of the log, claims, lists of
queries' operators, the file that tells the format.
"""
COPIES = ("ours", "operator", "spark")
"""Older copies that come back: of our checkpoint or of one operator's state in it, beside Spark's newer checkpoint; or
of Spark's, beside our newer one.
"""
CLOSED = (*DAMAGES, "older", "rename")
"""Faults that happen while no cluster works on the checkpoint."""
PATIENCE_S = 240.0
"""A schedule that takes longer hangs; see `Schedule.patience_s`."""
RESTART_S = 45.0
"""Further patience for each restart of the driver."""
STALL_S = 4.0
"""The stall timeout in schedules in which a worker is stopped for longer than this."""
VOID_S = 6.0
"""A driver that is silent for so long loses its claim, in a store without locks."""
BLOCK = 8
"""So many consecutive seeds have the same number of tries, so that one driver can run them."""
MOST_WORKERS = 4
SLOTS = 3
"""Slots of a session in one process: for workers, and for the query's own tasks."""

SessionKind: TypeAlias = tuple[int, int, int]
"""What a Spark session is made of: executors (0: one process for all), tries of a task, slots."""


@dataclass(frozen=True, slots=True)
class Job:
    """A query that counts rows by key, batch by batch, or runs a graph that does so; and how it is run."""

    batches: int
    rows: int
    """Rows in each batch."""
    keys: int
    partitions: int
    """Files of each batch; all rows of a key are in the same one."""
    workers: int
    units: int
    executors: int = 0
    """Processes that hold workers; 0 for Spark's local mode, with one process for all."""
    tries: int = 1
    """How often Spark runs a task before the query fails; further tries fail as well, and take time."""
    memory: int = 0
    """Bytes that the state on a worker may take; 0 for no limit."""
    ballast: int = 0
    """Useless bytes in the state of each key, to make it larger."""
    ordered: bool = False
    transfer: Transfer = "direct"
    """How units move: from worker to worker, or by way of the store."""
    pause_s: float = 0.03
    """A pause after every few rows of a partition, so that faults have time to strike."""
    files: int = 0
    """Files that a micro-batch takes; 0 for one of each partition, so that all rows of a key are in one of them."""
    packs: tuple[int, ...] = ()
    """For each start of the query, how many partitions Spark makes of a micro-batch's files; 0 for one a file."""
    crews: tuple[int, ...] = ()
    """The number of workers of each driver; if empty, `workers` for all."""
    cores: tuple[int, ...] = ()
    """The slots of each driver for the query's own tasks; with few slots, partitions wait. If empty: the same."""
    order_by: bool = False
    """Whether rows are put in order within a micro-batch: then they do not race, whatever partitions they are in."""
    windows: bool = False
    """Whether the counted rows go into windows of event time, by a rule; then the windows are the result."""
    sink: str = "files"
    """`files`: Spark's own sink. `peeks`: a function for each batch, which looks at the batch before it writes it.
    `skips`: one that writes each batch twice, in two places, and keeps what it has already: see `writes`.
    """
    persists: bool = True
    """Whether a sink that skips persists a batch before it writes it; else the second write evaluates it again."""
    store: str = "disk"
    """`disk`; `s3`: a bucket on a server that the run starts; `postgres`: a database that it starts."""
    key: bool = False
    """Whether the checkpoint has a key."""
    queries: int = 1
    """Queries that run on the cluster side by side, on the same input."""
    pairs_s: int = 0
    """If not 0, the query joins two streams, with windows of so many seconds of event time."""
    lag: int = 0
    """Files of the second stream that a micro-batch takes; 0 for as many as of the first."""
    stall_s: float = 0.0
    """The stall timeout; 0 for the default."""
    kind: JobKind = "keyed"
    sources: int = 1
    """Streams of a graph or a join; each has as many rows."""
    placement: str = ""
    """Of a graph: how its operators are placed, beside the moves that are asked for all the time."""

    @property
    def racing(self) -> bool:
        """Whether rows of a key may overtake each other, because they are in several partitions of a micro-batch."""
        return self.files not in (0, self.partitions) and not self.order_by

    @property
    def writes(self) -> tuple[str, ...]:
        """Folders, below that of a query's output, of what a sink that skips writes: each has all rows."""
        return ("first", "second") if self.sink == "skips" and self.kind == "keyed" else ("",)

    def session(self, life: int) -> SessionKind:
        """The Spark session of driver `life`."""
        slots = self.cores[life % len(self.cores)] if self.cores else SLOTS
        return self.executors, self.tries, MOST_WORKERS + slots


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: str
    """kill, stop, exhaust (its file descriptors), step (its clock), slow, fails, full, flip, breaks (the sink); one of
    CLOSED; lose, freeze, rival, blunder (another query's mistake) or pause (all queries and the cluster).
    """
    victim: str = ""
    """The process that is hit: worker, feeder, executor or driver; `lose` hits an executor, `freeze` a driver."""
    point: str = ""
    """The point of the code where it strikes; if empty, it strikes `delay_s` after batch `batch` has begun."""
    moment: str = ""
    """At a put: before, in the middle or after; see MOMENTS."""
    nth: int = 1
    """It strikes when a process comes to the point for the nth time."""
    batch: int = 0
    delay_s: float = 0.0
    flowing: bool = False
    """Whether `delay_s` counts from the batch's first feeder on; else from when Spark has noted that it begins."""
    worker: int = 0
    seconds: float = 0.0
    """How long a stop, a full disk or a lack of descriptors lasts; the longest delay of a slow store's operation; how
    far a clock steps.
    """
    share: float = 0.0
    """The share of a store's operations that are slow or fail; for damage, the blob's place among those of its kind."""

    def __str__(self) -> str:
        what = " ".join(part for part in (self.kind, self.victim) if part)
        if self.kind in CLOSED:
            return f"{self.kind} {self.point}"
        if self.point:
            return f"{what} at {self.moment + ' ' if self.moment else ''}{self.point} {self.nth}"
        return f"{what} in batch {self.batch}" if self.victim else f"store {what}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job and all its faults."""

    seed: int
    job: Job
    faults: tuple[Fault, ...]

    @property
    def patience_s(self) -> float:
        """Seconds after which the run counts as hanging."""
        restarts = sum(fault.victim == "driver" or fault.kind in CLOSED for fault in self.faults)
        slower = (2 if self.job.executors else 1) * (2 if self.job.store == "s3" else 1)
        slower *= 2 if self.job.kind == "graph" else 1  # it compiles more, and each endpoint is a job of Spark
        return (PATIENCE_S + RESTART_S * restarts) * slower

    def to_json(self) -> str:
        """The schedule as text, for `from_json`."""
        return json.dumps(asdict(self))


def place_of(name: str, query: int) -> str:
    """The name that belongs to one of a job's queries: of a folder, or of an operator."""
    return f"{name}-{query}" if query else name


def ends_driver(fault: Fault) -> bool:
    """Whether another driver has to take over after a fault."""
    return fault.victim == "driver" and fault.kind in ("kill", "freeze")


def from_json(text: str) -> Schedule:
    """A schedule from its text."""
    given = json.loads(text)
    job: dict[str, Any] = {}
    for name, value in given["job"].items():
        job[name] = tuple(value) if isinstance(value, list) else value
    return Schedule(given["seed"], Job(**job), tuple(Fault(**fault) for fault in given["faults"]))


def kind_named(name: str) -> JobKind:
    """A kind of jobs by its name."""
    if name not in get_args(JobKind):
        raise InvalidArgument(f"there is no kind of job {name!r}: choose one of {', '.join(get_args(JobKind))}")
    return cast(JobKind, name)
