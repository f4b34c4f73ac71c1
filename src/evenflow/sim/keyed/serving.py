"""Workers, compiled: packets are served in turn, rows of units on disk wait, markers are counted; and all events."""

from __future__ import annotations

from math import inf

import numpy as np

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.draws import spread
from evenflow.sim.heap import next_time, pack, pop, push, unpack
from evenflow.sim.keyed.arrays import CATCHING_UP, IDLE, SERVING, STALLED, PlaneArrays
from evenflow.sim.keyed.connections import ARRIVE, CAUGHT_UP, FINISHED, MARK, STALL_OVER, WAKE, wake
from evenflow.sim.keyed.feeding import owe, refill, send_on
from evenflow.sim.keyed.speed import finish
from evenflow.sim.records import Record, Records

NOTHING, QUIET, FREE = 0, 1, 2
"""What the plane is told of: nothing; the markers of a worker's movement are all there; a worker that wants to use its
disk, or has used it, serves nothing now."""


@compiled_in_place
def run(plane: PlaneArrays, until: float) -> tuple[float, int, int]:
    """All events up to `until`, or up to one that the plane is to be told of: time, what, and of which worker."""
    heap = plane.heap
    while next_time(heap) <= until:
        now, what = pop(heap)
        kind, one, other = unpack(what)
        told = NOTHING
        if kind == FINISHED:
            told = _finished(plane, one, now)
        elif kind == WAKE:
            me = plane.workers[one]
            if me.wake <= now:
                me.wake = inf
            if me.state == IDLE:
                serve(plane, one, now)
        elif kind == MARK:
            told = _marked(plane, one, other)
        elif kind == ARRIVE:
            plane.feeders[one].expects = 0
            refill(plane, one, now)
        elif kind == STALL_OVER:
            _switch(plane.workers[one], IDLE, now)
            told = FREE
        elif kind == CAUGHT_UP:
            _caught_up(plane, one, now)
            told = FREE
        if told != NOTHING:
            return now, told, one
    return until, NOTHING, 0


@compiled_in_place
def _switch(me: Record, state: Records, now: float) -> None:
    owe(me, now)
    if me.state == IDLE:
        worked = min(me.debt, now - me.since)
        me.debt -= worked
        me.busy += worked
        me.idle += now - me.since - worked
    else:
        me.busy += now - me.since
    me.since = now
    me.state = state


@compiled_in_place
def account(workers: Records, now: float) -> None:
    """Count the time of all workers' present states up to now."""
    for worker in range(len(workers)):
        _switch(workers[worker], workers[worker].state, now)


@compiled_in_place
def charge(workers: Records, worker: int, seconds: float, now: float) -> None:
    """A worker takes out or installs units from now on, or as soon as it is through with its rows."""
    _switch(workers[worker], workers[worker].state, now)
    workers[worker].debt += seconds


@compiled_in_place
def serve(plane: PlaneArrays, worker: int, now: float) -> None:
    """Take the next packet, by turns of feeders, of those that are there; or wait for one."""
    me, feeders = plane.workers[worker], plane.fixed[0].feeders
    soonest = inf
    feeder = me.turn
    for _ in range(feeders):
        following = feeder + 1 if feeder + 1 < feeders else 0
        line = plane.lines[worker, feeder]
        if line.used > 0:
            ready = plane.packets[worker, feeder, line.first].ready
            if ready <= now:
                me.turn = following
                _take(plane, worker, feeder, now)
                return
            soonest = min(soonest, ready)
        feeder = following
    if me.state != IDLE:
        _switch(me, IDLE, now)
    if soonest < inf:
        wake(me, plane.heap, worker, soonest)


