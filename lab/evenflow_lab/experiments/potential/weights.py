"""Potential-driven §5.3.3 and §5.3.4: the weights of load and network energies.

One weight is changed, the others are 1 (Table 2). Three graphs, as in the paper: Scheme 5, Scheme 1 with four costs of
operators from 1 to 40 ms, and four random variants of Scheme 3; in the latter costs, rates and delays are multiplied
with random factors from 0.5 to 2, since the paper does not say what it distorts. Where the input fluctuates, in Schemes
3 and 5, points are means of REPEATS draws (§5.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.model.graphs.placement import EnergyWeights
from evenflow.sim.graphs.model import SimulatedGraph
from evenflow_lab.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow_lab.experiments.potential.energy import SOURCE
from evenflow_lab.experiments.potential.runs import REPEATS, PlacementRuns, greedy, mean_of, ours, rank_correlation
from evenflow_lab.experiments.potential.schemes import SCHEMES, PaperScheme, feasible, simulated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSTS_MS: tuple[float, ...] = (1.0, 10.0, 20.0, 40.0)
EXPONENTS = {"load": range(-2, 7), "network": range(-7, 3)}
QUICK = {"load": (-2, 0, 2, 5), "network": (-6, -3, -1, 1)}
SAFE = {"load": 2, "network": -3}
"""The exponents that the paper recommends."""
NEAR = 1.5
"""A latency below so many times the lowest of its curve approaches it."""


def distorted(number: int) -> PaperScheme:
    """A random variant of Scheme 3."""
    scheme, random = SCHEMES[3], np.random.default_rng(number)
    cost, rate, delay = np.exp2(random.uniform(-1, 1, 3)).tolist()
    return replace(
        scheme, filter_ms=(10 * cost,) * 2, arrival_ms=scheme.arrival_ms * rate, delay_ms=(1.0, 500.0 * delay)
    )


def graphs(setting: Setting) -> dict[str, list[SimulatedGraph]]:
    """By curve, its graphs; more than one where the input fluctuates and results are averaged."""
    five, costs, repeats, variants = SCHEMES[5], COSTS_MS, REPEATS, 4
    if setting.quick:
        five, costs, repeats, variants = replace(five, operators=40, hosts=5), COSTS_MS[::2], 1, 1
    seeds = range(setting.seed, setting.seed + repeats)
    found = {"Scheme 5": [simulated(five, seed, feasible(five, seed)) for seed in seeds]}
    for cost in costs:
        found[f"Scheme 1, {cost:g} ms"] = [simulated(replace(SCHEMES[1], filter_ms=(cost, cost)), setting.seed)]
    for number in range(1, 1 + variants):
        scheme = distorted(number)
        if setting.quick:
            scheme = replace(scheme, operators=45, hosts=5)
        found[f"Scheme 3, variant {number}"] = [simulated(scheme, seed, feasible(scheme, seed)) for seed in seeds]
    return found


def sweep(which: str) -> Callable[[Setting], Data]:
    """The run for one weight."""

    def run(setting: Setting) -> Data:
        used = QUICK[which] if setting.quick else EXPONENTS[which]
        curves, given = {}, graphs(setting)
        runs = PlacementRuns(setting, (len(used) + 1) * sum(map(len, given.values())))
        for name, some in given.items():
            points = []
            for exponent in used:
                placement = greedy(EnergyWeights(**{"load": 1.0, "network": 1.0, which: 10.0**exponent}))
                points.append(_mean([runs.run(each, placement, each.seed) for each in some]))
            own = None if name.startswith("Scheme 3") else runs.run(some[0], ours(), some[0].seed)["after_ms"]
            curves[name] = {"points": points, "potential": own}
        return {"exponents": list(used), "curves": curves}

    return run


def _mean(outcomes: list[dict[str, Any]]) -> dict[str, float]:
    return {what: round(mean_of(outcomes, what), 4) for what in ("before_ms", "after_ms", "load_std", "sent_s")}


def far(data: Data, which: str) -> dict[str, float]:
    """By curve, its latency at the recommended weight over the lowest that it has."""
    place = data["exponents"].index(SAFE[which])
    found = {}
    for name, curve in data["curves"].items():
        latencies = [point["after_ms"] for point in curve["points"]]
        found[name] = latencies[place] / min(latencies)
    return found


def judge(data: Data, which: str, falls: str, what: str) -> Finding:
    """The figure `falls` falls with the weight in Scheme 5, and the recommended weight is good in most curves."""
    points = data["curves"]["Scheme 5"]["points"]
    trend = rank_correlation(data["exponents"], [point[falls] for point in points])
    ratios = far(data, which)
    near = [name for name, ratio in ratios.items() if ratio <= NEAR]
    worst = max(ratios, key=lambda name: ratios[name])
    figures = (
        f"{what} of Scheme 5 goes from {points[0][falls]:.3g} to {points[-1][falls]:.3g} (rank correlation "
        f"{trend:.2f}); at 10^{SAFE[which]}, {len(near)} of {len(ratios)} curves are within {NEAR:g} times their "
        f"lowest latency, at worst {ratios[worst]:.2f} times ({worst})"
    )
    holds = trend <= -0.7 and len(near) >= 0.75 * len(ratios)
    why = f"greedy does not see what a placement does to operators that are placed later: {figures}"
    return Finding(figures, holds, "" if holds else why)


def draw(data: Data, figure: Figure, falls: str, what: str, weight: str) -> None:
    """Four plots: Scheme 5 twice, the variants of Scheme 1, and those of Scheme 3."""
    axes = figure.subplots(2, 2).ravel()
    exponents, five = data["exponents"], data["curves"]["Scheme 5"]
    axes[0].plot(exponents, [point[falls] for point in five["points"]], "o-")
    axes[0].set_ylabel(what.removeprefix("the "), fontsize="small")
    axes[0].set_title("Scheme 5")
    for plot, scheme in zip(axes[1:], ("Scheme 5", "Scheme 1", "Scheme 3"), strict=True):
        for name, curve in data["curves"].items():
            if name.startswith(scheme):
                (line,) = plot.plot(
                    exponents, [point["after_ms"] for point in curve["points"]], "o-", label=name[10:] or "greedy"
                )
                if curve["potential"] is not None:
                    plot.axhline(curve["potential"], linestyle="--", linewidth=0.8, color=line.get_color())
        if scheme == "Scheme 5":
            plot.plot(exponents, [point["before_ms"] for point in five["points"]], "k:", label="original")
        plot.set(ylabel="latency (ms)", title=f"{scheme}; dashed: potential", yscale="log")
        plot.legend(fontsize="small")
    for plot in axes:
        plot.set(xlabel=f"log10 {weight}")


def _experiment(which: str, weight: str, falls: str, what: str, claim: tuple[str, str, str]) -> Experiment:
    number, place, paper = claim
    figures = place.split(",")[0].lower().replace(" and ", "-").replace(" ", "-")
    return Experiment(
        f"potential-weight-{which}",
        sweep(which),
        (
            PaperClaim(
                number,
                SOURCE + place,
                paper,
                f"in Scheme 5 {what} falls as {weight} rises (rank correlation at most -0.7), and at 10^{SAFE[which]} "
                f"at least three quarters of all curves are within {NEAR:g} times their lowest latency",
                lambda data: judge(data, which, falls, what),
            ),
        ),
        (
            Picture(
                f"potential-{figures}",
                f"The weight of the {which} energy",
                lambda data, figure: draw(data, figure, falls, what, weight),
            ),
        ),
        version=2,
        aspects=("potential", "placement", "weights"),
    )


EXPERIMENTS = (
    _experiment(
        "load", "w_l", "load_std", "the deviation of hosts' loads",
        ("P-f4/5", "Figures 4 and 5, §5.3.3", "a larger w_l lowers the load deviation; about 10^2 is a safe value"),
    ),
    _experiment(
        "network", "w_n", "sent_s", "what is sent over links",
        ("P-f6/7", "Figures 6 and 7, §5.3.4", "a larger w_n lowers network use; about 10^-3 is a safe value"),
    ),
)  # fmt: skip
