"""A session: one feeder's use of one operator on this worker, or another worker that sends rows of graphs.

`Sessions` takes schemas and rows of any session; its kind takes all other frames, and applies rows. Kinds of ordered
and keyed regions are in `ordered_kind` and `keyed_kind`, those of graphs and of other workers in `graphs.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.runtime.worker.rows.instances import Answer


ConnectionFault = tuple[Channel, Exception]
"""A connection that has to be given up, and why."""


class ConnectionKind:
    """What a worker does with the frames of a connection, by what its peer has opened; this kind: nothing yet."""

    always_read: ClassVar[bool] = False
    """Whether frames are read however much waits here."""
    told_units: ClassVar[bool] = False
    """Whether the feeder is told which units had rows when its rows are durable."""

    @property
    def full(self) -> bool:
        """Whether so much waits here that no rows of this kind should be read."""
        return False

    def receive(self, session: Session, frame: Frame) -> None:
        """Take a frame that is neither a schema nor rows."""
        raise ProtocolError(f"a feeder sent a {frame.kind.name} frame")

    def process(self, session: Session, frame: Frame, batch: pa.RecordBatch) -> list[Answer]:
        """Apply rows; returns answers to this frame and to earlier ones that waited."""
        raise ProtocolError(f"frame {frame.sequence} came before its operator and its schema")

    def served(self, session: Session, seconds: float) -> None:
        """Rows of the session took this service time."""

    def blame(self, session: Session, batch: pa.RecordBatch) -> str:
        """Names the row that an operator's failure seems to come from; empty if it is not known."""
        return ""

    def leave(self, session: Session, waited_s: float) -> None:
        """The connection is gone; the worker has had nothing to do for `waited_s` so far."""


@dataclass(slots=True, eq=False)
class Session:
    """One connection over which rows come."""

    channel: Channel
    kind: ConnectionKind = field(default_factory=ConnectionKind)
    """How its frames are served; the first kind, until the peer opens something, refuses them."""
    operator: str = ""
    schema: pa.Schema | None = None
    queue: str = ""
    """The name of its region, by whose weight its frames are served."""
    region: str = ""
    """The name of its region if that is keyed or a graph; empty otherwise."""
    evaluation: str = ""
    feeder: int = 0
    """The number that the controller knows the feeder by."""
    epoch: int = 0
    """The number of the micro-batch whose rows it brings."""
    stamp: tuple[int, int] | None = None
    """The batch and the attempt at it, if the query's state is stored."""
    version: int = 0
    """The version of a graph's routing table that the feeder knows."""
    move: int = 0
    """The latest movement in a graph that the feeder did not hear of itself, because it had begun before."""
    worker: int | None = None
    """The number of the other worker; None for a feeder."""
