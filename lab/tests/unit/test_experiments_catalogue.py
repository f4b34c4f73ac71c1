"""The catalogue has every claim of the papers once, each with a criterion, and a picture for each figure."""

import re
from collections import Counter

import pytest

from evenflow.errors import InvalidArgument
from evenflow_lab.experiments.catalogue import chosen, experiments

CLAIMS = {
    "O": ["O-f5", "O-4.4", "O-f8a", "O-f8b", "O-f9", "O-f10", "O-f11", "O-f12", "O-f13"],
    "C": ["C-t1", "C-mv", "C-z", "C-so"],
    "F": ["F-base", "F-f3", "F-f7", "F-f8", "F-f9", "F-f11/12", "F-f13/14", "F-f15"],
    "P": ["P-f2", "P-f3", "P-f4/5", "P-f6/7", "P-f8", "P-f9", "P-f10"],
}


def test_every_claim_is_there_once():
    assert Counter(claim.id for each in experiments() for claim in each.claims) == Counter(
        claim for ids in CLAIMS.values() for claim in ids
    )


def test_names_of_experiments_and_pictures_are_told_apart():
    names = [each.name for each in experiments()]
    pictures = [picture.name for each in experiments() for picture in each.pictures]
    assert len(set(names)) == len(names)
    assert len(set(pictures)) == len(pictures)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names + pictures)


@pytest.mark.parametrize("claim", [claim for each in experiments() for claim in each.claims], ids=lambda each: each.id)
def test_a_claim_says_where_it_is_from_and_when_it_holds(claim):
    assert claim.source
    assert claim.paper
    assert claim.criterion


@pytest.mark.parametrize("group", CLAIMS)
def test_a_group_is_found_by_its_letter(group):
    found = {claim.id for each in chosen([group]) for claim in each.claims}
    assert found == set(CLAIMS[group])


@pytest.mark.parametrize("name", ["F-f13", "f-f14", "F-f13/14"])
def test_a_claim_about_two_figures_is_found_by_each(name):
    assert [claim.id for each in chosen([name]) for claim in each.claims] == ["F-f13/14"]


def test_an_unknown_claim_is_told_as_claims_are_written():
    with pytest.raises(InvalidArgument, match=r"experiment 'F-f133'; did you mean .*'F-f13'"):
        chosen(["F-f133"])
