"""The verdict: one sentence about the whole cluster that does not contradict itself, and its reason.

`verdict` is a pure function of a `Situation`. The first of these that holds is the headline:

1. a job has failed, and does not run again yet; 2. a worker is lost; 3. the driver is silent, or rows stand still;
4. the cluster has stopped, or has nothing to do; 5. what limits the rows a second: one unit, one worker, all workers,
the disk, or the input. Loads that differ are bad only where a worker is the limit: while the input is, they cost
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.dashboard.failures import JobFailure

EVEN, UNEVEN = 1.15, 1.4
"""Up to EVEN times the mean the busiest worker is balanced, from UNEVEN on it is not; between, nearly."""
BUSY = 0.8
"""A worker that is busy for so much of the time in which rows are fed has no room."""
LEAST_FED = 0.5
"""Where rows are fed for less of the time than this, as between batches that wait for rows, the rest counts as room."""
IDLE = 0.02
"""Below so much of the time of all workers together there is nothing to balance."""
SLOW = 1.5
"""A row that takes so many times the usual makes a worker slow."""
HOT = 0.3
"""A unit with so much of a worker's rows makes the worker busy by itself."""
STILL_S = 15.0
"""Rows that have not come back for so many seconds stand still."""
FRESH_S = 12.0
"""For so many seconds after it, the effect of an action is being measured, or its refusal is the reason."""
MUCH_WAITS = 1 << 20
"""Bytes of rows that wait for state on disk, from which on the disk is the limit."""
FIXED = ("kg", "hash", "static", "round-robin", "lb-static", "random")
"""Balances and placements that do not move work."""
BY_ROW = ("credits", "river", "pkg", "reroute")
"""Balances that choose a worker for each row, and move nothing."""


@dataclass(frozen=True, slots=True)
class HotUnit:
    """The hottest unit of the busiest worker."""

    unit: int
    share: float
    """Its share of the worker's rows."""
    key: str = ""
    """The value of its most frequent key, where values were asked for."""

    @property
    def called(self) -> str:
        """What it is called."""
        return f"unit {self.unit}" + (f" (key {self.key})" if self.key else "")


@dataclass(frozen=True, slots=True)
class RegionSeen:
    """One region, as far as the verdict needs it."""

    name: str
    balance: str = ""
    feeders: int = 0
    still_s: float = 0.0
    """Seconds since rows came back from workers, while it has feeders."""
    waiting: int = 0
    """Rows that have come and are not back."""
    load: float = 0.0
    """What it takes of the busiest worker's time."""
    hot: HotUnit | None = None
    moving: int = 0
    """Units that are under way."""
    acted_s: float | None = None
    """Seconds since the last action for it ended."""
    refused: str = ""
    """Why a move was refused of late."""
    decided: str = ""
    """Why a placement is as it is, in its own words."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All facts that the verdict is made from."""

    loads: dict[int, float]
    """By live worker, the share of its time that is service time."""
    row_s: dict[int, float]
    """By worker, seconds of service a row, relative to the usual worker."""
    fed: float = 1.0
    """The share of the time in which any region was fed."""
    regions: Sequence[RegionSeen] = ()
    pending: int = 0
    """Bytes of rows that wait for state on disk."""
    feeding: bool = False
    begins: bool = False
    """Whether a region is fed for so short a time that loads are not yet those of now."""
    lost: Sequence[int] = ()
    """Workers that are not live."""
    failures: Sequence[JobFailure] = ()
    """Those that stand, the most important first."""
    silent_s: float = 0.0
    """Seconds since the last entry of the log, if more are due; else 0."""
    state: str = "live"
    now: float = 0.0

    @property
    def mean(self) -> float:
        """The mean load."""
        return sum(self.loads.values()) / len(self.loads) if self.loads else 0.0

    @property
    def busiest(self) -> int:
        """The worker with the highest load."""
        return max(self.loads, key=lambda worker: self.loads[worker])

    @property
    def imbalance(self) -> float | None:
        """The highest load over the mean: 1 is even; None if there is too little load to say."""
        return self.loads[self.busiest] / self.mean if self.loads and self.mean >= IDLE else None

    @property
    def while_fed(self) -> dict[int, float]:
        """By worker, how busy it is while rows are fed: between batches it waits, however slow it is."""
        share = max(LEAST_FED, min(1.0, self.fed))
        return {worker: min(1.0, load / share) for worker, load in self.loads.items()}

    @property
    def heaviest(self) -> RegionSeen | None:
        """The region that takes most of the busiest worker's time."""
        return max(self.regions, key=lambda region: region.load, default=None)


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.0f} %"


