"""The claims of complex event processing: Table 1, Figures 3 and 4, and what §4 says of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.sim.keyed.setup import KeyPhase
from evenflow_lab.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow_lab.experiments.cep.runs import THETA, CepSizes, EngineRun
from evenflow_lab.experiments.cep.stories import stories_by_choice, stories_with_moves
from evenflow_lab.workloads.story_rows import KEYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "Zacheilas et al., Dynamic Load Balancing Techniques for Distributed CEP Systems (DAIS 2016)"
BALANCES = ("dlb-l", "dlb-h", "lptf", "pkg", "kg", "auto")
COLORS = {
    "dlb-l": "#1f5fa8",
    "dlb-h": "#2e8b57",
    "lptf": "#d1602b",
    "pkg": "#8a5fb0",
    "kg": "#555555",
    "auto": "#c2185b",
}
EXPONENTS = (0.2, 1.5)
TEXTS, KG_EVENTS, PKG_MORE = 2_950_000, 6_546, 7_563 - 6_546
"""Table 1: texts, events of KG, and further events of PKG."""
SAMPLED = 4
"""Events are counted for every fourth key: those of a key depend only on its own texts, and on their engines."""


def run_both(setting: Setting) -> Data:
    """All balances on five engines, and key grouping on six: texts in the order they come in, then by Zipf's law."""
    sizes = CepSizes.of(setting)
    rows = sizes.rows(setting.seed)
    phases = tuple(
        KeyPhase("zipf", exponent=exponent, seconds=seconds)
        for exponent, seconds in zip(EXPONENTS, sizes.phases, strict=True)
    )
    default = {"trace": tuple(rows.keys.tolist()), "keys": sizes.keys}
    given: dict[str, dict[str, Any]] = {"default": default, "zipf": {"phases": phases}}
    runs: dict[str, dict[str, Any]] = {"default": {}, "zipf": {}}
    cases = [(order, name, engines) for order in given for name, engines in [*((b, 5) for b in BALANCES), ("kg", 6)]]
    for place, (order, name, engines) in enumerate(cases):
        setting.progress(0.05 + 0.75 * place / len(cases))
        about: dict[str, Any] = {"seed": setting.seed, **given[order]}
        run = EngineRun(name, engines, sizes.seconds, sizes.window, **about)
        runs[order][f"{name} on {engines}"] = run.run()
    stories = {}
    counted = rows.keys % SAMPLED == 0
    sampled = rows.some(counted)
    for place, name in enumerate(BALANCES):
        setting.progress(0.8 + 0.2 * place / len(BALANCES))
        moves = runs["default"][f"{name} on 5"]["moves"]
        stories[name] = (
            stories_by_choice(rows, 5, counted)
            if name == "pkg"
            else stories_with_moves(sampled, 5, moves, sizes.seconds, sizes.keys)
        )
    return {
        "default": _without_moves(runs["default"]),
        "zipf": _without_moves(runs["zipf"]),
        "stories": stories,
        "sampled": {"keys": len(np.unique(sampled.keys)), "texts": len(sampled.keys)},
        "keys": sizes.keys,
        "phases": list(sizes.phases),
        "window": sizes.window,
    }


def _without_moves(runs: dict[str, Any]) -> dict[str, Any]:
    """The runs without the list of their movements, which is long and not used any more."""
    return {name: {key: value for key, value in run.items() if key != "moves"} for name, run in runs.items()}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else 0.0


def judge_table(data: Data) -> Finding:
    """C-t1."""
    stories, runs = data["stories"], data["default"]
    rstd = {name: _mean(runs[f"{name} on 5"]["rstd"]) for name in ("pkg", "lptf", "dlb-l", "dlb-h", "kg")}
    same = len({stories[name] for name in ("dlb-l", "dlb-h", "lptf", "kg")}) == 1
    more = stories["pkg"] / stories["kg"] - 1
    order = list(rstd.values())
    in_order = order == sorted(order)
    told = ", ".join(f"{name} {value:.1f} %" for name, value in rstd.items())
    ours = (
        f"KG finds {stories['kg']:,} events, the others {'as many' if same else 'others'}, PKG {more:+.0%}; RSTD {told}"
    )
    why = []
    if not same:
        why.append(f"events differ: {stories}")
    if not 0.10 <= more <= 0.20:
        why.append(_why_more(stories, data["sampled"]))
    if not in_order:
        why.append(_why_order(rstd, runs, data["window"]))
    return Finding(ours, not why, "; ".join(why))


