"""Graphs over batch DataFrames: what Spark or pandas give for the same, whatever their shape and their neighbours."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from tests.support.background import Query
from tests.support.graph_frames import check, graph_of, numbers, rows_of, run
from tests.support.moving import Moving, Nth, region, source


@pytest.mark.parametrize(
    "condition",
    [
        "amount > 4.5 and (x <> 4 or Text like '%1_ ✓')",
        "x is null and not flag or x in (1, 2, 5) and text not like 'zeile 2%'",
        "day >= other and AT < later and coalesce(x, 0) % 2 = 0",
        "-v < -3.25 and case when flag then x > 10 else amount <> 5.00 end",
    ],
)
def test_filters_like_spark(spark, cluster, condition):
    columns = {
        "amount": "cast(id / 8 as decimal(9,2))",
        "x": "if(id % 3 = 0, null, id)",
        "day": "date_add(date'2024-02-27', cast(id % 9 as int))",
        "other": "if(id % 8 = 0, null, date'2024-02-29')",
        "at": "timestamp_seconds(id * 3600)",
        "later": "timestamp'1970-01-02 04:00:00'",
        "text": "if(id % 5 = 0, null, concat('zeile ', id, ' ✓'))",
        "flag": "if(id % 4 = 0, null, id % 2 = 0)",
        "v": "id / 3",
    }
    df = spark.range(0, 60, 1, 2).selectExpr("id", *(f"{expression} as {name}" for name, expression in columns.items()))
    check(run(cluster, graph_of(lambda s: s.filter(condition)), s=df), df.filter(condition))


def test_filters_and_maps_by_functions(spark, cluster):
    df = numbers(spark)

    def pandas(frame):
        return frame[["k"]].assign(twice=frame["v"] * 2)

    def build(s):
        some = s.filter(lambda rows: pc.greater(rows["k"], 2))
        chosen = some.filter(lambda rows: rows.filter(pc.equal(rows["k"], 3)))
        both = chosen.filter("v >= 20", commutative=True).filter("S <> 'n101'", commutative=True)
        same = both.map(lambda rows: rows.select([1, 2]), "k long, v double")
        return same.map(pandas, "k long, twice double", input="pandas")

    wanted = df.filter("k = 3 and v >= 20 and s <> 'n101'").selectExpr("k", "v * 2 as twice")
    check(run(cluster, graph_of(build), s=df), wanted)


def test_order_of_one_partition(spark, cluster):
    """Whole operators keep it; so do ordered maps, although all workers share their rows."""
    df = numbers(spark, 2_000, 1)
    wanted = [number for number in range(2_000) if 1 < number % 7 < 5]
    for ordered in (False, True):
        graph = graph_of(lambda s: s.filter("k > 1").map(lambda r: r, df.schema, ordered=ordered).filter("k < 5"))  # noqa: B023
        assert run(cluster, graph, s=df).toArrow()["id"].to_pylist() == wanted


def test_keyed_operators_in_order(spark, cluster):
    """One partition: the operator sees the rows of a key in their order, so results are those of pandas."""
    df = numbers(spark, partitions=1)

    def build(s):
        return s.filter("id % 2 = 0").keyed("k", ef.RunningSum("v")).keyed("k", ef.RollingMean("v", rows=5))

    got = run(cluster, graph_of(build), s=df).toPandas().sort_values("id")
    wanted = df.filter("id % 2 = 0").toPandas()
    assert got.iloc[:, -2].tolist() == wanted.groupby("k")["v"].cumsum().tolist()
    means = wanted.groupby("k")["v"].transform(lambda column: column.rolling(5, min_periods=1).mean())
    assert np.allclose(got.iloc[:, -1], means)


@pytest.mark.parametrize(("on", "units"), [("k", 1), ("k", 8), (["J", "k"], 4), ([("k", "key")], 3)])
def test_joins_like_spark(spark, cluster, on, units):
    left = spark.range(0, 60, 1, 2).selectExpr("id", "if(id % 5 = 0, null, id % 7) as k", "cast(id % 3 as string) as j")
    columns = ["id as other", "if(id % 4 = 0, null, id % 7) as key", "cast(id % 3 as string) as j"]
    right = spark.range(0, 40, 1, 3).selectExpr(*columns)
    if "J" in on:
        right = right.withColumnRenamed("key", "k")
        wanted = left.join(right, ["j", "k"])
    elif on == "k":
        right = right.selectExpr("key as k")  # only the key: what counts is how many
        wanted = left.join(right, "k")
    else:
        right = right.drop("j")
        wanted = left.join(right, left.k == right.key)
    check(
        run(cluster, graph_of(lambda a, b: a.join(b, on=on, rows=1_000, units=units), "a", "b"), a=left, b=right),
        wanted,
    )


def test_one_dataframe_as_both_inputs(spark, cluster):
    df = numbers(spark, 50).select("id", "k")
    graph = graph_of(
        lambda a, b: a.join(b.map(lambda r: r.rename_columns(["other", "k"]), "other long, k long"), "k", rows=99),
        "a",
        "b",
    )
    check(run(cluster, graph, a=df, b=df), df.join(df.withColumnRenamed("id", "other"), "k"))


def test_shapes(spark, cluster):
    """Shared results, a diamond, a source that is an endpoint, and two sources of which endpoints need one or both."""
    graph = ef.Graph()
    a, b = graph.source("a"), graph.source("b")
    hot = a.filter("v > 20")
    even, odd = hot.filter("id % 2 = 0"), hot.filter("id % 2 = 1")
    whole = even.map(lambda rows: rows.select(["id", "k"]), "id long, k long")
    pairs = whole.join(odd.map(lambda rows: rows.select(["k", "v"]), "k long, v double"), "k", rows=10_000)
    for name, stream in {"plain": a, "hot": hot, "pairs": pairs, "other": b.filter("id < 9")}.items():
        graph.endpoint(name, stream)
    left, right = numbers(spark), numbers(spark, 30, 3)
    out = cluster.run(graph, inputs={"a": left, "b": right}, placement="round-robin")
    assert list(out) == ["plain", "hot", "pairs", "other"]
    chosen = left.filter("v > 20")
    check(out["plain"], left)
    check(out["hot"], chosen)
    check(out["other"], right.filter("id < 9"))
    wanted = chosen.filter("id % 2 = 0").select("k", "id").join(chosen.filter("id % 2 = 1").select("k", "v"), "k")
    check(out["pairs"], wanted)


def test_few_and_large_rows(spark, cluster):
    """No rows, empty partitions, more partitions than slots, many columns, values of 1 MB."""
    graph = graph_of(lambda s: s.filter("k >= 0").keyed("k", Nth(), units=4))
    assert run(cluster, graph, s=spark.createDataFrame([], "id long, k long")).toArrow().num_rows == 0
    some = numbers(spark, 40, 20).filter("id in (3, 17)")
    assert sorted(run(cluster, graph, s=some).toArrow()["id"].to_pylist()) == [3, 17]
    many = [f"id * {place} as c{place}" for place in range(300)]
    large = spark.range(0, 12, 1, 2).selectExpr("id", "id % 3 as k", "repeat(id % 10, 1048576) as big", *many)
    columns = ["id", "length(big) as size", "md5(big) as sum", "c299"]
    check(run(cluster, graph, s=large).selectExpr(*columns), large.selectExpr(*columns))


def test_actions(spark, cluster):
    """Some of the rows, all of them, persisted ones, and the DataFrame twice in one plan."""
    df = numbers(spark, 1_000, 2)
    graph = graph_of(lambda s: s.filter("v >= 0").keyed("k", Nth()))
    kept = run(cluster, graph, s=df).persist()
    assert kept.count() == 1_000
    assert rows_of(kept) == rows_of(kept)
    kept.unpersist()
    out = run(cluster, graph, s=df)
    assert len(out.take(3)) == len(out.limit(3).collect()) == 3
    assert sum(1 for _ in out.toLocalIterator()) == 1_000
    assert out.join(out.selectExpr("id as other"), F.col("id") == F.col("other")).count() == 1_000
    with pytest.raises(Exception, match=r"StateLost.*is here again .*in a union with itself, persist\(\) it first"):
        out.unionAll(out).count()


def test_moves_beside_others(spark, cluster, conf):
    """Units and whole operators move while rows flow, and an ordered and a keyed region share the workers."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    rows, name = 3_000, region("moving")
    table = pa.table({"id": np.arange(rows), "k": np.arange(rows) % 50, "pad": pa.array(["x" * 500] * rows)})
    graph = graph_of(lambda s: s.filter("id >= 0").keyed("k", Nth(), units=16).filter("nth > 0"))
    inputs = {"s": source(spark, table, partitions=2)}
    out = cluster.run(graph, inputs=inputs, placement="round-robin", name=name)["out"]
    plain = spark.range(0, 2_000, 1, 2)
    ordered = cluster.ordered_map(plain, lambda batch: batch, "id long")
    keyed = cluster.keyed(plain.selectExpr("id", "id % 5 as k"), "k", Nth())
    with Moving(cluster, f"{name}.out", least=3) as moving:
        while moving.wanted():
            others = Query(lambda: (ordered.toArrow(), keyed.toArrow()))
            got = out.toArrow()
            assert sorted(got["id"].to_pylist()) == list(range(rows))
            for key in range(50):
                mine = got.filter(pc.equal(got["k"], key))["nth"].to_pylist()
                assert sorted(mine) == list(range(1, rows // 50 + 1))
            first, second = others.result()
            assert first["id"].to_pylist() == list(range(2_000))
            assert sorted(second["id"].to_pylist()) == list(range(2_000))


def test_two_graphs_at_once(spark, cluster):
    df = numbers(spark, 2_000)
    graph = graph_of(lambda s: s.filter("v >= 10").keyed("k", Nth()))
    running = [Query(run(cluster, graph, s=df).toArrow) for _ in range(2)]
    wanted = sorted(df.filter("v >= 10").toArrow()["id"].to_pylist())
    assert [sorted(query.result()["id"].to_pylist()) for query in running] == [wanted] * 2


def test_latency_has_the_time_that_rows_wait_for_room_in_the_graph(spark, cluster, eventually):
    """All rows of a record batch arrive together, and a slow operator lets the last of them in long after the first."""

    def slowly(rows):
        time.sleep(rows.num_rows * 0.5e-3)
        return rows

    df, name = spark.range(0, 4_000, 1, 1), region("slow")
    graph = graph_of(lambda s: s.map(slowly, "id long"))
    began = time.monotonic()
    assert cluster.run(graph, inputs={"s": df}, placement="round-robin", name=name)["out"].count() == 4_000
    took_ms = (time.monotonic() - began) * 1e3

    def told():
        entries = [each for each in cluster.events() if each["event"] == "graph-results"]
        mine = [each for each in entries if each["region"].startswith(name)]
        return mine if sum(each["results"] for each in mine) == 4_000 else None

    waited_ms = sum(each["total_s"] for each in eventually(told)) / 4_000 * 1e3
    assert 0.25 * 2_000 < waited_ms < took_ms, "in the mean half of the two seconds that all of them take"
