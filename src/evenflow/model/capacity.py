"""Emulated capacity: how long a row takes on each worker, and when that changes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from typing import Any

from evenflow.errors import InvalidArgument
from evenflow.model.given import is_number, number_of, whole_of

Slowdown = float | Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Emulate:
    """Workers of different speed on one machine: each sleeps as long as its rows would take a slower machine.

    A row costs `cost_us` microseconds times the worker's slowdown. `slowdown` maps a worker id to a factor, or to a
    schedule of (second, factor) steps; second 0 is when the first feeder joins the cluster. Workers not named run at 1.

    Of graphs, `costs` gives operators another cost, by name. `link_ms` and `link_rows_s` are the delay, and the most
    rows a second, from one worker to another, by pairs (from, to); a pair that is not named has no delay and no limit.
    `arrival` names a column of all sources: the second at which a row arrives, from the first row of its task on.
    """

    cost_us: float
    slowdown: Mapping[int, Slowdown] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    link_ms: Mapping[tuple[int, int], float] = field(default_factory=dict)
    link_rows_s: Mapping[tuple[int, int], float] = field(default_factory=dict)
    arrival: str = ""

    def __post_init__(self) -> None:
        for what in ("slowdown", "costs", "link_ms", "link_rows_s"):
            if not isinstance(getattr(self, what), Mapping):
                raise InvalidArgument(f"{what} is {getattr(self, what)!r:.100}: give a dict")
        if not isinstance(self.arrival, str):
            raise InvalidArgument(f"arrival is {self.arrival!r:.100}: give the name of a column")
        if not 0 < number_of(self.cost_us) < inf:
            raise InvalidArgument(f"cost_us is {self.cost_us!r}: give the microseconds a row costs, above 0")
        self._check_graphs()
        for worker, given in self.slowdown.items():
            self._check_slowdown(worker, given)

    @staticmethod
    def _check_slowdown(worker: Any, given: Any) -> None:
        if not whole_of(worker) >= 0:
            raise InvalidArgument(f"slowdown names worker {worker!r:.100}: ids are whole numbers from 0")
        steps = given if isinstance(given, list | tuple) else [(0, given)]
        pairs = all(isinstance(step, list | tuple) and len(step) == 2 for step in steps)
        if not pairs or not all(is_number(one) for step in steps for one in step):
            raise InvalidArgument(
                f"slowdown of worker {worker} is {given!r:.100}: give a factor, or a list of (second, factor) steps"
            )
        for second, factor in steps:
            if not (0 < factor < inf and 0 <= second < inf):
                raise InvalidArgument(
                    f"slowdown of worker {worker} has the step ({float(second)}, {float(factor)}): "
                    "seconds start at 0 and factors are above 0"
                )

    def _check_graphs(self) -> None:
        for name, cost in self.costs.items():
            if not isinstance(name, str) or not 0 < number_of(cost) < inf:
                raise InvalidArgument(
                    f"costs has {cost!r} for {name!r}: give the microseconds of a row, above 0, by names of operators"
                )
        for what, least in (("link_ms", 0.0), ("link_rows_s", 1e-9)):
            for pair, value in getattr(self, what).items():
                ids = [whole_of(worker) for worker in pair] if isinstance(pair, tuple) else []
                if len(ids) != 2 or len(set(ids)) != 2 or not all(worker >= 0 for worker in ids):
                    raise InvalidArgument(f"{what} has {pair!r}: give pairs of two different workers, (from, to)")
                if not least <= number_of(value) < inf:
                    raise InvalidArgument(f"{what} of {pair} is {value!r}: give a number of at least {least:g}")

    @staticmethod
    def load(factor: float, since: float = 0.0, until: float = 0.0) -> list[tuple[float, float]]:
        """The schedule of a load that begins at second `since` and ends at second `until`; 0: it does not end."""
        steps = [(0.0, 1.0), (since, factor)] if since else [(0.0, factor)]
        return [*steps, (until, 1.0)] if until else steps

    @staticmethod
    def rotating(workers: int, factor: float, seconds: float, until: float) -> dict[int, list[tuple[float, float]]]:
        """The schedule of each worker when one at a time is slowed by `factor`, in turn, for `seconds` each.

        No turn begins at or after second `until`.
        """
        steps: list[list[tuple[float, float]]] = [[] for _ in range(workers)]
        for turn in range(ceil(until / seconds)):
            steps[turn % workers] += [(turn * seconds, factor), ((turn + 1) * seconds, 1.0)]
        return dict(enumerate(steps))

    def factor(self, worker: int, second: float) -> float:
        """The worker's slowdown at `second`."""
        steps = self._steps(worker)
        at = bisect_right([start for start, _ in steps], second) - 1
        return steps[at][1] if at >= 0 else 1.0

    def row_s(self, worker: int, second: float, operator: str = "") -> float:
        """Seconds a row costs on `worker` at `second`, at an operator of a graph if it is named."""
        return self.costs.get(operator, self.cost_us) * 1e-6 * self.factor(worker, second)

    def link_delay_s(self, pair: tuple[int, int]) -> float:
        """Seconds that rows take from one worker to another."""
        return self.link_ms.get(pair, 0.0) * 1e-3

    def link_rows(self, pair: tuple[int, int]) -> float:
        """Rows a second that can go from one worker to another, at most."""
        return self.link_rows_s.get(pair, inf)

    def rows(self, workers: int, start: float, end: float) -> float:
        """The ideal: rows that `workers` workers can serve between two seconds if none of them is ever idle."""
        edges = sorted({start, end, *(s for w in range(workers) for s, _ in self._steps(w) if start < s < end)})
        return sum(
            (later - earlier) / self.row_s(worker, earlier)
            for earlier, later in pairwise(edges)
            for worker in range(workers)
        )

    def _steps(self, worker: int) -> list[tuple[float, float]]:
        given = self.slowdown.get(worker, 1.0)
        steps = given if isinstance(given, Sequence) else [(0.0, given)]
        return sorted((float(second), float(factor)) for second, factor in steps)
