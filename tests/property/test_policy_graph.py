"""Laws of placements: energies kept up step by step are exact, every operator gets a host, equilibria are some."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model.graphs.placement import PAPER_WEIGHTS, EnergyWeights, Host, Links, OperatorLoad, PlacementProblem
from evenflow.policy import PLACEMENTS, placement_named
from evenflow.policy.graph.energies.energy import PartialPlacement, total_energy
from evenflow.policy.graph.energies.landscape import energy_landscape, latency_landscape
from evenflow.policy.graph.energies.latency import LatencyModel
from evenflow.policy.graph.equilibrium import fill
from tests.support.placement_model import energies, latencies

WEIGHTS = EnergyWeights(3.0, 2.0, 0.5)
NUMBERS = st.integers(0, 60).map(lambda value: value / 50)


@st.composite
def problems(draw, most=6, pinned=True, placed=False):
    count, hosts, periods = draw(st.integers(1, most)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    operators = []
    for number in range(count):
        later = list(range(number + 1, count))
        readers = draw(st.lists(st.sampled_from(later), unique=True, max_size=3)) if later else []
        operators.append(
            OperatorLoad(
                f"o{number}",
                tuple(draw(st.lists(NUMBERS, min_size=periods, max_size=periods))),
                tuple(readers),
                float(draw(st.integers(0, 100))),
                float(draw(st.integers(0, 100))),
                draw(st.integers(0, 10**6)),
                draw(st.none() | st.integers(0, hosts - 1)) if pinned else None,
                draw(st.booleans()),
            )
        )
    series = st.just(()) | st.tuples(*[NUMBERS] * periods)
    machines = tuple(
        Host(j, draw(st.sampled_from([0.5, 1.0, 3.0])), draw(st.sampled_from([0.3, 1.0])), draw(series))
        for j in range(hosts)
    )
    roomy = draw(st.sampled_from([1, 100]))
    pairs = {
        (a, b): (float(draw(st.integers(0, 50))), float(roomy * draw(st.integers(20, 400))))
        for a in range(hosts)
        for b in range(hosts)
    }
    where = st.integers(0, hosts - 1) if placed else st.integers(-1, hosts - 1)
    return PlacementProblem(tuple(operators), machines, Links(pairs=pairs), draw(st.tuples(*[where] * count)))


def changes(draw, problem, steps=12):
    """Any sequence of operators that come, go or move: yields the operator and its new host, -1 for none."""
    for _ in range(draw(st.integers(0, steps))):
        yield (
            draw(st.integers(0, len(problem.operators) - 1)),
            draw(st.integers(-1, len(problem.hosts) - 1)),
        )


@given(problem=problems(), data=st.data())
def test_energies_kept_up_are_those_from_scratch(problem, data):
    partial = PartialPlacement(problem, WEIGHTS)
    for operator, host in changes(data.draw, problem):
        if partial.traffic.placed[operator] >= 0:
            partial.remove(operator)
        if host >= 0:
            partial.add(operator, host)
    fresh = PartialPlacement(problem, WEIGHTS)
    for operator, host in enumerate(partial.traffic.placed):
        if host >= 0:
            fresh.add(operator, host)
    assert partial.total() == pytest.approx(fresh.total(), abs=1e-7)
    for operator in np.flatnonzero(partial.hosts < 0).tolist():
        assert partial.pe_of(operator) == pytest.approx(fresh.pe_of(operator), abs=1e-7)
        assert partial.copy().pe_of(operator) == pytest.approx(partial.pe_of(operator), abs=0)


@given(problem=problems(placed=True))
def test_totals_are_those_of_the_formulas(problem):
    every = np.array([problem.placed])
    assert total_energy(problem, problem.placed, WEIGHTS) == pytest.approx(
        energies(problem, every, WEIGHTS)[0], abs=1e-6
    )
    found = placement_named("potential").total(problem, problem.placed)
    assert found == pytest.approx(latencies(problem, every)[0], rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("kind", ["energy", "latency"])
@given(problem=problems(placed=True), data=st.data())
def test_costs_and_swaps_are_changes_of_the_total(kind, problem, data):
    def landscape(placed):
        made = energy_landscape(problem, WEIGHTS) if kind == "energy" else latency_landscape(problem, LatencyModel())
        fill(made, placed, ())
        return made

    one, other = (data.draw(st.integers(0, len(problem.operators) - 1)) for _ in range(2))
    placed = list(problem.placed)
    now = landscape(placed)
    now.remove(one)
    before, costs = now.total(), now.costs(one)
    for host in range(len(problem.hosts)):
        placed[one] = host
        assert costs[host] == pytest.approx(landscape(placed).total() - before, rel=1e-9, abs=1e-5)
    now.add(one, problem.placed[one])
    if problem.placed[one] != problem.placed[other]:
        placed = list(problem.placed)
        placed[one], placed[other] = placed[other], placed[one]
        gain = now.total() - landscape(placed).total()
        slack = 1e-5 + 1e-9 * abs(now.total())
        assert now.swap(one, np.array([other]), gain - slack) == other
        assert now.swap(one, np.array([other]), gain + slack) is None


@pytest.mark.parametrize("name", PLACEMENTS)
@given(problem=problems())
@settings(max_examples=40)
def test_every_operator_gets_a_host_and_pinned_ones_stay(name, problem):
    placed = placement_named(name).place(problem)
    assert len(placed) == len(problem.operators)
    assert all(0 <= host < len(problem.hosts) for host in placed)
    assert all(each.pinned in (None, host) for each, host in zip(problem.operators, placed, strict=True))
    assert placement_named(name).place(problem) == placed, "same input, same output"


@pytest.mark.parametrize("name", ["greedy", "dp"])
@given(problem=problems(pinned=False, placed=True))
def test_theta_1_moves_nothing(name, problem):
    assert placement_named(name, theta=1.0).place(problem) == problem.placed


@pytest.mark.parametrize(("weights", "totals"), [(PAPER_WEIGHTS, energies), (WEIGHTS, energies), (None, latencies)])
@given(problem=problems(most=5))
@settings(max_examples=50)
def test_an_equilibrium_is_one(weights, totals, problem):
    """No move of one operator and no swap of two lowers the total, computed from the formulas."""
    given_weights = () if weights is None else (weights,)
    placed = placement_named("potential", weights=weights).place(problem)
    free = [number for number, operator in enumerate(problem.operators) if operator.pinned is None]
    others = []
    for number in free:
        for host in range(len(problem.hosts)):
            others.append(list(placed))
            others[-1][number] = host
        for second in free:
            others.append(list(placed))
            others[-1][number], others[-1][second] = placed[second], placed[number]
    if others:
        total = totals(problem, np.array([placed]), *given_weights)[0]
        least = totals(problem, np.array(others), *given_weights).min()
        assert least >= total - 1e-6 - 2e-9 * abs(total)


@pytest.mark.parametrize("weights", [PAPER_WEIGHTS, None])
@given(problem=problems())
@settings(max_examples=50)
def test_placing_the_answer_again_moves_nothing(weights, problem):
    potential = placement_named("potential", weights=weights)
    placed = potential.place(problem)
    again = PlacementProblem(problem.operators, problem.hosts, problem.links, placed)
    assert potential.place(again) == placed
    assert potential.moves(again) == []


@pytest.mark.parametrize("weights", [PAPER_WEIGHTS, None])
@given(problem=problems(pinned=False, placed=True))
@settings(max_examples=50)
def test_moves_lower_the_total(weights, problem):
    potential = placement_named("potential", weights=weights)
    moves = potential.moves(problem)
    after = list(problem.placed)
    for operator, source, target in moves:
        assert after[operator] == source != target
        after[operator] = target
    if moves:
        assert potential.total(problem, after) < potential.total(problem, problem.placed)
