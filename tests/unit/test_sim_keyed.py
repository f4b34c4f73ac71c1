"""The simulated keyed operator: no row is lost or doubled, queues are bounded, moves follow the protocol."""

from dataclasses import replace
from math import inf

import pytest

from evenflow.control.events import MoveAskedEvent
from evenflow.errors import InvalidArgument, SimulationError
from evenflow.model import MoveUnits
from evenflow.policy import keyed_balance_named
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import ExternalLoad, KeyedSetup, KeyPhase, SpeedStep
from evenflow.sim.keyed.transfers import StateTransfer, StateTransfers
from evenflow.sim.log import SimulatedLog
from evenflow.sim.simulation import Simulation

SMALL = KeyedSetup(workers=4, feeders=2, units=32, groups=256, skew_rows=256, row_us=100.0, unit_bytes=80_000)


def simulated(setup, balance="hash", log=None, **options):
    plane = KeyedPlane(setup, keyed_balance_named(balance, **options), sample_s=0.5)
    return plane, Simulation(plane, setup.workers, log=log)


def checked(plane):
    """Where the rows are: all that were made, each once; and none beyond the bounds."""
    where = dict(plane.rows)
    setup = plane.setup
    assert where.pop("made") == sum(where.values())
    assert where["buffered"] <= setup.feeders * max(1, setup.skew_rows)
    assert where["under_way"] <= setup.workers * setup.feeders * setup.connection_packets * setup.packet_rows
    return where


@pytest.mark.parametrize("balance", ["hash", "exchange", "river", "pkg", "flux", "flux-auto", "auto", "dlb-h", "lptf"])
def test_no_row_is_lost_whatever_the_balance(balance):
    load = (ExternalLoad(0, 0.2),)
    plane, world = simulated(replace(SMALL, rows=20_000, loads=load), balance)
    for second in (0.3, 0.7, 1.3):
        world.run(second)
        checked(plane)
    world.run(8.0)
    assert checked(plane) == {"buffered": 0, "under_way": 0, "in_service": 0, "pending": 0, "served": 20_000}
    assert plane.ended
    assert len(world.log.of("feeder-left")) == 2
    region = world.controller.region("keyed")
    assert region.statistics.unit_rows.sum() == region.statistics.unit_arrived.sum() == 20_000
    assert region.performance.total.rows_in == sum(region.performance.total.latencies.rows.values()) == 20_000


def test_throughput_is_what_the_workers_can_do():
    setup = replace(SMALL, row_jitter_us=0.0, feeder_us=0.0, phases=(KeyPhase("uniform"),))
    plane, world = simulated(setup)
    world.run(3.0)
    assert plane.measures.mean(1.0, 3.0)[0] == pytest.approx(4 / 100e-6, rel=0.01)


def test_the_slowest_worker_limits_all_once_the_buffer_is_full():
    setup = replace(SMALL, row_jitter_us=0.0, feeder_us=0.0, speeds=(0.5, 1.0, 1.0, 1.0))
    plane, world = simulated(setup)
    world.run(4.0)
    assert plane.measures.mean(2.0, 4.0)[0] == pytest.approx(4 * 0.5 / 100e-6, rel=0.02)


def test_an_external_load_takes_what_it_computes():
    """It computes 100 us and sleeps 50, waits 25 for the processor: rows get 75 of 175."""
    one = KeyedSetup(
        workers=1, feeders=1, units=1, row_jitter_us=0.0, feeder_us=0.0, loads=(ExternalLoad(0, 1.0, 3.0),)
    )
    plane, world = simulated(one)
    world.run(4.0)
    rates = [plane.measures.mean(since, since + 0.5)[0] * 45e-6 for since in (0.5, 1.0, 2.0, 3.0)]
    assert rates == pytest.approx([1.0, 75 / 175, 75 / 175, 1.0], rel=0.01)