@compiled_in_place
def _take(plane: PlaneArrays, worker: int, feeder: int, now: float) -> None:
    """Serve a packet: rows of units in memory take their time, the others wait for their unit."""
    fixed, me, line = plane.fixed[0], plane.workers[worker], plane.lines[worker, feeder]
    packet, rows = plane.packets[worker, feeder, line.first], plane.packet_rows[worker, feeder, line.first]
    served = 0
    for at in range(packet.count):
        if plane.units[rows[at].unit].away:
            _spool(plane, worker, feeder, rows[at], now)
        else:
            row = plane.in_service[worker, served]
            row.unit, row.born = rows[at].unit, rows[at].born
            served += 1
    me.taken += packet.count
    me.count, me.source, me.opened, me.began = served, feeder, packet.opened, now
    line.first = (line.first + 1) % fixed.packets
    line.used -= 1
    if me.state != SERVING:
        _switch(me, SERVING, now)
    me.ends = finish(plane.speeds[worker], me, now + me.io, _work(plane, worker, served))
    me.io = 0.0
    push(plane.heap, me.ends, 0, pack(FINISHED, worker, 0))
    send_on(plane, feeder, worker, now)


@compiled_in_place
def _work(plane: PlaneArrays, worker: int, rows: int) -> float:
    """Seconds that a worker of speed 1 needs for so many rows, and for what it owes, or the share of that for now."""
    fixed, me = plane.fixed[0], plane.workers[worker]
    work = rows * fixed.row_s
    due = me.debt if fixed.share >= 1.0 else min(me.debt, work * fixed.share / (1.0 - fixed.share))
    work += due + me.owed
    me.debt -= due
    me.owed = 0.0
    if fixed.jitter_s > 0.0 and rows > 0:
        work += spread(plane.draws[fixed.feeders + worker], 0.0, fixed.jitter_s * np.sqrt(rows))
    return max(work, 0.0)


@compiled_in_place
def _spool(plane: PlaneArrays, worker: int, feeder: int, row: Record, now: float) -> None:
    """A row waits for its unit; a piece of such rows that is long enough is written to disk at once."""
    fixed, unit = plane.fixed[0], plane.units[row.unit]
    before = unit.waiting * fixed.row_bytes // fixed.spool
    plane.pending[row.unit, feeder] += 1
    unit.waiting += 1
    unit.entered += now
    unit.born += row.born
    if unit.waiting * fixed.row_bytes // fixed.spool > before:
        plane.workers[worker].io += fixed.seek_s + fixed.spool / fixed.disk


@compiled_in_place
def _finished(plane: PlaneArrays, worker: int, now: float) -> int:
    """A packet is served: count it, and take the next one."""
    me = plane.workers[worker]
    feeder, rows = me.source, me.count
    line, fed = plane.lines[worker, feeder], plane.feeders[feeder]
    in_service, served, latencies = plane.in_service[worker], plane.served[worker], plane.feeder_latencies[feeder]
    for at in range(rows):
        served[in_service[at].unit] += 1
        size = plane.units[in_service[at].unit].size + plane.fixed[0].growth
        plane.units[in_service[at].unit].size = min(size, plane.fixed[0].most)
        took = now - in_service[at].born
        latencies[bucket_of(plane.edges, took)] += 1
        fed.latency_s += took
    took = now - me.opened
    plane.line_latencies[worker, feeder, bucket_of(plane.edges, took)] += rows
    line.latency_s += took * rows
    line.rows += rows
    line.frames += 1
    line.busy += now - me.began
    line.done += 1
    fed.answered += rows
    me.rows += rows
    me.count = 0
    plane.total[0].served += rows
    plane.total[0].latency_s += (now - me.began) * (rows + 1) / 2
    told = _marked(plane, worker, feeder) if line.marker > 0 else NOTHING
    if me.wants_disk:
        _switch(me, IDLE, now)
        return FREE if told == NOTHING else told
    serve(plane, worker, now)
    return told


