"""The claims about ordered regions: judges on data made by hand, and one small run."""

import pytest

from evenflow_lab.experiments.base import Setting
from evenflow_lab.experiments.ordered import classes as ordered_classes
from evenflow_lab.experiments.ordered import depth as ordered_depth
from evenflow_lab.experiments.ordered import halves as ordered_halves
from evenflow_lab.experiments.ordered.runs import HalfLoaded, in_depth, scene_of, to_the_end, tuple_s

IDS = {"O-f5", "O-4.4", "O-f8a", "O-f8b", "O-f9", "O-f10", "O-f11", "O-f12", "O-f13"}
EXPERIMENTS = [*ordered_depth.EXPERIMENTS, *ordered_halves.EXPERIMENTS, *ordered_classes.EXPERIMENTS]
JUDGES = {claim.id: claim.judge for experiment in EXPERIMENTS for claim in experiment.claims}
PLACES = ("All-Fast", "All-Slow", "Even-RR")


def rates(*leading, other=0.0):
    """Blocking rates of two connections, the same in 20 samples, for each of the four splits."""
    return {"rates": {str(s): [[rate, other]] * 20 for s, rate in zip((80, 70, 60, 50), leading, strict=True)}}


def rerouted(low, high):
    cells = [dict(zip(("rerouted", "gain"), cell, strict=True)) for cell in (low, high)]
    names = [f"{kind}-{cost}" for kind in ("deep", "shallow", "roomy") for cost in (1000, 10_000)]
    return dict(zip(names, cells * 3, strict=True))


def depth(weights, rate=(0.9, 0.0, 0.0)):
    run = {"weights": weights, "rates": [rate] * len(weights), "throughput": [1e6] * len(weights), "clusters": []}
    return {"until": 50, "runs": {"lb-adaptive": run}}


def loaded(low, back):
    return depth([[low, 50.0, 50.0 - low]] * 50 + [[back, (100 - back) / 2, (100 - back) / 2]] * 350)


def halves(static, adaptive, rr, final=(1.0, 2.0), pes=(2, 4)):
    """Seconds of balances, where Oracle* takes 1; final throughput of LB-static and LB-adaptive."""
    both = {"lb-static": (static, final[0]), "lb-adaptive": (adaptive, final[1])}
    cells = {**both, "oracle": (1.0, 2.0), "round-robin": (rr, 2.0), "blocking-rate": (1.0, 2.0), "credits": (1.0, 2.0)}
    one = {name: {"seconds": [s] * len(pes), "final": [f] * len(pes)} for name, (s, f) in cells.items()}
    return {"pes": list(pes), "static": one, "removed": one}


def hosts(fast, last, others=1e6):
    run = {"weights": [[fast, 100 - fast]] * 100}
    throughput = {name: [others, others] for name in PLACES} | {
        "Even-LB": [1.0, last],
        "Even-credits (ours)": [9e9, 9e9],
    }
    return {"runs": {"lb-adaptive": run}, "pes": [2, 24], "throughput": throughput}


def classes(slow, medium, free, clusters):
    factors = [100.0] * 20 + [5.0] * 20 + [1.0] * 24
    shares = {100.0: slow, 5.0: medium, 1.0: free}
    run = {"weights": [[shares[f] for f in factors]] * 40, "clusters": [[1.0, [clusters[f] for f in factors]]] * 8}
    return {"factors": factors, "runs": {"lb-adaptive": run, "blocking-rate": run}}


