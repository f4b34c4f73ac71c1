"""What a cluster's processes must know to find and trust each other; it travels inside Spark's own closures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.model.capacity import Emulate

if TYPE_CHECKING:
    from evenflow.state.store.sealed import Place


@dataclass(frozen=True, slots=True)
class Settings:
    """The same for every worker and feeder of one cluster."""

    cluster: str
    host: str
    port: int
    secret: bytes
    period: float
    stall_timeout: float
    emulate: Emulate | None = None
    checkpoint: str = ""
    """Where state is stored; empty if it is not."""
    qos: Mapping[str, float] = field(default_factory=dict)
    """How much the latency of keyed operators matters, by name; 1 if not given."""

    memory: int = 0
    """Bytes of state in each worker, at most; 0 for no limit."""
    checkpoint_key: bytes = b""
    """What blobs of the checkpoint are sealed with; empty if they are not."""

    @property
    def place(self) -> str | Place:
        """What `open_store` takes."""
        from evenflow.state.store.sealed import placed  # imports numpy: not before it is needed

        return placed(self.checkpoint, self.checkpoint_key)

    def __repr__(self) -> str:  # neither secret nor key may end up in a log or a traceback
        return f"Settings(cluster={self.cluster!r}, host={self.host!r}, port={self.port})"