def sentence(tone: str, text: str, title: str) -> dict[str, str]:
    """One part of the headline; `tone` is good, fair, bad or quiet."""
    return {"tone": tone, "title": title, "text": text}


def ago(seconds: float) -> str:
    """How long ago, in words."""
    if seconds < 1.5:
        return "just now"
    if seconds < 100:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 5400 else f"{seconds / 3600:.1f} h ago"


def verdict(seen: Situation) -> dict[str, str]:
    """The one sentence."""
    if seen.failures:
        return _failed(seen)
    return _undisturbed(seen)


def _undisturbed(seen: Situation) -> dict[str, str]:
    """The verdict on all but the jobs that failed."""
    if seen.state == "stopped":
        return sentence("quiet", "the cluster has stopped", "Stopped")
    if seen.lost:
        some = ", ".join(map(str, sorted(seen.lost)[:4])) + (" and more" if len(seen.lost) > 4 else "")
        which, its = ("Worker", "its") if len(seen.lost) == 1 else ("Workers", "their")
        verb = "is" if len(seen.lost) == 1 else "are"
        return sentence("bad", f"the others do {its} work until a new one is there", f"{which} {some} {verb} lost")
    return _stalled(seen) or _limit(seen)


def _failed(seen: Situation) -> dict[str, str]:
    """A job has failed: that is the headline, and what the others do is said beside it."""
    first, more = seen.failures[0], len(seen.failures) - 1
    title = f"{first.region or 'The cluster'} failed {ago(seen.now - first.at)}"
    if more:
        title += f", {more} more job{'s' if more > 1 else ''} before it"
    parts = [first.why.strip().partition("\n")[0] or "no reason was told"]
    if first.again is not None:
        parts.append("it has been started again")
    names = {failure.region for failure in seen.failures}
    if seen.state == "stopped":
        parts.append("the cluster has stopped since")
    elif any(region.name not in names for region in seen.regions):
        parts.append(f"the rest: {_undisturbed(seen)['title']}")
    return sentence("bad", " · ".join(parts), title)


def _stalled(seen: Situation) -> dict[str, str] | None:
    """Nothing goes on, although it should."""
    if seen.silent_s >= STILL_S:
        text = "the log has no newer entry, although rows are fed: the driver hangs, or is gone"
        return sentence("bad", text, f"No word from the driver for {_long(seen.silent_s)}")
    still = [region for region in seen.regions if region.feeders and region.still_s >= STILL_S]
    if not still or any(seen.loads[worker] >= IDLE for worker in seen.loads):
        return None
    worst = max(still, key=lambda region: (region.waiting > 0, region.still_s))
    if worst.waiting:
        text = f"{worst.waiting:,} rows have come, and workers have given none back: a function that waits, or hangs?"
        return sentence("bad", text, f"{worst.name} stands still for {_long(worst.still_s)}")
    some = f"{worst.feeders} tasks of {worst.name} wait" if worst.feeders > 1 else f"a task of {worst.name} waits"
    return sentence("quiet", f"{some} for rows of the source", "The input gives no rows")


def _long(seconds: float) -> str:
    return ago(seconds).removesuffix(" ago")


