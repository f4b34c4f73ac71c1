"""What Evenflow did: moves of units, new weights, what was refused or went wrong."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from evenflow.dashboard.effects import AFTER_S, BEFORE_S, Action
from evenflow.dashboard.history import Chronicle
from evenflow.dashboard.pace import LAG_S, RECENT_S
from evenflow.dashboard.regions import KEPT_REGIONS
from evenflow.dashboard.workers import whole
from evenflow.model.entries import (
    AttemptPoisonedEntry,
    BalanceFailedEntry,
    CheckpointTakenEntry,
    ControllerErrorEntry,
    ControllerFailedEntry,
    EntriesLeftOutEntry,
    EvaluationEndedEntry,
    EventEntry,
    EventLogLostEntry,
    FeederFailedEntry,
    FeederJoinedEntry,
    FeederLeftEntry,
    FeederRefusedEntry,
    MemoryRefusedEntry,
    MovedEntry,
    MoveEntry,
    MoveRefusedEntry,
    MoveUndoneEntry,
    PeerRefusedEntry,
    QosEntry,
    RegionEntry,
    RegionFailedEntry,
    SampleEntry,
    SnapshotTooLateEntry,
    StoreFailedEntry,
    StrangerRefusedEntry,
    TaskEndedEntry,
    WarningEntry,
    WeightsEntry,
    WeightsRefusedEntry,
    WorkerJoinedEntry,
    WorkerLostEntry,
    WorkerRefusedEntry,
    WorkerTroubleEntry,
    as_dict,
    name_of,
)
from evenflow.model.moves import MEASURED

KEPT = 120
"""Actions and troubles that are kept, of each."""
SAME_S = 5.0
"""Moves, or weights, of one region that follow each other within so many seconds are one action."""
MOST_FEEDERS = 4096
"""Feeders of a region that are known one by one; of more, those that came first are forgotten."""
NOTEWORTHY = 0.02
"""Weights that change by less of the whole are no action of their own."""
CHANGES = "move", "weights"
"""Kinds of actions that change where rows go."""
TEXT = 400
"""Characters of a reason, at most."""

FAILURES: dict[type[EventEntry], str] = {
    WorkerLostEntry: "lost",
    WorkerTroubleEntry: "trouble",
    WorkerRefusedEntry: "refused",
    TaskEndedEntry: "task ended",
    FeederFailedEntry: "task failed",
    FeederRefusedEntry: "task refused",
    AttemptPoisonedEntry: "batch given up",
    EvaluationEndedEntry: "state dropped",
    StoreFailedEntry: "store",
    CheckpointTakenEntry: "checkpoint taken",
    SnapshotTooLateEntry: "snapshot too late",
    BalanceFailedEntry: "balance failed",
    RegionFailedEntry: "operator failed",
    MemoryRefusedEntry: "memory refused",
    ControllerErrorEntry: "controller",
    ControllerFailedEntry: "controller failed",
    PeerRefusedEntry: "refused",
    StrangerRefusedEntry: "refused",
    EntriesLeftOutEntry: "entries left out",
    EventLogLostEntry: "event log lost",
    WarningEntry: "warning",
}
"""By kind of entry, how what went wrong is called."""
REASONS = ("why", "reason", "error", "text")
STRANGER = name_of(StrangerRefusedEntry)


def reason_of(entry: EventEntry) -> str:
    """Why, in an entry's own words."""
    told = (getattr(entry, each, "") for each in REASONS)
    return next((str(text)[:TEXT] for text in told if text), "")