PURE, MIXED = {100.0: 0, 5.0: 1, 1.0: 2}, {100.0: 0, 5.0: 1, 1.0: 1}
HOLD = {
    "O-f5": rates(0.8, 0.7, 0.6, 0.5),
    "O-4.4": rerouted((0.005, 0.0), (0.075, 0.2)),
    "O-f8a": loaded(3.0, 33.0),
    "O-f8b": depth([[33.0, 36.0, 31.0]] * 100),
    "O-f9": halves(1.2, 1.1, 3.0),
    "O-f10": halves(1.5, 1.8, 45.0),
    "O-f11": hosts(66.0, 2e6),
    "O-f12": classes(0.1, 1.5, 3.4, PURE),
    "O-f13": halves(1.2, 1.2, 11.0, pes=(16, 32, 64)),
}
FAIL = [
    ("O-f5", rates(0.8, 0.7, 0.7, 0.5)),
    ("O-f5", rates(0.8, 0.7, 0.6, 0.4, other=0.3)),
    ("O-4.4", rerouted((0.05, 0.0), (0.075, 0.2))),
    ("O-4.4", rerouted((0.005, 0.0), (0.005, 0.0))),
    ("O-f8a", loaded(10.0, 33.0)),
    ("O-f8a", loaded(3.0, 20.0)),
    ("O-f8b", depth([[45.0, 35.0, 20.0]] * 100)),
    ("O-f9", halves(1.2, 1.1, 1.5)),
    ("O-f9", halves(1.2, 1.1, 3.0, final=(1.0, 1.0))),
    ("O-f9", halves(1.0, 1.1, 3.0)),
    ("O-f10", halves(2.2, 1.8, 45.0)),
    ("O-f10", halves(1.5, 1.8, 20.0)),
    ("O-f10", halves(1.5, 1.8, 45.0, final=(1.0, 1.3))),
    ("O-f11", hosts(55.0, 2e6)),
    ("O-f11", hosts(66.0, 0.9e6)),
    ("O-f12", classes(0.1, 1.5, 3.4, MIXED)),
    ("O-f12", classes(1.0, 1.5, 3.4, PURE)),
    ("O-f13", halves(1.2, 3.0, 11.0, pes=(16, 32, 64))),
]


def test_every_claim_has_one_judge():
    assert JUDGES.keys() == HOLD.keys() == {claim for claim, _ in FAIL} == IDS
    assert sum(len(experiment.claims) for experiment in EXPERIMENTS) == len(IDS)


@pytest.mark.parametrize("claim", HOLD)
def test_a_claim_holds(claim):
    assert JUDGES[claim](HOLD[claim]).holds


@pytest.mark.parametrize(("claim", "data"), FAIL, ids=[claim for claim, _ in FAIL])
def test_a_claim_does_not_hold(claim, data):
    finding = JUDGES[claim](data)
    assert not finding.holds
    assert finding.why


def test_purity():
    assert ordered_classes.purity([1.0, 1.0, 5.0, 5.0], [0, 0, 1, 2]) == 1.0
    assert ordered_classes.purity([1.0, 1.0, 5.0, 5.0], [0, 3, 3, 2]) == 0.5


def test_a_run_takes_what_its_tuples_cost():
    """Two PEs at 11 us a tuple, an even split: 20,000 tuples take 0.11 s."""
    scene = scene_of(Setting(), 10_000, 2, "round-robin", rows=20_000, jitter=0.0)
    run = to_the_end(scene, "round-robin", 0.05)
    assert tuple_s(10_000) == pytest.approx(11e-6)
    assert run.seconds == pytest.approx(0.11, rel=0.05)


def test_in_depth_runs_give_a_row_a_sample():
    scene = scene_of(Setting(quick=True), 10_000, 2, "static")
    found = in_depth(scene, "static", 6, weights=[0.8, 0.2])
    assert len(found.weights) == len(found.rates) == len(found.throughput) == 6
    assert found.weights[-1] == [80.0, 20.0]
    assert found.throughput[-1] == pytest.approx(1 / 11e-6 / 0.8, rel=0.02)


def test_the_load_is_on_half_of_the_pes_and_the_oracle_knows():
    loaded, free = HalfLoaded(10_000, 100.0, True).capacities(4)
    assert loaded[:2] == pytest.approx([1 / 1001e-6] * 2)
    assert loaded[2:] == free[2:] == free[:2]


def test_pes_on_the_fast_host():
    assert [ordered_classes.on_fast(24, part) for part in (1.0, 0.0, 0.5)] == [24, 0, 16]
    assert ordered_classes.on_fast(8, 0.5) == 4


def test_a_small_experiment_is_the_same_each_time():
    reroute = next(each for each in EXPERIMENTS if each.name == "ordered-reroute")
    told = []
    data = reroute.run(Setting(quick=True, progress=told.append))
    assert data == reroute.run(Setting(quick=True))
    assert told[-1] == 1.0
    assert reroute.claims[0].judge(data).why
