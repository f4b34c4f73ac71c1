"""Settings by which the processes of a cluster find and trust each other; they travel inside Spark's closures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from evenflow.model.capacity import Emulate
from evenflow.model.qos import Qos

if TYPE_CHECKING:
    from evenflow.state.store.sealed import Opener, Place


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that every worker and feeder of one cluster gets."""

    cluster: str
    host: str
    """Where the controller listens."""
    port: int
    secret: bytes
    period: float
    """Seconds between reports."""
    stall_timeout: float
    """Seconds of silence after which a feeder gives up."""
    emulate: Emulate | None = None
    checkpoint: str = ""
    """Where state is stored; empty for nowhere."""
    qos: Mapping[str, float] = field(default_factory=dict)
    """How much the latency of operators matters, by name: weights; 1 if not given."""
    memory: int = 0
    """Bytes of state in a worker's memory, at most; 0 for no limit."""
    checkpoint_key: bytes = b""
    """The key that blobs of the checkpoint are sealed with; empty for none."""
    t_gap: float | Literal["read"] | None = None
    """How units on disk take turns (`state/paging/rotation.py`)."""
    targets: Mapping[str, Qos] = field(default_factory=dict)
    """Those entries of `qos` that are more than a weight."""
    opener: Opener | None = None
    """Opens the checkpoint's store in each process; None: its address says how."""

    @property
    def place(self) -> str | Place:
        """The checkpoint's address, key and opener, as `open_store` takes them."""
        from evenflow.state.store.sealed import placed  # imports numpy: not before it is needed

        return placed(self.checkpoint, self.checkpoint_key, self.opener)

    def __repr__(self) -> str:  # neither secret nor key may end up in a log or a traceback
        return f"Settings(cluster={self.cluster!r}, host={self.host!r}, port={self.port})"


def mark_of(cluster: str, region: str) -> str:
    """A text in the pickled tasks of a region, by which the driver finds them in the plans of Spark."""
    return f"{cluster}/{quote(region, safe='')}/"
