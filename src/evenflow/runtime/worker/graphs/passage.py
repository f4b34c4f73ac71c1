"""The passage of one frame through the nodes of a graph that are on this worker.

The rows that a node gives go to the nodes behind it, by a call if these are here, as frames if they are elsewhere.
Rows at an endpoint go to the feeder. Rows that change state are logged if the query has a checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.graph.build.plan import NodePlan
from evenflow.graph.hosted import HostedGraph
from evenflow.graph.nodes.ordering import HeldTurn, OrderNode
from evenflow.graph.routing import Bundle, Ways
from evenflow.runtime.wire.flows import flow_frame
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.counts import FlowCounts
from evenflow.runtime.worker.graphs.peers import Peers
from evenflow.runtime.worker.graphs.routings import LocalRouting, Routings
from evenflow.runtime.worker.rows.codec import batch_parts, read_rows
from evenflow.runtime.worker.rows.instances import Instance, apply, graph_of

if TYPE_CHECKING:
    from evenflow.operators.keyed import Units
    from evenflow.runtime.worker.rows.emulation import EmulatedSpeed
    from evenflow.runtime.worker.rows.keyed import KeyedServer
    from evenflow.runtime.worker.rows.regions import LocalRegion
    from evenflow.runtime.worker.rows.session import Session
    from evenflow.runtime.worker.saving.repeats import RepeatedAttempt


class PassageFailed(Exception):
    """An operator has failed; `where` says which."""

    def __init__(self, error: BaseException, where: str) -> None:
        super().__init__(where)
        self.error, self.where = error, where


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What passages need of their worker."""

    worker: int
    server: KeyedServer
    peers: Peers
    routings: Routings
    pace: EmulatedSpeed | None
    clock: Callable[[], float]
    new_id: Callable[[], int]
    """Draws the id of a frame."""


@dataclass(slots=True, kw_only=True)
class Visit:
    """The turn of one frame on this worker."""

    session: Session
    graph: HostedGraph
    routing: LocalRouting
    ways: Ways
    counts: FlowCounts
    until: float
    """When the turn is over."""
    left: list[Frame] = field(default_factory=list)
    """Rows for operators that are here, for which the turn was too short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedRows:
    """The rows of a frame that has arrived."""

    root: int
    turn: int
    identity: int
    ports: tuple[int, ...]
    rows: memoryview
    """The record batch, serialised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedRows:
    """Rows that an order held, and that go on now behind the rows they waited for."""

    root: int
    turn: int
    identity: int
    stream: int
    rows: pa.RecordBatch


FlowStep = ArrivedRows | ReleasedRows
"""Rows of one root frame that go through the nodes here, counted as one frame."""


