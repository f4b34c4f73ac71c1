"""Schedules: what a job is like and what happens to it, all drawn from one seed.

A fault is either timed (so many seconds after a batch has begun) or aimed at a point in the code, and then strikes when
a process comes there for the nth time. Every fault strikes once. What a seed gives never depends on the machine.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, replace
from typing import Any

from evenflow.control.events import Transfer

MOVE = ("extract", "install")
"""Points: a unit is taken out of a worker, or put into another."""
SAVE = ("snapshot", "units", "log")
"""Points: a unit is read for a snapshot; a snapshot, or a segment of the log, is put."""
RESTORE = ("restore",)
"""Point: state is loaded."""
COMMIT = ("begun", "whole", "epoch")
"""Points, on the driver: the note that an attempt has begun or is whole, or the manifest of a batch, is put."""
BY_STORE = ("move",)
"""Point, where units move by way of the store: those of a movement are put."""
SPILL = ("spill", "unspill")
"""Points, with a budget of memory: state is written to the local disk, or read from it."""
WORKER_POINTS = (*MOVE, *SAVE, *RESTORE, *BY_STORE, *SPILL)
MOMENTS = ("before", "half", "after")
"""Of a put: nothing of it, half of a temporary file, or all of it is on the disk."""
DAMAGES = ("vanish", "cut", "stale")
"""What becomes of a blob while no driver is there: it is gone, half of it is, or it is that of another batch."""
BLOBS = (*COMMIT, "units", "log")
"""Blobs that are damaged: notes of the driver, manifests, snapshots, segments of the log."""
PATIENCE_S = 240.0
RESTART_S = 45.0
STALL_S = 8.0
"""Of schedules in which a worker is stopped for longer."""
VOID_S = 10.0
"""A driver that is silent for so long loses its claim, where the store has no locks."""
BLOCK = 8
"""So many seeds in a row have the same session, but for those with executors."""


@dataclass(frozen=True, slots=True)
class Job:
    """Batches of rows, counted by key."""

    batches: int
    rows: int
    """In each batch."""
    keys: int
    partitions: int
    """Of each batch; a key is always in the same one."""
    workers: int
    units: int
    executors: int = 0
    """Processes that hold workers; 0: one for all, Spark's local mode."""
    tries: int = 1
    """How often Spark runs a task before the query fails; all but the first are in vain, and take their time."""
    memory: int = 0
    """Bytes that the state on a worker may take; 0: as much as it wants."""
    ballast: int = 0
    """Bytes in the state of each key that are for nothing but their weight."""
    ordered: bool = False
    transfer: Transfer = "direct"
    """How units move: from worker to worker, or by way of the store."""
    pause_s: float = 0.03
    """Between any few rows of a partition and the next, so that there is time for something to happen."""
    files: int = 0
    """Files that a micro-batch takes; 0: one of each partition, so that all rows of a key are in one of them."""
    packs: tuple[int, ...] = ()
    """How many partitions Spark makes of a micro-batch's files, start by start of the query; 0 or none: one a file."""
    crews: tuple[int, ...] = ()
    """Workers, driver by driver; none: always the same."""
    cores: tuple[int, ...] = ()
    """Slots for the query's own tasks, driver by driver: partitions wait for each other. None: always the same."""
    order_by: bool = False
    """Whether rows are put in order within a micro-batch: they do not race, whatever partitions they are in."""
    windows: bool = False
    """Whether what was counted goes on into windows of event time, by way of a rule; they are what comes out."""
    sink: str = "files"
    """Spark's own sink of files, or `peeks`: a function for each batch, which looks at it before it writes it."""
    store: str = "disk"
    """Or `s3`: a bucket of a server of its own."""
    stall_s: float = 0.0
    """After how long workers that do not answer are given up; 0: as long as by default."""

    @property
    def racing(self) -> bool:
        """Whether rows of a key may overtake each other: they are in several partitions of a micro-batch."""
        return self.files not in (0, self.partitions) and not self.order_by


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    kind: str
    """kill, stop, slow, fails, full or flip; vanish, cut or stale; lose, freeze or rival."""
    victim: str = ""
    """Of kill and stop: worker, feeder, executor or driver; an executor is lost for good, a driver frozen."""
    point: str = ""
    """Where it strikes; nowhere in particular if empty, but `delay_s` after batch `batch` has begun."""
    moment: str = ""
    """Of a put."""
    nth: int = 1
    """The how manieth time a process comes to that point."""
    batch: int = 0
    delay_s: float = 0.0
    worker: int = 0
    seconds: float = 0.0
    """How long: a stop, a full disk; at most how long: an operation of a slow store."""
    share: float = 0.0
    """Of the operations of a store that are slow, or fail; of all blobs of a kind, those before the damaged one."""

    def __str__(self) -> str:
        what = " ".join(part for part in (self.kind, self.victim) if part)
        if self.kind in DAMAGES:
            return f"{self.kind} {self.point}"
        if self.point:
            return f"{what} at {self.moment + ' ' if self.moment else ''}{self.point} {self.nth}"
        return f"{what} in batch {self.batch}" if self.victim else f"store {what}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that happens in one run."""

    seed: int
    job: Job
    faults: tuple[Fault, ...]

    @property
    def patience_s(self) -> float:
        """After so long it hangs."""
        restarts = sum(fault.victim == "driver" or fault.kind in DAMAGES for fault in self.faults)
        slower = (2 if self.job.executors else 1) * (2 if self.job.store == "s3" else 1)
        return (PATIENCE_S + RESTART_S * restarts) * slower

    @property
    def session(self) -> tuple[int, int, int]:
        """What schedules have in common whose jobs one driver runs one after the other."""
        return self.job.executors, self.job.tries, self.seed if self.job.cores else 0

    def to_json(self) -> str:
        """As text; `from_json` is the way back."""
        return json.dumps(asdict(self))