@compiled_in_place
def bucket_of(edges: Records, took: float) -> int:
    """The bucket of a latency; as `model.latency.bucket_of`, without a logarithm."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) >> 1
        if took < edges[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_in_place
def _marked(plane: PlaneArrays, worker: int, feeder: int) -> int:
    """The marker of a feeder has come to the source of a movement, if that is not busy with its disk."""
    me, line = plane.workers[worker], plane.lines[worker, feeder]
    move = line.marker
    if move == 0 or line.done < line.behind:
        return NOTHING
    if me.state == STALLED:
        push(plane.heap, me.ends, 1, pack(MARK, worker, feeder))
        return NOTHING
    line.marker = 0
    if me.move > move:  # of a movement that was taken back
        return NOTHING
    if me.move < move:
        me.move, me.marks, me.wanted = move, 0, 0
    me.marks += 1
    return QUIET if me.marks == me.wanted else NOTHING


@compiled_in_place
def drain(plane: PlaneArrays, worker: int, now: float) -> bool:
    """Take all packets that are there without serving their rows, which wait for their units instead (flux §6.1).

    So the markers behind them come through while the worker is busy with its disk; whether they are complete now.
    """
    told = NOTHING
    for feeder in range(plane.fixed[0].feeders):
        line = plane.lines[worker, feeder]
        while line.used > 0 and plane.packets[worker, feeder, line.first].ready <= now:
            packet, rows = plane.packets[worker, feeder, line.first], plane.packet_rows[worker, feeder, line.first]
            for at in range(packet.count):
                _spool(plane, worker, feeder, rows[at], now)
            plane.workers[worker].taken += packet.count
            line.first = (line.first + 1) % plane.fixed[0].packets
            line.used -= 1
            line.done += 1
        if line.marker > 0:
            told = max(told, _marked(plane, worker, feeder))
        send_on(plane, feeder, worker, now)
    return told == QUIET


@compiled_in_place
def want(workers: Records, worker: int, move: int, markers: int) -> bool:
    """The source of a movement hears how many markers there will be; whether all of them are there already."""
    me = workers[worker]
    if me.move != move:
        me.move, me.marks = move, 0
    me.wanted = markers
    return me.marks >= markers


@compiled_in_place
def stall(plane: PlaneArrays, worker: int, now: float, seconds: float) -> None:
    """A worker without a packet reads or writes its disk, and does nothing else."""
    me = plane.workers[worker]
    _switch(me, STALLED, now)
    me.ends = now + seconds
    push(plane.heap, me.ends, 0, pack(STALL_OVER, worker, 0))


@compiled_in_place
def catch_up(plane: PlaneArrays, worker: int, unit: int, now: float) -> None:
    """A worker without a packet serves all rows that waited for a unit, whose state is in memory now."""
    me = plane.workers[worker]
    _switch(me, CATCHING_UP, now)
    me.catching_up, me.began = unit, now
    me.ends = finish(plane.speeds[worker], me, now, _work(plane, worker, plane.units[unit].waiting))
    push(plane.heap, me.ends, 0, pack(CAUGHT_UP, worker, 0))


@compiled_in_place
def _caught_up(plane: PlaneArrays, worker: int, now: float) -> None:
    me = plane.workers[worker]
    unit = plane.units[me.catching_up]
    pending = plane.pending[me.catching_up]
    rows, middle = unit.waiting, (me.began + now) / 2
    took = max(0.0, middle - unit.born / rows)  # of each row, the mean: rows that wait are not told apart
    bucket = bucket_of(plane.edges, took)
    for feeder in range(plane.fixed[0].feeders):
        count = pending[feeder]
        line, fed = plane.lines[worker, feeder], plane.feeders[feeder]
        plane.feeder_latencies[feeder, bucket] += count
        plane.line_latencies[worker, feeder, bucket] += count
        fed.latency_s += took * count
        fed.answered += count
        line.latency_s += took * count
        line.rows += count
        line.busy += (now - me.began) * count / rows
        pending[feeder] = 0
    plane.served[worker, me.catching_up] += rows
    me.rows += rows
    plane.total[0].served += rows
    plane.total[0].latency_s += rows * middle - unit.entered
    unit.size = min(unit.size + plane.fixed[0].growth * rows, plane.fixed[0].most)
    unit.waiting, unit.entered, unit.born = 0, 0.0, 0.0
    me.catching_up = -1
    _switch(me, IDLE, now)
