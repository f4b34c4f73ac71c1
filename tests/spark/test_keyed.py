"""`keyed` on Spark: ready-made operators against plain Python, while units are moved all the time."""

import datetime as dt
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.operators.keyed import KeyedOperator
from tests.support import operators_model as model
from tests.support.comparison import run_to_end
from tests.support.moving import Moving, Nth, nth_of, region, source

ROWS = 3_000
AGGREGATES = ("count", "sum", "mean", "min", "max", "std")
WORDS = [None, "", "eins", "zwei", "drei ✓", "vier"]
ZERO = dt.datetime(2024, 3, 10, tzinfo=dt.UTC)


def some_rows(count=ROWS, partitions=1, keys=40, seed=0):
    """Rows with nulls, late times and a hot key; rows of one key are in one of the partitions."""
    random = np.random.default_rng(seed)
    part = np.arange(count) * partitions // count
    drawn = np.minimum(random.integers(0, keys, count), random.integers(0, keys, count))
    seconds = np.arange(count) * 0.25 + random.uniform(-3, 3, count)
    x = random.normal(0, 100, count).round(3)
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "k": [f"{p}-{key}" for p, key in zip(part, drawn, strict=True)],
            "x": pa.array(x, mask=random.random(count) < 0.1),
            "word": [WORDS[place] for place in random.integers(0, len(WORDS), count)],
            "t": pa.array([ZERO + dt.timedelta(seconds=round(s, 6)) for s in seconds], pa.timestamp("us", "UTC")),
            "s": pa.array(seconds.round(6)),
            "tag": [("L", "R")[place] for place in random.integers(0, 2, count)],
        }
    )


def aggregates(kind, **window):
    classes = [getattr(ef, f"{kind}{name.title()}") for name in AGGREGATES]
    return [operator("x", **window) for operator in classes]


def last_and_distinct():
    return [
        ef.LastValue("word"),
        ef.LastValue("t"),
        ef.DistinctCount("word"),
        ef.LastValue("x", into="last"),
    ]


CHAINS = {
    "rolling-rows": lambda: aggregates("Rolling", rows=7),
    "rolling-seconds": lambda: aggregates("Rolling", seconds=30, time="t"),
    "running": lambda: aggregates("Running"),
    "last-distinct": last_and_distinct,
}


def expected(chain, rows):
    """Column by column, what the operators of a chain should have added to rows in this order."""
    keys, x, words = (rows[name].to_pylist() for name in ("k", "x", "word"))
    if chain == "rolling-rows":
        return {f"x_{how}": model.rolling(how, keys, x, 7) for how in AGGREGATES}
    if chain == "rolling-seconds":
        seconds = rows["t"].cast(pa.int64()).to_numpy() / 1e6
        return {f"x_{how}": model.rolling_time(how, keys, x, seconds.tolist(), 30) for how in AGGREGATES}
    if chain == "running":
        return {f"x_{how}": model.rolling(how, keys, x, ROWS) for how in AGGREGATES}
    return {
        "word_last": model.last(keys, words),
        "t_last": rows["t"].to_pylist(),
        "word_distinct": model.distinct(keys, words),
        "last": model.last(keys, x),
    }


def chained(cluster, df, operators, **options):
    """One keyed operator after the other; the result and the regions."""
    names = [region("chain") for _ in operators]
    for operator, name in zip(operators, names, strict=True):
        df = cluster.keyed(df, "k", operator, tuning=ef.Tuning(units=64), name=name, **options)
    return df, names


def check(got, rows, columns):
    """Every row once, with what should have been added to it."""
    got = got.sort_by("id")
    for name in rows.column_names:
        assert got[name].to_pylist() == rows[name].to_pylist(), f"column {name}"
    for name, values in columns.items():
        if values and isinstance(next((v for v in values if v is not None), 0), (int, float)):
            model.assert_close(got[name].to_pylist(), values)
        else:
            assert got[name].to_pylist() == values, f"column {name}"


