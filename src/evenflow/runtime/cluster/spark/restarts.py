"""Keeping a query running: after a failure that may pass, it is started again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from evenflow.errors import SEVERAL_ACTIONS, ClusterStartError, InvalidArgument, first_line
from evenflow.model.given import whole_of
from evenflow.runtime.cluster.arguments.amounts import seconds_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from evenflow.runtime.cluster.cluster import Cluster

LONGEST_S = 60.0
"""The longest pause before a restart; also how long to wait for all workers before it."""
POLL_S = 1

logger = logging.getLogger("evenflow")


def supervise(
    start_query: Callable[[], StreamingQuery],
    cluster: Cluster | None = None,
    *,
    restarts: int | None = None,
    backoff: float = 1.0,
    healthy: float = 60.0,
) -> StreamingQuery:
    """Start a query, and start it again whenever it fails; returns the query that ended by itself or was stopped.

    `start_query` makes the query anew each time, from the same `checkpointLocation`, and returns what `start()` gives.
    The pause before the first restart is `backoff` seconds, and doubles with each further one, up to a minute; after a
    run of `healthy` seconds it starts with `backoff` again. After `restarts` restarts in a row (no limit if None) the
    failure is raised. A failure that comes again each time is raised at once: its message says what to change. Before
    each restart, all workers of `cluster` are waited for, a minute at most; then any live worker is enough.
    """
    if not callable(start_query):
        raise InvalidArgument(f"start_query is {start_query!r:.100}: give a function that starts the query")
    if cluster is not None and not hasattr(cluster, "await_workers"):
        raise InvalidArgument(f"cluster is {cluster!r:.100}: give a Cluster, or leave it out")
    if restarts is not None and not whole_of(restarts) >= 0:
        raise InvalidArgument(f"restarts={restarts!r}: give a number of at least 0, or None for no limit")
    backoff, healthy = seconds_of(backoff=backoff), seconds_of(healthy=healthy)
    failures = 0
    while True:
        began = time.monotonic()
        try:
            query = start_query()
            _await(query)
            return query
        except StreamingQueryException as error:
            if SEVERAL_ACTIONS in str(error):
                raise
            failures = 1 if time.monotonic() - began >= healthy else failures + 1
            if restarts is not None and failures > restarts:
                logger.error("query failed %d times in a row, giving up: %s", failures, first_line(error))
                raise
            pause = min(LONGEST_S, backoff * 2 ** (failures - 1))
            logger.warning(
                "query failed, starting it again in %.1f s (failure %d): %s", pause, failures, first_line(error)
            )
            time.sleep(pause)
            if cluster is not None:
                _await_workers(cluster)


def _await_workers(cluster: Cluster) -> None:
    """Wait until all workers are live, at most LONGEST_S; then until any worker is live, without limit."""
    while True:
        try:
            cluster.await_workers(LONGEST_S)
            return
        except ClusterStartError as error:
            if any(worker.state == "live" for worker in cluster.workers()):
                logger.warning("the query goes on with the workers that are back: %s", first_line(error))
                return
            logger.warning("no worker is back yet, waiting on: %s", first_line(error))
            time.sleep(POLL_S)


def _await(query: StreamingQuery) -> None:
    """Wait for the query's end in small steps, so that Ctrl-C has an effect in between."""
    while not query.awaitTermination(POLL_S):
        pass
