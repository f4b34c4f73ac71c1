"""A whole cluster in one thread of control: the real driver, workers, movers and keyed feeders on a simulated network.

Exactly one actor runs at any time, and a seeded scheduler decides which, what the network delivers, when time passes,
who dies and who is slow: one seed, one history. Workers and movers have loops without local state, so their turn ends
by an exception out of `poll` and the loop is entered afresh. Feeders are generators deep inside a task, so each has a
thread, which runs only while the scheduler waits for it.
"""

import contextlib
import pickle
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from random import Random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from evenflow.control.controller import Controller
from evenflow.control.events import MoveAsked, RegionOpened, Tick
from evenflow.errors import StateLost
from evenflow.model import MoveUnits
from evenflow.operators.hosted import Hosted
from evenflow.runtime import driver, feeding, keyed_feeder, mover, worker
from evenflow.runtime.driver import Driver
from evenflow.runtime.keyed_feeder import KeyedFeed
from evenflow.runtime.messages import parse
from evenflow.runtime.settings import Settings
from evenflow.runtime.splitter import FrameSize
from evenflow.runtime.switchboard import Lost, Received
from evenflow.runtime.worker import Worker

from ..wire.keyed_rig import OUT, ROWS, Nth
from .keyed_network import Board, Network, Turn

UNITS = 9
"""Eight that have keys, and one for null keys, of which there are none."""
KEYS = 20
PERIOD_S = 1.0
STEPS = 60_000
"""No history is longer."""
DRAIN_S = 400.0
"""So long, in simulated seconds, may things take after the last fault."""


class Broken(AssertionError):
    """An invariant does not hold; the world's history so far is in `World.story`."""


class Killed(BaseException):
    """A feeder's process is killed."""


# -- the user's code


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


# -- actors


