"""Memory budgets of simulated workers: what goes to disk and when, what waits for it, and that nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest

from evenflow.control.events import MoveAskedEvent
from evenflow.errors import SimulationError
from evenflow.model import MoveUnits
from evenflow.policy import keyed_balance_named
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import KeyedSetup, MemoryStep
from evenflow.sim.simulation import Simulation

MB = 1_000_000
SMALL = KeyedSetup(
    workers=4, feeders=2, units=32, groups=256, skew_rows=256, row_us=100.0, unit_bytes=MB, memory_bytes=12 * MB,
    seek_jitter_ms=0.0,
)  # fmt: skip
SQUEEZED = replace(SMALL, memory=(MemoryStep(1.0, 0, 4 * MB),))


def simulated(setup, balance="hash", **options):
    plane = KeyedPlane(setup, keyed_balance_named(balance, **options), sample_s=0.1)
    return plane, Simulation(plane, setup.workers)


def test_what_does_not_fit_is_written_before_anything_else():
    """Eight units of 1 MB, room for four: four times 5 ms to seek and 50 ms to write."""
    _, world = simulated(SQUEEZED)
    world.run(3.0)
    (answer,) = world.log.of("memory-set")
    assert answer["seconds"] == pytest.approx(4 * 0.055, abs=0.002)
    assert (answer["resident"], answer["spilled"]) == (4 * MB, 4 * MB)
    assert [entry["time"] for entry in world.log.of("memory-asked")] == [1.0]


def test_a_budget_that_is_too_small_from_the_start_is_kept():
    plane, world = simulated(replace(SMALL, memory=(MemoryStep(0.0, 0, 4 * MB),)))
    world.run(1.0)
    assert plane.memory.told(0)["resident"] <= 4 * MB
    assert plane.rows["pending"] > 0


@pytest.mark.parametrize("bound", [0, 3 * MB])
def test_a_unit_that_outgrows_its_workers_memory_is_told(bound):
    """It could never be read again, and its rows would wait for ever; with a bound that fits, all goes on."""
    growing = replace(SMALL, unit_bytes=1_000, growth_bytes=10_000.0, most_unit_bytes=bound, memory_bytes=4 * MB)
    plane, world = simulated(growing)
    if bound:
        world.run(3.0)
        assert plane.memory.told(0)["spilled"] > 0
        return
    with pytest.raises(SimulationError, match=r"unit \d+ has \d{7} bytes at second .* give more memory_bytes"):
        world.run(10.0)


def test_units_take_turns_in_memory():
    """A turn is writing one, reading another and waiting as long as that took: some 165 ms. All units get theirs."""
    plane, world = simulated(SQUEEZED)
    world.run(1.3)
    seen = set()
    for turn in range(1, 40):
        world.run(1.3 + 0.05 * turn)
        told = plane.memory.told(0)
        assert told["resident"] <= told["memory"] == 4 * MB
        assert told["resident"] + told["spilled"] == 8 * MB or plane.arrays.workers["state"][0] == 2
        seen |= set(told["on_disk"].tolist())
    assert seen == set(range(0, 32, 4))


def test_rows_wait_for_units_on_disk_and_none_is_lost():
    plane, world = simulated(replace(SQUEEZED, rows=60_000))
    world.run(2.0)
    where = plane.rows
    assert where["pending"] > 0
    assert where.pop("made") == sum(where.values())
    told = world.controller.region("keyed").snapshot(2.0)
    assert told.consumers[0].spilled > 0
    assert told.consumers[0].pending > 0
    assert set(np.flatnonzero(~told.unit_resident)) <= set(range(0, 32, 4))
    assert (~told.unit_resident).sum() >= 4
    world.run(20.0)
    assert plane.rows["served"] == plane.rows["made"] == 60_000
    assert plane.arrays.pending.sum() == 0


def test_latency_counts_the_wait_for_a_unit():
    plane, world = simulated(replace(SQUEEZED, rates=((0.0, 4_000.0),)))
    world.run(6.0)
    before, after = plane.measures.mean(0.5, 1.0)[1], plane.measures.mean(4.0, 6.0)[1]
    assert before < 1.0
    assert after > 20 * before


def test_memory_that_is_given_back_brings_all_units_back():
    plane, world = simulated(replace(SQUEEZED, memory=(MemoryStep(1.0, 0, 4 * MB), MemoryStep(2.0, 0, 12 * MB))))
    world.run(4.0)
    assert plane.memory.told(0)["spilled"] == 0
    assert plane.rows["pending"] == 0
    assert plane.measures.mean(3.5, 4.0)[0] == pytest.approx(4 / 100e-6, rel=0.05)


@pytest.mark.parametrize("place", [0, -1])
def test_a_unit_leaves_from_memory_or_from_disk_with_its_rows(place):
    plane, world = simulated(replace(SQUEEZED, rows=60_000))
    world.run(1.9)
    unit = int(plane.memory.told(0)["on_disk"][place])
    world.handle(MoveAskedEvent(world.time, MoveUnits("keyed", (unit,), 0, 3, "asked")))
    world.run(4.0)
    (moved,) = world.log.of("moved")
    assert moved["bytes"] >= MB
    assert plane.memory.home[unit] == 3
    assert not plane.arrays.units["away"][unit]
    assert plane.arrays.units["waiting"][unit] == 0
    world.run(20.0)
    assert plane.rows["served"] == 60_000


def test_a_move_from_a_worker_that_does_not_answer_is_taken_back():
    """Writing a unit takes 3 s, in which no marker comes through; after 2 s the controller calls the move off."""
    large = replace(
        SMALL, unit_bytes=60 * MB, memory_bytes=720 * MB, memory=(MemoryStep(1.0, 0, 300 * MB),), rows=90_000
    )
    plane, world = simulated(large)
    world.run(1.5)
    world.handle(MoveAskedEvent(1.5, MoveUnits("keyed", (28,), 0, 1, "asked")))
    world.run(8.0)
    (undone,) = world.log.of("move-undone")
    assert "did not answer" in undone["why"]
    assert not world.log.of("moved")
    assert plane.memory.home[28] == 0
    assert (plane.arrays.routes["queue"][:, 28] == 0).all()
    world.run(120.0)
    assert plane.rows["served"] == 90_000


@pytest.mark.parametrize("balance", ["flux-memory", "flux-hybrid", "auto"])
def test_balances_that_know_of_memory_empty_the_disk(balance):
    plane, world = simulated(SQUEEZED, balance)
    world.run(12.0)
    assert plane.memory.told(0)["spilled"] == 0
    assert world.log.of("moved")
    assert np.bincount(plane.memory.home, minlength=4).tolist()[0] <= 4
    assert plane.measures.mean(11.0, 12.0)[0] > 0.7 * 4 / 100e-6


def test_the_same_setup_gives_the_same_moves():
    logs = []
    for _ in range(2):
        _, world = simulated(SQUEEZED, "auto")
        world.run(4.0)
        logs.append(world.log.entries)
    assert logs[0] == logs[1]
