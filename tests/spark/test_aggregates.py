"""Several aggregates in one operator against Spark's own window functions: values and types, to the last digit."""

import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow import functions
from tests.support.operators_model import close

KINDS = {
    "n": "id * 1000003 - 7",
    "x": "if(id % 13 = 0, double('nan'), id / 8)",
    "d": "cast((id * 37 % 1000 - 300) / 7 as decimal(22,4))",
    "s": "concat('ä', cast(id * 7919 % 100 as string))",
    "day": "date_add(date '2024-03-01', cast(id * 31 % 60 as int))",
    "at": "timestamp_micros(id * 1000000)",
}
"""Columns, of which all but the time are null in a seventh of the rows."""
OF = {
    "count": "n x d s day at",
    "sum": "n x d",
    "avg": "n x d",
    "min": "n x d s day at",
    "max": "n x d s day at",
    "stddev": "n d",
    "variance": "n d",
    "first": "n s day at",
    "last": "x d s",
}
OURS = {"avg": "mean"}
FRAMES = {
    "rows between unbounded preceding and current row": {},
    "rows between 6 preceding and current row": {"rows": 7},
    "range between 8999999 preceding and current row": {"seconds": 9, "time": "at"},
}


def rows_of(spark, partitions):
    known = [f"{KINDS[name]} as {name}" for name in KINDS]
    some = [f"if(id % 7 = {place}, null, {KINDS[name]}) as {name}" for place, name in enumerate(KINDS)]
    columns = [*some[:-1], known[-1]]  # `at` is the time, too
    return spark.range(0, 400, 1, partitions).selectExpr("id", "pmod(hash(id), 5) as k", *columns)


@pytest.mark.parametrize("frame", FRAMES)
def test_as_spark_has_them(spark, cluster, frame):
    rows = rows_of(spark, 3)
    order = "unix_micros(at)" if frame.startswith("range") else "id"
    over = f"over (partition by k order by {order} {frame})"
    each = [(how, name) for how, names in OF.items() for name in names.split()]
    own = {f"{how}_{name}": f"{how}({name}) {over}" for how, name in each}
    own["avg_n"] = f"double(sum(n) {over}) / count(n) {over}"  # Spark's mean is of doubles, rounded at every addition
    own["known_s"] = f"last(s, true) {over}"
    own["all"] = f"count(*) {over}"
    expected = rows.selectExpr("*", *(f"{text} as `{name}`" for name, text in own.items()))
    ours = {f"{how}_{name}": getattr(functions, OURS.get(how, how))(name) for how, name in each}
    ours |= {"known_s": ef.functions.last("s", ignorenulls=True), "all": ef.functions.count()}
    out = cluster.keyed(rows, "k", ef.Aggregates(ours, **FRAMES[frame]), order_by="id", tuning=ef.Tuning(units=32))
    kinds = [(field.name, field.dataType.simpleString()) for field in out.schema]
    assert kinds == [(field.name, field.dataType.simpleString()) for field in expected.schema]
    found, wanted = ({row.id: row for row in df.collect()} for df in (out, expected))
    assert found.keys() == wanted.keys()
    loose = [name for name, kind in kinds if kind == "double"]
    for name in out.columns:
        mine, theirs = ([rows[place][name] for place in range(400)] for rows in (found, wanted))
        same = (
            map(close, mine, theirs)
            if name in loose
            else (one == other for one, other in zip(mine, theirs, strict=True))
        )
        assert all(same), (name, mine, theirs)


def test_distinct_values_of_a_window(spark, cluster):
    rows = spark.range(0, 300, 1, 1).selectExpr(
        "id", "id % 4 as k", "if(id % 9 = 0, null, cast(id * 7 % 11 as string)) as s"
    )
    frame = "over (partition by k order by id rows between 9 preceding and current row)"
    expected = rows.selectExpr("id", f"size(collect_set(s) {frame}) as kinds")
    out = cluster.keyed(rows, "k", ef.Aggregates(kinds=ef.functions.count_distinct("S"), rows=10), ordered=True)
    assert sorted(out.select("id", "kinds").collect()) == sorted(
        expected.withColumn("kinds", F.col("kinds").cast("long")).collect()
    )