def from_json(text: str) -> Schedule:
    """A schedule from its text."""
    given = json.loads(text)
    job: dict[str, Any] = {}
    for name, value in given["job"].items():
        job[name] = tuple(value) if isinstance(value, list) else value
    return Schedule(given["seed"], Job(**job), tuple(Fault(**fault) for fault in given["faults"]))


def draw(seed: int) -> Schedule:
    """The schedule of a seed."""
    source = random.Random(seed)
    clustered = source.random() < 0.12
    job = Job(
        batches=source.randint(5, 8),
        rows=source.choice((400, 900, 1500)),
        keys=source.choice((7, 60, 300)),
        partitions=source.randint(1, 2 if clustered else 3),
        workers=3 if clustered else source.randint(2, 4),
        units=source.choice((8, 32, 64)),
        executors=2 if clustered else 0,
        tries=4 if seed // BLOCK % 4 == 3 else 1,
        ordered=source.random() < 0.3,
    )
    faults: list[Fault] = []
    if clustered:
        faults.append(_timed(source, job, "kill", "executor"))
    elif source.random() < 0.25:
        job = replace(job, keys=300, units=64, workers=2, memory=1 << 16, ballast=1500)
        faults.append(_at_spill(source))
    for _ in range(source.randint(1, 3)):
        faults += source.choice(_DRAWS)(source, job)
    aside = random.Random(f"{seed} {BY_STORE}")  # so that nothing else of a schedule depends on it
    if aside.random() < 0.25:
        job = replace(job, transfer="store")
        faults.append(_aimed(aside, aside.choice(BY_STORE)))
    job, faults = _wider(random.Random(f"{seed} wider"), job, faults)
    return Schedule(seed, job, tuple(faults))


def _wider(source: random.Random, job: Job, faults: list[Fault]) -> tuple[Job, list[Fault]]:
    """What else may differ from run to run and from start to start, and what else may go wrong."""
    if source.random() < 0.5:
        job = replace(job, partitions=source.choice((2, 4, 8)), packs=_some(source, 0, 1, 1, 2, 4))
    if not job.executors and not job.memory and source.random() < 0.3:
        job = replace(job, crews=_some(source, 1, 2, 3, 4), cores=_some(source, 1, 2))
        if source.random() < 0.5:  # many partitions that wait for each other, of which some are through; then few
            job = replace(job, partitions=8, packs=(0, source.randint(1, 3), source.randint(1, 3)))
            faults = [*faults, _timed(source, job, "kill", "driver", least=1)]
    if source.random() < 0.2:
        job = replace(job, files=source.randint(1, 2 * job.partitions), ordered=False)
    if source.random() < 0.3:
        job = replace(job, order_by=True, windows=source.random() < 0.5, ordered=False)
    if source.random() < 0.25:
        job = replace(job, sink="peeks", ordered=False)
    if not job.executors and source.random() < 0.15:
        job = replace(job, store="s3")
        if source.random() < 0.5:
            faults = [*faults, replace(_timed(source, job, "freeze", "driver", least=1), seconds=3 * VOID_S)]
    if job.executors and source.random() < 0.4:
        job = replace(job, workers=2)  # the executor that is left has a slot for tasks, too
        faults = [*faults, _timed(source, job, "lose", "executor")]
    draws = (_damage, _damage, _long_stop, _rival)
    if source.random() < 0.5:
        more = source.choice(draws)(source, job)
        faults = [*faults, *more]
        if more[0].kind == "stop":
            job = replace(job, stall_s=STALL_S)
    return job, faults


