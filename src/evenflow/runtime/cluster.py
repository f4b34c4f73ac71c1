"""The cluster: the user's handle on the workers, on the driver."""

from __future__ import annotations

import atexit
import copy
import dataclasses
import hashlib
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from evenflow.control.controller import Controller
from evenflow.control.events import RegionOpened, TaskEnded
from evenflow.errors import ClusterStartError, ClusterStopped, InvalidArgument
from evenflow.model import Snapshot, WorkerStatus
from evenflow.model.capacity import Emulate
from evenflow.operators.map import Input, MapOperator
from evenflow.policy import BALANCES, Balance, balance_named
from evenflow.policy.balance import Splitting
from evenflow.runtime.driver import Driver
from evenflow.runtime.eventlog import EventLog
from evenflow.runtime.feeder import Feed
from evenflow.runtime.frames import MAX_BODY
from evenflow.runtime.session import driver_host, executor_of, slot_count, slots_may_grow
from evenflow.runtime.settings import Settings
from evenflow.runtime.supervisor import Supervisor

STOP_S = 20.0


class Cluster:
    """Long-lived workers inside Spark's executors, and the controller that keeps them balanced.

    Starts `workers` workers, each holding one of Spark's task slots, and returns once all of them serve. Use it as a
    context manager, or call `stop()`. DataFrames made by `ordered_map` need the cluster for as long as they are
    evaluated.

    - `start_timeout`: seconds to wait for all workers to start.
    - `period`: seconds between samples of blocking rates, reports and decisions.
    - `stall_timeout`: seconds a task waits without a sign of life from its workers before it fails and says which.
    - `event_log`: a file for the event log (JSON lines); the latest events are in `events()` in any case.
    - `emulate`: capacities to emulate, see `evenflow.testing.Emulate`.
    """

    def __init__(
        self,
        spark: SparkSession,
        workers: int = 4,
        *,
        start_timeout: float = 60.0,
        period: float = 1.0,
        stall_timeout: float = 600.0,
        event_log: str | Path | None = None,
        emulate: Emulate | None = None,
    ) -> None:
        _check_numbers(workers, start_timeout=start_timeout, period=period, stall_timeout=stall_timeout)
        if emulate is not None and max(emulate.slowdown, default=0) >= workers:
            raise InvalidArgument(
                f"emulate slows worker {max(emulate.slowdown)} of {workers} workers: ids go from 0 to {workers - 1}"
            )
        self._spark = spark
        self._context = _classic_context(spark)
        self._size = workers
        self._stopped = self._closed = False
        self._opening = threading.Lock()
        bind, host = driver_host(self._context)
        secret = secrets.token_bytes(32)
        name = uuid.uuid4().hex[:8]
        log = EventLog(event_log)
        self._driver = Driver(Controller(workers), secret, bind, period, log)
        settings = Settings(name, host, self._driver.port, secret, period, stall_timeout, emulate)
        self._settings = settings
        self._supervisor = Supervisor(self._context, settings, workers, self._task_ended)
        atexit.register(self.stop)
        try:
            self._await_workers(start_timeout)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else f"{self._driver.ask(Controller.live)} live"
        return f"<Cluster {self._settings.cluster}: {self._size} workers, {state}>"

    def ordered_map(
        self,
        df: DataFrame,
        function: Callable[[Any], Any],
        schema: StructType | str,
        *,
        balance: str | Balance = "credits",
        input: Input = "arrow",
        name: str = "",
        **options: Any,
    ) -> DataFrame:
        """Apply `function` to the rows of `df` on the workers, in parallel and in order.

        `function` takes a `pyarrow.RecordBatch` and returns one with the columns of `schema`; it may drop or add rows,
        and must not depend on how rows are cut into batches. With `input="pandas"` both are pandas DataFrames. Within
        each Spark partition the rows of the result have the order of the rows they come from. `df` may be batch or
        streaming; the result is of the same kind.

        `balance` says how rows are shared among the workers: a name, whose parameters are given as `options`
        (`balance="blocking-rate", explore=False`), or an object from `evenflow.policy`. `name` is what the region is
        called in the event log.
        """
        self._check_running()
        if not hasattr(df, "mapInArrow"):
            raise InvalidArgument(f"df is a {type(df).__name__}: give a DataFrame")
        if not callable(function):
            raise InvalidArgument(f"the function is {function!r}: give something that can be called with a batch")
        if input not in get_args(Input):
            raise InvalidArgument(f"input={input!r}: one of {', '.join(map(repr, get_args(Input)))}")
        chosen = _balance(balance, options)
        declared = _schema(self._spark, schema)
        arrow = _arrow_schema(self._spark, declared)
        code = _pickled(MapOperator(function, arrow, input))
        operator = hashlib.sha256(code).hexdigest()[:16]
        with self._opening:  # one at a time: until its region is open, a name is free and an operator unused
            self._driver.add_code(operator, code)
            region = self._driver.ask(lambda controller: controller.free_name(name or "region"))
            self._driver.open_region(RegionOpened(self._driver.now(), region, operator, chosen))
        feed = Feed(self._settings, region, operator, arrow.serialize().to_pybytes(), chosen.splitting)
        return df.mapInArrow(feed, declared)

    def workers(self) -> list[WorkerStatus]:
        """The workers: id, executor, host, pid, state, restarts and what they did so far."""
        now = self._driver.now()
        found = self._driver.ask(lambda controller: [(w, controller.task(w.id)) for w in controller.workers(now)])
        if self._stopped or self._context._jsc is None:  # the cluster, or the session under it
            return [dataclasses.replace(worker, state="stopped") for worker, _ in found]
        return [
            dataclasses.replace(worker, executor=executor_of(self._context, task)) if worker.incarnation else worker
            for worker, task in found
        ]

    def snapshot(self, region: str) -> Snapshot:
        """A region's statistics now."""
        return self._driver.ask(lambda controller: controller.region(region).snapshot(self._driver.now()))

    def events(self) -> list[dict[str, Any]]:
        """The latest entries of the event log, oldest first."""
        return self._driver.events()

    def stop(self) -> None:
        """Stop the workers and give their slots back; queries still running on them fail. Safe to call twice."""
        if self._closed:
            return
        self._stopped = True
        self._supervisor.release()
        self._driver.stop()
        try:
            self._supervisor.stop(STOP_S)
        finally:
            self._driver.close()
            self._closed = True  # not before: a Ctrl-C on the way here leaves the rest to the next call
            atexit.unregister(self.stop)

    def _check_running(self) -> None:
        if self._stopped:
            raise ClusterStopped("this cluster was stopped: start a new Cluster")
        if self._context._jsc is None:
            raise ClusterStopped("the Spark session of this cluster was stopped: start a new session and a new Cluster")

    def _task_ended(self, worker: int, reason: str) -> None:
        self._driver.post(TaskEnded(self._driver.now(), worker, reason))

    def _await_workers(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (live := self._driver.ask(Controller.live)) < self._size:
            if time.monotonic() > deadline:
                raise ClusterStartError(self._why_not_started(live, timeout))
            time.sleep(0.02)
        slots = slot_count(self._context)
        if slots <= self._size and not slots_may_grow(self._context):
            raise ClusterStartError(
                f"{self._size} workers hold all {slots} task slots of this session and leave none for the query: "
                f"{_remedy(self._context.master, self._size + 1)}"
            )

    def _why_not_started(self, live: int, timeout: float) -> str:
        slots = slot_count(self._context)
        message = f"{live} of {self._size} workers started within {timeout:.0f} s; the session has {slots} task slots. "
        failures = [event for event in self._driver.events() if event["event"] == "task-ended"]
        if failures:
            return message + f"The last worker task to fail said: {failures[-1]['reason']}"
        return message + _remedy(self._context.master, self._size + 1)


def _remedy(master: str, slots: int) -> str:
    if master.startswith("local["):
        return f"Use master local[{slots},4] or more, or evenflow.local_session(workers={slots - 1})"
    return (
        f"Give the session at least {slots} slots (executors times spark.executor.cores over spark.task.cpus), "
        "end other jobs that hold them, or ask for fewer workers"
    )


def _balance(balance: str | Balance, options: dict[str, Any]) -> Balance:
    """The region's own balance: what it learns must not mix with what another region's learns."""
    if isinstance(balance, str):
        return balance_named(balance, **options)
    if isinstance(balance, type) or getattr(balance, "splitting", None) not in get_args(Splitting):
        raise InvalidArgument(
            f"balance={balance!r}: give one of {', '.join(sorted(BALANCES))}, or an object of evenflow.policy"
        )
    if options:
        raise InvalidArgument(f"{', '.join(options)}: give these to {type(balance).__name__}(...) itself")
    return copy.deepcopy(balance)


def _check_numbers(workers: int, **seconds: float) -> None:
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise InvalidArgument(f"workers={workers!r}: a cluster needs at least 1 worker")
    for name, value in seconds.items():
        if not value > 0:
            raise InvalidArgument(f"{name}={value!r}: give seconds, above 0")


def _classic_context(spark: SparkSession) -> Any:
    try:
        context = spark.sparkContext
    except Exception as error:
        raise InvalidArgument(
            f"{type(spark).__name__} has no SparkContext (Spark Connect?): Cluster needs a classic SparkSession"
        ) from error
    if context._jsc is None:
        raise InvalidArgument("the Spark session is stopped: start one first")
    return context


def _schema(spark: SparkSession, schema: StructType | str) -> StructType:
    """The declared schema; a wrong string is one clear error, not a Java stack trace."""
    parsed: DataType = schema if isinstance(schema, StructType) else _parsed(schema)
    if not isinstance(parsed, StructType):
        raise InvalidArgument(f"schema {schema!r} is a {parsed.simpleString()}, not columns: write 'name type, ...'")
    if not parsed.fields:
        raise InvalidArgument(f"schema {schema!r} declares no columns: Spark would lose the rows. Declare at least one")
    return parsed


def _parsed(schema: str) -> DataType:
    try:
        return StructType.fromDDL(schema)
    except (PySparkException, Py4JError, ValueError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"schema {schema!r} is not one: {_summary(error)}") from None


def _summary(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _arrow_schema(spark: SparkSession, schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(
        schema,
        timezone=spark.conf.get("spark.sql.session.timeZone"),
        prefers_large_types=spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true",
    )


def _pickled(operator: MapOperator) -> bytes:
    from pyspark import cloudpickle

    try:
        code: bytes = cloudpickle.dumps(operator)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InvalidArgument(f"the function cannot be shipped to the workers: {error}") from error
    if len(code) > MAX_BODY:
        raise InvalidArgument(
            f"the function pickles to {len(code)} bytes, over {MAX_BODY}: load what it holds on the worker instead"
        )
    return code
