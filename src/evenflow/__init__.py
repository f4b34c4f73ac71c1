"""Evenflow keeps streaming pipelines on Apache Spark balanced while they run.

The names below are the public API. They are imported when first used, so that a worker process, which imports this
package too, stays small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evenflow._version import __version__

if TYPE_CHECKING:
    from evenflow import errors, policy, sim, testing
    from evenflow.errors import EvenflowError
    from evenflow.graph.builder import Graph
    from evenflow.model.qos import Qos
    from evenflow.operators.aggregates import Aggregates
    from evenflow.operators.distinct import DistinctCount
    from evenflow.operators.functions import (
        count,
        count_distinct,
        first,
        last,
        max,
        mean,
        min,
        stddev,
        sum,
        variance,
    )
    from evenflow.operators.join import WindowJoin
    from evenflow.operators.keyed import KeyedOperator
    from evenflow.operators.last import LastValue
    from evenflow.operators.rolling import (
        RollingCount,
        RollingMax,
        RollingMean,
        RollingMin,
        RollingStd,
        RollingSum,
        RunningCount,
        RunningMax,
        RunningMean,
        RunningMin,
        RunningStd,
        RunningSum,
    )
    from evenflow.runtime.cluster.cluster import Cluster
    from evenflow.runtime.cluster.first_story import fingerprints, first_story, fit_vectors
    from evenflow.runtime.cluster.query_metrics import QueryMetrics
    from evenflow.runtime.cluster.restarts import supervise
    from evenflow.runtime.cluster.session import local_session
    from evenflow.stories.similarity import Similarity, cosine
    from evenflow.stories.vectors import Vectors

_HOMES = {
    "Aggregates": "evenflow.operators.aggregates",
    "Cluster": "evenflow.runtime.cluster.cluster",
    "DistinctCount": "evenflow.operators.distinct",
    "EvenflowError": "evenflow.errors",
    "Graph": "evenflow.graph.builder",
    "KeyedOperator": "evenflow.operators.keyed",
    "LastValue": "evenflow.operators.last",
    "Qos": "evenflow.model.qos",
    "QueryMetrics": "evenflow.runtime.cluster.query_metrics",
    "RollingCount": "evenflow.operators.rolling",
    "RollingMax": "evenflow.operators.rolling",
    "RollingMean": "evenflow.operators.rolling",
    "RollingMin": "evenflow.operators.rolling",
    "RollingStd": "evenflow.operators.rolling",
    "RollingSum": "evenflow.operators.rolling",
    "RunningCount": "evenflow.operators.rolling",
    "RunningMax": "evenflow.operators.rolling",
    "RunningMean": "evenflow.operators.rolling",
    "RunningMin": "evenflow.operators.rolling",
    "RunningStd": "evenflow.operators.rolling",
    "RunningSum": "evenflow.operators.rolling",
    "Similarity": "evenflow.stories.similarity",
    "Vectors": "evenflow.stories.vectors",
    "WindowJoin": "evenflow.operators.join",
    "cosine": "evenflow.stories.similarity",
    "count": "evenflow.operators.functions",
    "count_distinct": "evenflow.operators.functions",
    "errors": "",
    "fingerprints": "evenflow.runtime.cluster.first_story",
    "first": "evenflow.operators.functions",
    "first_story": "evenflow.runtime.cluster.first_story",
    "fit_vectors": "evenflow.runtime.cluster.first_story",
    "last": "evenflow.operators.functions",
    "local_session": "evenflow.runtime.cluster.session",
    "max": "evenflow.operators.functions",
    "mean": "evenflow.operators.functions",
    "min": "evenflow.operators.functions",
    "policy": "",
    "sim": "",
    "stddev": "evenflow.operators.functions",
    "sum": "evenflow.operators.functions",
    "supervise": "evenflow.runtime.cluster.restarts",
    "testing": "",
    "variance": "evenflow.operators.functions",
}

__all__ = [
    "Aggregates",
    "Cluster",
    "DistinctCount",
    "EvenflowError",
    "Graph",
    "KeyedOperator",
    "LastValue",
    "Qos",
    "QueryMetrics",
    "RollingCount",
    "RollingMax",
    "RollingMean",
    "RollingMin",
    "RollingStd",
    "RollingSum",
    "RunningCount",
    "RunningMax",
    "RunningMean",
    "RunningMin",
    "RunningStd",
    "RunningSum",
    "Similarity",
    "Vectors",
    "WindowJoin",
    "__version__",
    "cosine",
    "count",
    "count_distinct",
    "errors",
    "fingerprints",
    "first",
    "first_story",
    "fit_vectors",
    "last",
    "local_session",
    "max",
    "mean",
    "min",
    "policy",
    "sim",
    "stddev",
    "sum",
    "supervise",
    "testing",
    "variance",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name) if home else importlib.import_module(f"evenflow.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
