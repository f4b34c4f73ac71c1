"""The cluster: the user's handle on the workers, on the driver."""

from __future__ import annotations

import atexit
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenflow.control.controller import Controller
from evenflow.eventlog.rotation import TOTAL
from evenflow.graph.build.builder import Graph
from evenflow.graph.build.verbs import Pair
from evenflow.model import WorkerStatus
from evenflow.model.capacity import Emulate
from evenflow.model.given import check_flag, with_known_keywords
from evenflow.model.qos import Qos, qos_of
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.map import Input, MapOperator
from evenflow.policy import BALANCES, KEYED_BALANCES, PLACEMENTS, Balance, KeyedBalance, Placement
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments import graph as graph_arguments
from evenflow.runtime.cluster.arguments import verbs as arguments
from evenflow.runtime.cluster.arguments.order import ordering_of, warning_of
from evenflow.runtime.cluster.arguments.qos import Named, shed_place
from evenflow.runtime.cluster.arguments.tuning import CLUSTER, DETECT, KEYED, RUN, Tuning, tuning_of, with_tuning
from evenflow.runtime.cluster.dashboard import LivePage, page_asked, shown_as_html
from evenflow.runtime.cluster.lifecycle import Lifecycle
from evenflow.runtime.cluster.plans.bounds import bounds_of
from evenflow.runtime.cluster.plans.detect import Order, Rules, plan_rules
from evenflow.runtime.cluster.plans.graph_call import GraphCall
from evenflow.runtime.cluster.plans.graph_output import GraphOutput
from evenflow.runtime.cluster.plans.join import plan_join
from evenflow.runtime.cluster.plans.keyed import plan_keyed, prepared, stored_as
from evenflow.runtime.cluster.plans.keys import value_places
from evenflow.runtime.cluster.region import OldVerbs, RegionHandle
from evenflow.runtime.cluster.regions import Regions
from evenflow.runtime.cluster.spark.session import driver_host, executor_of
from evenflow.runtime.cluster.spark.slots import slot_count
from evenflow.runtime.feeder.ordered.feeder import OrderedTask
from evenflow.runtime.wire.settings import Settings
from evenflow.state.store.sealed import Place


