"""Spark sessions: an embedded one, and questions that a cluster asks any session."""

from __future__ import annotations

import logging
import os
import site
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import distributions
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenflow.errors import InvalidArgument, described
from evenflow.model.given import whole_of
from evenflow.runtime.cluster.spark.slots import slot_count
from evenflow.runtime.threads import BackgroundThread

logger = logging.getLogger("evenflow")

QUERY_SLOTS = 2
"""Slots for the query's own tasks, beside the slots of the workers."""
STACK = "16m"
"""For each of Java's threads. Where a query with `foreachBatch` is stopped, Spark matches the text of the error with a
pattern that takes some 600 bytes of stack a character; with Java's own 1 MB, a page of StackOverflowError is printed.
"""
DAEMON = "evenflow.runtime.cluster.daemon"
"""Forks Python processes that need no further import."""


def local_session(
    workers: int = 4, *, slots: int = QUERY_SLOTS, name: str = "evenflow", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """An embedded Spark with slots for `workers` workers and `slots` tasks of the query itself.

    Tasks are tried up to four times, as on a cluster. `conf` adds Spark settings or replaces the ones set here.
    """
    if not whole_of(workers) >= 1 or not whole_of(slots) >= 1:
        raise InvalidArgument(
            f"local_session(workers={workers!r}, slots={slots!r}): both must be whole numbers, at least 1"
        )
    if not isinstance(conf, Mapping | None) or not all(isinstance(each, str) for each in conf or ()):
        raise InvalidArgument(f"conf={conf!r:.100}: give settings by their names, as {{'spark.ui.enabled': 'true'}}")
    if not isinstance(name, str):
        raise InvalidArgument(f"name={name!r:.100}: give a string")
    active = SparkSession.getActiveSession()
    needed = workers + slots
    if active is not None:
        have = slot_count(active.sparkContext)
        if have < needed:
            raise InvalidArgument(
                f"a session with {have} slots is active, {workers} workers and {slots} query tasks need {needed}: "
                "stop it first, or give its master more slots"
            )
        return active
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet} -Xss{STACK}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(slots),
        "spark.default.parallelism": str(slots),
        **({"spark.python.daemon.module": DAEMON} if has_evenflow(python) else {}),
        **(conf or {}),
    }
    builder = SparkSession.builder.master(f"local[{needed},4]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def has_evenflow(python: str) -> bool:
    """Whether an interpreter surely has this package: it is the driver's own, and the package is installed for it.

    The driver may have it by its `sys.path` alone, which processes that it starts do not have.
    """
    places = [*site.getsitepackages(), site.getusersitepackages()]
    return python == sys.executable and any(distributions(name="evenflow", path=places))


def use_this_python(context: SparkContext) -> None:
    """Have tasks run by the driver's own interpreter, if none is configured and all is on one machine.

    Otherwise Spark takes the first python3 on the PATH: if the driver's virtual environment is not activated, that is
    another interpreter, without this package.
    """
    chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if not chosen and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable


def stop_progress_bar(context: SparkContext) -> None:
    """End the progress bar of a session's console: it would show the workers' stages, which never end, for ever."""
    bar = context._jsc.sc().progressBar()
    if bar.isDefined():
        bar.get().stop()


def missing_package(reason: str) -> str:
    """The remedy if a worker ended because the executors lack this package; empty if it ended for another reason."""
    if "No module named 'evenflow" not in reason:
        return ""
    return (
        "the executors' Python has no evenflow: set PYSPARK_PYTHON (or spark.pyspark.python) to an interpreter that "
        f"has it on every executor, before the session is made; the driver's is {sys.executable}"
    )


def driver_host(context: SparkContext) -> tuple[str, str]:
    """The address to listen on, and the address by which executors reach it."""
    if (context.master or "").startswith("local"):
        return "127.0.0.1", "127.0.0.1"
    host = context.getConf().get("spark.driver.host", "127.0.0.1")
    return context.getConf().get("spark.driver.bindAddress", host), host


def cancel_stage(context: SparkContext, stage: str, reason: str) -> None:
    """Cancel a stage and its job, whose error says why; no effect if it is over. Returns at once."""
    _cancel(context, f"stage {stage}", lambda: context._jsc.sc().cancelStage(int(stage), reason))


def cancel_tagged(context: SparkContext, tag: str) -> None:
    """Cancel the jobs with a tag. Returns at once."""
    _cancel(context, f"job {tag}", lambda: context.cancelJobsWithTag(tag))


def _cancel(context: SparkContext, what: str, cancel: Callable[[], None]) -> None:
    def failed(error: BaseException) -> None:
        if context._jsc is not None:  # else the session was stopped, and its jobs with it
            logger.warning("%s could not be cancelled, and goes on in vain: %s", what, described(error))

    BackgroundThread("cancel", cancel, failed).begin()


def executor_of(context: SparkContext, task: tuple[int, int]) -> str:
    """The id of the executor that runs a task, by its stage and task attempt; empty if Spark has forgotten it."""
    stage, attempt = task
    tasks = context._jsc.sc().statusStore().taskList(stage, 0, 10)
    for number in range(tasks.size()):
        data = tasks.apply(number)
        if data.taskId() == attempt:
            return str(data.executorId())
    return ""
