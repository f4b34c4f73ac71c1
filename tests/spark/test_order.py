"""Rows in the order of a column, whatever partitions they come from; time that passes for all keys."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import Window
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.time.inputs import Inputs
from evenflow.runtime.cluster.arguments.order import Ordering
from evenflow.runtime.cluster.plans.keyed import KeyedUse, plan_keyed
from tests.support import timed_model
from tests.support.moving import Nth, region
from tests.support.timed_model import SESSIONS, Sessions, expected_sessions

cloudpickle.register_pickle_by_value(timed_model)

LATENESS = 40
"""Seconds."""
ROWS = "id long, k long, at timestamp"


def shown(df):
    """The rows of a result, sorted."""
    return sorted(tuple(row) for row in df.collect())


@pytest.mark.parametrize("partitions", [1, 4, 7])
def test_a_rolling_mean_is_that_of_sparks_own_window(spark, cluster, partitions):
    at = F.timestamp_micros((F.xxhash64("id") % 500) * 1000)  # many rows at the same time, of one key, too
    rows = spark.range(4000).select((F.col("id") % 20).alias("k"), at.alias("at"), (F.col("id") % 97).alias("v"))
    window = Window.partitionBy("k").orderBy("at", "v").rowsBetween(-4, 0)
    want = rows.select("*", F.avg("v").over(window).alias("mean"))
    operator = ef.RollingMean("v", rows=5, into="mean")
    made = cluster.keyed(rows.repartition(partitions), "k", operator, order_by="at", tuning=ef.Tuning(units=64))
    assert shown(made) == shown(want)


def test_sessions_of_a_batch_dataframe_all_come_out(spark, cluster):
    random = np.random.default_rng(0)
    who, at = random.integers(0, 40, 3000), random.integers(0, 4000, 3000)
    table = pa.table({"who": who, "at": at})
    rows = spark.createDataFrame(table).repartition(3)
    made = cluster.keyed(rows, "who", Sessions(), order_by="at", lateness=30, tuning=ef.Tuning(units=64))
    assert shown(made) == expected_sessions(who.tolist(), at.tolist())


@pytest.fixture
def files(tmp_path):
    """Twelve files of rows that came up to LATENESS seconds too late."""
    folder = tmp_path / "in"
    folder.mkdir()
    random = np.random.default_rng(1)
    at = np.sort(random.integers(0, 1200, 2400))
    order = np.argsort(at + random.integers(0, LATENESS, len(at)), kind="stable")
    for number in range(12):
        ids = order[number * 200 : (number + 1) * 200]
        times = pa.array(at[ids] * 1_000_000, pa.timestamp("us", "UTC"))
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({"id": ids, "k": ids % 17, "at": times}), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder, at


def run(spark, cluster, files, tmp_path, name, operator, partitions=0, trigger=3, columns=ROWS):
    """All there is, `trigger` files at a time."""
    rows = spark.readStream.schema(columns).option("maxFilesPerTrigger", trigger).parquet(str(files))
    rows = rows.repartition(partitions) if partitions else rows
    rows = rows.withColumnRenamed("k", "who") if isinstance(operator, Sessions) else rows
    key = rows.columns[1]
    out = cluster.keyed(
        rows, key, operator, order_by="at", lateness=f"{LATENESS} seconds", tuning=ef.Tuning(units=64), name=name
    )
    writer = out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "spark"))
    query = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()
    assert query.awaitTermination(180)


def test_a_stream_waits_for_rows_that_come_late(spark, cluster, files, tmp_path):
    folder, at = files
    name = region("waiting")
    run(spark, cluster, folder, tmp_path, name, Nth())
    got = spark.read.parquet(str(tmp_path / "out")).select("k", F.col("at").cast("long"), "id", "nth")
    due = np.flatnonzero(at < at.max() - LATENESS)  # the others stay for the next run
    nth, want = {}, []
    for place in sorted(due.tolist(), key=lambda place: (at[place], place)):
        nth[place % 17] = nth.get(place % 17, 0) + 1
        want.append((place % 17, int(at[place]), place, nth[place % 17]))
    assert shown(got) == sorted(want)
    assert cluster.region(name).snapshot().counts["late"] == 0


def test_a_stream_goes_on_with_other_partitions_and_workers(spark, files, tmp_path):
    folder, at = files
    rest = sorted(folder.iterdir())[6:]
    for path in rest:
        path.rename(path.with_name(f"_{path.name}"))
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        run(spark, cluster, folder, tmp_path, "sessions", Sessions())
    for path in rest:
        path.with_name(f"_{path.name}").rename(path)
    with ef.Cluster(spark, 1, checkpoint=tmp_path / "state") as cluster:
        run(spark, cluster, folder, tmp_path, "sessions", Sessions(), partitions=5, trigger=2)
    got = shown(spark.read.parquet(str(tmp_path / "out")).select(*SESSIONS.names))
    want = expected_sessions([place % 17 for place in range(len(at))], at.tolist())
    now = int(at.max() - LATENESS) * 1_000_000
    assert set(got) <= set(want)
    assert {session for session in want if session[2] + timed_model.GAP <= now} == set(got)
    assert len(got) == len(set(got)) > 100


@pytest.mark.parametrize(
    "operator",
    [ef.RollingMean("v", rows=3), ef.Aggregates(mean=ef.functions.mean("v"), rows=3)],
    ids=["mean", "aggregates"],
)
def test_columns_that_only_pass_through_come_and_go_while_rows_wait(spark, tmp_path, operator):
    def written(number, ids):
        (tmp_path / "in").mkdir(exist_ok=True)
        columns = {"id": ids, "k": ids % 3, "v": ids * 0.5, "old": ids, "new": ids * 10}
        at = pa.array(ids * 1_000_000, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({**columns, "at": at}), tmp_path / "in" / f"{number}.parquet")

    def run(number, column):
        with ef.Cluster(spark, 1, checkpoint=tmp_path / "state") as cluster:
            schema = f"id long, k long, v double, {column} long, at timestamp"
            rows = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
            out = cluster.keyed(
                rows, "k", operator, order_by="at", lateness=20, name="mean", tuning=ef.Tuning(units=16)
            )
            writer = out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "spark"))
            # each run has a sink of its own: a sink in one folder would have its own say about columns
            writer = writer.foreachBatch(lambda batch, _: batch.write.mode("append").parquet(f"{tmp_path}/out{number}"))
            assert writer.trigger(availableNow=True).start().awaitTermination(180)
        made = spark.read.parquet(f"{tmp_path}/out{number}").orderBy("id").toArrow()
        assert {"old", "new"} & set(made.schema.names) == {column}
        return made

    ids = np.arange(100)
    written(0, ids[:60])
    first = run(0, "old")
    written(1, ids[60:])
    second = run(1, "new")
    assert first["old"].to_pylist() == list(range(39))
    assert second["id"].to_pylist() == list(range(39, 79))
    assert second["new"].to_pylist() == [None] * 21 + [place * 10 for place in range(60, 79)]
    name = next(name for name in first.schema.names if "mean" in name)
    means = [*first[name].to_pylist(), *second[name].to_pylist()]
    assert means == [np.mean([each * 0.5 for each in (place - 6, place - 3, place) if each >= 0]) for place in ids[:79]]


def test_only_what_the_operator_reads_has_to_be_in_rows_that_wait(spark):
    """Through the plan, as `keyed` makes it: all columns are sent, since the operator gives them back."""

    def planned(columns, operator, **more):
        rows = spark.createDataFrame([], columns)
        order = Ordering(("at",), (rows.columns.index("at"),), 5, **more)
        use = KeyedUse(
            spark=spark,
            df=rows,
            key="k",
            operator=operator,
            schema=None,
            units=3,
            ordered=False,
            spread="hash",
            ordering=order,
            bounds=None,
            stored=False,
        )
        return plan_keyed(use).hosted.fresh()

    rows = pa.record_batch({"k": pa.array([1, 1]), "v": pa.array([1.0, 3.0]), "old": pa.array([7, 8]), "at": [0, 1]})
    units, hashes = np.zeros(2, np.int32), np.ones(2, np.int64)
    before = planned("k long, v double, old long, at long", ef.RollingMean("v", rows=3))
    before.process(before.whole(rows), units, hashes)
    state = before.extract(0)
    with pytest.raises(FunctionError, match="lack column 'w', which the operator reads"):
        planned("k long, w double, at long", ef.RollingMean("w", rows=3)).install(0, state)
    after = planned("k long, v double, new string, at long", ef.RollingMean("v", rows=3))
    after.install(0, state)
    tick = after.whole(pa.record_batch({"__evenflow_now": pa.array([10 * 1_000_000])}))
    out = after.process(tick, units[:1], hashes[:1])
    assert out.column("new").to_pylist() == [None, None]
    assert out.column(out.num_columns - 1).to_pylist() == [1.0, 2.0]
    sided = Inputs("side", ("left", "right"))
    with pytest.raises(FunctionError, match="lack column 'side', which the operator reads"):
        planned("k long, v double, side string, at long", ef.RollingMean("v", rows=3), inputs=sided).install(0, state)


def test_parts_of_what_is_persisted_and_several_actions_on_what_is_not(spark, cluster):
    rows = spark.range(3000).select((F.col("id") % 7).alias("k"), (-F.col("id")).alias("at")).repartition(3)
    kept, once = (cluster.keyed(rows, "k", Nth(), order_by="at", tuning=ef.Tuning(units=64)) for _ in range(2))
    want = sorted((place % 7, -place) for place in range(3000))
    kept.persist()
    try:
        assert len(kept.take(2)) == 2
        got = shown(kept)
    finally:
        kept.unpersist()
    assert [row[:2] for row in got] == want
    by_key = [row for row in got if row[0] == 3]
    assert [row[2] for row in by_key] == list(range(1, len(by_key) + 1))
    assert shown(once) == got
    assert len(once.take(5)) == 5
    assert shown(once) == got  # Spark does not read the rows again, and need not


def test_a_batch_that_is_asked_for_rows_before_it_is_written_is_refused(spark, tmp_path):
    """The second action has no rows of its own to bring: that is told, and not tried again for ever."""
    spark.range(100).selectExpr("id % 7 as k", "id").write.parquet(str(tmp_path / "in"))
    starts = []

    def write(batch, _number):
        if not batch.isEmpty():
            batch.write.mode("append").parquet(str(tmp_path / "out"))

    with ef.Cluster(spark, 1, checkpoint=tmp_path / "state") as cluster:

        def start():
            starts.append(1)
            rows = spark.readStream.schema("k long, id long").parquet(str(tmp_path / "in"))
            out = cluster.keyed(rows, "k", Nth(), order_by="id", tuning=ef.Tuning(units=16), name="nth")
            options = {"checkpointLocation": str(tmp_path / "spark")}
            return out.writeStream.foreachBatch(write).options(**options).trigger(availableNow=True).start()

        with pytest.raises(StreamingQueryException, match=r"persist\(\) the DataFrame before the first of several"):
            ef.supervise(start, cluster, backoff=0.1)
    assert len(starts) == 1


def test_what_makes_no_sense_is_refused(spark, cluster):
    rows = spark.range(10).select("id", F.array("id").alias("ids"), F.collate(F.lit("a"), "UTF8_LCASE").alias("text"))
    mean = ef.RunningMean("id")
    for options, reason in (
        ({"lateness": 5}, "lateness=5 and no order_by: name the column that holds the time"),
        ({"order_by": "id", "ordered": True}, "order_by and ordered=True"),
        ({"order_by": "no"}, "order_by: column 'no' does not exist; the columns are id, ids, text"),
        ({"order_by": []}, r"order_by=\[\]: give the name of a column"),
        ({"order_by": F.col("id")}, "order_by=Column<'id'>: give the name of a column"),
        ({"order_by": ["id", "ID"]}, "names a column twice"),
        ({"order_by": "ids"}, "column 'ids' is list"),
        ({"order_by": "text"}, "rows are ordered by the bytes of strings"),
        ({"order_by": "text", "lateness": 1}, "rows are ordered by the bytes of strings"),
        ({"order_by": "id", "lateness": -1}, "lateness=-1: give seconds from 0 on"),
        ({"order_by": "id", "lateness": "soon"}, "lateness='soon'"),
        ({"order_by": "id", "balance": "river", "tuning": ef.Tuning(split_keys=True)}, "order_by and balance 'river'"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            cluster.keyed(rows, "id", mean, **options)
    sided = Nth()
    sided.inputs = "sied", ("left", "right")
    with pytest.raises(InvalidArgument, match="inputs of the operator are told apart by column 'sied', which does not"):
        cluster.keyed(rows.withColumn("side", F.lit("left")), "id", sided, order_by="id", lateness=1)
