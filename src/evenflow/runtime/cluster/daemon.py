"""Spark's Python daemon, which forks workers and the query's tasks, with what they import already in it.

A process that is forked by Spark's own daemon imports pandas, numba and Evenflow for itself and has numba learn its
types: about a second of CPU time each, and several start at once. `local_session` runs this daemon instead
(`spark.python.daemon.module`); it works wherever the executors' Python has Evenflow installed.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
from numba import njit
from pyspark import daemon

FIRST = ("pandas", "pyspark.worker", "pyspark.sql.pandas.serializers", "pyspark.sql.pandas.types")
"""What Spark imports when the first rows come."""
PACKAGES = (
    "evenflow.operators",
    "evenflow.rules",
    "evenflow.graph",
    "evenflow.stories",
    "evenflow.runtime.feeder",
    "evenflow.runtime.worker",
)
"""All modules of them are imported."""


def import_all() -> None:
    """Import what workers and tasks need, and have numba learn its types, which it does with its first function."""
    for name in FIRST:
        import_module(name)
    for name in PACKAGES:
        package = import_module(name)
        for module in walk_packages(package.__path__, f"{name}."):
            import_module(module.name)
    least: Any = njit(_nothing)
    least()


def _nothing() -> None:
    """The least that numba can compile."""


if __name__ == "__main__":
    import_all()
    os.register_at_fork(after_in_child=np.random.seed)  # else all processes would draw the same numbers
    gc.freeze()  # collecting garbage in a forked process would copy pages that are shared
    daemon.manager()