def _limit(seen: Situation) -> dict[str, str]:
    """What limits the rows a second."""
    if not seen.loads or seen.mean < IDLE:
        if seen.begins:
            return sentence("quiet", "rows have only begun to come", "Starting")
        if seen.feeding:
            text = f"workers are busy for less than {percent(IDLE)} of the time"
            return sentence("quiet", text, "Next to nothing to do")
        return sentence("quiet", "no rows are being fed", "Nothing to do")
    loads, score = seen.while_fed, seen.imbalance or 1.0
    mean = sum(loads.values()) / len(loads)
    if _holding_up(seen):
        return _one_worker(seen, loads, score)
    if mean >= BUSY:
        even = "evenly " if score <= EVEN else ""
        text = f"{even}busy {percent(mean)} of the time{_fed_words(seen)}: more workers would help"
        return sentence("fair", text, "All workers are busy")
    if seen.pending > MUCH_WAITS:
        return sentence(
            "fair", f"{seen.pending / 1e6:.0f} MB of rows wait for state on disk", "The disk is the bottleneck"
        )
    if seen.begins:
        return sentence("quiet", "rows have only begun to come", "Starting")
    text = f"workers are busy {percent(mean if _fed_words(seen) else seen.mean)} of the time{_fed_words(seen)}"
    if score <= EVEN:
        text += ", evenly"
    elif score >= UNEVEN:
        text += f"; worker {seen.busiest} does {score:.2f} of the mean, but has room: moving work would bring nothing"
    return sentence("good", text, "The input is the bottleneck")


def _holding_up(seen: Situation) -> list[int]:
    """Workers without room that do more than the others, while the others have room."""
    loads = seen.while_fed
    if seen.imbalance is None or sum(loads.values()) / len(loads) >= BUSY:
        return []
    return [worker for worker, load in loads.items() if load >= BUSY and seen.loads[worker] >= EVEN * seen.mean]


def tones(seen: Situation) -> dict[int, str]:
    """By worker that stands out, its tone: that of the verdict, so that the one never contradicts the other."""
    return dict.fromkeys(_holding_up(seen), _limit(seen)["tone"]) if seen.loads else {}


def _fed_words(seen: Situation) -> str:
    return " that batches run" if LEAST_FED <= seen.fed < BUSY else ""


def _one_worker(seen: Situation, loads: dict[int, float], score: float) -> dict[str, str]:
    """One worker holds up the others: who, why, and why Evenflow does not move more away from it."""
    worker, region = seen.busiest, seen.heaviest
    most = loads[worker]
    others = [each for number, each in loads.items() if number != worker]
    text = f"busy {percent(most)}" + (f", the others {percent(sum(others) / len(others))}" if others else "")
    hot = region.hot if region is not None else None
    slow = seen.row_s.get(worker, 1.0)
    where = f" of {region.name}" if region is not None and len(seen.regions) > 1 else ""
    if region is not None and hot is not None and hot.share >= 1 / EVEN and slow < SLOW:
        text = f"worker {worker} is {text}; {percent(hot.share)} of its rows are of this unit, which cannot be divided"
        return sentence("fair", text, f"U{hot.called[1:]} of {region.name} is the bottleneck")
    if slow >= SLOW:
        text += f"; a row takes {slow:.1f} times as long there"
    elif hot is not None and hot.share >= HOT:
        text += f"; {hot.called}{where} has {percent(hot.share)} of its rows"
    if region is not None:
        text += f"; {why_unmoved(region, seen.begins)}"
    tone = "bad" if score >= UNEVEN else "fair"
    return sentence(tone, text, f"Uneven: worker {worker} is the bottleneck")


def why_unmoved(region: RegionSeen, begins: bool) -> str:
    """Why no more work is moved away from the busiest worker now."""
    name = region.name
    if region.moving:
        return f"{region.moving} unit{'s' if region.moving != 1 else ''} of {name} on the way"
    if region.acted_s is not None and region.acted_s < FRESH_S:
        return f"what the last action for {name} brings is being measured"
    if begins:
        return f"{name} has only begun: Evenflow measures first"
    if region.balance in FIXED:
        return f"the balance of {name}, {region.balance}, moves nothing"
    if region.balance in BY_ROW:
        return f"the balance of {name}, {region.balance}, gives each row to a worker and moves nothing"
    if region.refused:
        return f"a move of {name} was refused: {region.refused}"
    if region.decided:
        return f"{name}: {region.decided}"
    return f"no move of {name} has been found that brings more than it costs"
