"""Balances and placements derive from a base class, which says what they leave out."""

import pytest

from evenflow.errors import InvalidArgument
from evenflow.model.messages import REPORT_S
from evenflow.policy import BALANCES, KEYED_BALANCES, PLACEMENTS, Balance, KeyedBalance, Placement, River, RoundRobin
from evenflow.runtime.cluster.arguments.graph import placement_of
from evenflow.runtime.cluster.arguments.verbs import balance_of, keyed_balance_of


@pytest.mark.parametrize(
    ("choice", "base"), [(BALANCES, Balance), (KEYED_BALANCES, KeyedBalance), (PLACEMENTS, Placement)]
)
def test_ours_derive_from_them(choice, base):
    assert all(issubclass(kind, base) for kind in choice.values())
    with pytest.raises(TypeError, match="abstract"):
        base()


class OwnKeyed(KeyedBalance):
    def decide(self, _snapshot):
        return []


class OwnOrdered(Balance):
    def decide(self, _snapshot):
        return []


class OwnPlacement(Placement):
    def place(self, problem):
        return (0,) * len(problem.operators)


def test_a_keyed_balance_need_only_decide():
    own = keyed_balance_of(given := OwnKeyed(), {})
    assert type(own) is OwnKeyed
    assert own is not given, "no two operators learn in one object"
    assert (own.name, own.by_content, own.by_arrivals, own.divided) == ("own", True, False, False)
    assert (own.choices, own.report_s, own.seed) == (0, REPORT_S, 0)


def test_a_balance_of_an_ordered_region_need_only_decide():
    own = balance_of(OwnOrdered(), {}, 3)
    assert (type(own), own.name, own.splitting) == (OwnOrdered, "own", "block")


def test_a_placement_need_only_place():
    own, first = placement_of(given := OwnPlacement(), {})
    assert (own, first, own.name) == (given, None, "own")
    assert own.moves(None) is None


def test_what_they_say_themselves_counts():
    assert {name for name, kind in KEYED_BALANCES.items() if kind.divided} == {"exchange"}
    assert {name for name, kind in KEYED_BALANCES.items() if kind.choices} == {"pkg"}
    assert {name for name, kind in KEYED_BALANCES.items() if not kind.by_content} == {"pkg", "river"}
    assert {name for name, kind in KEYED_BALANCES.items() if kind.by_arrivals} == {"dlb-h", "dlb-l", "lptf"}
    assert {name: kind.splitting for name, kind in BALANCES.items() if kind.splitting != "block"} == {
        "credits": "credits",
        "reroute": "reroute",
    }
    assert River(seed=7).seed == 7
    assert KEYED_BALANCES["flux"](delta_min=0.02).report_s == 0.02
    assert KEYED_BALANCES["flux"](delta_min=5.0).report_s == REPORT_S


class Duck:
    """Has all that the bases have, and derives from none of them."""

    name, splitting, by_content = "duck", "block", True

    def decide(self, _snapshot):
        return []

    def place(self, _problem):
        return ()


@pytest.mark.parametrize("given", [Duck(), OwnKeyed, 7, None], ids=["duck", "class", "number", "none"])
def test_objects_of_other_classes_are_told_the_base(given):
    with pytest.raises(InvalidArgument, match=r"give one of blocking-rate.*derives from evenflow\.policy\.Balance$"):
        balance_of(given, {}, 2)
    with pytest.raises(InvalidArgument, match=r"give one of auto.*derives from evenflow\.policy\.KeyedBalance$"):
        keyed_balance_of(given, {})
    with pytest.raises(InvalidArgument, match=r"give a name, or .*derives from evenflow\.policy\.Placement$"):
        placement_of(given, {})


def test_one_of_another_kind_is_refused():
    with pytest.raises(InvalidArgument, match=r"evenflow\.policy\.KeyedBalance$"):
        keyed_balance_of(RoundRobin(), {})


def test_an_unknown_splitting_is_refused():
    class Odd(OwnOrdered):
        splitting = "throw"

    with pytest.raises(InvalidArgument, match=r"splitting of .*Odd object.* is 'throw': give one of block, "):
        balance_of(Odd(), {}, 2)
