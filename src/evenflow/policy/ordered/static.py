"""Static weights: shares that the user gives once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import ClassVar

from evenflow.errors import InvalidArgument
from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.policy.ordered.allocation import proportional
from evenflow.policy.ordered.balance import Balance, even_weights
from evenflow.policy.ordered.oracle import by_worker, check_ids


@dataclass
class StaticWeights(Balance):
    """w_j as given; the splitter waits for the connection that is next.

    `weights` maps worker ids to shares, or lists the shares of workers 0, 1, 2, ...; they are fractions that sum to 1,
    or thousandths that sum to 1000. Workers that are not named get nothing. The named workers that are live share all
    rows in the given proportion; if none of them is live, all live workers share evenly.
    """

    name: ClassVar[str] = "static"

    weights: Mapping[int, float] | Sequence[float]

    def __post_init__(self) -> None:
        self._shares = by_worker("weights", self.weights)
        total = sum(self._shares.values())
        if not any(isclose(total, whole, rel_tol=1e-6) for whole in (1.0, RESOLUTION)):
            raise InvalidArgument(
                f"the weights sum to {total:g}: give fractions that sum to 1, or thousandths that sum to {RESOLUTION}"
            )

    def check_workers(self, workers: int) -> None:
        """Refuse weights of workers that the cluster does not have, and a list that leaves out some."""
        if not isinstance(self.weights, Mapping) and len(self._shares) != workers:
            raise InvalidArgument(
                f"weights has {len(self._shares)} shares and there are {workers} workers: give one for each, or "
                "{worker: share} for some of them"
            )
        check_ids("weights", self._shares, workers)

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """The given shares of the live workers, if they are not in force already."""
        present = {connection.worker: connection.weight for connection in snapshot.connections}
        shares = [self._shares.get(worker, 0.0) for worker in present]
        if any(shares):
            weights = dict(zip(present, proportional(shares, RESOLUTION), strict=True))
        else:
            weights = even_weights(list(present)) if present else {}
        return [] if weights == present else [SetWeights(snapshot.region, weights, reason="as given")]
