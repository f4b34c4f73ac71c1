"""The data plane of a simulated graph, compiled: rows come, wait, are served and go on over links.

Every row is its birth alone. A host serves the row that came first, of those whose operator can go on: not one that is
about to move, and not one whose last rows wait for room. Room in a queue is reserved when a row is sent, so that what
is on a link always lands, and what waits for room waits for rows further down only, in the end for an endpoint.
"""

from __future__ import annotations

import numpy as np

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.draws import exponential, spread
from evenflow.sim.graphs.state import (
    ARRIVE,
    BLOCKED,
    FREE,
    GONE,
    LAND,
    LATENCY,
    LEAVING,
    NOW,
    OPEN,
    ORDER,
    SAID,
    SERVED,
    STAYS,
    WOKEN,
    GraphArrays,
)
from evenflow.sim.heap import next_time, pack, pop, push, unpack


@compiled_in_place
def advance(g: GraphArrays, until: float) -> float:
    """Go to `until`, or to where an operator is ready to leave; returns the time."""
    while True:
        while g.numbers[WOKEN] > 0:
            g.numbers[WOKEN] -= 1
            host = g.woken[g.numbers[WOKEN]]
            g.awake[host] = False
            if g.serving[host] < 0:
                _serve(g, host)
        if g.numbers[SAID] > 0:
            return g.times[NOW]
        if next_time(g.heap) > until:
            g.times[NOW] = until
            return until
        time, what = pop(g.heap)
        g.times[NOW] = time
        kind, one, other = unpack(what)
        if kind == SERVED:
            _served(g, one)
        elif kind == LAND:
            _land(g, one, other)
        elif kind == ARRIVE:
            g.arrived[one] += 1
            _enter(g, one)
            if g.loses and g.next_s[1, one] <= time:
                g.lost[one] += 1
                _next_arrival(g, 1, one)
            _next_arrival(g, 0, one)
            push(g.heap, g.next_s[0, one], 1, pack(ARRIVE, one, 0))
        else:
            g.coefficient[int(g.changes[one, 0])] = g.changes[one, 1]


# -- hosts


@compiled_in_place
def _wake(g: GraphArrays, host: int) -> None:
    """A host may have something to do."""
    if not g.awake[host]:
        g.awake[host] = True
        g.woken[g.numbers[WOKEN]] = host
        g.numbers[WOKEN] += 1


@compiled_in_place
def _serve(g: GraphArrays, host: int) -> None:
    """Begin with the row that came first."""
    best, port = np.int64(1) << 62, -1
    for place in range(g.member_count[host]):
        operator = g.members[host, place]
        if g.status[operator] != STAYS or g.ready_count[operator] > 0:
            continue
        for each in range(2 * operator, 2 * operator + 2):
            if g.waiting[each] > 0 and g.queue_orders[each, g.head[each]] < best:
                best, port = g.queue_orders[each, g.head[each]], each
    if port < 0:
        return
    at, now = g.head[port], g.times[NOW]
    g.serving[host], g.serving_birth[host], g.began[host] = port, g.queue_births[port, at], now
    g.head[port] = (at + 1) % g.queue_births.shape[1]
    g.waiting[port] -= 1
    g.reserved[port] -= 1
    push(g.heap, now + g.coefficient[host] * g.cost_s[port >> 1], 2, pack(SERVED, host, 0))
    sender = g.reads[port]
    if sender < 0:
        _enter(g, -1 - sender)
    elif g.ready_count[sender] > 0:
        flush(g, sender)


@compiled_in_place
def _served(g: GraphArrays, host: int) -> None:
    """A row has been served: what it gives is ready."""
    port, birth = g.serving[host], g.serving_birth[host]
    operator = port >> 1
    seconds = g.times[NOW] - g.began[host]
    g.serving[host] = -1
    g.host_busy[host] += seconds
    g.busy[operator] += seconds
    g.taken[operator] += 1
    size = g.window[operator]
    if size == 0:
        _give(g, operator, birth)
    else:
        other = port ^ 1
        for place in range(g.window_count[other]):
            _give(g, operator, max(birth, g.window_births[other, place]))
        g.window_births[port, g.window_next[port]] = birth
        g.window_next[port] = (g.window_next[port] + 1) % size
        g.window_count[port] = min(size, g.window_count[port] + 1)
    if g.ready_count[operator] > 0:
        g.numbers[BLOCKED] += 1
        flush(g, operator)
    _leave_if_ready(g, operator)
    _wake(g, host)


