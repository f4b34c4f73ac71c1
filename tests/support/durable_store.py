"""A store in memory on simulated time, and the threads around it as actors: blob writers, loaders, the driver's.

The real `BlobWriter.collect`, `Loader` and `CheckpointThread` run; only their threads and their waits are replaced.
Puts take time, fail now and then, and when a process dies in the middle of one it may or may not have been done.
"""

from collections import deque
from functools import partial

from evenflow.control.events import SaveInstruction
from evenflow.errors import BlobMissing, StoreError
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.manifests import ManifestWriter
from evenflow.runtime.driver.operator_names import OperatorNames
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.runtime.worker.saving.blob_writer import BlobWriter, Put, PutOutcome
from evenflow.runtime.worker.saving.loader import Loader
from evenflow.state.store.base import Store, checked
from evenflow.state.store.retry import PAUSE_S, TRIES, RetryingStore


class Died(BaseException):
    """The process that used the store was killed in the middle of it."""


class MemoryStore(Store):
    """Blobs in a dict."""

    def __init__(self, world):
        self.world = world
        self.blobs = {}
        self.failing_until = 0.0
        self.sound = False
        """Whether nothing fails for now: somebody looks who is not part of the history."""
        self.left = None
        """Operations that whoever uses it still does before it dies."""

    def put(self, name, parts):
        self._operate("put")
        self.blobs[checked(name)] = b"".join(bytes(part) for part in parts)
        self.world.after_put(name)

    def get(self, name, start=0, length=None):
        self._operate("get")
        if name not in self.blobs:
            raise BlobMissing(f"there is no blob {name}")
        end = None if length is None else start + length
        return memoryview(bytearray(self.blobs[name][start:end]))

    def names(self, prefix=""):
        self._operate("names")
        return [(name, len(blob)) for name, blob in sorted(self.blobs.items()) if name.startswith(prefix)]

    def delete(self, names):
        for name in names:
            self._operate("delete")
            if self.blobs.pop(name, None) is not None:
                self.world.after_delete(name)

    def _operate(self, what):
        if self.sound:
            return
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Died
        elif self.world.now < self.failing_until or self.world.rng.random() < self.world.plan.store_fails:
            self.world.harm.add("store")
            raise StoreError(f"the store fails on purpose ({what})")


class Helper:
    """A thread of some process: things it is to do, each not before its time."""

    number = None
    poller = None

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.alive = True
        self._jobs = []

    def later(self, action, seconds=None):
        """Have something done after a while."""
        pause = self.world.rng.choice(self.world.delays) if seconds is None else seconds
        self._jobs.append((self.world.now + pause, action))

    @property
    def until(self):
        return min((when for when, _ in self._jobs), default=0.0)

    @property
    def ready(self):
        return self.alive and bool(self._jobs) and self.world.now >= self.until

    def step(self):
        job = self.world.rng.choice([job for job in self._jobs if job[0] <= self.world.now])
        self._jobs.remove(job)
        job[1]()


class SimBlobWriter(BlobWriter):
    """A blob writer without its thread, whose tries are some time apart."""

    def __init__(self, world, wake):
        super().__init__("sim", wake)
        self._world = world
        self._orders = deque()
        self._tries = 0
        self.helper = world.helper("blob writer", self)

    def put(self, name, parts, about):
        order = Put(name, parts, about, sum(memoryview(part).nbytes for part in parts))
        self.unsaved += order.size
        self._orders.append(order)
        if len(self._orders) == 1:
            self.helper.later(self._try)

    def _try(self):
        order = self._orders[0]
        error = ""
        try:
            self._world.store.put(order.name, order.parts)
        except StoreError as failure:
            error = str(failure)
            self._tries += 1
            if self._tries < TRIES:
                self.helper.later(self._try, PAUSE_S * 2**self._tries)
                return
        self._tries = 0
        self._orders.popleft()
        if self._orders:
            self.helper.later(self._try)
        self.inbox.put(PutOutcome(order.about, error, order.size))

    def close(self):
        self.helper.alive = False

    def die(self):
        """The process is killed; what is being put may get there."""
        if self.helper.alive and self._orders and self._world.rng.random() < 0.5:
            sound, self._world.store.sound = self._world.store.sound, True
            self._world.store.put(self._orders[0].name, self._orders[0].parts)
            self._world.store.sound = sound
        self.helper.alive = False