def _some(source: random.Random, *among: int) -> tuple[int, ...]:
    return tuple(source.choice(among) for _ in range(3))


def _damage(source: random.Random, job: Job) -> list[Fault]:
    """Blobs are damaged while no driver is there, so one is killed first."""
    bad = Fault(source.choice(DAMAGES), point=source.choice(BLOBS), share=round(source.random(), 6))
    return [bad, _timed(source, job, "kill", "driver", least=2)]


def _long_stop(source: random.Random, job: Job) -> list[Fault]:
    return [replace(_timed(source, job, "stop", "worker"), seconds=3 * STALL_S)]


def _rival(source: random.Random, job: Job) -> list[Fault]:
    """Another driver comes for the checkpoint."""
    return [_timed(source, job, "rival", "checkpoint")]


def _timed(source: random.Random, job: Job, kind: str, victim: str, least: int = 0) -> Fault:
    return Fault(
        kind,
        victim,
        batch=source.randint(least, job.batches - 1),
        delay_s=round(source.uniform(0, 0.8), 3),
        worker=source.randrange(job.workers),
        seconds=10.0 if kind == "stop" else 0.0,
    )


def _aimed(source: random.Random, point: str) -> Fault:
    victim = "driver" if point in COMMIT or source.random() < 0.25 else "worker"
    put = point in (*COMMIT, *BY_STORE, "units", "log")
    most = {"extract": 12, "install": 6, "snapshot": 6, "restore": 4, "move": 6, "spill": 20, "unspill": 20}.get(
        point, 3
    )
    return Fault("kill", victim, point, source.choice(MOMENTS) if put else "", nth=source.randint(1, most))


def _at_random(source: random.Random, job: Job) -> list[Fault]:
    return [_timed(source, job, "kill", source.choice(("worker", "worker", "feeder", "driver")))]


def _at_move(source: random.Random, job: Job) -> list[Fault]:
    return [_aimed(source, source.choice(MOVE))]


def _at_save(source: random.Random, job: Job) -> list[Fault]:
    return [_aimed(source, source.choice(SAVE))]


def _at_commit(source: random.Random, job: Job) -> list[Fault]:
    return [_aimed(source, source.choice(COMMIT))]


def _at_restore(source: random.Random, job: Job) -> list[Fault]:
    """There is nothing to restore before something was lost."""
    first = _timed(source, job, "kill", source.choice(("worker", "driver")), least=2)
    return [first, _aimed(source, source.choice(RESTORE))]


def _at_spill(source: random.Random) -> Fault:
    if source.random() < 0.4:
        return Fault("full", point="spill", nth=source.randint(1, 10), seconds=round(source.uniform(0.3, 4), 3))
    return _aimed(source, source.choice(SPILL))


def _stop(source: random.Random, job: Job) -> list[Fault]:
    return [_timed(source, job, "stop", "worker")]


def _store(source: random.Random, job: Job) -> list[Fault]:
    match source.choice(("slow", "fails", "full")):
        case "slow":
            return [Fault("slow", share=0.3, seconds=round(source.uniform(0.05, 0.5), 3))]
        case "fails":
            return [Fault("fails", share=round(source.uniform(0.05, 0.35), 3))]
        case _:
            point = source.choice(("units", "log", *COMMIT))
            return [Fault("full", point=point, nth=source.randint(1, 4), seconds=round(source.uniform(0.3, 4), 3))]


def _flip(source: random.Random, job: Job) -> list[Fault]:
    """A damaged segment shows when it is read, so something is lost afterwards."""
    flip = Fault("flip", point="log", nth=source.randint(1, 4), share=round(source.random(), 6))
    return [flip, _timed(source, job, "kill", source.choice(("worker", "driver")), least=2)]


_DRAWS = (_at_random, _at_move, _at_move, _at_save, _at_commit, _at_restore, _stop, _store, _store, _flip)
