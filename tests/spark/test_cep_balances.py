"""Balances of cep-load-balancing on Spark: the same results wherever keys go, but for partial key grouping."""

import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.moving import Nth, nth_of, region, source

ROWS = 6_000
UNITS = 64
BY_LOAD = {"theta": 5.0, "window": 0.2, "least_rows": 1}


def skewed_rows(count=ROWS):
    """Keys from -20 to 43 and null; those that share a worker by key mod 4 with key 0 have most of the rows."""
    random = np.random.default_rng(5)
    key = random.integers(-20, 44, count)
    key = np.where(random.random(count) < 0.6, key // 4 * 4, key)
    return pa.table({"id": np.arange(count), "k": pa.array(key, pa.int64(), mask=random.random(count) < 0.02)})


class Counted(Nth):
    """Gives counts that can be put together afterwards, so rows of a key need not meet."""

    content_sensitive = False


@pytest.fixture
def slowly(spark, conf):
    """The rows, in batches that are a while in coming."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    return lambda rows: source(spark, rows, pause_s=0.03)


@pytest.mark.parametrize("balance", ["kg", "dlb-h", "dlb-l", "lptf"])
def test_results_are_the_same_wherever_keys_go(cluster, slowly, balance):
    rows, name = skewed_rows(), region(balance)
    options = {} if balance == "kg" else BY_LOAD
    out = cluster.keyed(
        slowly(rows),
        "k",
        Nth(),
        balance=balance,
        tuning=ef.Tuning(units=UNITS, spread="modulo"),
        ordered=True,
        name=name,
        **options,
    )
    expected = rows.append_column("nth", pa.array(nth_of(rows["k"].to_pylist()))).to_pydict()
    assert out.toArrow().to_pydict() == expected
    deadline = time.monotonic() + 120
    while balance != "kg" and not cluster.region(name).snapshot().moved and time.monotonic() < deadline:
        assert out.toArrow().to_pydict() == expected  # on a busy machine all may be over before the first window is
    decided = [event for event in cluster.events() if event["event"] == "rebalance" and event["region"] == name]
    assert (cluster.region(name).snapshot().moved > 0) == bool(decided) == (balance != "kg")


@pytest.mark.parametrize(("operator", "split"), [(Counted(), False), (Nth(), True)], ids=["insensitive", "split_keys"])
def test_counts_of_partial_key_grouping_sum_up(spark, cluster, operator, split):
    rows = skewed_rows()
    out = cluster.keyed(
        spark.createDataFrame(rows.to_pandas().astype({"k": "Int64"})),
        "k",
        operator,
        balance="pkg",
        tuning=ef.Tuning(split_keys=split),
    )
    got = out.toArrow()
    assert sorted(got["id"].to_pylist()) == list(range(ROWS))
    parts = Counter()
    for key in set(got["k"].to_pylist()):
        mine = got.filter(pc.equal(got["k"], key) if key is not None else pc.is_null(got["k"]))["nth"].to_numpy()
        times = np.bincount(mine)[1:]  # 1, 2, 3, ... on one worker, and perhaps again on another
        assert times.tolist() == sorted(times.tolist(), reverse=True)
        parts[int(times.max())] += 1
    assert parts.keys() <= {1, 2}
    assert parts[2] > 30, "hardly any key was split"


def test_partial_key_grouping_for_an_operator_that_minds(spark, cluster):
    df = spark.range(10)
    with pytest.raises(InvalidArgument, match=r"'pkg' sends rows of one key to several workers, and Nth .*split_keys"):
        cluster.keyed(df, "id", Nth(), balance="pkg")
    with pytest.raises(InvalidArgument, match=r"no parameters"):
        cluster.keyed(df, "id", Nth(), balance="pkg", theta=3, tuning=ef.Tuning(split_keys=True))


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
@pytest.mark.parametrize("by", ["name", "column"])
def test_modulo_of_whole_numbers(spark, cluster, eventually, kind, by):
    df = spark.range(-100, 100, 1, 1).select(F.col("id").cast(kind).alias("k"))
    name = region("modulo")
    key = "k" if by == "name" else F.col("k") + F.lit(0).cast(kind)
    assert (
        cluster.keyed(df, key, Nth(), balance="kg", tuning=ef.Tuning(spread="modulo", units=7), name=name).count()
        == 200
    )
    eventually(lambda: cluster.region(name).snapshot().feeders == 0, what="the last reports")
    rows = cluster.region(name).snapshot().unit_arrived
    assert rows.tolist() == [*np.bincount(np.arange(-100, 100) % 7), 0]


@pytest.mark.parametrize("key", ["text", "half", "day", ["k", "k"], "k / 2"], ids=str)
def test_modulo_of_anything_else(spark, cluster, key):
    df = spark.sql("select 1L as k, 'a' as text, 0.5D as half, current_date() as day")
    key = F.expr(key) if key == "k / 2" else key
    with pytest.raises(InvalidArgument, match=r"needs a key that is one whole number, and .* is .*: give a column"):
        cluster.keyed(df, key, Nth(), tuning=ef.Tuning(spread="modulo"))


def test_spread_that_does_not_exist(spark, cluster):
    with pytest.raises(InvalidArgument, match=r"spread='rage': one of 'hash', 'modulo', 'range'"):
        cluster.keyed(spark.range(3), "id", Nth(), tuning=ef.Tuning(spread="rage"))


def test_stored_state_is_of_one_spread(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    with ef.Cluster(spark, 1, checkpoint=tmp_path / "state") as own:
        own.keyed(stream, "value", Nth(), name="n")
        with pytest.raises(InvalidArgument, match=r"by value \(bigint\) with 1024 .* this is .* \(bigint\) modulo"):
            own.keyed(stream, "value", Nth(), name="n", tuning=ef.Tuning(spread="modulo"))
        own.keyed(stream, "value", Nth(), name="r", tuning=ef.Tuning(spread="range", bounds=[10, 20]))
        own.keyed(stream, "value", Nth(), name="r", tuning=ef.Tuning(spread="range", bounds=[20, 10, 20]))
        with pytest.raises(
            InvalidArgument, match=r"by value \(bigint\) in 3 ranges .* already, and this is .* in 3 ranges"
        ):
            own.keyed(stream, "value", Nth(), name="r", tuning=ef.Tuning(spread="range", bounds=[10, 21]))
