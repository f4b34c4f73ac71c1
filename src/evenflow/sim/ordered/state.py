"""The state of a simulated ordered region, for compiled code: one table of numpy records for each kind of thing.

Tables of records, since compiled functions are handed all of them, and that costs time for each array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.sim.draws import random_state
from evenflow.sim.heap import EventHeap, event_heap
from evenflow.sim.ordered.scene import OrderedScene
from evenflow.sim.records import Records

NOBODY = -1
ANYBODY = -2
"""For whom a splitter waits: no connection in particular, or any that gets room."""
BLOCK, REROUTE, CREDITS = 0, 1, 2
SPLITTINGS = {"block": BLOCK, "reroute": REROUTE, "credits": CREDITS}

REAL, WHOLE, FLAG = np.float64, np.int64, np.bool_
COSTS = ("row_s", "row_overhead_s", "call_s", "jitter", "send_s", "send_row_s", "delay_s", "rate")
SIZES = ("rows", "frame_rows", "most_rows", "window", "buffer", "result_buffer", "reorder_rows")
CONSTANT = [(name, REAL) for name in COSTS] + [(name, WHOLE) for name in (*SIZES, "ring", "splitting")]
"""What does not change; `ring` places for the frames of a feeder: frame n of feeder f is at f * ring + n % ring."""
FRAME = [
    ("owner", WHOLE),
    ("rows", WHOLE),
    ("first", WHOLE),  # the number of its first row
    ("took", REAL),  # seconds of work
    ("read", FLAG),  # whether the merger has its result
    ("after", WHOLE),  # the frame behind it in the queue it is in
]
SPLITTER = [
    ("joined", FLAG),
    ("sending", FLAG),  # its thread is busy, or has no rows
    ("woken", FLAG),  # something has happened that it may have waited for
    ("sequence", WHOLE),  # of the next frame
    ("head", WHOLE),  # of the frame that leaves the merger next
    ("row", WHOLE),
    ("held", WHOLE),  # rows in the merger
    ("unread", WHOLE),  # frames whose results are there and not read
    ("rows_out", WHOLE),
    ("rerouted", WHOLE),
    ("waits", WHOLE),  # the worker for whose connection it waits, NOBODY or ANYBODY
    ("since", REAL),
    ("turn", WHOLE),  # whose turn it is, NOBODY before that is known
    ("overhead", REAL),  # of a call, in rows, as learned from answers; -1 before
    ("earned_from", WHOLE),  # credits that are not spent, places in `earned`
    ("earned_to", WHOLE),
    ("finished", REAL),  # when its last row left; infinite before
]
LINK = [
    ("weight", WHOLE),
    ("credit", WHOLE),
    ("queued", WHOLE),  # rows that the worker has not begun with
    ("under_way", WHOLE),  # frames that are not answered
    ("counted", REAL),  # up to when under_way_s is counted
    ("results", WHOLE),  # rows of results that the merger has not read
    ("first_result", WHOLE),
    ("last_result", WHOLE),
    ("depth", WHOLE),
    ("blocked_s", REAL),
    ("rows_sent", WHOLE),
    ("frames_sent", WHOLE),
    ("rows_done", WHOLE),
    ("frames_done", WHOLE),
    ("busy_s", REAL),
    ("under_way_s", REAL),
    ("cost", REAL),  # seconds a row, as learned from answers; infinite before
    ("largest", WHOLE),
    ("least_s", REAL),
    ("last_rows", WHOLE),
    ("last_s", REAL),
]
SERVER = [
    ("speed", REAL),
    ("host", WHOLE),
    ("at", WHOLE),  # the frame that it is at, NOBODY if it is idle
    ("stalled", WHOLE),  # the frame whose result it cannot send, or NOBODY
    ("began", REAL),
    ("ends", REAL),  # when its frame ends, in the time of its host
    ("first", WHOLE),  # its queue
    ("last", WHOLE),
    ("load_from", WHOLE),  # its loads, places in `loads`
    ("load_to", WHOLE),
]
LOAD = [("factor", REAL), ("begin_s", REAL), ("end_s", REAL), ("end_row", WHOLE), ("whole", FLAG)]
HOST = [
    ("threads", WHOLE),
    ("shared", FLAG),  # whether it has more workers than threads
    ("busy", WHOLE),
    ("time", REAL),  # goes on at threads / busy of the real one, if more are busy
    ("counted", REAL),  # the real time at which that was counted
    ("due", REAL),  # when the next of its workers is through; infinite where nothing is shared
    ("first", WHOLE),  # its workers, places in `members`
    ("last", WHOLE),
]


class OrderedState(NamedTuple):
    """All tables."""

    costs: Records
    frames: Records
    splitters: Records
    links: Records
    """[feeder, worker]"""
    servers: Records
    loads: Records
    hosts: Records
    members: npt.NDArray[np.int64]
    sharing: npt.NDArray[np.int64]
    """The hosts whose workers share threads."""
    earned: npt.NDArray[np.int64]
    """[feeder, place]: workers in the order in which they earned credits."""
    heap: EventHeap
    random: npt.NDArray[np.uint64]


def ordered_state(scene: OrderedScene, splitting: int) -> OrderedState:
    """The state at time 0: nothing was sent."""
    ring = 1 << (scene.frames_at_once - 1).bit_length()
    constant = table(CONSTANT, 1, ring=ring, splitting=splitting)
    for name in (*COSTS, *SIZES):
        constant[name] = getattr(scene, name)
    hosts, members = _hosts(scene)
    servers, loads = _servers(scene)
    nobody = {"waits": NOBODY, "turn": NOBODY}
    results = {"first_result": NOBODY, "last_result": NOBODY}
    return OrderedState(
        costs=constant,
        frames=table(FRAME, scene.feeders * ring, after=NOBODY),
        splitters=table(SPLITTER, scene.feeders, overhead=-1.0, finished=np.inf, **nobody),
        links=table(LINK, (scene.feeders, scene.workers), cost=np.inf, least_s=np.inf, **results),
        servers=servers,
        loads=loads,
        hosts=hosts,
        members=members,
        sharing=np.flatnonzero(hosts["shared"]).astype(np.int64),
        earned=np.zeros((scene.feeders, 2 * scene.workers), np.int64),
        heap=event_heap(scene.feeders * (2 + (ring if scene.delay_s else 0)) + scene.workers),
        random=random_state(scene.seed),
    )


def table(fields: Sequence[tuple[str, type]], shape: int | tuple[int, int], **values: float) -> Records:
    """A table of records; fields that are not named are 0."""
    records = np.zeros(shape, np.dtype(list(fields), align=True))
    for name, value in values.items():
        records[name] = value
    return records


def _servers(scene: OrderedScene) -> tuple[Records, Records]:
    """Workers and their loads."""
    loads = sorted(scene.loads, key=lambda load: load.worker)
    places = np.searchsorted([load.worker for load in loads], np.arange(scene.workers + 1))
    servers = table(SERVER, scene.workers, at=NOBODY, stalled=NOBODY, first=NOBODY, last=NOBODY)
    servers["speed"] = scene.speeds or 1.0
    servers["host"] = scene.hosts or range(scene.workers)
    servers["load_from"], servers["load_to"] = places[:-1], places[1:]
    found = table(LOAD, len(loads))
    for name, _ in LOAD:
        found[name] = [getattr(load, name) for load in loads]
    return servers, found


def _hosts(scene: OrderedScene) -> tuple[Records, npt.NDArray[np.int64]]:
    """Hosts and their workers."""
    places = np.array(scene.hosts or range(scene.workers), np.int64)
    count = len(scene.threads) or scene.workers
    members = np.argsort(places, kind="stable").astype(np.int64)
    first = np.searchsorted(places[members], np.arange(count + 1))
    hosts = table(HOST, count, due=np.inf)
    hosts["threads"] = scene.threads or scene.workers
    hosts["first"], hosts["last"] = first[:-1], first[1:]
    hosts["shared"] = hosts["last"] - hosts["first"] > hosts["threads"]
    return hosts, members
