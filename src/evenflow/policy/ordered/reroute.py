"""Re-routing at the transport: a full connection's frame goes to the next that has room (ordered-regions §4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import SetWeights, Snapshot
from evenflow.model.routing import Splitting
from evenflow.policy.ordered.balance import even_weights


@dataclass
class Reroute:
    """w_j = R/N for all j; the splitter tries the others before it waits.

    A baseline. What has been sent to a slow worker still has to be worked off by it before the in-order merge can go
    on, so re-routing is as late as the buffers are deep, and learns nothing from it. With our window of two frames
    that is not very late; with kernel buffers alone, as in the paper, it is.
    """

    name: ClassVar[str] = "reroute"
    splitting: ClassVar[Splitting] = "reroute"

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """An even split, set again only when the workers have changed."""
        workers = [connection.worker for connection in snapshot.connections]
        even = even_weights(workers) if workers else {}
        if even == {connection.worker: connection.weight for connection in snapshot.connections}:
            return []
        return [SetWeights(snapshot.region, even, reason="even split")]