@compiled_in_place
def _give(g: GraphArrays, operator: int, birth: float) -> None:
    """A row, or a pair of rows, is let through whenever the selectivities so far have grown by one more."""
    g.credit[operator] += g.selectivity[operator]
    while g.credit[operator] >= 1.0:
        g.credit[operator] -= 1.0
        at = (g.ready_head[operator] + g.ready_count[operator]) % g.ready.shape[1]
        g.ready[operator, at] = birth
        g.ready_count[operator] += 1
        g.given[operator] += 1


# -- rows that go on


@compiled_in_place
def flush(g: GraphArrays, operator: int) -> None:
    """Send what is ready, as long as there is room at all readers."""
    source = len(g.high) + operator
    first, last, host = g.firsts[source], g.firsts[source + 1], g.host_of[operator]
    while g.ready_count[operator] > 0 and _room(g, first, last, host):
        birth = g.ready[operator, g.ready_head[operator]]
        g.ready_head[operator] = (g.ready_head[operator] + 1) % g.ready.shape[1]
        g.ready_count[operator] -= 1
        _send(g, operator, first, last, host, birth)
        if g.endpoint[operator]:
            late = g.times[NOW] - birth
            g.results[np.searchsorted(g.bucket_ends, late, side="right")] += 1
            g.times[LATENCY] += late
    if g.ready_count[operator] == 0:
        g.numbers[BLOCKED] -= 1
        _leave_if_ready(g, operator)
        _wake(g, host)


@compiled_in_place
def _room(g: GraphArrays, first: int, last: int, sender: int) -> bool:
    """Whether a row can go to all readers: queues and links have room, and it is not held back."""
    for edge in range(first, last):
        port = g.edges[edge]
        if g.reserved[port] >= g.queue_births.shape[1] or g.paused[port >> 1, sender]:
            return False
        host = g.host_of[port >> 1]
        feeds = sender == len(g.serving)
        if not feeds and host != sender and g.on_link[sender, host] >= g.link_rows[sender, host]:
            return False
    return True


@compiled_in_place
def _send(g: GraphArrays, operator: int, first: int, last: int, host: int, birth: float) -> None:
    """Put a row into queues of this host, and once on the link to each other host that has readers."""
    done = np.int64(0)
    for edge in range(first, last):
        port = g.edges[edge]
        there = g.host_of[port >> 1]
        g.reserved[port] += 1
        if there == host:
            _queue(g, port, birth)
        elif not (done >> (edge - first)) & 1:
            mask = np.int64(0)
            for other in range(edge, last):
                if g.host_of[g.edges[other] >> 1] == there:
                    mask |= np.int64(1) << (other - first)
            done |= mask
            _fly(g, operator, host, there, mask, birth)


@compiled_in_place
def _fly(g: GraphArrays, operator: int, host: int, there: int, mask: int, birth: float) -> None:
    g.numbers[FREE] -= 1
    flight = g.flight_free[g.numbers[FREE]]
    g.flight_op[flight], g.flight_from[flight] = operator, host
    g.flight_birth[flight], g.flight_mask[flight] = birth, mask
    g.on_link[host, there] += 1
    g.sent[host, there] += 1
    g.flying[operator] += 1
    push(g.heap, g.times[NOW] + g.delay_s[host, there], 0, pack(LAND, there, flight))


@compiled_in_place
def _land(g: GraphArrays, host: int, flight: int) -> None:
    """A row is at the end of a link; those that waited for room on it may go."""
    operator, sender, mask = g.flight_op[flight], g.flight_from[flight], g.flight_mask[flight]
    g.flight_free[g.numbers[FREE]] = flight
    g.numbers[FREE] += 1
    g.on_link[sender, host] -= 1
    g.flying[operator] -= 1
    first = g.firsts[len(g.high) + operator]
    edge = first
    while mask:
        if mask & 1:
            _queue(g, g.edges[edge], g.flight_birth[flight])
        mask >>= 1
        edge += 1
    if g.numbers[BLOCKED] > 0 and g.on_link[sender, host] == g.link_rows[sender, host] - 1:
        for place in range(g.member_count[sender]):
            if g.ready_count[g.members[sender, place]] > 0:
                flush(g, g.members[sender, place])
    _leave_if_ready(g, operator)


