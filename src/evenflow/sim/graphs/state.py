"""The arrays of a simulated graph: what compiled code works on (`graph_engine`).

Input `side` of operator o is port 2 o + side. Senders of rows are the hosts and, as the last one, the feeder.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model.latency import MOST_BUCKETS, STEPS
from evenflow.sim.draws import draw, random_state, spread
from evenflow.sim.graphs.model import SimulatedGraph
from evenflow.sim.heap import EventHeap, event_heap, pack, push

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ARRIVE, SERVED, LAND, CHANGE = 0, 1, 2, 3
"""Kinds of events: a row of a source, the end of a row's service, a row at the end of a link, another coefficient."""
ORDER, BLOCKED, FREE, SAID, WOKEN, OPEN = 0, 1, 2, 3, 4, 5
"""Places in `numbers`: rows queued so far, operators with rows that cannot go on, free flights, operators that are
ready to leave and have not been told, hosts that may have something to do, and whether sources are let in."""
NOW, LATENCY = 0, 1
"""Places in `times`: the present, and the latency of all results since the last report."""
STAYS, LEAVING, GONE = 0, 1, 2
"""Of operators: where it is; to leave as soon as all it gave is where it goes; on its way."""
NOBODY = -(1 << 40)
"""What a port reads that is not used."""


class GraphArrays(NamedTuple):
    """Names of sizes: M operators, P = 2 M ports, H hosts, S sources, E edges."""

    heap: EventHeap
    numbers: Ints
    times: Floats
    loses: bool
    """Whether rows of sources for which there is no room are lost."""
    # -- the graph
    reads: Ints
    """[P] The operator that it reads, or source s as -1 - s."""
    firsts: Ints
    """[S + M + 1] Where the edges of each source, then of each operator, begin."""
    edges: Ints
    """[E] The port that it leads to."""
    cost_s: Floats
    selectivity: Floats
    window: Ints
    endpoint: npt.NDArray[np.bool_]
    # -- hosts and links
    coefficient: Floats
    changes: Floats
    """[changes, 2] Host and coefficient of each change to come."""
    delay_s: Floats
    link_rows: Ints
    on_link: Ints
    """[H, H] Rows on each link, by sender and receiver."""
    sent: Ints
    """[H, H] The same since the last report."""
    serving: Ints
    """[H] The port whose row is served, or -1."""
    serving_birth: Floats
    began: Floats
    host_busy: Floats
    """[H] Seconds, since the start."""
    members: Ints
    """[H, M] The operators that each host has, in no order."""
    member_count: Ints
    awake: npt.NDArray[np.bool_]
    """[H] Whether it is among the woken ones."""
    woken: Ints
    # -- operators
    host_of: Ints
    status: Ints
    credit: Floats
    """[M] What has been let through so far, less the rows that were given: below 1."""
    ready: Floats
    """[M, K] Births of rows that are given, and wait for room."""
    ready_head: Ints
    ready_count: Ints
    flying: Ints
    """[M] Rows of it that are on links."""
    paused: npt.NDArray[np.bool_]
    """[M, H + 1] Whether a sender holds back rows for it."""
    said: Ints
    # -- ports
    queue_births: Floats
    """[P, Q]"""
    queue_orders: Ints
    head: Ints
    waiting: Ints
    reserved: Ints
    """[P] Rows that wait, and those on their way."""
    window_births: Floats
    """[P, W]"""
    window_next: Ints
    window_count: Ints
    # -- rows on links
    flight_op: Ints
    flight_from: Ints
    flight_birth: Floats
    flight_mask: Ints
    """Which edges of the operator it is for."""
    flight_free: Ints
    # -- sources; two copies of each: one that counts arrivals, one that lets rows in, later if there is no room
    high: Floats
    low: Floats
    phase_s: Floats
    deviation_s: Floats
    random: npt.NDArray[np.uint64]
    next_s: Floats
    """[2, S]"""
    phase_end: Floats
    is_low: npt.NDArray[np.bool_]
    # -- counters since the last report
    arrived: Ints
    entered: Ints
    lost: Ints
    """[S] Both since the start."""
    taken: Ints
    given: Ints
    busy: Floats
    results: Ints
    """By bucket of latency."""
    bucket_ends: Floats


