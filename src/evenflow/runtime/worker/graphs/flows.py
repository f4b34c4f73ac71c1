"""Rows of graphs on one worker: takes frames of feeders and other workers, and serves them in the order they came in.

`Passage` takes a frame through the nodes that are here. Then the feeder gets a DONE with the frame's id XOR the ids of
the frames it caused, and so knows when none of its rows is on its way any more.

Workers always read from workers: otherwise they could wait for each other in a circle, although the graph has none.
Feeders bound the rows that wait here by the rows they have under way; above QUEUE_BYTES nothing is read from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from evenflow.errors import ProtocolError
from evenflow.graph.nodes.filters import Filters
from evenflow.model.messages import AbandonMoves, FlowOrder, GraphRouting, PauseUnits
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.flows import done_frame, flow_head, read_mark
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.events import FlushedEvent
from evenflow.runtime.worker.graphs.calibration import Calibration
from evenflow.runtime.worker.graphs.counts import FlowCounts
from evenflow.runtime.worker.graphs.passage import ArrivedRows, FlowStep, Passage, PassageFailed, Surroundings, Visit
from evenflow.runtime.worker.graphs.queue import RowQueue
from evenflow.runtime.worker.graphs.unit_rows import WaitingGraphRows
from evenflow.runtime.worker.rows.instances import graph_of
from evenflow.runtime.worker.rows.outbox import Outbox
from evenflow.runtime.worker.rows.session import ConnectionFault, Session

QUEUE_BYTES = 64 * 1024 * 1024
"""With more than this waiting here, no rows are taken from feeders; with more waiting to be sent, none are served."""
KEPT_GRAPHS = 1000
"""Graphs whose routing is kept, at most, but for those that are fed; the controller keeps as many regions."""
REPORT_S = 0.1
"""Seconds between reports of a graph's statistics while it is fed."""


