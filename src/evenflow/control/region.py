"""What the controller keeps of one region: its balance, its weights, its counters pooled over feeders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model import Connection, SetWeights, Snapshot
from evenflow.policy.balance import Balance, even_weights

COUNTERS = ("blocked_s", "rows_sent", "frames_sent", "rows_done", "frames_done", "busy_s")


@dataclass
class Region:
    """One ordered region. Its model outlives the feeders, which come and go with micro-batches."""

    name: str
    operator: str
    balance: Balance
    feeders: set[int] = field(default_factory=set)
    weights: dict[int, int] = field(default_factory=dict)
    incarnations: dict[int, int] = field(default_factory=dict)
    totals: dict[int, dict[str, float]] = field(default_factory=dict)
    feeding_s: float = 0.0
    rows_out: int = 0
    resent: int = 0
    rerouted: int = 0
    costs: dict[int, float] = field(default_factory=dict)
    """Service time a row on each worker, as last reported: what the next feeder sizes its first frames by."""
    overhead: float | None = None
    """What a call costs beside its rows, in rows, as last reported."""
    _decided_at: float = 0.0

    def set_workers(self, incarnations: Mapping[int, int]) -> None:
        """Take the live workers: newcomers and restarted ones start with no history, those that left lose theirs."""
        for worker in list(self.totals):
            if incarnations.get(worker) != self.incarnations.get(worker):
                del self.totals[worker]
                self.costs.pop(worker, None)
        self.incarnations = dict(sorted(incarnations.items()))
        for worker in self.incarnations:
            self.totals.setdefault(worker, dict.fromkeys(COUNTERS, 0.0))
        known = {worker: weight for worker, weight in self.weights.items() if worker in self.incarnations}
        if set(known) != set(self.incarnations) or not any(known.values()):
            known = even_weights(list(self.incarnations)) if self.incarnations else {}
        self.weights = known

    def add(self, feeding_s: float, rows_out: int, connections: Mapping[int, Mapping[str, float]]) -> None:
        """Pool a feeder's report; what it says of workers that are gone is dropped."""
        self.feeding_s += feeding_s
        self.rows_out += rows_out
        for worker, counts in connections.items():
            totals = self.totals.get(worker)
            current = self.incarnations.get(worker)
            if totals is not None and counts.get("incarnation", current) == current:
                for name in COUNTERS:
                    totals[name] += counts.get(name, 0)
                if counts.get("rows_done", 0) > 0:
                    calls = counts.get("frames_done", 0) * (self.overhead or 0.0)
                    self.costs[worker] = counts.get("busy_s", 0.0) / (counts["rows_done"] + calls)

    def snapshot(self, time: float) -> Snapshot:
        """The region now."""
        connections = tuple(
            Connection(
                worker=worker,
                incarnation=incarnation,
                weight=self.weights.get(worker, 0),
                blocked_s=self.totals[worker]["blocked_s"],
                rows_sent=int(self.totals[worker]["rows_sent"]),
                frames_sent=int(self.totals[worker]["frames_sent"]),
                rows_done=int(self.totals[worker]["rows_done"]),
                frames_done=int(self.totals[worker]["frames_done"]),
                busy_s=self.totals[worker]["busy_s"],
            )
            for worker, incarnation in self.incarnations.items()
        )
        return Snapshot(time, self.name, len(self.feeders), self.feeding_s, connections, self.rows_out)

    @property
    def fresh(self) -> bool:
        """Whether anything was fed since the balance was last asked."""
        return self.feeding_s != self._decided_at

    def decide(self, time: float) -> list[SetWeights]:
        """Ask the balance."""
        self._decided_at = self.feeding_s
        return self.balance.decide(self.snapshot(time)) if self.incarnations else []
