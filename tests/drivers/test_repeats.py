"""Sinks that skip what they have, and a driver that is killed between two of them: what they keep fits together."""

import json
import signal

import numpy as np
import pytest

from tests.support.scripts import Script

pytestmark = pytest.mark.timeout(900)  # two cores, and others on them

KEYS, FILES, BATCHES, ROWS = 5, 4, 3, 150

SOURCE = """
import json
import os
import signal
import time
from pathlib import Path

import pyarrow as pa

import evenflow as ef

home, jobs = Path({home!r}), ("keyed", "graph")


class Previous(ef.KeyedOperator):
    '''Adds the id of the row before, of the same key.'''

    def __init__(self):
        self.last = {{}}

    adds = True

    def reads(self, rows):
        return ["id"]

    def schema(self, rows):
        return rows.append(pa.field("before", pa.int64()))

    def process(self, rows, units, keys):
        found = []
        for number, unit, key in zip(rows.column("id").to_pylist(), units.tolist(), keys.tolist()):
            mine = self.last.setdefault(unit, {{}})
            found.append(mine.get(key, -1))
            mine[key] = number
        return rows.append_column("before", pa.array(found, pa.int64()))

    def extract(self, unit):
        return self.last.pop(unit, None)

    def install(self, unit, state):
        self.last[unit] = state


def keep(job, batch, place, epoch, last):
    '''A sink that skips what it has. Between two of them, in the second micro-batch, the driver is killed once.'''
    file = home / f"{{job}}.{{place}}.{{epoch}}.json"
    if not file.exists():
        rows = sorted(row.asDict().items() for row in batch.collect())
        file.write_text(json.dumps([dict(row) for row in rows]))
    if epoch == 1 and not last and not (home / "killed").exists():
        (home / f"{{job}}.between").touch()
        while not all((home / f"{{each}}.between").exists() for each in jobs):
            time.sleep(0.05)
        (home / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


spark = ef.local_session(workers=2, slots=6, conf={{"spark.sql.files.openCostInBytes": str(128 << 20)}})
events = spark.readStream.schema("key string, id long, note string").option("maxFilesPerTrigger", {files})
events = events.json(str(home / "in"))
with ef.Cluster(spark, workers=2, checkpoint=str(home / "state")) as cluster:
    def write(batch, epoch):
        keep("keyed", batch, 0, epoch, False)
        keep("keyed", batch, 1, epoch, True)

    writer = cluster.keyed(events, "key", Previous(), name="before").writeStream.foreachBatch(write)
    g = ef.Graph()
    rows = g.source("events").keyed("key", Previous())
    g.endpoint("plain", rows)
    g.endpoint("mapped", rows.filter("id >= 0"))
    names = ["plain", "mapped"]
    live = cluster.run(g, inputs={{"events": events}}, name="graph")
    ends = live.writeStream(lambda batch, end, epoch: keep("graph", batch, names.index(end), epoch, end == names[-1]))
    for job, each in zip(jobs, (writer, ends)):
        query = each.option("checkpointLocation", str(home / f"{{job}}-spark")).trigger(availableNow=True).start()
        while query.isActive and not (home / f"{{job}}.between").exists():
            time.sleep(0.05)
        if job == jobs[-1] or (home / "killed").exists():
            query.awaitTermination()
print("through")
"""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(1)
    for file in range(FILES * BATCHES):
        rows = []
        for place in range(ROWS):
            number = file * ROWS + place
            rows.append({"key": f"k{rng.integers(KEYS)}", "id": number // 2, "note": f"n{number}"})  # half are alike
        (tmp_path / "in" / f"{file:03}.json").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_driver_killed_between_sinks(home):
    """In one micro-batch, rows of one key come from four partitions: run again, they race."""
    source = SOURCE.format(home=str(home), files=FILES)
    for run in ("first", "second"):
        (home / run).mkdir()
        with Script(source, home / run) as script:
            script.process.wait(400)
            said = script.output()
        assert script.process.returncode == (-signal.SIGKILL if run == "first" else 0), said
    for job in ("keyed", "graph"):
        kept = [
            [json.loads((home / f"{job}.{sink}.{epoch}.json").read_text()) for epoch in range(BATCHES)]
            for sink in (0, 1)
        ]
        for epoch in range(BATCHES):
            one, other = ({row["note"]: row["before"] for row in kept[sink][epoch]} for sink in (0, 1))
            assert len(one) == FILES * ROWS
            assert one == other, f"batch {epoch} of {job}"
        for sink in (0, 1):
            chained(row for batch in kept[sink] for row in batch)


def chained(rows):
    """Each row of a key follows another one: what was kept of one batch goes on from what was kept of those before."""
    given, wanted = {}, {}
    for row in rows:
        given.setdefault(row["key"], []).append(row["before"])
        wanted.setdefault(row["key"], [-1]).append(row["id"])
    for key, before in given.items():
        last = sorted(wanted[key])
        for number in before:
            last.remove(number)  # each row is the one before of just one other
        assert len(last) == 1, f"{key}: {last} have no row behind them"