class Process:
    """A process whose loop keeps nothing in local variables: a worker, or a worker's mover."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.board = None
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
        return self.alive and (self.board.news or self.world.now >= self.until)

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
        self.board = None
        self.until = 0.0
        self.alive, self.killed = True, False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._body = body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def ready(self):
        return self.alive and (self.world.now >= self.until or (self.board is not None and self.board.news))

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
            if self.board is not None:
                self.board.die()
            self.step()

    def _run(self):
        self._go.acquire()
        self._body()
        self.alive = False
        self._back.release()


class StrictDriver(Driver):
    """The real driver, without its thread, that lets no error pass."""

    def _received(self, channel, frame):
        self._take(channel, parse(frame))

    def _handle(self, event):
        self._carry_out(self._controller.handle(event))


class Log(list):
    """The event log."""

    def write(self, record):
        self.append({"time": record.time, "event": record.event, **record.fields})


class NoThread:
    """Instead of a thread: the scheduler calls the loop."""

    def __init__(self, target, **_options):
        pass

    def start(self):
        pass

    def join(self, _timeout=None):
        pass

    def is_alive(self):
        return False


# -- what Spark runs


@dataclass(eq=False)
class Task:
    """One attempt at one partition."""

    job: "Job"
    partition: int
    attempt: int
    epoch: int
    batches: list
    results: list = field(default_factory=list)
    error: BaseException | None = None
    done: bool = False
    fiber: Fiber | None = None

    @property
    def input_ids(self):
        return [row for batch in self.batches for row in batch.column(0).to_pylist()]

    def rows(self):
        """(id, key, nth) of its results so far."""
        return [row for batch in self.results for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]

    def __str__(self):
        return f"{self.job.name}, epoch {self.epoch}, partition {self.partition}, attempt {self.attempt}"


@dataclass(eq=False)
class Job:
    """A streaming query of some micro-batches, or one run of a batch stage."""

    region: str
    name: str
    streaming: bool
    epochs: int
    partitions: int
    ordered: bool
    epoch: int = 0
    tasks: list = field(default_factory=list)
    failed: bool = False

    @property
    def evaluation(self):
        return f"query {self.name}" if self.streaming else f"stage {self.name}"

    @property
    def done(self):
        return self.failed or (self.epoch == self.epochs and all(task.done for task in self.tasks))


class Stub:
    """A balance that wants random moves, some of them impossible."""

    name = "stub"
    by_content = True

    def __init__(self, world, region):
        self.world, self.region = world, region

    def decide(self, snapshot):
        if not self.world.faulty or self.world.rng.random() > self.world.plan.moving:
            return []
        return [self.world.some_move(self.region, snapshot.table) for _ in range(self.world.rng.randint(1, 3))]


@dataclass
class Plan:
    """What a history is made of."""

    workers: int = 3
    late: int = 0
    """Workers that are not there at the start."""
    regions: int = 1
    jobs: int = 2
    moving: float = 0.3
    """How often the stub wants something."""
    asks: float = 0.03
    """Moves asked for beside it, a step."""
    faults: tuple[str, ...] = ()
    fails: tuple[str, float] | None = None
    """Where an operator fails, and how often."""
    ordered: float = 0.3
    rows: int = 16

    @classmethod
    def drawn(cls, rng):
        """A random plan."""
        kinds = ("kill-worker", "kill-feeder", "freeze", "replace", "kill-worker", "kill-feeder", "freeze")
        count = rng.choice((0, 0, 1, 1, 2, 4))
        fails = (rng.choice(("extract", "install", "pickle", "unpickle")), rng.choice((1, 1, inf)))
        return cls(
            workers=rng.choice((2, 3, 3, 4)),
            late=rng.choice((0, 0, 0, 1)),
            regions=rng.choice((1, 1, 1, 2)),
            jobs=rng.choice((1, 2, 2, 3)),
            moving=rng.choice((0.0, 0.3, 1.0)),
            asks=rng.choice((0.0, 0.02, 0.1)),
            faults=tuple(rng.choice(kinds) for _ in range(count)),
            fails=fails if rng.random() < 0.15 else None,
            ordered=rng.choice((0.0, 0.0, 1.0)),
            rows=rng.choice((4, 16, 40)),
        )


class World:
    """One history."""

    def __init__(self, seed, plan=None):
        self.seed = seed
        self.rng = Random(seed)
        self.plan = plan or Plan.drawn(self.rng)
        self.now = 0.0
        self.steps = 0
        self.story = []
        self.faulty = True
        """Whether faults and moves may still come."""
        self.calm_since = 0.0
        self.harm = set()
        """What has happened that may cost state."""
        self.network = Network(self.rng)
        self.current = None
        self.workers = {}
        self.processes = []
        self.fibers = []
        self.frozen = {}
        self.jobs, self.tasks = [], []
        self._ids = 0
        self._names = 0
        self._ticked = 0.0
        self._undo = contextlib.ExitStack()

    # -- set up and tear down

    def __enter__(self):
        clock = SimpleNamespace(perf_counter=lambda: self.now, monotonic=lambda: self.now, sleep=self._sleep)
        no_threads = SimpleNamespace(Thread=NoThread, RLock=threading.RLock, Event=threading.Event)
        for module in (feeding, keyed_feeder, worker, driver):
            self._patch(module, "time", clock)
        for module in (driver, mover):
            self._patch(module, "threading", no_threads)
        self._patch(driver, "Switchboard", lambda *_a, **_k: Board(self.network, "driver", lambda _t: None))
        self._patch(worker, "Switchboard", self._actor_board)
        self._patch(mover, "Switchboard", self._mover_board)
        self._patch(feeding, "Switchboard", self._actor_board)
        self._patch(feeding, "identity", lambda: self.current.identity)
        self._patch(keyed_feeder, "FrameSize", self._frame_size)
        self._patch(worker, "KEYED_POLL_S", PERIOD_S)
        self._patch(worker, "OUTBOX_BYTES", 300)
        self._patch(mover, "PART_BYTES", 200)
        self._patch(keyed_feeder, "SKEW_BYTES", 20 * self.rng.choice((5, 20, 1000)))
        self._begin()
        return self

    def __exit__(self, *_error):
        for fiber in self.fibers:
            fiber.kill()
        self._undo.close()

    def _patch(self, module, name, value):
        self._undo.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    def _actor_board(self, *_args, **_options):
        self.current.board = Board(self.network, self.current.name, self.current.turn)
        return self.current.board

    def _mover_board(self, *_args, **_options):
        process = Process(self, f"mover of {self.current.name}")
        process.board = Board(self.network, process.name, process.turn)
        self.processes.append(process)
        return process.board

    def _frame_size(self, *args):
        size = FrameSize(*args)
        size.rows = lambda *_: self.rng.choice((1, 2, 3, 10, 100))
        return size

    def _sleep(self, seconds):
        self.current.turn(seconds)

    def _begin(self):
        self.log = Log()
        self.controller = Controller(self.plan.workers)
        self.driver = StrictDriver(self.controller, b"secret", "sim", PERIOD_S, self.log)
        self.settings = Settings("sim", "sim", self.driver.port, b"secret", PERIOD_S, 350.0)
        for number in range(self.plan.workers - self.plan.late):
            self.start_worker(number)
        for number in range(self.plan.regions):
            self._open_region(f"r{number}")
        for _ in range(self.plan.jobs):
            self.start_job(self.rng.choice(list(self.regions)))
        last = self.rng.choice((60, 300, 1500))
        self.schedule = sorted((self.rng.randint(0, last), fault) for fault in self.plan.faults)

    @property
    def regions(self):
        return self.controller._regions

    def _open_region(self, name):
        operator = Nth(padding=self.rng.choice((0, 0, 1000)))
        if self.plan.fails is not None:
            where, times = self.plan.fails
            operator = Fragile(fails=Fails(where, self.rng.randrange(UNITS), times, self.seed))
            Fails.left.pop(self.seed, None)
            if times == inf and where in ("install", "unpickle"):
                self.harm.add("state that cannot be put back")
        code = pickle.dumps(Hosted(operator, pa.schema([ROWS.field(0)]), OUT, UNITS))
        self.driver.add_code(f"op-{name}", code)
        self.driver._code[f"op-{name}"] = code
        self.driver._handle(RegionOpened(self.now, name, f"op-{name}", Stub(self, name), UNITS))

    # -- workers

    def start_worker(self, number):
        """Start a worker process, or another copy of it."""
        process = Process(self, f"worker {number} #{sum(p.name.startswith(f'worker {number}') for p in self.processes)}")
        self.current = process
        process.number = number
        made = Worker(self.settings, number, (0, 0))
        process.worker, process.run = made, made.run
        process.mover = self.processes[-1]
        process.mover.run = made._mover._run
        self.processes.append(process)
        self.workers[number] = process
        self.note(f"start {process.name}")

    def kill_worker(self, process):
        self.note(f"kill {process.name}")
        self.harm.add("worker")
        process.alive = process.mover.alive = False
        process.board.die()
        process.mover.board.die()

    def missing(self):
        return [n for n in range(self.plan.workers) if n not in self.workers or not self.workers[n].alive]

    # -- what Spark does

    def start_job(self, region, streaming=None, partitions=None):
        rng = self.rng
        self._names += 1
        streaming = rng.random() < 0.6 if streaming is None else streaming
        epochs = rng.randint(1, 4) if streaming else 1
        ordered = rng.random() < self.plan.ordered
        self.jobs.append(Job(region, f"{self._names}", streaming, epochs, partitions or rng.randint(1, 3), ordered))
        self.note(f"start job {self.jobs[-1].evaluation} on {region}")
        return self.jobs[-1]

    def _advance(self, job):
        """Start a job's next tasks, if those before are through."""
        if job.done or not all(task.done and self._settled(task) for task in job.tasks):
            return
        latest = {}
        for task in job.tasks:
            latest[task.epoch, task.partition] = task
        broken = [task for task in latest.values() if task.error is not None]
        if any(task.attempt for task in broken):
            job.failed = True
            if len(self.jobs) < 8:
                self.start_job(job.region)
        elif broken:
            for task in broken:
                self._start_task(Task(job, task.partition, 1, task.epoch, task.batches))
        elif job.epoch < job.epochs:
            for partition in range(job.partitions):
                self._start_task(Task(job, partition, 0, job.epoch, self._some_batches()))
            job.epoch += 1

    def _settled(self, task):
        """Whether all a task had to say has been heard: Spark takes a while before it starts the next."""
        mine = f"{task.fiber.name} > "
        return not any(pipe.name.startswith(mine) and (pipe.flight or pipe.arrived) for pipe in self.network.pipes)

    def _some_batches(self, keys=None):
        drawn = [self.rng.randrange(KEYS) for _ in range(self.rng.choice((0, 1, self.plan.rows)))] if not keys else keys
        batches, at = [], 0
        while at < len(drawn):
            part = np.array(drawn[at : at + self.rng.choice((1, 5, 20))], np.int64)
            ids = np.arange(self._ids, self._ids + len(part))
            self._ids += len(part)
            batches.append(pa.RecordBatch.from_arrays([pa.array(ids), pa.array(part)], schema=ROWS))
            at += len(part)
        return batches

    def _start_task(self, task):
        job = task.job
        schema = OUT.serialize().to_pybytes()
        feed = KeyedFeed(self.settings, job.region, f"op-{job.region}", schema, True, job.ordered)
        task.fiber = Fiber(self, f"feeder {task}", lambda: self._run_task(task, feed))
        query, stage = (job.name, "") if job.streaming else ("", job.name)
        task.fiber.identity = {
            "partition": task.partition,
            "attempt": task.attempt,
            "query": query,
            "epoch": task.epoch,
            "stage": stage,
        }
        job.tasks.append(task)
        self.tasks.append(task)
        self.fibers.append(task.fiber)

    def _run_task(self, task, feed):
        try:
            if task.fiber.killed:
                raise Killed
            for batch in feed(self._source(task)):
                task.results.append(batch)
                task.fiber.turn(0.0)
        except BaseException as error:
            task.error = error
        task.done = True
        self.note(f"done {task.fiber.name}: {task.error!r}")

    def _source(self, task):
        for batch in task.batches:
            task.fiber.turn(self.rng.choice((0.0, 0.0, 0.0, 0.1, 3.0)))
            yield batch

    # -- moves and faults

    def some_move(self, region, table):
        rng = self.rng
        source = rng.randrange(self.plan.workers)
        mine = table.units_of(source).tolist()
        if rng.random() < 0.1 or not mine:
            units = tuple(rng.randrange(-1, UNITS + 1) for _ in range(rng.randint(0, 3)))
        else:
            units = tuple(rng.sample(mine, rng.randint(1, min(len(mine), 3))))
        return MoveUnits(region, units, source, rng.randrange(self.plan.workers), "the stub wants it")

    def _ask(self):
        region = self.rng.choice(list(self.regions))
        move = self.some_move(region, self.regions[region].movements.table)
        self.driver._handle(MoveAsked(self.now, move))

    def _fault(self, kind):
        live = [process for process in self.workers.values() if process.alive]
        feeders = [fiber for fiber in self.fibers if fiber.alive]
        if kind == "kill-worker" and live:
            self.kill_worker(self.rng.choice(live))
        elif kind == "replace" and live:
            self.harm.add("worker")
            self.start_worker(self.rng.choice(live).number)
        elif kind == "kill-feeder" and feeders:
            fiber = self.rng.choice(feeders)
            self.note(f"kill {fiber.name}")
            self.harm.add("feeder")
            fiber.kill()
        elif kind == "freeze" and live:
            self._freeze(live, feeders)

    def _freeze(self, live, feeders):
        seconds = self.rng.choice((5.0, 29.0, 31.0, 62.0, 100.0))
        movers = [process.mover for process in live]
        what = self.rng.choice([*live, *feeders, *movers, *self.network.pipes])
        self.frozen[what] = self.now + seconds
        if seconds > 30:
            self.harm.add("slow")
        self.note(f"freeze {what.name} for {seconds} s")

    def note(self, what):
        self.story.append((self.steps, round(self.now, 3), what))

    # -- the scheduler

    def run(self):
        """Until all jobs are over and everything is quiet."""
        while self._step():
            if self.steps > STEPS or (not self.faulty and self.now - self.calm_since > DRAIN_S):
                raise Broken(f"seed {self.seed}: it does not end: {self._what_waits()}")

    def _over(self):
        idle = not self.faulty and all(job.done for job in self.jobs) and not self._moving()
        return idle and all(self._thawed(what) for what in self.frozen)

    def _moving(self):
        return any(region.movements.moving for region in self.regions.values())

    def _step(self):
        """One thing happens; False once all is over and quiet."""
        self.steps += 1
        if self.faulty:
            self._disturb()
        for job in self.jobs:
            self._advance(job)
        chosen = self._choose()
        if chosen is None:
            if self._over():
                return False
            self._pass_time()
        elif callable(chosen):
            chosen()
        else:
            self._take_turn(chosen)
        return True

    def _disturb(self):
        while self.schedule and self.schedule[0][0] <= self.steps:
            self._fault(self.schedule.pop(0)[1])
        if self.rng.random() < self.plan.asks:
            self._ask()
        gone = self.missing()
        if gone and self.rng.random() < 0.01:
            self.start_worker(self.rng.choice(gone))
        if self.rng.random() < 0.01:
            self.now += self.rng.choice((0.02, 0.2, 1.0))
        if not self.schedule and all(job.done for job in self.jobs):
            self._calm_down()
        elif self.steps > 20_000:
            raise Broken(f"seed {self.seed}: jobs do not end: {self._what_waits()}")

    def _calm_down(self):
        """No more faults from here on; everybody is there."""
        self.faulty = False
        self.calm_since = max([self.now, *self.frozen.values()])
        for number in self.missing():
            self.start_worker(number)

    def _choose(self):
        """Something that can happen now: an actor, or a delivery; None if there is nothing but to wait."""
        actors = [actor for actor in (*self.processes, *self.fibers) if actor.ready and self._thawed(actor)]
        pipes = [pipe for pipe in self.network.deliverable() if self._thawed(pipe)]
        if self.driver._board.news:
            actors.append(self._run_driver)
        if self.now >= self._ticked + PERIOD_S:
            actors.append(self._tick)
        if pipes and (not actors or self.rng.random() < 0.5):
            pipe = self.rng.choice(pipes)
            if self.rng.random() < pipe.laziness and actors:
                return self.rng.choice(actors)
            return lambda: pipe.carry(self.rng.choice((1, 1, 2, 100)))
        return self.rng.choice(actors) if actors else None

    def _thawed(self, what):
        return self.now >= self.frozen.get(what, 0.0)

    def _take_turn(self, actor):
        self.current = actor
        try:
            alive = actor.step()
        except Exception as error:
            raise Broken(f"seed {self.seed}: {actor.name} died of {error!r}") from error
        if isinstance(actor, Process) and not alive:
            self.note(f"{actor.name} ends: {actor.worker._stopped}")
            actor.mover.alive = False
            actor.worker.close()

    def _run_driver(self):
        for happening in self.driver._board.happenings(8):
            match happening:
                case Received(channel=channel, frame=frame):
                    self.driver._received(channel, frame)
                case Lost(channel=channel, reason=reason, known=known):
                    self.driver._lost(channel, reason, known)

    def _tick(self):
        self._ticked = self.now
        self.driver._handle(Tick(self.now))

    def _pass_time(self):
        times = [actor.until for actor in (*self.processes, *self.fibers) if actor.alive]
        times += [self._ticked + PERIOD_S, *self.frozen.values()]
        self.now = max(self.now + 1e-4, min(time for time in times if time > self.now))

    def _what_waits(self):
        tasks = [str(task) for task in self.tasks if not task.done]
        moves = [list(region.movements.under_way.values()) for region in self.regions.values()]
        return f"tasks {tasks}, moves {moves}, time {self.now:.1f}, steps {self.steps}"


