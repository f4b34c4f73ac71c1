"""The cluster: the user's handle on the workers, on the driver."""

from __future__ import annotations

import atexit
import dataclasses
import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenflow.control.controller import Controller
from evenflow.control.events import TaskEnded, Transfer
from evenflow.control.ordered_region import Region
from evenflow.errors import ClusterStartError, ClusterStopped, InvalidArgument, StoreInUse
from evenflow.model import KeyedSnapshot, MoveUnits, Snapshot, WorkerStatus
from evenflow.model.capacity import Emulate
from evenflow.operators.declared import check_apart, spelled
from evenflow.operators.keyed import KeyedOperator, identity
from evenflow.operators.map import Input, MapOperator
from evenflow.policy import Balance, KeyedBalance
from evenflow.runtime.cluster.arguments import (
    arrow_schema,
    balance_of,
    bytes_of,
    case_sensitive,
    check_dataframe,
    check_move,
    check_name,
    check_numbers,
    check_operator,
    check_sharing,
    check_units,
    classic_context,
    keyed_balance_of,
    pickled,
    schema_of,
    weights_of,
    where_of,
)
from evenflow.runtime.cluster.detect import Order, Rules, plan_rules
from evenflow.runtime.cluster.interrupts import Interrupts
from evenflow.runtime.cluster.keyed_plan import plan_keyed
from evenflow.runtime.cluster.order import ordering_of, warning_of
from evenflow.runtime.cluster.qos import Named
from evenflow.runtime.cluster.regions import Regions
from evenflow.runtime.cluster.session import cancel_stage, driver_host, executor_of, missing_package, use_this_python
from evenflow.runtime.cluster.slots import (
    check_slots,
    give_back,
    hold_slots,
    remedy_for_slots,
    slot_count,
    slots_needed,
)
from evenflow.runtime.cluster.worker_jobs import WorkerJobs
from evenflow.runtime.driver.checkpoint import CheckpointThread, Kept
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.driver.queries import Queries
from evenflow.runtime.driver.stages import Stages
from evenflow.runtime.feeder.ordered import Feed
from evenflow.runtime.wire.settings import Settings
from evenflow.state.store.sealed import key_of

STOP_S = 20.0


