"""Rows of graphs on one worker: which frames wait, whose turn it is, and where the rows of units that move are held.

Frames of feeders and of other workers are served in the order in which they came (`Passage` takes one through the nodes
that are here). Each is answered to its feeder (DONE) with its id XOR the ids of the frames it caused, so that the
feeder knows when nothing that comes of its rows is on its way any more.

Workers always read from workers: they could wait for each other in a circle otherwise, although the graph has none.
How much can wait here is bounded by what feeders have under way; above QUEUE_BYTES nothing is read from feeders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.errors import ProtocolError
from evenflow.graph.hosted import HostedGraph
from evenflow.graph.nodes.filters import Filters
from evenflow.graph.nodes.ordering import HeldTurn
from evenflow.graph.routing import Bundle
from evenflow.model.messages import FlowOrder, GraphRouting, PauseUnits
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.flows import done_frame, flow_frame, flow_head, read_mark
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.events import FlushedEvent
from evenflow.runtime.worker.graphs.calibration import Calibration
from evenflow.runtime.worker.graphs.counts import FlowCounts
from evenflow.runtime.worker.graphs.leaving_rows import divided
from evenflow.runtime.worker.graphs.passage import Passage, PassageFailed, Surroundings
from evenflow.runtime.worker.graphs.peers import Peers
from evenflow.runtime.worker.graphs.queue import RowQueue
from evenflow.runtime.worker.graphs.routings import HostedWays, Routings
from evenflow.runtime.worker.rows.codec import batch_parts
from evenflow.runtime.worker.rows.instances import graph_of

if TYPE_CHECKING:
    from evenflow.runtime.worker.rows.emulation import EmulatedSpeed
    from evenflow.runtime.worker.rows.keyed import KeyedHost
    from evenflow.runtime.worker.rows.session import Session

QUEUE_BYTES = 64 * 1024 * 1024
"""With more than this waiting here, no rows are taken from feeders; with more waiting to be sent, none are served."""
KEPT_GRAPHS = 1000
"""Graphs whose routing is kept, at most, but for those that are fed; the controller keeps as many regions."""
REPORT_S = 0.1
"""Seconds between reports of a graph's statistics while it is fed."""
ID_BITS = 64


class FeederFault(Exception):
    """Rows of a feeder cannot be taken further: that feeder loses its connection."""

    def __init__(self, channel: Channel, error: Exception) -> None:
        super().__init__(str(error))
        self.channel, self.error = channel, error


