"""What holds for every balance of a keyed operator, whatever it is shown; and Flux against §5.3 written down."""

import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.policy.keyed.auto import Auto
from evenflow.policy.keyed.cep.dlb import DlbH, DlbL
from evenflow.policy.keyed.cep.kg import KeyGrouping
from evenflow.policy.keyed.cep.lptf import Lptf
from evenflow.policy.keyed.cep.pkg import PartialKeyGrouping
from evenflow.policy.keyed.flux.auto import FluxAuto
from evenflow.policy.keyed.flux.hash_units import Hash
from evenflow.policy.keyed.flux.hybrid import FluxHybrid
from evenflow.policy.keyed.flux.load import Flux
from evenflow.policy.keyed.flux.memory import FluxMemory
from evenflow.policy.keyed.flux.river import River
from evenflow.policy.keyed.placement import plan
from tests.support.keyed_model import snapshot
from tests.support.keyed_stories import Tie, play, section_5_3, stories

pytestmark = pytest.mark.slow

BY_LOAD = [partial(balance, window=0.5, least_rows=10) for balance in (DlbH, DlbL, Lptf)]
FIXED = [KeyGrouping, PartialKeyGrouping]


@pytest.mark.parametrize("balance", [Hash, River, Flux, FluxAuto, FluxMemory, FluxHybrid, Auto, *BY_LOAD, *FIXED])
@settings(max_examples=40)
@given(story=stories(), tight=st.none() | st.floats(0.5, 3.0))
def test_moves_are_possible(balance, story, tight):
    for shown, moves in play(balance(), story, tight):
        live = {consumer.worker for consumer in shown.consumers}
        units = [unit for move in moves for unit in move.units]
        assert len(units) == len(set(units)), "a unit moves twice"
        assert all(0 <= unit < shown.table.units for unit in units)
        for move in moves:
            assert move.region == shown.region
            assert move.units
            assert move.target in live
            assert move.source != move.target
            assert (shown.table.owners[list(move.units)] == move.source).all()
        assert len({(move.source, move.target) for move in moves}) == len(moves)
        if shown.moving:
            assert moves == []


@settings(max_examples=40)
@given(story=stories())
def test_flux_auto_promises_to_do_better(story):
    for _, moves in play(FluxAuto(), story):
        for move in moves:
            before, after = map(float, re.findall(r"(\d+\.\d+) (?:of|after)", move.reason))
            assert 0.99 <= after < before


@given(
    data=st.data(),
    workers=st.integers(2, 5),
    loads=st.lists(st.integers(0, 50) | st.integers(0, 2_000), min_size=1, max_size=40),
    first=st.booleans(),
)
def test_plans_are_what_they_say(data, workers, loads, first):
    """Each step's figure is that of the placement; none beats the bound; all but forced steps lower the maximum."""
    owner = np.array(data.draw(st.lists(st.integers(-1, workers - 1), min_size=len(loads), max_size=len(loads))))
    cost = np.array(data.draw(st.lists(st.sampled_from([1.0, 1.1, 2.0, 5.0]), min_size=workers, max_size=workers)))
    load = np.where(owner >= 0, np.array(loads, float), 0.0)
    assume(load.any())
    bound = max(load.sum() / (1 / cost).sum(), cost.min() * load.max())
    steps = plan(owner, load, cost, bound, first)
    placed = steps[0].placed.copy()
    for step in steps:
        placed[step.units] = step.placed if step is not steps[0] else placed[step.units]
        times = np.bincount(placed[owner >= 0], load[owner >= 0], workers) * cost
        assert step.worst == pytest.approx(times.max())
        assert step.worst >= bound * (1 - 1e-9)
    assert (placed[owner < 0] == -1).all()
    assert ((placed >= 0) == (owner >= 0)).all()


@settings(max_examples=400)
@given(
    data=st.data(),
    idle=st.lists(st.integers(0, 20), min_size=2, max_size=7),
    rows=st.lists(st.integers(0, 30), min_size=1, max_size=25),
    th_imb=st.sampled_from([Fraction(1), Fraction(6, 5), Fraction(2)]),
    th_util=st.sampled_from([Fraction(1, 2), Fraction(9, 10), Fraction(1)]),
)
def test_flux_is_section_5_3(data, idle, rows, th_imb, th_util):
    sites = len(idle)
    owners = data.draw(st.lists(st.integers(0, sites - 1), min_size=len(rows), max_size=len(rows)))
    waited = [Fraction(i, 20) for i in idle]
    try:
        expected = section_5_3(owners, rows, waited, 1, th_imb, th_util)
    except Tie:
        assume(False)
    flux = Flux(th_imb=float(th_imb), th_util=float(th_util))
    many = list(range(sites))
    assert flux.decide(snapshot(0, owners, [0] * len(rows), idle=[0] * sites, workers=many)) == []
    moves = flux.decide(snapshot(1, owners, rows, idle=[float(i) for i in waited], workers=many))
    assert [(*move.units, move.source, move.target) for move in moves] == expected
