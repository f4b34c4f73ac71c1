"""Ctrl-C while Spark works: the action that was waited for ends, streams go on, the user sees one KeyboardInterrupt.

PySpark's own handler asks Spark to cancel all jobs over the connection whose answer it has just interrupted: that
fails, and py4j logs a page. Ours does not use that connection. (py4j may break other connections when it is
interrupted, and with them jobs of workers; these are started again, as after any loss.)
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenflow.errors import described
from evenflow.runtime.threads import BackgroundThread

logger = logging.getLogger("evenflow")

GROUP = "evenflow-"
"""The prefix of the job groups of workers."""


class Interrupts:
    """Replaces PySpark's handler of SIGINT as long as a cluster runs; a handler of the user's own is kept."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._before: Any = None
        if threading.current_thread() is not threading.main_thread():
            return
        found = signal.getsignal(signal.SIGINT)
        if getattr(found, "__module__", "") == SparkContext.__module__:
            self._before = found
            signal.signal(signal.SIGINT, self._interrupted)
            logging.getLogger().addFilter(_not_py4j)

    def close(self) -> None:
        """Restore the handler from before; not possible from another thread, where ours stays and does no harm."""
        if self._before is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, self._before)
        logging.getLogger().removeFilter(_not_py4j)
        self._before = None

    def _interrupted(self, _signal: int, _frame: FrameType | None) -> None:
        BackgroundThread("interrupt", self._cancel, self._failed).begin()
        raise KeyboardInterrupt

    def _cancel(self) -> None:
        """End all jobs except those of workers and streams; runs on a thread, and so a connection, of its own."""
        context, streams = self._spark.sparkContext, {query.runId for query in self._spark.streams.active}
        spark = context._jsc.sc()
        for job in context.statusTracker().getActiveJobsIds():
            group = spark.statusStore().job(job).jobGroup()
            name = "" if group.isEmpty() else str(group.get())
            if not name.startswith(GROUP) and name not in streams:
                spark.cancelJob(job)

    def _failed(self, error: BaseException) -> None:
        """Warn that jobs may still run, unless the session was stopped, which ends them."""
        if self._spark.sparkContext._jsc is not None:
            logger.warning("what was interrupted may still run in Spark: %s", described(error))


def _not_py4j(record: logging.LogRecord) -> bool:
    """Whether to log a record: py4j's record of an interrupt only repeats the traceback that is raised anyway."""
    return record.msg != "KeyboardInterrupt while sending command."
