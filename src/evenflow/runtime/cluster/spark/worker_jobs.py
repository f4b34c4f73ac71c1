"""Keeps workers running: one Spark job for each worker, submitted again whenever it ends too early.

Each worker has a job of its own because Spark cancels all tasks of a job when one of them fails for good (in local mode
at the first failure): the loss of a worker must not end the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark import SparkContext

from evenflow.errors import EvenflowError, described
from evenflow.runtime.cluster.spark.session import cancel_tagged
from evenflow.runtime.threads import BackgroundThread
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.loop import WorkerTask

logger = logging.getLogger("evenflow")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LONG_LIFE_S = 30.0
"""A worker that lived this long starts again without delay."""


class WorkerJobs:
    """Owns one thread for each worker; each waits for a Spark job with one task."""

    def __init__(
        self, context: SparkContext, settings: Settings, workers: int, ended: Callable[[int, str], None]
    ) -> None:
        self._context = context
        self._settings = settings
        self.group = f"evenflow-{settings.cluster}"
        self._ended = ended
        self._stopping = threading.Event()
        self._threads = [
            BackgroundThread(f"worker {worker}", partial(self._keep, worker), partial(self._failed, worker))
            for worker in range(workers)
        ]
        for thread in self._threads:
            thread.begin()

    def stop(self, patience: float) -> None:
        """Wait for the jobs to end; after half of `patience` cancel them. The workers have been told to stop."""
        self._stopping.set()
        if self._join(patience / 2):
            return
        self._cancel()
        if not self._join(patience / 2):
            stuck = [thread.name for thread in self._threads if thread.alive]
            raise EvenflowError(f"Spark did not end the jobs of {', '.join(stuck)} within {patience:.0f} s")

    def replace(self, worker: int) -> None:
        """Cancel the job of a worker whose process does not answer, so that it is submitted again."""
        if not self._stopping.is_set():
            cancel_tagged(self._context, self._tag(worker))

    def _tag(self, worker: int) -> str:
        return f"{self.group}-{worker}"

    def release(self) -> None:
        """Start no more jobs, because the cluster is about to be stopped."""
        self._stopping.set()

    def _join(self, patience: float) -> bool:
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.alive for thread in self._threads)

    def _cancel(self) -> None:
        try:
            self._context.cancelJobGroup(self.group)
        except (Py4JError, OSError):  # the session is gone, and its jobs with it
            return

    def _failed(self, worker: int, error: BaseException) -> None:
        """Tell that this worker is not started again, because its thread has failed."""
        logger.error("evenflow's worker %d is not started again", worker, exc_info=error)
        self._ended(worker, f"it is not started again, since its thread on the driver has failed: {described(error)}")

    def _keep(self, worker: int) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            started = time.monotonic()
            reason = self._run(worker)
            if self._stopping.is_set() or self._context._jsc is None:
                return
            self._ended(worker, reason)
            pause = FIRST_PAUSE_S if time.monotonic() - started > LONG_LIFE_S else min(pause * 2, LONGEST_PAUSE_S)
            self._stopping.wait(pause)

    def _run(self, worker: int) -> str:
        """Run the worker's job to its end; returns why it ended."""
        try:
            # not interruptOnCancel: if a task is interrupted while its Python process starts, Spark ends all Python
            # processes of the executor, also those of other clusters; without it, Spark ends this one seconds later
            self._context.setJobGroup(self.group, f"evenflow worker {worker}")
            self._context.addJobTag(self._tag(worker))
            rows = self._context.parallelize([worker], 1)
            for form in ("short", "long"):  # what Spark calls the stage, in its pages and its progress
                self._context.setLocalProperty(f"callSite.{form}", f"evenflow worker {worker}")
            # runJob, since collect() names the stage itself
            return str(self._context.runJob(rows, WorkerTask(self._settings, worker))[0])
        except Exception as error:  # Spark's failures come in many classes; all of them mean: start it again
            return _first_lines(str(error))


def _first_lines(text: str) -> str:
    """The important lines of a Spark failure: the first two, and that of the Python error if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if "Error:" in line and not line.startswith(("at ", ":"))]
    return " | ".join(dict.fromkeys(lines[:2] + causes[-1:]))[:2000]
