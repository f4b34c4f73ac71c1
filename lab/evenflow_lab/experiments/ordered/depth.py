"""Ordered regions in depth: blocking rates of fixed weights, re-routing, and three PEs sample by sample."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.policy import balance_named
from evenflow.sim.ordered.plane import OrderedPlane
from evenflow.sim.ordered.scene import WorkerLoad
from evenflow.sim.simulation import Simulation
from evenflow_lab.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow_lab.experiments.ordered.runs import LABELS, in_depth, paper_and_ours, scene_of, seconds_of, tuple_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "Ordered regions (Middleware 2016)"
SPLITS = (80, 70, 60, 50)
DEEP_SIDE = 262_144
"""§4.4: tuples in the kernel buffer of one side of a connection, 16 MB of 64 bytes each."""
DEEP_RESULTS = 10_000
"""§4.4: tuples of results that wait for the merger, at most."""
REROUTE_S = 60.0


# -- Figure 5


def run_fixed(setting: Setting) -> Data:
    """Two equal PEs at a base cost of 1,000, four fixed splits; the blocking rates by sample."""
    rates = {}
    for place, split in enumerate(SPLITS):
        scene = scene_of(setting, 1000, 2, "static")
        seconds = seconds_of(setting, 120)
        depth = in_depth(scene, "static", seconds, weights=[split / 100, 1 - split / 100])
        rates[str(split)] = depth.rates[2:]
        setting.progress((place + 1) / len(SPLITS))
    return {"rates": rates}


def judge_fixed(data: Data) -> Finding:
    """O-f5."""
    rates = [np.array(data["rates"][str(split)]) for split in SPLITS]
    means = [*(float(found[:, 0].mean()) for found in rates[:3]), float(rates[3].sum(axis=1).mean())]
    flat = [float(found[:, 0].std()) for found in rates[:3]]
    holds = all(high > low for high, low in pairwise(means)) and max(flat) <= 0.05
    text = " > ".join(f"{mean:.3f}" for mean in means)
    why = "" if holds else f"means are {text}, deviations over time {[round(each, 3) for each in flat]}"
    return Finding(f"blocking rates {text}; they vary by at most {max(flat):.3f} over time", holds, why)


def draw_fixed(data: Data, figure: Figure) -> None:
    """One panel for each split."""
    for place, split in enumerate(SPLITS):
        axes = figure.add_subplot(2, 2, place + 1)
        rates = np.array(data["rates"][str(split)])
        axes.plot(rates[:, 0], label="connection 1")
        axes.plot(rates[:, 1], label="connection 2", linestyle=":")
        axes.set(ylim=(0, 1), xlabel="seconds" if place >= 2 else "", ylabel="blocking rate" if place % 2 == 0 else "")
        axes.set_title(f"{split} % - {100 - split} %", fontsize=9)
    axes.legend()


# -- §4.4


def run_reroute(setting: Setting) -> Data:
    """Two PEs, one 100x, with deep buffers; and with those of the other experiments, for comparison.

    At a base cost of 1,000 for a minute, at 10,000 for ten: as many tuples. Results wait on their connections only
    (`deep`, `shallow`) or also in a merger with the room of the other experiments (`roomy`).
    """
    found: dict[str, Any] = {}
    deep = {"send_buffer": DEEP_SIDE, "receive_buffer": DEEP_SIDE, "result_buffer": DEEP_RESULTS, "reorder_rows": 0}
    kinds: dict[str, dict[str, Any]] = {"deep": deep, "shallow": {"reorder_rows": 0}, "roomy": {}}
    for place, (name, fields) in enumerate(kinds.items()):
        for multiplies in (1000, 10_000):
            loads = (WorkerLoad(0, 100.0),)
            rows, rerouted = {}, 0.0
            for balance in ("round-robin", "reroute"):
                scene = scene_of(setting, multiplies, 2, balance, loads=loads, **fields)
                plane = OrderedPlane(scene, balance_named(balance))
                Simulation(plane, 2, period_s=10.0).run(REROUTE_S * multiplies / 1000)
                rows[balance] = plane.rows_out
                rerouted = plane.rerouted / int(plane.state.links["frames_sent"].sum())
            gain = rows["reroute"] / rows["round-robin"] - 1
            found[f"{name}-{multiplies}"] = {"gain": round(gain, 4), "rerouted": round(rerouted, 5)}
        setting.progress((place + 1) / len(kinds))
    return found


def judge_reroute(data: Data) -> Finding:
    """O-4.4."""
    low, high = data["deep-1000"], data["deep-10000"]
    few = low["rerouted"] <= 0.01 and abs(low["gain"]) <= 0.03
    some = 0.04 <= high["rerouted"] <= 0.12 and 0.1 <= high["gain"] <= 0.3
    told = {}
    for kind in ("deep", "shallow", "roomy"):
        cells = [data[f"{kind}-{cost}"] for cost in (1000, 10_000)]
        told[kind] = "; ".join(f"{cell['rerouted']:.1%} re-routed, {cell['gain']:+.1%}" for cell in cells)
    why = (
        f"What waits in the merger is limited, so tuples beside each other take equally long, and by Little's law the "
        f"shares of the two PEs are those of their tuples in flight. Then p re-routed gain 1/(1 - 2p) - 1: 17.6 % for "
        f"the paper's 7.5 %, as it says. But what a tuple costs does not come in: the paper's figures need 1.02 and "
        f"1.35 times as many tuples in flight at the fast PE as at the slow one, so buffers that are smaller where "
        f"tuples cost more. Here they are 16 MB a side, and 10,000 results; with 64 kB for each: {told['shallow']}. "
        f"With the room in the merger that LB needs in Figures 8 to 13, nothing holds the fast PE back, and re-routing "
        f"is as good as any balance: {told['roomy']}"
    )
    return Finding(f"base cost 1,000: {told['deep'].replace('; ', '; 10,000: ')}", few and some, why)


# -- Figure 8


def run_loaded(setting: Setting) -> Data:
    """Three PEs, base cost 1,000, one 100x for an eighth of 1,000 s: the paper's load goes between 100 s and 175 s."""
    until = seconds_of(setting, 1000) / 8
    runs = paper_and_ours(setting, 1000, 3, 1000, loads=(WorkerLoad(0, 100.0, end_s=until),))
    return {"until": until, "runs": {balance: run.data() for balance, run in runs.items()}}


