"""FluxAuto: when it decides, what it moves, and when it leaves things alone. Counts without noise unless it says so."""

import inspect

import numpy as np
import pytest

from evenflow.policy.keyed.flux.auto import FluxAuto
from evenflow.policy.keyed.placement import plan
from evenflow.policy.keyed.unit_loads import smooth
from tests.support.keyed_model import snapshot


class Steady:
    """Workers of constant cost (seconds a row) and units of constant rate; the slowest worker holds up the others."""

    def __init__(self, owners, load, cost, *, used=1.0, report=0.1, **more):
        self.owners, self.load, self.cost = np.array(owners), np.asarray(load, float), np.asarray(cost, float)
        self.used, self.report, self.more = used, report, more
        self.balance, self.time, self.version, self.moved = FluxAuto(), 0.0, 0, 0
        self.rows, self.idle, self.busy = np.zeros(len(load)), np.zeros(len(cost)), np.zeros(len(cost))

    def times(self):
        return np.bincount(self.owners, self.load, len(self.cost)) / self.load.sum() * self.cost

    def tick(self, moving=0, rng=None):
        """One report; the moves that follow."""
        self.time += self.report
        rate = self.used / self.times().max()
        rows = self.load / self.load.sum() * rate * self.report
        rows = rows if rng is None else rng.poisson(rows)
        busy = np.bincount(self.owners, rows, len(self.cost)) * self.cost
        idle = np.maximum(self.report - busy, 0.0)
        self.rows, self.busy, self.idle = self.rows + rows, self.busy + busy, self.idle + idle
        return self.balance.decide(self.snapshot(moving))

    def snapshot(self, moving=0):
        return snapshot(
            self.time, self.owners, self.rows, idle=self.idle, busy=self.busy, workers=range(len(self.cost)),
            version=self.version, moving=moving, moved=self.moved, **self.more,
        )  # fmt: skip

    def obey(self, moves):
        for move in moves:
            assert (self.owners[list(move.units)] == move.source).all()
            self.owners[list(move.units)] = move.target
            self.moved += len(move.units)
            self.version += 1

    def until_moves(self, seconds=5.0):
        for _ in range(round(seconds / self.report)):
            if moves := self.tick():
                return moves
        return []


def even(units, workers):
    return np.arange(units) % workers


def test_hot_units_move_although_it_would_take_too_long_to_move_all():
    """Worker 0 has the hottest unit, a warm one, and 500 light ones with much state; the others have light ones."""
    owners = [0, 0, *np.repeat(range(4), 500)]
    load = [0.4, 0.1, *[0.0002] * 500, *[0.00026] * 1500]
    world = Steady(owners, load, [4e-4] * 4, unit_bytes=[800_000] * len(owners))
    moved = [unit for move in world.until_moves() for unit in move.units]
    assert 1 in moved
    assert 0 not in moved
    assert len(moved) < 200


def test_light_units_move_if_there_is_little_to_move():
    """The same, but the 500 light units, together 3 % of what worker 0 has, are of 1 KB each."""
    owners = [0, 0, *np.repeat(range(4), 500)]
    load = [0.4, 0.1, *[0.00003] * 500, *[0.0003] * 1500]
    world = Steady(owners, load, [4e-6] * 4, unit_bytes=[1_000] * len(owners))
    moved = [unit for move in world.until_moves() for unit in move.units]
    assert 1 in moved
    assert 0 not in moved
    assert len(moved) > 250


def slow(worker, workers=8, factor=1 / 0.43, cost=1e-4):
    return [cost * (factor if j == worker else 1) for j in range(workers)]


def test_it_has_no_parameters():
    assert not inspect.signature(FluxAuto).parameters


def test_slow_worker_is_acted_on_within_half_a_second():
    steady = Steady(even(512, 8), np.ones(512), [1e-4] * 8)
    assert steady.until_moves(3.0) == []
    steady.cost = np.array(slow(3))
    moves = steady.until_moves(0.5)
    assert {move.target for move in moves if move.source == 3} == {0, 1, 2, 4, 5, 6, 7}
    assert sum(len(move.units) for move in moves if move.source != 3) <= 6  # the last per cent
    steady.obey(moves)
    assert steady.times().max() < 1.05 / sum(1 / c for c in steady.cost)
    assert "worker 3 takes 2.1" in moves[0].reason
    assert "noise" in moves[0].reason


