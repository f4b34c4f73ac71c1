"""The bounds of range partitioning: given by the user, or sampled from a batch DataFrame."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from evenflow.errors import InvalidArgument, first_line
from evenflow.runtime.cluster.plans.keys import KeyColumns, range_key

SAMPLED = 20
"""Rows that are sampled for each unit."""
MOST_SAMPLED = 200_000
MOST_GIVEN = 10_000
SEED = 1


def bounds_of(df: DataFrame, key: KeyColumns, spread: str, bounds: Iterable[Any] | None, units: int) -> pa.Array | None:
    """The bounds between the ranges of keys, at most `units` - 1; None if keys do not fall on units by ranges."""
    if spread != "range":
        if bounds is not None:
            raise InvalidArgument(f'bounds are given, and spread is {spread!r}: give spread="range", or no bounds')
        return None
    if bounds is not None:
        return _given(df, key, bounds, units)
    if df.isStreaming:
        raise InvalidArgument(
            'spread="range" of a streaming DataFrame needs bounds=[...], values of the key in rising order: a stream '
            "cannot be sampled beforehand, and ranges that change would lose their state"
        )
    rows = df.select(range_key(df, key).alias("k")).where("k is not null").orderBy(F.rand(SEED))
    found = _sorted(rows.limit(min(SAMPLED * units, MOST_SAMPLED)))
    places = sorted({number * len(found) // units for number in range(1, units)}) if len(found) else []
    return found.take(pa.array(places, pa.int64())).unique()


def digest_of(bounds: pa.Array) -> str:
    """Tells bounds from others: after a restart, keys must fall on the same units."""
    timed = pa.types.is_timestamp(bounds.type) or pa.types.is_duration(bounds.type) or pa.types.is_time(bounds.type)
    values = repr((bounds.cast(pa.int64()) if timed else bounds).to_pylist())
    return f"{len(bounds) + 1} ranges ({hashlib.sha256(values.encode()).hexdigest()[:8]})"


def _given(df: DataFrame, key: KeyColumns, bounds: Iterable[Any], units: int) -> pa.Array:
    """The user's bounds, as values of the key."""
    values = list(bounds)
    if not 0 < len(values) <= min(units - 1, MOST_GIVEN):
        raise InvalidArgument(
            f"bounds={values!r:.100}: give a list of 1 to {min(units - 1, MOST_GIVEN)} values of the key; "
            f"n bounds make n + 1 ranges, and there are units={units}"
        )
    kind = df.select(range_key(df, key, plain=True)).schema[0].dataType
    try:
        literals = [F.lit(value).try_cast(kind) for value in values]
        given = df.sparkSession.range(1).select(F.explode(F.array(*literals)).alias("value"))
        found = _sorted(given.select(range_key(given, "value").alias("k")))
    except (PySparkException, Py4JError, AttributeError, TypeError, ValueError) as error:  # what `lit` cannot take
        raise InvalidArgument(f"bounds={values!r:.100} cannot be compared with the key: {first_line(error)}") from None
    if found.null_count or len(found) < len(values):
        raise InvalidArgument(
            f"bounds={values!r:.100}: each must be a value of type {kind.simpleString()}, not null and not NaN"
        )
    return found.unique()


def _sorted(rows: DataFrame) -> pa.Array:
    """The values of column k in order, without NaN."""
    if isinstance(rows.schema["k"].dataType, FloatType | DoubleType):
        rows = rows.where("not isnan(k) or k is null")
    found: pa.Array = rows.orderBy("k").toArrow().column(0).combine_chunks()
    return found
