"""What a worker keeps of keyed operators, when movements and evaluations end in other ways than they should."""

import pytest

from evenflow.errors import ProtocolError
from evenflow.model.messages import DiscardUnits, FeederGone, ForgetEvaluation, RestoreUnits, UnitsMoved
from evenflow.runtime.worker.events import Marked
from tests.support.keyed_actors import Fails, Fragile
from tests.support.keyed_rig import Nth
from tests.support.keyed_site import Site


def sites(operator=None):
    return Site(operator or Nth()), Site(operator or Nth())


def test_a_unit_goes_over_with_its_state():
    source, target = sites()
    source.open()
    assert source.feed(1, 1, 2) == [1, 2, 1]
    source.move(1, [1])
    target.take(source.courier.sent[0])
    assert target.outcomes() == [(1, "installed")]
    target.open()
    assert target.feed(1) == [3]
    with pytest.raises(ProtocolError, match="have left"):
        source.feed(1)
    assert source.feed(2) == [2]


def test_feeders_that_count_units_otherwise_are_refused():
    """Found by the fuzz: arrays of a region with 0 units ended the worker when rows of unit 1 came."""
    site, _ = sites()
    with pytest.raises(ProtocolError, match=r"of operator op speaks of 0 units: it has 9"):
        site.host.open("r", "op", 0, 0.0, 0.0)
    code, site.code = site.code, None  # it is not here yet
    site.host.open("r", "op", 0, 0.0, 0.0)
    site.code = code
    with pytest.raises(ProtocolError, match=r"speaks of 0 units: it has 9"):
        site.feed(1)
    site.leave()
    site.open()
    assert site.feed(1) == [1]


def test_restored_units_are_as_they_were():
    source, _ = sites()
    source.open()
    source.feed(1, 1)
    source.move(1, [1])
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]
    assert source.feed(1) == [3]


def test_units_without_a_row_are_restored_too():
    """Nobody has fed the operator here, so the worker does not know it: that is no reason to die."""
    source, _ = sites()
    source.move(1, [1])
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]


def test_units_are_restored_after_the_last_feeder_left():
    source, _ = sites()
    source.open()
    source.move(1, [1], feeders=[5])
    source.host.mover.handle(Marked(1, 5))
    source.leave()
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]


def test_a_movement_is_discarded_after_its_evaluation_ended():
    source, target = sites()
    source.open()
    source.feed(1)
    source.move(1, [1])
    target.take(source.courier.sent[0])
    target.say(ForgetEvaluation("r", "query q"))
    target.say(DiscardUnits(1, "r"))
    assert target.outcomes() == [(1, "installed"), (1, "discarded")]


def test_rows_that_come_after_the_end_of_their_evaluation_make_no_state():
    site, _ = sites()
    site.open()
    site.feed(1)
    site.say(ForgetEvaluation("r", "query q"))
    with pytest.raises(ProtocolError):
        site.feed(1)
    site.leave()
    assert not site.host.regions


def test_markers_of_movements_that_are_over_are_not_kept():
    site, _ = sites()
    site.open()
    site.move(1, [1], feeders=[5])
    site.say(FeederGone(1, 5))
    site.say(UnitsMoved(1))
    site.host.mover.handle(Marked(1, 5))
    assert not site.host.mover.movements.markers


def test_markers_may_overtake_the_controller():
    site, _ = sites()
    site.open()
    site.host.mover.handle(Marked(1, 5))
    site.move(1, [1], feeders=[5])
    assert len(site.courier.sent) == 1


def test_a_unit_without_state_may_come_back():
    """Its way: here, to a worker that has seen no row of the operator, and back."""
    first, second = sites()
    first.open()
    first.feed(2)
    first.move(1, [1])
    second.take(first.courier.sent[0])
    second.say(UnitsMoved(1))
    second.leave()
    second.host.regions.clear()  # as after the last feeder of a micro-batch
    second.move(2, [1])
    first.take(second.courier.sent[0])
    assert first.feed(1) == [1]


def test_the_end_of_one_evaluation_does_not_stop_a_movement():
    source, _ = sites()
    source.open()
    source.feed(1)
    source.move(1, [1], feeders=[5])
    source.say(ForgetEvaluation("r", "query q"))
    source.say(FeederGone(1, 5))
    assert len(source.courier.sent) == 1


@pytest.mark.parametrize("where", ["extract", "pickle"])
def test_state_that_cannot_leave_stays(where):
    source, _ = sites(Fragile(fails=Fails(where, 1, 1, f"leaves-{where}")))
    source.open()
    source.feed(1, 1)
    source.move(1, [1])
    assert source.outcomes() == [(1, "failed")]
    assert source.courier.sent == []
    source.say(RestoreUnits(1, "r"))
    assert source.feed(1) == [3]


@pytest.mark.parametrize("where", ["install", "unpickle"])
def test_state_that_cannot_arrive_is_put_back(where):
    source, target = sites(Fragile(fails=Fails(where, 1, 1, f"arrives-{where}")))
    source.open()
    source.feed(1, 1)
    source.move(1, [1])
    target.take(source.courier.sent[0])
    assert target.outcomes() == [(1, "failed")]
    target.say(DiscardUnits(1, "r"))
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "restored")]
    assert source.feed(1) == [3]


def test_state_that_cannot_be_put_back_is_reported_and_costs_nobody_else():
    source, _ = sites(Fragile(fails=Fails("install", 1, 100, "never")))
    source.open()
    source.feed(1, 2)
    source.move(1, [1])
    source.say(RestoreUnits(1, "r"))
    assert source.outcomes() == [(1, "lost")]
    assert source.feed(2) == [2]
