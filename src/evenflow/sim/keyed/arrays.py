"""All that the compiled part of the plane works on: arrays of records, by feeder, worker, unit and connection.

Records, since compiled functions take each array as an argument, and with one array a field there would be too many.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from evenflow.model.latency import MOST_BUCKETS, STEPS
from evenflow.sim.draws import random_state
from evenflow.sim.heap import EventHeap, event_heap
from evenflow.sim.keyed.popularity import alias_tables
from evenflow.sim.keyed.setup import ExternalLoad, KeyedSetup
from evenflow.sim.records import Records

BY_CONTENT, BY_ROOM, BY_CHOICES = 0, 1, 2
"""Where a row goes: to the owner of its unit, to a worker drawn by how empty its queue is, to one of two (PKG)."""
IDLE, SERVING, STALLED, CATCHING_UP = 0, 1, 2, 3
"""What a worker does: waits for rows, serves a packet, reads or writes its disk, serves rows that waited for a unit."""
NO_ROW = -1
WHOLE, REAL = np.int64, np.float64

FIXED = np.dtype(
    [
        *((name, WHOLE) for name in ("workers", "feeders", "packet_rows", "packets", "row_bytes")),
        ("room", WHOLE),  # rows in a feeder's skew buffer, or in each part of it if it is divided
        ("divided", WHOLE),
        ("by_unit", WHOLE),  # whether rows in it wait by unit, and units take turns
        ("full_packets", WHOLE),
        ("routing", WHOLE),
        ("spool", WHOLE),
        *((name, REAL) for name in ("latency", "row_s", "jitter_s", "feeder_s", "growth", "most", "seek_s", "disk")),
        ("share", REAL),  # of its time that a worker gives to state that it owes work for
    ]
)
SPEED = np.dtype([("time", REAL), ("speed", REAL), ("on", REAL), ("free", REAL)])
"""From a time on: the speed, and how long another process computes and then lets others."""
RATE = np.dtype([("time", REAL), ("gap", REAL)])
"""From a time on: seconds between two rows of one feeder; 0: there is always one."""
FEEDER = np.dtype(
    [
        ("total", WHOLE),  # rows in its skew buffer
        ("full_queue", WHOLE),  # if the room is divided: the queue that had the last row
        ("free", WHOLE),  # the first place in `waiting` without a row
        ("made", WHOLE),
        ("told", WHOLE),  # rows that were made when it last said so
        ("quota", WHOLE),  # rows that it will make in all
        ("answered", WHOLE),
        ("rate_at", WHOLE),
        ("expects", WHOLE),  # whether an event is due for the next row
        ("next_row", REAL),
        ("latency_s", REAL),
    ]
)
QUEUE = np.dtype([("head", WHOLE), ("tail", WHOLE), ("count", WHOLE), ("following", WHOLE)])
"""Rows that wait for the same, by place: the first and the last. If rows wait by unit, there is a queue for each unit,
with the unit whose turn is next, and the others have the first and the last unit that has rows."""
WAITING = np.dtype([("next", WHOLE), ("unit", WHOLE), ("born", REAL)])
ROUTE = np.dtype([("queue", WHOLE), ("arrived", WHOLE)])
"""Of a feeder and a unit: the queue of its rows, and rows since the feeder last said so."""
ROW = np.dtype([("unit", WHOLE), ("born", REAL)])
PACKET = np.dtype([("count", WHOLE), ("ready", REAL), ("opened", REAL)])
LINE = np.dtype(
    [
        ("first", WHOLE),  # the packet that is served next
        ("used", WHOLE),
        ("sent", WHOLE),
        ("done", WHOLE),
        ("marker", WHOLE),  # the movement whose marker is on the connection; 0 if there is none
        ("behind", WHOLE),  # the number of the packet that it is behind
        ("given", WHOLE),  # rows that went this way, for a choice of two
        *((name, WHOLE) for name in ("rows", "frames")),  # served since the feeder last said so
        *((name, REAL) for name in ("busy", "latency_s")),
    ]
)
WORKER = np.dtype(
    [
        ("state", WHOLE),
        *((name, WHOLE) for name in ("rows", "taken", "turn", "source", "count")),
        ("move", WHOLE),  # the movement whose markers are counted
        ("marks", WHOLE),
        ("wanted", WHOLE),  # markers that it needs; 0: nobody has said so yet
        ("wants_disk", WHOLE),  # whether it leaves off after the present packet, since its disk has to do something
        ("catching_up", WHOLE),  # the unit whose rows are served that have waited; -1 if there is none
        ("speed_at", WHOLE),
        ("since", REAL),  # since when the present state is counted
        *((name, REAL) for name in ("began", "ends", "idle", "busy", "opened", "wake")),
        ("debt", REAL),  # seconds of work before the next rows: units taken out and installed; it counts as busy
        ("owed", REAL),  # seconds of work for rows made here, as it was at `owed_at`; done while the worker waits
        ("owed_at", REAL),
        ("io", REAL),  # seconds of disk before the next rows: pending input that is written
    ]
)
UNIT = np.dtype(
    [
        ("away", WHOLE),  # whether its state is on disk
        ("size", REAL),
        ("waiting", WHOLE),  # rows that wait for its state
        ("entered", REAL),  # the sum of the times at which they came to the worker
        ("born", REAL),  # the sum of the times at which they came to their feeders
    ]
)
TOTAL = np.dtype([("served", WHOLE), ("latency_s", REAL)])
"""Rows served; the seconds from coming to the worker until they were served, summed (flux §6.3)."""


class PlaneArrays(NamedTuple):
    """Everything; W workers, F feeders, U units."""

    fixed: Records
    heap: EventHeap
    draws: Records
    """By feeder, then by worker."""
    speeds: Records
    rates: Records
    phase_ends: Records
    alias: Records
    trace: Records
    edges: Records
    """Where buckets of latencies end."""
    feeders: Records
    queues: Records
    """F x 2 W: queue w is for worker w, W + s for units that leave worker s."""
    unit_queues: Records
    """F x U if rows wait by unit; else F x 1, unused."""
    waiting: Records
    """F x rows: the skew buffers, as linked lists."""
    routes: Records
    """F x U."""
    feeder_latencies: Records
    lines: Records
    """W x F: the connections."""
    packets: Records
    packet_rows: Records
    line_latencies: Records
    workers: Records
    in_service: Records
    served: Records
    """W x U: rows served since the worker's last report."""
    units: Records
    pending: Records
    """U x F: rows that wait for a unit on disk."""
    total: Records


