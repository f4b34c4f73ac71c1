"""Columns of every type that matters, drawn at random: the values that are easily got wrong are frequent."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

EPOCH = dt.datetime(2024, 3, 10, tzinfo=dt.UTC)
"""The night in which New York, where the tests' session lives, has an hour less."""
NULLS = 0.12
"""The share of nulls in each column."""

Draw = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Kind:
    """How a column is stored in a file, what Spark makes of it, and how a value is drawn."""

    arrow: pa.DataType
    value: Draw
    spark: str = "{}"
    """An expression over the stored column: a cast, a collation."""
    sums: bool = False
    """Whether there are sums, means and deviations of it that Spark itself does not overflow at."""
    ordered: bool = False
    """Whether minima and maxima are asked for."""


def _choice(*values: Any) -> Draw:
    return lambda random: random.choice(values)


def _eighths(bits: int) -> Draw:
    """Multiples of an eighth: sums of them are exact in any order."""
    return lambda random: random.randint(-(1 << bits), 1 << bits) / 8


def _double(random: random.Random) -> float:
    odd = [-0.0, 0.0, float("nan"), 0.125]
    return random.choice(odd) if random.random() < 0.25 else _eighths(20)(random)


def _long53(random: random.Random) -> int:
    """Above what a double tells apart, and small enough for sums of some hundreds."""
    return random.choice((-1, 1)) * (random.randint(1 << 53, 1 << 54) | 1)


def _long63(random: random.Random) -> int:
    near = [(1 << 63) - 1, -(1 << 63), (1 << 53) + 1, 1 << 53]
    return random.choice(near) if random.random() < 0.2 else random.randint(-(1 << 63), (1 << 63) - 1)


def _decimal(digits: int, scale: int) -> Draw:
    most = 10**digits - 1
    return lambda random: Decimal(random.choice((10, random.randint(-most, most)))).scaleb(-scale)


def _time(random: random.Random) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=random.randint(0, 86_400_000_000))


WORDS = ("a", "A", "a ", "ä", "Ä", "b", "B", "", " ", "ss", "ß", "straße", "STRASSE", "i", "İ", "Zürich", "zürich")

KINDS = {
    "short": Kind(pa.int16(), lambda random: random.randint(-(1 << 15), (1 << 15) - 1), sums=True, ordered=True),
    "int": Kind(pa.int32(), lambda random: random.randint(-(1 << 31), (1 << 31) - 1), sums=True, ordered=True),
    "long53": Kind(pa.int64(), _long53, sums=True, ordered=True),
    "long63": Kind(pa.int64(), _long63, ordered=True),
    "float": Kind(pa.float32(), _eighths(14), sums=True, ordered=True),
    "double": Kind(pa.float64(), _double, sums=True, ordered=True),
    "decimal": Kind(pa.decimal128(12, 2), _decimal(10, 2), sums=True, ordered=True),
    "decimal20": Kind(pa.decimal128(20, 4), _decimal(20, 4), sums=True, ordered=True),
    "boolean": Kind(pa.bool_(), _choice(False, True)),
    "date": Kind(pa.date32(), lambda random: dt.date(2024, 3, 1) + dt.timedelta(random.randint(0, 20))),
    "timestamp": Kind(pa.timestamp("us", "UTC"), _time),
    "string": Kind(pa.string(), _choice(*WORDS)),
    "lcase": Kind(pa.string(), _choice(*WORDS), "collate({}, 'UTF8_LCASE')"),
    "unicode_ci": Kind(pa.string(), _choice(*WORDS), "collate({}, 'UNICODE_CI')"),
    "rtrim": Kind(pa.string(), _choice(*WORDS), "collate({}, 'UTF8_LCASE_RTRIM')"),
}
SUMMED = tuple(name for name, kind in KINDS.items() if kind.sums)
COMPARED = tuple(name for name, kind in KINDS.items() if kind.ordered)
COLLATED = ("lcase", "unicode_ci", "rtrim")
KEYS = ("long63", "int", "double", "decimal", "date", "timestamp", "boolean", "string", *COLLATED)

LAST = {
    "long63": 77,
    "int": 77,
    "double": 77.5,
    "decimal": Decimal("77.77"),
    "date": dt.date(2077, 7, 7),
    "timestamp": EPOCH + dt.timedelta(days=777),
    "boolean": None,
    "string": "the last one",
    **dict.fromkeys(COLLATED, "the last one"),
}
"""Of each kind of key, a value that is not drawn: that of the rows which end a stream."""


def column(kind: str, random: random.Random, count: int) -> pa.Array:
    """Values, and nulls among them."""
    drawn = [None if random.random() < NULLS else KINDS[kind].value(random) for _ in range(count)]
    return pa.array(drawn, KINDS[kind].arrow)


def keys(kind: str, random: random.Random, count: int, distinct: int) -> pa.Array:
    """Few values, the first ones more often than the others; with nulls and what is equal but not the same."""
    pool = [KINDS[kind].value(random) for _ in range(distinct)]
    if kind == "double":
        pool += [0.0, -0.0, float("nan")]
    if kind in COLLATED or kind == "string":
        pool += ["a", "A"]
    pool.append(None)
    weights = [1 / (1 + place) for place in range(len(pool))]
    return pa.array(random.choices(pool, weights, k=count), KINDS[kind].arrow)


def spark_columns(kinds: Sequence[tuple[str, str]]) -> list[str]:
    """Expressions that give stored columns the types that are meant."""
    return [f"{KINDS[kind].spark.format(name)} as {name}" for name, kind in kinds]
