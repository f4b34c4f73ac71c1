"""`Cluster.join` against Spark's own join: columns, pairs, keys that are null, streams, and what is refused."""

import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument


def trades(spark, partitions=3):
    return spark.range(0, 300, 1, partitions).selectExpr(
        "id",
        "if(id % 10 = 0, null, concat('S', pmod(hash(id), 7))) symbol",
        "id / 4 price",
        "timestamp_micros(id * 1000000 + 1) at",
    )


def quotes(spark, partitions=2):
    return spark.range(0, 200, 1, partitions).selectExpr(
        "concat('S', pmod(hash(id + 5), 8)) symbol",
        "struct(id, cast(id as string) as text) quote",
        "timestamp_micros(id * 1500000) at",
    )


def near(left, right, seconds):
    """Spark's own join of rows that are so near to each other; the time is the last column of both."""
    apart = F.abs(F.unix_micros(left.columns[-1]) - F.unix_micros(right.columns[-1]))
    return left.join(right, "symbol").where(apart < seconds * 1_000_000)


def shown(df):
    return sorted(map(str, df.collect()))


def test_pairs_within_seconds_are_those_of_sparks_own_join(spark, cluster):
    left, right = trades(spark), quotes(spark)
    out = cluster.join(
        left, right, on="Symbol", seconds=5, time="at", suffixes=("_trade", "_quote"), tuning=ef.Tuning(units=64)
    )
    expected = near(left.withColumnRenamed("at", "at_trade"), right.withColumnRenamed("at", "at_quote"), 5)
    assert out.columns == expected.columns
    assert [field.dataType for field in out.schema] == [field.dataType for field in expected.schema]
    assert shown(out) == shown(expected)
    assert out.count() > 100
    assert out.where("symbol is null").isEmpty()


def test_the_last_rows_by_columns_of_different_names(spark, cluster):
    left = spark.createDataFrame(
        [(1, "a", 1.0), (3, "a", 2.0), (5, "b", 3.0), (7, "a", 4.0)], "n int, k string, x double"
    )
    right = spark.createDataFrame([(2, "a"), (4, "a"), (6, "a"), (8, None)], "m int, key string")
    out = cluster.join(left, right, on=[("k", "key")], rows=2, order_by=[("n", "m")])
    assert out.columns == ["n", "k", "x", "m", "key"]
    pairs = sorted((row.n, row.m) for row in out.collect())
    assert pairs == [(1, 2), (1, 4), (1, 6), (3, 2), (3, 4), (3, 6), (7, 4), (7, 6)]
    only = cluster.join(left.select("k"), right.select(F.col("key").alias("k")), on="k", rows=9, order_by="k")
    assert only.columns == ["k"]
    assert only.count() == 9


def test_two_streams(spark, cluster, tmp_path):
    left, right = trades(spark, 1), quotes(spark, 1).withColumnRenamed("at", "moment")
    for first in range(0, 300, 100):  # three micro-batches, one after the other in time
        for name, df in (("left", left), ("right", right)):
            inside = F.unix_seconds(df.columns[-1]).between(first, first + 99)
            df.where(inside).coalesce(1).write.parquet(str(tmp_path / name), mode="append")

    def stream(name, like):
        return spark.readStream.schema(like.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))

    both = stream("left", left), stream("right", right)
    out = cluster.join(*both, on="symbol", seconds=5, time=("at", "moment"), tuning=ef.Tuning(units=64))
    query = out.writeStream.format("memory").queryName("pairs").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(120)
    assert len(query.recentProgress) >= 3
    assert shown(spark.table("pairs")) == shown(near(left, right, 5))
    with pytest.raises(
        InvalidArgument, match="the right side of the join is a batch DataFrame and the other is stream"
    ):
        cluster.join(stream("left", left), right, on="symbol", rows=1)


def test_what_does_not_fit(spark, cluster):
    left, right = trades(spark), quotes(spark)
    for message, arguments in {
        r"two columns 'at': rename one of them, or give suffixes=\('_left', '_right'\)": {"rows": 3},
        "on of the left side needs column 'sym', which does not exist": {"on": "sym", "rows": 3},
        "on: column 'id' of the left side is bigint, and 'symbol' of the right side is string: cast": {
            "on": [("id", "symbol")],
            "rows": 3,
        },
        "time of the right side needs column 'price'": {"seconds": 3, "time": "price"},
        "join got rows=None and seconds=None: give one": {},
        "suffixes='_x': give two different strings": {"rows": 3, "suffixes": "_x"},
        "two columns 'at_X': rename one of them, or give other suffixes": {"rows": 3, "suffixes": ("_x", "_X")},
        "order_by=3: give the name of a column": {"rows": 3, "order_by": 3},
    }.items():
        with pytest.raises(InvalidArgument, match=message):
            cluster.join(left, right, **{"on": "symbol", **arguments})
