"""Fuzzed peers: frames, handshakes, messages and movements that are not what they should be.

Each target makes one case from a draw and says what became of it: `refused`, or `harmless` where the change made no
difference to anybody. It raises `Wrong` if anything else happens; whatever else it raises is wrong, too.
"""

from __future__ import annotations

import pickle
import random
import time
from collections import deque
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from msgspec import msgpack

from evenflow.control.controller import Controller
from evenflow.control.events import GraphPlacing, RegionOpenedEvent, TickEvent
from evenflow.errors import HandshakeError, ProtocolError
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.model.latency import Latencies
from evenflow.model.messages import (
    CodeWanted,
    ConnectionCounts,
    ConsumerReport,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederHello,
    FeederReport,
    FlowProgress,
    FlowReport,
    MarkedUnits,
    MemorySet,
    Message,
    MoveReport,
    OpenKeyed,
    RowsDiffer,
    SentCounts,
    StateLoaded,
    UnitsSaved,
    WorkerHello,
    WorkerReport,
    WorkerTrouble,
)
from evenflow.model.tickets import ticket
from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.hosted import Hosted
from evenflow.policy import Hash, RoundRobin
from evenflow.policy.graph.round_robin import RoundRobinPlacement
from evenflow.runtime.driver import controller_thread as driver
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Decoder, Encoder, Frame, Kind
from evenflow.runtime.wire.handshake import NONCE_BYTES, Handshake
from evenflow.runtime.wire.messages import control, packed
from evenflow.runtime.wire.poller import Poller
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker import loop as worker
from evenflow.runtime.worker.environment import Clock, Wake, WorkerEnvironment
from evenflow.runtime.worker.limits import LIMITS, WorkerLimits
from evenflow.runtime.worker.moves import direct_transfer
from evenflow.runtime.worker.moves.label import Label
from evenflow.runtime.worker.rows.instances import process
from tests.support.mutations import bytes_of, message_of

SECRET = b"of the fuzz".ljust(32)
UNITS = 9
FRESH = 500
"""Cases after which whoever is tried starts anew: state of evaluations that nobody ends is not what is tried."""


class Wrong(AssertionError):
    """Something else happened than a refusal."""


class Line:
    """Stands in for a channel."""

    def __init__(self, peer: str = "somebody") -> None:
        self.peer = peer
        self.address = "nowhere"
        self.open = self.reading = True
        self.unsent = 0
        self.sent: deque[Frame] = deque(maxlen=100)
        self.dropped = False

    def send(self, frame: Frame) -> None:
        """Keep it."""
        self.sent.append(frame)


class Board:
    """Stands in for a poller: nobody is there but those whom a case sends."""

    waited_s = 0.0

    def connect(self, *_args: Any, **_options: Any) -> Line:
        """Somebody who answers nothing."""
        return Line("the other side")

    def listen(self, *_args: Any) -> int:
        """A port."""
        return 1

    def drop(self, line: Line) -> None:
        """Note it."""
        line.dropped = True

    def wake(self) -> None:
        """Nobody sleeps."""

    def close(self) -> None:
        """Nothing is open."""


def _transfer(
    _secret: bytes, _clock: Clock, wake: Wake, key: str, limits: WorkerLimits
) -> direct_transfer.DirectTransfer:
    return direct_transfer.DirectTransfer(cast(Poller, Board()), wake, key, part_bytes=limits.part_bytes)


NO_SOCKETS = WorkerEnvironment(poller=lambda *_: cast(Poller, Board()), direct_transfer=_transfer)


class StillDriver(driver.ControllerThread):
    """Without its thread."""

    def _run(self) -> None:
        pass


def mutated(draw: random.Random, frame: Frame, message: bool = False) -> Frame:
    """One frame changed: its fields, its bytes or, if it holds a message, that."""
    body, kind, sequence, part = bytes(frame.body), frame.kind, frame.sequence, frame.part
    match draw.randrange(6):
        case 0:
            kind = draw.choice(list(Kind))
        case 1:
            sequence, part = draw.choice((0, 1, 7, 2**63, 2**64 - 1)), draw.choice((0, 1, 2**31, 2**32 - 1))
        case 2 | 3 | 4 if message:
            body = msgpack.encode(message_of(draw, msgpack.decode(body)))
        case _:
            body = bytes_of(draw, body)
    return replace(frame, kind=kind, body=body, sequence=sequence, part=part)