@dataclass(slots=True, eq=False, kw_only=True)
class Flows:
    """The graphs of one worker."""

    around: Surroundings
    unit_rows: WaitingGraphRows
    outbox: Outbox
    turn_s: float
    rows: int = 0
    """Rows that nodes have taken since the worker started."""
    frames: int = 0
    """Frames served since the worker started."""
    busy_s: float = 0.0
    """Seconds that these took."""
    beginning: list[Session] = field(default_factory=list)
    """Feeders that wait until this worker knows the routing that they know."""
    _cut_off: set[int] = field(default_factory=set)
    """Feeders whose rows could not be sent on."""
    _counts: dict[str, FlowCounts] = field(default_factory=dict)
    """By region."""
    _calibration: Calibration = field(init=False)
    feeders: dict[int, Session] = field(init=False)
    queue: RowQueue = field(init=False)

    def __post_init__(self) -> None:
        self.feeders, self.queue = self.unit_rows.feeders, self.unit_rows.queue
        self._calibration = Calibration(self.around.pace, self.around.clock)

    # -- who is here

    def enter(self, session: Session) -> None:
        """A feeder has opened a graph."""
        self.feeders[session.feeder] = session

    def leave(self, session: Session) -> None:
        """A feeder, or a worker that sent rows, is gone; its waiting frames are dropped when their turn comes."""
        if self.feeders.get(session.feeder) is session:
            del self.feeders[session.feeder]
            self._tidy(session.region)
        self.beginning = [each for each in self.beginning if each is not session]
        self._acknowledged(session.channel)

    def _let_go(self) -> None:
        """Forget the oldest graphs that nobody feeds: a query may open one in each micro-batch."""
        used = {session.region for session in self.feeders.values()}
        idle = [region for region in self.around.routings if region not in used]
        for region in idle[: len(self.around.routings) - KEPT_GRAPHS]:
            del self.around.routings[region]
            self._counts.pop(region, None)

    def _tidy(self, region: str) -> None:
        """Drop the rows that orders hold for feeders that are gone; units may have arrived with such rows."""
        known = self.around.server.regions.get(region)
        for state in known.instances.values() if known is not None else ():
            graph_of(state).keep(self.feeders)

    def peer_lost(self, channel: Channel) -> list[Channel]:
        """The connection to a worker is over; returns the feeders whose rows may be lost with it."""
        worker = self.around.peers.lost(channel)
        self._acknowledged(channel)
        concerned = {name for name, known in self.around.routings.items() if known.uses(worker)}
        return [  # of feeders that wait to begin no rows are on their way: the worker is called again
            session.channel
            for session in self.feeders.values()
            if session.region in concerned and session not in self.beginning
        ]

    @property
    def full(self) -> bool:
        """Whether so much waits here that no rows should be taken from feeders."""
        return self.queue.bytes > QUEUE_BYTES

    @property
    def active(self) -> bool:
        """Whether a feeder is connected."""
        return bool(self.feeders)

    def busy_with(self) -> dict[str, float]:
        """By graph that is fed, the seconds that it has taken so far."""
        fed = {session.region for session in self.feeders.values()}
        return {region: counts.busy_s for region, counts in self._counts.items() if region in fed}

    # -- what comes

    def receive(self, channel: Channel, frame: Frame, sender: int | None = None) -> None:
        """A feeder or another worker has sent a frame; `sender` is the worker if it has made the connection."""
        match frame.kind:
            case Kind.FLOW:
                flow_head(frame)  # it is refused while it is known who sent it
                self.queue.append(frame)
            case Kind.FLUSH if frame.told:
                self._acknowledged(channel, frame.sequence)
            case Kind.FLUSH:  # frames that came before it are in the queue, in front of all later ones
                with suppress(ConnectionError):
                    channel.send(Frame(Kind.FLUSH, b"", frame.sequence, told=True))
            case Kind.MARKER:
                self._mark(frame)
            case Kind.PROBE:
                self.around.peers.answer_probe(channel, sender, frame)
            case _:
                raise ProtocolError(f"a {frame.kind.name} frame came for a graph")

    def _mark(self, frame: Frame) -> None:
        """All rows of a sender for the units of a movement are here; those that wait leave with the units."""
        sender = read_mark(frame)
        self.around.server.mark(frame.sequence, sender)

    def _acknowledged(self, channel: Channel, move: int | None = None) -> None:
        """All rows before a flush are through on this connection; without a `move`, the connection is over."""
        for number in self.unit_rows.acknowledge(channel, move):
            self.around.server.mover.handle(FlushedEvent(number))

    def faults(self) -> list[ConnectionFault]:
        """Feeders whose rows could not be sent on; each is named once."""
        if not self._cut_off:
            return []
        gone, self._cut_off = self._cut_off & self.feeders.keys(), set()
        why = ProtocolError("rows could not be sent on: another worker cannot be reached")
        return [(self.feeders[feeder].channel, why) for feeder in sorted(gone)]

    def await_beginning(self, session: Session) -> None:
        """A feeder asks whether its rows may come: it is told as soon as they may."""
        self.beginning.append(session)
        self.begin()

    def begin(self) -> None:
        """Let feeders begin if their routing is known here and every other worker is connected."""
        for session in list(self.beginning):
            known = self.around.routings.known(session.region)
            if known is not None and known.reached(session.version, session.move) and self.around.peers.met():
                self.beginning.remove(session)
                with suppress(ConnectionError):  # it has just gone, and the poller will say so
                    session.channel.send(Frame(Kind.FLUSH, told=True))

    @property
    def waiting(self) -> str:
        """The region of the frame whose turn it is; empty if none waits."""
        while (frame := self.around.routings.first) is not None:
            if self.around.peers.unsent > QUEUE_BYTES:
                return ""  # other workers always read, so this gets less
            session = self.feeders.get(flow_head(frame).feeder)
            if session is not None:
                return session.region
            self.queue.take()  # its task is over
        return ""

    # -- routing

    def obey(self, order: FlowOrder) -> None:
        """Do what the controller says about the ways of rows."""
        routings, peers = self.around.routings, self.around.peers
        if isinstance(order, GraphRouting):
            for channel in peers.meet(order.workers):
                self._acknowledged(channel)
        for each in routings.obey(order):
            if each.frame.kind is Kind.MARKER and each.worker == self.around.worker:
                self._mark(each.frame)
            elif not peers.send(each.worker, each.frame, each.rows) and each.frame.kind is Kind.FLOW:
                self._cut_off.add(flow_head(each.frame).feeder)
        if len(routings) > KEPT_GRAPHS:
            self._let_go()
        if not isinstance(order, PauseUnits):
            self._tidy(order.region)
        self.begin()

    def abandon(self, order: AbandonMoves) -> None:
        """Forget movements, and the rows that wait for where their units are."""
        self.around.routings.abandon(order)

    # -- rows

    def serve(self) -> list[ConnectionFault]:
        """Serve the frame whose turn it is; its feeder is at fault if its rows cannot be taken further."""
        frame = self.queue.take()
        head = flow_head(frame)
        session = self.feeders.get(head.feeder)
        if session is None:
            return []  # its task is over
        known, graph = self.around.routings.known(session.region), self.unit_rows.find_graph(session.operator)
        if known is None or known.ways is None or graph is None:
            return [(session.channel, ProtocolError(f"rows of region {session.region} came before its graph"))]
        visit = Visit(
            session=session,
            graph=graph,
            routing=known,
            ways=known.ways,
            until=self.around.clock() + self.turn_s,
            counts=self._counts_of(session.region, graph.plan.units),
        )
        rows = ArrivedRows(root=frame.part, turn=head.turn, identity=frame.sequence, ports=head.ports, rows=head.rows)
        try:
            self._serve(visit, rows)
        except PassageFailed as failed:
            self.outbox.fail(session.channel, failed.error, where=failed.where)
        except Exception as error:  # rows that do not fit, or a result that is too large: nobody else's fault
            return [(session.channel, error)]
        finally:
            self.queue.put_first(visit.left)
        return []

    def _counts_of(self, region: str, units: int) -> FlowCounts:
        counts = self._counts.get(region)
        if counts is None:
            counts = self._counts[region] = FlowCounts(units, self.around.clock())
        return counts

    def _serve(self, visit: Visit, rows: ArrivedRows) -> None:
        """Take rows, and those that follow them behind an order, as far as they go here, and answer that."""
        around, session = self.around, visit.session
        due: deque[FlowStep] = deque([rows])
        while due:
            step = due.popleft()
            began = around.clock()
            passage = Passage(visit, step, around)
            caused = passage.run()
            took = around.clock() - began
            self.rows += passage.rows
            self.frames += 1
            self.busy_s += took
            visit.counts.busy_s += took
            around.server.served(session.region, took)
            with suppress(ConnectionError):  # it has just gone, and the poller will say so
                session.channel.send(done_frame(step.root, step.identity ^ caused, int(took * 1e6)))
            due += passage.following

    # -- reports

    def report(self, now: float) -> None:
        """Send the statistics of every graph that is due for a report."""
        for region, counts in self._counts.items():
            if now - counts.reported >= REPORT_S and counts.any:
                news = counts.news(
                    region,
                    now,
                    queued=self.queued(region),
                    standard_us=self._calibration.standard_us(now),
                    round_trips=self.around.peers.round_trips,
                    bandwidths=self.around.peers.bandwidths,
                    filters=self._filters(region),
                )
                self.around.server.tell(news)

    def queued(self, region: str) -> int:
        """Rows that wait here, of one graph."""
        feeders, rows = self.feeders.items(), self.queue.rows
        return sum(rows.get(feeder, 0) for feeder, session in feeders if session.region == region)

    def _filters(self, region: str) -> Mapping[str, Filters]:
        known = self.around.routings.get(region)
        graph = self.unit_rows.find_graph(known.order.operator) if known is not None else None
        return graph.filters if graph is not None else {}
