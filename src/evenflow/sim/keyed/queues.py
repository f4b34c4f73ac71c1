"""The skew buffer of a feeder, compiled: rows that wait for a worker, or for units that leave one (flux §4, §5.1).

Places in the buffer are linked to lists. There is one list for each destination, in the order in which rows came, as
the feeders of this engine have it; or, with `skew_by_unit`, one for each unit, and units with rows take turns, a row
each: "the transient skew buffer is keyed on partition id", and a feeder "cycles through only the partitions for which
the destination connections are unblocked" (flux §5.1). Then rows of a popular unit do not hold up those of others.
"""

from __future__ import annotations

from evenflow.model.compiled import compiled_in_place
from evenflow.sim.keyed.arrays import NO_ROW, PlaneArrays
from evenflow.sim.records import Record, Records


@compiled_in_place
def put_row(by_unit: int, queue: Record, units: Records, rows: Records, unit: int, place: int) -> None:
    """A row that is at a place of the buffer goes behind those that wait for the same."""
    if by_unit:
        mine = units[unit]
        if mine.count == 0:
            _last_in_turn(queue, units, unit)
        _append(mine, rows, place)
        queue.count += 1
    else:
        _append(queue, rows, place)


@compiled_in_place
def take_row(by_unit: int, queue: Record, units: Records, rows: Records) -> int:
    """The place of the next row of a queue that is not empty; the row waits no longer."""
    queue.count -= 1
    if not by_unit:
        place = queue.head
        queue.head = rows[place].next
        return place
    unit = queue.head
    mine = units[unit]
    place = mine.head
    mine.head = rows[place].next
    mine.count -= 1
    if queue.head != queue.tail:
        queue.head = mine.following
        if mine.count > 0:
            units[queue.tail].following = unit
            queue.tail = unit
    return place


@compiled_in_place
def redirect(plane: PlaneArrays, feeder: int, units: Records, source: int, target: int) -> None:
    """Rows of units go to another queue from now on, and so do those that wait; each unit's keep their order."""
    for unit in units:
        plane.routes[feeder, unit].queue = target
    queues = plane.queues[feeder]
    if not plane.fixed[0].by_unit:
        _sort_anew(plane, feeder, source)
        return
    turns = plane.unit_queues[feeder]
    for unit in units:
        count = turns[unit].count
        if count > 0:
            _out_of_turn(queues[source], turns, unit)
            queues[source].count -= count
            _last_in_turn(queues[target], turns, unit)
            queues[target].count += count


@compiled_in_place
def _append(queue: Record, rows: Records, place: int) -> None:
    """Put a row at the end of a list."""
    rows[place].next = NO_ROW
    if queue.count == 0:
        queue.head = place
    else:
        rows[queue.tail].next = place
    queue.tail = place
    queue.count += 1


@compiled_in_place
def _last_in_turn(queue: Record, units: Records, unit: int) -> None:
    """A unit that has rows has its turn after all others of a queue; the queue's count is still without them."""
    if queue.count == 0:
        queue.head = unit
    else:
        units[queue.tail].following = unit
    queue.tail = unit


@compiled_in_place
def _out_of_turn(queue: Record, units: Records, unit: int) -> None:
    """A unit with rows has no more turns in a queue."""
    if queue.head == unit:
        queue.head = units[unit].following
        return
    before = queue.head
    while units[before].following != unit:
        before = units[before].following
    units[before].following = units[unit].following
    if queue.tail == unit:
        queue.tail = before


@compiled_in_place
def _sort_anew(plane: PlaneArrays, feeder: int, source: int) -> None:
    """Put the rows of a queue where rows of their units go now, in the same order."""
    rows, queue = plane.waiting[feeder], plane.queues[feeder, source]
    place, count = queue.head, queue.count
    queue.count = 0
    for _ in range(count):
        after = rows[place].next
        _append(plane.queues[feeder, plane.routes[feeder, rows[place].unit].queue], rows, place)
        place = after