# -- invariants


def check(world):
    """Everything that must hold when all is quiet."""
    _check_tasks(world)
    _check_results(world)
    _check_log(world)
    _check_state(world)
    _check_leaks(world)


def _fail(world, what):
    raise Broken(f"seed {world.seed}: {what}")


def _check_tasks(world):
    for task in world.tasks:
        allowed = (StateLost, Killed) if world.harm else ()
        if task.error is not None and not isinstance(task.error, allowed):
            raise Broken(f"seed {world.seed}: {task} failed with {task.error!r}") from task.error


def _check_results(world):
    for task in world.tasks:
        ids = [row[0] for row in task.rows()]
        if task.error is None and sorted(ids) != task.input_ids:
            _fail(world, f"{task} gave rows {ids} for {task.input_ids}")
        if task.job.ordered and ids != task.input_ids[: len(ids)]:
            _fail(world, f"{task} is to be ordered and gave {ids} for {task.input_ids}")
        by_key = defaultdict(list)
        for row, key, nth in task.rows():
            by_key[key].append((row, nth))
        for key, got in by_key.items():
            if got != sorted(got) or [nth for _, nth in got] != sorted(nth for _, nth in got):
                _fail(world, f"rows of key {key} of {task} changed their order: {got}")
    for job in world.jobs:
        _check_counts(world, job)


