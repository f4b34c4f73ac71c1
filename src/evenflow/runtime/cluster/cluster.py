"""The cluster: the user's handle on the workers, on the driver."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from evenflow.control.controller import Controller
from evenflow.eventlog.rotation import TOTAL
from evenflow.model import WorkerStatus
from evenflow.model.capacity import Emulate
from evenflow.model.given import with_known_keywords
from evenflow.model.qos import Qos
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments import verbs as arguments
from evenflow.runtime.cluster.arguments.qos import Named
from evenflow.runtime.cluster.arguments.settings import settings_of
from evenflow.runtime.cluster.arguments.tuning import CLUSTER, Tuning, tuning_of, with_tuning
from evenflow.runtime.cluster.dashboard import page_asked, shown_as_html
from evenflow.runtime.cluster.lifecycle import Lifecycle
from evenflow.runtime.cluster.region import OldVerbs, RegionHandle
from evenflow.runtime.cluster.regions import Regions
from evenflow.runtime.cluster.running import RunningCluster
from evenflow.runtime.cluster.spark.session import executor_of
from evenflow.runtime.cluster.verbs import ClusterVerbs
from evenflow.state.store.sealed import Place


class Cluster(ClusterVerbs, OldVerbs):
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

    @with_tuning("Cluster", CLUSTER)
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
        workers, start_timeout = amounts.workers_of(workers), amounts.seconds_of(start_timeout=start_timeout)
        arguments.check_event_log(event_log)
        log = event_log, amounts.log_size_of(event_log_size)
        asked = page_asked(dashboard, dashboard_token)
        context = arguments.classic_context(spark)
        settings = settings_of(
            context,
            workers,
            period=period,
            stall_timeout=stall_timeout,
            emulate=emulate,
            checkpoint=checkpoint,
            checkpoint_key=checkpoint_key,
            qos=qos,
            memory=memory,
            tuning=tuned,
        )
        left_out = arguments.absent_of(absent, settings.checkpoint)
        self._spark, self._named = spark, Named(settings.qos)
        self._life = Lifecycle(spark, context, workers, settings, log, left_out)
        self._settings, self._driver = self._life.settings, self._life.driver
        self._regions = Regions(self._driver, self._life.checkpoint_thread)
        self._running = RunningCluster(
            spark=spark,
            context=context,
            workers=workers,
            settings=self._settings,
            regions=self._regions,
            named=self._named,
        )
        atexit.register(self.stop)
        try:
            self._life.finish_start(start_timeout, asked, dashboard_token)
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

    def workers(self) -> list[WorkerStatus]:
        """The workers: id, executor, host, pid, state, restarts, and the rows and frames they have done by now.

        For a worker that has been in one call of a function for two seconds, the numbers are from its last report.
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
        return RegionHandle(str(name), self._regions, self._life)

    def set_memory(self, memory: str | int | Mapping[int, str | int]) -> None:
        """Give the state of operators more or less of the workers' memory, while rows flow: "256m", or {0: "64m"}.

        A worker that has less than before puts at once on disk what does not fit, and processes nothing meanwhile; one
        that has more takes back what fits, a little at a time. A worker that is started again has the new budget, too.
        The event log has the outcome: `memory-set`, or `memory-refused` with the reason, such as a unit that alone
        is larger; then nothing has changed. A cluster without `memory` is refused.
        """
        self._life.check()
        self._driver.set_memory(amounts.budgets_of(memory, self._life.workers, self._settings.memory > 0))

    def await_workers(self, timeout: float = 60.0) -> None:
        """Wait until all workers are live again, after some were lost."""
        self._life.await_workers(amounts.seconds_of(timeout=timeout))

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
