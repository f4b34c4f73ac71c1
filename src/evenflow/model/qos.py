"""What the rows of an operator are to get of workers that it shares with others (flux §8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.model.graphs.weights import entry_of


@dataclass(frozen=True, slots=True)
class Qos:
    """Quality of service for one name in `Cluster(qos={name: Qos(...)})`; a plain number is a weight.

    - `latency_ms`: 99 of 100 rows are to take no longer, from their arrival at the feeder until their results leave
      it. While that is missed the operator is served before others, as far as that helps.
    - `weight`: what the operator gets of a worker that has rows of several: twice the weight, twice the time.
    - `shed`: a column, numeric or boolean, with the value of each row. It says that rows may be dropped while the
      target is missed and a larger share of the workers does not help: those of the lowest value first, null below all,
      NaN above. Dropped rows are counted. Without it no row is ever dropped.
    """

    latency_ms: float | None = None
    weight: float = 1.0
    shed: str | None = None

    def __post_init__(self) -> None:
        if not _positive(self.weight):
            raise InvalidArgument(f"Qos(weight={self.weight!r}): give a weight above 0; 1 is that of all others")
        if self.latency_ms is not None and not _positive(self.latency_ms):
            raise InvalidArgument(f"Qos(latency_ms={self.latency_ms!r}): give milliseconds above 0, or leave it out")
        object.__setattr__(self, "weight", number_of(self.weight))
        if self.latency_ms is not None:
            object.__setattr__(self, "latency_ms", number_of(self.latency_ms))
        if self.shed is not None and (not isinstance(self.shed, str) or not self.shed):
            raise InvalidArgument(f"Qos(shed={self.shed!r}): give the name of the column with the value of each row")
        if self.shed is not None and self.latency_ms is None:
            raise InvalidArgument(f"Qos(shed={self.shed!r}) has no target: give latency_ms, which rows are dropped for")


def qos_of(given: Mapping[str, float | Qos], region: str) -> Qos:
    """What a region is to get; further uses of a name, name-2, what the name is to get."""
    found = entry_of(given, region)
    if found is None:
        return Qos()
    return found if isinstance(found, Qos) else Qos(weight=found)


def weights_in(given: Mapping[str, float | Qos]) -> dict[str, float]:
    """The weights alone, by name."""
    return {name: each.weight if isinstance(each, Qos) else each for name, each in given.items()}


def _positive(number: object) -> bool:
    return 0 < number_of(number) < inf
