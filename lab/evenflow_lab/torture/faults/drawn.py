"""Faults, drawn from a source of random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from evenflow_lab.torture.schedule import (
    BLOBS,
    BY_STORE,
    COMMIT,
    COPIES,
    DAMAGES,
    MOMENTS,
    MOVE,
    RESTORE,
    SAVE,
    SINK,
    SPILL,
    STALL_S,
    Fault,
    Job,
)

Draw = Callable[[random.Random, Job], list[Fault]]
STEPS_S = (3600.0, 86_400.0, -2.0)
"""How far clocks step. A claim without a lock is void by the clock of who asks, so none steps back by more."""


def damage(source: random.Random, job: Job) -> list[Fault]:
    """Damage to a blob, and an end of the cluster: blobs are damaged while none is at work."""
    own = source.random() < 0.6
    point = source.choice(("claim", "claim", "claim", "list", "format") if own else BLOBS)
    if point == "format" and job.store != "disk":
        point = "claim"  # only on a disk is the format a file that can be damaged
    bad = Fault(source.choice((*DAMAGES, "alter") if own else DAMAGES), point=point, share=round(source.random(), 6))
    end = _end(source, job)
    if point != "claim":
        return [bad, end]
    return [bad, Fault("pause", "query", batch=end.batch), end]  # so that a claim counts what an earlier one has put


def _end(source: random.Random, job: Job, least: int = 2) -> Fault:
    """An end of the cluster: its driver is killed, or all queries are stopped, and both are started again."""
    if source.random() < 0.4:
        return timed(source, job, "kill", "driver", least)
    return timed(source, job, "pause", "query", least)


def older(source: random.Random, job: Job) -> list[Fault]:
    """An older copy of one of the checkpoints: a first end of the cluster to make it, a second to bring it back.

    Not with two queries: one could go on with the copy, while the other is refused, and then not with what is put back.
    """
    if job.queries > 1:
        return []
    first = replace(timed(source, job, "pause", "query"), batch=1)
    last = replace(_end(source, job), batch=source.randint(min(3, job.batches - 1), job.batches - 1))
    return [Fault("older", point=source.choice((*COPIES, "ours"))), first, last]


def rename(source: random.Random, job: Job) -> list[Fault]:
    """Another name for an operator that has state, when its query is started again."""
    return [
        Fault("rename", point="name", share=round(source.random(), 6)),
        timed(source, job, "pause", "query", least=1),
    ]


def blunder(source: random.Random, job: Job) -> list[Fault]:
    """Another query that is wrong."""
    return [replace(timed(source, job, "blunder", "query"), share=round(source.random(), 6))]


def exhaust(source: random.Random, job: Job) -> list[Fault]:
    """A process that may open nothing for a while."""
    victim = source.choice(("worker", "worker", "driver"))
    return [replace(timed(source, job, "exhaust", victim), seconds=round(source.uniform(0.3, 2.0), 3))]


def step(source: random.Random, job: Job) -> list[Fault]:
    """A wall clock that is set."""
    victim = source.choice(("worker", "driver"))
    return [replace(timed(source, job, "step", victim), seconds=source.choice(STEPS_S))]


def at_sink(source: random.Random, job: Job) -> list[Fault]:
    """A failure between two writes of a sink that keeps what it has: of the sink, or of the driver."""
    nth = source.randint(1, 2 * job.batches)
    if source.random() < 0.5:
        return [Fault("breaks", point=source.choice(SINK), nth=nth)]
    return [Fault("kill", "driver", source.choice(SINK), nth=nth)]


def long_stop(source: random.Random, job: Job) -> list[Fault]:
    """A worker that is stopped for longer than tasks wait for it."""
    return [replace(timed(source, job, "stop", "worker"), seconds=2 * STALL_S)]


def rival(source: random.Random, job: Job) -> list[Fault]:
    """Another driver that tries to take the checkpoint."""
    return [timed(source, job, "rival", "checkpoint")]


def timed(source: random.Random, job: Job, kind: str, victim: str, least: int = 0) -> Fault:
    """A fault in some batch from `least` on, up to 0.6 s after the batch has begun."""
    return Fault(
        kind,
        victim,
        batch=source.randint(least, job.batches - 1),
        delay_s=round(source.uniform(0, 0.6), 3),
        worker=source.randrange(job.workers),
        seconds=round(source.uniform(1, 5), 3) if kind == "stop" else 0.0,
    )


def aimed(source: random.Random, point: str) -> Fault:
    """A kill of the process that comes to a point of the code for the nth time."""
    victim = "driver" if point in COMMIT or source.random() < 0.25 else "worker"
    put = point in (*COMMIT, *BY_STORE, "units", "log")
    most = {"extract": 12, "install": 6, "snapshot": 6, "restore": 4, "move": 6, "spill": 20, "unspill": 20}.get(
        point, 3
    )
    return Fault("kill", victim, point, source.choice(MOMENTS) if put else "", nth=source.randint(1, most))


def _at_random(source: random.Random, job: Job) -> list[Fault]:
    return [timed(source, job, "kill", source.choice(("worker", "worker", "feeder", "driver")))]


def _at(points: tuple[str, ...]) -> Draw:
    """A kill at one of these points."""
    return lambda source, job: [aimed(source, source.choice(points))]


def _at_restore(source: random.Random, job: Job) -> list[Fault]:
    """A kill while state is restored, after another kill: otherwise there would be nothing to restore."""
    first = timed(source, job, "kill", source.choice(("worker", "driver")), least=2)
    return [first, aimed(source, source.choice(RESTORE))]


def at_spill(source: random.Random) -> Fault:
    """A full disk, or a kill, as state is spilled."""
    if source.random() < 0.4:
        return Fault("full", point="spill", nth=source.randint(1, 10), seconds=round(source.uniform(0.3, 2), 3))
    return aimed(source, source.choice(SPILL))


def _stop(source: random.Random, job: Job) -> list[Fault]:
    return [timed(source, job, "stop", "worker")]


def _store(source: random.Random, job: Job) -> list[Fault]:
    match source.choice(("slow", "fails", "full")):
        case "slow":
            return [Fault("slow", share=0.3, seconds=round(source.uniform(0.05, 0.3), 3))]
        case "fails":
            return [Fault("fails", share=round(source.uniform(0.05, 0.35), 3))]
        case _:
            point = source.choice(("units", "log", *COMMIT))
            return [Fault("full", point=point, nth=source.randint(1, 4), seconds=round(source.uniform(0.3, 2), 3))]


def _flip(source: random.Random, job: Job) -> list[Fault]:
    """A flipped bit in a segment, and a later kill: damage shows when the segment is read."""
    flip = Fault("flip", point="log", nth=source.randint(1, 4), share=round(source.random(), 6))
    return [flip, timed(source, job, "kill", source.choice(("worker", "driver")), least=2)]


COMMON: tuple[Draw, ...] = (
    *(_at_random, _at(MOVE), _at(MOVE), _at(SAVE), _at(COMMIT)),
    *(_at_restore, _stop, _store, _store, _flip),
)
"""Some stand here twice: they are drawn twice as often."""
