"""The injector: a thread on the driver that moves units all the time and carries out timed faults."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenflow.errors import EvenflowError
from evenflow.model import KeyedSnapshot, WorkerStatus
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.threads import BackgroundThread
from evenflow_lab.torture import processes
from evenflow_lab.torture.faults import blunders
from evenflow_lab.torture.faults.hooks import SPARK, Hooks, kill
from evenflow_lab.torture.schedule import Fault

POLL_S = 0.02
RIVAL, RIVAL_S = "evenflow_lab.torture.faults.rival", 180.0
UnitRanges: TypeAlias = Mapping[str, Sequence[range]]
"""By region, its operators: the units of each; a region without any is one operator itself."""


class Injector:
    """Owns a thread, which runs inside the `with` block."""

    def __init__(
        self, spark: SparkSession, cluster: Cluster, regions: UnitRanges, hooks: Hooks, where: str, key: str | None
    ) -> None:
        self._spark, self._cluster, self._regions = spark, cluster, regions
        self._hooks, self._where, self._key = hooks, where, key
        self._offsets = hooks.folder / SPARK / "offsets"
        self.paused = threading.Event()
        """Set when all queries are to end, and the cluster with them; they are started again."""
        self.wrong = ""
        """A description of something that a fault could do and should not; empty if there was nothing."""
        self._random = random.Random(hooks.schedule.seed)
        self._begun: dict[int, float] = {}
        self._flowing: dict[int, float] = {}
        """By batch, when it began, and when its first feeder was seen."""
        self._stopped: dict[int, float] = {}
        """Processes that are stopped, and the time at which each is continued."""
        self._starved: dict[int, tuple[float, tuple[int, int]]] = {}
        """By process that may open no further file: until when, and its usual limits."""
        self._thread = BackgroundThread("torture", self._run, lambda _error: None)

    def __enter__(self) -> Injector:
        self._thread.begin()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._thread.closing.set()
        self._thread.join(30)
        processes.send(self._stopped, signal.SIGCONT)
        self._feed(float("inf"))
        if self._thread.failure:
            raise EvenflowError(f"faults came to an end: {self._thread.failure}")

    def _run(self) -> None:
        while not self._thread.closing.wait(POLL_S):
            for region in self._regions:
                with suppress(EvenflowError):
                    self._move(region)
            self._strike()
            for pid in [pid for pid, until in self._stopped.items() if time.monotonic() > until]:
                processes.send([pid], signal.SIGCONT)
                del self._stopped[pid]
            self._feed(time.monotonic())
            if self.paused.is_set():
                self.pause()

    def _move(self, region: str) -> None:
        """Move a few units of an operator to a random worker, if no units are on their way."""
        now = cast(KeyedSnapshot, self._cluster.region(region).snapshot())
        if now.feeders:
            self._flowing.setdefault(self._batch(), time.monotonic())
        if now.feeders and not now.moving:
            among = self._random.choice(self._regions[region] or (range(len(now.unit_rows)),))
            units = self._random.sample(among, min(4, len(among)))
            self._cluster.region(region).move(units, self._random.randrange(len(self._cluster.workers())))

    def _batch(self) -> int:
        """The batch that is being processed, by Spark's own log; -1 before the first."""
        with suppress(FileNotFoundError):
            return max((int(entry.name) for entry in os.scandir(self._offsets) if entry.name.isdigit()), default=-1)
        return -1

    def _strike(self) -> None:
        batch, now = self._batch(), time.monotonic()
        self._begun.setdefault(batch, now)
        for number, fault in enumerate(self._hooks.schedule.faults):
            due = not fault.point and fault.victim and batch >= fault.batch
            since = (self._flowing if fault.flowing else self._begun).get(batch, float("inf"))
            if due and now >= since + (fault.delay_s if batch == fault.batch else 0):
                self._carry_out(number, fault)

    def _carry_out(self, number: int, fault: Fault) -> None:
        if self._hooks.done(number):
            return
        if fault.victim in ("driver", "checkpoint", "query"):
            if self._hooks.claim(number):
                self._hit_driver(fault)
            return
        live = [worker for worker in self._cluster.workers() if worker.state == "live"]
        victim = _victim(fault, live)
        if victim and self._hooks.claim(number):
            match fault.kind:
                case "lose":
                    self._lose(live[fault.worker % len(live)])
                case "stop":
                    self._stopped[victim] = time.monotonic() + fault.seconds
                    processes.send([victim], signal.SIGSTOP)
                case "exhaust":
                    self._starve(victim, fault.seconds)
                case "kill":
                    processes.send([victim], signal.SIGKILL)

    def _hit_driver(self, fault: Fault) -> None:
        match fault.kind:
            case "rival":
                came = subprocess.run(
                    [sys.executable, "-m", RIVAL, self._where, *([self._key] if self._key else [])],
                    capture_output=True,
                    text=True,
                    timeout=RIVAL_S,
                    check=False,
                )
                if came.returncode:
                    self.wrong = f"a rival came: {came.stdout or came.stderr}"
            case "freeze":
                os.killpg(0, signal.SIGSTOP)  # the parent process wakes it
            case "pause":
                self.pause()
            case "blunder":
                over, folder = self._thread.closing, self._hooks.folder
                said = blunders.commit(self._spark, self._cluster, folder, fault.share, over)
                self.wrong = self.wrong or said
            case "exhaust":
                self._starve(os.getpid(), fault.seconds)
                self._thread.closing.wait(fault.seconds)  # this thread would need descriptors, too
                self._feed(float("inf"))
            case "kill":
                kill(self._hooks.folder, "driver")

    def pause(self) -> None:
        """End all queries, also one that is being started now, so that the cluster is started anew."""
        self.paused.set()
        for query in self._spark.streams.active:
            query.stop()

    def _starve(self, pid: int, seconds: float) -> None:
        """Let a process open nothing more for a while."""
        with suppress(ProcessLookupError, FileNotFoundError):
            most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            there = len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (there, most[1]))
            self._starved[pid] = time.monotonic() + seconds, most

    def _feed(self, now: float) -> None:
        """Let starved processes have descriptors again, when their time is over."""
        for pid in [pid for pid, (until, _) in self._starved.items() if now >= until]:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, self._starved.pop(pid)[1])

    def _lose(self, worker: WorkerStatus) -> None:
        """Have Spark end an executor without replacing it."""
        context = SparkContext._active_spark_context
        if context is not None and context._jsc is not None:
            context._jsc.sc().killExecutor(worker.executor)


def _victim(fault: Fault, live: list[WorkerStatus]) -> int:
    """The id of the process to hit; 0 if there is none now."""
    pids = [worker.pid for worker in live]
    if not pids:
        return 0
    pid = pids[fault.worker % len(pids)]
    match fault.victim:
        case "executor":
            return processes.java_above(pid)
        case "feeder":
            forking = processes.children(processes.java_above(pid))  # Spark's daemons, which fork feeders and workers
            others = [child for daemon in forking for child in processes.children(daemon) if child not in pids]
            return others[fault.worker % len(others)] if others else 0
        case _:
            return pid