def test_capacity_that_comes_back_is_noticed():
    steady = Steady(even(512, 8), np.ones(512), slow(3))
    steady.obey(steady.until_moves())
    assert steady.until_moves(3.0) == []
    steady.cost = np.full(8, 1e-4)
    steady.obey(steady.until_moves(2.0))
    assert steady.times().max() < 1.05 * 1e-4 / 8


def test_equal_workers_are_left_alone():
    assert Steady(even(512, 8), np.ones(512), [1e-4] * 8).until_moves(30) == []


@pytest.mark.parametrize("rows", [100, 1_000, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_moves_nothing(rows, seed):
    steady, rng = Steady(even(256, 4), np.ones(256), [1 / rows] * 4), np.random.default_rng(seed)
    assert [steady.tick(rng=rng) for _ in range(300)] == [[]] * 300


def test_source_is_the_limit():
    assert Steady(even(64, 8), np.ones(64), slow(3), used=0.6).until_moves() == []
    assert Steady(even(64, 8), np.ones(64), slow(3), used=0.8).until_moves()


def test_one_move_a_pair_of_workers():
    moves = Steady([0] * 90 + [1] * 5 + [2] * 5, np.ones(100), [1e-4] * 3).until_moves()
    assert [(move.source, move.target) for move in moves] == [(0, 1), (0, 2)]
    assert all(25 < len(move.units) <= 30 for move in moves)


def test_nothing_flows():
    balance = FluxAuto()
    assert all(balance.decide(snapshot(t / 10, [0, 0, 1], [0, 0, 0], idle=[0, t / 10])) == [] for t in range(50))
    balance = FluxAuto()
    assert all(balance.decide(snapshot(t / 10, [0], [0], workers=[])) == [] for t in range(20))
    assert Steady([0] * 9, np.ones(9), [1e-4]).until_moves() == []


def test_it_waits_for_moves_and_starts_anew():
    steady = Steady(even(512, 8), np.ones(512), slow(3))
    moves = steady.until_moves()
    assert moves
    assert [steady.tick(moving=5) for _ in range(20)] == [[]] * 20
    # Nothing was moved after all: things are measured anew, and the same is decided again.
    assert [steady.tick() for _ in range(8)] == [[]] * 8
    assert steady.until_moves(2.0)


def test_moves_that_do_not_pay():
    """A terabyte a unit: no gain is worth that. A kilobyte is nothing."""
    for size, some in ((10**12, False), (10**3, True)):
        steady = Steady(even(512, 8), np.ones(512), slow(3), unit_bytes=np.full(512, size))
        assert bool(steady.until_moves()) is some


def test_small_imbalance_is_left_alone():
    load = np.ones(800)
    load[::8] *= 1.02
    assert Steady(even(800, 8), load, [1e-4] * 8).until_moves(20) == []


def test_hottest_unit_alone_cannot_be_helped():
    """Unit 0 has 40 % of the rows. What shares its worker leaves, but for one unit; then nothing can be gained."""
    load = np.r_[400.0, np.full(400, 1.5)]
    steady = Steady(np.r_[0, even(400, 4)], load, [1e-5] * 4)
    moves = steady.until_moves()
    assert {move.source for move in moves} == {0}
    assert all(0 not in move.units for move in moves)
    steady.obey(moves)
    assert steady.times().max() < 1.03 * 0.4e-5
    assert steady.until_moves(20) == []


def test_hottest_unit_goes_to_the_fastest_worker():
    """Worker 0 is slow and holds the hottest unit, and nobody has room for it: others have to make some."""
    load = np.r_[300.0, np.full(700, 1.0)]
    steady = Steady(np.r_[0, 1 + even(700, 2)], load, [2e-5, 1e-5, 1e-5])
    before = steady.times().max()
    moves = steady.until_moves()
    steady.obey(moves)
    assert steady.owners[0] != 0
    assert steady.times().max() < 0.72 * before
    assert any(move.target == 0 for move in moves)


def test_a_worker_that_joins_gets_its_share():
    steady = Steady(even(300, 2), np.ones(300), [1e-4, 1e-4])
    assert steady.until_moves(2.0) == []
    steady.cost, steady.idle, steady.busy = np.full(3, 1e-4), np.r_[steady.idle, 0.0], np.r_[steady.busy, 0.0]
    steady.idle[2] = steady.time
    steady.obey(steady.until_moves(1.0))
    assert np.bincount(steady.owners).tolist() == pytest.approx([100, 100, 100], abs=2)


def test_units_without_a_live_owner_are_left_alone():
    steady = Steady(np.r_[even(300, 2), [7] * 10], np.ones(310), [1e-4] * 8)
    balance = steady.balance
    for tick in range(1, 50):
        rows = np.r_[np.full(300, tick * 10), np.zeros(10)]
        moves = balance.decide(
            snapshot(
                tick / 10, steady.owners, rows, idle=[0, 0.05 * tick], busy=[0.1 * tick, 0.05 * tick], workers=[0, 1]
            )
        )
        assert all({move.source, move.target} == {0, 1} for move in moves)
        assert all(unit < 300 for move in moves for unit in move.units)
        if moves:
            return
    pytest.fail("worker 0 costs twice as much as worker 1, and nothing moved")


def test_counters_that_go_back_start_anew():
    steady = Steady(even(512, 8), np.ones(512), slow(3))
    for _ in range(40):
        assert steady.tick() == []
        steady.busy[5] -= 0.2  # with every report: there is nothing to go by
    assert steady.until_moves(1.0)


class Unlike(Steady):
    """Rows of some units cost more than others, which nobody is told."""

    def __init__(self, weight, *args):
        super().__init__(*args)
        self.weight = weight

    def times(self):
        return np.bincount(self.owners, self.load * self.weight, len(self.cost)) / self.load.sum() * self.cost

    def tick(self, rng):
        self.time += self.report
        rows = rng.poisson(self.load / self.load.sum() / self.times().max() * self.report)
        busy = np.bincount(self.owners, rows * self.weight, len(self.cost)) * self.cost
        self.rows, self.busy = self.rows + rows, self.busy + busy
        self.idle = self.idle + np.maximum(self.report - busy, 0.0)
        return self.balance.decide(self.snapshot())


@pytest.mark.parametrize("heavy", [1, 6])
def test_moves_that_fail_become_rare(heavy):
    """Heavy rows make whoever has them look slow, wherever they go: no plan holds, and fewer and fewer are made."""
    weight = np.where(np.arange(128) < heavy, 15.0, 1.0)
    steady, rng, decisions = Unlike(weight, even(128, 4), np.ones(128), [1e-5] * 4), np.random.default_rng(1), []
    for tick in range(1_200):
        if moves := steady.tick(rng):
            steady.obey(moves)
            decisions.append(tick / 10)
    gaps = np.diff(decisions)
    assert 3 < len(decisions) < 20
    assert gaps[:2].max() < 1.5
    assert gaps[-1] > 10


def test_chance_is_taken_out_of_loads():
    rng, owner = np.random.default_rng(1), even(1_000, 4)
    counts = rng.poisson(20.0, 1_000).astype(float)
    workers = np.bincount(owner, counts)
    smoothed, real = smooth(counts, owner, workers**-0.5, 1.0)
    assert np.ptp(smoothed) < 0.2 * np.ptp(counts)
    assert real < 0.7
    counts[:10] = 3_000.0
    smoothed, real = smooth(counts, owner, np.bincount(owner, counts) ** -0.5, 1.0)
    assert smoothed[:10] == pytest.approx(3_000, rel=0.05)
    assert real > 0.9
    assert smoothed.sum() == pytest.approx(counts.sum(), rel=0.02)


@pytest.mark.parametrize(
    ("owner", "load", "cost", "after"),
    [
        ([0, 0, 0, 0], [1, 1, 1, 1], [1, 1], 2.0),
        ([0, 0, 0], [2, 1, 1], [1, 1], 2.0),
        ([0, 0, 1, 1], [1, 1, 1, 1], [1, 1], 2.0),  # don't over balance
        ([0, 0, 1], [3, 3, 2], [1, 1], 5.0),  # 3 + 3 and 2: the best is 3 + 2 and 3
        ([0, 0, 1, 1], [5, 5, 3, 3], [1, 1], 8.0),  # only a swap helps
        ([0] * 6, [1] * 6, [1, 0.5], 2.0),
    ],
)
def test_plans(owner, load, cost, after):
    load, cost = np.array(load, float), np.array(cost, float)
    bound = max(load.sum() / (1 / cost).sum(), cost.min() * load.max())
    assert plan(np.array(owner), load, cost, bound, False)[-1].worst == pytest.approx(after)
