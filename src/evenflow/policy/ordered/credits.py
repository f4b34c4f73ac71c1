"""Credits (ours; the default): a feeder sends a worker its next frame when the worker has completed one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.model.moves import MEASURED
from evenflow.model.routing import Splitting
from evenflow.policy.ordered.balance import Balance


@dataclass
class Credits(Balance):
    """Balances by completed frames, inside each feeder; weights only show the result.

    The merger sees every completion. A worker has two frames outstanding: one that it works on, and one to go on with;
    each completed frame earns it the next. Frames are sized for their worker, rows = aim / cost, so that a frame takes
    aim = max(10 ms, N ms) on each of N workers whatever its speed: a worker 100 times slower gets a hundredth of the
    rows, holds the merge back no longer than any other, and the reorder buffer stays at about two frames a worker. A
    frame that is five times later than usual, while results behind it wait, is sent to another worker as well.

    There is nothing to decide here: `decide` reports each worker's share of the rows done since it was last asked.
    """

    name: ClassVar[str] = "credits"
    splitting: ClassVar[Splitting] = "credits"

    def __post_init__(self) -> None:
        self._done: dict[tuple[int, int], int] = {}

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """The shares of the last period as weights, by largest remainder."""
        done = {(c.worker, c.incarnation): c.rows_done for c in snapshot.connections}
        news = {key[0]: rows - self._done.get(key, 0) for key, rows in done.items()}
        self._done = done
        total = sum(news.values())
        if not total:
            return []
        weights = {worker: rows * RESOLUTION // total for worker, rows in news.items()}
        rests = sorted(news, key=lambda worker: -(news[worker] * RESOLUTION % total))
        for worker in rests[: RESOLUTION - sum(weights.values())]:
            weights[worker] += 1
        if weights == {c.worker: c.weight for c in snapshot.connections}:
            return []
        return [SetWeights(snapshot.region, weights, reason=MEASURED)]
