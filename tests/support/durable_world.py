"""The simulated cluster with a checkpoint: queries whose batches are run again after failures, and a store.

Beside what `keyed_world` has: a "Spark" that evaluates each batch of a query as stages of several tasks, once or more,
wholly or in part, notes a batch as committed only after all of it ended, and otherwise runs it again; and a driver that
may be killed with everybody else, to go on with what is in the store and another number of workers.
"""

import pickle
from dataclasses import dataclass, replace
from math import inf
from random import Random
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa

from evenflow.control.batches import epochs as control_epochs
from evenflow.control.controller import Controller
from evenflow.control.events import RegionOpenedEvent, StageFacts
from evenflow.errors import CorruptState
from evenflow.model.messages import LoadState, LogEntry, SnapshotEntry
from evenflow.operators.hosted import Hosted
from evenflow.runtime.driver.manifests import KEPT
from evenflow.runtime.driver.operator_names import Kept
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.assembly import KEY_BITS
from evenflow.runtime.worker.rows.instances import Instances
from evenflow.runtime.worker.saving.loader import Loaded, Loader
from evenflow.state.checkpoint.chain import latest, operators
from evenflow.state.checkpoint.manifest import epochs, read_manifest
from evenflow.state.store.blob_names import epoch_name, parse
from tests.support.durable_losses import Losses
from tests.support.durable_plan import DurablePlan, Query, Stage
from tests.support.durable_store import Helper, MemoryStore, SimBlobWriter, SimCheckpoint, SimLoader, SimStoreTransfer
from tests.support.keyed_actors import Fiber, Log
from tests.support.keyed_plan import Task
from tests.support.keyed_rig import OUT, ROWS, Nth
from tests.support.keyed_world import PERIOD_S, UNITS, Broken, Stub, World


@dataclass
class Ordered(Nth):
    """Nth that keeps the rows of each key, in the order in which they were applied."""

    def process(self, rows, units, keys):
        nth = []
        for row, unit, key in zip(rows.column(0).to_pylist(), units.tolist(), keys.tolist(), strict=True):
            mine = self.counts.setdefault(unit, {}).setdefault(key, [])
            mine.append(row)
            nth.append(len(mine))
        return pa.RecordBatch.from_arrays([rows.column(0), pa.array(keys), pa.array(nth, pa.int64())], schema=OUT)


