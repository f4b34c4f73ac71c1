"""The headline in words: whether it is balanced, what the bottleneck is, what Evenflow did and what that brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evenflow.dashboard.effects import AFTER_S, Action, Effect
from evenflow.dashboard.pace import LAG_S

EVEN, UNEVEN = 1.15, 1.4
"""Up to EVEN times the mean the busiest worker is balanced, from UNEVEN on it is not; between, nearly."""
BUSY = 0.8
"""A worker that is busy for so much of its time has no room."""
IDLE = 0.02
"""Below so much of the time of all workers together there is nothing to balance."""
SLOW = 1.5
"""A row that takes so many times the usual makes a worker slow."""
MARGIN = 0.02
"""Rows a second that differ by less are as many."""
HOT = 0.3
"""A unit with so much of a worker's rows makes the worker busy by itself."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the headline is made from."""

    loads: dict[int, float]
    """By live worker, the share of its time that is service time."""
    row_s: dict[int, float]
    """By worker, seconds of service a row, relative to the usual worker."""
    hot: tuple[str, int, float] | None = None
    """Region, unit, and its share of the rows of the busiest worker."""
    pending: int = 0
    """Bytes of rows that wait for state on disk."""
    feeding: bool = False
    begins: bool = False
    """Whether a region is fed for so short a time that loads are not yet those of now."""
    lost: Sequence[int] = ()
    """Workers that are not live."""
    state: str = "live"

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


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.0f} %"


def sentence(tone: str, text: str, title: str) -> dict[str, str]:
    """One part of the headline; `tone` is good, fair, bad or quiet."""
    return {"tone": tone, "title": title, "text": text}


def balance_words(seen: Situation) -> dict[str, str]:
    """Whether it is balanced."""
    score = seen.imbalance
    if score is None:
        text = "workers have next to nothing to do" if seen.feeding else "no rows are being fed"
        return sentence("quiet", text, "Nothing to balance")
    text = f"the busiest worker does {score:.2f} of the mean"
    if score <= EVEN:
        return sentence("good", text, "Balanced")
    if score < UNEVEN:
        return sentence("fair", text, "Nearly balanced")
    return sentence("bad", f"worker {seen.busiest} does {score:.2f} of the mean", "Uneven")


def bottleneck_words(seen: Situation) -> dict[str, str]:
    """What the bottleneck is now."""
    if seen.state == "stopped":
        return sentence("quiet", "the cluster has stopped", "No bottleneck")
    if seen.lost:
        some = ", ".join(map(str, sorted(seen.lost)[:4])) + (" and more" if len(seen.lost) > 4 else "")
        which = "worker" if len(seen.lost) == 1 else "workers"
        return sentence("bad", "the others do its work until it is back", f"Lost: {which} {some}")
    if not seen.loads or seen.mean < IDLE:
        return sentence("quiet", "workers wait for rows", "No bottleneck")
    most, busiest = seen.loads[seen.busiest], seen.busiest
    if most >= BUSY and (seen.imbalance or 0.0) >= EVEN and seen.mean < BUSY:
        return sentence("bad", _why_busy(seen, busiest, most), f"Bottleneck: worker {busiest}")
    if seen.mean >= BUSY:
        return sentence("fair", f"busy {percent(seen.mean)} of the time; more would help", "Bottleneck: all workers")
    if seen.pending > 1 << 20:
        return sentence("fair", f"{seen.pending / 1e6:.0f} MB of rows wait for state on disk", "Bottleneck: disk")
    if seen.begins:
        return sentence("quiet", "rows have only begun to come", "Bottleneck: not known yet")
    text = f"workers are busy {percent(seen.mean)} of the time"
    return sentence("good", text, "Bottleneck: the input")


def _why_busy(seen: Situation, worker: int, load: float) -> str:
    others = [each for number, each in seen.loads.items() if number != worker]
    text = f"busy {percent(load)}" + (f", the others {percent(sum(others) / len(others))}" if others else "")
    slow = seen.row_s.get(worker, 1.0)
    if slow >= SLOW:
        return f"{text}; a row takes {slow:.1f} times as long there"
    if seen.hot is not None and seen.hot[2] >= HOT:
        return f"{text}; unit {seen.hot[1]} has {percent(seen.hot[2])} of its rows"
    return text


def unread_words(unread: int, read: int, title: str) -> str:
    """What is said of lines that could not be read; nothing, if there are none."""
    if not unread:
        return ""
    lines = f"{unread:,} line{'s' if unread != 1 else ''} of {title} could not be read"
    if read:
        return f"{lines} and {'are' if unread != 1 else 'is'} left out: damaged, or of another version."
    wanted = "one JSON object a line, as Cluster(event_log=...) and evenflow simulate --event-log write it"
    return f"{lines}, and no other could: this is no event log. Give a file with {wanted}."


def ago(seconds: float) -> str:
    """How long ago, in words."""
    if seconds < 1.5:
        return "just now"
    if seconds < 100:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 5400 else f"{seconds / 3600:.1f} h ago"


def action_words(
    action: Action | None, effect: Effect, now: float, state: str = "live", by_credits: bool = False
) -> dict[str, str]:
    """What Evenflow did about it, and what that brought; `by_credits`: a region decides row by row, without actions."""
    if action is None and by_credits:
        return sentence("quiet", "each row goes to a worker that has room for it", "Balanced row by row")
    if action is None:
        return sentence("quiet", "Evenflow has seen nothing worth one", "No move so far")
    if action.kind == "move":
        what = f"{action.units} unit{'s' if action.units != 1 else ''}"
        title = f"{what} moved {ago(now - action.until)}" if action.done >= action.units else f"{what} on the way"
    else:
        count = len(action.changes)
        title = f"Weights of {count} worker{'s' if count != 1 else ''} changed {ago(now - action.until)}"
    early = state != "stopped" and now - action.until < LAG_S + AFTER_S
    return sentence(*effect_words(effect, early), title)


def effect_words(effect: Effect, early: bool) -> tuple[str, str]:
    """The tone and the words of what an action brought, or so far; fewer rows a second are never good."""
    gain, before, after = effect.gain, effect.imbalance_before, effect.imbalance_after
    if effect.rows_before is None and effect.rows_after is not None:
        return "quiet", "too few rows before it to compare with"
    if gain is None or effect.rows_after is None or effect.rows_before is None:
        return "quiet", "what it brings is being measured" if early else "fed too briefly since to compare"
    evener = before is not None and after is not None and before - after > 0.05
    balance = f"imbalance {before:.2f} → {after:.2f}" if evener else ""
    if gain >= MARGIN:
        tone, rows = "good", f"{gain:+.0%} rows/s".replace("%", " %")
    elif gain > -MARGIN:
        tone, rows = "good" if evener else "quiet", "as many rows/s as before"
    else:
        tone, rows = "quiet", f"{effect.rows_after:,.0f} rows/s, {effect.rows_before:,.0f} before"
    told = f"{rows}{'; ' if gain <= -MARGIN else ', '}{balance}" if balance else rows
    return tone, f"so far {told}" if early else told


def relative_costs(row_s: dict[int, float]) -> dict[int, float]:
    """By worker, how long a row takes there over how long it usually takes."""
    usual = median(row_s.values()) if row_s else 0.0
    return {worker: each / usual for worker, each in row_s.items()} if usual else {}
