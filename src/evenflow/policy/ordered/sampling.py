"""What connections did between two samples, and workers that join or leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from evenflow.model import RESOLUTION, Connection, SetWeights, Snapshot
from evenflow.policy.ordered.allocation import proportional

SHORT = 0.25
"""A sample shorter than this share of the usual one is added to the next."""
IDLE = 0.01
"""A splitter blocked for less than this share of the time is not held up: there is nothing to balance (§3.1)."""

Key = tuple[int, int]
"""A worker and its incarnation."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One connection since the last sample that was taken."""

    seconds: float
    weight: int
    rate: float
    """The blocking rate: blocking time over feeder-seconds, from 0 to 1."""
    speed: float
    """Rows done a second, of all feeders."""
    frames: int
    """Frames done; rows, where frames are not counted."""
    under_way: float
    """Frames sent and not answered, in the mean over the time."""
    row_s: float
    """Seconds that the worker was at a row; 0 where that is not told, or none was done."""


@dataclass
class Sampler:
    """Differences of the cumulative counters of snapshots, over `every` samples each."""

    every: int = 1
    _first: Snapshot | None = None
    """Where the samples that make the next decision begin."""
    _last: Snapshot | None = None
    """Where the newest sample began."""
    _usual_s: float = 0.0
    _samples: int = 0

    def rebase(self, snapshot: Snapshot) -> None:
        """Let the next sample begin at this snapshot."""
        self._first = self._last = snapshot
        self._samples = 0

    def take(
        self, snapshot: Snapshot, at_once: Callable[[Mapping[Key, Measured]], bool] = lambda newest: False
    ) -> dict[Key, Measured] | None:
        """What each connection did, once `every` samples are complete; None before, or if nothing was fed.

        Where `at_once` says so of the newest sample, it is all that counts, and is not waited with.
        """
        assert self._first is not None
        assert self._last is not None
        fed = snapshot.feeding_s - self._last.feeding_s
        if fed <= 0.0 or fed < SHORT * self._usual_s:
            return None
        self._usual_s = fed if not self._usual_s else self._usual_s + (fed - self._usual_s) / 4
        found = _between(self._last, snapshot)
        self._last = snapshot
        self._samples += 1
        if not at_once(found):
            if self._samples < self.every:
                return None
            found = _between(self._first, snapshot)
        self.rebase(snapshot)
        return found


def _between(first: Snapshot, last: Snapshot) -> dict[Key, Measured]:
    """What each connection did from one snapshot to another that has the same connections."""
    elapsed = last.feeding_s - first.feeding_s
    seconds = elapsed / max(1, last.feeders, first.feeders)
    earlier = {key_of(connection): connection for connection in first.connections}
    found = {}
    for connection in last.connections:
        before = earlier[key_of(connection)]
        rows = connection.rows_done - before.rows_done
        found[key_of(connection)] = Measured(
            seconds=seconds,
            weight=connection.weight,
            rate=min(1.0, max(0.0, connection.blocked_s - before.blocked_s) / elapsed),
            speed=max(0, rows) / seconds,
            frames=max(0, (connection.frames_done - before.frames_done) or rows),
            under_way=max(0.0, connection.under_way_s - before.under_way_s) / seconds,
            row_s=max(0.0, connection.busy_s - before.busy_s) / rows if rows > 0 else 0.0,
        )
    return found


def key_of(connection: Connection) -> Key:
    """The worker and incarnation of a connection."""
    return connection.worker, connection.incarnation


class Weighted(Protocol):
    """What a balance knows of the connection to one incarnation of a worker: its weight, at least."""

    weight: int


Known = TypeVar("Known", bound=Weighted)


def meet(
    links: Mapping[Key, Known], snapshot: Snapshot, new: Callable[[], Known]
) -> tuple[dict[Key, Known], list[SetWeights]]:
    """The links when workers joined or left, and the weights to set, if those in force are others.

    Who joins has a `new` link and an even share, who leaves is forgotten, the rest keep their links and proportions.
    """
    weights = _weights_met({key: link.weight for key, link in links.items()}, snapshot)
    met = {key_of(connection): links.get(key_of(connection)) or new() for connection in snapshot.connections}
    for link, weight in zip(met.values(), weights, strict=True):
        link.weight = weight
    here = {connection.worker: connection.weight for connection in snapshot.connections}
    shares = dict(zip(here, weights, strict=True))
    return met, [] if shares == here else [SetWeights(snapshot.region, shares, "workers joined or left")]


def _weights_met(before: Mapping[Key, int], snapshot: Snapshot) -> list[int]:
    """Weights when workers joined or left; the first weights in force are kept if they sum to RESOLUTION."""
    here = [connection.weight for connection in snapshot.connections]
    if not before and sum(here) == RESOLUTION:
        return here
    keys = [key_of(connection) for connection in snapshot.connections]
    newcomer = RESOLUTION / len(keys)
    known = sum(before.get(key, 0) for key in keys)
    scale = (RESOLUTION - newcomer * sum(key not in before for key in keys)) / known if known else 0.0
    shares = [before[key] * scale if key in before else newcomer for key in keys]
    return proportional(shares if any(shares) else [1.0] * len(shares), RESOLUTION)


def rows_done(measured: Mapping[Key, Measured]) -> float:
    """Rows done a second by all workers."""
    return sum(m.speed for m in measured.values())


def fullness(measured: Mapping[Key, Measured]) -> dict[Key, float]:
    """Frames under way of each connection, as a share of the fullest one's; blocking, where they are not told."""
    told = any(m.under_way for m in measured.values())
    fill = {key: m.under_way if told else m.rate for key, m in measured.items()}
    fullest = max(fill.values()) or 1.0
    return {key: each / fullest for key, each in fill.items()}


def blocking_reason(measured: Mapping[Key, Measured]) -> str:
    """For the event log: how much the splitter was blocked, and on whom most."""
    (worker, _), most = max(measured.items(), key=lambda item: item[1].rate)
    return f"blocked {sum(m.rate for m in measured.values()):.2f} of the time, {most.rate:.2f} on worker {worker}"


def clusters_by_worker(keys: Mapping[Key, object], groups: Sequence[Sequence[int]]) -> dict[str, int]:
    """The number of each worker's cluster, for the event log."""
    numbers = {place: number for number, group in enumerate(groups) for place in group}
    return {str(worker): numbers[place] for place, (worker, _) in enumerate(keys)}
