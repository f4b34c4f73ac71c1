"""The passage of one frame through the nodes of a graph that are on this worker.

What a node gives goes to the nodes behind it by a call if they are here, and out as frames if they are elsewhere; what
reaches an endpoint goes to the feeder. Rows that change state are logged, where the query has a checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import ProtocolError
from evenflow.graph.hosted import GraphState, HostedGraph
from evenflow.graph.routing import Bundle, Ways
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.flows import FlowHead
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.codec import batch_parts, read_rows
from evenflow.runtime.worker.flow_counts import FlowCounts

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.operators.keyed import Units
    from evenflow.runtime.worker.emulation import EmulatedSpeed
    from evenflow.runtime.worker.keyed import KeyedHost
    from evenflow.runtime.worker.session import Session


class PassageFailed(Exception):
    """An operator has failed; `where` says which."""

    def __init__(self, error: BaseException, where: str) -> None:
        super().__init__(where)
        self.error, self.where = error, where


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a passage needs of its worker."""

    worker: int
    host: KeyedHost
    pace: EmulatedSpeed | None
    clock: Callable[[], float]
    counts: FlowCounts


class Passage:
    """One frame on one worker."""

    def __init__(
        self,
        session: Session,
        channel: Channel,
        graph: HostedGraph,
        ways: Ways,
        root: int,
        around: Surroundings,
        send_on: Callable[[Bundle], int],
    ) -> None:
        self._session = session
        self._channel = channel
        self._graph = graph
        self._ways = ways
        self._root = root
        self._around = around
        self._send_on = send_on
        """Sends rows to another worker, or holds them; gives the XOR of the ids of their frames."""
        self.rows = 0
        """Rows that nodes have taken, each row as often as a node took it."""

    def run(self, head: FlowHead) -> int:
        """Take the rows as far as they go here; the XOR of the ids of the frames that this caused."""
        plan, session = self._graph.plan, self._session
        if any(port >= len(plan.ports) for port in head.ports):
            raise ProtocolError(f"rows came for ports {head.ports}: the graph has {len(plan.ports)}")
        batch = read_rows(head.rows, self._graph.schemas[head.ports[0]])
        self._region, found = self._around.host.enter(session.region, session.evaluation, session.stamp)
        if not isinstance(found, GraphState):
            raise ProtocolError(f"region {session.region} is not that of a graph")
        work = deque((port, batch) for port in head.ports)
        caused = 0
        while work:
            port, rows = work.popleft()
            stream = plan.nodes[plan.ports[port].node].stream
            out = self._apply(found, port, rows)
            if not out.num_rows:
                continue
            for endpoint in plan.streams[stream].endpoints:
                self._give(endpoint, out)
            for bundle in self._ways.split(stream, out):
                if bundle.worker == self._around.worker:
                    work.extend((each, bundle.rows) for each in bundle.ports)
                else:
                    caused ^= self._send_on(bundle)
        return caused

    def _apply(self, state: GraphState, port: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply rows to one node; what it gives."""
        node = self._graph.plan.nodes[self._graph.plan.ports[port].node]
        rows, local, keys = self._graph.rows_of(port, batch)
        units = local + np.int32(node.first) if node.units > 1 else np.array([node.first], np.int32)
        self._around.host.check_here(self._region, self._session.region, self._session.evaluation, units)
        began = self._around.clock()
        try:
            out = state.apply(port, rows, local, keys)
        except ProtocolError:
            raise
        except BaseException as error:  # whatever the user's code throws is the user's to see
            raise PassageFailed(error, f"operator {node.name!r}, {rows.num_rows} rows") from error
        took = self._around.clock() - began
        if self._around.pace is not None:
            took = self._around.pace.serve(rows.num_rows, took, node.name)
        self._count(units, rows, out, took)
        if node.operator.stateful:
            self._log(port, batch, units)
        return out

    def _count(self, units: Units, rows: pa.RecordBatch, out: pa.RecordBatch, seconds: float) -> None:
        self.rows += rows.num_rows
        each = units if len(units) == rows.num_rows else np.broadcast_to(units, rows.num_rows)
        self._region.add_rows(each, rows.nbytes)
        self._around.counts.add(each, out.num_rows, out.nbytes, seconds)

    def _log(self, port: int, batch: pa.RecordBatch, units: Units) -> None:
        session, checkpointer = self._session, self._around.host.checkpointer
        if session.stamp is None or checkpointer is None:
            return
        logged = self._graph.logged(port, batch, units)
        body = memoryview(logged.serialize())
        checkpointer.log(session.region, session.evaluation, body, logged.schema, units)

    def _give(self, endpoint: int, out: pa.RecordBatch) -> None:
        """Send results to the feeder."""
        with suppress(ConnectionError):  # it has just gone, and the poller will say so
            for _, part in batch_parts(out):
                self._channel.send(Frame(Kind.RESULT, part, self._root, part=endpoint))
