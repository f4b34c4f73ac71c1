"""Which worker gets the next frame, compiled: the rules of `runtime/feeder/ordered/routes.py`."""

from __future__ import annotations

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.ordered.sizes import frame_size, settled
from evenflow.sim.ordered.state import ANYBODY, BLOCK, CREDITS, NOBODY, OrderedState

DEPTH = 2
"""Frames that a worker has at most under credits."""


@compiled_in_place
def pick(state: OrderedState, feeder: int) -> int:
    """The worker whose turn it is, by smooth weighted round-robin."""
    links = state.links
    best, total = 0, 0
    for worker in range(links.shape[1]):
        links[feeder, worker].credit += links[feeder, worker].weight
        total += links[feeder, worker].weight
        if links[feeder, worker].credit > links[feeder, best].credit:
            best = worker
    links[feeder, best].credit -= total
    return best


@compiled_in_place
def full(state: OrderedState, feeder: int, worker: int, rows: int) -> bool:
    """Whether a connection can take no frame of so many rows now; one that is empty always can."""
    costs, link = state.costs[0], state.links[feeder, worker]
    if costs.window > 0 and link.under_way >= costs.window:
        return True
    return 0 < costs.buffer < link.queued + rows and link.queued > 0


@compiled_in_place
def held(state: OrderedState, feeder: int) -> bool:
    """Whether the splitter has to wait whatever connections have room."""
    costs, splitters = state.costs[0], state.splitters
    unmerged = splitters[feeder].sequence - splitters[feeder].head
    if unmerged >= costs.ring or 0 < costs.reorder_rows <= splitters[feeder].held:
        return True
    if costs.splitting == CREDITS or costs.frame_rows > 0 or unmerged < state.links.shape[1]:
        return False
    return not settled(state, feeder)  # one frame each until it is known what a row costs


@compiled_in_place
def rows_for(state: OrderedState, feeder: int, worker: int) -> int:
    """Rows of the next frame, for `worker` or, if it is NOBODY, for any: what the source still has is the limit."""
    costs = state.costs[0]
    rows = costs.frame_rows
    if rows == 0:
        rows = min(costs.most_rows, frame_size(state, feeder, worker))
    if costs.rows > 0:
        rows = min(rows, costs.rows - state.splitters[feeder].row)
    return rows


@compiled_in_place
def next_worker(state: OrderedState, feeder: int) -> tuple[int, int]:
    """The worker that gets the next frame, and for whom the splitter waits if it is NOBODY."""
    splitters = state.splitters
    if held(state, feeder):
        return NOBODY, NOBODY
    if state.costs[0].splitting == CREDITS:
        place = splitters[feeder].earned_from
        if place == splitters[feeder].earned_to:
            return NOBODY, ANYBODY
        splitters[feeder].earned_from = place + 1
        return state.earned[feeder, place % state.earned.shape[1]], NOBODY
    rows = rows_for(state, feeder, NOBODY)
    if state.costs[0].splitting == BLOCK:
        if splitters[feeder].turn == NOBODY:
            splitters[feeder].turn = pick(state, feeder)
        turn = splitters[feeder].turn
        if full(state, feeder, turn, rows):
            return NOBODY, turn
        splitters[feeder].turn = NOBODY
        return turn, NOBODY
    return _rerouted(state, feeder, rows)


@compiled_in_place
def _rerouted(state: OrderedState, feeder: int, rows: int) -> tuple[int, int]:
    """The worker in turn or, if its connection is full, the next one that has room."""
    count = state.links.shape[1]
    room = False
    for worker in range(count):
        room = room or not full(state, feeder, worker, rows)
    if not room:
        return NOBODY, ANYBODY
    turn = pick(state, feeder)
    if full(state, feeder, turn, rows):
        state.splitters[feeder].rerouted += 1
        while full(state, feeder, turn, rows):
            turn = (turn + 1) % count
    return turn, NOBODY


@compiled_in_place
def earn(state: OrderedState, feeder: int, worker: int, credits: int) -> None:
    """Give a worker credits, behind those that others have earned."""
    splitters = state.splitters
    for _ in range(credits):
        place = splitters[feeder].earned_to
        state.earned[feeder, place % state.earned.shape[1]] = worker
        splitters[feeder].earned_to = place + 1


@compiled_in_place
def answered(state: OrderedState, feeder: int, worker: int) -> None:
    """A worker has answered a frame: its next credit, and one more after its first answer."""
    if state.costs[0].splitting == CREDITS:
        earn(state, feeder, worker, 1 + DEPTH - state.links[feeder, worker].depth)
        state.links[feeder, worker].depth = DEPTH
