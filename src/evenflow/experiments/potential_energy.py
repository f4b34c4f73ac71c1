"""Potential-driven §5.3.1 and §5.3.2: total energy against latency, and greedy against dynamic programming.

The paper says neither where operators are in Figure 2 nor which scheme is behind Figure 3. Here Figure 2 has operators
at random, and energies with the weights of Table 2 (1, 1, 1), which hold until §5.3.4 has found better ones; those with
the recommended weights are beside them. Figure 3 has chains of Scheme 2, up to the 10 operators of Table 3, with the
recommended weights. Dynamic programming has a[i, j] as the text explains it, the least sum (`by_sum`): Algorithm 1 as
printed is worse than random.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow.experiments.potential_runs import (
    PlacementRuns,
    greedy,
    linear_correlation,
    mean_of,
    ours,
    rank_correlation,
)
from evenflow.experiments.potential_schemes import FEASIBLE, SCHEMES, PaperScheme, simulated
from evenflow.policy.graph.dyn_prog import DynProgPlacement
from evenflow.policy.graph.placement import Placement
from evenflow.policy.graph.random_placement import RandomPlacement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Wang et al., Potential-driven load distribution (SSPS 2008), "


def with_length(scheme: PaperScheme, length: int) -> PaperScheme:
    """The scheme with chains of another length."""
    return replace(scheme, operators=scheme.chains * length)


# -- Figure 2


def run_energy(setting: Setting) -> Data:
    """Scheme 2 with chains of 1 to 20 operators, and Scheme 5 on 1 to 30 hosts."""
    two, five = SCHEMES[2], SCHEMES[5]
    lengths, hosts = range(1, 21), range(1, 31)
    found: dict[str, list[dict[str, Any]]] = {"2": [], "5": []}
    if setting.quick:
        two = replace(two, hosts=6, chains=6)
        lengths, hosts = range(1, 18, 4), range(2, 25, 7)
    runs = PlacementRuns(setting, len(lengths) + len(hosts))
    placement = RandomPlacement(setting.seed)
    for length in lengths:
        graph = simulated(with_length(two, length), setting.seed)
        found["2"].append(runs.run(graph, placement, setting.seed) | {"length": length})
    for count in hosts:
        graph = simulated(replace(five, hosts=count), setting.seed)
        found["5"].append(runs.run(graph, placement, setting.seed) | {"hosts": count})
    return {"schemes": found}


def judge_energy(data: Data) -> Finding:
    """Linear for chains, and rising together for both."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for what in ("even_pe", "total_pe"):
        pairs = {
            scheme: ([each[what] for each in outcomes], [each["after_ms"] for each in outcomes])
            for scheme, outcomes in data["schemes"].items()
        }
        found[what] = {scheme: (linear_correlation(*pair), rank_correlation(*pair)) for scheme, pair in pairs.items()}
    told = {
        what: "; ".join(f"Scheme {scheme}: linear {line:.2f}, rank {rank:.2f}" for scheme, (line, rank) in each.items())
        for what, each in found.items()
    }
    figures = f"correlations of {told['even_pe']}. With the weights (100, 1, 0.001) {told['total_pe']}"
    holds = found["even_pe"]["2"][0] >= 0.95 and min(rank for _, rank in found["even_pe"].values()) >= 0.5
    why = (
        f"{figures}. With weights of (1, 1, 1) delays in ms outweigh loads: energy is nearly that of the links alone, "
        "which grows with the length of chains, but hardly changes with the number of hosts, while latency does"
    )
    return Finding(figures, holds, "" if holds else why)


def draw_energy(data: Data, figure: Figure) -> None:
    """Figure 2."""
    axes = figure.subplots(1, 2)
    for plot, scheme, what in zip(axes, ("2", "5"), ("chain lengths", "numbers of hosts"), strict=True):
        outcomes = data["schemes"][scheme]
        plot.plot([each["even_pe"] for each in outcomes], [each["after_ms"] for each in outcomes], "o")
        plot.set(xlabel="total potential energy", ylabel="latency (ms)", title=f"Scheme {scheme}, {what}")


# -- Figure 3


def run_algorithms(setting: Setting) -> Data:
    """Chains of Scheme 2 under greedy, dynamic programming, and our own placement."""
    scheme, lengths = SCHEMES[2], [1, 2, 4, 6, 8, 10]
    if setting.quick:
        scheme, lengths = replace(scheme, hosts=6, chains=6), [4, 8]
    programmed = DynProgPlacement(by_sum=True, both_ways=True)
    algorithms: dict[str, Placement] = {"greedy": greedy(), "dp": programmed, "potential": ours()}
    runs = PlacementRuns(setting, len(lengths) * len(algorithms))
    points = []
    for length in lengths:
        graph = simulated(with_length(scheme, length), setting.seed, FEASIBLE)
        found = {name: runs.run(graph, placement, setting.seed) for name, placement in algorithms.items()}
        latencies = {name: each["after_ms"] for name, each in found.items()}
        points.append({"length": length, "original": mean_of(found.values(), "before_ms")} | latencies)
    return {"points": points}


def judge_algorithms(data: Data) -> Finding:
    """Both alike, and far below the original."""
    original, first, second, own = (
        np.array([point[name] for point in data["points"]]) for name in ("original", "greedy", "dp", "potential")
    )
    apart = float(np.exp(np.abs(np.log(second / first)).mean()) - 1)
    parts = {"greedy": float((first / original).mean()), "dp": float((second / original).mean())}
    figures = (
        f"greedy at {parts['greedy']:.2f} and dp at {parts['dp']:.2f} of the original latency in the mean over chain "
        f"lengths, {apart:.0%} apart; potential at {float((own / original).mean()):.2f}"
    )
    holds = apart <= 0.25 and max(parts.values()) <= 0.5
    why = (
        f"{figures}. Both even out loads, which is what helps where hosts were overloaded; dynamic programming keeps a "
        "mapping for each host of the last operator, and the best of them has fewer links in its chains"
    )
    return Finding(figures, holds, "" if holds else why)


def draw_algorithms(data: Data, figure: Figure) -> None:
    """Figure 3."""
    plot = figure.subplots()
    lengths = [point["length"] for point in data["points"]]
    for name, style in (("original", "k:"), ("greedy", "o-"), ("dp", "s--"), ("potential", "^-")):
        plot.plot(lengths, [point[name] for point in data["points"]], style, label=name)
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
