"""Carries out targets of latency: workers get weights by which to serve regions, feeders shares of rows to drop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from evenflow.control.events import Instruction, Peer, QosAskedEvent, SendInstruction
from evenflow.control.regions.region import Region
from evenflow.control.workers import WorkerLife
from evenflow.model import Performance
from evenflow.model.entries import QosEntry
from evenflow.model.messages import ServiceWeights, ShedRows
from evenflow.model.qos import Qos, qos_of
from evenflow.policy.keyed.sharing import Sharing
from evenflow.policy.keyed.targets import ROUND_S, Adjusted, Targets

BUSY_S = 3 * ROUND_S
"""For so many seconds after rows were last reported, a region counts as busy."""
IDLE_S = 60.0
"""A region without rows for so many seconds loses its extra weight and drops no rows: its earlier needs say nothing of
its next rows."""

Serve = Callable[[float, str, Callable[[], Iterable[Instruction]]], Iterable[Instruction]]
"""Serves the region of this name at this time (`boundary`)."""
IDLE = Adjusted(1.0, 0.0, 0.0, "no rows")


class QosKeeper:
    """Keeps the targets of latency in `qos`: raises weights of regions, and has feeders drop rows where allowed."""

    def __init__(self, qos: Mapping[str, float | Qos], sharing: Sharing) -> None:
        self._qos, self._sharing = dict(qos), sharing
        self._targets = Targets()
        self._rows: dict[str, tuple[int, float]] = {}
        """By region, the rows that have come or left, and when that was last known to grow."""

    def tick(
        self,
        time: float,
        regions: Mapping[str, Region],
        workers: Mapping[int, WorkerLife],
        serve: Serve,
    ) -> Iterator[Instruction]:
        """Check every target and adjust weights and shedding; `serve` keeps an error of one region from the others."""
        if not any(isinstance(given, Qos) for given in self._qos.values()):
            return
        quiet: dict[str, float] = {}
        for name, region in list(regions.items()):
            yield from serve(time, name, partial(self._look, time, region, workers, quiet))
        busy = [name for name, seconds in quiet.items() if seconds < BUSY_S]
        for name in busy:
            yield from serve(time, name, partial(self._decide, time, regions[name], workers, len(busy) > 1))

    def _look(
        self,
        time: float,
        region: Region,
        workers: Mapping[int, WorkerLife],
        quiet: dict[str, float],
    ) -> Iterator[Instruction]:
        """Add to `quiet` for how long a region has had no rows; reset a region that is idle."""
        name = region.name
        seconds = quiet[name] = self._quiet_s(time, name, region.performance.total)
        if seconds >= IDLE_S and (name in self._sharing.boosts or region.shed):
            self._targets.forget(name)
            yield from self._adjust(time, region, qos_of(self._qos, name), IDLE, workers)

    def _decide(
        self, time: float, region: Region, workers: Mapping[int, WorkerLife], shared: bool
    ) -> Iterator[Instruction]:
        qos = qos_of(self._qos, region.name)
        adjusted = self._targets.decide(time, region.name, qos, region.performance.total, shared)
        if adjusted is not None:
            yield from self._adjust(time, region, qos, adjusted, workers)

    def set_weight(
        self, event: QosAskedEvent, region: Region, workers: Mapping[int, WorkerLife]
    ) -> Iterator[Instruction]:
        """The user gives a region another weight; a target that it has stays, and so does what it needs for that."""
        name, qos = region.name, qos_of(self._qos, region.name)
        self._sharing.asked[name] = event.weight
        for worker in workers.values():
            yield SendInstruction(worker.peer, self._weights())
        weight = self._sharing.weight(name)
        yield QosEntry(
            time=event.time, region=name, why="asked for", target_ms=qos.latency_ms, weight=weight, shed=region.shed
        )

    def joined(self, peer: Peer) -> Iterator[Instruction]:
        """A worker has started: tell it the weights that the others have."""
        if self._sharing.boosts or self._sharing.asked:
            yield SendInstruction(peer, self._weights())

    def forget(self, region: str) -> None:
        """A region is closed."""
        self._targets.forget(region)
        self._rows.pop(region, None)

    def _quiet_s(self, time: float, region: str, told: Performance) -> float:
        """For how long no row of a region has come or left."""
        rows = told.rows_in + sum(told.latencies.rows.values())
        known, since = self._rows.get(region, (0, time - BUSY_S))
        if rows != known:
            since = time
        self._rows[region] = rows, since
        return time - since

    def _adjust(
        self,
        time: float,
        region: Region,
        qos: Qos,
        adjusted: Adjusted,
        workers: Mapping[int, WorkerLife],
    ) -> Iterator[Instruction]:
        boosts = self._sharing.boosts
        if adjusted.boost != boosts.get(region.name, 1.0):
            boosts[region.name] = adjusted.boost
            if adjusted.boost == 1.0:
                del boosts[region.name]
            for life in workers.values():
                yield SendInstruction(life.peer, self._weights())
        if adjusted.shed != region.shed:
            region.shed = adjusted.shed
            for peer in sorted(region.feeders):
                yield SendInstruction(peer, ShedRows(adjusted.shed))
        yield QosEntry(
            time=time,
            region=region.name,
            why=adjusted.why,
            p99_ms=adjusted.p99_ms,
            target_ms=qos.latency_ms,
            weight=self._sharing.weight(region.name),
            shed=adjusted.shed,
        )

    def _weights(self) -> ServiceWeights:
        changed = sorted({*self._sharing.boosts, *self._sharing.asked})
        return ServiceWeights({region: self._sharing.weight(region) for region in changed})
