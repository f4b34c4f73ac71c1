"""The compiled data plane of an ordered region: splitters, workers on their hosts, and mergers, event by event.

A splitter is one thread: it sends one frame after the other, and waits for the connection in turn, so that drafting
(ordered-regions §4.2) happens by itself. A worker takes the frames of its connections in the order in which they came.
Its results go to the merger of their feeder, which hands them on in the order of the frames; what it does not read
waits on the connection, and a worker whose connection can take no more stalls.
"""

from __future__ import annotations

import numpy as np

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.draws import draw
from evenflow.sim.heap import next_time, pack, pop, push, unpack
from evenflow.sim.ordered.routes import answered, next_worker, rows_for
from evenflow.sim.ordered.sizes import learn
from evenflow.sim.ordered.state import CREDITS, NOBODY, OrderedState

SENT, ARRIVED, DONE, ANSWERED, ROWS_CAME = 0, 1, 2, 3, 4
"""Kinds of events."""


@compiled_in_place
def advance(state: OrderedState, until: float) -> float:
    """Do all that happens up to and at `until`; stops when a feeder has finished. Returns the time reached."""
    while True:
        now, host = next_time(state.heap), NOBODY
        for each in state.sharing:
            if state.hosts[each].due < now:
                now, host = state.hosts[each].due, each
        if now > until:
            return until
        if host != NOBODY:
            complete(state, _first_through(state, host), now)
        else:
            _, what = pop(state.heap)
            kind, one, other = unpack(what)
            if kind == SENT:
                sent(state, one, other, now)
            elif kind == ARRIVED:
                arrived(state, one, now)
            elif kind == DONE:
                complete(state, one, now)
            elif kind == ANSWERED:
                result_came(state, one, now)
            else:
                state.splitters[one].sending = False
                state.splitters[one].woken = True
        if split_all(state, now):
            return now


@compiled_in_place
def split_all(state: OrderedState, now: float) -> bool:
    """Let all splitters go on that may have waited for what has happened; whether one has finished."""
    splitters = state.splitters
    finished = False
    for feeder in range(len(splitters)):
        if splitters[feeder].woken:
            splitters[feeder].woken = False
            split(state, feeder, now)
            finished = finished or splitters[feeder].finished == now
    return finished


# -- splitters


@compiled_in_place
def wait_for(state: OrderedState, feeder: int, worker: int, now: float) -> None:
    """From now on a splitter waits for a worker's connection, or for nobody; charge the wait until now."""
    splitters = state.splitters
    before = splitters[feeder].waits
    if before >= 0:
        state.links[feeder, before].blocked_s += now - splitters[feeder].since
    splitters[feeder].waits, splitters[feeder].since = worker, now


@compiled_in_place
def split(state: OrderedState, feeder: int, now: float) -> None:
    """Begin to send the next frame, if there is one and somebody has room for it."""
    costs, splitters = state.costs[0], state.splitters
    if splitters[feeder].sending or not splitters[feeder].joined:
        return
    row = splitters[feeder].row
    if 0 < costs.rows <= row:
        wait_for(state, feeder, NOBODY, now)
        if splitters[feeder].head == splitters[feeder].sequence and splitters[feeder].finished == np.inf:
            splitters[feeder].finished = now
        return
    if costs.rate > 0.0 and splitters[feeder].turn == NOBODY:
        come = (row + rows_for(state, feeder, NOBODY)) / costs.rate
        if come > now:
            wait_for(state, feeder, NOBODY, now)
            splitters[feeder].sending = True  # nothing else may wake it
            push(state.heap, come, 0, pack(ROWS_CAME, feeder, 0))
            return
    worker, waits = next_worker(state, feeder)
    wait_for(state, feeder, waits, now)
    if worker == NOBODY:
        return
    rows = rows_for(state, feeder, worker if costs.splitting == CREDITS else NOBODY)
    place = feeder * costs.ring + splitters[feeder].sequence % costs.ring
    frames, links = state.frames, state.links
    frames[place].owner, frames[place].rows, frames[place].first = worker, rows, row
    frames[place].read = False
    splitters[feeder].sequence += 1
    splitters[feeder].row += rows
    splitters[feeder].sending = True
    count_under_way(state, feeder, worker, now)
    links[feeder, worker].under_way += 1
    links[feeder, worker].queued += rows
    links[feeder, worker].rows_sent += rows
    links[feeder, worker].frames_sent += 1
    push(state.heap, now + costs.send_s + rows * costs.send_row_s, 0, pack(SENT, feeder, place))