@dataclass(slots=True)
class RegionKnown:
    """What was last told of a region."""

    feeders: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By partition and attempt, those that came and have not left; others may be there if the log began later."""
    fed_from: float = float("-inf")
    """When the first feeder came; rests of up to BEFORE_S, as between batches, do not count."""
    fed_until: float = float("-inf")
    """When the last one left."""
    weights: dict[int, float] | None = None

    @property
    def rests(self) -> bool:
        """Whether it had feeders, and has none now."""
        return not self.feeders and self.fed_until > float("-inf")


class Actions:
    """All of them, the latest last; and what went wrong."""

    def __init__(self) -> None:
        self.all: deque[Action] = deque(maxlen=KEPT)
        self.troubles: deque[dict[str, object]] = deque(maxlen=KEPT)
        self.moved = self.refused = self.undone = self.lost = self.restarts = 0
        self._known: dict[str, RegionKnown] = {}
        """By region, the one told of least recently first."""

    def apply(self, entry: EventEntry) -> None:
        """Take in an entry."""
        match entry:
            case MoveEntry():
                self._move(entry)
            case MovedEntry():
                self._moved(entry)
            case MoveRefusedEntry():
                self.refused += 1
                self._note(entry, "refused", entry.units, _route(entry))
            case WeightsRefusedEntry():
                self.refused += 1
                self._note(entry, "refused")
            case MoveUndoneEntry():
                self.undone += len(entry.units)
                self._note(entry, "undone", entry.units, _route(entry))
            case QosEntry():
                self._note(entry, "qos")
            case WeightsEntry():
                self._new_weights(entry)
            case SampleEntry():
                self._first_weights(entry)
            case FeederJoinedEntry():
                self._feeder_joined(entry)
            case FeederLeftEntry():
                self._feeder_left(entry)
            case WorkerJoinedEntry() if entry.incarnation > 1:
                self.restarts += 1
                self._trouble(entry, "restarted")
            case EntriesLeftOutEntry():
                self._trouble(entry, f"{entry.kind[:TEXT]} {FAILURES[EntriesLeftOutEntry]}")
            case _ if type(entry) in FAILURES:
                self.lost += isinstance(entry, WorkerLostEntry)
                self._trouble(entry, FAILURES[type(entry)])

    def latest(self) -> Action | None:
        """The latest that changed where rows go."""
        return next((each for each in reversed(self.all) if each.kind in CHANGES), None)

    def last_of(self, region: str, kinds: Sequence[str]) -> Action | None:
        """The latest of some kinds for a region."""
        return next((each for each in reversed(self.all) if each.region == region and each.kind in kinds), None)

    def begins(self, now: float) -> bool:
        """Whether a region is fed for less time than figures of now are about."""
        fed = (known for known in self._known.values() if known.feeders or now - known.fed_until < BEFORE_S)
        return any(now - known.fed_from < RECENT_S + LAG_S for known in fed)

    def rest(self, time: float) -> None:
        """The cluster stops: no region is fed any more."""
        for action in self.all:
            action.fed_until = min(action.fed_until, time)

    def settle(self, history: Chronicle) -> None:
        """A step was added to the history."""
        for action in self.all:
            action.settle(history)

    def _told(self, region: str) -> RegionKnown:
        """What is known of a region that is told of now."""
        known = self._known[region] = self._known.pop(region, RegionKnown())
        if len(self._known) > KEPT_REGIONS:
            del self._known[next(iter(self._known))]
        return known

    def _feeder_joined(self, entry: FeederJoinedEntry) -> None:
        """Rows come to a region, maybe again: what was done for it of late can be measured."""
        region, task, time = entry.region, (entry.partition, entry.attempt), entry.at
        known = self._told(region)
        if not known.feeders and time - known.fed_until > BEFORE_S:
            known.fed_from = time
        known.feeders[task] += 1
        if len(known.feeders) > MOST_FEEDERS:
            del known.feeders[next(iter(known.feeders))]
        for action in self.all:
            if action.region == region and time <= action.until + LAG_S + AFTER_S:
                action.fed_until = float("inf")

    def _feeder_left(self, entry: FeederLeftEntry) -> None:
        """One that was not seen to come says nothing of the others: there may be more of that kind."""
        region, task, time = entry.region, (entry.partition, entry.attempt), entry.at
        known = self._told(region)
        if task not in known.feeders:
            return
        known.feeders[task] -= 1
        if not known.feeders[task]:
            del known.feeders[task]
        if not known.feeders:
            known.fed_until = time
            for action in self.all:
                if action.region == region:
                    action.fed_until = min(action.fed_until, time)

    def _find(self, kind: str, region: str, time: float) -> Action | None:
        for action in reversed(self.all):
            if action.kind == kind and action.region == region:
                return action if time - action.until <= SAME_S else None
        return None

    def _move(self, entry: MoveEntry) -> None:
        action = self._find("move", entry.region, entry.at)
        if action is None:
            action = self._note(entry, "move")
        route = entry.source, entry.target
        action.routes[route] = action.routes.get(route, 0) + len(entry.units)
        action.units += len(entry.units)
        self._goes_on(action, entry.at)

    def _moved(self, entry: MovedEntry) -> None:
        self.moved += len(entry.units)
        action = self._find("move", entry.region, entry.at)
        if action is not None:
            action.done += len(entry.units)
            action.bytes += whole(entry.bytes)
            action.seconds = max(action.seconds, entry.seconds)
            self._goes_on(action, entry.at)

    def _goes_on(self, action: Action, time: float) -> None:
        """An action lasts until now, at least."""
        action.until, action.brought = time, None
        known = self._known.get(action.region, RegionKnown())
        action.fed_until = time if known.rests else float("inf")

    def _new_weights(self, entry: WeightsEntry) -> None:
        region, weights = entry.region, {worker: float(weight) for worker, weight in entry.weights.items()}
        known = self._told(region)
        before, least = known.weights, NOTEWORTHY * (sum(weights.values()) or 1.0)
        if before is None or before.keys() != weights.keys() or entry.reason == MEASURED:
            known.weights = weights
            return
        if all(abs(weights[worker] - before[worker]) <= least for worker in weights):
            return
        known.weights = weights
        action = self._find("weights", region, entry.at)
        if action is None or action.weights.keys() != weights.keys():
            action = self._note(entry, "weights")
            action.weights = before
        changed = {worker for worker, weight in weights.items() if abs(weight - before[worker]) > least}
        action.changes = {each: (action.weights[each], weights[each]) for each in changed | action.changes.keys()}
        action.why = reason_of(entry)
        self._goes_on(action, entry.at)

    def _first_weights(self, entry: SampleEntry) -> None:
        """With what weights a region began, which no entry of their own tells."""
        known = self._told(entry.region)
        if known.weights is None:
            known.weights = {told.worker: float(told.weight) for told in entry.connections}

    def _note(
        self, entry: RegionEntry, kind: str, units: Sequence[int] = (), route: tuple[int, int] | None = None
    ) -> Action:
        known, time = self._known.get(entry.region, RegionKnown()), entry.at
        action = Action(time, kind, entry.region, reason_of(entry), time, len(units), fed_from=known.fed_from)
        self._goes_on(action, time)
        if route is not None:
            action.routes[route] = len(units)
        self.all.append(action)
        return action

    def _trouble(self, entry: EventEntry, what: str) -> None:
        told, event = as_dict(entry), entry.event
        found = {"time": round(entry.at, 3), "event": event, "what": what, "why": reason_of(entry)}
        found |= {name: told[name] for name in ("worker", "region", "epoch", "count") if name in told}
        if STRANGER in (event, told.get("kind")):  # in one place, or a crowd leaves none for others
            for before in [each for each in self.troubles if (each["event"], each["what"]) == (event, what)]:
                found["count"] = whole(before.get("count", 1)) + whole(told.get("count", 1))
                self.troubles.remove(before)
        self.troubles.append(found)


def _route(entry: MoveRefusedEntry | MoveUndoneEntry) -> tuple[int, int] | None:
    """From which worker units were to go to which, if that is told."""
    return None if entry.source is UNSET or entry.target is UNSET else (entry.source, entry.target)
