"""FluxMemory as in §6.2 and FluxHybrid as in §6.4: who gives to whom, which unit goes, when it is memory or load."""

from dataclasses import replace

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.policy.keyed.flux.hybrid import FluxHybrid
from evenflow.policy.keyed.flux.load import Flux
from evenflow.policy.keyed.flux.memory import FluxMemory
from tests.support.keyed_model import snapshot


def one_round(owners, sizes, memory, balance=None, *, rows=None, used=None, disk=(), **more):
    """What the balance decides after a collection phase of 1 s; (unit, source, target). `disk` are units that spill."""
    balance = balance or FluxMemory()
    workers = more.get("workers", sorted(set(owners)))
    rows = np.zeros(len(owners)) if rows is None else rows
    used = [1.0] * len(workers) if used is None else used
    resident = ~np.isin(np.arange(len(owners)), list(disk))
    spilled = [int(sum(sizes[u] for u in disk if owners[u] == worker)) for worker in workers]
    more |= {"unit_bytes": sizes, "memory": memory, "spilled": spilled, "unit_resident": resident}
    assert balance.decide(snapshot(0, owners, np.zeros(len(owners)), idle=[0.0] * len(workers), **more)) == []
    moves = balance.decide(snapshot(1, owners, rows, idle=[1 - u for u in used], **more))
    assert all(len(move.units) == 1 for move in moves)
    return [(move.units[0], move.source, move.target) for move in moves]


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        (FluxMemory, {"delta_min": 0}, "delta_min is 0"),
        (FluxMemory, {"th_imb": 0.9}, "th_imb is 0.9"),
        (FluxMemory, {"th_imb": float("nan")}, "th_imb is nan"),
        (FluxHybrid, {"th_imb": 0.9}, "th_imb is 0.9"),
        (FluxHybrid, {"th_util": 0}, "th_util is 0"),
        (FluxHybrid, {"delta_min": -1}, "delta_min is -1"),
    ],
)
def test_parameters_are_checked(kind, options, named):
    with pytest.raises(InvalidArgument, match=named):
        kind(**options)


@pytest.mark.parametrize(
    ("disk", "moves"),
    [
        ([2], [(0, 0, 3), (4, 1, 2)]),  # the largest in memory; 50 would leave 1 and 2 further apart, 20 does not
        ([0], [(1, 0, 3), (4, 1, 2)]),  # the largest is on disk
        ([0, 1, 2], [(0, 0, 3), (4, 1, 2)]),  # all are
    ],
)
def test_pairs_by_excess_capacity(disk, moves):
    """Budgets of 100, excess capacities -40, 20, 50 and 80."""
    owners = [0, 0, 0, 1, 1, 1, 2, 3]
    sizes = [60, 50, 30, 50, 20, 10, 50, 20]
    assert one_round(owners, sizes, [100] * 4, disk=disk) == moves


@pytest.mark.parametrize(
    ("sizes", "memory", "moves"),
    [
        ([30, 30, 30, 30], [100, 100], []),
        ([30, 5, 30, 0], [100, 100], []),  # 35 % of memory and 30 %: less than 1.2 times as much
        ([30, 6, 30, 0], [100, 100], []),  # 1.2 times, but as far apart after as before
        ([31, 6, 30, 0], [100, 100], [(1, 0, 1)]),
        ([15, 14, 15, 5], [100, 100], []),  # 9 apart, and every unit is larger
        ([15, 4, 15, 0], [100, 100], []),
        ([15, 3, 10, 4], [100, 100], [(1, 0, 1)]),
        ([20, 10, 40, 20], [40, 100], [(0, 0, 1)]),  # 75 % of memory and 60 %
        ([20, 8, 40, 20], [40, 100], []),  # 70 %
        ([90, 11, 90, 0], [100, 100], []),  # 11 apart: the other would spill instead
        ([90, 11, 80, 0], [100, 100], [(1, 0, 1)]),
        ([90, 1, 90, 0], [90, 90], []),
        ([90, 1, 89, 0], [90, 90], [(1, 0, 1)]),  # who spills need not pass the threshold
        ([200, 40, 100, 50], [100, 100], [(1, 0, 1)]),  # both spill: what is on disk is evened out
        ([50, 50, 20, 20], [60, 60], [(0, 0, 1)]),  # which may make the other spill a little
        ([30, 30, 0, 0], [0, 0], []),
        ([30, 30, 0, 0], [50, 0], [(0, 0, 1)]),  # no budget: room for all
        ([20, 20, 0, 0], [50, 0], []),  # but there is no need
        ([0, 0, 30, 30], [50, 0], []),
    ],
)
def test_which_unit_goes(sizes, memory, moves):
    assert one_round([0, 0, 1, 1], sizes, memory) == moves