def judge_loaded(data: Data) -> Finding:
    """O-f8a."""
    weights = np.array(data["runs"]["lb-adaptive"]["weights"])[:, 0]
    throughput = np.array(data["runs"]["lb-adaptive"]["throughput"])
    until = int(data["until"])
    ideal = 2 / tuple_s(1000) + 1 / tuple_s(1000, 100)
    settled, back = float(np.median(weights[15:until])), float(weights[-len(weights) // 4 :].mean())
    reached = float(throughput[15:until].mean()) / ideal
    holds = settled <= 5.0 and abs(back - 100 / 3) <= 5.0
    ours = (
        f"weight {settled:.1f} % (median, seconds 15 to {until}; {reached:.0%} of the ideal throughput), then back to"
    )
    why = "" if holds else "a sustainable weight would be at most 5 %, the even share is 33.3 %"
    return Finding(f"{ours} {back:.1f} % in the last quarter", holds, why)


def run_equal(setting: Setting) -> Data:
    """Three equal PEs, base cost 10,000, 500 s."""
    return {"runs": {balance: run.data() for balance, run in paper_and_ours(setting, 10_000, 3, 500).items()}}


def judge_equal(data: Data) -> Finding:
    """O-f8b."""
    weights = np.array(data["runs"]["lb-adaptive"]["weights"])
    means = weights[len(weights) // 2 :].mean(axis=0)
    rates = np.array(data["runs"]["lb-adaptive"]["rates"])[2:]
    leader = float((rates.max(axis=1) > 0.6 * rates.sum(axis=1)).mean())
    holds = bool(np.abs(means - 100 / 3).max() <= 6.0)
    text = ", ".join(f"{mean:.1f}" for mean in means)
    why = "" if holds else "an even split is 33.3 % each, give or take 6"
    return Finding(
        f"{text} % in the second half; one connection leads the draft in {leader:.0%} of samples", holds, why
    )


def draw_depth(data: Data, figure: Figure) -> None:
    """One row of panels for each balance, one panel for each connection: weight, and blocking rate."""
    runs = data["runs"]
    count = len(next(iter(runs.values()))["weights"][0])
    for row, (balance, run) in enumerate(runs.items()):
        weights, rates = np.array(run["weights"]), np.array(run["rates"])
        for connection in range(count):
            axes = figure.add_subplot(len(runs), count, row * count + connection + 1)
            other = axes.twinx()
            other.plot(rates[:, connection], color="tab:red", linewidth=0.4)
            axes.plot(weights[:, connection], color="tab:blue")
            axes.set_ylim(0, 100)
            if row == 0:
                axes.set_title(f"connection {connection + 1}", fontsize=9)
            axes.set_zorder(other.get_zorder() + 1)
            axes.patch.set_visible(False)
            other.set_ylim(0, 1)
            if connection == 0:
                axes.set_ylabel(f"{LABELS[balance]}\nweight, %", color="tab:blue", fontsize=9)
            if connection == count - 1:
                other.set_ylabel("blocking rate", color="tab:red", fontsize=9)
            else:
                other.set_yticklabels([])
            if row == len(runs) - 1:
                axes.set_xlabel("seconds")


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "ordered-fixed-weights",
        run_fixed,
        (
            PaperClaim(
                "O-f5",
                f"{PAPER}, Figure 5",
                "The blocking rate is flat in time and falls with the weight: 80 > 70 > 60 > 50 %.",
                "The mean blocking rate of connection 1 falls from each split to the next (at 50 %, where either may "
                "lead the draft, that of both together), and at 80, 70 and 60 % it has a standard deviation over time "
                "of at most 0.05.",
                judge_fixed,
            ),
        ),
        (Picture("ordered-figure-5", "Blocking rates for fixed allocation weights", draw_fixed),),
    ),
    Experiment(
        "ordered-reroute",
        run_reroute,
        (
            PaperClaim(
                "O-4.4",
                f"{PAPER}, §4.4",
                "Re-routing: 0.5 % of tuples re-routed and no gain at base cost 1,000; 7.5 % and about 20 % gain at "
                "10,000.",
                "Two PEs, one 100x, deep kernel buffers: at 1,000 at most 1 % re-routed and throughput within 3 % of "
                "round-robin; at 10,000 between 4 and 12 % re-routed and between 10 and 30 % gained.",
                judge_reroute,
            ),
        ),
        version=2,
    ),
    Experiment(
        "ordered-one-loaded",
        run_loaded,
        (
            PaperClaim(
                "O-f8a",
                f"{PAPER}, Figure 8 top, §6.1",
                "3 PEs, one 100x: sustainable weights within 15 samples; climbs back after the load goes.",
                "LB-adaptive: from sample 15 until the load goes, the loaded connection's weight has a median of at "
                "most 5 % (the paper's: 2 to 3); in the last quarter it is within 5 points of a third.",
                judge_loaded,
            ),
        ),
        (Picture("ordered-figure-8a", "3 PEs, one of them 100x until an eighth of the run", draw_depth),),
    ),
    Experiment(
        "ordered-equal",
        run_equal,
        (
            PaperClaim(
                "O-f8b",
                f"{PAPER}, Figure 8 bottom, §6.2",
                "3 equal PEs: even split in spite of drafting.",
                "LB-adaptive: in the mean over the second half of the run every weight is within 6 points of a third.",
                judge_equal,
            ),
        ),
        (Picture("ordered-figure-8b", "3 equal PEs", draw_depth),),
    ),
)
