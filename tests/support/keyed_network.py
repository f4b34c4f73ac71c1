"""A simulated network: ordered pipes instead of sockets, whose every delivery is the scheduler's choice.

`Board` and `Line` stand in for `Poller` and `Channel`. A frame is first with its sender (`out`, while the pipe is
full), then in flight, then arrived; only `Pipe.carry` brings it on. Who dies leaves behind some of what was in flight.
"""

from collections import deque
from dataclasses import replace
from itertools import count

from evenflow.runtime.wire.channel import PeerGone
from evenflow.runtime.wire.poller import Lost, Opened, Received

SHAKE = "the handshake is done"
END = "the connection is over"


class Turn(BaseException):
    """An actor has nothing more to do: its turn is over, and its loop is entered afresh at the next."""


class Pipe:
    """One direction of one connection."""

    def __init__(self, name, capacity, laziness):
        self.name = name
        self.capacity = capacity
        self.laziness = laziness
        """How often the scheduler passes this pipe over."""
        self.out, self.flight, self.arrived = deque(), deque(), deque()
        self.dead = self.over = False
        """Nobody reads it any more; nobody writes it any more."""

    def put(self, item):
        if not self.dead and not self.over:
            self.out.append(item)
            self.flush()

    def flush(self):
        while self.out and len(self.flight) + len(self.arrived) < self.capacity:
            self.flight.append(self.out.popleft())

    @property
    def room(self):
        """Whether something waits that could go out."""
        return bool(self.out) and len(self.flight) + len(self.arrived) < self.capacity

    def carry(self, most):
        for _ in range(min(most, len(self.flight))):
            self.arrived.append(self.flight.popleft())

    def end(self, kept=None):
        """The writer is gone: of what is in flight, the first `kept` items still come."""
        if self.over:
            return
        self.over = True
        self.out.clear()
        while kept is not None and len(self.flight) > kept:
            self.flight.pop()
        if not self.dead:
            self.flight.append(END)

    def die(self):
        """The reader is gone."""
        self.dead = True
        for queue in (self.out, self.flight, self.arrived):
            queue.clear()


class Line:
    """One end of a connection, as its owner sees it."""

    address = "sim"
    failure = None

    def __init__(self, peer, outgoing, incoming):
        self.peer = peer
        self.outgoing, self.incoming = outgoing, incoming
        self.reading = True
        self.open = False
        self._early = []

    @property
    def unsent(self):
        return 100 * len(self.outgoing.out)

    @property
    def news(self):
        """Whether a poller would mention it."""
        if self.incoming.arrived and (self.reading or not self.open):
            return True
        return bool(self.outgoing.out) and self.outgoing.room

    def send(self, frame):
        arrived = self.incoming.arrived
        if arrived and arrived[-1] is END:
            raise PeerGone(f"{self.peer} is gone")
        if not self.open:
            self._early.append(frame)
            return
        self.outgoing.put(replace(frame, body=bytes(frame.body)))

    def receive(self, most):
        frames, arrived = [], self.incoming.arrived
        while arrived and len(frames) < most:
            if arrived[0] is END:
                if not frames:
                    raise PeerGone(f"{self.peer} closed the connection")
                break
            item = arrived.popleft()
            if item is SHAKE:
                self._opened()
            else:
                frames.append(item)
        return frames

    def cut(self, rng):
        """The connection breaks, and neither side knows yet; some of what is in flight still comes."""
        for pipe in (self.outgoing, self.incoming):
            pipe.end(rng.randint(0, len(pipe.flight)))

    def _opened(self):
        self.open = True
        for frame in self._early:
            self.send(frame)

    def close(self):
        self.outgoing.end()
        self.incoming.die()


class Network:
    """All pipes, and who listens where."""

    capacities = (1, 3, 1000)
    """Frames that a pipe takes before its sender has to wait."""

    def __init__(self, rng):
        self.rng = rng
        self.pipes = []
        self.listeners = {}
        self._ports = count(1000)

    def listen(self, poller):
        port = next(self._ports)
        self.listeners[port] = poller
        return port

    def connect(self, poller, port, peer):
        server = self.listeners.get(port)
        if server is None and self.rng.random() < 0.5:
            raise PeerGone(f"{peer} cannot be reached")
        there, back = self._pipe(f"{poller.name} > {port}"), self._pipe(f"{port} > {poller.name}")
        line = Line(f"{peer} at sim:{port}", there, back)
        if server is None:
            there.die()
            back.end()
        else:
            there.put(SHAKE)
            back.put(SHAKE)
            server.lines.append(Line(poller.name, back, there))
        return line

    def _pipe(self, name):
        pipe = Pipe(name, self.rng.choice(self.capacities), self.rng.choice((0, 0, 0, 0.8, 0.97)))
        self.pipes.append(pipe)
        return pipe

    def deliverable(self):
        """Pipes on which something could be brought on; those that are over are forgotten."""
        flying = [pipe for pipe in self.pipes if pipe.flight]
        if any(pipe.dead for pipe in self.pipes):
            self.pipes = [pipe for pipe in self.pipes if not pipe.dead or pipe.flight]
        return flying


class Board:
    """One process's connections; `turn` gives the scheduler its say before each poll."""

    def __init__(self, network, name, turn):
        self.name = name
        self.lines = []
        self.waited_s = 0.0
        self._network = network
        self._turn = turn
        self.bell = False

    @property
    def news(self):
        """Asked of everybody at every step of a history, so it is written to be fast."""
        if self.bell:
            return True
        for line in self.lines:  # noqa: SIM110 - `any` takes twice the time
            if line.news:
                return True
        return False

    def listen(self, _host, _buffer=None):
        return self._network.listen(self)

    def connect(self, _host, port, peer, _patience=0.0, buffer=None):
        line = self._network.connect(self, port, peer)
        self.lines.append(line)
        return line

    def wake(self):
        self.bell = True

    def poll(self, timeout, most=8):
        self._turn(timeout)
        yield from self.happenings(most)

    def happenings(self, most):
        """What has arrived, one line after the other, in any order."""
        self.bell = False
        ready = [line for line in self.lines if line.news]
        self._network.rng.shuffle(ready)
        for line in ready:
            if line in self.lines:
                yield from self._serve(line, most)

    def _serve(self, line, most):
        was_open, frames, reason = line.open, [], ""
        line.outgoing.flush()
        try:
            if line.reading or not line.open:
                frames = line.receive(most)
        except PeerGone as error:
            reason = str(error)
        if line.open and not was_open:
            yield Opened(line)
        for frame in frames:
            if line in self.lines:
                yield Received(line, frame)
        if reason and line in self.lines:
            self.drop(line)
            yield Lost(line, reason, line.open)

    def drop(self, line):
        if line in self.lines:
            self.lines.remove(line)
            line.close()

    def close(self):
        for line in list(self.lines):
            self.drop(line)
        self._silence()

    def die(self):
        """As when the process is killed: what is in flight arrives in part."""
        for line in self.lines:
            line.outgoing.end(self._network.rng.randint(0, len(line.outgoing.flight)))
            line.incoming.die()
        self.lines = []
        self._silence()

    def _silence(self):
        listeners = self._network.listeners
        for port in [port for port, poller in listeners.items() if poller is self]:
            del listeners[port]