class Flows:
    """The graphs of one worker."""

    def __init__(
        self,
        worker: int,
        host: KeyedHost,
        graph: Callable[[str], Any],
        peers: Peers,
        pace: EmulatedSpeed | None,
        clock: Callable[[], float],
        random_bits: Callable[[int], int],
        fail: Callable[[Channel, int, BaseException, str], None],
        turn_s: float,
    ) -> None:
        self._worker = worker
        self._host = host
        self._graph = graph
        """Gives the operator of a name, if it is here; asks for it otherwise."""
        self.peers = peers
        self._pace = pace
        self._clock = clock
        self._random_bits = random_bits
        self._fail = fail
        self._turn_s = turn_s
        self._left: list[Frame] = []
        """Of the frame that is served: what it has no time for."""
        self._queue = RowQueue(lambda gate: self.routings.passable(gate), lambda gate: self.routings.opened(gate))
        self.routings = Routings(worker, graph, peers, self._marked, self._queue, self._unsent)
        self._feeders: dict[int, tuple[Channel, Session]] = {}
        """By their numbers."""
        self._beginning: list[tuple[Channel, Session]] = []
        """Feeders that wait until the routing they know is known here, too."""
        self._flushing: dict[int, set[Channel]] = {}
        """By movement, connections over which has not come yet that all before it is through."""
        self._cut_off: set[int] = set()
        """Feeders of which rows could not be sent on."""
        self._counts: dict[str, FlowCounts] = {}
        """By region."""
        self.calibration = Calibration(pace, clock)
        self.rows = self.frames = 0
        """Processed since the worker started."""
        self.busy_s = 0.0

    # -- who is here

    def enter(self, channel: Channel, session: Session) -> None:
        """A feeder has opened a graph."""
        self._feeders[session.feeder] = channel, session

    def leave(self, channel: Channel, session: Session) -> None:
        """A feeder, or a worker that sent rows, is gone; frames that wait are dropped when it is their turn."""
        known = self._feeders.get(session.feeder)
        if known is not None and known[0] is channel:
            del self._feeders[session.feeder]
            self._tidy(session.region)
        self._beginning = [each for each in self._beginning if each[0] is not channel]
        self._flushed_by(channel)

    def _let_go(self) -> None:
        """Forget the oldest graphs that nobody feeds: a query may open one in each micro-batch."""
        used = {session.region for _, session in self._feeders.values()}
        idle = [region for region in self.routings if region not in used]
        for region in idle[: len(self.routings) - KEPT_GRAPHS]:
            del self.routings[region]
            self._counts.pop(region, None)

    def _tidy(self, region: str) -> None:
        """Let go of what orders hold of feeders that are gone, perhaps while the units were on their way here."""
        known = self._host.regions.get(region)
        for state in known.instances.values() if known is not None else ():
            graph_of(state).keep(self._feeders)

    def peer_lost(self, channel: Channel) -> list[Channel]:
        """The connection to a worker is over; the feeders that have to be told, because rows may be lost with it."""
        worker = self.peers.lost(channel)
        self._flushed_by(channel)
        concerned = {name for name, known in self.routings.items() if known.uses(worker)}
        waiting = {at for at, _ in self._beginning}  # of those no rows are on their way: the worker is called again
        feeders = self._feeders.values()
        return [at for at, session in feeders if session.region in concerned and at not in waiting]

    @property
    def full(self) -> bool:
        """Whether so much waits here that no rows should be taken from feeders."""
        return self._queue.bytes > QUEUE_BYTES

    @property
    def active(self) -> bool:
        """Whether a feeder is connected."""
        return bool(self._feeders)

    def busy_with(self) -> dict[str, float]:
        """By graph that is fed, the seconds that it has taken so far."""
        fed = {session.region for _, session in self._feeders.values()}
        return {region: counts.busy_s for region, counts in self._counts.items() if region in fed}

    def is_graph(self, operator: str) -> bool:
        """Whether an operator is a graph; False while that is not known."""
        return isinstance(self._graph(operator), HostedGraph)

    # -- what comes

    def receive(self, channel: Channel, session: Session | None, frame: Frame) -> None:
        """A feeder or another worker has sent a frame; `session` is None on connections that were made here."""
        if frame.kind is Kind.FLUSH and frame.told:
            self._flushed_by(channel, frame.sequence)
        elif frame.kind is Kind.FLUSH and not frame.sequence and session is not None and session.region:
            self._beginning.append((channel, session))
            self.begin()
        elif frame.kind is Kind.PROBE:
            self.peers.answer_probe(channel, session.worker if session is not None else None, frame)
        elif frame.kind is Kind.FLOW:
            flow_head(frame)  # it is refused while it is known who sent it
            self._queue.append(frame)
        elif frame.kind is Kind.MARKER:
            self._marked(frame)
        elif frame.kind is Kind.FLUSH:  # what came before it waits here, in front of all that will come
            with suppress(ConnectionError):
                channel.send(Frame(Kind.FLUSH, b"", frame.sequence, told=True))
        else:
            raise ProtocolError(f"a {frame.kind.name} frame came for a graph")

    def _marked(self, frame: Frame) -> None:
        """All rows of a sender for the units of a movement are here; those that wait leave with the units."""
        sender = read_mark(frame)
        self._host.mark(frame.sequence, sender)

    def _unsent(self, frame: Frame) -> None:
        """Rows of a feeder could not be sent on: it is turned out when the next frame is served."""
        self._cut_off.add(flow_head(frame).feeder)

    def faults(self) -> list[FeederFault]:
        """The feeders that cannot go on, because rows of theirs could not be sent; each is told once."""
        gone, self._cut_off = self._cut_off & self._feeders.keys(), set()
        why = ProtocolError("rows could not be sent on: another worker cannot be reached")
        return [FeederFault(self._feeders[feeder][0], why) for feeder in sorted(gone)]

    def begin(self) -> None:
        """Let feeders begin whose routing is known here, and whose rows can go on to all other workers."""
        for channel, session in list(self._beginning):
            known = self.routings.known(session.region)
            if known is not None and known.reached(session.version, session.move) and self.peers.met():
                self._beginning.remove((channel, session))
                with suppress(ConnectionError):  # it has just gone, and the poller will say so
                    channel.send(Frame(Kind.FLUSH, told=True))

    @property
    def waiting(self) -> str:
        """The region of the frame whose turn it is; empty if none waits."""
        while (frame := self._queue.first) is not None:
            if self.peers.unsent > QUEUE_BYTES:
                return ""  # other workers always read, so this gets less
            feeder = self._feeders.get(flow_head(frame).feeder)
            if feeder is not None:
                return feeder[1].region
            self._queue.take()  # its task is over
        return ""

    def serve(self) -> None:
        """Serve the frame whose turn it is."""
        self._flow(self._queue.take())

    # -- routing

    def obey(self, order: FlowOrder) -> None:
        """Do what the controller says about the ways of rows."""
        if isinstance(order, GraphRouting):
            for channel in self.peers.meet(order.workers):
                self._flushed_by(channel)
        self.routings.obey(order)
        if len(self.routings) > KEPT_GRAPHS:
            self._let_go()
        if not isinstance(order, PauseUnits):
            self._tidy(order.region)
        self.begin()

    def take_rows(self, region: str, units: Sequence[int]) -> list[Frame]:
        """Take the rows that wait for some units of a graph out of the queue, in their order."""
        known = self.routings.get(region)
        graph = self._graph(known.order.operator) if known is not None else None
        if not isinstance(graph, HostedGraph):
            return []
        leaving = np.zeros(graph.units, np.bool_)
        leaving[list(units)] = True

        def divide(frame: Frame) -> tuple[list[Frame], Frame | None]:
            head = flow_head(frame)
            channel, session = self._feeders.get(head.feeder, (None, None))
            if channel is None or session is None or session.region != region:
                return [], frame
            try:
                found = divided(frame, head, graph, leaving, self._new_id)
            except Exception:  # it fails when it is served
                return [], frame
            if found.new:
                with suppress(ConnectionError):
                    channel.send(done_frame(frame.part, found.new, 0))
            return found.leaving, found.staying

        return self._queue.take_parts(divide)

    def keep_rows(self, region: str, move: int, units: Sequence[int], rows: Sequence[Frame]) -> bool:
        """Units have come, with the rows that waited for them; False if the graph is not known here."""
        for frame in rows:
            flow_head(frame)
        return self.routings.bring(region, move, units, rows)

    def flush(self, move: int, region: str) -> bool:
        """Ask all who get rows of a graph from here whether those are there; False if there is nobody to ask.

        When all have answered, the movement is told (`FlushedEvent`). So rows that the next owner of its units sends
        cannot overtake those that were sent from here.
        """
        flush = Frame(Kind.FLUSH, b"", move)
        asked: set[Channel] = set(self.peers.flush(move)) if region in self.routings else set()
        for channel, session in list(self._feeders.values()):
            if session.region == region:
                with suppress(ConnectionError):
                    channel.send(flush)
                    asked.add(channel)
        if asked:
            self._flushing[move] = asked
        return bool(asked)

    def _flushed_by(self, channel: Channel, move: int | None = None) -> None:
        """All before a flush is through on this connection; without a `move`, the connection is over."""
        for number, asked in list(self._flushing.items()):
            if move in (None, number):
                asked.discard(channel)
                if not asked:
                    del self._flushing[number]
                    self._host.mover.handle(FlushedEvent(number))

    # -- rows

    def _flow(self, frame: Frame) -> None:
        head = flow_head(frame)
        feeder = self._feeders.get(head.feeder)
        if feeder is None:
            return  # its task is over
        channel, session = feeder
        known, graph = self.routings.known(session.region), self._graph(session.operator)
        if known is None or known.ways is None or not isinstance(graph, HostedGraph):
            raise FeederFault(channel, ProtocolError(f"rows of region {session.region} came before its graph"))
        passed = partial(self._passage, session, channel, graph, known, self._clock() + self._turn_s)
        due = deque([(frame.part, head.turn, frame.sequence, lambda passage: passage.run(head))])
        try:
            while due:  # behind an order, rows that were held follow
                root, turn, identity, step = due.popleft()
                for stream, held in passed(root, turn, identity, step):
                    going_on = partial(Passage.go_on, stream=stream, rows=held.rows)
                    due.append((held.root, held.turn, held.identity, going_on))
        except PassageFailed as failed:
            self._fail(channel, 0, failed.error, failed.where)
        except Exception as error:  # rows that do not fit, or a result that is too large: nobody else's fault
            raise FeederFault(channel, error) from error
        finally:
            self._queue.put_first(self._left)
            self._left = []

    def _passage(
        self,
        session: Session,
        channel: Channel,
        graph: HostedGraph,
        known: HostedWays,
        until: float,
        root: int,
        turn: int,
        identity: int,
        step: Callable[[Passage], int],
    ) -> list[tuple[int, HeldTurn]]:
        """Take rows as far as they go here, and answer that; rows that were held and follow."""
        counts = self._counts.get(session.region)
        if counts is None:
            counts = self._counts[session.region] = FlowCounts(graph.plan.units, self._clock())
        around = Surroundings(self._worker, self._host, self._pace, self._clock, until, counts, self._new_id)
        assert known.ways is not None
        send_on = partial(self._send, known, session.feeder, root, counts)
        began = self._clock()
        passage = Passage(session, channel, graph, known.ways, root, turn, around, send_on)
        caused = step(passage)
        took = self._clock() - began
        self.rows += passage.rows
        self.frames += 1
        self.busy_s += took
        counts.busy_s += took
        self._host.served(session.region, took)
        with suppress(ConnectionError):  # it has just gone, and the poller will say so
            channel.send(done_frame(root, identity ^ caused, int(took * 1e6)))
        return passage.following

    def _new_id(self) -> int:
        return self._random_bits(ID_BITS)

    def _send(self, known: HostedWays, feeder: int, root: int, counts: FlowCounts, bundle: Bundle) -> int:
        """Send rows on, hold them, or leave them for later if they are for here; the XOR of the ids of their frames."""
        mark = 0
        for rows, part in batch_parts(bundle.rows, bundle.uncut):
            number = self._new_id()
            mark ^= number
            frame = flow_frame(number, root, bundle.turn, feeder, bundle.ports, part, rows)
            if bundle.worker == self._worker:
                self._left.append(frame)
            elif bundle.worker < 0:
                self.routings.hold(known, -bundle.worker, frame, rows)
            elif self.peers.send(bundle.worker, frame, rows):
                counts.add_sent(bundle.worker, rows, part.nbytes)
            else:
                raise ProtocolError(f"worker {bundle.worker} cannot be reached")
        return mark

    def report(self, now: float) -> None:
        """Send the statistics of every graph that is due for a report."""
        for region, counts in list(self._counts.items()):
            if now - counts.reported >= REPORT_S and counts.any:
                about = (
                    self._queued(region),
                    self.calibration.standard_us(now),
                    self.peers.round_trips,
                    self.peers.bandwidths,
                )
                self._host.tell(counts.news(region, now, *about, self._filters(region)))

    def _queued(self, region: str) -> int:
        """Rows that wait here, of one graph."""
        feeders, rows = self._feeders.items(), self._queue.rows
        return sum(rows.get(feeder, 0) for feeder, (_, session) in feeders if session.region == region)

    def _filters(self, region: str) -> Mapping[str, Filters]:
        known = self.routings.get(region)
        graph = self._graph(known.order.operator) if known is not None else None
        return graph.filters if isinstance(graph, HostedGraph) else {}
