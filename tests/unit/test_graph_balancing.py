"""The placement of a running graph: reports in, records and moves out."""

from dataclasses import dataclass

import numpy as np
import pytest

from evenflow.control.events import WARM, WarnInstruction
from evenflow.control.graphs.balancing import LITTLE
from evenflow.control.moves.move_queue import BATCH_UNITS
from evenflow.model.entries import EventEntry
from evenflow.model.graphs.spread import KEYED, LANES
from evenflow.policy import Placement, placement_named
from tests.support.graph_reports import GraphRig, report, shape
from tests.support.records import fields_of

TWO = shape(((-1,), 1), ((-1,), 1))
"""Two operators that read the source."""
LANES_AND_KEYS = shape(((-1,), 1), ((0,), 8, {"lanes": True}), ((1,), 8))
SPREAD = shape(((-1,), 8), ((-1,), 8, {"lanes": True}))


@dataclass(frozen=True)
class Says(Placement):
    """A placement that says what it is told to."""

    answer: tuple
    name: str = "says"

    def place(self, problem):
        if not self.answer:
            raise ArithmeticError("no answer")
        return tuple(self.answer[: len(problem.operators)])


def busy(load, units=(0, 1), standards=(100.0, 100.0), owners=None):
    """Both workers in a period: 1000 rows for each unit that they have, `load` of a second each."""
    told = {}
    for worker, standard in enumerate(standards):
        mine = [unit for unit in units if owners is None or owners[unit] == worker]
        rows = {unit: (1000, 1000, int(load * 1e6)) for unit in mine}
        told[worker] = report(rows if owners is not None or not worker else {}, standard_us=standard)
    return told


def records(instructions, event="graph-sample"):
    return [fields_of(each) for each in instructions if isinstance(each, EventEntry) and each.event == event]


def warm(rig, reports, arrived, periods=WARM):
    for _ in range(periods):
        told = rig.period(reports, arrived)
    return told


def test_nothing_is_decided_before_it_is_warm():
    rig = GraphRig(TWO, placement_named("potential"), (0, 0))
    for _ in range(WARM - 1):
        assert rig.period(busy(0.4), {0: 1000}) == []
    told = rig.period(busy(0.4), {0: 1000})
    assert records(told)
    assert len(rig.settle()) == 1


def test_nothing_is_decided_within_a_period_or_without_feeders():
    rig = GraphRig(TWO, placement_named("potential"), (0, 0))
    warm(rig, busy(0.4), {0: 1000}, WARM - 1)
    for without in ({"draining": {21}}, {"feeders": set()}):
        (told,) = records(rig.period(busy(0.4), {0: 1000}, **without))
        assert (told["moves"], told["units"], told["level"]) == ([], [], None)
    assert not rig.movements.under_way
    rig.time += 0.5
    assert rig.ask() == []
    assert records(rig.period(busy(0.4), {0: 1000}))


def test_a_stream_of_short_batches_is_written_down_once_a_period():
    """Each batch takes a tenth of a second, and its feeder has all its rows when the workers first tell of it."""
    rig, samples = GraphRig(TWO, placement_named("potential"), (0, 1)), []
    for batch in range(40):
        rig.time = 0.1 * batch
        for worker, told in busy(0.04, owners=(0, 1)).items():
            rig.balancing.report(worker, told)
        samples += records(rig.ask(draining={21}))
    assert [each["seconds"] for each in samples] == pytest.approx([1.0, 1.0, 1.0], abs=0.11)
    assert [each["load"] for each in samples[-1]["hosts"]] == pytest.approx([0.4, 0.4], rel=0.05)
    rig.time += 1.0
    assert len(records(rig.ask(feeders=set()))) == 1
    rig.time += 1.0
    assert rig.ask(feeders=set()) == [], "nothing came since"


