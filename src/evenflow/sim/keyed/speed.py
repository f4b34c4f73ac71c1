"""How long work takes a worker whose speed changes and who shares its processor with another process; compiled."""

from __future__ import annotations

from math import inf

import numpy as np

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.records import Record, Records


@compiled_in_place
def finish(speeds: Records, me: Record, time: float, work: float) -> float:
    """When a worker that begins at `time` is through with so many seconds of work of a worker of speed 1."""
    last = len(speeds) - 1
    while me.speed_at < last and speeds[me.speed_at + 1].time <= time:
        me.speed_at += 1
    at = me.speed_at
    while True:
        now, end = speeds[at], speeds[at + 1].time if at < last else inf
        need, passed = work / now.speed, time - now.time
        if now.on == 0.0:
            ends, got = time + need, end - time
        else:
            had = _available(passed, now.on, now.free)
            rounds = np.floor((had + need) / now.free)
            rest = had + need - rounds * now.free
            ends = now.time + rounds * (now.on + now.free) + (now.on + rest if rest > 0.0 else 0.0)
            ends = max(time, ends)
            got = _available(end - now.time, now.on, now.free) - had if ends > end else inf
        if ends <= end:
            return ends
        work = max(0.0, work - got * now.speed)
        time, at = end, at + 1


@compiled_in_place
def _available(passed: float, on: float, free: float) -> float:
    """Seconds that were left by another process, which computes first, since it has begun."""
    rounds = np.floor(passed / (on + free))
    return rounds * free + max(0.0, passed - rounds * (on + free) - on)
