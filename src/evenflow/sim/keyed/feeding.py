"""Feeders, compiled: rows are made, routed, wait in the skew buffer, and go out in packets (flux §4, §5.1)."""

from __future__ import annotations

from math import inf

import numpy as np

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.draws import draw
from evenflow.sim.heap import pack, push
from evenflow.sim.keyed.arrays import BY_CHOICES, BY_CONTENT, BY_ROOM, IDLE, STALLED, PlaneArrays
from evenflow.sim.keyed.connections import ARRIVE, MARK, filled, flush, has_room, packet_for, put
from evenflow.sim.keyed.popularity import drawn_unit
from evenflow.sim.keyed.queues import put_row, redirect, take_row
from evenflow.sim.records import Record, Records


@compiled_in_place
def refill(plane: PlaneArrays, feeder: int, now: float) -> None:
    """Make the rows that there is room for and that have come. Small parts of `plane` go to functions called by row."""
    fixed, me, rates, rows = plane.fixed[0], plane.feeders[feeder], plane.rates, plane.waiting[feeder]
    turns = plane.unit_queues[feeder]
    queues, routes, draws, debtor = (
        plane.queues[feeder],
        plane.routes[feeder],
        plane.draws[feeder],
        plane.workers[feeder % fixed.workers],
    )
    while me.made < me.quota and not _full(fixed, me, queues):
        born = me.next_row
        if born > now:
            if not me.expects and born < inf:
                me.expects = 1
                push(plane.heap, born, 0, pack(ARRIVE, feeder, 0))
            _flush_all(plane, feeder, now)
            return
        born = _next_row(me, rates, now)
        if len(plane.trace):
            unit = plane.trace[(me.made * fixed.feeders + feeder) % len(plane.trace)]
        else:
            unit = drawn_unit(draws, plane.alias[_phase(plane.phase_ends, born)])
        me.made += 1
        routes[unit].arrived += 1
        owe(debtor, now)
        debtor.owed += fixed.feeder_s
        queue = routes[unit].queue
        if fixed.routing != BY_CONTENT:
            queue = _other_queue(plane, feeder, unit)
        if queue < fixed.workers and queues[queue].count == 0:
            packets = plane.packets[queue, feeder]
            if has_room(fixed, plane.lines[queue, feeder], packets):
                put(plane, queue, feeder, unit, born, now)
                continue
        place = me.free
        me.free = rows[place].next
        rows[place].unit, rows[place].born = unit, born
        me.total += 1
        me.full_queue = queue
        put_row(fixed.by_unit, queues[queue], turns, rows, unit, place)
    if me.made == me.quota:
        _flush_all(plane, feeder, now)


@compiled_in_place
def _flush_all(plane: PlaneArrays, feeder: int, now: float) -> None:
    """No more rows come for now: packets leave that are not full, if they wait for that."""
    if plane.fixed[0].full_packets:
        for worker in range(plane.fixed[0].workers):
            flush(plane, worker, feeder, now)


@compiled_in_place
def owe(me: Record, now: float) -> None:
    """Work off what is owed for rows made on a worker's machine, while the worker waits for rows or for its disk.

    A feeder has a thread of its own (flux §5.1): what it does while the worker waits is not time that the worker is
    busy, and holds up no rows.
    """
    if me.state == IDLE or me.state == STALLED:
        me.owed = max(0.0, me.owed - (now - me.owed_at))
    me.owed_at = now


@compiled_in_place
def _next_row(me: Record, rates: Records, now: float) -> float:
    """When the row comes that is made now; the time of the one after it is set."""
    born = me.next_row
    while me.rate_at + 1 < len(rates) and rates[me.rate_at + 1].time <= born:
        me.rate_at += 1
    if rates[me.rate_at].gap == 0.0:  # it was there all the time, and is looked at now
        born = now if me.rate_at + 1 == len(rates) else min(now, rates[me.rate_at + 1].time)
    me.next_row = after(rates, me.rate_at, born, 1.0)
    return born


@compiled_in_place
def after(rates: Records, at: int, time: float, part: float) -> float:
    """When the next row of a feeder comes: `part` of the gap between two rows later, at rates that may change."""
    while True:
        end = rates[at + 1].time if at + 1 < len(rates) else inf
        gap = rates[at].gap
        if gap == 0.0 and time < end:
            return time
        if gap > 0.0 and time + part * gap <= end and gap < inf:
            return time + part * gap
        if end == inf:
            return inf
        if gap > 0.0:
            part -= (end - time) / gap
        time, at = end, at + 1