class SimLoader(Loader):
    """The real loader; what its threads do is done at once, some time later."""

    def __init__(self, world, wake, instances):
        super().__init__(
            "sim", wake, instances, opened=lambda _where: world.store, clock=lambda: world.now, limits=world.limits
        )
        self._closing.wait = lambda _seconds: False
        self.helper = world.helper("loader", self)

    def start(self, order, hosted):
        self.helper.later(lambda: self._run(order, hosted))

    def close(self):
        self.helper.alive = False

    die = close


class SimStoreTransfer(StoreTransfer):
    """The real store transfer; what its thread does is done at once, some time later, one thing after the other."""

    def __init__(self, world, cluster, wake):
        super().__init__("sim", cluster, wake, opened=lambda _where: world.store)
        self.closing.wait = lambda _seconds: False
        self._jobs = deque()
        self._world = world
        self.helper = world.helper("store transfer", self)

    def submit(self, job):
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self.helper.later(self._next)

    def _next(self):
        job = self._jobs.popleft()
        if self._jobs:
            self.helper.later(self._next)
        job()

    @property
    def undone(self):
        """How many things are still to be done."""
        return len(self._jobs)

    def close(self):
        self.helper.alive = False

    def die(self):
        """The process is killed; what is being done may be done."""
        if self.helper.alive and self._jobs and self._world.rng.random() < 0.5:
            sound, self._world.store.sound = self._world.store.sound, True
            self._jobs.popleft()()
            self._world.store.sound = sound
        self.helper.alive = False


class SimCheckpoint(CheckpointThread):
    """The real checkpoint thread without its thread and its claim."""

    def __init__(self, world):
        self._store = world.store
        self._patient = RetryingStore(world.store, lambda _seconds: None)
        self._kept = {}
        self.names, self._writer = OperatorNames(self._kept), ManifestWriter(self._store, self._kept)
        self._clock, self._due = float, 1.0
        self._world = world
        self._waiting = deque()
        self._tries = 0
        self.helper = Helper(world, "checkpoint")

    def save(self, order, done):
        self._wait((order, done))

    def look(self, region, query, epoch, new, done):
        self._wait((partial(self.saved, region, query, epoch, new), done))

    def look_again(self, region, query, epoch, done):
        self._wait((partial(self.checked, region, query, epoch), done))

    def _retried(self, put):
        put()
        return ""

    def _wait(self, item):
        self._waiting.append(item)
        if len(self._waiting) == 1:
            self.helper.later(self._try)

    def _try(self):
        order, done = self._waiting[0]
        error = ""
        try:
            if isinstance(order, SaveInstruction):
                self._writer.put(order)
            else:
                error = order()
        except StoreError as failure:
            error = str(failure)
            self._tries += 1
            if self._tries < TRIES:
                self.helper.later(self._try, PAUSE_S * 2**self._tries)
                return
        self._tries = 0
        self._waiting.popleft()
        if self._waiting:
            self.helper.later(self._try)
        done(*((order,) if isinstance(order, SaveInstruction) else ()), error)

    def die(self):
        """The driver is killed: of what is being put and deleted, some is."""
        self.helper.alive = False
        if self._waiting and isinstance(self._waiting[0][0], SaveInstruction) and self._world.rng.random() < 0.8:
            self._store.left = self._world.rng.choice((0, 1, 2, 3, 5, 8, 20))
            try:
                self._writer.put(self._waiting[0][0])
            except Died:
                self._world.note("the driver dies in the middle of a put")
            finally:
                self._store.left = None

    def close(self):
        self.helper.alive = False
