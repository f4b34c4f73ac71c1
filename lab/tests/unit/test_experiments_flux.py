"""The judges of the Flux claims, on data that holds and on data that does not; and a small run."""

from dataclasses import replace

import pytest

from evenflow_lab.experiments.base import Setting
from evenflow_lab.experiments.flux import hybrid as flux_hybrid
from evenflow_lab.experiments.flux import load as flux_load
from evenflow_lab.experiments.flux import memory as flux_memory
from evenflow_lab.experiments.flux import skew as flux_skew
from evenflow_lab.experiments.flux.runs import cluster, first_below, loaded, mean_latency, run_flux, steady_since

MODULES = (flux_load, flux_skew, flux_memory, flux_hybrid)
EXPERIMENTS = tuple(each for module in MODULES for each in module.EXPERIMENTS)
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.claims}


def run(throughput, latency=0.3, owned=(), on_disk=(0, 0), moves=0):
    latencies = latency if isinstance(latency, list) else [latency] * len(throughput)
    state = {"owned": owned, "on_disk": on_disk, "moves": moves, "last_move": 2.5}
    return {"throughput": throughput, "latency_ms": latencies, **state}


def reaction(felt=6, steady=14, off=32):
    slow = [100.0] * (felt - 1) + [43.0] * (30 - felt + 1)
    flux = [100.0] * (felt - 1) + [60.0] * (steady - felt) + [98.0] * (30 - steady + 1)
    runs = {"unloaded": run([100.0] * 30), "hash": run(slow), "flux-auto": run([98.0] * 30)}
    return {"machines": 32, "runs": runs | {"flux": run(flux, owned=[64 - off])}}


def degradation(static=0.43, bend=1.0):
    counts = [0, 1, 16, 32]
    line = [1 - 0.571 * count / 32 * (bend if 0 < count < 32 else 1.0) for count in counts]
    curves = {"hash": [1.0, static, static, static], "flux": line, "flux-auto": line}
    return {"machines": 32, "loaded": counts, "curves": curves}


def skew(small=0.5, calm=1.1, with_load=1.1):
    flux = {"unloaded": [small, calm, calm], "loaded": [small, with_load, with_load]}
    both = {"unloaded": 1.0, "loaded": 0.6}
    moved = {"moves": {}, "most_moved": {"unloaded": [200, 9, 5]}}
    return {"delta_min": [0.01, 0.15, 0.25], "flux": flux, "static": both, "flux-auto": both, **moved}


def memory(stands=15, back=37, on_disk=0, latency=0.3):
    static = [100.0] + [0.0] * (stands - 2) + [30.0] * 60
    flux = [100.0] + [0.0] * (stands - 2) + [30.0] * (back - stands) + [100.0] * (80 - back)
    ours = [*[0.3] * 10, *[9.0] * (len(flux) - 20), *[latency] * 10]
    runs = {"hash": run(static), "flux-memory": run(flux, ours, on_disk=[on_disk]), "auto": run(flux)}
    return {"machines": 32, "runs": runs}


def memory_degradation(static=0.33, slower=1000.0, held=1.0, at_half=0.3):
    flux = {"throughput": [100.0, 99.0 * held, 100 * 128 / (128 + 43) * at_half], "latency_ms": [0.3, 0.3, 900.0]}
    frozen = {"throughput": [100.0, 100 * static, 100 * static], "latency_ms": [0.3, 0.3 * slower, 0.3 * slower]}
    return {"machines": 32, "perturbed": [0, 1, 16], "runs": {"hash": frozen, "flux-memory": flux, "auto": flux}}


def hybrid(memory=80.0, best=100.0, steady=55, gain=2.0, through=100.0, last_move=2.5, free=True):
    settling = [50.0] * (steady - 1) + [best] * (101 - steady)
    medium = {"flux": run([50.0] * 62 + [100.0] * 38), "flux-memory": run([memory] * 100)}
    medium |= {"flux-hybrid": run(settling), "auto": run([100.0] * 100)}
    heavy = {"flux": run([100.0] * 100, 1000.0), "flux-hybrid": run([through] * 100, 1000.0 / gain)}
    heavy |= {"auto": run([100.0] * 100, 400.0)}
    heavy["flux-hybrid"]["last_move"] = last_move
    levels = {"medium": medium, "heavy": heavy}
    return {"machines": 32, "limited": levels, "unlimited": levels if free else {"medium": {}, "heavy": {}}}