def test_speeds_change_when_they_are_to():
    one = KeyedSetup(workers=1, feeders=1, units=1, row_jitter_us=0.0, feeder_us=0.0, steps=(SpeedStep(0, 1.0, 0.25),))
    plane, world = simulated(one)
    world.run(2.0)
    rates = plane.measures.throughput * 45e-6
    assert rates == pytest.approx([1.0, 1.0, 0.25, 0.25], rel=0.01)


def test_rows_come_at_the_rate_that_is_given():
    rates = ((0.0, 1000.0), (1.0, 0.0), (2.0, 500.0))
    plane, world = simulated(replace(SMALL, rates=rates))
    world.run(4.0)
    assert plane.measures.throughput == pytest.approx([1000, 1000, 0, 0, 500, 500, 500, 500], abs=20)
    assert plane.rows["made"] == pytest.approx(2000, abs=2)


def test_a_row_of_an_idle_cluster_takes_a_packet_and_its_service():
    """At 100 rows a second nothing waits: 70 us on the way and 100 us of service, by hand."""
    setup = replace(SMALL, rates=((0.0, 100.0),), row_jitter_us=0.0, feeder_us=0.0, rows=100)
    plane, world = simulated(setup)
    world.run(3.0)
    latencies = world.controller.region("keyed").performance.total.latencies
    late = 4  # rows that came before the routing table did
    assert latencies.total_s / 100 == pytest.approx(170e-6, abs=1e-3 * late / 100)
    assert plane.measures.mean(0.5, 1.0)[1] == pytest.approx(0.1)


def test_units_follow_their_popularity():
    setup = replace(SMALL, phases=(KeyPhase("zipf", exponent=1.0, seconds=1.0), KeyPhase("uniform", seconds=1.0)))
    _, world = simulated(setup)
    counts = []
    for second in (1.0, 2.0):
        world.run(second)
        counts.append(world.controller.region("keyed").statistics.unit_arrived.copy())
    zipf, even = counts[0] / counts[0].sum(), (counts[1] - counts[0]) / (counts[1] - counts[0]).sum()
    assert zipf.max() > 0.15
    assert even.max() < 0.05


def test_a_trace_of_units_is_followed():
    setup = replace(SMALL, trace=(3, 3, 3, 7), rows=8_000)
    _, world = simulated(setup)
    world.run(3.0)
    arrived = world.controller.region("keyed").statistics.unit_arrived
    assert arrived[3] == 6_000
    assert arrived[7] == 2_000


def test_a_move_goes_the_whole_way():
    plane, world = simulated(SMALL)
    world.run(1.0)
    world.handle(MoveAskedEvent(1.0, MoveUnits("keyed", (0, 4), 0, 1, "asked")))
    world.run(2.0)
    (moved,) = world.log.of("moved")
    assert (moved["units"], moved["source"], moved["target"], moved["bytes"]) == ([0, 4], 0, 1, 160_000)
    assert moved["seconds"] > 160_000 / (250e6 / 8)
    assert (plane.arrays.routes["queue"][:, [0, 4]] == 1).all()
    assert (plane.memory.home[[0, 4]] == 1).all()
    checked(plane)
    world.run(2.05)  # no report since: rows of the units that moved are served by their new owner alone
    assert plane.arrays.served[1, 0] > 0
    assert plane.arrays.served[0, 0] == 0


def test_a_worker_may_install_state_beside_its_rows():
    """Two seconds of state for one of four workers, each busy for half of its time; rows of the two units wait."""
    busy = replace(SMALL, skew_rows=65_536, rates=((0.0, 20_000.0),), state_row_us=1_000.0, source_part=0.0)
    during = {}
    for share in (0.5, 1.0):
        plane, world = simulated(replace(busy, state_share=share))
        world.run(1.0)
        world.handle(MoveAskedEvent(1.0, MoveUnits("keyed", (0, 4), 0, 1, "asked")))
        world.run(2.0)
        during[share] = plane.measures.throughput[3]
        assert plane.arrays.workers["debt"][0] < 1e-3  # the source owes nothing but the rows that it makes
    assert during[0.5] > 17_500
    assert during[1.0] < 15_500