def _why_more(stories: dict[str, int], sampled: dict[str, int]) -> str:
    """Why PKG finds another number of events than in the paper."""
    more = stories["pkg"] - stories["kg"]
    return (
        f"PKG finds {more / stories['kg']:+.0%}: the second engine of a key knows nothing of the first one's texts and "
        f"takes for news what is like them, until it has seen enough of its own. That is {more / sampled['keys']:.1f} "
        f"events a key here, and {PKG_MORE / KEYS:.2f} in the paper, so there not even the first text that a second "
        "engine gets of a key can be one, for most keys. Its texts must be much more alike in a key: "
        f"{KG_EVENTS / TEXTS:.2%} of them are events with KG, of ours {stories['kg'] / sampled['texts']:.1%}; what "
        "they were is not told"
    )


def _why_order(rstd: dict[str, float], runs: dict[str, Any], window: float) -> str:
    """Why RSTD has another order than in the paper."""
    left, then = [], []
    for name in ("lptf", "dlb-l", "dlb-h"):
        run = runs[f"{name} on 5"]
        reached = [entry for entry in run["rebalances"] if entry["after"] <= THETA]
        ends = np.array(run.get("rstd_times", []))
        places = np.searchsorted(ends, [entry["second"] + 0.9 * window for entry in reached])
        left.append(f"{name} {_mean(entry['after'] for entry in reached):.1f} %")
        then.append(f"{name} {_mean(run['rstd'][place] for place in places if place < len(ends)):.1f} %")
    return (
        f"the order of RSTD is {' < '.join(sorted(rstd, key=lambda name: rstd[name]))}. Algorithm 1 ends as soon as "
        f"the score is not above {THETA:.0f} %. Rebalances that reach it leave, on average, {', '.join(left)}, by the "
        f"loads of the window before; in the one after there is {', '.join(then)}, since loads have changed"
    )


def judge_moved(data: Data) -> Finding:
    """C-mv."""
    shares = {
        name: [entry["keys"] / data["keys"] for entry in data["default"][f"{name} on 5"]["rebalances"]]
        for name in ("lptf", "dlb-l", "dlb-h")
    }
    lptf, low, high = _mean(shares["lptf"]), max(shares["dlb-l"], default=0.0), max(shares["dlb-h"], default=0.0)
    counts = ", ".join(f"{name} {len(each)}" for name, each in shares.items())
    ours = f"LPTF {lptf:.0%} on average, DLB-L at most {low:.0%}, DLB-H at most {high:.0%} (rebalances: {counts})"
    why = []
    if not (shares["lptf"] and 0.6 <= lptf <= 0.9):
        why.append(f"LPTF deals all keys anew, which moves four of five on five engines; it moved {lptf:.0%}")
    if not (shares["dlb-l"] and low <= 0.3):
        why.append(f"DLB-L moved {low:.0%} at once: it takes the lightest keys first, and there are many of them")
    if not (shares["dlb-h"] and high <= 0.1):
        reached = [
            entry["keys"] / data["keys"]
            for entry in data["default"]["dlb-h on 5"]["rebalances"]
            if entry["after"] <= THETA
        ]
        why.append(
            f"DLB-H moved {high:.0%} at once. Where one key is so hot that no placement reaches {THETA:.0f} %, "
            "Algorithm 1 goes on down to the lightest keys, until none helps; where that is reached DLB-H moved at "
            f"most {max(reached, default=0.0):.1%}"
        )
    return Finding(ours, not why, "; ".join(why))


def _skewed(data: Data, name: str) -> tuple[float, float, float]:
    """Mean RSTD in windows of exponent 0.2, in those of 1.5 that come after another one, and in all of 1.5.

    Only windows that lie in one phase count. A balance decides at the end of a window by the loads in it, so in the
    first one of a phase keys have the places of the phase before.
    """
    run, (low, high), window = data["zipf"][name], data["phases"], data["window"]
    begins, rstd = (np.array(run["rstd_times"]) - window) % (low + high), np.array(run["rstd"])
    length = 0.98 * window  # it ends with a report, which may come a little late
    even, skewed = begins + length <= low, (begins >= low) & (begins + length <= low + high)
    return _mean(rstd[even]), _mean(rstd[skewed & (begins >= low + window)]), _mean(rstd[skewed])


def judge_zipf(data: Data) -> Finding:
    """C-z."""
    kg_low, kg_high, _ = _skewed(data, "kg on 5")
    both = {name: _skewed(data, f"{name} on 5")[1:] for name in ("dlb-h", "dlb-l")}
    dlb = {name: value for name, (value, _) in both.items()}
    best = 100 * _bound()
    told = ", ".join(f"{name} {value:.0f} %" for name, value in dlb.items())
    ours = (
        f"KG {kg_low:.1f} % at 0.2 and {kg_high:.0f} % at 1.5; {told} at 1.5 (the hottest key alone: {best:.0f} %); "
        "with windows before which no balance has seen 1.5: "
        + ", ".join(f"{name} {every:.0f} %" for name, (_, every) in both.items())
    )
    why = []
    if not kg_low <= 8:
        why.append(f"KG has {kg_low:.1f} % at 0.2: chance alone gives some percent in a window")
    if not 65 <= kg_high <= 90:
        why.append(f"KG has {kg_high:.0f} % at 1.5")
    if not all(30 <= value <= 50 for value in dlb.values()):
        why.append(f"DLB has {told}")
    return Finding(ours, not why, "; ".join(why))