def _check_counts(world, job):
    """Of each key every number at most once; and where nothing failed, all of them."""
    seen, given = defaultdict(list), defaultdict(set)
    for task in job.tasks:
        for batch in task.batches:
            for row, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                given[key].add(row)
        for _, key, nth in task.rows():
            seen[key].append(nth)
    clean = all(task.error is None for task in job.tasks)
    for key, rows in given.items():
        numbers = sorted(seen[key])
        if len(set(numbers)) < len(numbers) or (numbers and numbers[-1] > len(rows)):
            _fail(world, f"{job.evaluation}: key {key} of {len(rows)} rows was counted {numbers}")
        if clean and numbers != list(range(1, len(rows) + 1)):
            _fail(world, f"{job.evaluation}: key {key} of {len(rows)} rows was counted {numbers}")


def _check_log(world):
    begun, over = set(), set()
    for entry in world.log:
        match entry["event"]:
            case "move":
                begun.add((entry["region"], entry["move"]))
            case "moved":
                over.add((entry["region"], entry["move"]))
            case "move-undone" | "move-refused" | "evaluation-ended":
                over.add((entry["region"], entry.get("move")))
                if not entry["why"]:
                    _fail(world, f"no reason in {entry}")
            case "balance-failed" | "controller-error" | "peer-refused":
                _fail(world, f"{entry}")
    ended = {entry["region"] for entry in world.log if entry["event"] == "evaluation-ended"}
    if any(region not in ended for region, _ in begun - over):
        _fail(world, f"movements {begun - over} have no end in the log")