def graph_arrays(graph: SimulatedGraph) -> GraphArrays:
    """A graph at second 0: nothing is on any host, sources are shut."""
    shape = graph.shape()
    count, hosts, inputs = len(graph.operators), len(graph.hosts), len(graph.sources)
    ports, senders = 2 * count, hosts + 1
    reads = np.full(ports, NOBODY)
    led: list[list[int]] = [[] for _ in range(inputs + count)]
    for number, node in enumerate(shape.nodes):
        for side, each in enumerate(node.inputs):
            reads[2 * number + side] = each
            led[-1 - each if each < 0 else inputs + each].append(2 * number + side)
    windows = np.array([operator.window for operator in graph.operators])
    most_given = max(max(operator.window, 1) * ceil(operator.selectivity) + 1 for operator in graph.operators)
    delay, rows = _links(graph)
    flights = graph.queue_rows * sum(len(each) for each in led) + 1
    changes = [(second, host, value) for host, each in enumerate(graph.hosts) for second, value in each.changes]
    made = GraphArrays(
        heap=event_heap(flights + hosts + inputs + len(changes) + 1),
        numbers=np.array([0, 0, flights, 0, 0, 0]),
        times=np.zeros(2),
        loses=graph.outside == "is lost",
        reads=reads,
        firsts=np.cumsum([0, *map(len, led)]),
        edges=np.array([port for each in led for port in each], np.int64),
        cost_s=np.array([operator.cost_ms * 1e-3 for operator in graph.operators]),
        selectivity=np.array([operator.selectivity for operator in graph.operators], np.float64),
        window=windows,
        endpoint=np.array([node.endpoint for node in shape.nodes]),
        coefficient=np.array([host.coefficient for host in graph.hosts], np.float64),
        changes=np.array([(host, value) for _, host, value in changes], np.float64).reshape(-1, 2),
        delay_s=delay * 1e-3,
        link_rows=rows,
        on_link=np.zeros((hosts, hosts), np.int64),
        sent=np.zeros((hosts, hosts), np.int64),
        serving=np.full(hosts, -1),
        serving_birth=np.zeros(hosts),
        began=np.zeros(hosts),
        host_busy=np.zeros(hosts),
        members=np.zeros((hosts, count), np.int64),
        member_count=np.zeros(hosts, np.int64),
        awake=np.zeros(hosts, np.bool_),
        woken=np.zeros(hosts, np.int64),
        host_of=np.full(count, -1),
        status=np.zeros(count, np.int64),
        credit=np.zeros(count),
        ready=np.zeros((count, most_given)),
        ready_head=np.zeros(count, np.int64),
        ready_count=np.zeros(count, np.int64),
        flying=np.zeros(count, np.int64),
        paused=np.zeros((count, senders), np.bool_),
        said=np.zeros(count, np.int64),
        queue_births=np.zeros((ports, graph.queue_rows)),
        queue_orders=np.zeros((ports, graph.queue_rows), np.int64),
        head=np.zeros(ports, np.int64),
        waiting=np.zeros(ports, np.int64),
        reserved=np.zeros(ports, np.int64),
        window_births=np.zeros((ports, max(1, int(windows.max())))),
        window_next=np.zeros(ports, np.int64),
        window_count=np.zeros(ports, np.int64),
        flight_op=np.zeros(flights, np.int64),
        flight_from=np.zeros(flights, np.int64),
        flight_birth=np.zeros(flights),
        flight_mask=np.zeros(flights, np.int64),
        flight_free=np.arange(flights),
        high=np.array([source.high for source in graph.sources], np.float64),
        low=np.array([source.low or source.high for source in graph.sources], np.float64),
        phase_s=np.array([source.phase_s for source in graph.sources], np.float64),
        deviation_s=np.array([source.deviation_s for source in graph.sources], np.float64),
        random=np.zeros((2, inputs), np.uint64),
        next_s=np.zeros((2, inputs)),
        phase_end=np.full((2, inputs), np.inf),
        is_low=np.zeros((2, inputs), np.bool_),
        arrived=np.zeros(inputs, np.int64),
        entered=np.zeros(inputs, np.int64),
        lost=np.zeros(inputs, np.int64),
        taken=np.zeros(count, np.int64),
        given=np.zeros(count, np.int64),
        busy=np.zeros(count),
        results=np.zeros(MOST_BUCKETS, np.int64),
        bucket_ends=1e-6 * 2.0 ** (np.arange(1, MOST_BUCKETS) / STEPS),
    )
    for number, (second, _, _) in enumerate(changes):
        push(made.heap, second, 0, pack(CHANGE, number, 0))
    _begin_sources(graph, made)
    return made


def _links(graph: SimulatedGraph) -> tuple[Floats, Ints]:
    """Delays in ms and rows at once, by sender and receiver."""
    hosts = len(graph.hosts)
    delay, rows = np.full((hosts, hosts), graph.delay_ms), np.full((hosts, hosts), graph.link_rows, np.int64)
    for link in graph.links:
        delay[link.source, link.target], rows[link.source, link.target] = link.delay_ms, link.rows
    np.fill_diagonal(delay, 0.0)
    return delay, rows


def _begin_sources(graph: SimulatedGraph, made: GraphArrays) -> None:
    """Sources somewhere in their phases, and operators somewhere before their first row."""
    for number, source in enumerate(graph.sources):
        state = random_state(graph.seed, number)
        drawn = draw(state)
        if not source.low or source.low == source.high:
            offset = drawn / source.high if source.offset_s is None else source.offset_s
            made.next_s[:, number] = offset % (1 / source.high)
        else:
            offset = 2 * source.phase_s * drawn if source.offset_s is None else source.offset_s
            end, is_low = -offset, True
            while end <= 0.0:
                end, is_low = (
                    end + max(source.phase_s / 10, spread(state, source.phase_s, source.deviation_s)),
                    not is_low,
                )
            made.phase_end[:, number], made.is_low[:, number] = end, is_low
            made.next_s[:, number] = -1.0  # drawn when the simulation begins
        made.random[:, number] = state[0]
    state = random_state(graph.seed, len(graph.sources))
    made.credit[:] = [draw(state) for _ in graph.operators]
