"""DLB and LPTF against plain transcriptions of cep-load-balancing Algorithm 1 and §5; when they decide at all."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InvalidArgument
from evenflow.policy import keyed_balance_named
from evenflow.policy.keyed.cep.dlb import DlbH, DlbL
from evenflow.policy.keyed.cep.lptf import Lptf
from evenflow.policy.keyed.loads import imbalance
from tests.support.keyed_model import snapshot

pytestmark = pytest.mark.slow


def score(eng_load):
    """The square of the imbalance score, exactly: (100 * std / mean) ** 2."""
    mean = Fraction(sum(eng_load), len(eng_load))
    variance = sum((load - mean) ** 2 for load in eng_load) / len(eng_load)
    return 10_000 * variance / mean**2 if mean else Fraction(0)


def select_key(policy, mine, keys_load, eng_load, e_loaded, e_min):
    """SelectKey of line 12: keys with rows only; None if e_loaded has none."""
    mine = [k for k in mine if keys_load[k]]
    if policy == "L":
        return min(mine, key=lambda k: (keys_load[k], k), default=None)
    better = [k for k in mine if score(tried(eng_load, keys_load[k], e_loaded, e_min)) < score(eng_load)]
    return min(better, key=lambda k: (-keys_load[k], k), default=None)


def tried(eng_load, load, source, target):
    temp = list(eng_load)
    temp[source] -= load
    temp[target] += load
    return temp


def algorithm_1(keys_map, keys_load, engines, theta, policy):
    """As printed, but that eng_load_temp starts from eng_load in every trial; and all scores on the way."""
    keys_map = list(keys_map)
    eng_load = [sum(n for k, n in enumerate(keys_load) if keys_map[k] == e) for e in range(engines)]
    scores = [score(eng_load)]
    while scores[-1] > Fraction(theta) ** 2:
        e_min = min(range(engines), key=lambda e: (eng_load[e], e))
        for e_loaded in sorted(range(engines), key=lambda e: (-eng_load[e], e)):
            if e_loaded == e_min:
                return keys_map, scores
            mine = [k for k in range(len(keys_map)) if keys_map[k] == e_loaded]
            k = select_key(policy, mine, keys_load, eng_load, e_loaded, e_min)
            if k is None:
                continue
            temp = tried(eng_load, keys_load[k], e_loaded, e_min)
            if score(temp) < scores[-1]:
                keys_map[k] = e_min
                eng_load = temp
                scores.append(score(temp))
                break
    return keys_map, scores


def longest_first(keys_map, keys_load, engines, theta):
    """§5: the most loaded key to the least loaded engine, again and again, if the score calls for it."""
    keys_map = list(keys_map)
    eng_load = [sum(n for k, n in enumerate(keys_load) if keys_map[k] == e) for e in range(engines)]
    if score(eng_load) <= Fraction(theta) ** 2:
        return keys_map
    eng_load = [0] * engines
    for k in sorted(range(len(keys_map)), key=lambda k: (-keys_load[k], k)):
        if keys_load[k]:
            keys_map[k] = min(range(engines), key=lambda e: (eng_load[e], e))
            eng_load[keys_map[k]] += keys_load[k]
    return keys_map


@st.composite
def cases(draw):
    """Owners and loads: ties, keys without rows, one engine, engines without keys, equal engines, hot keys."""
    engines = draw(st.integers(1, 6))
    load = draw(st.sampled_from([st.integers(0, 3), st.integers(0, 40), st.sampled_from([0, 1, 1, 2, 5, 400])]))
    keys_load = draw(st.lists(load, min_size=1, max_size=30))
    owner = st.just(0) if draw(st.booleans()) else st.integers(0, engines - 1)
    keys_map = draw(st.lists(owner, min_size=len(keys_load), max_size=len(keys_load)))
    return keys_map, keys_load, engines, draw(st.sampled_from([0, 1, 12.5, 15, 40, 90]))


def decided(balance, keys_map, keys_load, engines, ids=None):
    """The moves at the end of one window, and the owners after them, by place."""
    ids = ids or list(range(engines))
    owners = [ids[engine] for engine in keys_map]
    assert balance.decide(snapshot(0, owners, [7] * len(owners), workers=ids)) == []
    moves = balance.decide(snapshot(9, owners, [7 + n for n in keys_load], workers=ids))
    after = list(owners)
    for move in moves:
        assert move.source != move.target
        for unit in move.units:
            assert after[unit] == move.source
            after[unit] = move.target
    assert len({(move.source, move.target) for move in moves}) == len(moves)
    assert len({unit for move in moves for unit in move.units}) == sum(len(move.units) for move in moves)
    return moves, [ids.index(owner) for owner in after]


@pytest.mark.parametrize("balance", [DlbH, DlbL])
@settings(max_examples=400)
@given(case=cases())
def test_dlb_is_algorithm_1(balance, case):
    keys_map, keys_load, engines, theta = case
    expected, scores = algorithm_1(*case, policy=balance.name[-1].upper())
    moves, after = decided(balance(theta=theta, least_rows=0, least_gain=0), keys_map, keys_load, engines)
    assert after == expected
    for move in moves:
        assert move.detail["score"] == pytest.approx(float(scores[0]) ** 0.5, abs=1e-3)
        assert move.detail["score_after"] == pytest.approx(float(scores[-1]) ** 0.5, abs=1e-3)
        assert move.detail["keys"] == sum(a != b for a, b in zip(after, keys_map, strict=True))


@pytest.mark.parametrize("balance", [DlbH, DlbL])
@settings(max_examples=200)
@given(case=cases())
def test_dlb_ends_balanced_or_where_no_trial_helps(balance, case):
    keys_map, keys_load, engines, theta = case
    _, after = decided(balance(theta=theta, least_rows=0, least_gain=0), keys_map, keys_load, engines)

    def eng_load(owner):
        return [sum(n for k, n in enumerate(keys_load) if owner[k] == e) for e in range(engines)]

    before, now = eng_load(keys_map), eng_load(after)
    assert score(now) <= score(before)
    if score(now) <= Fraction(theta) ** 2:
        return
    e_min = now.index(min(now))
    for k, load in enumerate(keys_load):
        lightest = load == min((n for j, n in enumerate(keys_load) if n and after[j] == after[k]), default=None)
        if load and after[k] != e_min and (balance is DlbH or lightest):
            assert score(tried(now, load, after[k], e_min)) >= score(now)


@settings(max_examples=400)
@given(case=cases())
def test_lptf_is_longest_first(case):
    keys_map, keys_load, engines, theta = case
    _, after = decided(Lptf(theta=theta, least_rows=0, least_gain=0), keys_map, keys_load, engines)
    assert after == longest_first(*case)


@given(loads=st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_imbalance_is_the_relative_standard_deviation_of_a_population(loads):
    expected = 100 * np.std(loads) / np.mean(loads) if any(loads) else 0.0
    assert imbalance(np.array(loads)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("balance", [DlbH, DlbL, Lptf])
def test_workers_are_known_by_their_ids(balance):
    """Ids with gaps; a unit that is with a worker that is not there stays out of it."""
    _, after = decided(balance(least_rows=0), [0, 0, 0, 0], [4, 3, 2, 1], 2, ids=[3, 8])
    assert sorted(np.bincount(after, [4, 3, 2, 1])) == [5, 5]
    owners = [3, 3, 5, 5]
    policy = balance(least_rows=0)
    assert policy.decide(snapshot(0, owners, [0] * 4, workers=[3, 8])) == []
    moves = policy.decide(snapshot(9, owners, [6, 6, 100, 0], workers=[3, 8]))
    assert [(move.source, move.target, len(move.units)) for move in moves] == [(3, 8, 1)]


@pytest.mark.parametrize("balance", [DlbH, DlbL, Lptf])
class TestPace:
    """One worker has all the load."""

    OWNERS = (0, 0, 1, 1)

    def shown(self, time, rows, **more):
        return snapshot(time, self.OWNERS, [rows, rows, 0, 0], **more)

    def test_a_window_is_waited_for(self, balance):
        policy = balance(window=2.0, least_rows=0)
        assert policy.decide(self.shown(1.0, 0)) == []
        assert policy.decide(self.shown(2.9, 100)) == []
        assert len(policy.decide(self.shown(3.0, 100))) == 1
        assert policy.decide(self.shown(4.9, 200)) == []
        assert len(policy.decide(self.shown(5.0, 200))) == 1

    def test_rows_are_waited_for(self, balance):
        policy = balance(window=2.0, least_rows=100)
        assert policy.decide(self.shown(0.8, 0)) == []
        assert len(policy.decide(self.shown(1.0, 100))) == 1
        assert policy.decide(self.shown(3.0, 199)) == []
        assert len(policy.decide(self.shown(3.1, 200))) == 1

    def test_the_first_window_is_over_with_enough_rows(self, balance):
        """Before it, keys are where they were dealt."""
        policy = balance(window=2.0, least_rows=100)
        assert policy.decide(self.shown(0.1, 0)) == []
        assert policy.decide(self.shown(0.2, 99)) == []
        assert len(policy.decide(self.shown(0.3, 100))) == 1

    def test_windows_go_on_while_keys_move_if_asked_to(self, balance):
        policy = balance(window=2.0, least_rows=0, through_moves=True)
        assert policy.decide(self.shown(0.0, 0)) == []
        assert policy.decide(self.shown(1.0, 100, moving=1)) == []
        (move,) = policy.decide(self.shown(2.0, 200))
        assert (move.detail["window_s"], move.detail["window_rows"]) == (2.0, 400)
        assert policy.decide(self.shown(4.5, 300, moving=1)) == []  # not before they are done
        (move,) = policy.decide(self.shown(5.0, 300))
        assert (move.detail["window_s"], move.detail["window_rows"]) == (3.0, 200)

    def test_a_window_of_rows_is_waited_for_however_long_that_takes(self, balance):
        policy = balance(window_rows=200, least_rows=1000)
        assert policy.decide(self.shown(1.0, 0)) == []
        assert policy.decide(self.shown(100.0, 99)) == []
        assert len(policy.decide(self.shown(100.1, 100))) == 1

    def test_only_the_rows_of_a_window_of_rows_count(self, balance):
        policy = balance(window_rows=20)
        policy.decide(snapshot(0, self.OWNERS, [1000, 0, 0, 0]))
        assert policy.decide(snapshot(0.1, self.OWNERS, [1010, 0, 10, 0])) == []
        assert policy.decide(snapshot(0.2, self.OWNERS, [1020, 0, 20, 0])) == []
        (move,) = policy.decide(snapshot(0.3, self.OWNERS, [1030, 10, 20, 0]))
        assert move.detail["window_rows"] == 20

    def test_a_window_is_of_time_or_of_rows(self, balance):
        assert balance().window == 5.0
        assert balance(window_rows=7).window is None
        with pytest.raises(InvalidArgument, match=r"window is 2 and window_rows is 7: .* give one of them"):
            balance(window=2, window_rows=7)

    def test_only_the_rows_of_the_window_count(self, balance):
        policy = balance(window=1.0, least_rows=0)
        policy.decide(snapshot(0, self.OWNERS, [1000, 0, 0, 0]))
        assert policy.decide(snapshot(1, self.OWNERS, [1010, 0, 10, 0])) == []
        assert policy.decide(snapshot(2, self.OWNERS, [1020, 0, 20, 0])) == []

    def test_what_arrived_counts_not_what_is_done(self, balance):
        policy = balance(window=1.0, least_rows=0)
        policy.decide(snapshot(0, self.OWNERS, [0] * 4, unit_arrived=np.zeros(4, np.int64)))
        even = np.array([5, 5, 5, 5])
        assert policy.decide(snapshot(1, self.OWNERS, [10, 10, 0, 0], unit_arrived=even)) == []

    def test_no_window_while_units_move(self, balance):
        policy = balance(window=1.0, least_rows=0)
        policy.decide(self.shown(0, 0))
        assert len(policy.decide(self.shown(1, 10))) == 1
        assert policy.decide(self.shown(2, 20, moving=1)) == []
        assert policy.decide(self.shown(3, 30)) == []
        assert policy.decide(self.shown(3.9, 39)) == []
        assert len(policy.decide(self.shown(4, 40))) == 1

    @pytest.mark.parametrize("change", [{"incarnations": [1, 2]}, {"workers": [0, 1, 2]}])
    def test_a_window_begins_anew_with_other_workers(self, balance, change):
        policy = balance(window=1.0, least_rows=0)
        policy.decide(self.shown(0, 0))
        assert policy.decide(self.shown(1, 10, **change)) == []
        assert len(policy.decide(self.shown(2, 20, **change))) >= 1

    def test_counters_that_go_back_begin_a_window(self, balance):
        policy = balance(window=1.0, least_rows=0)
        policy.decide(self.shown(0, 50))
        assert policy.decide(self.shown(1, 10)) == []
        assert len(policy.decide(self.shown(2, 20))) == 1

    def test_small_gains_count_only_where_theta_is_reached(self, balance):
        for loads, gain, moves in (
            ([1000, 100, 10, 80], 0.0, 1),
            ([1000, 100, 10, 80], 1.0, 0),
            ([97, 97, 3, 94], 5.0, 1),
        ):
            policy = balance(theta=1.5, window=1.0, least_rows=0, least_gain=gain)
            policy.decide(snapshot(0, [0, 1, 1, 2], [0] * 4))
            made = policy.decide(snapshot(1, [0, 1, 1, 2], loads))
            assert [(move.units, move.source, move.target) for move in made] == [((2,), 1, 2)] * moves


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("theta", -1),
        ("theta", np.inf),
        ("window", 0),
        ("window_rows", 0),
        ("window_rows", 2.5),
        ("window_rows", True),
        ("least_rows", -1),
        ("least_gain", np.nan),
        ("through_moves", 1),
    ],
)
def test_parameters_that_mean_nothing(option, value):
    with pytest.raises(InvalidArgument, match=rf"{option} is {value}"):
        keyed_balance_named("dlb-h", **{option: value})
