"""The feeders of flux §5.1 in the simulation: rows wait by unit, packets leave when they are full, work while idle."""

from dataclasses import replace

import pytest

from evenflow.control.events import MoveAskedEvent
from evenflow.model import MoveUnits
from evenflow.policy import keyed_balance_named
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import ExternalLoad, KeyedSetup
from evenflow.sim.simulation import Simulation

SMALL = KeyedSetup(
    workers=4,
    feeders=2,
    units=32,
    groups=256,
    skew_rows=256,
    row_us=100.0,
    unit_bytes=80_000,
    skew_by_unit=True,
    full_packets=True,
)
POPULAR = replace(SMALL, trace=(0,) * 9 + (4,))
"""Nine rows in ten are of unit 0, the others of unit 4; both are on worker 0."""


def simulated(setup, balance="hash"):
    plane = KeyedPlane(setup, keyed_balance_named(balance), sample_s=0.5)
    return plane, Simulation(plane, setup.workers)


@pytest.mark.parametrize("balance", ["hash", "exchange", "river", "pkg", "flux", "auto"])
def test_no_row_is_lost_and_none_stays_in_a_packet_that_is_not_full(balance):
    plane, world = simulated(replace(SMALL, rows=20_005, loads=(ExternalLoad(0, 0.2),)), balance)
    for second in (0.3, 0.7, 1.3, 8.0):
        world.run(second)
        where = plane.rows
        assert where.pop("made") == sum(where.values())
    assert where == {"buffered": 0, "under_way": 0, "in_service": 0, "pending": 0, "served": 20_005}
    assert plane.ended


def test_a_feeder_that_waits_for_its_source_sends_what_it_has():
    plane, world = simulated(replace(SMALL, rates=((0.0, 100.0),)))
    world.run(2.0)
    assert plane.rows["served"] == pytest.approx(200, abs=5)


def test_packets_are_full_when_there_are_always_rows():
    plane, world = simulated(SMALL)
    world.run(0.9)
    lines = plane.arrays.lines
    assert lines["frames"].sum() > 100
    assert (lines["rows"] == SMALL.packet_rows * lines["frames"]).all()


def test_rows_join_packets_under_way_otherwise():
    plane, world = simulated(replace(SMALL, full_packets=False))
    world.run(0.9)
    lines = plane.arrays.lines
    assert lines["rows"].sum() < SMALL.packet_rows * lines["frames"].sum()


def test_rows_of_a_popular_unit_do_not_hold_up_those_of_others():
    """Turns are by unit: unit 0 fills the buffer, unit 4 on the same worker is served as its rows come."""
    plane, world = simulated(POPULAR)
    world.run(1.0)
    waiting = plane.arrays.unit_queues["count"]
    assert plane.arrays.queues["count"][:, 0].tolist() == waiting.sum(axis=1).tolist()
    assert waiting[:, 0].min() >= 0.9 * SMALL.skew_rows
    assert waiting[:, 4].max() < SMALL.packet_rows  # what came since the last packet; in one queue it would be a tenth


def test_rows_that_wait_go_with_their_unit():
    """Units 0 and 4 leave worker 0 for worker 1, one after the other, while their rows fill the buffer."""
    plane, world = simulated(POPULAR)
    world.run(1.0)
    for unit, until in ((0, 1.5), (4, 2.0)):
        world.handle(MoveAskedEvent(world.time, MoveUnits("keyed", (unit,), 0, 1, "asked")))
        world.run(until)
        assert [each["units"] for each in world.log.of("moved")][-1] == [unit]
        where = plane.rows
        assert where.pop("made") == sum(where.values())
    assert plane.arrays.queues["count"][:, 0].tolist() == [0, 0]
    before = plane.rows["served"]
    world.run(3.0)
    assert plane.rows["served"] - before == pytest.approx(1 / 100e-6, rel=0.03)


def test_what_a_feeder_does_is_not_time_that_an_idle_worker_is_busy():
    """Flux §5.1: feeders have threads of their own, and idle is who waits for rows; installing a unit is work."""
    _, world = simulated(replace(POPULAR, feeder_us=20.0))
    world.run(1.0)
    consumers = world.controller.region("keyed").statistics.consumers
    assert consumers[1].busy_s == 0.0
    assert consumers[1].idle_s == pytest.approx(consumers[1].seconds)
    assert consumers[0].busy_s > 0.95 * consumers[0].seconds
    world.handle(MoveAskedEvent(world.time, MoveUnits("keyed", (8,), 0, 1, "asked")))
    world.run(2.0)
    assert consumers[1].busy_s == pytest.approx(SMALL.moving_s)
