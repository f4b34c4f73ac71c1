"""Starting and stopping a cluster: the controller thread, the checkpoint thread and the jobs of the workers."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenflow._version import __version__
from evenflow.control.controller import Controller
from evenflow.control.events import TaskEndedEvent
from evenflow.errors import ClusterStartError, ClusterStopped, StoreInUse
from evenflow.model.entries import ClusterStartedEntry, ExecutorsEntry, TaskEndedEntry
from evenflow.runtime.cluster.dashboard import LivePage
from evenflow.runtime.cluster.spark.executors import Executors
from evenflow.runtime.cluster.spark.interrupts import Interrupts
from evenflow.runtime.cluster.spark.session import (
    cancel_stage,
    driver_host,
    executor_of,
    missing_package,
    stop_progress_bar,
    use_this_python,
)
from evenflow.runtime.cluster.spark.slots import (
    check_slots,
    give_back,
    hold_slots,
    remedy_for_slots,
    slot_use,
    slots_needed,
)
from evenflow.runtime.cluster.spark.worker_jobs import WorkerJobs
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.driver.queries import Queries
from evenflow.runtime.driver.stages import Stages
from evenflow.runtime.wire.settings import Settings, mark_of

STOP_S = 20.0
"""How long workers may take to stop."""


class Lifecycle:
    """Owns the threads, jobs and page of one cluster; they are started together and stopped together.

    `settings` has no port yet: the controller thread chooses it. `event_log` is its path, and the bytes it may have.
    """

    def __init__(
        self,
        spark: SparkSession,
        context: SparkContext,
        workers: int,
        settings: Settings,
        event_log: tuple[str | Path | None, int],
        absent: frozenset[str] = frozenset(),
    ) -> None:
        self.context, self.workers, self._name = context, workers, settings.cluster
        self.released = self.closed = False
        self.page: LivePage | None = None
        self.checkpoint_thread: CheckpointThread | None = None
        use_this_python(context)
        stop_progress_bar(context)
        hold_slots(context, settings.cluster, workers)
        self._stages = Stages(context)
        self._executors: Executors | None = None
        try:
            if settings.checkpoint:
                owner = f"cluster {settings.cluster}"
                self.checkpoint_thread = CheckpointThread(settings.place, owner)
                self.checkpoint_thread.names.absent = absent
            self.driver = self._controller_thread(spark, settings, self._event_log(*event_log))
        except BaseException:
            give_back(context, settings.cluster)
            if self.checkpoint_thread is not None:
                self.checkpoint_thread.close()
            raise
        self.settings = replace(settings, port=self.driver.port)
        self._worker_jobs = WorkerJobs(context, self.settings, workers, self._task_ended)
        self._interrupts = Interrupts(spark)

    def _event_log(self, path: str | Path | None, total: int) -> EventLog:
        """The log, whose first entry says which cluster this is."""
        log = EventLog(path, total)
        log.write(ClusterStartedEntry(time=0.0, cluster=self._name, workers=self.workers, version=__version__))
        return log

    def _controller_thread(self, spark: SparkSession, settings: Settings, log: EventLog) -> ControllerThread:
        queries = Queries(spark)
        if self.checkpoint_thread is not None:
            self.checkpoint_thread.names.uses = lambda query, names: queries.uses(
                query, {name: mark_of(settings.cluster, name) for name in names}
            )
            self.checkpoint_thread.quiet = lambda query, first, last, name: queries.quiet(
                query, first, last, mark_of(settings.cluster, name) if name else ""
            )
        return ControllerThread(
            controller=Controller(self.workers, {**settings.qos, **settings.targets}, settings.stall_timeout),
            secret=settings.secret,
            host=driver_host(self.context)[0],
            period=settings.period,
            log=log,
            untouched=lambda query, epoch, name: queries.untouched(query, epoch, mark_of(settings.cluster, name)),
            checkpoint_thread=self.checkpoint_thread,
            cancel=partial(cancel_stage, self.context),
            queries=queries,
            stages=self._stages,
            replace_worker=lambda worker: self._worker_jobs.replace(worker),
            ticked=self._ticked,
        )

    def finish_start(self, timeout: float, page: bool | str, token: str | None) -> None:
        """Serve the live page if it is asked for, wait until all workers are live, check that queries have a slot."""
        if page:
            self.page = LivePage(f"cluster {self._name}", self.driver, page, token)
            print(f"evenflow dashboard: {self.page.link}", flush=True)
        self._stages.warm_up()  # while the workers start
        self.await_workers(timeout)
        check_slots(self.context, self.settings.cluster)
        executors = Executors(partial(executor_of, self.context))
        self._note_executors(executors)
        self._executors = executors  # from now on it is the controller's thread that asks it

    def _ticked(self) -> None:
        if self._executors is not None and not self.released:
            self._note_executors(self._executors)

    def _note_executors(self, executors: Executors) -> None:
        """Write into the event log which executor has which worker, as far as Spark knows; again after a restart."""
        tasks = self.driver.ask(lambda controller: {w: controller.task(w) for w in range(self.workers)})
        if found := executors.news(tasks):
            workers = {int(worker): executor for worker, executor in found.items()}
            self.driver.note(ExecutorsEntry(time=self.driver.now(), workers=workers))

    def await_workers(self, timeout: float) -> None:
        """Wait until all workers are live; a ClusterStartError after `timeout` seconds says why they are not."""
        self.check()
        deadline = time.monotonic() + timeout
        while (live := self.driver.ask(Controller.live)) < self.workers:
            why = missing_package(self._last_failure())
            if why or time.monotonic() > deadline:
                raise ClusterStartError(why or self._why_not_started(live, timeout))
            time.sleep(0.02)

    def check(self) -> None:
        """Raise an error if the cluster or its Spark session is stopped, or its checkpoint is lost to another."""
        if self.released:
            raise ClusterStopped("this cluster was stopped: start a new Cluster")
        if self.checkpoint_thread is not None and self.checkpoint_thread.lost:
            raise StoreInUse(self.checkpoint_thread.lost)
        if self.context._jsc is None:
            raise ClusterStopped("the Spark session of this cluster was stopped: start a new session and a new Cluster")

    def release(self) -> None:
        """Begin to stop: nothing is started any more."""
        self.released = True
        self._worker_jobs.release()

    def stop(self) -> None:
        """Stop the workers and give their slots back; `closed` says that this has been done."""
        self.driver.stop()
        try:
            self._worker_jobs.stop(STOP_S)
        finally:
            if self.page is not None:
                self.page.close()
            self.driver.close()
            self._interrupts.close()
            give_back(self.context, self.settings.cluster)
            self.closed = True  # not before: after a Ctrl-C on the way here, the next call does the rest

    def _task_ended(self, worker: int, reason: str) -> None:
        self.driver.post(TaskEndedEvent(self.driver.now(), worker, reason))

    def _why_not_started(self, live: int, timeout: float) -> str:
        failure = self._last_failure()
        if failure:
            seen = f"{live} of {self.workers} workers started within {timeout:g} s"
            return f"{seen}. The last worker task to fail said: {failure}"
        use = slot_use(self.context, self._worker_jobs.group)
        remedy = remedy_for_slots(self.context, slots_needed(self.context))
        return use.why_waiting(self.workers - live, self.workers, timeout, remedy)

    def _last_failure(self) -> str:
        """Why the last worker task to end did so; empty if none has ended."""
        entries, _ = self.driver.events_since(0)
        return next((entry.reason for entry in reversed(entries) if isinstance(entry, TaskEndedEntry)), "")