def _bound(engines: int = 5, exponent: float = 1.5) -> float:
    """The least relative standard deviation: the hottest key alone on an engine, the rest even."""
    shares = np.arange(1, KEYS + 1) ** -exponent
    hottest = shares[0] / shares.sum()
    loads = np.array([hottest, *[(1 - hottest) / (engines - 1)] * (engines - 1)])
    return float(loads.std() / loads.mean())


def judge_scale_out(data: Data) -> Finding:
    """C-so."""
    said, why = [], []
    for order in ("default", "zipf"):
        done = {name: run["processed"] for name, run in data[order].items()}
        best = max("dlb-l on 5", "dlb-h on 5", key=lambda name: done[name])
        said.append(
            f"{order}: {best} engines {done[best]:,} texts, KG on 6 {done['kg on 6']:,}, on 5 {done['kg on 5']:,}"
        )
        if done[best] <= done["kg on 6"]:
            why.append(f"{order}: five balanced engines do {done[best] / done['kg on 6']:.2f} of six")
    return Finding("; ".join(said), not why, "; ".join(why))


def draw_throughput(data: Data, figure: Figure) -> None:
    """Figure 3: texts a second, both orders side by side."""
    _draw_both(data, [f"{name} on 5" for name in BALANCES if name != "kg"], "texts_s", "texts/s", figure)


def draw_scale_out(data: Data, figure: Figure) -> None:
    """Figure 4: key grouping on five and six engines."""
    names = ("dlb-l on 5", "dlb-h on 5", "kg on 5", "kg on 6", "auto on 5")
    _draw_both(data, names, "texts_s", "texts/s", figure)


def draw_rstd(data: Data, figure: Figure) -> None:
    """The relative standard deviation of loads."""
    _draw_both(data, [f"{name} on 5" for name in BALANCES], "rstd", "RSTD of loads (%)", figure)


def _draw_both(data: Data, names: Iterable[str], what: str, label: str, figure: Figure) -> None:
    orders = ("default", "(a) default order"), ("zipf", "(b) periodic Zipf")
    for axes, (order, title) in zip(figure.subplots(1, 2, sharey=True), orders, strict=True):
        for name in names:
            run, style = data[order][name], "--" if name.endswith("on 6") else "-"
            label_of = name.removesuffix(" on 5")
            times = run["rstd_times" if what == "rstd" else "times"]
            axes.plot(times, run[what], style, color=COLORS[run["balance"]], label=label_of, lw=1.4)
        axes.set(xlabel="seconds")
        axes.set_title(title, fontsize=9)
    figure.axes[0].set_ylabel(label)
    figure.axes[0].set_ylim(bottom=0)  # both have the same axis: not before all curves are there
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(handles[0]), fontsize=8)


EXPERIMENTS = (
    Experiment(
        "cep",
        run_both,
        (
            PaperClaim(
                "C-t1",
                f"{PAPER}, Table 1",
                "DLB-L, DLB-H, LPTF and KG find the same events, PKG 13 to 16 % more; the relative standard deviation "
                "of loads (RSTD) rises from PKG over LPTF, DLB-L and DLB-H to KG",
                "the four find the same number of events, PKG 10 to 20 % more, and RSTD has that order",
                judge_table,
            ),
            PaperClaim(
                "C-mv",
                f"{PAPER}, §4",
                "keys moved in a rebalance: LPTF 76 % on average, DLB-L at most 30 %, DLB-H at most 10 %",
                "LPTF moves 60 to 90 % on average, DLB-L never more than 30 %, DLB-H never more than 10 %",
                judge_moved,
            ),
            PaperClaim(
                "C-z",
                f"{PAPER}, §4",
                "KG's RSTD is 3 % at exponent 0.2 and about 77 % at 1.5; DLB keeps it around 40 %",
                "KG has at most 8 % at 0.2 and 65 to 90 % at 1.5, and both policies of DLB 30 to 50 % at 1.5, in "
                "windows of loads that are not the first ones of a phase",
                judge_zipf,
            ),
            PaperClaim(
                "C-so",
                f"{PAPER}, Figure 4",
                "DLB on five engines processes more texts than KG on six, in either order of texts",
                "the better policy of DLB on five engines processes more than KG on six, in both orders",
                judge_scale_out,
            ),
        ),
        (
            Picture("cep-figure-3", "Figure 3: throughput on five engines", draw_throughput),
            Picture("cep-figure-4", "Figure 4: balanced engines, and key grouping on five and six", draw_scale_out),
            Picture("cep-rstd", "Relative standard deviation of the engines' loads over time", draw_rstd),
        ),
        version=4,
    ),
)