class Frames:
    """A receiver gets the frames that were sent, up to the damage, and not one other."""

    def case(self, draw: random.Random) -> str:
        """Change the bytes of one connection."""
        seed = draw.getrandbits(64)
        encoder = Encoder(seed)
        sent = [
            Frame(draw.choice(list(Kind)), draw.randbytes(draw.choice((0, 3, 50, 400))), number)
            for number in range(draw.randrange(1, 4))
        ]
        whole = b"".join(part for frame in sent for part in encoder.encode(frame))
        data = bytes_of(draw, whole)
        decoder, refused = Decoder(seed), False
        found: list[Frame] = []
        cut = draw.randrange(len(data) + 1)
        try:
            for piece in (data[:cut], data[cut:]):
                found += decoder.feed(piece)
        except ProtocolError:
            refused = True
        if found != sent[: len(found)] or (len(found) == len(sent) and not data.startswith(whole)):
            raise Wrong(f"{len(found)} frames came of {len(sent)}, and not those that were sent")
        return "refused" if refused or len(found) < len(sent) else "harmless"


class Handshakes:
    """Both sides trust each other only if every byte was as it should be."""

    def case(self, draw: random.Random) -> str:
        """Change one of the three messages."""
        client, server = (Handshake(SECRET, draw.randbytes(NONCE_BYTES), who) for who in (False, True))
        which, data, changed = draw.randrange(3), client.start(), False
        try:
            for number in range(3):
                if number == which:
                    before, data = data, bytes_of(draw, data)
                    changed = data != before
                side = client if number == 1 else server
                if len(data) != side.expects:  # the channel waits for more, or takes what it expects
                    data = data.ljust(side.expects, b"\0")[: side.expects]
                    changed = changed and data != before[: side.expects]
                data = side.receive(data)
        except HandshakeError:
            return "refused"
        if changed:
            raise Wrong(f"message {which} of a handshake was changed, and both sides are content")
        return "harmless"


