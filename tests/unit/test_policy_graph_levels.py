"""Which level acts when: lanes first, then units of keyed operators, then whole operators."""

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.model.graphs.placement import Host, Links, OperatorLoad, PlacementProblem
from evenflow.model.graphs.spread import KEYED, LANES, SpreadOperator, as_background
from evenflow.policy.graph.moves.evening import HostFilling, largest_that_fit
from evenflow.policy.graph.moves.levels import WHOLE, Decision, Levels
from evenflow.policy.graph.moves.spread_parts import SpreadProblem
from evenflow.policy.graph.potential import PotentialPlacement

LEVELS = Levels(PotentialPlacement())
NEAR = Links(0.01)


def whole(*loads, hosts=2, placed=(), links=NEAR):
    """Operators that nobody reads, each on its own."""
    operators = tuple(OperatorLoad(f"o{i}", (load,), (), 10.0, 100.0) for i, load in enumerate(loads))
    machines = hosts if isinstance(hosts, tuple) else tuple(Host(j) for j in range(hosts))
    return PlacementProblem(operators, machines, links, placed)


def spread(level, load, owners, units=None, **options):
    """A spread operator of a load, whose units count alike if not told."""
    loads = np.ones(len(owners)) if units is None else np.array(units, float)
    return SpreadOperator(f"s{level}", level, (load,), loads, np.array(owners), rows_s=10.0, **options)


def count(decision):
    return sum(len(move.units) for move in decision.units)


@pytest.mark.parametrize(
    ("problem", "parts", "level"),
    [
        # all is even: nothing moves
        (whole(0.3, 0.3, placed=(0, 1)), [], None),
        (whole(0.3, 0.3, placed=(0, 1)), [spread(LANES, 0.4, [0, 1] * 8)], None),
        (whole(), [spread(KEYED, 0.4, [0, 1] * 8), spread(LANES, 0.4, [0, 1] * 8)], None),
        # lanes make it even: no units and no operators move
        (whole(0.3, 0.3, placed=(0, 0)), [spread(LANES, 0.8, [0, 1] * 8)], LANES),
        (whole(0.3, 0.3, placed=(0, 0)), [spread(KEYED, 0.4, [0, 1] * 8), spread(LANES, 0.4, [0, 1] * 8)], LANES),
        (whole(), [spread(KEYED, 0.8, [0] * 16), spread(LANES, 0.4, [0, 1] * 8)], LANES),
        # all lanes are on the host with less load already: units
        (whole(0.3, 0.3, placed=(0, 0)), [spread(KEYED, 0.4, [0, 1] * 8), spread(LANES, 0.1, [1] * 8)], KEYED),
        (whole(0.3, 0.3, placed=(0, 0)), [spread(KEYED, 0.4, [0, 1] * 8)], KEYED),
        # neither can do more: whole operators
        (whole(0.4, 0.4, placed=(0, 0)), [], WHOLE),
        (whole(0.4, 0.4, placed=(0, 0)), [spread(KEYED, 0.1, [1] * 8), spread(LANES, 0.1, [1] * 8)], WHOLE),
        # an operator without a host gets one before anything else
        (whole(0.4, placed=(-1,)), [spread(LANES, 0.8, [0] * 8)], WHOLE),
        (whole(0.4), [], WHOLE),
    ],
)
def test_the_lowest_level_that_can_acts(problem, parts, level):
    found = LEVELS.decide(problem, parts)
    assert found.level == level
    assert bool(found.operators) == (level == WHOLE)
    assert bool(found.units) == (level in (LANES, KEYED))
    assert {parts[move.spread].level for move in found.units} <= {level}


def test_units_make_a_pair_even():
    found = LEVELS.decide(whole(), [spread(KEYED, 0.8, [0] * 16)])
    assert [(move.spread, move.source, move.target, len(move.units)) for move in found.units] == [(0, 0, 1, 8)]
    assert "saves" in found.why


def test_fast_hosts_get_more_and_quotas_count():
    for hosts in ((Host(0, 3.0), Host(1)), (Host(0, quota=1 / 3), Host(1))):
        found = LEVELS.decide(whole(hosts=hosts), [spread(KEYED, 0.8, [0, 1] * 16)])
        assert count(found) == 8  # then 8 and 24: loads of 0.6 both
        assert {(move.source, move.target) for move in found.units} == {(0, 1)}


