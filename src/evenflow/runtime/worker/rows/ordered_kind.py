"""The kind of feeders of ordered regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.runtime.wire.frames import Frame
from evenflow.runtime.worker.rows.operator_cache import OperatorCache
from evenflow.runtime.worker.rows.session import ConnectionKind, Session

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.runtime.worker.rows.instances import Answer


class OrderedKind(ConnectionKind):
    """The kind of feeders of ordered regions: each frame is answered at once, by the operator's result."""

    def __init__(self, operators: OperatorCache) -> None:
        self._operators = operators

    def process(self, session: Session, frame: Frame, batch: pa.RecordBatch) -> list[Answer]:
        from evenflow.runtime.worker.rows.instances import Answer

        out = self._operators[session.operator].process(batch)
        return [Answer(tag=(session.channel, frame.sequence), batch=out, origin=None, last=True)]
