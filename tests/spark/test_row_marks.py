"""The hash of a whole row, by which a result finds its row again: other rows have other hashes, whatever the types."""

from datetime import datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import StructType

from evenflow.operators.row_marks import ROW
from evenflow.runtime.cluster.plans.keys import marked, routed


def at(micros):
    """A moment, as Spark takes timestamps without a zone."""
    return datetime(2024, 1, 1, 0, 0, 0, micros)  # noqa: DTZ001


SCHEMA = (
    "key string, a string, b string, c array<string>, d map<string, int>, e struct<x: string, y: array<int>>, "
    "f binary, g decimal(30, 3), h timestamp, i struct<t: timestamp_ntz>, j double, k void, "
    "l float, m array<double>"
)
BASE = {
    "key": "k", "a": "x", "b": None, "c": ["p", None], "d": {"q": 1}, "e": ("x", [1, None]), "f": b"\x00",
    "g": Decimal("1.000"), "h": at(0), "i": (at(5),), "j": 1.0, "k": None,
    "l": 1.0, "m": [1.0],
}  # fmt: skip
OTHERS = [
    {"a": None, "b": "x"}, {"c": [None, "p"]}, {"c": ["p"]}, {"c": ["p, null"]}, {"c": None}, {"d": {"q": 2}},
    {"d": {}}, {"d": None}, {"e": (None, [1, None])}, {"e": ("x", [1])}, {"e": None}, {"f": b"\x00\x00"},
    {"g": Decimal("1.001")}, {"h": at(1)},
    {"i": (at(6),)}, {"i": (None,)}, {"j": None},
    {"j": 0.0}, {"j": -0.0}, {"j": -1.0}, {"l": -0.0}, {"l": 0.0}, {"l": float("nan")},
    {"m": [0.0]}, {"m": [-0.0]},
]  # fmt: skip


@pytest.mark.parametrize("key", ["key", ["a", "b"]])
def test_rows_that_differ_have_other_hashes(spark, key):
    names = StructType.fromDDL(SCHEMA).names
    rows = [tuple((BASE | other)[name] for name in names) for other in ({}, *OTHERS, {})]
    df = spark.createDataFrame(rows, SCHEMA)
    route = marked(routed(df, key, ()), len(names))
    assert route.names[-2] == ROW
    place = len(route.names) - 2
    hashes = [row[place] for row in route.rows.collect()]
    assert hashes[0] == hashes[-1]
    assert len(set(hashes)) == len(OTHERS) + 1
    assert None not in hashes
