"""The claims of the potential-driven paper: criteria on data made by hand, and one run that is as small as can be."""

import json
from dataclasses import replace

import pytest

from evenflow.policy.graph.random_placement import RandomPlacement
from evenflow_lab.experiments.base import Setting
from evenflow_lab.experiments.potential import energy as potential_energy
from evenflow_lab.experiments.potential import limits as potential_limits
from evenflow_lab.experiments.potential import weights as potential_weights
from evenflow_lab.experiments.potential import xzh as potential_xzh
from evenflow_lab.experiments.potential.runs import PlacementRuns, greedy, outcome, rank_correlation, ranks
from evenflow_lab.experiments.potential.schemes import FEASIBLE, SCHEMES, even_load, feasible, simulated

EXPERIMENTS = [
    each
    for module in (potential_energy, potential_weights, potential_limits, potential_xzh)
    for each in module.EXPERIMENTS
]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.claims}


def energies(latencies, hosts=(9.0, 5.0, 2.0)):
    random = {"before_pe": 1.0, "before_ms": 9.0}
    chains = [{"even_pe": n, "after_ms": ms} | random for n, ms in enumerate(latencies)]
    spread = [{"even_pe": n, "after_ms": ms} | random for n, ms in zip((9.0, 4.0, 1.0), hosts, strict=True)]
    return {"schemes": {"2": chains, "5": spread}}


def algorithms(original, greedy, dp):
    point = {"length": 3, "load": 0.5, "original": original, "greedy": greedy, "dp": dp}
    return {"points": [point | {"first": 2.0, "potential": 1.0}] * 2}


def weights(which, latencies, falls, exponents=(-6, -3, 2, 5)):
    key = {"load": "load_std", "network": "sent_s"}[which]
    points = [{"before_ms": 9.0, "after_ms": ms, key: value} for ms, value in zip(latencies, falls, strict=True)]
    return {"exponents": list(exponents), "curves": {"Scheme 5": {"points": points, "potential": 1.0}}}


def thetas(after, before=40.0):
    about = {"before_ms": before, "load_std": 0.1, "sent_s": 50.0, "moved": 1}
    points = [about | {"after_ms": ms} for ms in after]
    return {"thetas": [0.0, 0.5, 1.0], "curves": {"3": points, "4": points}}


def quotas(loads, filled=0.5):
    work = [{"filled": filled, "arrival_ms": 70.0, "loads": {"greedy": loads}}]
    return {"quotas": [0.2, 0.4, 0.8], "schemes": {"2": work, "5": work}}


def against(*ratios):
    measured = ("load_std", "peak", "waiting")
    about = {"xzh": 1.0, "alone": 3.0, "original": 2.0}
    about |= {f"{name}_{what}": 0.1 for name in ("pd", "xzh", "alone") for what in measured}
    points = [{"at": n, "pd": ratio, "load": 0.8 + 0.1 * n} | about for n, ratio in enumerate(ratios)]
    return {"lengths": points, "arrivals": points}


@pytest.mark.parametrize(
    ("claim", "data", "holds"),
    [
        ("P-f2", energies([1.0, 2.0, 3.0, 4.0]), True),
        ("P-f2", energies([1.0, 2.0, 4.0, 400.0]), False),  # not in a line
        ("P-f2", energies([1.0, 2.0, 3.0, 4.0], hosts=(1.0, 2.0, 3.0)), False),  # the other one falls
        ("P-f3", algorithms(10.0, 4.0, 4.5), True),
        ("P-f3", algorithms(10.0, 4.0, 2.0), False),  # they can be told apart
        ("P-f3", algorithms(10.0, 8.0, 8.0), False),  # not far below
        ("P-f4/5", weights("load", [9.0, 8.0, 5.0, 4.0], [4, 3, 2, 1]), True),
        ("P-f4/5", weights("load", [9.0, 8.0, 5.0, 4.0], [1, 2, 3, 4]), False),  # the deviation rises
        ("P-f4/5", weights("load", [1.0, 8.0, 5.0, 4.0], [4, 3, 2, 1]), False),  # 10^2 is not safe
        ("P-f6/7", weights("network", [5.0, 4.0, 8.0, 9.0], [4, 3, 2, 1]), True),
        ("P-f6/7", weights("network", [5.0, 9.0, 8.0, 4.0], [4, 3, 2, 1]), False),  # 10^-3 is not safe
        ("P-f8", thetas([10.0, 20.0, 41.0]), True),
        ("P-f8", thetas([10.0, 20.0, 30.0]), False),  # not up to the original
        ("P-f8", thetas([50.0, 45.0, 40.0]), False),  # it falls
        ("P-f9", quotas([0.1, 0.2, 0.4]), True),
        ("P-f9", quotas([0.4, 0.2, 0.1]), False),
        ("P-f9", quotas([0.4, 0.5, 0.7]), False),  # alike, and far off
        ("P-f10", against(0.9, 0.8, 1.04), True),
        ("P-f10", against(0.5, 0.5, 1.2), False),  # much worse at one point
        ("P-f10", against(1.01, 1.02, 1.0), False),  # not better in the mean
    ],
)
def test_a_claim_is_decided_by_its_criterion(claim, data, holds):
    found = CLAIMS[claim].judge(data)
    assert found.holds is holds
    assert found.ours
    assert bool(found.why) is not holds


