"""The schedule of a seed: which job, and which faults. It never depends on the machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from evenflow_lab.torture.faults import drawn as faults
from evenflow_lab.torture.jobs.operator import AT_ONCE
from evenflow_lab.torture.schedule import (
    BLOCK,
    BY_STORE,
    STALL_S,
    VOID_S,
    WORKER_POINTS,
    Fault,
    Job,
    JobKind,
    Schedule,
    ends_driver,
)

FLOW_S = 0.5
"""About how long the rows of a batch flow."""
LONGEST_S = 0.06
"""The longest pause after a few rows."""
DRIVERS = 0.65
"""The share of schedules in which a driver may end: a start of Spark takes longer than all else."""
PLACEMENTS = ("potential", "potential", "greedy", "round-robin", "random")
RARE: tuple[faults.Draw, ...] = (
    *(faults.damage, faults.damage, faults.damage, faults.older, faults.older, faults.rename),
    *(faults.long_stop, faults.rival, faults.blunder, faults.exhaust, faults.step),
)
"""Of these a schedule has one at most. Some stand here twice: they are drawn twice as often."""


def draw(seed: int, kind: JobKind = "keyed") -> Schedule:
    """The schedule of a seed, for one kind of job."""
    source = random.Random(f"{seed} {kind}")
    clustered = source.random() < 0.05
    job = Job(
        kind=kind,
        batches=source.randint(4, 6),
        rows=source.choice((300, 600, 900)),
        keys=source.choice((7, 60, 300)),
        partitions=source.randint(1, 2 if clustered else 3),
        workers=3 if clustered else source.randint(2, 4),
        units=source.choice((8, 32, 64)),
        executors=2 if clustered else 0,
        tries=4 if seed // BLOCK % 4 == 3 else 1,
        ordered=source.random() < 0.3,
        key=source.random() < 0.25,
    )
    job = _paced(_of_kind(source, _stored(source, _started(source, job))))
    found = _faults(source, job)
    if any(fault.kind == "stop" and fault.seconds > STALL_S for fault in found):
        job = replace(job, stall_s=STALL_S)
    if any(fault.kind == "lose" for fault in found):
        job = replace(job, workers=2)  # so that the executor that remains has a slot for tasks, too
    return Schedule(seed, job, tuple(found))


def _started(source: random.Random, job: Job) -> Job:
    """How it is run, which may vary from start to start."""
    if source.random() < 0.5:
        job = replace(job, partitions=source.choice((2, 4)), packs=_some(source, 0, 1, 1, 2, 4))
    if not job.executors and source.random() < 0.3:
        job = replace(job, crews=_some(source, 1, 2, 3, 4))
        if source.random() < 0.3:
            job = replace(job, cores=_some(source, 1, 2), partitions=source.choice((4, 8)))
    if source.random() < 0.25:
        job = replace(job, transfer="store")
    return job


def _stored(source: random.Random, job: Job) -> Job:
    """Where its checkpoint is, and whether its state may take any memory."""
    place = source.random()
    if not job.executors and place < 0.25:
        job = replace(job, store="s3" if place < 0.13 else "postgres")
    if not job.executors and source.random() < 0.2:
        job = replace(job, keys=300, units=64, workers=2, crews=(), memory=1 << 16, ballast=1500)
    return job


def _of_kind(source: random.Random, job: Job) -> Job:
    """What it computes, and how its result is written."""
    if source.random() < 0.4:  # rows of a key in several partitions
        job = replace(job, partitions=max(2, job.partitions), ordered=False)
        job = replace(job, files=source.choice((job.partitions + 1, 2 * job.partitions)))
    if source.random() < 0.4:
        job = replace(job, sink="skips", ordered=False, persists=source.random() < 0.6)
    if not job.executors and not job.memory and source.random() < 0.15:
        job = replace(job, queries=2, cores=())
    if job.kind == "graph":
        return _graph(source, job)
    if job.sink == "files" and source.random() < 0.2:
        job = replace(job, pairs_s=2, sources=2, files=0, ordered=False, partitions=2, batches=4, queries=1)
        return replace(job, keys=max(60, job.keys), lag=source.choice((0, 1)), memory=0, ballast=0)
    if source.random() < 0.3:
        job = replace(job, order_by=True, windows=job.sink == "files" and source.random() < 0.5)
        return replace(job, ordered=False, persists=True)
    return replace(job, sink="peeks", ordered=False) if job.sink == "files" and source.random() < 0.25 else job


def _graph(source: random.Random, job: Job) -> Job:
    """A graph says itself where rows are in order; windows of its joins never end, so only small state fits."""
    return replace(
        job,
        sources=source.choice((1, 2)),
        placement=source.choice(PLACEMENTS),
        rows=source.choice((200, 400)),
        keys=source.choice((20, 60)) if not job.memory else 60,
        units=source.choice((4, 16)) if not job.memory else 32,
        memory=job.memory and 1 << 18,
        ballast=job.ballast and 8000,
        ordered=False,
    )


def _paced(job: Job) -> Job:
    """With pauses, so that faults have time to strike."""
    return replace(job, pause_s=round(min(LONGEST_S, FLOW_S * AT_ONCE * job.partitions / job.rows), 3))


def _faults(source: random.Random, job: Job) -> list[Fault]:
    found: list[Fault] = []
    if job.executors:
        kind = source.choice(("kill", "kill", "lose"))
        found.append(faults.timed(source, job, kind, "executor"))
    if job.memory:
        found.append(faults.at_spill(source))
    if job.transfer == "store":
        found.append(faults.aimed(source, source.choice(BY_STORE)))
    if job.sink == "skips":
        found += faults.at_sink(source, job)
    if job.store == "s3" and source.random() < 0.4:
        found.append(replace(faults.timed(source, job, "freeze", "driver", least=1), seconds=2 * VOID_S))
    for _ in range(source.randint(1, 2)):
        found += source.choice(faults.COMMON)(source, job)
    if source.random() < 0.8:
        found += source.choice(RARE)(source, job)
    drivers = source.random() < DRIVERS
    return [_flowing(source, job, fault) for fault in _sparing(found, int(drivers))]


def _sparing(found: list[Fault], drivers: int) -> Iterator[Fault]:
    """The faults, of which only so many end a driver; others end only a worker, or all queries and the cluster."""
    for fault in found:
        if not ends_driver(fault) or drivers:
            drivers -= ends_driver(fault)
            yield fault
        elif fault.point in WORKER_POINTS:
            yield replace(fault, victim="worker")
        else:
            yield Fault("pause", "query", batch=max(1, fault.batch), delay_s=fault.delay_s)


def _flowing(source: random.Random, job: Job, fault: Fault) -> Fault:
    """In graphs, most timed faults count from the first row of the batch on."""
    timed = fault.victim and not fault.point
    return replace(fault, flowing=source.random() < 0.7) if job.kind == "graph" and timed else fault


def _some(source: random.Random, *among: int) -> tuple[int, ...]:
    return tuple(source.choice(among) for _ in range(3))
