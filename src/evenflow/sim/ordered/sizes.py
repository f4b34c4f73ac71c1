"""Frame sizes as the live feeder learns them from its answers (`runtime/feeder/frame_size.py`), compiled."""

from __future__ import annotations

import numpy as np

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.ordered.state import OrderedState

FRAME_S, FRAMES_PER_S = 0.01, 1000
SHARED_FRAME_S, SHARED_FRAMES_PER_S = 0.005, 4000
GROWTH = 4
RAMP_S = 0.25
OVERHEAD = 0.2


@compiled_in_place
def learn(state: OrderedState, feeder: int, worker: int, rows: int, seconds: float) -> None:
    """Learn the cost of a row, and the overhead of a call, from a frame that was answered."""
    link, splitter = state.links[feeder, worker], state.splitters[feeder]
    before = link.last_rows
    if before > 0 and rows >= 2 * before:
        slope = (seconds - link.last_s) / (rows - before)
        overhead = np.float64(GROWTH * rows)
        if slope > 0.0:
            overhead = min(overhead, max(0.0, link.last_s / slope - before))
        splitter.overhead = overhead if splitter.overhead < 0.0 else (splitter.overhead + overhead) / 2
    cost = seconds / (rows + max(0.0, splitter.overhead))
    link.cost = cost if link.cost == np.inf else min(cost, (link.cost + cost) / 2)
    link.largest = max(link.largest, rows)
    link.least_s = min(seconds, link.least_s * 1.05)
    link.last_rows, link.last_s = rows, seconds


@compiled_in_place
def fit(state: OrderedState, feeder: int, worker: int, aim: float) -> np.int64:
    """Rows that take a worker `aim` seconds, or as much more as the overhead of a call needs."""
    link, overhead = state.links[feeder, worker], state.splitters[feeder].overhead
    cost = max(link.cost, 1e-9)
    if overhead < 0.0:
        if link.frames_done == 1 or link.last_s < RAMP_S:
            return link.largest * GROWTH
        return np.int64(aim / cost)
    call = min(overhead * cost, link.least_s)
    return np.int64(max(aim, call * (1 / OVERHEAD - 1)) / cost)


@compiled_in_place
def fastest(state: OrderedState, feeder: int) -> int:
    """The worker with the least known cost; -1 if none is known."""
    links = state.links
    best = -1
    for worker in range(links.shape[1]):
        cost = links[feeder, worker].cost
        if cost < np.inf and (best < 0 or cost < links[feeder, best].cost):
            best = worker
    return best


@compiled_in_place
def frame_size(state: OrderedState, feeder: int, worker: int) -> int:
    """Rows for the next frame: for `worker` alone or, if it is -1, of the one size for all workers."""
    count = state.links.shape[1]
    if worker < 0:
        known, aim = fastest(state, feeder), max(SHARED_FRAME_S, count / SHARED_FRAMES_PER_S)
    else:
        known, aim = worker, max(FRAME_S, count / FRAMES_PER_S)
    if known < 0 or state.links[feeder, known].cost == np.inf:
        return 1
    return max(1, min(fit(state, feeder, known, aim), state.links[feeder, known].largest * GROWTH))


@compiled_in_place
def settled(state: OrderedState, feeder: int) -> bool:
    """Whether frames of one size have grown to their full size."""
    known = fastest(state, feeder)
    if known < 0:
        return False
    aim = max(SHARED_FRAME_S, state.links.shape[1] / SHARED_FRAMES_PER_S)
    return min(fit(state, feeder, known, aim), state.costs[0].most_rows) <= state.links[feeder, known].largest * GROWTH