def transient(none=0.5, most=0.98, ahead=1.3):
    flux = [none, 0.8, most]
    curves = {"hash": flux, "exchange": [none, 0.8 / ahead, most], "flux-auto": flux}
    return {"rows": [0, 64, 2048], "unloaded": 1.0, "curves": curves}


@pytest.mark.parametrize(
    ("claim", "data", "holds"),
    [
        ("F-base", {"throughput": [1.0, 6.8e5, 7.1e5]}, True),
        ("F-base", {"throughput": [1.0, 7.5e5, 7.5e5]}, False),
        ("F-f3", transient(), True),
        ("F-f3", transient(none=0.9), False),
        ("F-f3", transient(most=0.8), False),
        ("F-f3", transient(ahead=1.0), False),
        ("F-f3", transient(ahead=0.9), False),
        ("F-f7", reaction(), True),
        ("F-f7", reaction(felt=2), False),
        ("F-f7", reaction(steady=25), False),
        ("F-f7", reaction(off=5), False),
        ("F-f8", degradation(), True),
        ("F-f8", degradation(static=0.8), False),
        ("F-f8", degradation(bend=1.6), False),
        ("F-f9", skew(), True),
        ("F-f9", skew(small=1.2), False),
        ("F-f9", skew(calm=0.9), False),
        ("F-f9", skew(with_load=0.9), False),
        ("F-f11/12", memory(), True),
        ("F-f11/12", memory(stands=5), False),
        ("F-f11/12", memory(back=70), False),
        ("F-f11/12", memory(on_disk=1), False),
        ("F-f11/12", memory(latency=5.0), False),
        ("F-f13/14", memory_degradation(), True),
        ("F-f13/14", memory_degradation(static=0.9), False),
        ("F-f13/14", memory_degradation(slower=3.0), False),
        ("F-f13/14", memory_degradation(held=0.5), False),
        ("F-f13/14", memory_degradation(at_half=1.0), False),
        ("F-f15", hybrid(), True),
        ("F-f15", hybrid(best=90.0), False),
        ("F-f15", hybrid(memory=100.0), False),
        ("F-f15", hybrid(steady=75), False),
        ("F-f15", hybrid(gain=1.1), False),
        ("F-f15", hybrid(through=50.0), False),
        ("F-f15", hybrid(last_move=80.0, free=False), True),
        ("F-f15", hybrid(last_move=80.1), False),
    ],
)
def test_claims_are_judged_by_their_data(claim, data, holds):
    finding = CLAIMS[claim].judge(data)
    assert finding.holds is holds
    assert finding.ours
    assert finding.holds or finding.why


def test_every_claim_of_the_paper_is_there_once():
    wanted = ["F-base", "F-f3", "F-f7", "F-f8", "F-f9", "F-f11/12", "F-f13/14", "F-f15"]
    assert [claim.id for experiment in EXPERIMENTS for claim in experiment.claims] == wanted
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("flux-transient", transient()),
        ("flux-reaction", reaction()),
        ("flux-degradation", degradation()),
        ("flux-skew", skew()),
        ("flux-memory-reaction", memory()),
        ("flux-memory-degradation", memory_degradation()),
        ("flux-hybrid", hybrid()),
    ],
)
def test_pictures_are_drawn_from_the_data_alone(name, data, tmp_path):
    from matplotlib.figure import Figure

    (experiment,) = (each for each in EXPERIMENTS if each.name == name)
    for picture in experiment.pictures:
        figure = Figure()
        picture.draw(data, figure)
        figure.savefig(tmp_path / "picture.png")
        assert all(axes.has_data() for axes in figure.axes)


def test_a_small_run_gives_what_a_judge_wants():
    """The real plane, at two machines: a load on one of them is felt, and flux moves units off it."""
    setting = Setting(quick=True)
    small = replace(cluster(setting), workers=2, feeders=2, units=32, skew_rows=512, loads=loaded(setting, 0))
    plain = run_flux(small, "flux-auto", 2).data()
    assert plain["throughput"][-1] == pytest.approx(2 / 45.5e-6, rel=0.02)
    assert plain["owned"] == [16, 16]
    assert plain["on_disk"] == [0, 0]
    assert mean_latency(plain, 1) == pytest.approx(plain["latency_ms"][-1])


def test_steady_and_first_below():
    assert steady_since([5, 5, 1, 5, 5, 5, 5], 5) == 5
    assert steady_since([5, 5, 5, 5], 5) == 1
    assert steady_since([5, 5, 5, 1], 5) == 0
    assert first_below([5, 5, 1, 5], 2) == 3
    assert first_below([5, 5], 2) == 0