def test_what_else_a_host_does_counts():
    hosts = (Host(0, background=(0.4,)), Host(1))
    assert count(LEVELS.decide(whole(hosts=hosts), [spread(KEYED, 0.8, [0, 1] * 16)])) == 8


def test_a_hot_unit_is_not_thrown_to_and_fro():
    """It makes up most of the load: on the other host it would be the same. The small ones beside it make way."""
    assert LEVELS.decide(whole(), [spread(KEYED, 0.6, [0, 1], [1.0, 0.01])]) == Decision()
    found = LEVELS.decide(whole(), [spread(KEYED, 0.8, [0] * 9, [60] + [3] * 8)])
    assert [move.units for move in found.units] == [tuple(range(1, 9))]


def test_a_hot_unit_leaves_a_slow_host():
    found = LEVELS.decide(whole(hosts=(Host(0, 3.0), Host(1))), [spread(KEYED, 0.3, [0, 1], [1.0, 0.01])])
    assert [(move.units, move.source, move.target) for move in found.units] == [((0,), 0, 1)]


def test_many_hosts_become_even_in_one_decision():
    owners = np.zeros(64, np.int64)
    found = LEVELS.decide(whole(hosts=4), [spread(LANES, 1.6, owners)])
    for move in found.units:
        owners[list(move.units)] = move.target
    assert np.bincount(owners).min() >= 14
    assert LEVELS.decide(whole(hosts=4), [spread(LANES, 1.6, owners)]).level is None


def test_a_decision_is_bounded():
    parts = [spread(KEYED, 0.8, [0] * 1000)]
    assert count(Levels(PotentialPlacement(), most_units=100).decide(whole(), parts)) == 100


def test_state_that_takes_long_to_move_stays():
    """A difference that units without state make up for, not those with 20 s of state each."""
    few = [0] * 20 + [1] * 12
    assert LEVELS.decide(whole(), [spread(KEYED, 1.0, few)]).level == KEYED
    heavy = spread(KEYED, 1.0, few, unit_bytes=np.full(32, 20 * 125e6))
    assert LEVELS.decide(whole(), [heavy]) == Decision()


def test_a_small_difference_stays():
    assert LEVELS.decide(whole(), [spread(KEYED, 1.0, [0] * 51 + [1] * 49)]) == Decision()


def test_far_hosts_get_no_units_for_a_little_load():
    """Two hosts 50 ms apart: what waiting is saved there is lost on the way."""
    problem = PlacementProblem((OperatorLoad("reader", (0.05,), (), 10.0),), (Host(0), Host(1)), Links(50.0), (0,))
    parts = [spread(LANES, 0.4, [0] * 8, readers=(0,))]
    assert LEVELS.decide(problem, parts) == Decision()


def test_a_far_host_is_left():
    """Hosts are even, but rows go to the third and back over 50 ms: its lanes go where there is room."""
    far = Links(0.5, pairs={(a, b): (50.0, 125e6) for a, b in ((0, 2), (1, 2), (2, 0), (2, 1))})
    hosts = (Host(0), Host(1), Host(2))
    problem = PlacementProblem((OperatorLoad("reader", (0.05,), (), 10.0),), hosts, far, (0,))
    owners = np.arange(12) % 3
    found = LEVELS.decide(problem, [spread(LANES, 0.3, owners, readers=(0,))])
    assert found.level == LANES
    for move in found.units:
        owners[list(move.units)] = move.target
    assert 2 not in owners
    assert LEVELS.decide(problem, [spread(LANES, 0.3, owners, readers=(0,))]) == Decision()


def test_units_alone():
    """Where whole operators are not ours to move."""
    assert LEVELS.decide_units(whole(0.4, 0.4, placed=(0, 0)), []) == Decision()
    assert LEVELS.decide_units(whole(0.4, 0.4, placed=(0, 0)), [spread(KEYED, 0.4, [0] * 8)]).level == KEYED