def test_workloads_beyond_all_quotas_do_not_count():
    data = quotas([0.1, 0.2, 0.4])
    data["schemes"]["2"].append({"filled": 3.0, "arrival_ms": 7.0, "loads": {"greedy": [1.0, 1.0, 1.0]}})
    assert CLAIMS["P-f9"].judge(data).holds


def test_every_claim_is_there_once():
    assert list(CLAIMS) == ["P-f2", "P-f3", "P-f4/5", "P-f6/7", "P-f8", "P-f9", "P-f10"]
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS) == 7


def test_ranks_and_their_correlation():
    assert ranks([5.0, 1.0, 5.0]).tolist() == [1.5, 0.0, 1.5]
    assert rank_correlation([1, 2, 3], [1, 10, 100]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [7, 7, 7]) == 0.0


@pytest.mark.parametrize("number", SCHEMES)
def test_a_scheme_is_drawn_as_the_tables_say(number):
    scheme = replace(SCHEMES[number], hosts=4, operators=60)
    graph = simulated(scheme, 1)
    assert graph == simulated(scheme, 1)
    assert graph != simulated(scheme, 2)
    assert (len(graph.hosts), len(graph.operators), len(graph.links)) == (4, 60, 12)
    assert all(1 <= host.coefficient <= scheme.coefficient[1] for host in graph.hosts)
    joins = [each for each in graph.operators if each.window]
    assert len(joins) <= 60 * (1 - scheme.filters) + 1
    assert all(1 <= each.window <= 10 and 1 <= each.cost_ms <= 2 for each in joins)
    filters = [each for each in graph.operators if not each.window]
    assert all(scheme.filter_ms[0] <= each.cost_ms <= scheme.filter_ms[1] for each in filters)
    assert all(source.high == pytest.approx(1e3 / scheme.arrival_ms) for source in graph.sources)
    assert all(source.low == pytest.approx(source.high / scheme.ratio) for source in graph.sources)


def test_a_variation_of_a_scheme_differs_in_one_thing_only():
    """§5.3.1: longer chains have the same heads, and more hosts are more of the same."""
    one, long = simulated(SCHEMES[2], 1), simulated(replace(SCHEMES[2], operators=300), 1)
    costs = [[(each.cost_ms, each.selectivity) for each in graph.operators] for graph in (one, long)]
    assert [costs[0][10 * chain : 10 * chain + 10] for chain in range(20)] == [
        costs[1][15 * chain : 15 * chain + 10] for chain in range(20)
    ]
    assert (one.hosts, one.links) == (long.hosts, long.links)
    more = simulated(replace(SCHEMES[2], hosts=25), 1)
    assert more.hosts[:20] == one.hosts
    assert more.links[: len(one.links)] == one.links


def test_a_scheme_that_no_placement_can_serve_is_drawn_again():
    loads = [even_load(simulated(SCHEMES[5], seed)) for seed in range(3)]
    assert max(loads) > FEASIBLE
    assert all(even_load(simulated(SCHEMES[5], seed, feasible(SCHEMES[5], seed))) <= FEASIBLE for seed in range(3))


def test_the_even_load_is_what_hosts_are_busy_with():
    """Scheme 1: nine operators of 20 ms for each of ten rows a second, on three hosts."""
    assert even_load(simulated(SCHEMES[1], 1)) == pytest.approx(0.6)
    found = outcome(simulated(SCHEMES[1], 1), RandomPlacement(1), 1)
    assert sum(found.loads) / 3 == pytest.approx(0.6, rel=0.01)
    assert found.before_ms == pytest.approx(found.after_ms, rel=0.05)  # rows that come at once take turns
    assert found.moved == 0


def test_a_run_is_data_that_can_be_written():
    told = []
    progress = PlacementRuns(Setting(progress=told.append), 2)
    graph = simulated(replace(SCHEMES[1], filter_ms=(1.0, 1.0)), 1)
    found = progress.run(graph, greedy(), 1)
    assert json.loads(json.dumps(found)) == found
    assert told == [0.5]
    assert found["moved"] > 0
