"""State larger than the memory it may have: the same results, from disk, in batch and streaming, with moves."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.operators.keyed import KeyedOperator
from tests.support.comparison import run_to_end
from tests.support.moving import Moving, Nth, nth_of

ROWS, KEYS = 60_000, 5_000
"""Windows of 20 values: about 1 MB of state."""


@pytest.fixture(scope="module")
def tight(spark):
    """Each worker may keep a tenth of its share."""
    with ef.Cluster(spark, 2, memory="96k") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    random = np.random.default_rng(7)
    table = pa.table({"id": np.arange(ROWS), "k": random.integers(0, KEYS, ROWS), "v": random.normal(size=ROWS)})
    path = tmp_path_factory.mktemp("rows")
    for number in range(4):
        part = table.slice(number * ROWS // 4, ROWS // 4)
        pq.write_table(part, path / f"{number}.parquet")
        os.utime(path / f"{number}.parquet", (number + 1, number + 1))  # Spark takes the oldest first
    return path, table.to_pandas()


BYTES = {"8m": 8 << 20, "96k": 96 << 10}


def expected(frame):
    return frame.groupby("k")["v"].transform(lambda values: values.rolling(20, min_periods=1).mean())


def check_means(got: pd.DataFrame, frame):
    got = got.sort_values("id").reset_index(drop=True)
    assert got["id"].tolist() == frame["id"].tolist()
    np.testing.assert_allclose(got["v_mean"], expected(frame), rtol=1e-9, atol=1e-12)


def spilled(cluster, name):
    """Bytes, as workers have told by now: they tell all when the last feeder has left, a moment later."""
    return max(consumer.spilled for consumer in cluster.region(name).snapshot().consumers)


@pytest.mark.parametrize("ordered", [False, True])
def test_ten_times_the_budget(spark, tight, rows, eventually, ordered):
    path, frame = rows
    df = spark.read.parquet(str(path)).coalesce(1).sortWithinPartitions("id")
    name = f"ten-{ordered}"
    out = tight.keyed(df, "k", ef.RollingMean("v", rows=20), name=name, ordered=ordered, tuning=ef.Tuning(units=64))
    got = out.toPandas()
    if ordered:
        assert got["id"].is_monotonic_increasing
    check_means(got, frame)
    eventually(lambda: spilled(tight, name) > 0, what="state on disk")


def test_an_operator_with_other_results(spark, tight, rows):
    """Its rows do not stay with the feeder, and it says nothing of where results come from."""
    path, frame = rows
    df = spark.read.parquet(str(path)).coalesce(1).sortWithinPartitions("id")
    got = tight.keyed(df, "k", Nth(), tuning=ef.Tuning(units=64)).toPandas().sort_values("id")
    assert got["nth"].tolist() == nth_of(frame["k"])


def test_pairs(spark, tight, rows):
    path, _ = rows
    df = spark.read.parquet(str(path)).where("id < 20000").coalesce(1).sortWithinPartitions("id")
    tagged = df.selectExpr("id", "k", "if(id % 2 = 0, 'l', 'r') tag")
    join = ef.WindowJoin("tag", "l", "r", rows=3)
    got = tight.keyed(tagged, "k", join, tuning=ef.Tuning(units=64)).count()
    with ef.Cluster(spark, 1) as plain:
        assert got == plain.keyed(tagged, "k", join).count()


def test_a_stream_with_moves_and_a_checkpoint(spark, rows, tmp_path):
    path, frame = rows
    with ef.Cluster(spark, 2, memory="96k", checkpoint=tmp_path / "state") as cluster:
        stream = spark.readStream.schema("id long, k long, v double").option("maxFilesPerTrigger", 1).parquet(str(path))
        out = cluster.keyed(
            stream, "k", ef.RollingMean("v", rows=20), name="n", tuning=ef.Tuning(units=64), balance="hash"
        )
        with Moving(cluster, "n", between=True) as moving:
            while moving.wanted():
                folder = tmp_path / f"{moving.runs}"
                query = out.writeStream.format("parquet").option("checkpointLocation", str(folder / "spark"))
                run_to_end(query.option("path", str(folder / "out")).trigger(availableNow=True).start())
                check_means(spark.read.parquet(str(folder / "out")).toPandas(), frame)


def test_memory_given_and_taken_while_a_query_runs(spark, tight, rows, eventually):
    """Micro-batches with little memory, with room for all state, and with little again."""
    path, frame = rows
    stream = spark.readStream.schema("id long, k long, v double").option("maxFilesPerTrigger", 1).parquet(str(path))
    out = tight.keyed(
        stream, "k", ef.RollingMean("v", rows=20), name="given", tuning=ef.Tuning(units=64), balance="hash"
    )
    got = []

    def told():
        """By worker, what it said last of its memory."""
        return {each["worker"]: each for each in tight.events() if each["event"] == "memory-set"}

    def asked(memory, fits):
        """Asked for again, each worker tells how much it has on disk by now."""
        tight.set_memory(memory)
        last = told()
        return len(last) == 2 and all(each["memory"] == BYTES[memory] and fits(each) for each in last.values())

    def take(batch, number):
        got.append(batch.toPandas())
        if number == 0:
            tight.set_memory({0: "8m"})
            eventually(lambda: told().get(0, {}).get("memory") == 8 << 20, what="worker 0 to have more memory")
            assert 1 not in told()
        if number == 1:
            eventually(lambda: asked("8m", lambda each: not each["spilled"]), what="all state in memory")
        if number == 2:
            eventually(lambda: asked("96k", lambda each: each["spilled"] > 100_000), what="most state on disk")

    run_to_end(out.writeStream.foreachBatch(take).trigger(availableNow=True).start())
    assert len(got) == 4
    check_means(pd.concat(got), frame)
    assert not [each for each in tight.events() if each["event"] in ("memory-refused", "worker-trouble")]


def graph_of_means():
    """The rows with a mean by key, and these joined with all odd rows of their key: two operators with state."""
    graph = ef.Graph()
    source = graph.source("rows")
    means = source.keyed("k", ef.RollingMean("v", rows=20), units=64)
    odd = source.filter("id % 2 = 1 and id < 10000").map(renamed, "k long, other long")
    graph.endpoint("means", means)
    graph.endpoint("pairs", means.filter("id < 10000").join(odd, "k", rows=1000, units=64))
    return graph


def renamed(batch):
    return pa.record_batch({"k": batch.column("k"), "other": batch.column("id")})


def test_a_graph_in_a_batch(spark, tight, rows, eventually):
    path, frame = rows
    df = spark.read.parquet(str(path)).coalesce(1).sortWithinPartitions("id")
    out = tight.run(graph_of_means(), {"rows": df}, name="graph", placement="round-robin")
    check_means(out["means"].toPandas(), frame)
    eventually(lambda: spilled(tight, "graph.means") > 0, what="state on disk")
    some = frame[frame["id"] < 10_000]
    wanted = some.merge(some[some["id"] % 2 == 1], on="k", suffixes=("", "_right"))
    got = out["pairs"].toPandas()
    assert sorted(zip(got["id"], got["other"], strict=True)) == sorted(
        zip(wanted["id"], wanted["id_right"], strict=True)
    )


def test_a_stream_through_a_graph_with_moves_and_a_checkpoint(spark, rows, tmp_path):
    path, frame = rows
    with ef.Cluster(spark, 2, memory="96k", checkpoint=tmp_path / "state") as cluster:
        stream = spark.readStream.schema("id long, k long, v double").option("maxFilesPerTrigger", 1).parquet(str(path))
        out = cluster.run(graph_of_means(), {"rows": stream}, name="n", placement="round-robin")["means"]
        with Moving(cluster, "n.means", between=True) as moving:
            while moving.wanted():
                folder = tmp_path / f"{moving.runs}"
                query = out.writeStream.format("parquet").option("checkpointLocation", str(folder / "spark"))
                run_to_end(query.option("path", str(folder / "out")).trigger(availableNow=True).start())
                check_means(spark.read.parquet(str(folder / "out")).toPandas(), frame)


@pytest.mark.parametrize("memory", [0, -1, "x", "12q", True, "1k"])
def test_wrong_budgets(spark, memory):
    with pytest.raises(ef.errors.InvalidArgument, match="memory="):
        ef.Cluster(spark, 1, memory=memory)


BUDGET = 64 << 20
BLOCK = 4096
"""Numbers a key of `Blocks`: 32 kB."""


class Blocks(KeyedOperator):
    """Keeps a block of numbers of each key, of which every row adds to one; gives the sum of the block."""

    def __init__(self):
        self.blocks = {}

    def schema(self, rows):
        return rows.append(pa.field("sum", pa.float64()))

    def process(self, rows, units, keys):
        sums = []
        for unit, key, value in zip(units.tolist(), keys.tolist(), rows.column("v").to_pylist(), strict=True):
            block = self.blocks.setdefault(unit, {}).setdefault(key, np.zeros(BLOCK))
            if not block[0]:
                block[:] = 1.0
            block[int(value) % BLOCK] += value
            sums.append(block.sum() - BLOCK)
        return rows.append_column("sum", pa.array(sums, pa.float64()))

    def extract(self, unit):
        return self.blocks.pop(unit, None)

    def install(self, unit, state):
        self.blocks[unit] = state

    def size(self, unit):
        return sum(block.nbytes for block in self.blocks.get(unit, {}).values())


def memory_of(pid, what):
    """VmRSS or VmHWM of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {what} of process {pid}")


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux's /proc")
def test_the_process_keeps_to_its_budget(spark, eventually):
    """Ten times the budget, in a real worker: its peak is 1.3 times the budget and what it took without state."""
    keys, rounds = 10 * BUDGET // (BLOCK * 8), 2
    df = spark.range(0, keys * rounds, 1, 1).selectExpr(f"id % {keys} k", "cast(id as double) v")
    with ef.Cluster(spark, 1, memory=BUDGET) as cluster:
        assert cluster.keyed(df.limit(20), "k", Blocks(), tuning=ef.Tuning(units=1024)).count() == 20
        pid = cluster.workers()[0].pid
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # from now on VmHWM is that of what follows
        floor = memory_of(pid, "VmRSS")
        got = cluster.keyed(df, "k", Blocks(), name="blocks", tuning=ef.Tuning(units=1024)).toPandas()
        peak = memory_of(pid, "VmHWM")
        eventually(lambda: spilled(cluster, "blocks") > 8 * BUDGET, what="state on disk")
    assert len(got) == keys * rounds
    first = got["v"] < keys
    assert (got["sum"] == np.where(first, got["v"], 2 * got["v"] - keys)).all()
    assert peak - floor <= 1.3 * BUDGET, f"{(peak - floor) / BUDGET:.2f} of the budget, above {floor >> 20} MB"