class DurableWorld(World):
    """One history."""

    stalls = (inf,)
    delays = (0.0, 0.0, 0.01, 0.2, 1.5)
    """How long the store takes."""

    def __init__(self, seed, plan=None):
        super().__init__(seed, plan or DurablePlan.drawn(Random(f"plan {seed}")))
        self.logs = []
        self.zombies = []
        """Feeders that Spark has given up, and when they are killed."""
        self.manifests = 0
        self.losses = Losses(self)
        self._late = mock.patch.object(control_epochs, "LATE", Random(f"late {seed}").choice((0, 1)))

    # -- set up and tear down

    def __exit__(self, *error):
        super().__exit__(*error)
        self._late.stop()

    def _begin(self):
        rng = self.rng
        self.store = MemoryStore(self)
        unsaved, segments = rng.choice((1, 2000, 1 << 20)), rng.choice(((1,), (700, 1000), (1 << 20,)))
        cycle, portion, held = rng.choice((1, 2, 3)), rng.choice((1, 300, 1 << 20)), rng.choice((100, 1 << 20))
        self.limits = replace(
            self.worker_environment.limits,
            unsaved_bytes=unsaved,
            segment_bytes=segments,
            cycle=cycle,
            slice_bytes=portion,
            replayed_bytes=held,
        )
        self.worker_environment = replace(
            self.worker_environment,
            blob_writer=lambda _where, wake: SimBlobWriter(self, wake),
            loader=lambda _where, wake, instances: SimLoader(self, wake, instances),
            store_transfer=lambda _where, cluster, wake: SimStoreTransfer(self, cluster, wake),
            random_bits=lambda bits: (self.keys if bits == KEY_BITS else rng).getrandbits(bits),
            limits=self.limits,
        )
        self._late.start()
        self.called, self.was = "r0", None
        """What the operator is called now, and the name that it had before; None if it never had another."""
        self.refusals = 0
        """How often a query was refused, since nobody had said what its operator was called before."""
        self._operator = Ordered(padding=rng.choice((0, 0, 1000)))
        self._ordered = rng.random() < self.plan.ordered
        self._boot()
        for number in range(self.plan.jobs):
            pieces = self.plan.partitions
            self.jobs.append(Query(self.called, f"q{number}", self.plan.epochs, pieces, self._ordered, pieces))
        last = rng.choice((60, 300, 1500))
        self.schedule = sorted((rng.randint(0, last), fault) for fault in self.plan.faults)

    def _boot(self):
        """A driver, and workers."""
        self.log = Log()
        self.logs.append(self.log)
        self.controller = Controller(self.plan.workers, stall_timeout=self.stall_s)
        self.checkpoint_thread = SimCheckpoint(self)
        self.processes.append(self.checkpoint_thread.helper)
        stages = SimpleNamespace(facts=self._facts)
        self.driver = self._driver(self._untouched, self.checkpoint_thread, stages=stages)
        cluster = f"sim{len(self.logs)}"
        about = cluster, "sim", self.driver.port, b"secret", PERIOD_S, 350.0
        self.settings = Settings(*about, checkpoint="sim", memory=self.memory)
        for number in range(self.plan.workers - self.plan.late):
            self.start_worker(number)
        self._open_region(self.called)

    def _open_region(self, name):
        self.checkpoint_thread.add(name, Kept("Nth", UNITS))
        self.driver.lend(f"op-{name}", pickle.dumps(self.hosted))
        opened = RegionOpenedEvent(self.now, name, f"op-{name}", Stub(self, name), UNITS, True, self.plan.transfer)
        self.driver.handle(opened)

    def _rename(self):
        """The operator has another name from now on, if all queries have state under the one that it has."""
        listed = self._looking(lambda: [operators(self.store, query.name) for query in self.jobs])
        if all(known is None or self.called in known for known in listed) and self.rng.random() < self.plan.renames:
            self.was, self.called = self.called, f"{self.called}x"
            self.note(f"operator {self.was} is called {self.called}")
            for query in self.jobs:
                query.region = self.called

    def say_what_it_was(self):
        """The user gives the name that the operator had."""
        if self.was is not None:
            self.checkpoint_thread.add(self.called, Kept("Nth", UNITS, was=self.was))

    @property
    def hosted(self):
        """The operator of the queries."""
        return Hosted(self._operator, pa.schema([ROWS.field(0)]), OUT, UNITS, ordered=self._ordered)

    def _untouched(self, name, epoch, _region):
        query = next(query for query in self.jobs if query.name == name)
        return not query.counts(epoch - 1)

    def _facts(self, stage, mark, _execution):
        """What Spark says of a stage."""
        query = next(query for query in self.jobs if query.name == mark)
        known = query.stages[int(stage) - 1]
        tasks = known.count if known.kept else len(known.partitions)  # what is there already is read by tasks, too
        return StageFacts(tasks, known.count, inputs=known.count, kept=known.kept)

    def helper(self, kind, owner):
        """A thread of the process whose turn it is."""
        made = Helper(self, f"{kind} of {self.current.name}")
        self.processes.append(made)
        self.current.threads = [*getattr(self.current, "threads", ()), owner]
        return made

    # -- who dies

    def kill_worker(self, process):
        super().kill_worker(process)
        for thread in getattr(process, "threads", ()):
            thread.die()

    def kill_driver(self, workers=None):
        """Everybody is killed, and a new driver goes on with what is in the store."""
        self.note("kill the driver")
        self.harm.add("driver")
        self.checkpoint_thread.die()
        for process in self.live():
            self.kill_worker(process)
        for fiber in self.fibers:
            fiber.kill()
        self.board.die()
        self.plan = replace(self.plan, workers=workers or self.rng.choice((1, 2, 3, 4)), late=0)
        for query in self.jobs:
            query.stage = query.actions = None
            query.run += 1
            query.pause = self.now + self.rng.choice((0.0, 1.0, 5.0))
        if self.rng.random() < self.plan.loses:
            self.harm.add("loss")
            self.losses.strike()
        if self.plan.renames:
            self._rename()
        self._boot()
        if self.was is not None and self.rng.random() < 0.5:
            self.say_what_it_was()

    def be_calm(self):
        """From now on nothing goes wrong."""
        self.harm = set()
        self.store.failing_until = 0.0
        self.plan.store_fails = self.plan.again = self.plan.hasty = self.plan.loses = self.plan.renames = 0.0
        self.calm_since = self.now
        self.say_what_it_was()
        self.delays = (0.0, 0.01)

    def _fault(self, kind):
        match kind:
            case "driver":
                self.kill_driver()
            case "store":
                self.store.failing_until = self.now + self.rng.choice((0.3, 2.0, 5.0))
                self.note(f"the store fails until {self.store.failing_until}")
            case "restart":
                running = [query for query in self.jobs if query.stage is not None]
                if running:
                    self.harm.add("restart")
                    self._fail(self.rng.choice(running), "it is stopped and started", new_run=True)
            case _:
                super()._fault(kind)

    # -- what Spark does

    def _step(self):
        if self.steps % 64 == 0:  # those that are over do nothing but take time
            self.fibers = [fiber for fiber in self.fibers if fiber.alive]
            self.processes = [each for each in self.processes if each.alive or not isinstance(each, Helper)]
        if not self.faulty:  # a worker may only now find that its connection was cut
            for number in self.missing():
                self.start_worker(number)
        return super()._step()

    def _advance(self, query):
        for when, fiber in [zombie for zombie in self.zombies if zombie[0] <= self.steps]:
            self.zombies.remove((when, fiber))
            fiber.kill()
        if query.done or self.now < query.pause:
            return
        if query.stage is not None:
            self._fill(query.stage)
        if query.stage is None:
            self._go_on(query)
        elif query.stage.through:
            if query.stage.full or query.actions[0] == "rest":
                query.sunk.add(query.epoch)
            query.actions.pop(0)
            query.stage = None
        else:
            self._look_after(query)

    def _go_on(self, query):
        """Evaluate the batch under way, or what is still to be evaluated of it; then commit it."""
        rng = self.rng
        if not self._may_start(query):
            return
        if query.actions is None:
            query.actions = self._draw_actions(query)
        if query.actions:
            self._start_stage(query, query.actions[0])
        else:
            self.note(f"batch {query.epoch} of {query.name} is committed")
            query.epoch, query.actions = query.epoch + 1, None
            if self.plan.loses:
                self.losses.copy()
            query.pause = self.now + rng.choice((0.0, 0.0, 0.5, 3.0))
            if self.faulty and rng.random() < max(self.plan.loses, self.plan.renames) / 2:
                self.kill_driver()  # now notes are all there is of the batch

    def _may_start(self, query):
        """Spark takes a while between stages, as a rule until all has been heard of the tasks before."""
        if query.stages and not all(task.done and self._settled(task) for task in query.stages[-1].tasks):
            if self.rng.random() >= self.plan.hasty / 20:
                return any(not task.done for task in query.stages[-1].tasks) and query.run != query.stages[-1].run
            self.harm.add("haste")
        return True

    def _draw_actions(self, query):
        everything, some = "all", "some"
        if query.epoch in query.sunk and self.rng.random() < 0.5:
            return [some] if self.rng.random() < 0.3 else []  # the sink has it, and does not want it again
        if self.rng.random() < self.plan.again:
            choices = (
                *([everything, everything], [some, everything], [everything, some], [some, some, everything, some]),
                *(["kept", "rest"], ["kept", "kept", "rest", some]),
            )
            return list(self.rng.choice(choices))
        return [everything]

    def rows_of(self, query, epoch):
        if epoch not in query.data:
            query.data[epoch] = [self.some_batches() for _ in range(query.partitions)]
        return query.data[epoch]

    def _start_stage(self, query, what):
        cached = self._cached(query) if what in ("kept", "rest") else None
        if cached is None and self.rng.random() < self.plan.reshapes:
            query.parallel = self.rng.randint(1, query.partitions + 2)
        everything = list(range(query.parallel))
        some = sorted(self.rng.sample(everything, self.rng.randint(1, query.parallel)))
        partitions = {"all": everything, "some": some, "kept": some, "rest": everything}.get(str(what), what)
        query.stage = Stage(query, query.epoch, len(query.stages) + 1, query.run, partitions, query.parallel)
        if what in ("kept", "rest"):
            query.persists += cached is None
            query.stage.kept = query.persists
            query.stage.partitions = [each for each in partitions if each not in (cached or ())]
        partitions = query.stage.partitions
        query.stages.append(query.stage)
        self.note(f"start {query.stage}, partitions {partitions}")
        query.stage.waiting = list(partitions)

    def _cached(self, query):
        """The partitions of what is persisted that are there; None if it is not in this run and batch."""
        mine = [stage for stage in query.stages if stage.kept == query.persists and stage.kept is not None]
        if not mine or (mine[-1].run, mine[-1].epoch) != (query.run, query.epoch):
            return None
        return {task.partition for stage in mine for task in stage.tasks if task.done and task.error is None}

    def _fill(self, stage):
        """Start tasks as there are slots for them."""
        while stage.waiting and sum(not task.done for task in stage.tasks) < self.plan.slots:
            partition = stage.waiting.pop(0)
            pieces = self.rows_of(stage.query, stage.epoch)[partition :: stage.count]
            rows = [batch for piece in pieces for batch in piece]
            self._start_in(stage, Task(stage.query, partition, 0, stage.epoch, rows))

    def _start_in(self, stage, task):
        query = stage.query
        feed = self._feed(query, query.name)
        task.stage = stage
        task.fiber = Fiber(self, f"feeder {task}, stage {stage.number}", lambda: self._run_task(task, feed))
        task.fiber.identity = {
            "partition": task.partition,
            "attempt": task.attempt,
            "query": query.name,
            "epoch": task.epoch,
            "stage": f"{stage.number}",
            "run": f"{stage.run}",
            "task": len(self.tasks),
        }
        for tasks in (stage.tasks, query.tasks, self.tasks):
            tasks.append(task)
        self.fibers.append(task.fiber)

    def _look_after(self, query):
        """Try a task again that failed, or give the stage up."""
        stage = query.stage
        broken = [task for task in stage.latest if task.done and task.error is not None]
        if not broken:
            return
        task = self.rng.choice(broken)
        self.losses.hear(task)
        if "is started without operator" in str(task.error):
            self.refusals += 1
            self.say_what_it_was()
        if task.attempt < 2 and self.rng.random() < self.plan.retries:
            self._start_in(stage, Task(query, task.partition, task.attempt + 1, task.epoch, task.batches))
        else:
            self._fail(query, f"{task.error!r}", new_run=self.rng.random() >= self.plan.same_run)

    def _fail(self, query, why, new_run):
        stage, query.stage = query.stage, None
        self.note(f"{stage} fails: {why}")
        for task in stage.tasks:
            if not task.done and new_run and self.rng.random() < self.plan.zombies:
                self.zombies.append((self.steps + self.rng.choice((5, 50, 300)), task.fiber))
            elif not task.done:
                task.fiber.kill()
        query.pause = self.now + self.rng.choice((0.0, 0.5, 3.0))
        if new_run:
            query.run, query.actions = query.run + 1, None

    # -- what the store must always be

    def after_put(self, name):
        parsed = parse(name)
        if parsed is not None and parsed.kind == "epoch":
            self._looking(lambda: self._check_manifest(parsed))

    def after_delete(self, name):
        parsed = parse(name)
        if parsed is not None:
            self._looking(lambda: self._check_needed(parsed.prefix))

    def _looking(self, look):
        sound, self.store.sound = self.store.sound, True
        found = look()
        self.store.sound = sound
        return found

    def _check_manifest(self, parsed):
        """What a manifest says is the state at the end of its batch."""
        self.manifests += 1
        manifest = read_manifest(self.store, epoch_name(parsed.prefix, parsed.epoch))
        query = next(query for query in self.jobs if query.name == parsed.query)
        try:
            wrong = self.mistakes(query, manifest)
        except CorruptState:
            if self.losses.were:  # whoever needs the blob will notice
                return
            raise
        if wrong:
            raise Broken(f"seed {self.seed}: the manifest of batch {manifest.epoch}: {wrong}")

    def mistakes(self, query, manifest):
        """What is wrong with the state that a manifest stands for."""
        return query.mistakes(self.state_of(manifest), manifest.epoch)

    def state_of(self, manifest):
        """By key, the rows in the state that a manifest stands for, in order."""
        return {key: rows for unit in self.loaded(manifest).counts.values() for key, rows in unit.items()}

    def loaded(self, manifest):
        """The state that a manifest stands for."""
        hosted = self.hosted
        snapshots = tuple(SnapshotEntry(name, parse(name).epoch) for name in manifest.snapshots)
        logs = tuple(LogEntry(log.epoch, log.attempt, log.segments) for log in manifest.logs)
        everything = np.arange(hosted.units, dtype=np.int32)
        of = (manifest.region, manifest.query)
        order = LoadState(*of, "", hosted.units, 0, manifest.epoch, 0, snapshots, logs, everything)
        blank = np.full(hosted.units, -1, np.int64)
        loaded, instance = Loaded(order, saved=blank.copy(), touched=blank.copy()), hosted.fresh()
        Loader("sim", lambda: None, Instances(), limits=self.limits).fill(self.store, loaded, instance, hosted)
        return instance

    def _check_needed(self, prefix):
        """Everything that the manifests that stay need is there, and what tasks since have noted."""
        kept = epochs(self.store, prefix)[:KEPT]
        manifests = [read_manifest(self.store, epoch_name(prefix, epoch)) for epoch in kept]
        for manifest in (*manifests, *latest(self.store, prefix).wholes):
            missing = [name for name in manifest.blobs() if name not in self.store.blobs]
            if missing:
                raise Broken(f"seed {self.seed}: {missing} of batch {manifest.epoch} were deleted and are needed")