def _hosts(world):
    return {n: p.worker._host for n, p in world.workers.items() if p.alive and p.worker._host is not None}


def _check_state(world):
    """One live copy of every unit's state, where the table says it is, and with every row in it."""
    for name, region in world.regions.items():
        owners = region.movements.table.owners
        alive = set(region.evaluations.ids)
        found = defaultdict(list)
        for number, host in _hosts(world).items():
            known = host._regions.get(name)
            if known is None:
                continue
            away = known.away if isinstance(known.away, dict) else dict.fromkeys(alive, known.away)
            for evaluation, units in away.items():
                wrong = [unit for unit in units if owners[unit] == number]
                if wrong:
                    _fail(world, f"worker {number} owns units {wrong} of {name} and takes them to be away")
            for evaluation, copy in known.copies.items():
                if evaluation not in alive:
                    _fail(world, f"worker {number} has state of {evaluation}, which is over")
                for unit, counts in copy.counts.items():
                    found[evaluation, unit].append((number, sum(counts.values())))
        for (evaluation, unit), places in found.items():
            if [number for number, _ in places] != [owners[unit]]:
                _fail(world, f"{evaluation}: unit {unit} is of worker {owners[unit]} and at {places}")
        _check_totals(world, name, alive, found)


def _check_totals(world, name, alive, found):
    for job in world.jobs:
        if job.region == name and job.evaluation in alive and all(task.error is None for task in job.tasks):
            rows = sum(len(task.input_ids) for task in job.tasks)
            held = sum(n for (evaluation, _), [(_, n)] in found.items() if evaluation == job.evaluation)
            if held != rows:
                _fail(world, f"{job.evaluation} has {held} of {rows} rows in its state")


