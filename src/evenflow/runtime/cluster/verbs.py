"""The verbs of a cluster: what becomes of a DataFrame, or of a graph over DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from evenflow.graph.build.builder import Graph
from evenflow.graph.build.verbs import Pair
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.map import Input
from evenflow.policy import BALANCES, KEYED_BALANCES, PLACEMENTS, Balance, KeyedBalance, Placement
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments import graph as graph_arguments
from evenflow.runtime.cluster.arguments import verbs as arguments
from evenflow.runtime.cluster.arguments.tuning import DETECT, KEYED, RUN, Tuning, tuning_of, with_tuning
from evenflow.runtime.cluster.lifecycle import Lifecycle
from evenflow.runtime.cluster.plans.detect import Order, Rules, plan_rules
from evenflow.runtime.cluster.plans.graph_call import GraphCall
from evenflow.runtime.cluster.plans.graph_output import GraphOutput
from evenflow.runtime.cluster.plans.join import plan_join
from evenflow.runtime.cluster.plans.keyed_call import KeyedCall
from evenflow.runtime.cluster.plans.ordered_call import OrderedCall
from evenflow.runtime.cluster.running import RunningCluster


class ClusterVerbs:
    """The verbs of `Cluster`; each opens a region, and gives the DataFrame of its results."""

    _life: Lifecycle
    _running: RunningCluster

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
        call = OrderedCall(
            df=df,
            function=function,
            schema=schema,
            balance=balance,
            input=input,
            name=name,
            ordered=ordered,
            options=options,
        )
        return call.output(self._running)

    @with_tuning("Cluster.keyed", KEYED)
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
        the rows of each key in their order, whatever partitions they come from. With `lateness` ("10 seconds", or
        seconds), across micro-batches too: the first column is the time, and a row waits until its time is so much
        behind the latest row of any key. Rows that come even later are counted and left out, unless the operator has
        `on_late`. Where rows of several inputs come as one (`KeyedOperator.inputs`), time is the least of theirs;
        `idle` ("5 minutes") says after how long without a row an input holds time back no more.

        `name` is what the region is called in the event log and in the cluster's `qos`. Where the cluster has a
        checkpoint, a streaming query finds its state by it. To rename an operator, give its new `name` and, as `was`,
        the one that it had ("" if it had none); `was` may stay. State lasts as long as the streaming query and the
        cluster; a batch DataFrame has fresh state in each action, unless the result is persisted.

        `balance` is a name, whose parameters are given as `options` (`balance="flux", th_imb=1.1`), or an object from
        `evenflow.policy`. Those that send rows of one key to several workers ("river", "pkg") are refused for operators
        that need all rows of a key in one place.

        `keys=True`: the live page and the event log have the values of the most frequent keys of the hottest units,
        whoever reads them. `tuning`: an `ef.Tuning` with `units`, `spread`, `bounds`, `skew_bytes`, `split_keys` or
        `transfer`.
        """
        self._life.check()
        arguments.check_options(options, KEYED_BALANCES, balance, self.keyed)
        call = KeyedCall(
            df=df,
            key=key,
            operator=operator,
            schema=schema,
            balance=balance,
            ordered=ordered,
            name=name,
            was=was,
            order_by=order_by,
            lateness=lateness,
            idle=idle,
            keys=keys,
            tuning=tuning_of("keyed", tuning, KEYED),
            options=options,
        )
        return call.output(self._running)

    @with_tuning("Cluster.join", KEYED)
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
        plan = plan_join(
            self._running.spark,
            left,
            right,
            on=on,
            rows=rows,
            seconds=seconds,
            time=time,
            suffixes=suffixes,
            order_by=order_by,
        )
        more = {**options, "order_by": plan.order_by, "lateness": lateness}
        return self.keyed(plan.rows, plan.key, plan.operator, balance=balance, name=name, tuning=tuned, **more)

    @with_tuning("Cluster.detect", DETECT)
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
        """Detect events in the rows of `df` by rules: a row goes to the worker with its key's windows.

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
        planned = plan_rules(
            df,
            rules,
            key=key,
            functions=functions,
            variables=variables,
            time=time,
            lateness=lateness,
            order=order,
            order_by=order_by,
            ordered=ordered,
        )
        more = {**options, "order_by": planned.order_by, "lateness": planned.lateness, "ordered": ordered}
        rows, operator = planned.rows, planned.operator
        return self.keyed(rows, key, operator, balance=balance, name=name, tuning=tuned, **more)

    @with_tuning("Cluster.run", RUN)
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
        arguments.check_transfer(transfer, self._running.stores)
        known = graph_arguments.known_of_workers(self._running.workers, quota, coefficients, links)
        graph_arguments.placement_of(placement, options)
        made = GraphCall(
            running=self._running,
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
