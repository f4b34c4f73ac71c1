"""A simulated graph: rows are neither lost nor doubled, queues are bounded, and times are those worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from evenflow.control.events import MoveAskedEvent
from evenflow.errors import InvalidArgument, SimulationError
from evenflow.model import MoveUnits
from evenflow.policy import Placement, placement_named
from evenflow.policy.graph.random_placement import draws
from evenflow.sim.graphs.model import (
    SimulatedGraph,
    SimulatedHost,
    SimulatedLink,
    SimulatedOperator,
    SimulatedSource,
)
from evenflow.sim.graphs.plane import REGION, GraphPlane
from evenflow.sim.simulation import Simulation

TEN = SimulatedSource("s", 10.0, offset_s=0.05)


class Fixed(Placement):
    """A placement that says what it is told to, always."""

    name = "fixed"

    def __init__(self, *hosts):
        self.hosts = hosts

    def place(self, _problem):
        return self.hosts


def chain(costs, **options):
    """Operators one behind the other, on as many hosts as they are told to be on."""
    names = ["s", *(f"o{number}" for number in range(len(costs)))]
    operators = tuple(
        SimulatedOperator(name, (before,), cost, options.pop(f"selectivity_{name}", 1.0))
        for before, name, cost in zip(names, names[1:], costs, strict=False)
    )
    about = {"sources": (TEN,), "hosts": (SimulatedHost(),) * 2, "move_ms": 1.0, "report_s": 0.5} | options
    return SimulatedGraph(operators=operators, **about)


def run(graph, hosts, seconds, log=None):
    plane = GraphPlane(graph, Fixed(*hosts))
    world = Simulation(plane, len(graph.hosts), log=log)
    world.run(seconds)
    return plane, world


def latency_ms(world, since=0.0):
    """The mean of all results since a second."""
    entries = [entry for entry in world.log.of("graph-results") if entry["time"] > since]
    return 1e3 * sum(entry["total_s"] for entry in entries) / sum(entry["results"] for entry in entries)


def in_graph(g):
    """Rows that are in queues, in service, on links, or wait for room."""
    return int(g.waiting.sum() + (g.serving >= 0).sum() + g.on_link.sum() + g.ready_count.sum())


# -- times by hand


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [((0, 0, 0), 60.0), ((0, 1, 1), 60.0 + 7.0), ((0, 1, 0), 60.0 + 7.0 + 3.0)],
)
def test_latency_is_service_and_delays(hosts, expected):
    links = SimulatedLink(0, 1, 7.0), SimulatedLink(1, 0, 3.0)
    _, world = run(chain((10.0, 20.0, 30.0), links=links), hosts, 10.0)
    assert latency_ms(world) == pytest.approx(expected)


def test_coefficients_multiply_costs_and_change():
    hosts = SimulatedHost(2.0, changes=((5.0, 4.0),)), SimulatedHost()
    _, world = run(chain((10.0,), hosts=hosts), (0,), 12.0)
    assert latency_ms(world, since=7.0) == pytest.approx(40.0)
    first = [entry for entry in world.log.of("graph-results") if entry["time"] < 5.0]
    assert 1e3 * sum(e["total_s"] for e in first) / sum(e["results"] for e in first) == pytest.approx(20.0)


def test_a_host_serves_rows_in_the_order_in_which_they_came():
    """The row of b comes 10 ms after that of a, and waits for the rest of its 40 ms."""
    sources = SimulatedSource("a", 10.0, offset_s=0.05), SimulatedSource("b", 10.0, offset_s=0.06)
    operators = SimulatedOperator("x", ("a",), 40.0), SimulatedOperator("y", ("b",), 10.0)
    _, world = run(SimulatedGraph(sources, operators, (SimulatedHost(),)), (0, 0), 10.0)
    assert latency_ms(world) == pytest.approx((40.0 + 40.0) / 2)


def test_waiting_is_that_of_an_m_d_1_queue():
    """At half load a row waits half as long as its service takes: rho s / (2 (1 - rho))."""
    source = SimulatedSource("s", 100.0, 99.9999)
    _, world = run(chain((5.0,), sources=(source,), report_s=10.0, period_s=100.0), (0,), 1000.0)
    assert latency_ms(world) == pytest.approx(5.0 + 2.5, rel=0.03)


def test_a_rate_goes_up_and_down():
    source = SimulatedSource("s", 200.0, 50.0, phase_s=10.0, deviation_s=0.01, offset_s=0.0)
    _, world = run(chain((1.0,), sources=(source,)), (0,), 120.0)
    rows = np.array([entry["arrived"] for entry in world.log.of("graph-results")])
    seconds = np.array([entry["time"] for entry in world.log.of("graph-results")]) % 20
    assert rows[(seconds > 2) & (seconds < 10)].mean() == pytest.approx(200.0, rel=0.05)
    assert rows[(seconds > 12) & (seconds < 20)].mean() == pytest.approx(50.0, rel=0.1)


@pytest.mark.parametrize(
    ("options", "rows_s"),
    [
        ({"costs": (1.0, 250.0, 1.0)}, 4.0),  # the slowest operator
        ({"costs": (60.0, 60.0, 60.0)}, 1 / 0.12),  # two of them share a host
        ({"costs": (1.0, 1.0, 1.0), "delay_ms": 500.0, "link_rows": 2}, 4.0),  # two rows in half a second
    ],
)
def test_throughput_is_that_of_the_narrowest_place(options, rows_s):
    plane, world = run(chain(queue_rows=5, **options), (0, 1, 0), 21.0)
    before = plane.results
    world.run(71.0)
    assert (plane.results - before) / 50 == pytest.approx(rows_s, rel=0.02)


@pytest.mark.parametrize(("outside", "expected"), [("waits", 50_000), ("is lost", 1_100)])
def test_rows_for_which_there_is_no_room_wait_outside_or_are_lost(outside, expected):
    """A row takes 0.2 s and one comes every 0.1 s: after 100 s, one has waited 50 s. Inside, five wait and one
    is served: 1.2 s for one that comes as soon as there is room, 1.1 s for one that comes 0.1 s later.
    """
    plane, world = run(chain((200.0,), queue_rows=5, outside=outside), (0,), 101.0)
    assert latency_ms(world, since=99.5) == pytest.approx(expected, rel=0.05)
    g = plane.arrays
    arrived = sum(entry["arrived"] for entry in world.log.of("graph-results"))
    assert int(g.entered[0]) == plane.results + int(g.results.sum()) + in_graph(g)
    assert int(g.lost[0]) == pytest.approx(arrived - int(g.entered[0]) if outside == "is lost" else 0, abs=10)


# -- what rows give


def test_selectivity_lets_through_what_it_says():
    plane, _ = run(chain((1.0, 1.0), selectivity_o0=0.3, selectivity_o1=2.5), (0, 1), 60.0)
    assert plane.results == pytest.approx(600 * 0.3 * 2.5, abs=20)


def test_a_join_pairs_rows_with_a_window_and_results_are_as_old_as_the_youngest():
    """Rows of b come 30 ms behind those of a: pairs with the last two of a are 10 ms old when b has been served."""
    sources = SimulatedSource("a", 10.0, offset_s=0.01), SimulatedSource("b", 10.0, offset_s=0.04)
    operators = (SimulatedOperator("j", ("a", "b"), 10.0, window=2),)
    plane, world = run(SimulatedGraph(sources, operators, (SimulatedHost(),)), (0,), 30.0)
    assert plane.results == pytest.approx(2 * 2 * 300, abs=20)
    assert latency_ms(world) == pytest.approx(10.0)


def test_a_row_goes_once_to_a_host_with_several_readers():
    operators = (
        SimulatedOperator("a", ("s",), 1.0),
        *(SimulatedOperator(name, ("a",), 1.0) for name in ("b", "c", "d")),
    )
    graph = SimulatedGraph((TEN,), operators, (SimulatedHost(),) * 3, report_s=0.5)
    plane, world = run(graph, (0, 1, 1, 2), 20.0)
    links = world.log.of("graph-sample")[-1]["links"]
    assert [(each["from"], each["to"], each["rows_s"]) for each in links] == [(0, 1, 10.0), (0, 2, 10.0)]
    assert plane.results == pytest.approx(600, abs=30)


# -- operators that move


def stirred(seed, graph, seconds=30.0):
    """A run in which operators are moved at random, twice a second."""
    plane = GraphPlane(graph, Fixed(*(number % len(graph.hosts) for number in range(len(graph.operators)))))
    world, drawn = Simulation(plane, len(graph.hosts)), iter((draws(seed, 1000) >> np.uint64(8)).tolist())

    def move(time):
        operator, target = next(drawn) % len(graph.operators), next(drawn) % len(graph.hosts)
        if plane.placed[operator] != target:
            world.handle(MoveAskedEvent(time, MoveUnits(REGION, (operator,), plane.placed[operator], target, "test")))

    world.at(1.0, lambda time: world.every(0.5, move, first=time))
    world.run(seconds)
    return plane, world


@pytest.mark.parametrize("seed", range(4))
def test_no_row_is_lost_or_doubled_while_operators_move(seed):
    sources = (SimulatedSource("s", 60.0, 20.0, phase_s=2.0),)
    graph = chain((4.0, 6.0, 2.0, 5.0), sources=sources, hosts=(SimulatedHost(),) * 3, queue_rows=4, link_rows=2)
    plane, world = stirred(seed, replace(graph, delay_ms=30.0, seed=seed))
    g = plane.arrays
    assert len(world.log.of("moved")) > 10
    results = plane.results + int(g.results.sum())
    assert int(g.entered.sum()) == results + in_graph(g)
    assert (g.reserved <= 4).all()
    assert (g.waiting <= g.reserved).all()
    assert (g.on_link <= 2).all()
    world.run(world.time + 20.0)
    assert plane.results > results + 200


@pytest.mark.parametrize("seed", range(3))
def test_readers_of_one_stream_all_get_every_row_while_they_move(seed):
    """Also if a reader comes to a host to which a row is under way for another one: then it has had that row."""
    operators = (
        SimulatedOperator("a", ("s",), 1.0),
        *(SimulatedOperator(name, ("a",), 1.0) for name in ("b", "c", "d")),
    )
    links = tuple(SimulatedLink(a, b, 400.0 if b == 2 else 5.0) for a in range(3) for b in range(3) if a != b)
    about = (SimulatedSource("s", 50.0),), operators, (SimulatedHost(),) * 3, links
    graph = SimulatedGraph(*about, move_ms=0.0, report_s=1.0)
    plane, world = stirred(seed, graph)
    assert len(world.log.of("moved")) > 10
    g = plane.arrays
    waits = int(g.waiting.sum() - g.waiting[0]) + sum(port > 1 for port in g.serving.tolist())
    flights = np.setdiff1d(np.arange(len(g.flight_free)), g.flight_free[: g.numbers[2]])
    flying = sum(int(mask).bit_count() for mask in g.flight_mask[flights].tolist())
    before = int(g.waiting[0]) + int(g.ready_count.sum()) + (0 in g.serving)
    assert 3 * (int(g.entered[0]) - before) == plane.results + int(g.results.sum()) + waits + flying


def test_a_move_takes_its_time_and_takes_rows_along():
    """20 ms for each of the rows that wait for a slow operator, and the link."""
    graph = chain((1.0, 400.0), queue_rows=10, move_ms=20.0, delay_ms=50.0)
    plane, world = run(graph, (0, 0), 30.0)
    waiting = int(plane.arrays.waiting[2])
    world.handle(MoveAskedEvent(world.time, MoveUnits(REGION, (1,), 0, 1, "test")))
    world.run(32.0)
    (moved,) = world.log.of("moved")
    assert moved["bytes"] == 100 * waiting
    assert 9 <= waiting <= 10
    # Marks of the other host, the end of the row in service, the rows and the link; four messages are under way.
    least = 0.05 + 0.02 * waiting + 0.05
    assert least <= moved["seconds"] <= least + 0.4 + 0.01
    assert plane.placed == [0, 1]


def test_a_move_that_takes_too_long_is_taken_back():
    """What the operator gave cannot go on for 25 s, since the reader takes that long for a row."""
    graph = chain((1.0, 25_000.0), queue_rows=2)
    plane, world = run(graph, (0, 1), 26.0)
    world.handle(MoveAskedEvent(world.time, MoveUnits(REGION, (0,), 0, 1, "test")))
    world.run(46.0)
    assert [entry["why"] for entry in world.log.of("move-undone")]
    assert plane.placed == [0, 1]
    before = plane.arrays.entered[0]
    world.run(100.0)
    assert plane.arrays.entered[0] > before
    assert not plane.arrays.paused.any()


# -- what is told


@pytest.mark.parametrize("told", [True, False])
def test_the_controller_sees_what_is_simulated(told):
    hosts = SimulatedHost(1.0), SimulatedHost(1.0), SimulatedHost(3.0)
    links = (SimulatedLink(0, 2, 40.0, 100), SimulatedLink(2, 0, 40.0, 100))
    about = {"hosts": hosts, "links": links, "told": told, "delay_ms": 8.0, "selectivity_o0": 0.5}
    plane, _ = run(chain((20.0, 10.0, 30.0), **about), (0, 2, 1), 40.0)
    problem = plane.problem()
    assert [np.mean(each.series) for each in problem.operators] == pytest.approx([0.2, 0.05, 0.15], rel=0.02)
    assert [host.coefficient for host in problem.hosts] == pytest.approx([1.0, 1.0, 3.0])
    delay, bandwidth = problem.links.dense(3)
    assert (delay[0, 2], delay[0, 1]) == (pytest.approx(40.0), pytest.approx(8.0))
    assert bandwidth[0, 2] == pytest.approx(100 / 0.04 * 100)
    assert problem.placed == (0, 2, 1)


@pytest.mark.parametrize("name", ["greedy", "dp", "xzh", "potential"])
def test_what_is_decided_is_what_the_placement_says_of_what_was_measured(name):
    """Tolerance: none. The placement alone, asked about the loads that were simulated, gives the same hosts."""
    costs = (12.0, 3.0, 25.0, 8.0, 17.0, 5.0)
    hosts = SimulatedHost(1.0), SimulatedHost(1.5), SimulatedHost(2.0)
    options = {"sources": (SimulatedSource("s", 20.0),), "hosts": hosts, "delay_ms": 4.0, "every_s": 1e6}
    graph, placement = chain(costs, **options), placement_named(name)
    plane = GraphPlane(graph, placement, placement_named("random"))
    world = Simulation(plane, 3)
    world.run(120.0)
    assert world.log.of("moved")
    problem = plane.problem()
    exact = tuple(
        replace(operator, series=(0.02 * cost,) * len(operator.series))
        for operator, cost in zip(problem.operators, costs, strict=True)
    )
    assert [np.mean(each.series) for each in problem.operators] == pytest.approx([np.mean(e.series) for e in exact])
    if name == "potential":
        assert not placement.moves(replace(problem, operators=exact))
    else:
        assert tuple(plane.placed) == tuple(placement.place(replace(problem, operators=exact)))


def test_it_says_who_waits_for_whom():
    plane, _ = run(chain((1.0, 5000.0), queue_rows=2), (0, 1), 20.0)
    assert plane.stuck() == ""  # o1 is slow, but it is at a row
    plane.arrays.heap.counts[0] = 0  # what o1 is at never ends
    assert plane.stuck() == "o0 on host 0 waits for o1"
    assert run(chain((1.0, 1.0)), (0, 1), 5.0)[0].stuck() == ""


# -- what is refused


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SimulatedSource("s", 1.0, 2.0), r"source 's' has rates high=1.0 and low=2.0: give"),
        (lambda: SimulatedSource("s", 1.0, phase_s=0.0), r"phase_s=0.0 .* give seconds"),
        (lambda: SimulatedSource("s", 1.0, offset_s=-1.0), r"offset_s=-1.0: give seconds"),
        (lambda: SimulatedOperator("o", ()), r"has the inputs \(\): name one"),
        (lambda: SimulatedOperator("o", ("a",), -1.0), r"cost_ms of operator 'o' is -1.0: give"),
        (lambda: SimulatedOperator("o", ("a", "b")), r"window=0 and 2 inputs: a join has"),
        (lambda: SimulatedHost(0.0), r"coefficient 0.0 from second 0.0: give"),
        (lambda: SimulatedHost(quota=2.0), r"quota of a host is 2.0: give"),
        (lambda: SimulatedLink(0, 1, 1.0, 0), r"rows=0: give"),
        (lambda: chain((1.0,), queue_rows=0), r"queue_rows of a simulated graph is 0: give"),
        (lambda: chain((1.0,), period_s=0.0), r"period_s of a simulated graph is 0.0: give"),
        (lambda: chain((1.0,), delay_ms=-1.0), r"delay_ms of a simulated graph is -1.0: give"),
        (lambda: chain((1.0,), hosts=()), r"lacks sources, operators or hosts: give"),
        (lambda: chain((1.0,), links=(SimulatedLink(0, 5, 1.0),)), r"from host 0 to host 5: name two of hosts 0 to 1"),
        (lambda: chain((1.0,), sources=(TEN, TEN)), r"two sources are called 's': give"),
        (
            lambda: SimulatedGraph((TEN,), (SimulatedOperator("o", ("x",)),), (SimulatedHost(),)),
            r"operator 'o' reads 'x', which is no source .*: there are s",
        ),
        (
            lambda: SimulatedGraph((TEN,), (SimulatedOperator("s", ("s",)),), (SimulatedHost(),)),
            r"two are called 's': give",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(InvalidArgument, match=said):
        make()


def test_workers_and_hosts_are_as_many():
    with pytest.raises(SimulationError, match="has 3 workers, the graph 2 hosts"):
        Simulation(GraphPlane(chain((1.0,)), Fixed(0)), 3).run(1.0)
