"""The schedule of a seed: which job, and which faults. It never depends on the machine."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from evenflow.torture.operator import AT_ONCE
from evenflow.torture.schedule import (
    BLOBS,
    BLOCK,
    BY_STORE,
    COMMIT,
    DAMAGES,
    MOMENTS,
    MOVE,
    RESTORE,
    SAVE,
    SPILL,
    STALL_S,
    VOID_S,
    Fault,
    Job,
    JobKind,
    Schedule,
)

Draw = Callable[[random.Random, Job], list[Fault]]
FLOW_S = 0.8
"""About how long the rows of a graph's batch flow, unless pauses became longer than LONGEST_S: as delays of faults."""
LONGEST_S = 0.1
PLACEMENTS = ("potential", "potential", "greedy", "round-robin", "random")


def draw(seed: int, kind: JobKind = "keyed") -> Schedule:
    """The schedule of a seed, for one kind of job."""
    schedule = _draw_keyed(seed)
    return schedule if kind == "keyed" else _with_graph(schedule)


def _with_graph(schedule: Schedule) -> Schedule:
    """The same with a graph, which says itself where rows are in order.

    Its state is all in memory: joins have one unit and windows that never end, which must fit into a budget.
    """
    source = random.Random(f"{schedule.seed} with a graph")
    job = replace(
        schedule.job,
        kind="graph",
        sources=source.choice((1, 2)),
        placement=source.choice(PLACEMENTS),
        rows=source.choice((300, 600)),
        keys=source.choice((20, 60)),
        units=source.choice((4, 16)),
    )
    job = replace(job, memory=0, ballast=0, files=0, sink="files", ordered=False, order_by=False, windows=False)
    job = replace(job, pause_s=round(min(LONGEST_S, FLOW_S * AT_ONCE * job.partitions / job.rows), 3))
    faults = tuple(
        replace(fault, flowing=source.random() < 0.7) if fault.victim and not fault.point else fault
        for fault in schedule.faults
        if fault.point not in SPILL
    )
    return Schedule(schedule.seed, job, faults)


def _draw_keyed(seed: int) -> Schedule:
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
    aside = random.Random(
        f"{seed} {BY_STORE}"
    )  # a source of its own, so that the rest of the schedule does not depend on it
    if aside.random() < 0.25:
        job = replace(job, transfer="store")
        faults.append(_aimed(aside, aside.choice(BY_STORE)))
    job, faults = _wider(random.Random(f"{seed} wider"), job, faults)
    return Schedule(seed, job, tuple(faults))


def _wider(source: random.Random, job: Job, faults: list[Fault]) -> tuple[Job, list[Fault]]:
    """Further variations of the job, also from start to start, and further faults."""
    if source.random() < 0.5:
        job = replace(job, partitions=source.choice((2, 4, 8)), packs=_some(source, 0, 1, 1, 2, 4))
    if not job.executors and not job.memory and source.random() < 0.3:
        job = replace(job, crews=_some(source, 1, 2, 3, 4), cores=_some(source, 1, 2))
        if source.random() < 0.5:  # many partitions that wait for each other; after the kill, few partitions
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
        job = replace(job, workers=2)  # so that the remaining executor has a slot for tasks, too
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
    """Damage to a blob, and a kill of the driver: blobs are damaged while no driver runs."""
    bad = Fault(source.choice(DAMAGES), point=source.choice(BLOBS), share=round(source.random(), 6))
    return [bad, _timed(source, job, "kill", "driver", least=2)]


def _long_stop(source: random.Random, job: Job) -> list[Fault]:
    return [replace(_timed(source, job, "stop", "worker"), seconds=3 * STALL_S)]


def _rival(source: random.Random, job: Job) -> list[Fault]:
    """Another driver that tries to take the checkpoint."""
    return [_timed(source, job, "rival", "checkpoint")]


def _timed(source: random.Random, job: Job, kind: str, victim: str, least: int = 0) -> Fault:
    """A fault in some batch from `least` on, up to 0.8 s after the batch has begun."""
    return Fault(
        kind,
        victim,
        batch=source.randint(least, job.batches - 1),
        delay_s=round(source.uniform(0, 0.8), 3),
        worker=source.randrange(job.workers),
        seconds=10.0 if kind == "stop" else 0.0,
    )


def _aimed(source: random.Random, point: str) -> Fault:
    """A kill of the process that comes to a point of the code for the nth time."""
    victim = "driver" if point in COMMIT or source.random() < 0.25 else "worker"
    put = point in (*COMMIT, *BY_STORE, "units", "log")
    most = {"extract": 12, "install": 6, "snapshot": 6, "restore": 4, "move": 6, "spill": 20, "unspill": 20}.get(
        point, 3
    )
    return Fault("kill", victim, point, source.choice(MOMENTS) if put else "", nth=source.randint(1, most))


def _at_random(source: random.Random, job: Job) -> list[Fault]:
    return [_timed(source, job, "kill", source.choice(("worker", "worker", "feeder", "driver")))]


def _at(points: tuple[str, ...]) -> Draw:
    """A kill at one of these points."""
    return lambda source, job: [_aimed(source, source.choice(points))]


def _at_restore(source: random.Random, job: Job) -> list[Fault]:
    """A kill while state is restored, after another kill: otherwise there would be nothing to restore."""
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
    """A flipped bit in a segment, and a later kill: damage shows when the segment is read."""
    flip = Fault("flip", point="log", nth=source.randint(1, 4), share=round(source.random(), 6))
    return [flip, _timed(source, job, "kill", source.choice(("worker", "driver")), least=2)]


_DRAWS: tuple[Draw, ...] = (
    *(_at_random, _at(MOVE), _at(MOVE), _at(SAVE), _at(COMMIT)),
    *(_at_restore, _stop, _store, _store, _flip),
)
"""Some stand here twice: they are drawn twice as often."""