def test_parts_have_the_share_of_their_units():
    """A source of rows, a spread operator with 3/4 of its load on host 0, and a reader."""
    operators = (OperatorLoad("first", (0.1, 0.3), (), 100.0, 1000.0), OperatorLoad("last", (0.2, 0.2), (), 5.0, 50.0))
    problem = PlacementProblem(operators, (Host(0), Host(1)), NEAR, (0, 1))
    middle = SpreadOperator(
        "middle", KEYED, (0.5, 1.0), np.array([2.0, 1, 1]), np.array([0, 0, 1]), (1,), 40.0, 400.0, None, (0,)
    )
    found = SpreadProblem(problem, [middle]).with_owners([middle.owners])
    first, last, here, there = found.operators
    assert (first.readers, first.rows_s, first.bytes_s) == ((2, 3), 100.0, 500.0)  # 1000 over two hosts
    assert last is operators[1]
    assert here == OperatorLoad("middle@0", (0.375, 0.75), (1,), 30.0, 300.0, pinned=0)
    assert there == OperatorLoad("middle@1", (0.125, 0.25), (1,), 10.0, 100.0, pinned=1)
    assert found.placed == (0, 1, 0, 1)
    hosts = as_background(problem, [middle]).hosts
    assert [list(host.background) for host in hosts] == [[0.375, 0.75], [0.125, 0.25]]


def test_spread_operators_read_each_other():
    one = spread(LANES, 0.4, [0, 1], readers=(1,), bytes_s=80.0)
    found = SpreadProblem(whole(), [one, spread(KEYED, 0.4, [0, 1])]).with_owners([one.owners, one.owners])
    assert [each.readers for each in found.operators] == [(2, 3), (2, 3), (), ()]
    assert found.operators[0].bytes_s == 20.0  # half of the rows, half of these to each host


@pytest.mark.parametrize(
    ("loads", "room", "most", "chosen"),
    [
        ([], 1.0, 9, []),
        ([5, 3, 1], 4, 9, [1, 2]),
        ([5, 3, 1], 9, 9, [0, 1, 2]),
        ([5, 3, 3, 1], 6, 9, [0, 3]),
        ([5, 3, 3, 1], 6, 1, [0]),
        ([5, 4], 3, 9, []),
        ([50, 49, 1], 100, 9, [0, 1]),  # close enough
    ],
)
def test_the_largest_that_fit(loads, room, most, chosen):
    assert largest_that_fit(np.array(loads, float), room, most).tolist() == chosen


def test_pairs_are_the_most_with_the_least():
    filling = HostFilling(whole(0.1, 0.5, 0.4, 0.11, hosts=4, placed=(0, 1, 2, 3)))
    assert next(filling.pairs([True] * 4, 0.1)) == (1, 0)
    assert next(filling.pairs([True, False, True, True], 0.1)) == (2, 0)
    assert list(filling.pairs([True, False, False, True], 0.2)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"level": 2}, "level 2"),
        ({"owners": np.array([0])}, "one of each for every unit"),
        ({"unit_loads": np.array([1.0, np.nan])}, "unit_loads"),
        ({"unit_bytes": np.array([1.0, -1.0])}, "unit_bytes"),
        ({"series": (-1.0,)}, "series"),
        ({"rows_s": -1.0}, "rows_s"),
        ({"owners": np.array([0, 7])}, "not among 2"),
        ({"readers": (9,)}, "not all exist"),
        ({"senders": (0,)}, "whole operators that exist"),
    ],
)
def test_bad_spread_operators(change, said):
    about = {"name": "s", "level": 1, "series": (0.1,), "unit_loads": np.ones(2), "owners": np.array([0, 1])}
    with pytest.raises(InvalidArgument, match=said):
        LEVELS.decide(whole(), [SpreadOperator(**(about | change))])


@pytest.mark.parametrize(("option", "value"), [("doubt", -0.1), ("most_units", 0), ("steps", 0)])
def test_bad_options(option, value):
    with pytest.raises(InvalidArgument, match=option):
        Levels(PotentialPlacement(), **{option: value})


def test_periods_must_agree():
    with pytest.raises(InvalidArgument, match="2 periods, not 1"):
        LEVELS.decide(whole(0.1, placed=(0,)), [SpreadOperator("s", 1, (0.1, 0.2), np.ones(2), np.array([0, 1]))])