def test_rows_that_wait_at_workers_are_written_down_where_they_are_known():
    rig = GraphRig(TWO, placement_named("potential"), (0, 0))
    reports = {0: report({0: (1000, 1000, 400_000)}, queued=7), 1: report({1: (1000, 1000, 400_000)})}
    (told,) = records(rig.period(reports, {0: 1000}, draining={21}))
    assert [host.get("queue") for host in told["hosts"]] == [7, None]


def test_an_operator_leaves_the_worker_that_has_two():
    rig = GraphRig(TWO, placement_named("potential"), (0, 0))
    told = warm(rig, busy(0.4), {0: 1000})
    sample = records(told)[0]
    assert sample["region"] == "r"
    assert (sample["placement"], sample["level"], len(sample["moves"]), sample["units"]) == ("potential", 2, 1, [])
    assert sample["moves"][0]["worker"] == 1
    assert "saves" in sample["why"]
    assert [(each["name"], each["worker"], each["load"]) for each in sample["operators"]] == [
        ("n0", 0, pytest.approx(0.4)),
        ("n1", 0, pytest.approx(0.4)),
    ]
    assert [each["load"] for each in sample["hosts"]] == [pytest.approx(0.8), 0.0]
    assert [(source, target) for _, source, target in rig.settle()] == [(0, 1)]


def test_after_moves_a_fresh_period_is_measured_and_nothing_more_moves():
    rig = GraphRig(TWO, placement_named("potential"), (0, 0))
    warm(rig, busy(0.4), {0: 1000})
    assert rig.period(busy(0.4), {0: 1000}) == []  # under way
    rig.settle()
    assert rig.period(busy(0.4), {0: 1000}) == []  # what was measured meanwhile says nothing
    owners = rig.movements.table.owners
    told = rig.period(busy(0.4, owners=owners), {0: 1000})
    assert records(told)[0]["moves"] == []
    assert records(told)[0]["level"] is None
    assert not rig.movements.moving


def test_a_slow_worker_gives_its_operators_away():
    """Three alike and one that is five times slower."""
    rig = GraphRig(TWO, placement_named("potential"), (0, 1), workers=4)
    told = warm(rig, busy(0.3, standards=(500.0, 100.0, 100.0, 100.0), owners=(0, 1)), {0: 1000})
    assert [each["coefficient"] for each in records(told)[0]["hosts"]] == [5.0, 1.0, 1.0, 1.0]
    # A row took 0.3 ms on the slow worker, which is 0.06 ms on another
    assert records(told)[0]["operators"][0]["load"] == pytest.approx(0.06)


def test_given_coefficients_quotas_and_links_are_taken():
    rig = GraphRig(
        TWO,
        placement_named("potential"),
        (0, 1),
        coefficients={1: 2.0},
        quotas={0: 0.5},
        links={(0, 1): (50.0, 1e6)},
    )
    for _ in range(WARM):
        rig.time += 1.0
        rig.balancing.report(0, report({0: (1000, 0, 1000)}, round_trips={1: 0.004}, bandwidths={1: 7e6}))
        rig.balancing.report(1, report({1: (1000, 0, 1000)}, round_trips={0: 0.004}, bandwidths={0: 7e6}))
        rig.ask()
    problem = rig.balancing.problem()
    assert [(host.coefficient, host.quota) for host in problem.hosts] == [(1.0, 0.5), (2.0, 1.0)]
    delay, bandwidth = problem.links.dense(2)
    assert (delay[0, 1], bandwidth[0, 1]) == (50.0, 1e6)
    assert (delay[1, 0], bandwidth[1, 0]) == (2.0, 7e6)


def test_what_a_worker_does_for_others_is_background():
    rig = GraphRig(TWO, placement_named("potential"), (0, 1))
    for time, seconds in ((0.0, 1.0), (1.0, 1.0 + LITTLE / 2), (2.0, 1.0 + LITTLE)):
        rig.balancing.measured.worker_busy(time, 0, seconds, 0.0)
        rig.balancing.measured.worker_busy(time, 1, 6 * seconds, seconds)
    warm(rig, busy(0.1, owners=(0, 1)), {0: 1000}, 1)
    one, other = rig.balancing.problem().hosts
    assert one.background == ()
    assert other.background == (pytest.approx(2.5 * LITTLE),)


