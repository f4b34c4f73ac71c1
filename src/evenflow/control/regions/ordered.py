"""An ordered region: its balance, its weights, and counters pooled over its feeders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from msgspec import UNSET

from evenflow.control.events import FeederJoinedEvent, Instruction, Peer, PeerLeftEvent, SendInstruction
from evenflow.control.regions.region import Region
from evenflow.control.workers import WorkerLife, listed
from evenflow.model import RESOLUTION, Connection, SetWeights, Snapshot
from evenflow.model.entries import (
    BalanceFailedEntry,
    ConnectionPart,
    FeederRefusedEntry,
    PerformanceEntry,
    RegionOpenedEntry,
    SampleEntry,
    WeightsEntry,
    WeightsRefusedEntry,
)
from evenflow.model.messages import Directory, EvaluationLost, FeederMessage, FeederRefused, FeederReport, Weights
from evenflow.policy.ordered.balance import Balance, even_weights

COUNTERS = ("blocked_s", "rows_sent", "frames_sent", "rows_done", "frames_done", "busy_s", "under_way_s")


class OrderedRegion(Region):
    """One ordered region: its workers keep no state, and its weights outlive the feeders."""

    def __init__(self, name: str, operator: str, balance: Balance, weight: float | None = None) -> None:
        super().__init__(name, operator)
        self.balance = balance
        self.weights: dict[int, int] = {}
        self.workers: dict[int, WorkerLife] = {}
        """The live workers."""
        self.totals: dict[int, Connection] = {}
        """By worker, the counters of its present incarnation; weights are only in `weights`."""
        self.feeding_s = 0.0
        self.rows_out = self.resent = self.rerouted = 0
        self.weight = weight
        """In the cluster's `qos`; None if it has none."""
        self._decided_at = 0.0

    @property
    def in_use(self) -> bool:
        return bool(self.feeders)

    def opened(self, time: float) -> RegionOpenedEntry:
        return RegionOpenedEntry(
            time=time,
            region=self.name,
            balance=self.balance.name,
            splitting=self.balance.splitting,
            weight=UNSET if self.weight is None else self.weight,
        )

    def close(self, time: float) -> Iterable[Instruction]:
        return self.note_rest(time)

    def note_rest(self, time: float) -> Iterator[PerformanceEntry]:
        return self.performance.note(time, final=True)

    def set_workers(
        self, time: float, workers: Mapping[int, WorkerLife], reasons: Mapping[int, str] | None = None
    ) -> Iterator[Instruction]:
        """Set the live workers: counters of new and restarted workers start at 0, counters of lost ones are dropped."""
        for worker, life in self.workers.items():
            if workers.get(worker) != life:
                del self.totals[worker]
                self.service.forget(worker)
                self.performance.forget(worker)
        self.workers = dict(workers)
        self.totals = {w: self.totals.get(w) or Connection(w, life.incarnation, 0) for w, life in workers.items()}
        known = {worker: weight for worker, weight in self.weights.items() if worker in self.workers}
        if set(known) != set(self.workers) or not any(known.values()):
            known = even_weights(list(self.workers)) if self.workers else {}
        self.weights = known
        yield from self._rebalance(time, tell=False)
        for peer in self.feeders:
            yield self._directory(peer)

    # -- feeders

    def join(self, feeder: FeederJoinedEvent) -> Iterator[Instruction]:
        """A feeder has joined: tell it the workers and their weights."""
        self.feeders.add(feeder.peer)
        yield self._directory(feeder.peer)

    def _directory(self, peer: Peer) -> SendInstruction:
        directory = Directory(
            workers=listed(self.workers),
            weights=dict(self.weights),
            costs=dict(self.service.row_s),
            overhead=self.service.overhead,
            shed=self.shed,
        )
        return SendInstruction(peer, directory)

    def hear(self, time: float, feeder: FeederJoinedEvent, message: FeederMessage) -> Iterable[Instruction]:
        """Add a feeder's report to the counters, but for the parts about lost workers."""
        if isinstance(message, FeederReport):
            self.feeding_s += message.feeding_s
            self.rows_out += message.rows_out
            self.resent += message.resent
            self.rerouted += message.rerouted
            for worker, counts in message.connections.items():
                life = self.workers.get(worker)
                if life is not None and counts.incarnation in (None, life.incarnation):
                    total = self.totals[worker]
                    sums = {name: getattr(total, name) + getattr(counts, name) for name in COUNTERS}
                    self.totals[worker] = replace(total, **sums)
                    self.service.add(worker, counts)
            self.service.learn(message.overhead)
            self.performance.add(feeder.partition, message, self.workers)
        return ()

    def leave(self, feeder: FeederJoinedEvent, event: PeerLeftEvent, ended: bool) -> Iterable[Instruction]:
        self.feeders.discard(feeder.peer)
        return ()

    # -- statistics and decisions

    def tick(self, time: float) -> Iterator[Instruction]:
        """Ask the balance, if rows were fed since it was last asked."""
        yield from self.performance.note(time)
        if self.feeding_s != self._decided_at:
            yield self._sample(time)
            yield from self._rebalance(time)

    def snapshot(self, time: float) -> Snapshot:
        connections = tuple(replace(total, weight=self.weights.get(w, 0)) for w, total in self.totals.items())
        return Snapshot(
            time=time,
            region=self.name,
            feeders=len(self.feeders),
            feeding_s=self.feeding_s,
            connections=connections,
            rows_out=self.rows_out,
            performance=self.performance.total,
        )

    def _sample(self, time: float) -> SampleEntry:
        snapshot = self.snapshot(time)
        return SampleEntry(
            time=time,
            region=self.name,
            feeders=snapshot.feeders,
            feeding_s=round(snapshot.feeding_s, 6),
            rows_out=snapshot.rows_out,
            resent=self.resent,
            rerouted=self.rerouted,
            connections=[
                ConnectionPart(
                    worker=c.worker,
                    weight=c.weight,
                    blocked_s=round(c.blocked_s, 6),
                    rows_sent=c.rows_sent,
                    rows_done=c.rows_done,
                    busy_s=round(c.busy_s, 6),
                    under_way_s=round(c.under_way_s, 6),
                )
                for c in snapshot.connections
            ],
        )

    def _rebalance(self, time: float, tell: bool = True) -> Iterator[Instruction]:
        """Ask the balance and set its weights; if it fails, only this round of this region is lost."""
        self._decided_at = self.feeding_s
        try:
            moves = list(self.balance.decide(self.snapshot(time))) if self.workers else []
        except Exception as error:
            yield balance_failed(time, self.name, self.balance.name, error)
        else:
            yield from self._carry_out(time, moves, tell)

    def _carry_out(self, time: float, moves: Iterable[SetWeights], tell: bool) -> Iterator[Instruction]:
        for move in moves:
            problem = self._problem(move)
            told = _plain(move.weights)
            if problem:
                yield WeightsRefusedEntry(time=time, region=self.name, weights=told, reason=move.reason, why=problem)
                continue
            self.weights = {int(worker): int(weight) for worker, weight in move.weights.items()}
            yield WeightsEntry(
                time=time,
                region=self.name,
                weights=told,
                reason=move.reason,
                balance=self.balance.name,
                detail=dict(move.detail),
            )
            for peer in self.feeders if tell else ():
                yield SendInstruction(peer, Weights(dict(self.weights)))

    def _problem(self, move: SetWeights) -> str:
        """Why weights are refused; empty if they are not."""
        if set(move.weights) != set(self.workers):
            return f"workers {sorted(move.weights)} are not the live ones, {sorted(self.workers)}"
        weights = move.weights.values()
        if any(weight < 0 or weight % 1 for weight in weights) or sum(weights) != RESOLUTION:
            given = " + ".join(map(str, weights))
            return f"weights must be whole numbers of at least 0 and sum to {RESOLUTION}, not {given}"
        return ""


def refused(feeder: FeederJoinedEvent, why: str, message: FeederRefused | None = None) -> Iterator[Instruction]:
    """Refuse a feeder, in a region of either kind."""
    yield FeederRefusedEntry(time=feeder.time, region=feeder.region, reason=why)
    yield SendInstruction(feeder.peer, message or EvaluationLost(why))


def balance_failed(time: float, region: str, balance: str, error: Exception) -> BalanceFailedEntry:
    """The entry for the event log when a balance has failed, in a region of either kind."""
    return BalanceFailedEntry(time=time, region=region, balance=balance, error=f"{type(error).__name__}: {error}")


def _plain(weights: Mapping[int, int]) -> dict[int, float]:
    """Weights for the event log; a balance may have made them with numpy."""
    return {int(worker): float(weight) if weight % 1 else int(weight) for worker, weight in weights.items()}
