"""Connections from feeders to workers, compiled: packets that are filled, under way, and there.

A connection has room for some packets. A packet is there `packet_us` after its first row, and more rows may join it
until it is taken, as on a stream of bytes; or, with `full_packets`, it leaves when it is full, or when its feeder has
no more rows for now or has to send a marker, and takes no more rows then.
"""

from __future__ import annotations

from math import inf

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.heap import EventHeap, pack, push
from evenflow.sim.keyed.arrays import IDLE, PlaneArrays
from evenflow.sim.records import Record, Records

FINISHED, WAKE, MARK, ARRIVE, STALL_OVER, CAUGHT_UP = 1, 2, 3, 4, 5, 6
"""Kinds of events."""


@compiled_in_place
def has_room(fixed: Record, line: Record, packets: Records) -> bool:
    """Whether a connection takes another row: in its last packet, or in another one."""
    return line.used < fixed.packets or _takes(fixed, packets[(line.first + line.used - 1) % fixed.packets])


@compiled_in_place
def _takes(fixed: Record, packet: Record) -> bool:
    """Whether a packet takes another row."""
    return packet.count < fixed.packet_rows and not (fixed.full_packets and packet.ready < inf)


@compiled_in_place
def packet_for(fixed: Record, line: Record, packets: Records, now: float) -> int:
    """The packet for the next row, on a connection that has room; it may be a new one."""
    last = (line.first + line.used - 1) % fixed.packets
    if line.used == 0 or not _takes(fixed, packets[last]):
        last = (line.first + line.used) % fixed.packets
        line.used += 1
        line.sent += 1
        ready = inf if fixed.full_packets else now + fixed.latency
        packets[last].count, packets[last].opened, packets[last].ready = 0, now, ready
    return last


@compiled_in_place
def put(plane: PlaneArrays, worker: int, feeder: int, unit: int, born: float, now: float) -> None:
    """Put one row on a connection that has room."""
    fixed, packets = plane.fixed[0], plane.packets[worker, feeder]
    last = packet_for(fixed, plane.lines[worker, feeder], packets, now)
    row = plane.packet_rows[worker, feeder, last, packets[last].count]
    row.unit, row.born = unit, born
    packets[last].count += 1
    filled(plane, worker, packets[last], now)


@compiled_in_place
def filled(plane: PlaneArrays, worker: int, packet: Record, now: float) -> None:
    """Rows have been put into a packet: it leaves if it is full, and the worker is told if it leaves or has left."""
    fixed, me = plane.fixed[0], plane.workers[worker]
    if packet.ready == inf and packet.count == fixed.packet_rows:
        packet.ready = now + fixed.latency
    if packet.ready < inf and me.state == IDLE:
        wake(me, plane.heap, worker, packet.ready)


@compiled_in_place
def flush(plane: PlaneArrays, worker: int, feeder: int, now: float) -> None:
    """The last packet of a connection leaves although it is not full, if it has not left."""
    line = plane.lines[worker, feeder]
    if line.used > 0:
        packet = plane.packets[worker, feeder, (line.first + line.used - 1) % plane.fixed[0].packets]
        if packet.ready == inf:
            packet.ready = now + plane.fixed[0].latency
            if plane.workers[worker].state == IDLE:
                wake(plane.workers[worker], plane.heap, worker, packet.ready)


@compiled_in_place
def wake(me: Record, heap: EventHeap, worker: int, time: float) -> None:
    """Have an idle worker look for packets at `time`."""
    if time < me.wake:
        me.wake = time
        push(heap, time, 0, pack(WAKE, worker, 0))
