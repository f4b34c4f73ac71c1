"""Oracle*: shares by known capacities (ordered-regions §6), the best that weights can do."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from evenflow.errors import InvalidArgument
from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.model.given import number_of, whole_of
from evenflow.policy.ordered.allocation import proportional
from evenflow.policy.ordered.balance import Balance

Capacities = Mapping[int, float] | Sequence[float]
CapacitySchedule = Sequence[tuple[float, Capacities]]


def by_worker(what: str, numbers: Capacities) -> dict[int, float]:
    """Numbers by worker id, from a mapping or from a list for workers 0, 1, 2, ...; none negative, not all 0."""
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Iterable):
        raise InvalidArgument(f"{what} are {numbers!r:.100}: give numbers, as a list or by worker id")
    found = {}
    for worker, number in numbers.items() if isinstance(numbers, Mapping) else enumerate(numbers):
        if not whole_of(worker) >= 0:
            raise InvalidArgument(f"{what} name worker {worker!r:.100}: ids are whole numbers and start at 0")
        if not 0 <= number_of(number) < inf:
            raise InvalidArgument(f"{what} of worker {worker} is {number!r:.100}: give a number that is at least 0")
        found[whole_of(worker)] = float(number)
    if not any(found.values()):
        raise InvalidArgument(f"{what} are all 0: at least one worker must get something")
    return found


def check_ids(what: str, found: Mapping[int, float], workers: int) -> None:
    """Refuse numbers of workers that there are not."""
    if max(found) >= workers:
        raise InvalidArgument(f"{what} name worker {max(found)}: there are workers 0 to {workers - 1}")


@dataclass
class Oracle(Balance):
    """w_j in proportion to capacity c_j, rounded so that max_j w_j / c_j is least; the splitter waits in turn.

    `capacities` maps worker ids to relative speeds, or lists those of workers 0, 1, 2, ... For capacities that change,
    `schedule` is a list of (second, capacities): each holds from its second on. Second 0 is the first sample with a
    feeder; before it, the first entry holds. Like the paper's, this oracle changes the weights at the second it is
    told: rows already sent were shared by the old capacities. Live workers that are not named get the least capacity.
    """

    name: ClassVar[str] = "oracle"

    capacities: Capacities | None = None
    schedule: CapacitySchedule = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if (self.capacities is None) == (not self.schedule):
            raise InvalidArgument("give Oracle either capacities or a schedule of (second, capacities)")
        steps = [(0.0, self.capacities)] if self.capacities is not None else self._scheduled()
        self._seconds = [float(second) for second, _ in steps]
        self._steps = [by_worker("capacities", capacities) for _, capacities in steps]
        self._zero: float | None = None

    def _scheduled(self) -> list[tuple[float, Capacities]]:
        """The entries of the schedule by their seconds."""
        given = self.schedule
        if not isinstance(given, list | tuple) or not all(isinstance(e, list | tuple) and len(e) == 2 for e in given):
            raise InvalidArgument(f"schedule is {given!r:.100}: give a list of (second, capacities)")
        for second, _ in given:
            if not 0 <= number_of(second) < inf:
                raise InvalidArgument(f"the schedule has second {second!r}: seconds count from 0, the first feeder's")
        return sorted(((second, capacities) for second, capacities in given), key=lambda entry: entry[0])

    def check_workers(self, workers: int) -> None:
        """Refuse capacities of workers that the cluster does not have."""
        for step in self._steps:
            check_ids("capacities", step, workers)

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """The shares for this second, if they are not in force already."""
        if self._zero is None and snapshot.feeders:
            self._zero = snapshot.time
        second = 0.0 if self._zero is None else snapshot.time - self._zero
        capacities = self._steps[max(0, bisect_right(self._seconds, second) - 1)]
        present = {connection.worker: connection.weight for connection in snapshot.connections}
        if not present:
            return []
        shares = [capacities.get(worker, min(capacities.values())) for worker in present]
        weights = proportional(shares if any(shares) else [1.0] * len(shares), RESOLUTION)
        new = dict(zip(present, weights, strict=True))
        return [] if new == present else [SetWeights(snapshot.region, new, reason=f"capacities at {second:.1f} s")]
