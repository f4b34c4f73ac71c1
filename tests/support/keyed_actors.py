"""Who acts in a simulated cluster: processes, feeders as fibers, the driver; and the user's code they run."""

import contextlib
import threading
from dataclasses import dataclass

from evenflow.model.entries import entry_of
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.wire.poller import Lost, Received
from evenflow.runtime.worker.moves.direct_transfer import DirectTransfer
from tests.support.keyed_network import Turn
from tests.support.keyed_rig import Nth
from tests.support.records import fields_of


class Killed(BaseException):
    """A feeder's process is killed."""


class Trouble(Exception):
    """What the user's code runs into."""


def _unpickle(counts, fails):
    if fails.due():
        raise Trouble("unpickling fails")
    return Brittle(counts, fails)


@dataclass
class Fails:
    """Where and how often an operator fails: the counter is shared by all of its copies, which are in one process."""

    where: str
    unit: int
    times: float
    number: int
    left = {}  # noqa: RUF012 - by number

    def due(self, where=None, unit=None):
        if where is not None and (where, unit) != (self.where, self.unit):
            return False
        left = Fails.left.setdefault(self.number, self.times)
        Fails.left[self.number] = left - 1
        return left > 0


@dataclass
class Brittle:
    """State that does not like to be pickled."""

    counts: dict
    fails: Fails

    def __reduce__(self):
        if self.fails.where == "pickle" and self.fails.due():
            raise Trouble("pickling fails")
        return (_unpickle, (self.counts, self.fails)) if self.fails.where == "unpickle" else (dict, (self.counts,))


@dataclass
class Fragile(Nth):
    """Nth with a unit that fails."""

    fails: Fails = None

    def extract(self, unit):
        if self.fails.due("extract", unit):
            raise Trouble("extract fails")
        state = super().extract(unit)
        if state is None or unit != self.fails.unit:
            return state
        return Brittle(state[0], self.fails), b""

    def install(self, unit, state):
        if self.fails.due("install", unit):
            raise Trouble("install fails")
        counts = state[0].counts if isinstance(state[0], Brittle) else state[0]
        super().install(unit, (counts, b""))


class Process:
    """A process whose loop keeps nothing in local variables: a worker, or a worker's direct transfer."""

    def __init__(self, world, name, number=None):
        self.world, self.name, self.number = world, name, number
        self.poller = None
        self.run = None
        self.until = 0.0
        self.alive = True
        self._polled = False

    def turn(self, timeout):
        if self._polled:
            self.until = self.world.now + timeout
            raise Turn
        self._polled = True

    @property
    def ready(self):
        return self.alive and (self.world.now >= self.until or self.poller.news)

    def step(self):
        self._polled = False
        with contextlib.suppress(Turn):
            self.run()
            self.alive = False
        return self.alive


class Fiber:
    """A feeder: blocking code in a thread of its own that runs only when the scheduler says so."""

    def __init__(self, world, name, body):
        self.world, self.name = world, name
        self.poller = None
        self.until = 0.0
        self.alive, self.killed = True, False
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._body = body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def ready(self):
        return self.alive and (self.world.now >= self.until or (self.poller is not None and self.poller.news))

    def step(self):
        self.world.current = self
        self._go.release()
        self._back.acquire()
        if not self.alive:
            self._thread.join()

    def turn(self, timeout):
        """From inside: wait for news or for time to pass."""
        self.until = self.world.now + timeout
        self._back.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def kill(self):
        if self.alive:
            self.killed = True
            if self.poller is not None:
                self.poller.die()
            self.step()

    def _run(self):
        self._go.acquire()
        self._body()
        self.alive = False
        self._back.release()


class SimTransfer(DirectTransfer):
    """The real direct transfer, without its thread."""

    def serve(self):
        """What its thread does."""
        self._run()


class StrictDriver(ControllerThread):
    """The real driver, without its thread, that lets no error pass."""

    def __init__(self, *about, **options):
        super().__init__(*about, **options)
        self._zero = 0.0

    def handle(self, event):
        """Give it an event."""
        self._do(event)

    def lend(self, operator, code):
        """Make an operator available for good."""
        self.add_code(operator, code)
        self._code[operator] = code

    def serve(self):
        """What its thread does in one round."""
        for happening in self._poller.happenings(8):
            match happening:
                case Received(channel=channel, frame=frame):
                    self._received(channel, frame)
                case Lost(channel=channel, reason=reason, known=known):
                    self._lost(channel, reason, known)
        while not self._posted.empty():
            self._do(self._posted.get()[0])

    def _received(self, channel, frame):
        self._hear(channel, frame)

    def _handle(self, event):
        self._do(event)

    def _welcome(self, channel, feeder):
        self._carry_out(self._controller.handle(feeder))


class Log(list):
    """The event log."""

    def write(self, record):
        told = {"time": record.time, "event": record.event, **fields_of(record)}
        assert entry_of(told) == record, "readers of the log must know it"
        self.append(told)


class NoThread:
    """Instead of a thread: the scheduler calls the loop."""

    def __init__(self, _thread):
        pass

    def join(self, _timeout=None):
        pass

    def is_alive(self):
        return False