def test_a_pause_that_is_forgotten_is_worth_a_new_decision():
    """What was not worth a long pause is, when queues are short again: also if nothing else has changed."""
    rig = GraphRig(TWO, placement_named("potential"), (0, 0))
    rig.movements.pauses.add(rig.time, 8.0)
    reports, minute = busy(0.15, owners=(0, 0)), 60
    moved = [any(told["moves"] for told in records(rig.period(reports, {0: 1000}))) for _ in range(6 * minute)]
    assert not any(moved[:minute])
    assert any(moved)


# -- levels


def told_of(rig, loads, arrived=1000):
    """Reports in which node n has a load of loads[n], in equal parts for its units."""
    owners, told = rig.movements.table.owners, {worker: {} for worker in rig.lives}
    for node, load in zip(rig.balancing.shape.nodes, loads, strict=True):
        rows = arrived // node.units
        for unit in range(node.first, node.first + node.units):
            told[int(owners[unit])][unit] = (rows, rows, int(load * 1e6 / node.units))
    return {worker: report(rows, standard_us=100.0) for worker, rows in told.items()}


def test_the_problem_has_spread_operators_with_their_edges():
    rig = GraphRig(LANES_AND_KEYS, placement_named("potential"), [0] + [0, 1] * 4 + [1] * 8)
    rig.statistics.unit_bytes[9:17] = 1000
    warm(rig, told_of(rig, (0.1, 0.2, 0.4)), {0: 1000})
    problem, (lanes, keyed) = rig.balancing.problem(), rig.balancing.spread()
    assert [operator.name for operator in problem.operators] == ["n0"]
    assert problem.operators[0].readers == ()
    assert all(host.background == () for host in problem.hosts)
    assert (lanes.level, lanes.senders, lanes.readers) == (LANES, (0,), (2,))
    assert (keyed.level, keyed.senders, keyed.readers) == (KEYED, (), ())
    assert lanes.owners.tolist() == [0, 1] * 4
    assert keyed.owners.tolist() == [1] * 8
    assert (lanes.series[0], keyed.series[0]) == (pytest.approx(0.2), pytest.approx(0.4))
    assert keyed.shares.tolist() == pytest.approx([1 / 8] * 8)
    assert keyed.unit_bytes.tolist() == [1000] * 8
    assert (keyed.rows_s, keyed.bytes_s) == (pytest.approx(1000), pytest.approx(8000))


@pytest.mark.parametrize(
    ("owners", "level", "name"),
    [
        ([0] * 8 + [0, 1] * 4, LANES, "n1"),  # the lanes make way
        ([0] * 8 + [1] * 8, KEYED, "n0"),  # they have made way already
        ([0, 1] * 8, None, None),
    ],
)
def test_lanes_move_first_then_units(owners, level, name):
    rig = GraphRig(SPREAD, placement_named("potential"), owners)
    sample = records(warm(rig, told_of(rig, (0.8, 0.4)), {0: 1000}))[0]
    assert sample["level"] == level
    assert sample["moves"] == []
    assert sample["operators"] == []
    assert [(each["name"], each["from"], each["to"]) for each in sample["units"]] == ([(name, 0, 1)] if name else [])
    moved = sum(len(units) for units, _, _ in rig.settle())
    assert moved == sum(each["units"] for each in sample["units"])


def test_it_settles_level_by_level():
    """Everything begins on worker 0; no more moves once it is even."""
    rig = GraphRig(LANES_AND_KEYS, placement_named("potential"), [0] * 17)
    levels = []
    for _ in range(30):
        told = rig.period(told_of(rig, (0.2, 0.3, 0.4)), {0: 1000})
        levels += [sample["level"] for sample in records(told)]
        rig.settle()
    acted = [level for level in levels if level is not None]
    assert acted
    assert acted[0] == LANES
    assert len(acted) <= 4
    assert levels[-5:] == [None] * 5
    loads = records(told)[0]["hosts"]
    assert abs(loads[0]["load"] - loads[1]["load"]) < 0.1


