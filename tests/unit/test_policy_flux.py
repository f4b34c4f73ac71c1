"""Flux as in §5.3: who is paired with whom, which unit goes, when a round ends. Hash and River, which do nothing."""

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.policy.keyed.flux.hash_units import Hash
from evenflow.policy.keyed.flux.load import Flux
from evenflow.policy.keyed.flux.river import River
from tests.support.keyed_model import snapshot


def one_round(owners, rows, used, flux=None, **more):
    """What Flux decides after a collection phase of 1 s; (unit, source, target) of each move."""
    flux = flux or Flux()
    workers = more.get("workers", sorted(set(owners)))
    assert flux.decide(snapshot(0, owners, np.zeros(len(owners)), idle=[0.0] * len(workers), **more)) == []
    moves = flux.decide(snapshot(1, owners, rows, idle=[1 - u for u in used], **more))
    assert all(len(move.units) == 1 for move in moves)
    return [(move.units[0], move.source, move.target) for move in moves]


@pytest.mark.parametrize(("balance", "by_content"), [(Hash(), True), (River(), False)])
def test_hash_and_river_never_move(balance, by_content):
    owners = [0, 0, 1]
    assert balance.decide(snapshot(0, owners, [0, 0, 0])) == []
    assert balance.decide(snapshot(1, owners, [900, 900, 1], idle=[0, 0.9])) == []
    assert balance.by_content is by_content


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"delta_min": 0}, "delta_min is 0"),
        ({"delta_min": float("nan")}, "delta_min is nan"),
        ({"th_imb": 0.9}, "th_imb is 0.9"),
        ({"th_imb": float("inf")}, "th_imb is inf"),
        ({"th_util": 0}, "th_util is 0"),
        ({"th_util": 1.1}, "th_util is 1.1"),
    ],
)
def test_parameters_are_checked(options, named):
    with pytest.raises(InvalidArgument, match=named):
        Flux(**options)


def test_figure_6():
    """Four sites: 1 gives its first unit to 4, 2 gives its second to 3, for the first would make it worse."""
    owners = [1, 1, 2, 2, 2, 3, 4]
    rows = [30, 70, 60, 10, 20, 50, 20]
    assert one_round(owners, rows, [1.0, 0.9, 0.5, 0.2]) == [(1, 1, 4), (4, 2, 3)]


@pytest.mark.parametrize(
    ("used", "moves"),
    [
        ([0.9, 0.8, 0.8, 0.9], []),  # 0.9 / 0.8 is less than 1.2
        ([0.99, 0.92, 0.92, 0.92], []),  # the receiver is above th_util, and the ratio below th_imb
        ([0.9, 0.5, 0.45, 0.3], [(1, 0, 3)]),  # the second pair is below the mean
        ([0.9, 0.7, 0.65, 0.3], [(1, 0, 3)]),  # the second pair is even enough
        ([0.9, 0.8, 0.4, 0.3], [(1, 0, 3), (2, 1, 2)]),
        ([0.3, 0.4, 0.8, 0.9], [(7, 3, 0), (4, 2, 1)]),
        ([0.6, 0.6, 0.6, 0.6], []),
    ],
)
def test_pairs_from_the_ends(used, moves):
    assert one_round([0, 0, 1, 1, 2, 2, 3, 3], [25, 75] * 4, used) == moves


def test_busy_receiver_is_left_alone():
    used = [1.0, 0.7]
    assert one_round([0, 0, 0, 1], [10, 45, 45, 70], used) == [(0, 0, 1)]
    assert one_round([0, 0, 0, 1], [10, 45, 45, 70], used, Flux(th_util=0.6)) == []
    assert one_round([0, 0, 0, 1], [10, 45, 45, 70], used, Flux(th_imb=1.5)) == []


def test_receiver_is_not_given_more_than_it_can_do():
    """The receiver is slow: 10 rows keep it busy for 0.5 s. Unit 0 would make the pair more even, at 1.1."""
    assert one_round([0, 0, 1], [12, 88, 10], [1.0, 0.5]) == []
    assert one_round([0, 0, 1], [8, 92, 10], [1.0, 0.5]) == [(0, 0, 1)]


def test_idle_receiver_counts_as_the_average_worker():
    owners, rows = [0, 0, 0, 1], [60, 30, 10, 0]
    assert one_round(owners, rows, [0.9, 0.0]) == [(0, 0, 1)]
    assert one_round([0, 0], [60, 30], [0.9, 0.0], workers=[0, 1]) == [(0, 0, 1)]  # it may not have any units
    assert one_round([0], [60], [0.9, 0.0], workers=[0, 1]) == []  # the only unit would just change places


def test_nothing_flows_nothing_moves():
    assert one_round([0, 0, 1], [0, 0, 0], [1.0, 0.0]) == []
    assert one_round([0, 0, 1], [5, 5, 0], [0.0, 0.0]) == []
    assert one_round([0, 0], [5, 5], [1.0]) == []
    assert Flux().decide(snapshot(0, [0], [0], workers=[])) == []