@compiled_in_place
def _full(fixed: Record, me: Record, queues: Records) -> bool:
    if fixed.divided:
        return queues[me.full_queue].count >= fixed.room
    return me.total >= fixed.room


@compiled_in_place
def _phase(ends: Records, time: float) -> int:
    last = len(ends) - 1
    if last == 0:
        return 0
    time = time % ends[last] if ends[last] < inf else time
    phase = 0
    while phase < last and time >= ends[phase]:
        phase += 1
    return phase


@compiled_in_place
def _other_queue(plane: PlaneArrays, feeder: int, unit: int) -> int:
    """The queue of a row that need not go to its unit's owner: of a worker with room, or W if none has; or of two."""
    fixed, workers = plane.fixed[0], plane.fixed[0].workers
    if fixed.routing == BY_CHOICES:
        one, other = two_workers(unit, workers)
        queue = one if plane.lines[one, feeder].given <= plane.lines[other, feeder].given else other
        plane.lines[queue, feeder].given += 1
        return queue
    free = 0
    for worker in range(workers):
        free += fixed.packets - plane.lines[worker, feeder].used
    if plane.queues[feeder, workers].count > 0 or free == 0:
        return workers
    pick = np.int64(draw(plane.draws[feeder]) * free)
    for worker in range(workers):
        pick -= fixed.packets - plane.lines[worker, feeder].used
        if pick < 0:
            return worker
    return workers


@compiled_in_place
def two_workers(unit: int, workers: int) -> tuple[np.int64, np.int64]:
    """The two workers for a unit, as feeders choose them: by the halves of a 64-bit mix."""
    if workers == 1:
        return np.int64(0), np.int64(0)
    mixed = np.uint64(unit) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    one = np.int64((mixed & np.uint64(0xFFFFFFFF)) % np.uint64(workers))
    return one, (one + 1 + np.int64((mixed >> np.uint64(32)) % np.uint64(workers - 1))) % workers


@compiled_in_place
def send_on(plane: PlaneArrays, feeder: int, worker: int, now: float) -> None:
    """A connection may have room: send rows that wait for it, and make others."""
    fixed, me, waiting = plane.fixed[0], plane.feeders[feeder], plane.waiting[feeder]
    line, packets, rows = plane.lines[worker, feeder], plane.packets[worker, feeder], plane.packet_rows[worker, feeder]
    queue = plane.queues[feeder, fixed.workers if fixed.routing == BY_ROOM else worker]
    turns = plane.unit_queues[feeder]
    while queue.count > 0 and has_room(fixed, line, packets):
        last = packet_for(fixed, line, packets, now)
        for at in range(packets[last].count, min(fixed.packet_rows, packets[last].count + queue.count)):
            place = take_row(fixed.by_unit, queue, turns, waiting)
            rows[last, at].unit, rows[last, at].born = waiting[place].unit, waiting[place].born
            waiting[place].next = me.free
            me.free = place
            me.total -= 1
            packets[last].count += 1
        filled(plane, worker, packets[last], now)
    refill(plane, feeder, now)


@compiled_in_place
def pause(plane: PlaneArrays, feeder: int, move: int, units: Records, source: int, now: float) -> None:
    """Hold back the rows of units that leave `source`; a marker goes behind those that are on their way."""
    redirect(plane, feeder, units, source, plane.fixed[0].workers + source)
    if plane.fixed[0].full_packets:
        flush(plane, source, feeder, now)
    line = plane.lines[source, feeder]
    line.marker, line.behind = move, line.sent
    if line.done >= line.sent:
        push(plane.heap, now + plane.fixed[0].latency, 0, pack(MARK, source, feeder))


@compiled_in_place
def release(plane: PlaneArrays, feeder: int, units: Records, source: int, worker: int, now: float) -> None:
    """The units that left `source`, or were to, are at `worker`: send the rows that were held back."""
    redirect(plane, feeder, units, plane.fixed[0].workers + source, worker)
    send_on(plane, feeder, worker, now)
