"""Runs programs one after the other in one driver process and one Spark session, as starting Spark is what costs.

Each has a folder with `program.py`, in which it runs. What it prints goes to `output.txt` there, and the traceback of
one that fails to `error.txt`. Programs end their sessions as a user's would; here that has no effect, and
`local_session` gives all of them the same one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import traceback
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

import evenflow as ef

WORKERS = 8
"""Slots for the shared cluster, and for those that programs start beside it."""
SHARED = 3
SLOTS = 4


@cache
def shared_cluster() -> ef.Cluster:
    """One cluster for all programs that do not start their own."""
    return ef.Cluster(ef.local_session(workers=SHARED), workers=SHARED)


def run(spark: SparkSession, folder: Path) -> str:
    """Run one program as the main module in its folder; "ok" or "failed"."""
    os.chdir(folder)
    files = spark.sparkContext._jvm.org.apache.hadoop.fs
    files.FileSystem.get(spark.sparkContext._jsc.hadoopConfiguration()).setWorkingDirectory(files.Path(str(folder)))
    file = folder / "program.py"
    code = compile(file.read_text(), str(file), "exec")
    before, program = sys.modules["__main__"], ModuleType("__main__")
    sys.modules["__main__"] = program  # classes of the program are looked for there when they are pickled
    with (folder / "output.txt").open("w") as output, contextlib.redirect_stdout(output):
        try:
            exec(code, program.__dict__)
        except BaseException:
            (folder / "error.txt").write_text(traceback.format_exc())
            return "failed"
        finally:
            sys.modules["__main__"] = before
    return "ok"


def main(folders: list[str]) -> None:
    """Run the programs of these folders, and say how each ended."""
    warnings.simplefilter("error", category=SyntaxWarning)
    logging.basicConfig(level=logging.ERROR)
    spark = ef.local_session(workers=WORKERS, slots=SLOTS, conf={"spark.sql.session.timeZone": "UTC"})
    stop = SparkSession.stop
    SparkSession.stop = lambda _session: None  # type: ignore[method-assign]
    for folder in folders:
        began = time.monotonic()
        print(Path(folder).name, run(spark, Path(folder)), f"{time.monotonic() - began:.1f} s", flush=True)
        for query in spark.streams.active:
            query.stop()
        spark.catalog.clearCache()
    if shared_cluster.cache_info().currsize:
        shared_cluster().stop()
    stop(spark)
