"""Two streams, one of which is read at one file a micro-batch and the other at four: nothing is lost."""

import shutil

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.moving import region

FILES = 8


@pytest.fixture(scope="module")
def both(spark, tmp_path_factory):
    """Two folders with a file for each stretch of time."""
    where = tmp_path_factory.mktemp("two-speeds")
    for name, step, more in (("left", 3, 0), ("right", 2, 1)):
        rows = spark.range(0, 800 // step).selectExpr(
            f"pmod(hash(id + {more}), 5) k",
            "id n",
            f"timestamp_micros(1700000000000000L + id * {step}000000 + {more}) at",
        )
        for part in range(FILES):
            low, high = (1_700_000_000 + 100 * each for each in (part, part + 1))
            inside = (F.unix_seconds("at") >= low) & (F.unix_seconds("at") < high)
            rows.where(inside).coalesce(1).write.parquet(str(where / name), mode="append")
    return where


def stream(spark, where, name, files):
    schema = spark.read.parquet(str(where / name)).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(where / name))
    return df.withColumnRenamed("n", name[0])


def near(spark, where, seconds):
    left, right = (spark.read.parquet(str(where / name)) for name in ("left", "right"))
    apart = F.abs(F.unix_micros("l.at") - F.unix_micros("r.at")) < seconds * 1_000_000
    joined = left.alias("l").join(right.alias("r"), (F.col("l.k") == F.col("r.k")) & apart)
    return sorted((row[0], row[1]) for row in joined.select("l.n", "r.n").collect())


def came(spark, df, name, checkpoint, **trigger):
    query = df.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    query = query.trigger(**(trigger or {"availableNow": True})).start()
    assert query.awaitTermination(180)
    assert len(query.recentProgress) >= FILES // 2
    return spark.table(name)


@pytest.mark.parametrize("lateness", [None, "10 seconds"])
def test_a_join_finds_all_pairs(spark, cluster, both, tmp_path, lateness, caplog):
    sides = stream(spark, both, "left", 1), stream(spark, both, "right", 4)
    out = cluster.join(
        *sides, on="k", seconds=5, time="at", suffixes=("", "_r"), lateness=lateness, tuning=ef.Tuning(units=16)
    )
    got = came(spark, out.select("l", "r"), f"pairs{lateness is None}", tmp_path / "c")
    expected = near(spark, both, 5)
    assert sorted(map(tuple, got.collect())) == expected
    assert len(expected) > 250
    assert not [record for record in caplog.records if "late" in record.message]


def detected(cluster, sides, **more):
    rule = "select L.l as l, R.r as r from L.win:time(5 sec), R.win:time(5 sec)"
    return cluster.detect(
        dict(zip("LR", sides, strict=True)), rule, key="k", time="at", tuning=ef.Tuning(units=16), **more
    )


def test_rules_over_two_streams(spark, cluster, both, tmp_path):
    sides = stream(spark, both, "left", 1), stream(spark, both, "right", 4)
    out = detected(cluster, sides, lateness="10 seconds")
    got = sorted(
        map(tuple, came(spark, out, "matches", tmp_path / "c").where("late is null").select("l", "r").collect())
    )
    expected = near(spark, both, 5)
    waiting = {pair for pair in expected if max(pair[0] * 3, pair[1] * 2) > 785}
    assert set(expected) - waiting <= set(got) <= set(expected)
    assert len(got) > 250


def test_with_the_policy_max_pairs_are_lost_and_one_warning_says_so(
    spark, cluster, both, tmp_path, conf, caplog, eventually
):
    conf("spark.sql.streaming.multipleWatermarkPolicy", "max")
    name = region("greatest")
    sides = stream(spark, both, "left", 1), stream(spark, both, "right", 4)
    out = cluster.join(*sides, on="k", seconds=5, time="at", suffixes=("", "_r"), tuning=ef.Tuning(units=16), name=name)
    got = sorted(map(tuple, came(spark, out.select("l", "r"), "greatest", tmp_path / "c").collect()))
    expected = near(spark, both, 5)
    assert set(got) < set(expected)
    counts = cluster.region(name).snapshot().counts
    assert counts["late"] == counts["late of left"] > 100

    def entries():
        return [entry for entry in cluster.events() if entry["event"] == "rows-late" and entry["region"] == name]

    def all_noted():  # ten seconds after the entry before, at the latest
        return sum(entry["rows"] for entry in entries()) == counts["late"]

    eventually(all_noted, what="entries of all late rows")
    noted = entries()
    assert noted[-1]["total"] == counts["late"]
    said = [record.getMessage() for record in caplog.records if "too late" in record.getMessage()]
    assert len(said) == 1
    first = noted[0]["total"]
    assert said[0].startswith(f"{name}: {first:,} rows came too late so far (left: {first:,}): ")


@pytest.mark.parametrize("idle", [None, 0.2])
def test_a_join_goes_on_without_a_silent_side_if_it_is_told_to(spark, cluster, both, tmp_path, idle):
    """The right side has rows of the first 100 seconds, and then none; the left one of 800."""
    first = min((both / "right").glob("*.parquet"), key=lambda path: pq.read_table(path)["at"][0].as_py())
    (tmp_path / "right").mkdir()
    shutil.copy(first, tmp_path / "right")
    sides = stream(spark, both, "left", 1), stream(spark, tmp_path, "right", 1)
    more = {"order_by": "at", "lateness": 10, "idle": idle, "tuning": ef.Tuning(units=16), "suffixes": ("", "_r")}
    out = cluster.join(*sides, on="k", rows=1, **more).select("l", "r")
    got = came(spark, out, f"silent{idle is None}", tmp_path / "c").collect()
    latest = max(row["l"] * 3 for row in got)
    assert latest < 100 if idle is None else latest > 700


def test_idle_is_for_inputs_that_are_waited_for(spark, cluster, both):
    sides = stream(spark, both, "left", 1), stream(spark, both, "right", 4)
    assert detected(cluster, sides, lateness="10 seconds", idle="5 minutes").isStreaming
    with pytest.raises(InvalidArgument, match="idle='soon': give seconds, or a text such as '10 seconds'"):
        detected(cluster, sides, lateness="10 seconds", idle="soon")
    with pytest.raises(InvalidArgument, match="idle=5 and no lateness: rows do not wait for other inputs"):
        detected(cluster, sides, idle=5)
    with pytest.raises(InvalidArgument, match="idle=5: there is one input, which nobody waits for"):
        cluster.keyed(sides[0], "k", ef.RollingMean("l", rows=3), order_by="at", lateness=1, idle=5)
