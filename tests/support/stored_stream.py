"""A stream of files through an operator whose state is stored; its output must be that of a run without faults."""

import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.moving import Nth, nth_of

FILES = 4
EACH = 2_000
KEYS = 97


def write_files(folder):
    """Each file is one micro-batch."""
    folder.mkdir()
    for number in range(FILES):
        ids = np.arange(number * EACH, (number + 1) * EACH)
        table = pa.table({"id": ids, "k": ids % KEYS, "v": ids * 0.5})
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def stream(spark, files):
    return spark.readStream.schema("id long, k long, v double").option("maxFilesPerTrigger", 1).parquet(str(files))


def start(spark, cluster, files, tmp_path, **options):
    """A query from the files to more files, with state in between."""
    out = cluster.keyed(stream(spark, files), "k", Nth(), **{"name": "n"} | options)
    writer = out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "spark"))
    return writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()


def check(spark, tmp_path, files=FILES):
    got = spark.read.parquet(str(tmp_path / "out")).orderBy("id").toArrow()
    assert got["id"].to_pylist() == list(range(files * EACH))
    assert got["nth"].to_pylist() == nth_of(number % KEYS for number in range(files * EACH))


def kill(cluster, worker):
    os.kill(cluster.workers()[worker].pid, signal.SIGKILL)


def some(files, count):
    """Hide all but the first few files; gives a function that brings the rest back."""
    rest = sorted(files.iterdir())[count:]
    for path in rest:
        path.rename(path.with_name(f"_{path.name}"))

    def back():
        for path in rest:
            path.with_name(f"_{path.name}").rename(path)

    return back
