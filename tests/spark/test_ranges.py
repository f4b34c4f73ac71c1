"""Baselines of Flux on Spark: ranges of keys, Exchange, and no room for rows that wait give the results of hashing."""

import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.moving import Nth, region

ROWS, UNITS = 2_000, 16


@pytest.fixture(scope="module")
def rows(spark):
    """Keys of 40 values, and null, in one partition."""
    drawn = spark.range(0, ROWS, 1, 1).selectExpr("id", "if(id % 17 = 0, null, pmod(hash(id), 40)) as n")
    return drawn.selectExpr(
        "id",
        "n",
        "cast(n as decimal(30, 3)) as exact",
        "case when n = 3 then double('nan') when n = 4 then -0.0D when n = 5 then 0.0D else n * 1.5D end as half",
        "concat(if(id % 2 = 0, 'K', 'k'), n) collate UTF8_LCASE as folded",
        "timestamp_micros(n * 1000000007L) as at",
        "array(n) as list",
    ).localCheckpoint()


def numbers(cluster, rows, key, balance, name="", **tuning):
    tuned = ef.Tuning(units=UNITS, **tuning)
    out = cluster.keyed(rows, key, Nth(), ordered=True, balance=balance, name=name, tuning=tuned)
    return out.select("id", "nth").toArrow().to_pydict()


@pytest.mark.parametrize(
    ("key", "bounds"),
    [
        ("n", [30, 10, 20]),
        ("exact", None),
        ("half", [0, 7.5, 40]),
        ("folded", ["K2", "k3"]),
        ("n + 1", None),
    ],
)
def test_keys_in_ranges_have_the_results_of_hashing(cluster, rows, eventually, key, bounds):
    named = region("ranges")
    by = F.expr(key)
    key = by if "+" in key else key
    expected = numbers(cluster, rows, key, balance="hash")
    assert numbers(cluster, rows, key, balance="hash", spread="range", bounds=bounds, name=named) == expected
    eventually(lambda: cluster.region(named).snapshot().unit_arrived.sum() == ROWS, what="the last reports")
    units = cluster.region(named).snapshot().unit_arrived.tolist()
    assert units[UNITS] == rows.where(by.isNull()).count()
    if bounds is None:
        assert min(units[:UNITS]) > 0
    else:
        edges = [F.lit(bound).cast(rows.select(by).schema[0].dataType) for bound in sorted(bounds)]
        ranges = sum((F.when(edge <= by, 1).otherwise(0) for edge in edges), F.lit(0))
        counts = dict(rows.where(by.isNotNull()).groupBy(ranges).count().collect())
        assert units[:UNITS] == [counts.get(unit, 0) for unit in range(UNITS)]


@pytest.mark.parametrize(
    ("key", "options", "said"),
    [
        ("list", {}, r"needs a key that is one column of numbers, .* and 'list' is array<int>: make one column of it"),
        (["n", "at"], {}, r"and \['n', 'at'\] is int and timestamp"),
        ("n", {"bounds": []}, r"bounds=\[\]: give a list of 1 to 15 values"),
        ("n", {"bounds": list(range(16))}, r"n bounds make n \+ 1 ranges, and there are units=16"),
        ("n", {"bounds": ["x"]}, r"bounds=\['x'\]: each must be a value of type int"),
        ("n", {"bounds": [object()]}, r"cannot be compared with the key"),
        ("half", {"bounds": [1.0, float("nan")]}, r"not null and not NaN"),
        ("n", {"bounds": [1], "spread": "hash"}, r"bounds are given, and spread is 'hash'"),
    ],
    ids=str,
)
def test_ranges_that_cannot_be(cluster, rows, key, options, said):
    with pytest.raises(InvalidArgument, match=said):
        cluster.keyed(rows, key, Nth(), tuning=ef.Tuning(units=UNITS, **{"spread": "range", **options}))


def test_ranges_of_a_stream_must_be_given(spark, cluster):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidArgument, match=r"a streaming DataFrame needs bounds=\[\.\.\.\]"):
        cluster.keyed(stream, "value", Nth(), tuning=ef.Tuning(spread="range"))


@pytest.mark.parametrize(
    "options", [{"balance": "exchange", "skew_bytes": 0}, {"balance": "auto", "skew_bytes": 0}, {"balance": "exchange"}]
)
def test_results_do_not_depend_on_the_room_for_rows_that_wait(cluster, rows, options):
    assert numbers(cluster, rows, "n", **options) == numbers(cluster, rows, "n", balance="hash")


def test_room_that_makes_no_sense(cluster, rows):
    with pytest.raises(InvalidArgument, match=r"skew_bytes='some': give bytes as a whole number, or .* from 0 to 1g"):
        cluster.keyed(rows, "n", Nth(), tuning=ef.Tuning(skew_bytes="some"))