def plane_arrays(setup: KeyedSetup, divided: bool, routing: int) -> PlaneArrays:
    """The arrays at time 0: nothing has come yet."""
    workers, feeders, units = setup.workers, setup.feeders, setup.units
    fixed = _fixed(setup, divided, routing)
    room = int(fixed["room"][0]) * (workers if divided else 1)
    lines, packets = (workers, feeders), (workers, feeders, setup.connection_packets)
    most = workers * (feeders * (setup.connection_packets + 2) + 16) + 4 * feeders + 64
    streams = [*range(feeders), *range(100_000, 100_000 + workers)]
    waiting = np.zeros((feeders, room + 1), WAITING)
    waiting["next"] = [*range(1, room + 1), NO_ROW]
    serving = np.zeros(workers, WORKER)
    serving["wake"], serving["catching_up"] = inf, -1
    state = np.zeros(units, UNIT)
    state["size"] = setup.unit_bytes
    return PlaneArrays(
        fixed=fixed,
        heap=event_heap(most),
        draws=np.array([random_state(setup.seed, stream) for stream in streams]),
        speeds=_speeds(setup),
        rates=_rates(setup),
        phase_ends=np.cumsum([phase.seconds for phase in setup.phases]),
        alias=alias_tables(setup),
        trace=np.array(setup.trace, WHOLE),
        edges=1e-6 * 2.0 ** (np.arange(1, MOST_BUCKETS) / STEPS),
        feeders=_feeders(setup),
        queues=np.zeros((feeders, 2 * workers), QUEUE),
        unit_queues=np.zeros((feeders, units if fixed["by_unit"][0] else 1), QUEUE),
        waiting=waiting,
        routes=np.zeros((feeders, units), ROUTE),
        feeder_latencies=np.zeros((feeders, MOST_BUCKETS), WHOLE),
        lines=np.zeros(lines, LINE),
        packets=np.zeros(packets, PACKET),
        packet_rows=np.zeros((*packets, setup.packet_rows), ROW),
        line_latencies=np.zeros((*lines, MOST_BUCKETS), WHOLE),
        workers=serving,
        in_service=np.zeros((workers, setup.packet_rows), ROW),
        served=np.zeros((workers, units), WHOLE),
        units=state,
        pending=np.zeros((units, feeders), WHOLE),
        total=np.zeros(1, TOTAL),
    )


def _fixed(setup: KeyedSetup, divided: bool, routing: int) -> Records:
    room = max(1, setup.skew_rows // setup.workers if divided else setup.skew_rows)
    whole = (setup.workers, setup.feeders, setup.packet_rows, setup.connection_packets, setup.row_bytes)
    costs = (setup.packet_us * 1e-6, setup.row_us * 1e-6, setup.row_jitter_us * 1e-6, setup.feeder_us * 1e-6)
    disk = (setup.growth_bytes, setup.most_unit_bytes or np.inf, setup.seek_ms * 1e-3, setup.disk_mb * 1e6)
    kinds = (divided, setup.skew_by_unit and routing == BY_CONTENT and not divided, setup.full_packets, routing)
    owed = (setup.state_share,)
    return np.array([(*whole, room, *kinds, setup.spool_bytes, *costs, *disk, *owed)], FIXED)


def _rates(setup: KeyedSetup) -> Records:
    made = [(second, setup.feeders / rate if rate else inf) for second, rate in setup.rates]
    return np.array(made, RATE)


def _feeders(setup: KeyedSetup) -> Records:
    feeders = np.zeros(setup.feeders, FEEDER)
    feeders["quota"] = 2**62
    if setup.rows:
        feeders["quota"] = setup.rows // setup.feeders + (np.arange(setup.feeders) < setup.rows % setup.feeders)
    return feeders


def _speeds(setup: KeyedSetup) -> Records:
    plans = [_plan(setup, worker) for worker in range(setup.workers)]
    speeds = np.zeros((setup.workers, max(map(len, plans))), SPEED)
    speeds["time"] = inf
    for worker, plan in enumerate(plans):
        speeds[worker, : len(plan)] = plan
    return speeds


def _plan(setup: KeyedSetup, worker: int) -> list[tuple[float, float, float, float]]:
    """The changes of a worker's speed."""
    steps = sorted((step.second, step.speed) for step in setup.steps if step.worker == worker)
    steps = [(0.0, setup.speeds[worker] if setup.speeds else 1.0), *steps]
    loads = [load for load in setup.loads if load.worker == worker]
    edges = {time for time, _ in steps} | {load.since for load in loads} | {load.until for load in loads}
    plan = []
    for time in sorted(edges - {inf}):
        speed = [speed for second, speed in steps if second <= time][-1]
        plan.append((time, speed, *_shared(next((load for load in loads if load.since <= time < load.until), None))))
    return plan


def _shared(load: ExternalLoad | None) -> tuple[float, float]:
    return (0.0, 1.0) if load is None else (load.on_us * 1e-6, (load.off_us + load.wait_us) * 1e-6)
