"""Potential-driven §5.3.1 and §5.3.2: total energy against latency, and greedy against dynamic programming.

Both come before §5.3.4 has found better weights, so these are those of Table 2, (1, 1, 1); points are means of some
draws. The paper does not say where operators are in Figure 2: here they are where greedy puts them, and the figures of
operators at random are beside them. Nor does it say which scheme is behind Figure 3: it is Scheme 2, whose chains are
varied before, up to the 10 operators of Table 3, on hosts that can do the work of these. Dynamic programming has
a[i, j] as the text explains it, the least sum (`by_sum`): Algorithm 1 as printed is worse than random. Our own
placement decides anew in every period, which takes long: it is run on the first draw only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenflow.policy.graph.dyn_prog import DynProgPlacement
from evenflow.policy.graph.placement import Placement
from evenflow_lab.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow_lab.experiments.potential.runs import (
    EVEN,
    REPEATS,
    PlacementRuns,
    greedy,
    linear_correlation,
    mean_of,
    ours,
    rank_correlation,
)
from evenflow_lab.experiments.potential.schemes import SCHEMES, PaperScheme, even_load, feasible, simulated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Wang et al., Potential-driven load distribution (SSPS 2008), "


def with_length(scheme: PaperScheme, length: int) -> PaperScheme:
    """The scheme with chains of another length."""
    return replace(scheme, operators=scheme.chains * length)


# -- Figure 2


def run_energy(setting: Setting) -> Data:
    """Scheme 2 with chains of 1 to 20 operators, and Scheme 5 on 1 to 30 hosts."""
    two, five, repeats = SCHEMES[2], SCHEMES[5], REPEATS
    lengths, hosts = range(1, 21), range(1, 31)
    if setting.quick:
        two, repeats = replace(two, hosts=6, chains=6), 1
        lengths, hosts = range(1, 18, 4), range(2, 25, 7)
    runs = PlacementRuns(setting, repeats * (len(lengths) + len(hosts)))
    found: dict[str, list[dict[str, float]]] = {"2": [], "5": []}
    for length in lengths:
        found["2"].append({"at": length} | _energies(runs, setting, repeats, with_length(two, length)))
    for count in hosts:
        found["5"].append({"at": count} | _energies(runs, setting, repeats, replace(five, hosts=count)))
    return {"schemes": found}


def _energies(runs: PlacementRuns, setting: Setting, repeats: int, scheme: PaperScheme) -> dict[str, float]:
    """Energy and latency with operators at random and as placed; means of some draws."""
    seeds = range(setting.seed, setting.seed + repeats)
    outcomes = [runs.run(simulated(scheme, seed), greedy(EVEN), seed) for seed in seeds]
    return {what: mean_of(outcomes, what) for what in ("before_pe", "before_ms", "even_pe", "after_ms")}


def judge_energy(data: Data) -> Finding:
    """Linear for chains, and rising together for both."""
    found, told = {}, {}
    for pe, ms in (("even_pe", "after_ms"), ("before_pe", "before_ms")):
        pairs = {
            scheme: ([each[pe] for each in points], [each[ms] for each in points])
            for scheme, points in data["schemes"].items()
        }
        found[pe] = {scheme: (linear_correlation(*pair), rank_correlation(*pair)) for scheme, pair in pairs.items()}
        told[pe] = "; ".join(
            f"Scheme {scheme}: linear {line:.2f}, rank {rank:.2f}" for scheme, (line, rank) in found[pe].items()
        )
    figures = f"correlations of {told['even_pe']}. With operators at random {told['before_pe']}"
    holds = found["even_pe"]["2"][0] >= 0.95 and min(rank for _, rank in found["even_pe"].values()) >= 0.5
    ends = {
        scheme: " to ".join(f"{points[end]['even_pe']:.3g}, {points[end]['after_ms'] / 1e3:.3g} s" for end in (0, -1))
        for scheme, points in data["schemes"].items()
    }
    why = (
        f"{figures}. From the first to the last point, energy and latency go from {ends['2']} in Scheme 2 and from "
        f"{ends['5']} in Scheme 5: with weights of (1, 1, 1) delays in ms outweigh loads, so energy is mostly that of "
        "links, and latency that of full queues wherever all hosts together have too much to do"
    )
    return Finding(figures, holds, "" if holds else why)


def draw_energy(data: Data, figure: Figure) -> None:
    """Figure 2."""
    axes = figure.subplots(1, 2)
    for plot, scheme, what in zip(axes, ("2", "5"), ("chain lengths", "numbers of hosts"), strict=True):
        points = data["schemes"][scheme]
        for style, pe, ms, label in (
            ("o", "even_pe", "after_ms", "greedy"),
            ("k.", "before_pe", "before_ms", "random"),
        ):
            plot.plot([each[pe] / 1e3 for each in points], [each[ms] / 1e3 for each in points], style, label=label)
        plot.set(xlabel="total potential energy (thousands)", ylabel="latency (s)", title=f"Scheme {scheme}, {what}")
        plot.legend()


# -- Figure 3


def run_algorithms(setting: Setting) -> Data:
    """Chains of Scheme 2 under greedy, dynamic programming, and our own placement."""
    scheme, lengths, repeats = SCHEMES[2], [1, 2, 4, 6, 8, 10], REPEATS
    if setting.quick:
        scheme, lengths, repeats = replace(scheme, hosts=6, chains=6, operators=60), [4, 8], REPEATS
    programmed = DynProgPlacement(EVEN, by_sum=True, both_ways=True)
    algorithms: dict[str, Placement] = {"greedy": greedy(EVEN), "dp": programmed}
    runs = PlacementRuns(setting, len(lengths) * (len(algorithms) * repeats + 1))
    draws = {seed: feasible(scheme, seed) for seed in range(setting.seed, setting.seed + repeats)}
    points = []
    for length in lengths:
        graphs = [simulated(with_length(scheme, length), seed, draw) for seed, draw in draws.items()]
        found = {name: [runs.run(graph, how, graph.seed) for graph in graphs] for name, how in algorithms.items()}
        latencies = {name: mean_of(outcomes, "after_ms") for name, outcomes in found.items()}
        own = runs.run(graphs[0], ours(), setting.seed)
        about = {"length": length, "load": float(np.mean([even_load(graph) for graph in graphs]))}
        original = {"original": mean_of(found["greedy"], "before_ms"), "first": own["before_ms"]}
        points.append(about | original | latencies | {"potential": own["after_ms"]})
    return {"points": points}


def judge_algorithms(data: Data) -> Finding:
    """Both alike, and far below the original."""
    names = ("original", "greedy", "dp", "first", "potential")
    original, first, second, before, own = (np.array([point[name] for point in data["points"]]) for name in names)
    apart = float(np.exp(np.abs(np.log(second / first)).mean()) - 1)
    parts = {"greedy": float((first / original).mean()), "dp": float((second / original).mean())}
    figures = (
        f"greedy at {parts['greedy']:.2f} and dp at {parts['dp']:.2f} of the original latency in the mean over chain "
        f"lengths, {apart:.0%} apart; potential at {float((own / before).mean()):.2f}, of one draw"
    )
    holds = apart <= 0.25 and max(parts.values()) <= 0.5
    worst = max(data["points"], key=lambda point: abs(np.log(point["dp"] / point["greedy"])))
    why = (
        f"{figures}. They are furthest apart with chains of {worst['length']} operators ({worst['greedy']:.0f} ms and "
        f"{worst['dp']:.0f} ms; hosts would have a load of {worst['load']:.2f} each if it were shared evenly): with "
        "weights of (1, 1, 1) chains are kept together, and it is the few hosts that this overloads that decide"
    )
    return Finding(figures, holds, "" if holds else why)


def draw_algorithms(data: Data, figure: Figure) -> None:
    """Figure 3."""
    plot = figure.subplots()
    lengths = [point["length"] for point in data["points"]]
    for name, style in (("original", "k:"), ("greedy", "o-"), ("dp", "s--"), ("potential", "^-")):
        label = f"{name}, first draw" if name == "potential" else name
        plot.plot(lengths, [point[name] for point in data["points"]], style, label=label)
    plot.set(xlabel="chain length", ylabel="latency (ms)", yscale="log")
    plot.legend()


EXPERIMENTS = (
    Experiment(
        "potential-energy",
        run_energy,
        (
            PaperClaim(
                "P-f2",
                SOURCE + "Figure 2, §5.3.1",
                "total potential energy and latency rise together, in a straight line for chains",
                "the linear correlation of energy and latency is at least 0.95 over the chains of Scheme 2, and the "
                "rank correlation at least 0.5 in both schemes, with the weights of Table 2",
                judge_energy,
            ),
        ),
        (Picture("potential-figure-2", "Total potential energy and latency", draw_energy),),
        aspects=("potential", "placement"),
    ),
    Experiment(
        "potential-algorithms",
        run_algorithms,
        (
            PaperClaim(
                "P-f3",
                SOURCE + "Figure 3, §5.3.2",
                "greedy and dynamic programming cannot be told apart; both are far below the original placement",
                "the two latencies differ by at most 25 % in the (geometric) mean over chain lengths, and each is at "
                "most half of the original one in the mean",
                judge_algorithms,
            ),
        ),
        (Picture("potential-figure-3", "Latency by chain length and algorithm", draw_algorithms),),
        aspects=("potential", "placement", "greedy", "dp"),
    ),
)
