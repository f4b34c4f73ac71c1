"""A whole cluster in one thread of control: the real controller, workers and keyed feeders on a simulated network.

Exactly one actor runs at any time, and a seeded scheduler decides which, what the network delivers, when time passes,
who dies and who is slow: one seed, one history. Workers and direct transfers have loops without local state, so their
turn ends by an exception out of `poll` and the loop is entered afresh. Feeders are generators deep inside a task, so
each has a thread, which runs only while the scheduler waits for it.
"""

import contextlib
import pickle
from math import inf
from random import Random

import numpy as np
import pyarrow as pa

from evenflow.control.controller import Controller
from evenflow.control.events import (
    MemoryAskedEvent,
    MoveAskedEvent,
    RegionOpenedEvent,
    ResultUnpersistedEvent,
    TickEvent,
)
from evenflow.model import MoveUnits
from evenflow.operators.hosted import Hosted
from evenflow.policy import KeyedBalance
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.keyed.feed import KeyedFeed
from evenflow.runtime.feeder.keyed.feeder import KeyedFeeder
from evenflow.runtime.feeder.task import Environment
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.environment import WorkerEnvironment
from evenflow.runtime.worker.limits import WorkerLimits
from evenflow.runtime.worker.loop import Worker
from tests.support.keyed_actors import Fails, Fiber, Fragile, Killed, Log, NoThread, Process, SimTransfer, StrictDriver
from tests.support.keyed_network import Board, Network
from tests.support.keyed_plan import Job, Plan, Task
from tests.support.keyed_rig import OUT, ROWS, Nth, numbered
from tests.support.keyed_spark import Spark

UNITS = 9
"""Eight that have keys, and one for null keys, of which there are none."""
KEYS = 20
PERIOD_S = 1.0


class Broken(AssertionError):
    """An invariant does not hold; the world's history so far is in `World.story`."""


class Stub(KeyedBalance):
    """A balance that wants random moves, some of them impossible."""

    name = "stub"

    def __init__(self, world, region):
        self.world, self.region = world, region

    def decide(self, snapshot):
        if not self.world.faulty or self.world.rng.random() > self.world.plan.moving:
            return []
        return [self.world.some_move(self.region, snapshot.table) for _ in range(self.world.rng.randint(1, 3))]