def test_many_units_are_moved_in_batches():
    rig = GraphRig(shape(((-1,), 400)), placement_named("potential"), [0] * 400)
    warm(rig, told_of(rig, (0.9,), 4000), {0: 4000})
    sizes = [len(units) for units, _, _ in rig.settle()]
    assert max(sizes) == BATCH_UNITS
    assert 190 <= sum(sizes) <= 210


# -- other placements


def test_another_placement_says_where_operators_are_and_units_are_balanced_around_them():
    graph = shape(((-1,), 1), ((-1,), 8))
    rig = GraphRig(graph, Says((0,)), [1] + [0, 1] * 4)
    sample = records(warm(rig, told_of(rig, (0.6, 0.6)), {0: 1000}))[0]
    assert (sample["level"], sample["moves"], sample["units"]) == (2, [{"name": "n0", "worker": 0}], [])
    assert rig.settle() == [((0,), 1, 0)]
    told = warm(rig, told_of(rig, (0.6, 0.6)), {0: 1000}, 2)
    sample = records(told)[0]
    assert (sample["level"], sample["moves"]) == (KEYED, [])
    assert [(each["from"], each["to"]) for each in sample["units"]] == [(0, 1)]


def test_a_placement_that_does_not_weigh_is_asked_again_after_a_while():
    rig = GraphRig(TWO, Says((0, 1)), (0, 0), every_s=5.0)
    asked = []
    for _ in range(WARM + 7):
        told = rig.period(told_of(rig, (0.4, 0.4)), {0: 1000})
        asked += [(rig.time, sample["moves"]) for sample in records(told) if sample["moves"]]
        rig.settle()
        rig.movements.table = rig.movements.table.moved([1], 0)  # somebody puts it back
    assert [time for time, _ in asked] == [3.0, 8.0]


def test_units_of_others_are_background_for_them():
    seen = []

    class Looks(Says):
        def place(self, problem):
            seen.append(problem)
            return problem.placed

    rig = GraphRig(shape(((-1,), 1), ((-1,), 4)), Looks(()), [0, 0, 0, 0, 1])
    warm(rig, told_of(rig, (0.2, 0.4)), {0: 1000})
    assert [np.round(host.background, 6).tolist() for host in seen[0].hosts] == [[0.3] * WARM, [0.1] * WARM]


def test_a_placement_that_raises_is_written_down():
    rig = GraphRig(TWO, Says(()), (0, 0))
    told = warm(rig, busy(0.4), {0: 1000})
    assert [(each.event, fields_of(each)["balance"], fields_of(each)["error"]) for each in told] == [
        ("balance-failed", "says", "ArithmeticError: no answer")
    ]
    assert not rig.movements.moving


def test_an_operator_that_is_too_heavy_is_warned_of_once():
    rig = GraphRig(TWO, placement_named("potential"), (0, 1), quotas={0: 0.5, 1: 0.5})
    reports = told_of(rig, (0.7, 0.1))
    warnings = [each.text for each in warm(rig, reports, {0: 1000}) if isinstance(each, WarnInstruction)]
    assert len(warnings) == 1
    assert "graph r: operator 'n0' has a load of 0.70, and no worker may have more than 0.50" in warnings[0]
    rig.settle()
    again = [each for _ in range(4) for each in rig.period(reports, {0: 1000}) if isinstance(each, WarnInstruction)]
    assert again == []


def test_where_operators_begin():
    rig = GraphRig(SPREAD, placement_named("potential"), [0] * 16)
    assert rig.balancing.first_owners([3, 7]).tolist() == [3, 7] * 8 + [3]
    rig = GraphRig(TWO, placement_named("potential"), (0, 0), first=Says((1, 0)))
    assert rig.balancing.first_owners([3, 7]).tolist() == [7, 3, 3]
    assert rig.balancing.placed() == {"n0": [0], "n1": [0]}