class ToController:
    """Messages to the controller: they cost their sender the connection, or nothing; the controller goes on."""

    def __init__(self) -> None:
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        board = cast(Poller, Board())
        self._driver = StillDriver(Controller(4), SECRET, "nowhere", 1.0, EventLog(None), poller=board)
        self._driver.join(10)
        nodes = NodeShape("a", "filter", 0, 1, (1,), (-1,)), NodeShape("b", "keyed", 1, UNITS - 2, (), (0,), True)
        graph = GraphPlacing(GraphShape(("s",), nodes), RoundRobinPlacement())
        for name, units, placing in (("keyed", UNITS, None), ("ordered", 0, None), ("graph", UNITS, graph)):
            balance: Any = Hash() if units else RoundRobin()
            self._driver.add_code("op", b"code")
            self._driver._handle(RegionOpenedEvent(0.0, name, "op", balance, units, graph=placing))
        self._honest = self._say(Line("honest"), self._hello(0))

    def _hello(self, number: int) -> WorkerHello:
        return WorkerHello(number, "h", 1, 1, (0, 0), 2, 3, "k")

    def _say(self, line: Line, message: Message) -> Line:
        self._driver._received(cast(Channel, line), control(message))
        return line

    def _talk(self, draw: random.Random) -> list[Message]:
        """What a worker, or a feeder, says in its life."""
        units, counts = np.arange(3, dtype=np.int32), np.arange(3)
        if draw.random() < 0.5:
            seconds, memory = (1.0, 0.5, 0.5), (0, 0, 0)
            return [
                self._hello(draw.randrange(1, 4)),
                WorkerReport(1, 1, 0.1, answers=draw.randrange(3)),
                ConsumerReport("keyed", *seconds, 3, 30, *[units, counts] * 3, *memory, {"late": 1}),
                MemorySet(1 << 20, 1 << 20, 10, 5, 0.1),
                MoveReport(draw.choice(("keyed", "graph")), 1, "installed", "", 1),
                FlowReport(
                    *("graph", 0.1, units, counts, counts, counts, counts, counts),
                    *({0: SentCounts(1, 2, 3)}, 10, 1000.0, {0: 0.001}, {0: 1e6}),
                ),
                StateLoaded("keyed", "query q", 1, "", 1, 1, 0.1),
                RowsDiffer("keyed", "query q", 0, 2, "more rows"),
                UnitsSaved("keyed", "query q", 0, "blob", units, 1),
                WorkerTrouble("a thread", "none"),
                CodeWanted("op"),
            ]
        counters = ConnectionCounts(rows_sent=1, rows_done=1, frames_done=1, busy_s=0.1, incarnation=1)
        return [
            FeederHello(draw.choice(("keyed", "ordered", "graph")), 0, 0, "", 0, str(self._count)),
            FeederBegan(draw.randrange(5)),
            FeederArrivals(units, counts),
            FeederArrivals(units, counts, {0: "alice", 7: "x" * 100}),
            FlowProgress({0: 5}, Latencies({1: 5}, 0.5), {0: 3}),
            FeederReport(1.0, 1, {0: counters}, rows_in=1, latencies=Latencies({1: 5}, 0.5)),
            FeederDraining(),
            FeederEnded({"0.1": 1}, 0.1),
            FeederFailed("the user's code"),
        ]

    def case(self, draw: random.Random) -> str:
        """One peer says one thing that is not right."""
        self._count += 1
        if self._count % FRESH == 0:
            self._check()
            self._begin()
        line, talk = Line(), self._talk(draw)
        which = draw.randrange(len(talk))
        for number, message in enumerate(talk):
            frame = control(message)
            if number == which:
                frame = mutated(draw, frame, message=True)
            self._driver._received(cast(Channel, line), frame)
            if line.dropped:
                return "refused"
        self._driver._lost(cast(Channel, line), "it is over", True)
        return "harmless"

    def _check(self) -> None:
        """Everybody who was turned out is forgotten, and whoever makes sense is served."""
        failures = ("controller-error", "balance-failed", "region-failed")
        wrong = [entry for entry in self._driver.events() if entry["event"] in failures]
        wrong += [{"error": self._driver._handle(TickEvent(self._driver.now()))}]
        if wrong != [{"error": ""}]:
            raise Wrong(f"the controller ran into {wrong[0]}")
        if not set(self._driver._peers.channels.values()) <= {self._honest} or self._driver._controller._feeders.peers:
            raise Wrong("the controller keeps peers that are gone")
        late = self._say(Line("honest"), self._hello(0))
        asks = self._say(Line("honest"), FeederHello("ordered", 0, 0, "", 0))
        if late.dropped or asks.dropped or not asks.sent:
            raise Wrong("the controller does not serve those who make sense")