class Cluster(OldVerbs):
    """Long-lived workers inside Spark's executors, and the controller that keeps them balanced.

    Starts `workers` workers, each holding one of Spark's task slots, and returns once all of them serve. Use it as a
    context manager, or call `stop()`. DataFrames made by `ordered_map` need the cluster for as long as they are
    evaluated.

    - `start_timeout`: seconds to wait for all workers to start.
    - `period`: seconds between samples, which feeders and workers report, and between decisions. Balances by blocking
      take `every`: how many samples make a decision.
    - `stall_timeout`: seconds a task waits without a message from its workers before it fails and says which; a worker
      that sends no message for so long while state is to be loaded into it is replaced, and units that it should have
      sent or taken by then are given up.
    - `event_log`: a file for the event log (JSON lines); the latest events are in `events()` in any case. When it is
      full it is rotated (`events.jsonl.1` is the piece before `events.jsonl`); all pieces together have
      `event_log_size` at most, in bytes or as "256m".
    - `emulate`: capacities to emulate, see `evenflow.testing.Emulate`.
    - `checkpoint`: a directory, URI or PostgreSQL database (`postgresql://user@host/database?schema=name`) that the
      driver and all executors can reach, for the state of streaming queries over keyed operators: with it they are
      exactly-once wherever Spark's own are, whatever is lost. Keep it beside Spark's own checkpointLocation; it belongs
      to one cluster at a time.
    - `checkpoint_key`: at least 16 bytes, or characters, that only the cluster knows: then nothing is read from the
      checkpoint, and no state unpickled, that was not written with the same key. State is not encrypted.
    - `absent`: names of operators that streaming queries had, and are started without on purpose. Otherwise a query
      whose operator is missing is refused. The state stays in the checkpoint, and the operator may come back.
    - `memory`: how much memory the state of operators may take in each worker, in bytes or as "512m"; the rest is on
      the worker's local disk until there is room or rows come for it. `set_memory` changes it while rows flow.
    - `qos`: how much the latency of operators matters, where several share the workers: weights above 0 by the names of
      operators; an operator that is not named has 1. While several have rows waiting, each gets its weight's share of a
      worker's time. `evenflow.Qos(latency_ms=200)` instead of a weight is a target. A name that no operator has had
      gives a warning.
    - `dashboard`: True serves the live page of this cluster (docs/dashboard.md) on this machine's loopback; its address
      is printed and in `dashboard_link`. An address such as "0.0.0.0:8899" serves it to others, who need the token in
      `dashboard_token`, at least 16 characters.
    - `tuning`: an `ef.Tuning` with `t_gap`, how units on disk take turns.
    """

    @with_tuning(CLUSTER)
    @with_known_keywords
    def __init__(
        self,
        spark: SparkSession,
        workers: int = 4,
        *,
        start_timeout: float = 60.0,
        period: float = 1.0,
        stall_timeout: float = 600.0,
        event_log: str | Path | None = None,
        event_log_size: str | int = TOTAL,
        emulate: Emulate | None = None,
        checkpoint: str | Path | Place | None = None,
        checkpoint_key: bytes | str | None = None,
        absent: Sequence[str] = (),
        qos: Mapping[str, float | Qos] | None = None,
        memory: str | int | None = None,
        dashboard: bool | str = False,
        dashboard_token: str | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        tuned = tuning_of("Cluster", tuning, CLUSTER)
        workers, period = amounts.workers_of(workers), amounts.period_of(period)
        limits = amounts.seconds_given(start_timeout=start_timeout, stall_timeout=stall_timeout)
        start_timeout, stall_timeout = limits
        arguments.check_event_log(event_log)
        log = event_log, amounts.log_size_of(event_log_size)
        asked = page_asked(dashboard, dashboard_token)
        arguments.check_emulated(emulate, workers)
        context = arguments.classic_context(spark)
        place = arguments.checkpoint_of(checkpoint, checkpoint_key)
        left_out = arguments.absent_of(absent, str(place.where))
        budget, weights = amounts.bytes_of(memory), arguments.weights_of(qos)
        host, secret, name = driver_host(context)[1], secrets.token_bytes(32), uuid.uuid4().hex[:8]
        gap = amounts.gap_of(tuned.t_gap, budget > 0)
        targets = {operator: each for operator, each in (qos or {}).items() if isinstance(each, Qos)}
        settings = Settings(
            cluster=name,
            host=host,
            port=0,
            secret=secret,
            period=period,
            stall_timeout=stall_timeout,
            emulate=emulate,
            checkpoint=str(place.where),
            checkpoint_key=place.key,
            opener=place.opener,
            qos=weights,
            targets=targets,
            memory=budget,
            t_gap=gap,
        )
        self._spark = spark
        self._named = Named(weights)
        self._life = Lifecycle(spark, context, workers, settings, log, left_out)
        self._settings, self._driver = self._life.settings, self._life.driver
        self._regions = Regions(self._driver, self._life.checkpoint_thread)
        atexit.register(self.stop)
        try:
            if asked:
                self._life.page = LivePage(f"cluster {name}", self._driver, asked, dashboard_token)
                print(f"evenflow dashboard: {self._life.page.link}", flush=True)
            self._life.finish_start(start_timeout)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._life.released else f"{self._driver.ask(Controller.live)} live"
        return f"<Cluster {self._settings.cluster}: {self._life.workers} workers, {state}>"

    def _repr_html_(self) -> str:
        live = 0 if self._life.released else self._driver.ask(Controller.live)
        facts = {"workers": f"{live} of {self._life.workers} live"}
        return shown_as_html(f"Cluster {self._settings.cluster}", facts, self.dashboard_link)

    @property
    def dashboard_link(self) -> str:
        """The address of the live page; empty if there is none."""
        return self._life.page.link if self._life.page is not None and not self._life.released else ""

    def ordered_map(
        self,
        df: DataFrame,
        function: Callable[[Any], Any],
        schema: StructType | str,
        *,
        balance: str | Balance = "credits",
        input: Input = "arrow",
        ordered: bool = True,
        name: str = "",
        **options: Any,
    ) -> DataFrame:
        """Apply `function` to the rows of `df` on the workers, in parallel and in order.

        `function` takes a `pyarrow.RecordBatch` and returns one with the columns of `schema`; it may drop or add rows,
        and must not depend on how rows are cut into batches. With `input="pandas"` both are pandas DataFrames. Within
        each Spark partition the rows of the result have the order of the rows they come from. With `ordered=False` they
        come as workers are done with them: the same rows, each once, and none waits for earlier ones that a slow worker
        has. `df` may be batch or streaming; the result is of the same kind.

        `balance` says how rows are shared among the workers: a name, whose parameters are given as `options`
        (`balance="blocking-rate", explore=False`), or an object from `evenflow.policy`. `name` is what the region is
        called in the event log and in the cluster's `qos`.
        """
        self._life.check()
        arguments.check_options(options, BALANCES, balance, self.ordered_map)
        arguments.check_dataframe(df)
        arguments.check_name(name)
        arguments.check_function(function, input)
        arguments.check_ordered(ordered)
        chosen = arguments.balance_of(balance, options, self._life.workers)
        declared = arguments.schema_of(schema)
        arguments.check_columns(df.schema)
        arrow = arguments.arrow_schema(self._spark, declared)
        shed = shed_place(qos_of(self._settings.targets, name or "region"), name or "region", df)
        rows = arguments.resolvable(df)
        rows.mapInArrow(lambda batches: batches, declared)  # what Spark refuses, it refuses before there is a region
        mapped = MapOperator(function, arrow, input, arguments.extension_integers(self._spark))
        region, operator = self._regions.open(arguments.pickled(mapped), name or "region", chosen)
        self._named.use(name or "region")
        encoded = arrow.serialize().to_pybytes()
        names = () if rows is df else tuple(df.schema.names)
        about = (chosen.splitting, ordered, shed, names, input == "pandas")
        feed = OrderedTask(self._settings, region, operator, encoded, *about)
        return rows.mapInArrow(feed, declared)

    @with_tuning(KEYED)
    def keyed(
        self,
        df: DataFrame,
        key: str | Column | Sequence[str | Column],
        operator: KeyedOperator,
        schema: StructType | str | None = None,
        *,
        balance: str | KeyedBalance = "auto",
        ordered: bool = False,
        name: str = "",
        was: str | None = None,
        order_by: str | Sequence[str] | None = None,
        lateness: str | float | timedelta | None = None,
        idle: str | float | timedelta | None = None,
        keys: bool = False,
        tuning: Tuning | None = None,
        **options: Any,
    ) -> DataFrame:
        """Apply a stateful operator to the rows of `df` on the workers: a row goes to the worker with its key's state.

        Keys are hashed into units; workers own units, and `balance` moves units with their state from busy workers to
        idle ones while rows flow. Rows of one key from one Spark partition are processed in their order; results come
        as they are ready, or with `ordered=True` in the order of the rows they come from. Rows whose key is null have a
        unit of their own. `schema` is what the operator returns; ready-made operators know it.

        `order_by` names a column or several: within each micro-batch (or the whole batch DataFrame) the operator sees
        the rows of each key in their order, whatever partitions they come from, so results are the same every time.
        With `lateness` ("10 seconds", or seconds), across micro-batches too: the first column is the time, and a row
        waits until its time is so much behind the latest row of any key. Rows that come even later are counted as late
        and left out, unless the operator has `on_late`. Without `order_by`, rows of one key from several partitions are
        processed in the order of arrival. Where rows of several inputs come as one (`KeyedOperator.inputs`), each has
        its own progress, and time is the least of them; `idle` ("5 minutes") says after how long without a row an input
        holds time back no more.

        `name` is what the operator is called in the event log and in the cluster's `qos`; where the cluster has a
        checkpoint, the state of a streaming query is found by it, and it has to be given. To rename an operator, give
        its new `name` and, as `was`, the one that it had ("" if it had none): it goes on with the state that it has.
        `was` may stay, and says nothing where no state is stored: without a checkpoint, and for a batch DataFrame.

        State lasts as long as the streaming query and the cluster. A batch DataFrame has fresh state in each action, as
        Spark evaluates it anew; if the result is persisted, all actions on it share one evaluation.

        `balance` is a name, whose parameters are given as `options` (`balance="flux", th_imb=1.1`), or an object from
        `evenflow.policy`. Those that send rows of one key to several workers ("river", "pkg") are refused for operators
        that need all rows of a key in one place, unless `split_keys=True` of the tuning says that wrong results are
        wanted.

        `keys=True`: the live page and the event log have the values of the most frequent keys of the hottest units,
        whoever reads them; without it they have numbers of units only.

        `tuning`: an `ef.Tuning` with `units`, `spread`, `bounds`, `skew_bytes`, `split_keys` or `transfer`.
        """
        self._life.check()
        arguments.check_options(options, KEYED_BALANCES, balance, self.keyed)
        tuned = tuning_of("keyed", tuning, KEYED)
        arguments.check_dataframe(df)
        arguments.check_name(name, was)
        arguments.check_operator(operator)
        operator = prepared(self._spark, operator, df)
        chosen, size = arguments.keyed_balance_of(balance, options), self._life.workers
        arguments.check_sharing(operator, chosen, bool(tuned.split_keys))
        units = amounts.check_units(tuned.units, size)
        check_flag("ordered", ordered)
        check_flag("keys", keys)
        values = value_places(df, key) if keys else ()
        room, spread, transfer = amounts.room_of(tuned.skew_bytes), str(tuned.spread), tuned.transfer or "direct"
        ordering = ordering_of(df, order_by, lateness, ordered, chosen, operator, idle)
        arguments.check_transfer(transfer, bool(self._settings.checkpoint))
        found = bounds_of(df, key, spread, tuned.bounds, units)
        stored = bool(self._settings.checkpoint) and df.isStreaming and chosen.by_content
        plan = plan_keyed(self._spark, df, key, operator, schema, units + 1, ordered, spread, ordering, found, stored)
        code = arguments.pickled(plan.hosted)
        warning = warning_of(operator, ordering, name or "keyed")
        qos = qos_of(self._settings.targets, name or "keyed")
        shed = shed_place(qos, name or "keyed", df, stored, ordering is not None)
        if stored:
            kept = stored_as(operator, df, key, spread, ordering, units + 1, was, found)
            region, digest = self._regions.open_stored(code, name, kept, chosen, transfer, warning)
        else:
            region, digest = self._regions.open(code, name or "keyed", chosen, units + 1, transfer, warning)
        self._named.use(name or region)
        self._regions.await_operator(digest)
        shares = max(1, min(size, slot_count(self._life.context) - size))
        return plan.applied(self._settings, region, digest, chosen, room, shares, shed, qos.latency_ms, values)

    @with_tuning(KEYED)
    def join(
        self,
        left: DataFrame,
        right: DataFrame,
        on: str | Sequence[str] | Sequence[Pair],
        *,
        rows: int | None = None,
        seconds: float | None = None,
        time: str | Pair | None = None,
        suffixes: tuple[str, str] | None = None,
        order_by: str | Sequence[str] | Sequence[Pair] | None = None,
        lateness: str | float | timedelta | None = None,
        balance: str | KeyedBalance = "auto",
        name: str = "",
        tuning: Tuning | None = None,
        **options: Any,
    ) -> DataFrame:
        """Pairs of rows of two DataFrames with equal `on` columns that come within a window of each other.

        Each row is paired with the rows of its key from the other side that are still in the window, whichever of the
        two comes later. `rows=n`: the last n rows of the key on that side. `seconds=s, time=column` (or a (left, right)
        pair): those whose time is less than s seconds from the row's, before or after it.

        `on` is a column, a list of columns, or a list of (left, right) pairs; null equals nothing. The result has the
        columns that `on` gives by one name once, then the others of the left side, then those of the right, as
        PySpark's own join. Other names that both sides have are refused, unless `suffixes` tells them apart. Both
        sides are batch DataFrames, or both streaming.

        `order_by` (columns, or (left, right) pairs) is the order in which the rows of a key come, of both sides; it is
        the time, if there is one. `lateness`, `balance`, `name`, `tuning` and further options (`was`) are those of
        `keyed`.
        """
        self._life.check()
        arguments.check_options(options, KEYED_BALANCES, balance, self.join, self.keyed)
        tuned = tuning_of("join", tuning, KEYED)
        plan = plan_join(self._spark, left, right, on, rows, seconds, time, suffixes, order_by)
        more = {**options, "order_by": plan.order_by, "lateness": lateness}
        return self.keyed(plan.rows, plan.key, plan.operator, balance=balance, name=name, tuning=tuned, **more)

    @with_tuning(DETECT)
    def detect(
        self,
        df: DataFrame | Mapping[str, DataFrame],
        rules: Rules,
        *,
        key: str | Column | Sequence[str | Column],
        functions: Mapping[str, Callable[..., Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        time: str | None = None,
        lateness: str | float | timedelta | None = None,
        order: Order | None = None,
        order_by: str | Sequence[str] | None = None,
        balance: str | KeyedBalance = "auto",
        name: str = "",
        ordered: bool = False,
        tuning: Tuning | None = None,
        **options: Any,
    ) -> DataFrame:
        """What rules detect in the rows of `df`: a row goes to the worker with its key's windows.

        `rules` is one text, or several by name or in a list: then the result's first column `rule` names the rule of a
        row, and the other columns are those of all rules. `df` is one DataFrame, which rules may call by any name, or
        several by name. docs/cep.md has the language.

        `functions` are called in rules by their names, with pandas Series, and return one value for each row; a
        function made with `pandas_udf` gives its type, others return doubles.

        `variables` are values that rules call by name, as in `win:length(H)` with `variables={"H": 500}`.

        `time` is the column that windows in time and timers use, and in whose order rules see the rows of a
        key, of all streams; without it they use the time of the micro-batch. With `lateness` ("10 seconds", or seconds)
        a row of a stream waits until its time is so much behind the latest row of any key; rows that come even later
        take no part, and come out in the last column, `late`, as they were. Without it, rows are in order within their
        micro-batch, and none is late. A window ends when its time has passed by the rows of any key; at the end of a
        batch DataFrame all windows end. `order="arrival"`: rules see rows as they arrive, and each key has its own
        time.

        `order_by`: columns by which rows of the same time, or without `time` those of a micro-batch, are ordered.

        `balance`, `name`, `tuning` and further options (`was`) are those of `keyed`.
        """
        self._life.check()
        arguments.check_options(options, KEYED_BALANCES, balance, self.detect, self.keyed)
        tuned = tuning_of("detect", tuning, DETECT)
        planned = plan_rules(df, rules, key, functions, variables, time, lateness, order, order_by, ordered)
        more = {**options, "order_by": planned.order_by, "lateness": planned.lateness, "ordered": ordered}
        rows, operator = planned.rows, planned.operator
        return self.keyed(rows, key, operator, balance=balance, name=name, tuning=tuned, **more)

    @with_tuning(RUN)
    def run(
        self,
        graph: Graph,
        inputs: Mapping[str, DataFrame],
        *,
        placement: str | Placement = "potential",
        name: str = "",
        was: str | None = None,
        quota: Mapping[int, float] | None = None,
        coefficients: Mapping[int, float] | None = None,
        links: Mapping[tuple[int, int], tuple[float, float]] | None = None,
        tuning: Tuning | None = None,
        **options: Any,
    ) -> GraphOutput:
        """Run a graph of operators on the workers; the result has a DataFrame for each endpoint.

        `inputs` has a DataFrame for each source, all batch or all streaming. Whole operators live on workers and stream
        to each other; operators with keys are spread over workers in units. Rows of one input partition keep their
        order along a path of whole operators; behind an operator that is spread, or where two streams meet, they come
        in the order of arrival. State, epochs and checkpoints are those of `keyed`, and so is `was`; `name` is that of
        the graph if it is not given.

        `placement` says where operators run, and moves them while rows flow: a name, whose parameters are given as
        `options`, or an object from `evenflow.policy`. `quota` is the load that a worker may have at most, by its
        number (1 if not given). `coefficients` says how much longer a row takes on a worker than elsewhere, `links` the
        delay in ms and the bytes a second from one worker to another; both are measured if they are not given.

        `tuning`: an `ef.Tuning` with `queue_rows`, `queue_bytes` or `transfer`.
        """
        self._life.check()
        arguments.check_options(options, PLACEMENTS, placement, self.run)
        tuned = tuning_of("run", tuning, RUN)
        arguments.check_name(name, was)
        transfer = tuned.transfer or "direct"
        arguments.check_transfer(transfer, bool(self._settings.checkpoint))
        known = graph_arguments.known_of_workers(self._life.workers, quota, coefficients, links)
        graph_arguments.placement_of(placement, options)
        made = GraphCall(
            self._spark,
            self._settings,
            self._regions,
            self._named,
            name=name,
            was=was,
            graph=graph,
            inputs=inputs,
            placement=placement,
            options=options,
            known=known,
            queues=(amounts.rows_of(tuned.queue_rows), amounts.queue_of(tuned.queue_bytes)),
            transfer=transfer,
        )
        return made.output()

    def workers(self) -> list[WorkerStatus]:
        """The workers: id, executor, host, pid, state, restarts, and the rows and frames they have done by now.

        Of a worker that has been in one call of a function for two seconds, they are those of its last report.
        """
        if not self._life.released:
            self._driver.await_reports()
        now = self._driver.now()
        found = self._driver.ask(lambda controller: [(w, controller.task(w.id)) for w in controller.workers(now)])
        context = self._life.context
        if self._life.released or context._jsc is None:  # the cluster, or the session under it
            return [replace(worker, state="stopped") for worker, _ in found]
        return [
            replace(worker, executor=executor_of(context, task)) if worker.incarnation else worker
            for worker, task in found
        ]

    def region(self, name: str) -> RegionHandle:
        """A region by its name: its statistics, and what can be changed while rows flow.

        `cluster.region("prices").snapshot()`, `.move(units, target)`, `.placement()`, `.settled()` and `.set_qos(4)`.
        """
        return RegionHandle(str(name), self._regions, self._driver, self._settings, self._life.workers)

    def set_memory(self, memory: str | int | Mapping[int, str | int]) -> None:
        """Give the state of operators more or less of the workers' memory, while rows flow: "256m", or {0: "64m"}.

        A worker that has less than before puts at once on disk what does not fit, and processes nothing meanwhile; one
        that has more takes back what fits, a little at a time. A worker that is started again has the new budget, too.
        The event log says what came of it: `memory-set`, or `memory-refused` with the reason, such as a unit that alone
        is larger; then nothing has changed. A cluster without `memory` is refused.
        """
        self._life.check()
        self._driver.set_memory(amounts.budgets_of(memory, self._life.workers, self._settings.memory > 0))

    def await_workers(self, timeout: float = 60.0) -> None:
        """Wait until all workers are live again, after some were lost."""
        self._life.await_workers(*amounts.seconds_given(timeout=timeout))

    def events(self) -> list[dict[str, Any]]:
        """The latest entries of the event log, oldest first."""
        return self._driver.events()

    def stop(self) -> None:
        """Stop the workers and give their slots back; queries still running on them fail. Safe to call twice."""
        if self._life.closed:
            return
        self._life.release()
        self._named.check()
        self._life.stop()
        atexit.unregister(self.stop)