@pytest.fixture
def small(conf):
    """Rows come in many batches."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "100")


# -- ready-made operators


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.usefixtures("small")
def test_operators_on_a_batch(spark, cluster, chain):
    rows = some_rows(partitions=2)
    out, names = chained(cluster, source(spark, rows, 2), CHAINS[chain]())
    with Moving(cluster, *names) as moving:
        while moving.wanted():
            check(out.toArrow(), rows, expected(chain, rows))


def streamed(spark, folder, rows, files, per_batch=1):
    """The rows as a stream of files."""
    folder.mkdir()
    step = -(-rows.num_rows // files)
    for number in range(files):
        file = folder / f"{number}.parquet"
        pq.write_table(rows.slice(number * step, step), file)
        os.utime(file, (number + 1, number + 1))
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch).parquet(str(folder))


def run_stream(out, folder):
    """To its end, into Parquet; all rows."""
    options = {"path": str(folder / "out"), "checkpointLocation": str(folder / "checkpoint")}
    query = out.writeStream.format("parquet").options(**options).trigger(availableNow=True).start()
    run_to_end(query)
    return out.sparkSession.read.parquet(str(folder / "out")).toArrow()


@pytest.mark.parametrize("chain", ["rolling-seconds", "last-distinct"])
@pytest.mark.usefixtures("small")
def test_operators_on_a_stream(spark, cluster, chain, tmp_path):
    """State goes on from micro-batch to micro-batch."""
    rows = some_rows(seed=1)
    out, names = chained(cluster, streamed(spark, tmp_path / "in", rows, files=3), CHAINS[chain]())
    with Moving(cluster, *names, between=True) as moving:
        while moving.wanted():
            check(run_stream(out, tmp_path / f"{moving.runs}"), rows, expected(chain, rows))


@pytest.mark.usefixtures("small")
def test_stream_of_several_partitions_into_memory(spark, cluster, tmp_path, conf):
    conf("spark.sql.files.openCostInBytes", "1")
    conf("spark.sql.files.maxPartitionBytes", "1000")
    rows = some_rows(partitions=6)
    name = region("memory")
    stream = streamed(spark, tmp_path / "in", rows, files=6, per_batch=2)
    out = cluster.keyed(stream, "k", Nth(), tuning=ef.Tuning(units=32), name=name).withColumn(
        "part", F.spark_partition_id()
    )
    with Moving(cluster, name, between=True) as moving:
        while moving.wanted():
            table = f"nth{moving.runs}"
            run_to_end(out.writeStream.format("memory").queryName(table).trigger(availableNow=True).start())
            got = spark.table(table).toArrow()
            assert len(set(got["part"].to_pylist())) > 1
            check(got, rows, {"nth": nth_of(rows["k"].to_pylist())})


@pytest.mark.parametrize("window", [{"rows": 4}, {"seconds": 20, "time": "s"}], ids=["rows", "seconds"])
@pytest.mark.parametrize("kind", ["batch", "stream"])
@pytest.mark.usefixtures("small")
def test_join(spark, cluster, tmp_path, window, kind):
    rows = some_rows(keys=80)
    name = region("join")
    df = source(spark, rows) if kind == "batch" else streamed(spark, tmp_path / "in", rows, files=3)
    out = cluster.keyed(df, "k", ef.WindowJoin("tag", "L", "R", **window), tuning=ef.Tuning(units=64), name=name)
    with Moving(cluster, name, between=kind == "stream") as moving:
        while moving.wanted():
            got = out.toArrow() if kind == "batch" else run_stream(out, tmp_path / f"{moving.runs}")
            check_pairs(got, rows, window)


def check_pairs(got, rows, window):
    keys, tags, times = (rows[column].to_pylist() for column in ("k", "tag", "s"))
    by_time = {} if "rows" in window else {"times": times, "seconds": 20}
    pairs = model.joined(keys, tags, rows=4, **by_time)
    found = list(zip(got["left_id"].to_pylist(), got["right_id"].to_pylist(), strict=True))
    assert len(pairs) > ROWS / 2
    assert sorted(found) == sorted((left, right) for left, right, _ in pairs)
    by_id = {row["id"]: row for row in rows.to_pylist()}
    for pair in got.to_pylist()[::50]:
        for side in ("left", "right"):
            row = by_id[pair[f"{side}_id"]]
            assert {column: pair[f"{side}_{column}"] for column in row if column != "tag"} == {
                column: value for column, value in row.items() if column != "tag"
            }


# -- order


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.usefixtures("small")
def test_ordered_is_the_order_of_the_input(spark, cluster, partitions):
    rows = some_rows(partitions=partitions)
    name = region("ordered")
    out = cluster.keyed(
        source(spark, rows, partitions), "k", Nth(), tuning=ef.Tuning(units=64), ordered=True, name=name
    )
    with Moving(cluster, name) as moving:
        while moving.wanted():
            got = out.toArrow()
            assert got["id"].to_pylist() == list(range(ROWS))
            check(got, rows, {"nth": nth_of(rows["k"].to_pylist())})


@pytest.mark.usefixtures("small")
def test_ordered_join(spark, cluster):
    """Pairs come in the order of the rows that complete them."""
    rows = some_rows()
    name = region("ordered-join")
    join = ef.WindowJoin("tag", "L", "R", rows=2)
    out = cluster.keyed(source(spark, rows), "k", join, tuning=ef.Tuning(units=64), ordered=True, name=name)
    expected = [(left, right) for left, right, _ in model.joined(*(rows[c].to_pylist() for c in ("k", "tag")), rows=2)]
    with Moving(cluster, name) as moving:
        while moving.wanted():
            got = out.toArrow()
            found = zip(got["left_id"].to_pylist(), got["right_id"].to_pylist(), strict=True)
            assert list(found) == expected


@pytest.mark.usefixtures("small")
def test_rows_of_a_key_stay_in_order(spark, cluster):
    rows = some_rows()
    name = region("per-key")
    out = cluster.keyed(source(spark, rows), "k", Nth(), tuning=ef.Tuning(units=8), name=name)
    with Moving(cluster, name) as moving:
        while moving.wanted():
            for key, mine in out.toPandas().groupby("k"):
                assert mine["nth"].tolist() == list(range(1, len(mine) + 1)), key
                assert mine["id"].is_monotonic_increasing


# -- balances


@pytest.mark.parametrize(
    "balance",
    ["hash", "flux-auto", ef.policy.Flux(th_imb=1.05)],
    ids=lambda balance: balance if isinstance(balance, str) else type(balance).__name__,
)
def test_balances(spark, cluster, balance):
    rows = some_rows()
    out = cluster.keyed(source(spark, rows), "k", Nth(), balance=balance)
    check(out.toArrow(), rows, {"nth": nth_of(rows["k"].to_pylist())})


def test_balance_with_options(spark, cluster):
    rows = some_rows(500)
    out = cluster.keyed(source(spark, rows), "k", Nth(), balance="flux", th_imb=1.1, delta_min=0.05)
    check(out.toArrow(), rows, {"nth": nth_of(rows["k"].to_pylist())})


class Doubled(KeyedOperator):
    """Needs no state, so its rows may go anywhere."""

    content_sensitive = False

    def process(self, rows, units, keys):
        return pa.record_batch({"id": rows.column("id"), "twice": pa.array(rows.column("id").to_numpy() * 2)})

    def extract(self, unit):
        return None

    def install(self, unit, state):
        raise AssertionError("there is no state")


@pytest.mark.parametrize("balance", ["river", ef.policy.River(), "hash"], ids=["river", "River()", "hash"])
@pytest.mark.parametrize("ordered", [True, False])
def test_operator_that_does_not_care_about_keys(spark, cluster, balance, ordered):
    df = spark.range(0, 20_000, 1, 2)
    out = cluster.keyed(df, "id", Doubled(), "id long, twice long", balance=balance, ordered=ordered)
    got = out.toArrow()
    if not ordered:
        got = got.sort_by("id")
    assert got.to_pydict() == {"id": list(range(20_000)), "twice": list(range(0, 40_000, 2))}


# -- user-defined operators


class Ranked(KeyedOperator):
    """pandas inside: mean so far of each key, and rows of odd ids dropped."""

    def __init__(self):
        self.units = {}

    def process(self, rows, units, keys):
        frame = pd.DataFrame({"id": rows.column("id").to_numpy(), "unit": units, "key": keys})
        frame["place"] = np.arange(len(frame))
        parts = []
        for (unit, key), mine in frame.groupby(["unit", "key"], sort=False):
            count, total = self.units.setdefault(unit, {}).get(key, (0, 0))
            totals = total + mine["id"].cumsum()
            parts.append(mine.assign(mean=totals / (count + np.arange(1, len(mine) + 1))))
            self.units[unit][key] = (count + len(mine), int(totals.iloc[-1]))
        out = pd.concat(parts).sort_values("place") if parts else frame.assign(mean=0.0)
        out = out[out["id"] % 2 == 0]
        result = pa.RecordBatch.from_pandas(out[["id", "mean"]], preserve_index=False)
        return result, out["place"].to_numpy()

    def extract(self, unit):
        return self.units.pop(unit, None)

    def install(self, unit, state):
        self.units[unit] = state


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.usefixtures("small")
def test_operator_with_pandas_inside(spark, cluster, ordered):
    rows = some_rows()
    name = region("pandas")
    options = {"tuning": ef.Tuning(units=32), "ordered": ordered, "name": name}
    out = cluster.keyed(source(spark, rows), "k", Ranked(), schema="id long, mean double", **options)
    means = rows.to_pandas().groupby("k")["id"].transform(lambda ids: ids.expanding().mean())
    with Moving(cluster, name) as moving:
        while moving.wanted():
            got = out.toArrow() if ordered else out.toArrow().sort_by("id")
            assert got["id"].to_pylist() == list(range(0, ROWS, 2))
            model.assert_close(got["mean"].to_pylist(), means[::2].tolist())


def test_snapshot_and_events(spark, cluster, conf, eventually):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    rows = some_rows()
    name = region("told")
    operator = ef.RollingMean("x", rows=5)
    out = cluster.keyed(source(spark, rows, pause_s=0.06), "k", operator, tuning=ef.Tuning(units=16), name=name)

    def samples():
        """What the log was told, once some rows were through."""
        told = [event for event in cluster.events() if event.get("region") == name and event["event"] == "keyed-sample"]
        return [event for event in told if sum(consumer["rows"] for consumer in event["consumers"])]

    runs = 0
    with Moving(cluster, name) as moving:
        while moving.wanted() or not samples():
            assert out.count() == ROWS
            runs += 1
    eventually(lambda: complete(cluster.region(name).snapshot(), runs * ROWS), what="the last reports")
    snapshot = cluster.region(name).snapshot()
    assert snapshot.region == name
    assert snapshot.feeders == 0
    assert len(snapshot.table.owners) == len(snapshot.unit_rows) == len(snapshot.unit_bytes) == 17
    assert snapshot.unit_rows.sum() == snapshot.unit_arrived.sum() == runs * ROWS
    assert [c.worker for c in snapshot.consumers] == [0, 1, 2, 3]
    assert sum(c.rows for c in snapshot.consumers) == runs * ROWS
    assert all(c.busy_s > 0 and c.bytes > 0 and c.seconds > 0 for c in snapshot.consumers)
    assert (
        snapshot.unit_bytes[snapshot.unit_rows > 0] > 0
    ).mean() > 0.5  # not those that moved before they were measured
    assert snapshot.bytes_moved > 0
    assert snapshot.pause_s > 0
    events = [event for event in cluster.events() if event.get("region") == name]
    kinds = {event["event"] for event in events}
    assert {"region-opened", "feeder-joined", "move", "moved", "keyed-sample", "feeder-left"} <= kinds
    moved = [event for event in events if event["event"] == "moved"]
    assert sum(len(event["units"]) for event in moved) == snapshot.moved
    assert sum(event["bytes"] for event in moved) == snapshot.bytes_moved
    assert {event["why"] for event in events if event["event"] == "move"} >= {"asked for"}
    sample = samples()[-1]
    assert [c["worker"] for c in sample["consumers"]] == [0, 1, 2, 3]
    assert sum(c["units"] for c in sample["consumers"]) == 17
    assert len(sample["hottest"]) == 10


def complete(snapshot, rows):
    """Whether feeders and workers have said all they had to say."""
    told = snapshot.unit_rows.sum() == snapshot.unit_arrived.sum() == rows
    return told and not snapshot.feeders and not snapshot.moving