class World:
    """One history."""

    pulls = (0.0, 0.0, 0.0, 0.1, 3.0)
    """How long Spark takes to give the next batch."""
    patience = 60_000
    """Steps until all jobs have ended, at most."""
    drain_s = 400.0
    """So long, in simulated seconds, may things take after the last fault."""
    memory = None
    """Bytes of state that a worker may have in memory."""

    stalls = (30.0, inf, inf, inf)
    """How long the controller waits for workers that do not answer, one in each history by its seed."""

    turn_s = 1.0
    """No time passes while a worker serves a frame, so that none has to be put off."""

    def __init__(self, seed, plan=None):
        self.seed = seed
        self.rng = Random(seed)
        self.keys = Random(f"keys {seed}")
        """Apart, so that histories do not depend on how many keys are drawn."""
        self.plan = plan or Plan.drawn(self.rng)
        self.stall_s = self.stalls[seed % len(self.stalls)]
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
        self.processes = []
        self.fibers = []
        self.frozen = {}
        self.pauses = []
        """Times at which users go on."""
        self.jobs, self.tasks = [], []
        self._ids = 0
        self._names = 0
        self._ticked = 0.0

    # -- set up and tear down

    def __enter__(self):
        skew_rows, self.divided = self.rng.choice(((0, False), (5, False), (20, True), (1000, False)))
        self.skew_bytes = 20 * skew_rows
        self.environment = Environment(
            identity=lambda: self.current.identity,
            poller=self._actor_board,
            clock=self._now,
            sleep=self._sleep,
            frame_size=self._frame_size,
            random_bits=self.keys.getrandbits,
        )
        self.worker_environment = WorkerEnvironment(
            clock=self._worker_now,
            sleep=self._sleep,
            poller=self._actor_board,
            direct_transfer=self._direct_transfer,
            random_bits=self.keys.getrandbits,
            limits=WorkerLimits(keyed_poll_s=PERIOD_S, outbox_bytes=300, part_bytes=200, turn_s=self.turn_s),
        )
        self._begin()
        return self

    def _now(self):
        return self.now

    def _worker_now(self):
        return self.now

    def __exit__(self, *_error):
        for fiber in self.fibers:
            fiber.kill()

    def _actor_board(self, *_args, **_options):
        self.current.poller = Board(self.network, self.current.name, self.current.turn)
        return self.current.poller

    def _direct_transfer(self, _secret, _clock, wake, key, limits):
        process = Process(self, f"direct transfer of {self.current.name}")
        process.poller = Board(self.network, process.name, process.turn)
        process.thread = SimTransfer(process.poller, wake, key, NoThread, limits.part_bytes)
        process.run = process.thread.serve
        self.processes.append(process)
        return process.thread

    def _frame_size(self, *args):
        size = FrameSize(*args)
        size.rows = lambda *_: self.rng.choice((1, 2, 3, 10, 100))
        return size

    def _sleep(self, seconds):
        self.current.turn(seconds)

    def _begin(self):
        self.log = Log()
        self.controller = Controller(self.plan.workers, stall_timeout=self.stall_s)
        self.spark = Spark(self)
        self.driver = self._driver(stages=self.spark)
        self.settings = Settings("sim", "sim", self.driver.port, b"secret", PERIOD_S, 350.0, memory=self.memory)
        for number in range(self.plan.workers - self.plan.late):
            self.start_worker(number)
        for number in range(self.plan.regions):
            self._open_region(f"r{number}")
        for _ in range(self.plan.jobs):
            self.start_job(self.rng.choice(list(self.regions)))
        last = self.rng.choice((60, 300, 1500))
        self.schedule = sorted((self.rng.randint(0, last), fault) for fault in self.plan.faults)

    def _driver(self, *untouched, **options):
        self.board = Board(self.network, "driver", lambda _seconds: None)
        about = (self.controller, b"secret", "sim", PERIOD_S, self.log)
        return StrictDriver(*about, *untouched, start=NoThread, poller=self.board, clock=self._now, **options)

    @property
    def regions(self):
        return self.controller.regions

    def _open_region(self, name):
        padding = self.rng.choice((0, 0, 1000))
        operator = Nth(padding=1000 if self.memory else padding)
        if self.plan.fails is not None:
            operator = Fragile(fails=self.fails(UNITS))
        code = pickle.dumps(Hosted(operator, pa.schema([ROWS.field(0)]), OUT, UNITS))
        self.driver.lend(f"op-{name}", code)
        self.driver.handle(RegionOpenedEvent(self.now, name, f"op-{name}", Stub(self, name), UNITS))

    def fails(self, units):
        """Where and how often an operator fails, as the plan has it."""
        where, times = self.plan.fails
        Fails.left.pop(self.seed, None)
        if times == inf and where in ("install", "unpickle"):
            self.harm.add("state that cannot be put back")
        return Fails(where, self.rng.randrange(units), times, self.seed)

    # -- workers

    def start_worker(self, number):
        """Start a worker process, or another copy of it."""
        copy = sum(process.number == number for process in self.processes)
        process = self.current = Process(self, f"worker {number} #{copy}", number)
        made = Worker(self.settings, number, (0, 0), self.worker_environment)
        process.worker, process.run = made, made.run
        process.direct_transfer = self.processes[-1]
        self.processes.append(process)
        self.note(f"start {process.name}")

    def kill_worker(self, process):
        self.note(f"kill {process.name}")
        self.harm.add("worker")
        process.alive = process.direct_transfer.alive = False
        process.poller.die()
        process.direct_transfer.poller.die()

    def live(self):
        """The worker processes that are running, two copies of one worker among them."""
        return [process for process in self.processes if process.alive and process.number is not None]

    def missing(self):
        return sorted(set(range(self.plan.workers)) - {process.number for process in self.live()})

    # -- what Spark does

    def start_job(self, region, streaming=None, partitions=None):
        rng = self.rng
        self._names += 1
        streaming = rng.random() < 0.6 if streaming is None else streaming
        epochs = rng.randint(1, 4) if streaming else 1
        ordered = rng.random() < self.plan.ordered
        reads = rng.choice(("whole", "whole", "kept", "peek") if streaming else ("whole", "parts", "kept"))
        job = Job(region, f"{self._names}", streaming, epochs, partitions or rng.randint(1, 3), ordered, reads)
        if partitions is not None:
            job.reads, job.fixed = "whole", True
        self.jobs.append(job)
        self.note(f"start job {self.jobs[-1].evaluation} on {region}")
        return self.jobs[-1]

    def _advance(self, job):
        """Start a job's next tasks, if those before are through."""
        done = job.done
        if done and job.tidy and not job.unpersisted and all(self._settled(task) for task in job.tasks):
            self._unpersist(job)
        if done or self.now < job.resumes or not all(task.done and self._settled(task) for task in job.tasks):
            return
        broken = job.broken
        if any(task.attempt for task in broken):
            job.failed = True
            if len(self.jobs) < 8:
                self.start_job(job.region)
        elif broken:
            for task in broken:
                self.start_task(Task(job, task.partition, 1, task.epoch, task.batches, stage=task.stage))
        elif job.waiting:
            for task in self.spark.tasks(job, job.waiting.pop(0)):
                self.start_task(task)
            self._pause(job)
        elif job.epoch < job.epochs:
            job.waiting = self.spark.stages(job)
            job.epoch += 1

    def _pause(self, job):
        """The user takes a while before the next action."""
        if job.waiting:
            job.resumes = self.now + job.waiting[0].wait
            self.pauses.append(job.resumes)

    def _unpersist(self, job):
        job.unpersisted = True
        self.note(f"unpersist {job.evaluation}")
        self.driver.handle(ResultUnpersistedEvent(self.now, frozenset({job.checkpointer})))

    def _settled(self, task):
        """Whether all a task had to say has been heard: Spark takes a while before it starts the next."""
        mine = f"{task.fiber.name} > "
        task.heard = task.heard or not any(
            pipe.name.startswith(mine) and (pipe.flight or pipe.arrived) for pipe in self.network.pipes
        )
        return task.heard

    def some_batches(self, keys=None):
        drawn = keys or [self.rng.randrange(KEYS) for _ in range(self.rng.choice((0, 1, self.plan.rows)))]
        batches, at = [], 0
        while at < len(drawn):
            part = np.array(drawn[at : at + self.rng.choice((1, 5, 20))], np.int64)
            ids = np.arange(self._ids, self._ids + len(part))
            self._ids += len(part)
            batches.append(pa.RecordBatch.from_arrays([pa.array(ids), pa.array(part)], schema=ROWS))
            at += len(part)
        return batches

    def start_task(self, task):
        job = task.job
        feed = self._feed(job, job.region)
        task.fiber = Fiber(self, f"feeder {task}", lambda: self._run_task(task, feed))
        task.fiber.identity = {
            "partition": task.partition,
            "attempt": task.attempt,
            "query": job.name if job.streaming else "",
            "epoch": task.epoch,
            "stage": task.stage or job.name,
        }
        job.tasks.append(task)
        self.tasks.append(task)
        self.fibers.append(task.fiber)

    def _feed(self, job, mark):
        """What the feeders of a job are told."""
        schema = OUT.serialize().to_pybytes()
        names = tuple(ROWS.names)
        of = (self.settings, job.region, f"op-{job.region}", schema, True, job.ordered, names, job.streaming)
        return KeyedFeed(*of, mark=mark, skew_bytes=self.skew_bytes, divided=self.divided)

    def _feeder(self, feed):
        return KeyedFeeder(feed, self.environment)

    def _run_task(self, task, feed):
        try:
            if task.fiber.killed:
                raise Killed
            with contextlib.closing(self._feeder(feed).serve(self._source(task))) as results:
                for batch in results:
                    task.results.append(batch)
                    task.fiber.turn(0.0)
                    task.stopped = task.stops
                    if task.stopped:
                        break
        except BaseException as error:
            task.error = error
        task.done = True
        self.note(f"done {task.fiber.name}: {task.error!r}")

    def _source(self, task):
        for batch in self._given(task):
            task.fiber.turn(self.rng.choice(self.pulls))
            yield batch

    def _given(self, task):
        """A task's rows as Spark gives them."""
        return numbered(task.batches, task.partition)

    # -- moves and faults

    def some_move(self, region, table):
        rng = self.rng
        source = rng.randrange(self.plan.workers)
        mine = table.units_of(source).tolist()
        if rng.random() < 0.1 or not mine:
            units = tuple(rng.randrange(-1, table.units + 1) for _ in range(rng.randint(0, 3)))
        else:
            units = tuple(rng.sample(mine, rng.randint(1, min(len(mine), 3))))
        return MoveUnits(region, units, source, rng.randrange(self.plan.workers), "the stub wants it")

    def _ask(self):
        region = self.rng.choice(list(self.regions))
        move = self.some_move(region, self.regions[region].movements.table)
        self.driver.handle(MoveAskedEvent(self.now, move))

    def _fault(self, kind):
        live = self.live()
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
        elif kind == "cut":
            self._cut([*live, *feeders, *(process.direct_transfer for process in live)])
        elif kind == "freeze" and live:
            self._freeze(live, feeders)
        elif kind == "memory":
            memory = int(self.memory * self.rng.choice((0.5, 1, 2, 10)))
            self.note(f"memory {memory}")
            self.driver.handle(MemoryAskedEvent(self.now, {self.rng.randrange(self.plan.workers): memory}))

    def _cut(self, actors):
        """Break a connection; between direct transfers that costs nothing but a move."""
        lines = [(actor, line) for actor in actors if actor.poller is not None for line in actor.poller.lines]
        if lines:
            actor, line = self.rng.choice(lines)
            line.cut(self.rng)
            if not actor.name.startswith("direct transfer"):
                self.harm.add("cut")
            self.note(f"cut {actor.name} - {line.peer}")

    def _freeze(self, live, feeders):
        seconds = self.rng.choice((4.0, 29.0, 31.0, 62.0, 100.0))
        direct_transfers = [process.direct_transfer for process in live]
        what = self.rng.choice([*live, *feeders, *direct_transfers, *self.network.pipes])
        self.frozen[what] = self.now + seconds
        if seconds > 5 and self.stall_s < inf:
            self.harm.add("slow")
        self.note(f"freeze {what.name} for {seconds} s")

    def note(self, what):
        self.story.append((self.steps, round(self.now, 3), what))

    # -- the scheduler

    def run(self):
        """Until all jobs are over and everything is quiet."""
        while self._step():
            if self.steps > 3 * self.patience or (not self.faulty and self.now - self.calm_since > self.drain_s):
                raise Broken(f"seed {self.seed}: it does not end: {self._what_waits()}")

    def _over(self):
        idle = not self.faulty and all(job.done for job in self.jobs) and not self._moving()
        return idle and all(self._thawed(what) for what in self.frozen) and not self._unread()

    def _unread(self):
        """Whether something waits for a worker that does not read for now, because its own answers are not taken."""
        return any(line.incoming.arrived for process in self.live() for line in process.poller.lines)

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
        elif self.steps > self.patience:
            raise Broken(f"seed {self.seed}: jobs do not end: {self._what_waits()}")

    def _calm_down(self):
        """No more faults from here on; everybody is there."""
        self.faulty = False
        self.calm_since = max([self.now, *self.frozen.values()])
        for number in self.missing():
            self.start_worker(number)

    def _choose(self):
        """Something that can happen now: an actor, or a delivery; None if there is nothing but to wait."""
        actors = [actor for actor in (*self.processes, *self.fibers) if actor.ready]
        pipes = self.network.deliverable()
        if self.frozen:
            actors, pipes = ([each for each in some if self._thawed(each)] for some in (actors, pipes))
        if self.board.news:
            actors.append(self.driver.serve)
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
            self.note(f"{actor.name} ends: {actor.worker.stopped}")
            actor.direct_transfer.alive = False
            actor.worker.close()

    def _tick(self):
        self._ticked = self.now
        self.driver.handle(TickEvent(self.now))

    def _pass_time(self):
        times = [actor.until for actor in (*self.processes, *self.fibers) if actor.alive]
        times += [self._ticked + PERIOD_S, *self.frozen.values(), *self.pauses]
        self.now = max(self.now + 1e-4, min(time for time in times if time > self.now))

    def _what_waits(self):
        tasks = [str(task) for task in self.tasks if not task.done]
        moves = [list(region.movements.under_way.values()) for region in self.regions.values()]
        return f"tasks {tasks}, moves {moves}, time {self.now:.1f}, steps {self.steps}"
