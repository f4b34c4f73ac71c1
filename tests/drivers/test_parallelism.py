"""A driver killed in the middle of a batch: nothing of it stays. Started again with fewer cores, it counts the same."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.scripts import Script

FILES, EACH, KEYS = 16, 60, 7
SOURCE = """
import json, time, uuid
from pathlib import Path
import evenflow as ef

workers, cores, folder = {workers}, {cores}, Path({folder!r})


def slowly(batches):
    began = False
    for batch in batches:
        if not began and (folder / "slow").exists():
            (folder / "slow" / uuid.uuid4().hex).touch()
            time.sleep(1.5)
        began = True
        yield batch


spark = ef.local_session(workers, slots=2, conf={{"spark.default.parallelism": str(cores)}})
files = spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 8).parquet(str(folder / "in"))
with ef.Cluster(spark, workers, checkpoint=folder / "state") as cluster:
    slow = files.mapInArrow(slowly, files.schema)
    counted = cluster.keyed(slow, "k", ef.RunningCount("id", into="count"), tuning=ef.Tuning(units=32), name="counts")
    writer = counted.writeStream.option("checkpointLocation", str(folder / "spark")).trigger(availableNow=True)
    query = writer.format("parquet").option("path", str(folder / "out")).start()
    query.awaitTermination(180)
    rows = spark.read.parquet(str(folder / "out")).collect()
    print("counted", json.dumps([[row["k"], row["count"]] for row in rows]), flush=True)
"""


def test_killed_with_eight_partitions_and_started_again_with_three(tmp_path):
    """They run two by two: those that were through look like all there is, if nothing tells how many there are."""
    for name in ("in", "slow"):
        (tmp_path / name).mkdir()
    for number in range(FILES):
        ids = range(number * EACH, (number + 1) * EACH)
        table = pa.table({"id": list(ids), "k": [each % KEYS for each in ids]})
        pq.write_table(table, tmp_path / "in" / f"{number:02}.parquet")
    with Script(SOURCE.format(workers=6, cores=8, folder=str(tmp_path)), tmp_path) as script:
        script.wait_until(lambda: len(list((tmp_path / "slow").iterdir())) >= 6, "six partitions have begun")
        script.process.kill()  # no chance to clean up: the workers notice and go
        script.ended()
        script.gone()
    for path in (tmp_path / "slow").iterdir():
        path.unlink()
    (tmp_path / "slow").rmdir()
    with Script(SOURCE.format(workers=1, cores=3, folder=str(tmp_path)), tmp_path) as script:
        (line,) = [line for line in script.finish().splitlines() if line.startswith("counted")]
    got = Counter(tuple(pair) for pair in json.loads(line.removeprefix("counted")))
    totals = Counter(each % KEYS for each in range(FILES * EACH))
    assert got == Counter((key, number) for key, total in totals.items() for number in range(1, total + 1))
