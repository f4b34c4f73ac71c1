"""A session: one feeder's use of one operator on this worker, or another worker that sends rows of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Session:
    """One feeder's use of one operator."""

    operator: str = ""
    schema: pa.Schema | None = None
    queue: str = ""
    """The name of its region, by whose weight its frames are served."""
    region: str = ""
    """Of a keyed operator; empty otherwise."""
    evaluation: str = ""
    feeder: int = 0
    epoch: int = 0
    """The number of the micro-batch whose rows it brings."""
    stamp: tuple[int, int] | None = None
    """Of a query whose state is stored: the batch, and which attempt at it this is."""
    version: int = 0
    """Of a graph's routing table, as the feeder knows it."""
    move: int = 0
    """The latest movement in a graph that the feeder did not hear of itself, because it had begun before."""
    peer: bool = False
    """Whether it is another worker, which sends rows of graphs."""
    worker: int | None = None
    """Which one."""
    graph: bool = False
    """Whether its frames wait in `flows`: those of another worker, and those of a feeder of a graph."""
