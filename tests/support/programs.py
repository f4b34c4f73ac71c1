"""Runs programs one after the other in one driver process and one Spark session, as starting Spark is what costs.

Each has a folder with `program.py`, in which it runs. What it prints goes to `output.txt` there, and the traceback of
one that fails to `error.txt`. Programs end their sessions as a user's would; here that has no effect, and
`local_session` gives all of them the same one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import traceback
import warnings
from functools import cache
from pathlib import Path

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


def run(folder: Path) -> str:
    """Run one program in its folder; "ok" or "failed"."""
    os.chdir(folder)
    file = folder / "program.py"
    code = compile(file.read_text(), str(file), "exec")
    with (folder / "output.txt").open("w") as output, contextlib.redirect_stdout(output):
        try:
            exec(code, {"__name__": "__main__", "__file__": str(file)})
        except BaseException:
            (folder / "error.txt").write_text(traceback.format_exc())
            return "failed"
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
        print(Path(folder).name, run(Path(folder)), f"{time.monotonic() - began:.1f} s", flush=True)
        for query in spark.streams.active:
            query.stop()
        spark.catalog.clearCache()
    if shared_cluster.cache_info().currsize:
        shared_cluster().stop()
    stop(spark)
