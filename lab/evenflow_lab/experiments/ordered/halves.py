"""Ordered regions of 2 to 64 PEs of which half are loaded: Figures 9, 10 and 13."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow_lab.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow_lab.experiments.ordered.runs import LABELS, OURS, PAPER, HalfLoaded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Ordered regions (Middleware 2016)"
LB = ("lb-static", "lb-adaptive")


def run_halves(setting: Setting, kinds: dict[str, HalfLoaded], counts: tuple[int, ...]) -> Data:
    """All balances with all numbers of PEs, under each kind of load."""
    data: dict[str, Any] = {"pes": list(counts)}
    total, done = len(kinds) * len(counts) * len(PAPER + OURS), 0
    for kind, half in kinds.items():
        cells: dict[str, dict[str, list[float]]] = {}
        for balance in (*PAPER, *OURS):
            cells[balance] = {"seconds": [], "final": []}
            for count in counts:
                run = half.run(setting, count, balance)
                cells[balance]["seconds"].append(run.seconds)
                cells[balance]["final"].append(run.final)
                done += 1
                setting.progress(done / total)
        data[kind] = cells
    return data


def run_medium(setting: Setting) -> Data:
    """Figure 9: base cost 1,000, half of the PEs 10x."""
    kinds = {"static": HalfLoaded(1000, 10.0, False), "removed": HalfLoaded(1000, 10.0, True)}
    return run_halves(setting, kinds, (2, 4) if setting.quick else (2, 4, 8, 16))


def run_heavy(setting: Setting) -> Data:
    """Figure 10: base cost 10,000, half of the PEs 100x."""
    kinds = {"static": HalfLoaded(10_000, 100.0, False), "removed": HalfLoaded(10_000, 100.0, True)}
    return run_halves(setting, kinds, (2, 4) if setting.quick else (2, 4, 8, 16))


def run_many(setting: Setting) -> Data:
    """Figure 13: base cost 60,000, half of the PEs 100x until an eighth of the tuples; clustering from 32 PEs on."""
    kinds = {"removed": HalfLoaded(60_000, 100.0, True)}
    return run_halves(setting, kinds, (32,) if setting.quick else (2, 4, 8, 16, 32, 64))


def ratios(data: Data, kind: str, balance: str, to: str) -> list[float]:
    """How many times as long a balance takes as another, by number of PEs."""
    cells = data[kind]
    pairs = zip(cells[balance]["seconds"], cells[to]["seconds"], strict=True)
    return [one / other for one, other in pairs]


def gains(data: Data, balance: str, to: str) -> list[float]:
    """How many times the final throughput of another balance one has when the load was removed, by number of PEs."""
    cells = data["removed"]
    return [one / other for one, other in zip(cells[balance]["final"], cells[to]["final"], strict=True)]


def listed(numbers: list[float]) -> str:
    """Numbers in words."""
    return ", ".join(f"{number:.2f}" for number in numbers)


def judge_medium(data: Data) -> Finding:
    """O-f9."""
    better = {balance: ratios(data, "static", "round-robin", balance) for balance in LB}
    few = [place for place, count in enumerate(data["pes"]) if count <= 4]
    gain = [gains(data, "lb-adaptive", "lb-static")[place] for place in few]
    sooner = [ratios(data, "removed", "lb-static", "lb-adaptive")[place] for place in few]
    in_range = all(1.5 <= ratio <= 4.0 for found in better.values() for ratio in found)
    holds = in_range and min(gain) > 1.05 and min(sooner) > 1.0
    ours = (
        f"RR takes {listed(better['lb-static'])} times as long as LB-static and {listed(better['lb-adaptive'])} times "
    )
    ours += f"as long as LB-adaptive; load removed, 2 and 4 PEs: adaptive has {listed(gain)} times static's throughput"
    why = "" if holds else f"PEs {data['pes']}; static over adaptive, load removed: {listed(sooner)}"
    return Finding(ours, holds, why)


def judge_heavy(data: Data) -> Finding:
    """O-f10."""
    times = {balance: ratios(data, "static", balance, "oracle") for balance in (*LB, "round-robin")}
    gain = gains(data, "lb-adaptive", "lb-static")
    close = all(float(np.median(times[balance])) <= 2.0 and max(times[balance]) <= 2.5 for balance in LB)
    bad = min(times["round-robin"]) >= 35.0
    holds = close and bad and float(np.mean(gain)) >= 1.6
    ours = "; ".join(f"{LABELS[balance]} {listed(found)}" for balance, found in times.items())
    ours = f"over Oracle*: {ours}; final throughput of adaptive over static: {listed(gain)} (PEs {data['pes']})"
    why = "" if holds else _why_heavy(data, times, gain)
    return Finding(ours, holds, why)


def _why_heavy(data: Data, times: dict[str, list[float]], gain: list[float]) -> str:
    ours = ratios(data, "static", "blocking-rate", "oracle")
    worst = max(max(times[balance]) for balance in LB)
    return (
        f"at most {worst:.2f} times Oracle* for LB with {data['pes']} PEs, adaptive over static {np.mean(gain):.2f} in "
        f"the mean. By drafting one loaded PE at a time is blamed, and with many each probe of one costs its whole "
        f"buffer at 100x; blocking-rate, which looks at full connections instead, takes {listed(ours)}"
    )


def judge_many(data: Data) -> Finding:
    """O-f13."""
    places = [place for place, count in enumerate(data["pes"]) if count >= 32]
    found = {balance: [ratios(data, "removed", "round-robin", balance)[place] for place in places] for balance in LB}
    holds = all(6.0 <= ratio <= 12.0 for each in found.values() for ratio in each)
    limit = [ratios(data, "removed", "round-robin", "oracle")[place] for place in places]
    ours = "; ".join(f"{LABELS[balance]} {listed(each)}" for balance, each in found.items())
    mine = [ratios(data, "removed", "round-robin", "blocking-rate")[place] for place in places]
    why = f"Oracle* itself is {listed(limit)} times better than RR; blocking-rate {listed(mine)}"
    counts = " and ".join(str(data["pes"][place]) for place in places)
    return Finding(f"better than RR with {counts} PEs: {ours}", holds, why)


def draw_halves(data: Data, figure: Figure) -> None:
    """Times over Oracle*, for each kind of load, and final throughput when it was removed."""
    kinds = [kind for kind in ("static", "removed") if kind in data]
    titles = {"static": "load stays", "removed": "load removed after an eighth"}
    for place, kind in enumerate(kinds):
        axes = figure.add_subplot(1, len(kinds) + 1, place + 1)
        most = 0.0
        for balance in (*PAPER, *OURS):
            times = ratios(data, kind, balance, "oracle")
            axes.plot(data["pes"], times, marker="o", label=LABELS[balance])
            most = max(most, *times)
        scale = "log" if most > 6 else "linear"
        axes.set(xlabel="PEs", ylabel="time over Oracle*" if place == 0 else "", xscale="log", yscale=scale)
        axes.set_title(titles[kind], fontsize=9)
        if scale == "log":
            marks = [mark for mark in (1, 2, 5, 10, 20, 50) if mark <= 1.2 * most]
            axes.set_yticks(marks, [str(mark) for mark in marks])
        _ticks(axes, data["pes"])
    axes = figure.add_subplot(1, len(kinds) + 1, len(kinds) + 1)
    for balance in (*PAPER, *OURS):
        final = np.array(data["removed"][balance]["final"]) / 1e6
        axes.plot(data["pes"], final, marker="o", label=LABELS[balance])
    axes.set(xlabel="PEs", ylabel="million tuples a second", xscale="log", ylim=(0, None))
    axes.set_title("final throughput, load removed", fontsize=9)
    _ticks(axes, data["pes"])
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")


def _ticks(axes: Any, counts: list[int]) -> None:
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "ordered-medium-tuples",
        run_medium,
        (
            PaperClaim(
                "O-f9",
                f"{SOURCE}, Figure 9, §6.3",
                "2-16 PEs, half 10x: 1.5-4x better than RR; adaptive beats static when load is removed.",
                "Load that stays: RR takes 1.5 to 4 times as long as LB-static and as LB-adaptive, with every number "
                "of PEs. Load removed, 2 and 4 PEs (beyond, the splitter is the limit): adaptive ends sooner than "
                "static, and with at least 5 % more throughput.",
                judge_medium,
            ),
        ),
        (Picture("ordered-figure-9", "Base cost 1,000, half of the PEs 10x", draw_halves),),
    ),
    Experiment(
        "ordered-heavy-tuples",
        run_heavy,
        (
            PaperClaim(
                "O-f10",
                f"{SOURCE}, Figure 10, §6.4",
                "Half 100x: 1.3-1.8x Oracle* where RR takes 45x; final throughput of adaptive about twice static.",
                "Load that stays: LB-static and LB-adaptive take at most 2.0 times Oracle* in the median over the "
                "numbers of PEs and 2.5 at most, RR at least 35 times. Load removed: adaptive has at least 1.6 times "
                "the final throughput of static, in the mean.",
                judge_heavy,
            ),
        ),
        (Picture("ordered-figure-10", "Base cost 10,000, half of the PEs 100x", draw_halves),),
    ),
    Experiment(
        "ordered-many-pes",
        run_many,
        (
            PaperClaim(
                "O-f13",
                f"{SOURCE}, Figure 13, §6.6",
                "32 and 64 PEs: about 9x better than RR.",
                "LB-static and LB-adaptive are 6 to 12 times as fast as RR with 32 and with 64 PEs (`quick`: 32).",
                judge_many,
            ),
        ),
        (Picture("ordered-figure-13", "Base cost 60,000, half of the PEs 100x, with clustering", draw_halves),),
    ),
)
