"""The driver that test_stores.py freezes: its second micro-batch waits until a file is there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

import evenflow as ef
from tests.support import moving
from tests.support.stored_stream import EACH, stream


def main(checkpoint: str, folder: Path) -> None:
    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows and batch["id"][0].as_py() >= EACH:
                (folder / "waiting").touch()
                while not (folder / "go").exists():
                    time.sleep(0.05)
            yield batch

    cloudpickle.register_pickle_by_value(moving)
    spark = ef.local_session(workers=1, slots=2)
    with ef.Cluster(spark, 1, checkpoint=checkpoint) as cluster:
        rows = stream(spark, folder / "in").mapInArrow(wait, "id long, k long, v double")
        out = cluster.keyed(rows, "k", moving.Nth(), name="n")
        writer = out.writeStream.format("parquet").option("checkpointLocation", str(folder / "spark"))
        query = writer.option("path", str(folder / "out")).trigger(availableNow=True).start()
        try:
            query.awaitTermination(200)
            print("it ended", flush=True)
        except StreamingQueryException as error:
            print(f"it failed: {error}", flush=True)
        try:
            cluster.await_workers(5)
        except ef.EvenflowError as error:
            print(f"and then: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
