"""A cluster without Spark: the real driver, real workers in threads or processes, feeders in the test's own thread."""

import contextlib
import pickle
import queue
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from msgspec import msgpack
from pyspark import cloudpickle

from evenflow.control.controller import Controller
from evenflow.control.events import RegionOpenedEvent
from evenflow.model.messages import Message, Shutdown, WorkerHello
from evenflow.operators.map import MapOperator
from evenflow.policy import RoundRobin
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.feeder.ordered.feeder import OrderedFeeder, OrderedTask
from evenflow.runtime.feeder.ordered.splitter import LIMITS
from evenflow.runtime.wire.frames import Decoder, Encoder, Frame, Kind
from evenflow.runtime.wire.handshake import Handshake
from evenflow.runtime.wire.messages import TO_WORKER, control
from evenflow.runtime.wire.poller import Lost, Opened, Poller, Received
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.environment import REAL
from evenflow.runtime.worker.loop import Worker

HOST = "127.0.0.1"
SECRET = b"the rig's secret".ljust(32)
PATIENCE_S = 60.0
"""How long anything may take before a test gives up: generous, the machine is busy."""
IDS = pa.schema([("id", pa.int64())])

_PROCESS = """
import pickle, sys
from evenflow.runtime.worker.loop import Worker
settings, number = pickle.load(sys.stdin.buffer)
worker = Worker(settings, number, (0, 0))
try:
    worker.run()
finally:
    worker.close()
"""


def until(condition, what="that"):
    """Wait for a condition; its value."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S:.0f} s"
        time.sleep(0.005)
    return value


def ids(start, stop):
    return pa.RecordBatch.from_arrays([pa.array(range(start, stop), pa.int64())], schema=IDS)


def batches(rows, size, schema_of=ids):
    """`rows` rows in batches of `size`."""
    return [schema_of(start, min(start + size, rows)) for start in range(0, rows, size)]


@dataclass
class Even(RoundRobin):
    """An even split with any of the splitters."""

    splitting: ClassVar[str] = "block"


class Rig:
    def __init__(
        self,
        workers=2,
        *,
        processes=False,
        start=True,
        period=0.05,
        stall_timeout=PATIENCE_S,
        emulate=None,
        environment=REAL,
    ):
        self.environment = environment
        self.size = workers
        self.log = EventLog(None)
        self.driver = ControllerThread(Controller(workers), SECRET, HOST, period, self.log)
        self.settings = Settings("rig", HOST, self.driver.port, SECRET, period, stall_timeout, emulate)
        self.threads, self.processes = {}, {}
        self.ended = {}
        self.regions = 0
        self.closed = False
        if start:
            for number in range(workers):
                (self.start_process if processes else self.start_thread)(number)
            self.await_live(workers)

    def start_thread(self, number):
        def serve():
            worker = Worker(self.settings, number, (0, 0), self.environment)
            try:
                self.ended[number] = worker.run()
            except Exception as error:  # as when a Spark task fails
                self.ended[number] = error
            finally:
                worker.close()

        self.threads[number] = threading.Thread(target=serve, name=f"worker-{number}")
        self.threads[number].start()

    def start_process(self, number):
        process = subprocess.Popen([sys.executable, "-c", _PROCESS], stdin=subprocess.PIPE)
        process.stdin.write(pickle.dumps((self.settings, number)))
        process.stdin.close()
        self.processes[number] = process

    def await_live(self, count):
        until(lambda: self.driver.ask(Controller.live) == count, f"{count} live workers")

    def workers(self):
        return self.driver.ask(lambda controller: controller.workers(0.0))

    def events(self, name):
        return [entry for entry in self.driver.events() if entry["event"] == name]

    def feed(self, function, schema=IDS, *, balance=None, form="arrow", ordered=True):
        """What `Cluster.ordered_map` would give Spark."""
        self.regions += 1
        region, operator = f"r{self.regions}", f"op{self.regions}"
        balance = balance or Even()
        self.driver.add_code(operator, cloudpickle.dumps(MapOperator(function, schema, form)))
        self.driver.open_region(RegionOpenedEvent(self.driver.now(), region, operator, balance))
        arrow = schema.serialize().to_pybytes()
        return OrderedTask(self.settings, region, operator, arrow, balance.splitting, ordered)

    def map(self, function, rows, schema=IDS, *, limits=LIMITS, **kwargs):
        """Run batches through a region; all of the result as one table."""
        feeder = OrderedFeeder(self.feed(function, schema, **kwargs), limits=limits)
        return pa.Table.from_batches(feeder.serve(iter(rows)), schema)

    def close(self):
        if self.closed:
            return
        self.closed = True
        self.driver.stop()
        for thread in self.threads.values():
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name} did not stop"
        for process in self.processes.values():
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
        self.driver.close()


class Peer:
    """A peer written by hand: blocking, with or without the secret."""

    def __init__(self, port, secret=SECRET):
        self.sock = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        self.handshake = Handshake(secret, b"n" * 32, server=False)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.sock.close()

    def shake(self):
        self.sock.sendall(self.handshake.start())
        self.sock.sendall(self.handshake.receive(self.exactly(self.handshake.expects)))
        sending, receiving = self.handshake.seeds()
        self.encoder, self.decoder = Encoder(sending), Decoder(receiving)
        return self

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            assert part, "closed"
            data += part
        return data

    def send(self, *frames):
        for frame in frames:
            self.sock.sendall(b"".join(self.encoder.encode(frame)))

    def say(self, message):
        """Send a message, or in its place what is none."""
        self.send(control(message) if isinstance(message, Message) else Frame(Kind.CONTROL, msgpack.encode(message)))

    def frames(self):
        """The frames that come, until the other side closes."""
        while data := self.sock.recv(65536):
            yield from self.decoder.feed(data)

    def is_dropped(self):
        """Read until the other side closes."""
        with contextlib.suppress(ConnectionResetError):  # which is one way to be dropped
            while self.sock.recv(65536):
                continue
        return True


class Impostor:
    """A worker written by the test: registers like one, then does with a feeder's frames what `answer` says."""

    def __init__(self, rig, number, answer):
        self.rig, self.number, self.answer = rig, number, answer
        self.poller = Poller(SECRET)
        self.control = self.poller.connect(HOST, rig.settings.port, "the controller")
        self.stopped = threading.Event()
        self.posted = queue.SimpleQueue()
        rig.threads[number] = threading.Thread(target=self.run, name=f"impostor-{number}")
        rig.threads[number].start()

    def run(self):
        try:
            while not self.stopped.is_set():
                for happening in self.poller.poll(0.05):
                    self.take(happening)
                while not self.posted.empty():
                    self.posted.get()()
        finally:
            self.poller.close()

    def take(self, happening):
        match happening:
            case Opened(channel=channel) if channel is self.control:
                port = self.poller.listen(HOST)
                channel.send(control(WorkerHello(self.number, HOST, port, 0)))
            case Received(channel=channel, frame=frame) if channel is self.control:
                if frame.kind is Kind.CONTROL and isinstance(TO_WORKER.read(frame), Shutdown):
                    self.stopped.set()
            case Received(channel=channel, frame=frame) if frame.kind is Kind.DATA:
                self.answer(channel, frame)
            case Lost(channel=channel) if channel is self.control:
                self.stopped.set()

    def post(self, action):
        """Do something from the impostor's own thread, which owns the channels."""
        self.posted.put(action)
        self.poller.wake()

    def die(self):
        """Go away as a killed process does: every connection at once."""
        self.stopped.set()
        self.poller.wake()
