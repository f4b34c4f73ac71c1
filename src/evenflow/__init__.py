"""Evenflow keeps streaming pipelines on Apache Spark balanced while they run.

The names below are the public API. They are imported when first used, so that a worker process, which imports this
package too, stays small.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from evenflow._version import __version__

if TYPE_CHECKING:
    from evenflow import errors, functions, policy, sim, testing
    from evenflow.errors import EvenflowError
    from evenflow.graph.build.builder import Graph
    from evenflow.model.qos import Qos
    from evenflow.operators.aggregates.distinct import DistinctCount
    from evenflow.operators.aggregates.last import LastValue
    from evenflow.operators.aggregates.rolling import (
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
    from evenflow.operators.aggregates.several import Aggregates
    from evenflow.operators.joins.join import WindowJoin
    from evenflow.operators.keyed import KeyedOperator
    from evenflow.runtime.cluster.arguments.tuning import Tuning
    from evenflow.runtime.cluster.cluster import Cluster
    from evenflow.runtime.cluster.plans.first_story import fingerprints, first_story, fit_vectors
    from evenflow.runtime.cluster.spark.query_metrics import QueryMetrics
    from evenflow.runtime.cluster.spark.restarts import supervise
    from evenflow.runtime.cluster.spark.session import local_session
    from evenflow.stories.similarity import Similarity, cosine
    from evenflow.stories.vectors import Vectors

_HOMES = {
    "Aggregates": "evenflow.operators.aggregates.several",
    "Cluster": "evenflow.runtime.cluster.cluster",
    "DistinctCount": "evenflow.operators.aggregates.distinct",
    "EvenflowError": "evenflow.errors",
    "Graph": "evenflow.graph.build.builder",
    "KeyedOperator": "evenflow.operators.keyed",
    "LastValue": "evenflow.operators.aggregates.last",
    "Qos": "evenflow.model.qos",
    "QueryMetrics": "evenflow.runtime.cluster.spark.query_metrics",
    "RollingCount": "evenflow.operators.aggregates.rolling",
    "RollingMax": "evenflow.operators.aggregates.rolling",
    "RollingMean": "evenflow.operators.aggregates.rolling",
    "RollingMin": "evenflow.operators.aggregates.rolling",
    "RollingStd": "evenflow.operators.aggregates.rolling",
    "RollingSum": "evenflow.operators.aggregates.rolling",
    "RunningCount": "evenflow.operators.aggregates.rolling",
    "RunningMax": "evenflow.operators.aggregates.rolling",
    "RunningMean": "evenflow.operators.aggregates.rolling",
    "RunningMin": "evenflow.operators.aggregates.rolling",
    "RunningStd": "evenflow.operators.aggregates.rolling",
    "RunningSum": "evenflow.operators.aggregates.rolling",
    "Similarity": "evenflow.stories.similarity",
    "Tuning": "evenflow.runtime.cluster.arguments.tuning",
    "Vectors": "evenflow.stories.vectors",
    "WindowJoin": "evenflow.operators.joins.join",
    "cosine": "evenflow.stories.similarity",
    "errors": "",
    "fingerprints": "evenflow.runtime.cluster.plans.first_story",
    "first_story": "evenflow.runtime.cluster.plans.first_story",
    "fit_vectors": "evenflow.runtime.cluster.plans.first_story",
    "functions": "",
    "local_session": "evenflow.runtime.cluster.spark.session",
    "policy": "",
    "sim": "",
    "supervise": "evenflow.runtime.cluster.spark.restarts",
    "testing": "",
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
    "Tuning",
    "Vectors",
    "WindowJoin",
    "__version__",
    "cosine",
    "errors",
    "fingerprints",
    "first_story",
    "fit_vectors",
    "functions",
    "local_session",
    "policy",
    "sim",
    "supervise",
    "testing",
]


_MOVED = ("count", "count_distinct", "first", "last", "max", "mean", "min", "stddev", "sum", "variance")
"""Names that are in `evenflow.functions` now, and here until the next version: some hid builtins of Python."""


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        warnings.warn(
            f"evenflow.{name} is deprecated and goes with the next version: it is evenflow.functions.{name} now, as in "
            f"`from evenflow import functions as F; F.{name}(...)`",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module("evenflow.functions"), name)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name) if home else importlib.import_module(f"evenflow.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
