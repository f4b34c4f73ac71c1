"""Spark's Python daemon, which has imported the packages that workers and tasks need before it forks them.

A process that is forked by Spark's own daemon imports pandas, numba and Evenflow for itself and has numba learn its
types: about a second of CPU time each, and several start at once. `local_session` runs this daemon instead
(`spark.python.daemon.module`); it works wherever the executors' Python has Evenflow installed.

No thread of Python's is there when it forks. Threads of libraries are: jemalloc's, which comes with Arrow, and those of
OpenBLAS where `OMP_NUM_THREADS` is not 1, as Spark sets it. Both libraries take care of a fork by themselves.
"""

from __future__ import annotations

import gc
import os
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
from numba import njit
from pyspark import daemon

FIRST = ("pandas", "pyspark.worker", "pyspark.sql.pandas.serializers", "pyspark.sql.pandas.types")
"""Modules that Spark would import with the first rows."""
PACKAGES = (
    "evenflow.operators",
    "evenflow.rules",
    "evenflow.graph",
    "evenflow.stories",
    "evenflow.runtime.feeder",
    "evenflow.runtime.worker",
)
"""All modules of them are imported, but those LEFT_OUT."""
LEFT_OUT = ("evenflow.graph.draw.drawing",)
"""It draws plots, on drivers only, and brings matplotlib."""


def import_all() -> None:
    """Import what workers and tasks need, and have numba learn its types, which it does with its first function."""
    for name in FIRST:
        import_module(name)
    for name in PACKAGES:
        package = import_module(name)
        for module in walk_packages(package.__path__, f"{name}."):
            if module.name not in LEFT_OUT:
                import_module(module.name)
    least: Any = njit(_nothing)
    least()


def _nothing() -> None:
    """The least that numba can compile."""


def draw_anew(daemon_pid: int) -> None:
    """Have numpy draw other numbers in each process that the daemon forks; what those fork is their own affair."""
    if os.getppid() == daemon_pid:
        np.random.seed()


if __name__ == "__main__":
    import_all()
    os.register_at_fork(after_in_child=partial(draw_anew, os.getpid()))
    gc.freeze()  # collecting garbage in a forked process would copy pages that are shared
    daemon.manager()