def _check_leaks(world):
    for number, host in _hosts(world).items():
        for name in ("_leaving", "_markers", "_arrived"):
            if getattr(host, name):
                _fail(world, f"worker {number} keeps {name} {getattr(host, name)}")
        if any(known.feeders for known in host._regions.values()):
            _fail(world, f"worker {number} thinks that feeders are there")
    for number, process in world.workers.items():
        mover_ = process.worker._mover
        if process.alive and (mover_._parts or not mover_._outbox.empty() or not mover_.inbox.empty()):
            _fail(world, f"the mover of worker {number} keeps {mover_._parts}")
    controller = world.controller
    left = (controller._feeders, controller._ended, *(r.feeders for r in world.regions.values()))
    if any(left) or any(region._begun for region in world.regions.values()):
        _fail(world, f"the controller keeps feeders: {left}")


def live_again(world):
    """What comes after works: the streaming queries that go on, and fresh state."""
    harm, world.harm = world.harm, set()
    before = len(world.tasks)
    for job in world.jobs:
        if job.streaming and not job.failed and job.evaluation in world.regions[job.region].evaluations.ids:
            job.epochs += 1
    for region in world.regions:
        fresh = world.start_job(region, streaming=False, partitions=1)
        fresh.epoch = 1
        world._start_task(Task(fresh, 0, 0, 0, world._some_batches(list(range(KEYS)) * 2)))
    world.run()
    for task in world.tasks[before:]:
        if task.error is not None:
            raise Broken(f"seed {world.seed}: {task} failed after all was calm: {task.error!r}") from task.error
    world.harm = harm


def history(seed, plan=None):
    """Run one history and check it; the world, for whoever wants to look."""
    with World(seed, plan) as world:
        world.run()
        check(world)
        live_again(world)
        check(world)
    return world
