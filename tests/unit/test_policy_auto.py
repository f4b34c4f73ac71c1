"""Auto: memory first, without parameters; load as FluxAuto, where there is memory for it."""

import inspect

import numpy as np
import pytest

from evenflow.policy import KEYED_BALANCES
from evenflow.policy.keyed.auto import Auto
from evenflow.policy.keyed.flux.auto import FluxAuto
from evenflow.policy.keyed.placement import StateLimits, plan
from tests.support.keyed_model import drive, shares, snapshot


class Still:
    """State that stays as it is, and no rows: nothing but memory."""

    def __init__(self, owners, sizes, memory, **more):
        self.owners, self.sizes, self.memory = np.array(owners), np.asarray(sizes), np.asarray(memory)
        self.balance, self.time, self.version, self.more = Auto(), 0.0, 0, more

    def state(self):
        return np.bincount(self.owners, self.sizes, len(self.memory))

    def tick(self, **more):
        self.time += 0.1
        spilled = np.maximum(self.state() - self.memory, 0).astype(int).tolist()
        return self.balance.decide(
            snapshot(
                self.time, self.owners, np.zeros(len(self.owners)), workers=range(len(self.memory)),
                unit_bytes=self.sizes, memory=self.memory.tolist(), spilled=spilled, version=self.version,
                **{**self.more, **more},
            )
        )  # fmt: skip

    def obey(self, moves):
        for move in moves:
            assert (self.owners[list(move.units)] == move.source).all()
            self.owners[list(move.units)] = move.target
            self.version += 1

    def rounds(self, seconds=5.0):
        """Units moved, decision by decision."""
        moved = []
        for _ in range(round(seconds * 10)):
            moves = self.tick()
            self.obey(moves)
            if moves:
                moved.append(sum(len(move.units) for move in moves))
        return moved


def test_it_has_a_name_and_no_parameters():
    assert KEYED_BALANCES["auto"] is Auto
    assert not inspect.signature(Auto).parameters


@pytest.mark.parametrize(
    ("owners", "sizes", "memory", "state"),
    [
        ([0] * 6 + [1], [10] * 7, [50, 100], [40, 30]),  # 0 spills 10: with one unit less it would be just full
        ([0] * 6 + [1] * 8, [10] * 14, [60, 120], [50, 90]),  # 0 is just full
        ([0] * 6 + [1, 2], [10] * 8, [50, 50, 50], [40, 20, 20]),
        ([0] * 4 + [1], [10] * 5, [50, 100], [40, 10]),  # nobody is short of memory
        ([0, 0, 1], [40, 30, 10], [50, 50], [40, 40]),  # the smaller one fits
        ([0, 0, 1], [30, 30, 30], [50, 50], [60, 30]),  # no unit fits anywhere
        ([0, 0, 1, 1], [30, 30, 30, 30], [50, 50], [60, 60]),  # nothing to gain
        ([0] * 12 + [1] * 2, [10] * 14, [50, 50], [70, 70]),  # the disks share what no memory holds
        ([0] * 6, [10] * 6, [50, 0], [40, 20]),  # no budget: room for all
        ([0] * 6, [10] * 6, [0, 0], [60, 0]),
    ],
)
def test_who_is_relieved(owners, sizes, memory, state):
    still = Still(owners, sizes, memory)
    assert len(still.rounds()) <= 2
    assert still.state().tolist() == state
    assert still.rounds() == []


def test_units_in_memory_go_first():
    still = Still(
        [0] * 6 + [1], [10] * 7, [50, 100], unit_resident=np.array([False, False, False, True, True, True, True])
    )
    still.tick()
    assert [move.units for move in still.tick()] == [(3, 4)]


def test_idle_state_goes_before_busy_state():
    """Units 0 to 29 have nearly all the rows; all have as much state. It is the others that leave."""
    load = np.r_[np.full(30, 100.0), np.ones(30), np.full(30, 100.0)]
    owners, rows, balance = np.r_[np.zeros(60, int), np.ones(30, int)], np.zeros(90), Auto()
    moves = []
    for tick in range(20):
        rows = rows + load
        memory = [1000, 1000] if tick < 10 else [500, 1000]
        spilled = [0, 0] if tick < 10 else [100, 0]
        moves += balance.decide(
            snapshot(
                tick / 10, owners, rows, idle=[tick / 20] * 2, unit_bytes=[10] * 90, memory=memory, spilled=spilled,
                moving=int(bool(moves)),
            )
        )  # fmt: skip
    (move,) = moves
    assert (move.source, move.target) == (0, 1)
    assert min(move.units) >= 30
    assert len(move.units) == 15
    assert move.reason == "worker 0 has -20% of its memory free; 10% is the aim"


def test_it_waits_until_all_have_reported_after_moves():
    still = Still([0] * 6 + [1], [10] * 7, [50, 100])
    assert still.tick(moving=1) == []
    assert still.tick() == []  # what is said of memory may be from before
    moves = still.tick()
    assert moves
    assert [still.tick(moving=2), still.tick(moving=1)] == [[], []]


def test_moves_that_are_taken_back_become_rare():
    still, times = Still([0] * 6 + [1], [10] * 7, [50, 100]), []
    for _ in range(600):
        if still.tick(undone=len(times)):
            times.append(still.time)
    gaps = np.diff(times)
    assert gaps[0] < 1.5
    assert (np.diff(gaps) > -0.2).all()
    assert gaps[-1] == pytest.approx(20, abs=0.2)


def test_without_budgets_it_is_flux_auto():
    logs = []
    for balance in (FluxAuto(), Auto()):
        run = drive(balance, shares("1.0", 128, 3), [0.43] + [1.0] * 3, 8, seed=3)
        logs.append((run.moved.tolist(), run.first_move, run.model.table.owners.tolist()))
    assert logs[0] == logs[1]
    assert sum(logs[0][0]) > 0


@pytest.mark.parametrize(
    ("room", "after"),
    [
        ([0, 100], 2.0),
        ([0, 20], 2.0),
        ([0, 19], 3.0),
        ([0, 9], 4.0),
        ([100, 0], 4.0),
    ],
)
def test_plans_keep_to_limits(room, after):
    limits = StateLimits(np.array([10, 10, 10, 10]), np.array(room, float))
    steps = plan(np.zeros(4, np.int64), np.ones(4), np.ones(2), 2.0, False, limits)
    assert steps[-1].worst == after


def test_a_swap_needs_room_on_both_sides():
    owner, load, cost = np.array([0, 0, 1, 1]), np.array([5.0, 5, 3, 3]), np.ones(2)
    for room, after in (([10, 10], 8.0), ([9, 10], 10.0), ([10, 9], 10.0)):
        limits = StateLimits(np.full(4, 10), np.array(room, float))
        assert min(step.worst for step in plan(owner, load, cost, 8.0, False, limits)) == after