def test_a_link_may_be_faster_than_the_clock():
    transfers = StateTransfers(1e12, 1e12)
    transfers.begin(2_000.0, StateTransfer(7, 0, 1, 0.05))
    assert transfers.next_end() == 2_000.0
    assert [each.move for each in transfers.done(2_000.0)] == [7]


def test_a_move_whose_markers_are_late_is_recalled_and_may_be_asked_again():
    """Packets of 64 rows take 3.2 s, so that no marker is there within 2 s; then rows cost less."""
    slow = replace(SMALL, packet_rows=64, rows=2_000, speeds=(0.002, 1.0, 1.0, 1.0), steps=(SpeedStep(0, 12.0, 1.0),))
    plane, world = simulated(slow)
    for second in (1.0, 20.0):
        world.run(second)
        world.handle(MoveAskedEvent(second, MoveUnits("keyed", (0, 4), 0, 1, "asked")))
    world.run(22.0)
    assert [entry["why"][:15] for entry in world.log.of("move-undone")] == ["some of feeders"]
    assert len(world.log.of("moved")) == 1
    assert checked(plane)["served"] == 2_000


def test_flux_moves_units_from_the_loaded_worker():
    plane, world = simulated(replace(SMALL, loads=(ExternalLoad(2, 0.5),)), "flux", delta_min=0.05)
    world.run(8.0)
    sources = [entry["source"] for entry in world.log.of("moved")]
    assert sources[0] == 2
    assert len(plane.memory.home[plane.memory.home == 2]) < 8
    before, now = plane.measures.mean(1.0, 2.0)[0], plane.measures.mean(7.0, 8.0)[0]
    assert now > 1.5 * 4 * 75 / 175 / 100e-6
    assert now > before


def test_the_same_setup_gives_the_same_bytes(tmp_path):
    for name in ("one", "other"):
        log = SimulatedLog(tmp_path / name)
        _, world = simulated(replace(SMALL, loads=(ExternalLoad(1, 0.2),)), "flux-auto", log=log)
        world.run(4.0)
        log.close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert b'"moved"' in (tmp_path / "one").read_bytes()


def test_another_seed_gives_other_rows():
    counts = []
    for seed in (1, 2):
        _, world = simulated(replace(SMALL, seed=seed))
        world.run(0.5)
        counts.append(world.controller.region("keyed").statistics.unit_arrived.tolist())
    assert counts[0] != counts[1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"speeds": (1.0,)}, "speeds has 1 numbers for 4 workers"),
        ({"row_us": 0.0}, "row_us is 0.0"),
        ({"packet_us": inf}, "packet_us is inf"),
        ({"loads": (ExternalLoad(9),)}, "for a worker that is not there"),
        ({"loads": (ExternalLoad(0, 1.0), ExternalLoad(0, 0.0, 2.0))}, "loads of worker 0 overlap"),
        ({"rates": ((1.0, 5.0),)}, "from second 0 on"),
        ({"phases": ()}, "phases is empty"),
        ({"phases": (KeyPhase("normal"),)}, "kind is uniform"),
        ({"trace": (99,)}, "trace has units from 99"),
        ({"state_share": 0.0}, "state_share is 0.0"),
        ({"source_part": -1.0}, "source_part is -1.0"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(InvalidArgument, match=says):
        replace(SMALL, **wrong)


def test_a_simulation_of_other_workers_is_refused():
    plane = KeyedPlane(SMALL, keyed_balance_named("hash"))
    with pytest.raises(SimulationError, match="3 workers, and its plane 4"):
        Simulation(plane, 3).run(1.0)


def test_what_waits_for_ever_is_told():
    plane, world = simulated(replace(SMALL, rows=4_000))
    world.run(0.01)
    plane.arrays.heap.counts[0] = 0  # as if all events were gone: nobody serves any more
    assert "wait for worker" in plane.stuck()
