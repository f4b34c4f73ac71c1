"""Flux §6.4: workers that lose memory and share their processors with others (figure 15), by the paper's policies.

The cluster is that of `flux_memory`. The paper simulates 100 s and measures steady policies: throughput "once partition
movement had subsided", and under heavy pressure the last 20 s, in which "the hybrid policy is in steady state". By its
own settings that takes longer: under medium pressure 43 units have to leave each of 8 machines, 2.2 GB, for which all
movements together have 500 Mbit/s (§5.4), so 35 s; and collection phases are as long as moves (§5.3). Nothing can be
steady at 55 s, as the paper's hybrid is. So 160 s are simulated; and, at full size, the paper's 100 s with 250 Mbit/s
between any two machines and no limit on all of them together, which is shown beside it and not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenflow.sim.keyed.setup import ExternalLoad
from evenflow_lab.experiments.base import Data, Experiment, Finding, PaperClaim, Picture, Setting
from evenflow_lab.experiments.flux.memory import HALF, MB, NAMES, drawn_machines, paging_machines, squeezed
from evenflow_lab.experiments.flux.runs import SOURCE, last, mean_latency, run_flux, steady_since

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCANT = (1024 - 262) * MB
SECONDS = 160
PAPER_SECONDS = 100
WINDOW = 20
"""The last seconds, which heavy pressure is measured in (§6.4)."""
POLICIES = {"medium": ("flux", "flux-memory", "flux-hybrid", "auto"), "heavy": ("flux", "flux-hybrid", "auto")}
UNLIMITED = {"medium": ("flux", "flux-hybrid"), "heavy": ("flux", "flux-hybrid")}
"""The policies that run without a limit on all movements together."""


def _run_hybrid(setting: Setting) -> Data:
    count = paging_machines(setting)
    some = drawn_machines(setting, count // 4)
    half = {worker: HALF if at < count // 2 else SCANT for at, worker in enumerate(drawn_machines(setting, count))}
    setups = {
        "medium": squeezed(setting, dict.fromkeys(some, HALF), loads=tuple(map(ExternalLoad, some))),
        "heavy": squeezed(setting, half, loads=tuple(map(ExternalLoad, range(count)))),
    }
    seconds = {"medium": 115, "heavy": 75} if setting.quick else dict.fromkeys(setups, SECONDS)
    runs = [("limited", level, balance) for level, names in POLICIES.items() for balance in names]
    if not setting.quick:
        runs += [("unlimited", level, balance) for level, names in UNLIMITED.items() for balance in names]
    data: Data = {"machines": count, "limited": {"medium": {}, "heavy": {}}, "unlimited": {"medium": {}, "heavy": {}}}
    for done, (network, level, balance) in enumerate(runs, 1):
        setup, until = setups[level], seconds[level]
        if network == "unlimited":
            setup, until = replace(setup, network_mbit=count * setup.link_mbit), PAPER_SECONDS
        data[network][level][balance] = run_flux(setup, balance, until).data()
        setting.progress(done / len(runs))
    return data


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the policies did under both pressures, by name."""

    rate: dict[str, float]
    """Medium: rows a second when steady."""
    settled: dict[str, int]
    """Medium: the second after which the policy is steady."""
    through: dict[str, float]
    """Heavy: rows a second in the last seconds."""
    latency: dict[str, float]
    """Heavy: milliseconds of a row in the last seconds."""

    @property
    def ratio(self) -> float:
        """Heavy: hybrid's throughput over that of load-balancing."""
        return self.through["flux-hybrid"] / self.through["flux"]

    @property
    def gain(self) -> float:
        """Heavy: how many times shorter the latency of hybrid is than that of load-balancing."""
        return self.latency["flux"] / self.latency["flux-hybrid"]


def _measured(runs: dict[str, Any], until: int | None = None) -> _Measured:
    """Both pressures; the heavy one in the last seconds before `until`, or of all."""
    medium, heavy = runs["medium"], {name: _up_to(run, until) for name, run in runs["heavy"].items()}
    rate = {name: last(run["throughput"], 15) for name, run in medium.items()}
    return _Measured(
        rate,
        {name: steady_since(run["throughput"], 0.95 * rate[name]) for name, run in medium.items()},
        {name: last(run["throughput"], WINDOW) for name, run in heavy.items()},
        {name: mean_latency(run, WINDOW) for name, run in heavy.items()},
    )


def _up_to(run: dict[str, Any], until: int | None) -> dict[str, Any]:
    return {name: run[name][:until] for name in ("throughput", "latency_ms")}