def test_a_move_phase_ends_with_its_last_move():
    """Flux §5.3: a timer of the controller gives its length, however late the next reports come."""
    for told, delta in (({"moves_ended": 0.6}, 0.4), ({}, 0.8)):
        flux = Flux(delta_min=0.1)
        flux.decide(snapshot(0.0, [0, 0, 1], [0, 0, 0]))
        assert flux.decide(snapshot(0.2, [0, 0, 1], [100, 100, 20], idle=[0.0, 0.18]))
        assert not flux.decide(snapshot(0.5, [0, 0, 1], [200, 200, 40], idle=[0.0, 0.4], moving=1))
        assert not flux.decide(snapshot(1.0, [0, 1, 1], [300, 300, 60], idle=[0.0, 0.8], version=1, **told))
        assert flux._delta == pytest.approx(delta)


@pytest.mark.parametrize(("delta_min", "reports"), [(0.01, 0.01), (0.05, 0.05), (0.1, 0.1), (2.0, 0.1)])
def test_reports_follow_the_shortest_collection(delta_min, reports):
    assert Flux(delta_min=delta_min).report_s == reports


def test_collection_is_as_long_as_the_last_move_phase():
    flux, log, idle = Flux(delta_min=0.2), [], 0.0
    owners = np.array([0] * 40 + [1] * 4)
    rows, moving_until, version = np.zeros(44), 0.0, 0
    for tick in range(1, 61):
        time = tick / 10
        rows, idle = rows + 10, idle + 0.08
        moving = int(time < moving_until)
        if moving_until and not moving and version < len(log):
            owners, version = np.where(np.arange(44) == log[-1][1], 1, owners), version + 1
        moves = flux.decide(snapshot(time, owners, rows, idle=[0, idle], version=version, moving=moving))
        if moves:
            log.append((tick, *moves[0].units))
            moving_until = time + 0.75
    # Collected for 0.2 s from 0.1 s on; then moves to the 8th report after, and as long to collect.
    assert [tick for tick, _ in log] == [3, 19, 35, 51]


def test_collection_is_halved_when_nothing_moved():
    flux = Flux(delta_min=0.1)
    flux._delta = 1.6
    ends = []
    for tick in range(60):
        time, before = tick / 10, flux._delta
        flux.decide(snapshot(time, [0, 1], [tick * 100] * 2, idle=[0.0, 0.0]))
        if flux._delta != before:
            ends.append((tick, round(flux._delta, 3)))
    assert ends == [(16, 0.8), (24, 0.4), (28, 0.2), (30, 0.1)]


def later(flux, **changed):
    """Decide at second 1, where there is reason to move, and at second 2; what differs from before is `changed`."""
    what = {"owners": [0, 0, 1], "unit_rows": [30, 60, 10], "idle": [0.0, 0.9], "time": 1.0, **changed}
    first = flux.decide(snapshot(**what))
    rows = np.add(what["unit_rows"], [30, 60, 10])
    what |= {
        "time": what["time"] + 1,
        "unit_rows": rows,
        "idle": [waited + 0.9 * j for j, waited in enumerate(what["idle"])],
    }
    return len(first), len(flux.decide(snapshot(**what)))


@pytest.mark.parametrize(
    ("changed", "moves"),
    [
        ({}, (1, 0)),
        ({"incarnations": [1, 2]}, (0, 1)),
        ({"workers": [0, 2], "owners": [0, 0, 2]}, (0, 1)),
        ({"version": 1, "owners": [0, 0, 1]}, (0, 1)),
        ({"unit_rows": [30, 3, 10]}, (0, 1)),  # unit 1 had 5 before
        ({"idle": [0.0, 0.3]}, (0, 1)),  # worker 1 had been idle for 0.5 s before
    ],
)
def test_phase_starts_anew_when_differences_mean_nothing(changed, moves):
    flux = Flux()
    flux.decide(snapshot(0.0, [0, 0, 1], [5, 5, 0], idle=[0.0, 0.5], busy=[0, 0]))
    if not changed:
        changed = {"idle": [0.0, 1.4]}
    assert later(flux, **changed) == moves


def test_a_worker_that_joins_gets_a_unit_in_the_round_after():
    flux = Flux()
    flux.decide(snapshot(0.0, [0, 0, 1], [0, 0, 0]))
    assert flux.decide(snapshot(1.0, [0, 0, 1], [50, 40, 90], idle=[0, 0, 0], workers=[0, 1, 2])) == []
    moves = flux.decide(snapshot(2.0, [0, 0, 1], [100, 80, 180], idle=[0, 0, 1], workers=[0, 1, 2]))
    assert [(m.units, m.source, m.target) for m in moves] == [((0,), 0, 2)]
    assert "utilisation 1.00 and 0.00, mean 0.67" in moves[0].reason


def test_moves_of_others_are_a_move_phase_too():
    flux = Flux()
    flux.decide(snapshot(0.0, [0, 0, 1], [0, 0, 0]))
    assert flux.decide(snapshot(1.0, [0, 0, 1], [50, 40, 1], idle=[0, 1], moving=1)) == []
    assert flux.decide(snapshot(1.5, [0, 0, 1], [75, 60, 2], idle=[0, 1.5])) == []  # done: 0.5 s to collect
    assert flux.decide(snapshot(1.9, [0, 0, 1], [95, 76, 2], idle=[0, 1.9])) == []
    assert len(flux.decide(snapshot(2.0, [0, 0, 1], [100, 80, 2], idle=[0, 2.0]))) == 1
