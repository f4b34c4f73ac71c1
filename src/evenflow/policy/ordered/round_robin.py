"""Round-robin: every worker the same share, whatever it can do (the baseline RR of ordered-regions §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import SetWeights, Snapshot
from evenflow.model.routing import Splitting
from evenflow.policy.ordered.balance import even_weights


@dataclass
class RoundRobin:
    """w_j = R/N for all j; the splitter waits for whichever connection is next."""

    name: ClassVar[str] = "round-robin"
    splitting: ClassVar[Splitting] = "block"

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """An even split, set again only when the workers have changed."""
        workers = [connection.worker for connection in snapshot.connections]
        even = even_weights(workers) if workers else {}
        if even == {connection.worker: connection.weight for connection in snapshot.connections}:
            return []
        return [SetWeights(snapshot.region, even, reason="even split")]