def test_smaller_budget_means_less_excess():
    assert one_round([0, 0, 1, 1], [20, 10, 20, 10], [40, 100]) == [(0, 0, 1)]
    assert one_round([0, 0, 1, 1], [20, 10, 20, 10], [40, 100], FluxMemory(th_imb=3)) == []


def test_state_of_other_operators_counts():
    owners, sizes = [0, 0, 1, 1], [10, 10, 10, 10]
    balance, moves = FluxMemory(), []
    for time in (0, 1):
        plain = snapshot(time, owners, [0] * 4, unit_bytes=sizes, memory=[100, 100])
        first, second = plain.consumers
        moves += balance.decide(replace(plain, consumers=(replace(first, resident=70), second)))
    (move,) = moves
    assert (move.units, move.source, move.target) == ((0,), 0, 1)
    assert move.reason == "excess capacity 0.0 MB and 0.0 MB, mean 0.0 MB"


def test_nothing_to_move():
    assert one_round([0, 0], [9, 9], [10]) == []
    assert one_round([1, 1], [0, 0], [10, 10], workers=[0, 1]) == []
    assert FluxMemory().decide(snapshot(0, [0], [0], workers=[])) == []


def test_memory_policy_is_blind_to_load():
    rows, used = [900, 50, 50, 10], [1.0, 0.1]
    assert one_round([0, 0, 1, 1], [10] * 4, [100, 100], rows=rows, used=used) == []


LOADED = {"rows": [12, 60, 30, 10], "used": [0.9, 0.1]}


@pytest.mark.parametrize(
    ("sizes", "memory", "disk", "moves"),
    [
        ([10, 20, 5, 10], [100, 100], [], [(1, 0, 1)]),  # as Flux
        ([10, 20, 5, 10], [100, 25], [], [(2, 0, 1)]),  # 20 would not fit
        ([10, 20, 5, 10], [100, 30], [], [(1, 0, 1)]),  # 20 fits just so
        ([10, 20, 5, 10], [100, 14], [], []),
        ([10, 20, 5, 10], [0, 0], [], [(1, 0, 1)]),  # no budgets
        ([10, 20, 5, 10], [100, 9], [3], [(3, 1, 0)]),  # 1 spills: memory it is, against the load
        ([10, 20, 5, 10], [34, 40], [2], [(1, 0, 1)]),  # memory, in the direction of load
    ],
)
def test_hybrid_is_memory_while_anybody_spills(sizes, memory, disk, moves):
    assert one_round([0, 0, 0, 1], sizes, memory, FluxHybrid(), disk=disk, **LOADED) == moves


def test_hybrid_is_flux_in_ample_memory():
    owners, rows = [1, 1, 2, 2, 2, 3, 4], [30, 70, 60, 10, 20, 50, 20]
    used = [1.0, 0.9, 0.5, 0.2]
    for balance in (Flux(), FluxHybrid()):
        assert one_round(owners, [10] * 7, [100] * 4, balance, rows=rows, used=used) == [(1, 1, 4), (4, 2, 3)]


def test_one_round_after_the_other():
    """As in Figure 11: one unit a pair and round, until nobody spills and memory is used about evenly."""
    owners, sizes = np.arange(80) % 4, np.full(80, 10)
    balance, memory, rounds = FluxMemory(), [100, 300, 300, 300], 0
    version, spills = 0, []
    for tick in range(100):
        state = np.bincount(owners, sizes)
        spilled = np.maximum(state - memory, 0)
        spills.append(int(spilled.sum()))
        now = snapshot(tick, owners, [0] * 80, unit_bytes=sizes, memory=memory, spilled=spilled, version=version)
        for move in balance.decide(now):
            assert move.source == 0
            owners[list(move.units)] = move.target
            version, rounds = version + 1, rounds + 1
    assert spills[0] == 100
    assert spills[-1] == 0
    assert np.bincount(owners, sizes).tolist() == [90, 230, 240, 240]  # 90 % is less than 1.2 times 77 %
    assert rounds == 11