@compiled_in_place
def count_under_way(state: OrderedState, feeder: int, worker: int, now: float) -> None:
    """Count the time of the frames under way, up to now."""
    links = state.links
    links[feeder, worker].under_way_s += links[feeder, worker].under_way * (now - links[feeder, worker].counted)
    links[feeder, worker].counted = now


@compiled_in_place
def wake(state: OrderedState, feeder: int, worker: int) -> None:
    """A connection may have got room, or the merger: let the splitter look, unless it waits for another connection."""
    waits = state.splitters[feeder].waits
    if waits == worker or waits < 0:
        state.splitters[feeder].woken = True


@compiled_in_place
def sent(state: OrderedState, feeder: int, place: int, now: float) -> None:
    """A splitter is through with sending a frame."""
    state.splitters[feeder].sending = False
    state.splitters[feeder].woken = True
    if state.costs[0].delay_s > 0.0:
        push(state.heap, now + state.costs[0].delay_s, 0, pack(ARRIVED, place, 0))
    else:
        arrived(state, place, now)


# -- workers


@compiled_in_place
def arrived(state: OrderedState, place: int, now: float) -> None:
    """A frame has come to its worker."""
    servers, frames = state.servers, state.frames
    worker = frames[place].owner
    frames[place].after = NOBODY
    if servers[worker].last == NOBODY:
        servers[worker].first = place
    else:
        frames[servers[worker].last].after = place
    servers[worker].last = place
    begin(state, worker, now)


@compiled_in_place
def slowdown(state: OrderedState, worker: int, row: int, now: float, whole: float) -> float:
    """How many times as long a row, or else the whole frame, takes on a worker now, because of load of that kind."""
    factor = 1.0
    for place in range(state.servers[worker].load_from, state.servers[worker].load_to):
        load = state.loads[place]
        if load.whole == whole and load.begin_s <= now < load.end_s and (load.end_row == 0 or row < load.end_row):
            factor *= load.factor
    return factor


@compiled_in_place
def begin(state: OrderedState, worker: int, now: float) -> None:
    """Let a worker begin with the next frame of its queue, if it is idle and there is one."""
    costs, servers, frames, hosts = state.costs[0], state.servers, state.frames, state.hosts
    place = servers[worker].first
    if place == NOBODY or servers[worker].at != NOBODY or servers[worker].stalled != NOBODY:
        return
    servers[worker].first = frames[place].after
    if servers[worker].first == NOBODY:
        servers[worker].last = NOBODY
    rows, feeder = frames[place].rows, place // costs.ring
    state.links[feeder, worker].queued -= rows
    if costs.buffer > 0:
        wake(state, feeder, worker)
    row_s = costs.row_s * slowdown(state, worker, frames[place].first, now, False) + costs.row_overhead_s
    work = (costs.call_s + rows * row_s) / servers[worker].speed
    work *= slowdown(state, worker, frames[place].first, now, True)
    work *= 1.0 + costs.jitter * (2.0 * draw(state.random) - 1.0)
    servers[worker].at, servers[worker].began = place, now
    host = servers[worker].host
    if not hosts[host].shared:
        push(state.heap, now + work, 0, pack(DONE, worker, 0))
        return
    count_host(state, host, now)
    hosts[host].busy += 1
    servers[worker].ends = hosts[host].time + work
    set_due(state, host)


@compiled_in_place
def count_host(state: OrderedState, host: int, now: float) -> None:
    """Let the time of a host go on to now, as fast as its busy workers get threads."""
    hosts = state.hosts
    share = min(1.0, hosts[host].threads / max(1, hosts[host].busy))
    hosts[host].time += share * (now - hosts[host].counted)
    hosts[host].counted = now


@compiled_in_place
def _first_through(state: OrderedState, host: int) -> int:
    """The worker of a host that is through with its frame first; NOBODY if all are idle."""
    hosts, servers = state.hosts, state.servers
    best = NOBODY
    for place in range(hosts[host].first, hosts[host].last):
        worker = state.members[place]
        if servers[worker].at != NOBODY and (best == NOBODY or servers[worker].ends < servers[best].ends):
            best = worker
    return best


@compiled_in_place
def set_due(state: OrderedState, host: int) -> None:
    """Set when the next worker of a host is through."""
    hosts = state.hosts
    worker: int = _first_through(state, host)
    if worker == NOBODY:
        hosts[host].due = np.inf
        return
    share = min(1.0, hosts[host].threads / hosts[host].busy)
    left = max(0.0, state.servers[worker].ends - hosts[host].time)
    hosts[host].due = hosts[host].counted + left / share