class ToWorker:
    """Frames to a worker: they cost their sender the connection, or nothing; others are served, and rightly."""

    def __init__(self) -> None:
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        self._worker = worker.Worker(Settings("fuzz", "nowhere", 1, SECRET, 1.0, 1.0), 0, (0, 0), NO_SOCKETS)
        self._schema = pa.schema([("x", pa.float64()), ("s", pa.string()), ("key", pa.int64())])
        self._out = pa.schema([("x", pa.float64()), ("s", pa.string()), ("x_last", pa.float64())])
        rows = pa.schema([self._schema.field(0), self._schema.field(1)])
        self._hosted = Hosted(LastValue("x"), rows, self._out, UNITS)
        self._alone = self._hosted.fresh()
        self._worker.assembly.operators.keep("op", pickle.dumps(self._hosted), set())
        self._honest = Line("honest")
        self._worker.opened(cast(Channel, self._honest))
        self._sequence = 0
        for frame in self._opening("honest"):
            self._give(self._honest, frame)

    def _opening(self, evaluation: str) -> list[Frame]:
        request = OpenKeyed("op", "r", evaluation, 1, UNITS)
        return [Frame(Kind.OPEN, packed(request)), Frame(Kind.SCHEMA, bytes(self._schema.serialize()))]

    def _rows(self, draw: random.Random) -> tuple[pa.RecordBatch, Frame]:
        count = draw.randrange(1, 5)
        arrays = [
            pa.array([draw.random() for _ in range(count)]),
            pa.array([draw.choice(("", "a", "some text", None)) for _ in range(count)]),
            pa.array([draw.randrange(5) for _ in range(count)], pa.int64()),
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._sequence += 1
        return batch, Frame(Kind.DATA, bytes(batch.serialize()), self._sequence)

    def _give(self, line: Line, frame: Frame) -> None:
        """As the worker's loop would."""
        self._worker.received(cast(Channel, line), frame)
        self._worker.serve_waiting()

    def case(self, draw: random.Random) -> str:
        """One peer sends one frame that is not right."""
        self._count += 1
        if self._count % FRESH == 0:
            self._worker.close()
            self._begin()
        line = Line()
        self._worker.opened(cast(Channel, line))
        marker = Frame(Kind.MARKER, packed(MarkedUnits((1,))), 1)
        frames = [*self._opening("fuzz"), self._rows(draw)[1], marker, Frame(Kind.DRAIN)]
        which = draw.choice((0, 0, 0, 1, 2, 2, 3, 4))
        frames[which] = mutated(draw, frames[which], message=not which)
        if draw.random() < 0.1:
            frames.insert(draw.randrange(len(frames)), draw.choice(frames))
        for frame in frames:
            if not line.dropped:
                self._give(line, frame)
        if self._worker.stopped:
            raise Wrong(f"the worker has ended: {self._worker.stopped}")
        failed = any(frame.kind is Kind.ERROR for frame in line.sent)
        if not line.dropped:
            self._worker.lost(cast(Channel, line), "it is over")
        self._check(draw)
        return "refused" if line.dropped or failed else "harmless"

    def _check(self, draw: random.Random) -> None:
        """Somebody who makes sense is answered as if nobody else were there."""
        batch, frame = self._rows(draw)
        self._honest.sent.clear()
        self._give(self._honest, frame)
        answers = [each for each in self._honest.sent if each.kind is Kind.RESULT and each.sequence == frame.sequence]
        if self._honest.dropped or len(answers) != 1:
            raise Wrong(f"an honest feeder got {len(answers)} answers, or was turned out")
        got = pa.ipc.read_record_batch(pa.py_buffer(answers[0].body), self._out)
        (wanted,) = process(self._alone, self._hosted, None, *self._hosted.unpacked(batch))
        if not got.equals(wanted.batch):
            raise Wrong(f"an honest feeder got {got.to_pydict()}, not {wanted.batch.to_pydict()}")


class Bomb:
    """Says so when it is unpickled."""

    read = 0

    def __reduce__(self) -> Any:
        return _count, ()


def _count() -> None:
    Bomb.read += 1


class Movements:
    """Movements that nobody announced, or not so, are refused unread."""

    def __init__(self) -> None:
        self._direct = _transfer(SECRET, time.perf_counter, lambda: None, "a key", LIMITS)
        self._move = 0

    def case(self, draw: random.Random) -> str:
        """Change one of the frames of an announced movement."""
        self._move += 1
        about = (self._move, "r", 1, [1, 2], ["query q"])
        move, region, source, units, evaluations = about
        announced = ticket(self._direct.key, *about)
        label = Label(move, region, "op", source, units, evaluations, announced, {"query q": np.arange(2)})
        parts = [label.packed(), pickle.dumps(Bomb()), draw.randbytes(40)]
        honest = [Frame(Kind.STATE, part, move, part=at, more=at < 2) for at, part in enumerate(parts)]
        frames = list(honest)
        which = draw.choice((0, 0, 0, 1, 2))
        frames[which] = mutated(draw, frames[which], message=not which)
        if draw.random() < 0.1:
            frames.insert(draw.randrange(len(frames)), draw.choice(frames))
        line = Line()
        for frame in frames:
            if not line.dropped:
                self._direct._received(cast(Channel, line), frame)
        self._direct._lost(cast(Channel, line), "it is over")
        return self._outcome(line, label, parts)

    def _outcome(self, line: Line, label: Label, parts: list[bytes]) -> str:
        brought = []
        while not self._direct.inbox.empty():
            news = self._direct.inbox.get()
            if isinstance(news, direct_transfer.Parcel):
                brought.append(news)
        for parcel in brought:
            found = Label.read(parcel.parts[0])
            same = (found.move, found.region, found.source) == (label.move, label.region, label.source)
            if not same or (found.units, found.evaluations) != (label.units, label.evaluations):
                raise Wrong(f"a movement was let in that was not announced: {found}")
        if Bomb.read:
            raise Wrong("state was unpickled in the mover")
        return "harmless" if brought else "refused"