class Passage:
    """One step on one worker."""

    def __init__(self, visit: Visit, step: FlowStep, around: Surroundings) -> None:
        self._visit, self._step, self._around = visit, step, around
        self._session, self._graph, self._ways = visit.session, visit.graph, visit.ways
        self._root, self._turn = step.root, step.turn
        self.rows = 0
        """Rows that nodes have taken, each row as often as a node took it."""
        self.following: list[ReleasedRows] = []
        """The steps that follow this one."""
        self._region, self._state = self._entered()

    def _entered(self) -> tuple[LocalRegion, Instance]:
        session = self._session
        region, state = self._around.server.enter(session.region, session.evaluation, session.stamp)
        graph_of(state).batch = session.epoch
        return region, state

    def run(self) -> int:
        """Take the rows as far as they go here; the XOR of the ids of the frames that this caused."""
        match self._step:
            case ArrivedRows(ports=ports, rows=rows):
                return self._take_on(self._read(ports, rows))
            case ReleasedRows(stream=stream, rows=released):
                work: deque[tuple[int, pa.RecordBatch]] = deque()
                caused = self._pass_on(stream, released, work)
                return caused ^ (self._put_off(work) if self._late else self._take_on(work))

    def _read(self, ports: tuple[int, ...], rows: memoryview) -> deque[tuple[int, pa.RecordBatch]]:
        plan = self._graph.plan
        if any(port >= len(plan.ports) for port in ports):
            raise ProtocolError(f"rows came for ports {ports}: the graph has {len(plan.ports)}")
        batch = read_rows(rows, self._graph.schemas[ports[0]])
        return deque((port, batch) for port in ports)

    @property
    def _late(self) -> bool:
        return self._around.clock() >= self._visit.until

    def _put_off(self, work: deque[tuple[int, pa.RecordBatch]]) -> int:
        """Leave rows for nodes that are here to the next turn, as frames; the XOR of their ids."""
        caused = 0
        for port, rows in work:
            caused ^= self._send_on(Bundle(self._around.worker, (port,), rows, self._turn, self._ways.has_turns(port)))
        return caused

    def _send_on(self, bundle: Bundle) -> int:
        """Send rows to their worker, hold them, or leave them for later; the XOR of the ids of their frames."""
        visit, around, mark = self._visit, self._around, 0
        for rows, part in batch_parts(bundle.rows, bundle.uncut):
            number = around.new_id()
            mark ^= number
            frame = flow_frame(number, self._root, bundle.turn, self._session.feeder, bundle.ports, part, rows)
            if bundle.worker == around.worker:
                visit.left.append(frame)
            elif bundle.worker < 0:
                around.routings.hold(visit.routing, -bundle.worker, frame, rows)
            elif around.peers.send(bundle.worker, frame, rows):
                visit.counts.add_sent(bundle.worker, rows, part.nbytes)
            else:
                raise ProtocolError(f"worker {bundle.worker} cannot be reached")
        return mark

    def _take_on(self, work: deque[tuple[int, pa.RecordBatch]]) -> int:
        """Take rows through the nodes here until the turn is over, through one node at least."""
        plan, caused = self._graph.plan, 0
        while work:
            port, rows = work.popleft()
            node = plan.nodes[plan.ports[port].node]
            out = self._apply(node, port, rows)
            if node.operator.ordering and not self._in_turn(node, out):
                caused ^= self._hold(node, out)
            else:
                caused ^= self._pass_on(node.stream, out, work)
            if self._late:
                return caused ^ self._put_off(work)
        return caused

    def _pass_on(self, stream: int, out: pa.RecordBatch, work: deque[tuple[int, pa.RecordBatch]]) -> int:
        """Send rows of a stream to its readers, by `work` to readers here; the XOR of the ids of frames sent."""
        caused = 0
        for endpoint in self._graph.plan.streams[stream].endpoints if out.num_rows else ():
            self._give(endpoint, out)
        for bundle in self._ways.split(stream, out, self._turn):
            if bundle.worker == self._around.worker:
                work.extend((each, bundle.rows) for each in bundle.ports)
            else:
                caused ^= self._send_on(bundle)
        return caused

    def _in_turn(self, node: NodePlan, rows: pa.RecordBatch) -> bool:
        """Whether rows may go on behind an ordered map; then the rows that waited for them follow."""
        order = self._order(node)
        if not order.due(self._session.feeder, self._turn):
            return False
        for held in order.following(self._session.feeder):
            self.following.append(
                ReleasedRows(root=held.root, turn=held.turn, identity=held.identity, stream=node.stream, rows=held.rows)
            )
        return True

    def _hold(self, node: NodePlan, rows: pa.RecordBatch) -> int:
        """Keep rows that are early; returns an id, which stands for them as a frame under way."""
        identity = self._around.new_id()
        self._order(node).hold(self._session.feeder, HeldTurn(self._root, identity, self._turn, rows))
        return identity

    def _order(self, node: NodePlan) -> OrderNode:
        found = graph_of(self._state).operator(self._graph.plan.ports[node.ports[0]].node)
        assert isinstance(found, OrderNode)
        return found

    def _apply(self, node: NodePlan, port: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply rows to one node; returns its result."""
        rows, local, keys = self._graph.rows_of(port, batch)
        if node.operator.lanes:
            units = np.array([node.first + self._turn % node.units], np.int32)
        else:
            units = local + np.int32(node.first) if node.units > 1 else np.array([node.first], np.int32)
        self._around.server.check_here(self._region, self._session.region, self._session.evaluation, units)
        if not rows.num_rows:  # a turn without rows, on its way to an order
            return self._graph.nothing(node)
        repeat = self._region.repeats.get(self._session.evaluation) if node.operator.logged else None
        began = self._around.clock()
        try:
            if repeat is not None and node.operator.stateful:
                out = self._repeat(node, repeat, np.broadcast_to(units, rows.num_rows))
            elif node.operator.stateful and not node.operator.ordering:
                out = apply(self._state, port, rows, units, local, keys)
            else:
                out = graph_of(self._state).apply(port, rows, local, keys)
        except ProtocolError:
            raise
        except BaseException as error:  # whatever the user's code throws is the user's to see
            raise PassageFailed(error, f"operator {node.name!r}, {rows.num_rows} rows") from error
        took = self._around.clock() - began
        if self._around.pace is not None:
            took = self._around.pace.serve(rows.num_rows, took, node.name)
        self._count(units, rows, out, took)
        if node.operator.stateful and node.operator.logged and repeat is None:
            self._log(port, batch, units)
        return out

    def _repeat(self, node: NodePlan, repeat: RepeatedAttempt, units: Units) -> pa.RecordBatch:
        """Apply the logged rows that are due when rows of these units come; returns their result."""
        session, given = self._session, [self._graph.nothing(node)]
        for logged in self._around.server.logged(session.region, session.evaluation, repeat, units) or ():
            port, batch, mine = self._graph.from_log(logged)
            rows, local, keys = self._graph.rows_of(port, batch)
            given.append(apply(self._state, port, rows, mine, local, keys))
        return given[1] if len(given) == 2 else pa.concat_batches(given)

    def _count(self, units: Units, rows: pa.RecordBatch, out: pa.RecordBatch, seconds: float) -> None:
        self.rows += rows.num_rows
        each = units if len(units) == rows.num_rows else np.broadcast_to(units, rows.num_rows)
        self._region.add_rows(each, rows.nbytes)
        self._visit.counts.add(each, out.num_rows, out.nbytes, seconds)

    def _log(self, port: int, batch: pa.RecordBatch, units: Units) -> None:
        session, checkpointer = self._session, self._around.server.checkpointer
        if session.stamp is None or checkpointer is None:
            return
        logged = self._graph.logged(port, batch, units, session.epoch)
        body = memoryview(logged.serialize())
        checkpointer.log(session.region, session.evaluation, body, logged.schema, units)

    def _give(self, endpoint: int, out: pa.RecordBatch) -> None:
        """Send results to the feeder."""
        with suppress(ConnectionError):  # it has just gone, and the poller will say so
            for _, part in batch_parts(out):
                self._session.channel.send(Frame(Kind.RESULT, part, self._root, part=endpoint))