@compiled_in_place
def complete(state: OrderedState, worker: int, now: float) -> None:
    """A worker is through with its frame."""
    costs, servers, hosts = state.costs[0], state.servers, state.hosts
    place, host = servers[worker].at, servers[worker].host
    state.frames[place].took = now - servers[worker].began
    servers[worker].at = NOBODY
    if hosts[host].shared:
        count_host(state, host, now)
        hosts[host].busy -= 1
        set_due(state, host)
    servers[worker].stalled = place
    give_result(state, worker, now)
    if costs.delay_s == 0.0:
        merge(state, place // costs.ring, now)
    begin(state, worker, now)


# -- mergers


@compiled_in_place
def give_result(state: OrderedState, worker: int, now: float) -> None:
    """Put the result that a worker has at hand on its connection, if that can take it."""
    servers, links, frames, costs = state.servers, state.links, state.frames, state.costs[0]
    place = servers[worker].stalled
    feeder, rows = place // costs.ring, frames[place].rows
    waiting = links[feeder, worker].results
    if waiting > 0 and waiting + rows > costs.result_buffer:
        return
    servers[worker].stalled = NOBODY
    links[feeder, worker].results += rows
    if costs.delay_s > 0.0:
        push(state.heap, now + costs.delay_s, 0, pack(ANSWERED, place, 0))
    else:
        queue_result(state, place)


@compiled_in_place
def queue_result(state: OrderedState, place: int) -> None:
    """A result is where the merger can read it."""
    links, frames = state.links, state.frames
    feeder, worker = place // state.costs[0].ring, frames[place].owner
    frames[place].after = NOBODY
    if links[feeder, worker].last_result == NOBODY:
        links[feeder, worker].first_result = place
    else:
        frames[links[feeder, worker].last_result].after = place
    links[feeder, worker].last_result = place
    state.splitters[feeder].unread += 1


@compiled_in_place
def result_came(state: OrderedState, place: int, now: float) -> None:
    """A result reaches its feeder's merger, which then hands on all results whose turn it is."""
    queue_result(state, place)
    merge(state, place // state.costs[0].ring, now)


@compiled_in_place
def merge(state: OrderedState, feeder: int, now: float) -> None:
    """Read results, and hand on those whose turn it is."""
    costs, splitters, frames = state.costs[0], state.splitters, state.frames
    workers = state.links.shape[1]
    worker = 0
    while True:
        while splitters[feeder].head < splitters[feeder].sequence:
            place = feeder * costs.ring + splitters[feeder].head % costs.ring
            owner = frames[place].owner
            if not frames[place].read:
                if state.links[feeder, owner].first_result != place:
                    break
                read(state, feeder, owner, now)
            splitters[feeder].held -= frames[place].rows
            splitters[feeder].rows_out += frames[place].rows
            splitters[feeder].head += 1
            wake(state, feeder, owner)
        while worker < workers and state.links[feeder, worker].first_result == NOBODY:
            worker += 1
        if splitters[feeder].unread == 0 or worker == workers or splitters[feeder].held >= costs.reorder_rows:
            return
        read(state, feeder, worker, now)


@compiled_in_place
def read(state: OrderedState, feeder: int, worker: int, now: float) -> None:
    """Read the next result of a connection into the merger."""
    links, frames, servers, splitters = state.links, state.frames, state.servers, state.splitters
    place = links[feeder, worker].first_result
    links[feeder, worker].first_result = frames[place].after
    if frames[place].after == NOBODY:
        links[feeder, worker].last_result = NOBODY
    rows, seconds = frames[place].rows, frames[place].took
    frames[place].read = True
    splitters[feeder].unread -= 1
    splitters[feeder].held += rows
    count_under_way(state, feeder, worker, now)
    links[feeder, worker].under_way -= 1
    links[feeder, worker].results -= rows
    links[feeder, worker].rows_done += rows
    links[feeder, worker].frames_done += 1
    links[feeder, worker].busy_s += seconds
    learn(state, feeder, worker, rows, seconds)
    answered(state, feeder, worker)
    wake(state, feeder, worker)
    stalled = servers[worker].stalled
    if stalled != NOBODY and stalled // state.costs[0].ring == feeder:
        give_result(state, worker, now)
        begin(state, worker, now)