def _judge_hybrid(data: Data) -> Finding:
    runs, seen = data["limited"], _measured(data["limited"])
    rate, settled, hybrid = seen.rate, seen.settled, runs["heavy"]["flux-hybrid"]
    parts = {
        "medium: hybrid within 3 % of the best": rate["flux-hybrid"] >= 0.97 * max(rate["flux"], rate["flux-memory"]),
        "medium: hybrid 3 % above memory-based": rate["flux-memory"] < 0.97 * rate["flux-hybrid"],
        "medium: hybrid steady no later than load-balancing": 0 < settled["flux-hybrid"] <= settled["flux"],
        "heavy: hybrid moves nothing in the seconds measured": hybrid["last_move"]
        <= len(hybrid["throughput"]) - WINDOW,
        "heavy: throughput within 15 %": abs(seen.ratio - 1) <= 0.15,
        "heavy: latency 1.6 times shorter": seen.gain >= 1.6,
    }
    ours = (
        f"medium: hybrid {rate['flux-hybrid']:.3g}, load {rate['flux']:.3g}, memory {rate['flux-memory']:.3g}, auto "
        f"{rate['auto']:.3g} rows/s, steady after second {settled['flux-hybrid']}, {settled['flux']}, "
        f"{settled['flux-memory']}, {settled['auto']}; heavy, once hybrid is steady: {seen.ratio:.2f} of load's "
        f"throughput, its latency is {seen.gain:.1f} times shorter; auto's "
        f"{seen.latency['flux'] / seen.latency['auto']:.1f} times"
    )
    missed = "; ".join(name for name, met in parts.items() if not met)
    return Finding(ours, not missed, (f"not met: {missed}. " if missed else "") + _why(data, seen))


def _why(data: Data, seen: _Measured) -> str:
    """Where the time goes, and what the paper's seconds give."""
    heavy = data["limited"]["heavy"]
    moved = [
        f"{NAMES[name]} {run['moves']} units, the last in second {run['last_move']:.0f}" for name, run in heavy.items()
    ]
    why = (
        f"heavy pressure was simulated for {len(heavy['flux']['throughput'])} s; moved: {'; '.join(moved)}. "
        f"Units on disk of a machine then: hybrid {_spread(heavy['flux-hybrid'])}, load {_spread(heavy['flux'])}. "
        f"Rows a second {_rounded(seen.through)}, latencies in ms {_rounded(seen.latency)}; "
        f"medium: {_rounded(seen.rate)}"
    )
    if not data["unlimited"]["medium"]:
        return why
    then, free = _measured(data["limited"], PAPER_SECONDS), _measured(data["unlimited"])
    return why + (
        f". Seconds {PAPER_SECONDS - WINDOW} to {PAPER_SECONDS}, as in the paper: {then.ratio:.2f} of load's "
        f"throughput and {then.gain:.1f} times shorter. Without the 500 Mbit/s of all movements together, hybrid and "
        f"load are steady after second {free.settled['flux-hybrid']} and {free.settled['flux']}, and in these seconds "
        f"it is {free.ratio:.2f} and {free.gain:.1f}, hybrid's last move in second "
        f"{data['unlimited']['heavy']['flux-hybrid']['last_move']:.0f}"
    )


def _spread(run: dict[str, Any]) -> str:
    return f"{min(run['on_disk'])} to {max(run['on_disk'])}"


def _rounded(values: dict[str, float]) -> dict[str, int]:
    return {name: round(value) for name, value in values.items()}


def _draw_hybrid(data: Data, figure: Figure) -> None:
    figure.set_layout_engine("constrained")
    medium, heavy = data["limited"]["medium"], data["limited"]["heavy"]
    over_time, bars, latency = figure.subplots(1, 3)
    for name, run in medium.items():
        over_time.plot(range(1, len(run["throughput"]) + 1), run["throughput"], label=NAMES[name])
    over_time.set(title="medium pressure", xlabel="second", ylabel="rows a second", ylim=(0, None))
    figure.legend(*over_time.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize="small")
    names = list(heavy)
    bars.bar([NAMES[name] for name in names], [last(heavy[name]["throughput"], WINDOW) for name in names])
    bars.set(title="heavy: rows a second")
    latency.bar([NAMES[name] for name in names], [mean_latency(heavy[name], WINDOW) / 1e3 for name in names])
    latency.set(title="heavy: latency, s")
    for axes in (bars, latency):
        axes.tick_params(axis="x", rotation=90)


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "flux-hybrid",
        _run_hybrid,
        (
            PaperClaim(
                "F-f15",
                SOURCE + "§6.4, figure 15",
                "medium pressure: hybrid and load-balancing beat memory-based, hybrid is steady sooner (55 s, 63 s); "
                "heavy pressure: as much throughput, half the latency",
                "medium: hybrid within 3 % of the best and 3 % above memory-based, steady no later than load-balancing"
                "; heavy, in 20 s in which hybrid moves nothing: throughput within 15 %, latency at least 1.6 times "
                "shorter",
                _judge_hybrid,
            ),
        ),
        (Picture("flux-figure-15", "Policies under external load and memory pressure", _draw_hybrid),),
        version=2,
        aspects=("paging",),
    ),
)