class Cluster:
    """Long-lived workers inside Spark's executors, and the controller that keeps them balanced.

    Starts `workers` workers, each holding one of Spark's task slots, and returns once all of them serve. Use it as a
    context manager, or call `stop()`. DataFrames made by `ordered_map` need the cluster for as long as they are
    evaluated.

    - `start_timeout`: seconds to wait for all workers to start.
    - `period`: seconds between samples of blocking rates, reports and decisions.
    - `stall_timeout`: seconds a task waits without a sign of life from its workers before it fails and says which; a
      worker that says nothing for so long while state is to be loaded into it is replaced.
    - `event_log`: a file for the event log (JSON lines); the latest events are in `events()` in any case.
    - `emulate`: capacities to emulate, see `evenflow.testing.Emulate`.
    - `checkpoint`: a directory, URI or PostgreSQL database (`postgresql://user@host/database?schema=name`) that the
      driver and all executors can reach, for the state of streaming queries
      over keyed operators: with it they are exactly-once wherever Spark's own are, whatever is lost. Keep it beside
      Spark's own checkpointLocation; it belongs to one cluster at a time.
    - `checkpoint_key`: at least 16 bytes, or characters, that only the cluster knows: then nothing is read from the
      checkpoint, and no state unpickled, that was not written with the same key. State is not encrypted.
    - `memory`: what the state of keyed operators may take in each worker, in bytes or as "512m"; what is more goes to
      the worker's local disk, and rows for it wait until it is brought back.
    - `qos`: how much the latency of keyed operators matters, by their names, where several share the workers: weights
      above 0; who is not named has 1. Names that no operator has had are warned of.
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
        checkpoint: str | Path | None = None,
        checkpoint_key: bytes | str | None = None,
        qos: Mapping[str, float] | None = None,
        memory: str | int | None = None,
    ) -> None:
        check_numbers(workers, start_timeout=start_timeout, period=period, stall_timeout=stall_timeout)
        if emulate is not None and max(emulate.slowdown, default=0) >= workers:
            raise InvalidArgument(
                f"emulate slows worker {max(emulate.slowdown)} of {workers} workers: ids go from 0 to {workers - 1}"
            )
        self._spark = spark
        self._context = classic_context(spark)
        self._size = workers
        self._stopped = self._closed = False
        bind, host = driver_host(self._context)
        secret = secrets.token_bytes(32)
        name = uuid.uuid4().hex[:8]
        where, budget, weights = where_of(checkpoint), bytes_of(memory), weights_of(qos)
        key = key_of(checkpoint_key)
        if key and not where:
            raise InvalidArgument("checkpoint_key is given and checkpoint is not: give both, or neither")
        use_this_python(self._context)
        hold_slots(self._context, name, workers)
        self._named = Named(weights)
        self._checkpoint_thread: CheckpointThread | None = None
        try:
            self._checkpoint_thread = CheckpointThread(where, f"cluster {name}", key) if where else None
            log = EventLog(event_log)
            queries = Queries(spark)
            cancel = partial(cancel_stage, self._context)
            stages = Stages(self._context)
            asked = (queries.untouched, self._checkpoint_thread, cancel, queries, stages)
            controller = Controller(workers, weights, stall_timeout)
            self._driver = ControllerThread(controller, secret, bind, period, log, *asked, replace_worker=self._replace)
        except BaseException:
            give_back(self._context, name)
            if self._checkpoint_thread is not None:
                self._checkpoint_thread.close()
            raise
        self._regions = Regions(self._driver, self._checkpoint_thread)
        settings = Settings(
            name, host, self._driver.port, secret, period, stall_timeout, emulate, where, weights, budget, key
        )
        self._settings = settings
        self._worker_jobs = WorkerJobs(self._context, settings, workers, self._task_ended)
        self._interrupts = Interrupts(spark)
        atexit.register(self.stop)
        try:
            stages.warm_up()  # while the workers start
            self.await_workers(start_timeout)
            check_slots(self._context, name)
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
        check_dataframe(df)
        check_name(name)
        if not callable(function):
            raise InvalidArgument(f"the function is {function!r}: give something that can be called with a batch")
        if input not in get_args(Input):
            raise InvalidArgument(f"input={input!r}: one of {', '.join(map(repr, get_args(Input)))}")
        chosen = balance_of(balance, options)
        declared = schema_of(schema)
        arrow = arrow_schema(self._spark, declared)
        region, operator = self._regions.open(pickled(MapOperator(function, arrow, input)), name or "region", chosen)
        feed = Feed(self._settings, region, operator, arrow.serialize().to_pybytes(), chosen.splitting)
        return df.mapInArrow(feed, declared)

    def keyed(
        self,
        df: DataFrame,
        key: str | Column | Sequence[str | Column],
        operator: KeyedOperator,
        schema: StructType | str | None = None,
        *,
        units: int = 1024,
        balance: str | KeyedBalance = "auto",
        ordered: bool = False,
        name: str = "",
        spread: str = "hash",
        split_keys: bool = False,
        transfer: Transfer = "direct",
        order_by: str | Sequence[str] | None = None,
        lateness: str | float | timedelta | None = None,
        **options: Any,
    ) -> DataFrame:
        """Apply a stateful operator to the rows of `df` on the workers, each key's rows where that key's state is.

        Keys are hashed into `units`; workers own units, and `balance` moves units with their state from busy workers to
        idle ones while rows flow. Rows of one key from one Spark partition are processed in their order; results come
        as they are ready, or with `ordered=True` in the order of the rows they come from. Rows whose key is null have a
        unit of their own. `schema` is what the operator returns; ready-made operators know it.

        `order_by` names a column or several: within each micro-batch (or the whole batch DataFrame) the operator sees
        the rows of each key in their order, whatever partitions they come from, so results are the same every time.
        With `lateness` ("10 seconds", or seconds), across micro-batches too: the first column is the time, and rows
        wait until it is so much behind the latest row of any key. Those that come later still are counted as late and
        left out, unless the operator has `on_late`. Without `order_by`, rows of one key from several partitions meet in
        the order of arrival.

        State lasts as long as the streaming query and the cluster. A batch DataFrame has fresh state in each action, as
        Spark evaluates it anew; if the result is persisted, all actions on it share one evaluation.

        `balance` is a name, whose parameters are given as `options` (`balance="flux", th_imb=1.1`), or an object from
        `evenflow.policy`. Those that send rows of one key to several workers ("river", "pkg") are refused for operators
        that need all rows of a key in one place, unless `split_keys=True` says that wrong results are wanted.

        `spread="modulo"`: a key that is a whole number goes to unit key mod `units`, instead of by its hash.

        `transfer="store"`: units move by way of the checkpoint instead of from worker to worker, which then need not
        reach each other; rows for them wait longer.
        """
        self._check_running()
        check_dataframe(df)
        check_name(name)
        check_operator(operator)
        exact = case_sensitive(self._spark)
        operator = spelled(operator, df.columns, exact)
        check_apart(operator, df.columns, exact)
        operator = operator.planned(ansi=self._spark.conf.get("spark.sql.ansi.enabled") == "true")
        chosen = keyed_balance_of(balance, options)
        check_sharing(operator, chosen, split_keys)
        check_units(units, self._size)
        ordering = ordering_of(df, order_by, lateness, ordered, chosen)
        if transfer not in get_args(Transfer) or (transfer == "store" and self._checkpoint_thread is None):
            raise InvalidArgument(f"transfer={transfer!r}: give 'direct', or 'store' in a cluster with a checkpoint")
        plan = plan_keyed(self._spark, df, key, operator, schema, units + 1, ordered, spread, ordering)
        code = pickled(plan.hosted)
        warning = warning_of(operator, ordering, name or "keyed")
        if self._checkpoint_thread is not None and df.isStreaming and chosen.by_content:
            by = f"{key} modulo" if spread == "modulo" else key
            kept = Kept(f"{identity(operator)} by {by}{ordering or ''}", units + 1, bool(name))
            region, digest = self._regions.open_stored(code, name or kept.operator, kept, chosen, transfer, warning)
        else:
            region, digest = self._regions.open(code, name or "keyed", chosen, units + 1, transfer, warning)
        self._named.use(name or region)
        self._regions.await_operator(digest)
        choices = 0 if chosen.by_content else getattr(chosen, "choices", 0)
        shares = max(1, min(self._size, slot_count(self._context) - self._size))
        return plan.applied(self._settings, region, digest, chosen.by_content, choices, shares)

    def detect(
        self,
        df: DataFrame | Mapping[str, DataFrame],
        rules: Rules,
        *,
        key: str | Column | Sequence[str | Column],
        functions: Mapping[str, Callable[..., Any]] | None = None,
        time: str | None = None,
        lateness: str | float | timedelta | None = None,
        order: Order | None = None,
        order_by: str | Sequence[str] | None = None,
        units: int = 4096,
        balance: str | KeyedBalance = "auto",
        name: str = "",
        ordered: bool = False,
        **options: Any,
    ) -> DataFrame:
        """Run rules over the rows of `df`, each key's rows where that key's windows are; what they detect.

        `rules` is a text, or several by name or in a list: then the result's first column `rule` tells whose a row is,
        and the others are those of all rules. `df` is what the rules call by any one name, or DataFrames by name.
        docs/cep.md has the language.

        `functions` are called in rules by their names, with pandas Series, and return one value for each; a function
        made with `pandas_udf` says of which type, others return doubles.

        `time` is the column by which windows in time and `timer:within` go, and in whose order rules see the rows of a
        key, of all streams; without it they go by the time of the micro-batch. With `lateness` ("10 seconds", or
        seconds) rows of a stream wait until their time is so much behind the latest row of any key; those that come
        later still take no part, and come out in the last column, `late`, as they were. Without it, rows are in order
        within their micro-batch, and none is late. Windows end when that time has passed, whoever's rows tell it; at
        the end of a batch DataFrame all do. `order="arrival"`: rules see rows as they arrive, and each key has its own
        time.

        `order_by`: columns by which rows of the same time, or without `time` those of a micro-batch, are ordered.

        `units`, `balance`, `name` and further options are those of `keyed`.
        """
        self._check_running()
        planned = plan_rules(df, rules, key, functions, time, lateness, order, order_by)
        if ordered and planned.order_by is not None:
            given = "time=" if order_by is None else "order_by="
            raise InvalidArgument(
                f"{given} and ordered=True: rules see rows in the order of their times, and results come then, not in "
                "the order in which Spark has the rows: leave out ordered=True, or give order='arrival'"
            )
        more = {**options, "order_by": planned.order_by, "lateness": planned.lateness, "ordered": ordered}
        rows, operator = planned.rows, planned.operator
        return self.keyed(rows, key, operator, units=units, balance=balance, name=name, **more)

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
        """An ordered region's statistics now."""
        known = self._regions.find(region)
        if not isinstance(known, Region):
            raise InvalidArgument(f"region {region} is keyed: ask for its keyed_snapshot")
        return self._driver.ask(lambda _: known.snapshot(self._driver.now()))

    def keyed_snapshot(self, region: str) -> KeyedSnapshot:
        """A keyed operator's statistics now."""
        known = self._regions.find_keyed(region)
        return self._driver.ask(lambda _: known.snapshot(self._driver.now()))

    def move(self, region: str, units: Sequence[int], target: int) -> None:
        """Ask for units of a keyed operator to be moved to a worker; the event log tells what becomes of it."""
        known = self._regions.find_keyed(region)
        if not known.balance.by_content:
            raise InvalidArgument(f"region {region} has balance {known.balance.name!r}: its rows go to any worker")
        owners = known.movements.table.owners
        units = check_move(units, target, len(owners), self._size)
        for source in sorted({int(owners[unit]) for unit in units} - {target}):
            mine = tuple(int(unit) for unit in units if owners[unit] == source)
            self._driver.move(MoveUnits(region, mine, source, target, "asked for"))

    def await_workers(self, timeout: float = 60.0) -> None:
        """Wait until all workers are live, after some were lost."""
        self._check_running()
        deadline = time.monotonic() + timeout
        while (live := self._driver.ask(Controller.live)) < self._size:
            why = missing_package(self._last_failure())
            if why or time.monotonic() > deadline:
                raise ClusterStartError(why or self._why_not_started(live, timeout))
            time.sleep(0.02)

    def events(self) -> list[dict[str, Any]]:
        """The latest entries of the event log, oldest first."""
        return self._driver.events()

    def stop(self) -> None:
        """Stop the workers and give their slots back; queries still running on them fail. Safe to call twice."""
        if self._closed:
            return
        self._stopped = True
        self._named.check()
        self._worker_jobs.release()
        self._driver.stop()
        try:
            self._worker_jobs.stop(STOP_S)
        finally:
            self._driver.close()
            self._interrupts.close()
            give_back(self._context, self._settings.cluster)
            self._closed = True  # not before: a Ctrl-C on the way here leaves the rest to the next call
            atexit.unregister(self.stop)

    def _check_running(self) -> None:
        if self._stopped:
            raise ClusterStopped("this cluster was stopped: start a new Cluster")
        if self._checkpoint_thread is not None and self._checkpoint_thread.lost:
            raise StoreInUse(self._checkpoint_thread.lost)
        if self._context._jsc is None:
            raise ClusterStopped("the Spark session of this cluster was stopped: start a new session and a new Cluster")

    def _replace(self, worker: int) -> None:
        self._worker_jobs.replace(worker)

    def _task_ended(self, worker: int, reason: str) -> None:
        self._driver.post(TaskEnded(self._driver.now(), worker, reason))

    def _why_not_started(self, live: int, timeout: float) -> str:
        slots = slot_count(self._context)
        message = f"{live} of {self._size} workers started within {timeout:.0f} s; the session has {slots} task slots. "
        failure = self._last_failure()
        if failure:
            return message + f"The last worker task to fail said: {failure}"
        return message + remedy_for_slots(self._context, slots_needed(self._context))

    def _last_failure(self) -> str:
        """Why the last worker task to end did so; empty if none has."""
        ended = (str(event["reason"]) for event in reversed(self._driver.events()) if event["event"] == "task-ended")
        return next(ended, "")