@compiled_in_place
def _queue(g: GraphArrays, port: int, birth: float) -> None:
    """A row comes to a queue; its place there is reserved already."""
    at = (g.head[port] + g.waiting[port]) % g.queue_births.shape[1]
    g.queue_births[port, at], g.queue_orders[port, at] = birth, g.numbers[ORDER]
    g.numbers[ORDER] += 1
    g.waiting[port] += 1
    _wake(g, g.host_of[port >> 1])


# -- sources


@compiled_in_place
def open_sources(g: GraphArrays) -> None:
    """Rows may come from now on."""
    g.numbers[OPEN] = 1
    for source in range(len(g.high)):
        for copy in range(2):
            if g.next_s[copy, source] < 0:
                g.next_s[copy, source] = 0.0
                _next_arrival(g, copy, source)
        push(g.heap, max(g.times[NOW], g.next_s[0, source]), 1, pack(ARRIVE, source, 0))


@compiled_in_place
def _enter(g: GraphArrays, source: int) -> None:
    """Let in the rows that have arrived, as long as there is room."""
    first, last, feeder = g.firsts[source], g.firsts[source + 1], len(g.serving)
    while g.next_s[1, source] <= g.times[NOW] and _room(g, first, last, feeder):
        birth = g.next_s[1, source]
        for edge in range(first, last):
            g.reserved[g.edges[edge]] += 1
            _queue(g, g.edges[edge], birth)
        g.entered[source] += 1
        _next_arrival(g, 1, source)


@compiled_in_place
def _next_arrival(g: GraphArrays, copy: int, source: int) -> None:
    """When the next row comes."""
    if g.low[source] == g.high[source]:
        g.next_s[copy, source] += 1 / g.high[source]
        return
    state = g.random[copy, source : source + 1]
    time = g.next_s[copy, source]
    while True:
        rate = g.low[source] if g.is_low[copy, source] else g.high[source]
        time += exponential(state) / rate
        end = g.phase_end[copy, source]
        if time < end:
            break
        time = end
        g.is_low[copy, source] = not g.is_low[copy, source]
        lasts = spread(state, g.phase_s[source], g.deviation_s[source])
        g.phase_end[copy, source] = end + max(g.phase_s[source] / 10, lasts)
    g.next_s[copy, source] = time


# -- operators that move


@compiled_in_place
def place(g: GraphArrays, operator: int, host: int) -> None:
    """Put an operator on a host, with the rows that wait for it."""
    before = g.host_of[operator]
    if before >= 0:
        for at in range(g.member_count[before]):
            if g.members[before, at] == operator:
                g.member_count[before] -= 1
                g.members[before, at] = g.members[before, g.member_count[before]]
                break
    g.host_of[operator], g.status[operator] = host, STAYS
    g.members[host, g.member_count[host]] = operator
    g.member_count[host] += 1
    g.taken[operator], g.given[operator], g.busy[operator] = 0, 0, 0.0
    _wake(g, host)


@compiled_in_place
def leave(g: GraphArrays, operator: int) -> None:
    """An operator is to leave: it takes no row any more, and is ready when all that it gave is where it goes."""
    g.status[operator] = LEAVING
    _leave_if_ready(g, operator)


@compiled_in_place
def _leave_if_ready(g: GraphArrays, operator: int) -> None:
    if g.status[operator] != LEAVING or g.ready_count[operator] > 0 or g.flying[operator] > 0:
        return
    port = g.serving[g.host_of[operator]]
    if port >= 0 and port >> 1 == operator:
        return
    g.status[operator] = GONE
    g.said[g.numbers[SAID]] = operator
    g.numbers[SAID] += 1


@compiled_in_place
def resume(g: GraphArrays, operator: int, sender: int) -> None:
    """A sender no longer holds back rows for an operator."""
    g.paused[operator, sender] = False
    for port in range(2 * operator, 2 * operator + 2):
        reads = g.reads[port]
        if reads >= 0:
            if g.ready_count[reads] > 0:
                flush(g, reads)
        elif -1 - reads < len(g.high) and g.numbers[OPEN]:
            _enter(g, -1 - reads)
