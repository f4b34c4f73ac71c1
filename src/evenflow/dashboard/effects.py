"""One thing that Evenflow did, and what it brought."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.dashboard.history import Chronicle
from evenflow.dashboard.pace import LAG_S
from evenflow.dashboard.workers import rounded

BEFORE_S, AFTER_S = 6.0, 10.0
"""What an action brought: the figures of AFTER_S seconds after its end against those of BEFORE_S seconds before its
beginning and of the time that it took. The history has all of them LAG_S later."""
EARLIEST_S = 2.0
"""Of so many of the AFTER_S seconds it is told first; while moves go on, of so many after the first of them."""
RAMP_S = 2.0
"""Figures of the first so many seconds in which a region is fed are none to compare with: they grow by themselves."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Rows a second of a region, and the imbalance of the workers, before an action and after it, as far as known."""

    rows_before: float | None = None
    rows_after: float | None = None
    imbalance_before: float | None = None
    imbalance_after: float | None = None

    @property
    def gain(self) -> float | None:
        """Rows a second after over those before, less 1."""
        return self.rows_after / self.rows_before - 1 if self.rows_before and self.rows_after else None


@dataclass(slots=True)
class Action:
    """One thing that Evenflow did, or would not do."""

    time: float
    kind: str
    """`move`, `weights`, `qos`, `refused` or `undone`."""
    region: str
    why: str
    until: float
    units: int = 0
    done: int = 0
    bytes: int = 0
    fed_until: float = float("inf")
    """When its region's last feeder left; infinite while there are some, or nothing is known of them."""
    fed_from: float = float("-inf")
    """From when on its region was fed before it, as far as that is known."""
    seconds: float = 0.0
    """The longest that a unit was under way."""
    routes: dict[tuple[int, int], int] = field(default_factory=dict)
    """By source and target, the units between them."""
    weights: dict[int, float] = field(default_factory=dict)
    """By worker, its weight before."""
    changes: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By worker whose weight is another, the one before and the one after."""
    brought: Effect | None = None
    """Its effect, once all is known of it."""

    @property
    def fed(self) -> bool:
        """Whether its region was fed for long enough after it: figures of the last rows are no effect."""
        return self.fed_until >= self.until + LAG_S + EARLIEST_S

    def effect(self, history: Chronicle, now: float) -> Effect:
        """What it brought, as far as it is known by now.

        Nothing, if its region was not fed for long enough after it. And only what is after it, if no whole step lies
        between the first RAMP_S in which its region was fed and the action.
        """
        if self.brought is not None:
            return self.brought
        if self.kind not in ("move", "weights") or not self.fed:
            return Effect()
        goes_on = now < self.until + LAG_S + EARLIEST_S
        ended = self.time if goes_on else self.until
        since = ended + LAG_S
        if now < since + EARLIEST_S:
            return Effect()
        step = history.step_s
        begin = max(self.time - max(BEFORE_S, step), self.fed_from + RAMP_S + step)
        before = (begin + LAG_S, ended + LAG_S) if begin < self.time else (0.0, 0.0)
        after = since + step, min(self.fed_until + LAG_S, since + step + max(AFTER_S, 2 * step))  # whole steps only
        rows = f"rows:{self.region}"  # between batches there are none
        return Effect(
            rows_before=history.mean(rows, *before, only_above=0.0),
            rows_after=history.mean(rows, *after, only_above=0.0),
            imbalance_before=history.most("imbalance", *before),
            imbalance_after=history.most("imbalance", *after),
        )

    def settle(self, history: Chronicle) -> None:
        """If the history has all that follows it, what it brought stays as it is: steps get longer later on."""
        now = history.times[-1]
        if self.brought is None and now >= self.until + LAG_S + history.step_s + max(AFTER_S, 2 * history.step_s):
            self.brought = self.effect(history, now)

    def shown(self, history: Chronicle, now: float) -> dict[str, object]:
        """What the page shows of it."""
        effect = self.effect(history, now)
        routes = sorted(self.routes.items(), key=lambda each: -each[1])
        changes = sorted(self.changes.items(), key=lambda each: -abs(each[1][1] - each[1][0]))
        return {
            "time": round(self.time, 3),
            "until": round(self.until, 3),
            "kind": self.kind,
            "region": self.region,
            "why": self.why,
            "units": self.units,
            "done": self.done,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 4),
            "routes": [[source, target, count] for (source, target), count in routes[:6]],
            "more_routes": max(0, len(routes) - 6),
            "changes": [[worker, before, after] for worker, (before, after) in changes[:4]],
            "gain": rounded(effect.gain, 4),
            "imbalance": [rounded(effect.imbalance_before, 3), rounded(effect.imbalance_after, 3)],
        }
