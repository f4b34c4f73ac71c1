"""Arguments of `Cluster`, checked: a wrong one gives one clear error that names the value and the remedy."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from evenflow.control.events import Transfer
from evenflow.errors import InvalidArgument, first_line
from evenflow.model.capacity import Emulate
from evenflow.model.qos import Qos, weights_in
from evenflow.model.routing import MOST_UNITS, Splitting
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.map import Input, MapOperator
from evenflow.policy import BALANCES, KEYED_BALANCES, Balance, KeyedBalance, balance_named, keyed_balance_named
from evenflow.runtime.wire.frames import MAX_BODY
from evenflow.state.store.layout import check_scheme
from evenflow.state.store.sealed import key_of

LEAST_MEMORY = 64 * 1024
LONGEST_NAME = 80
MOST_SKEW = 1024**3


def check_dataframe(df: DataFrame) -> None:
    """Refuse anything but a DataFrame of Spark."""
    if not hasattr(df, "mapInArrow"):
        kind = f"{type(df).__module__.split('.')[0]}.{type(df).__qualname__}".removeprefix("builtins.")
        remedy = "spark.createDataFrame makes one of it" if kind == "pandas.DataFrame" else "give one"
        raise InvalidArgument(f"df is a {kind}, not a DataFrame of Spark: {remedy}")


def check_function(function: Callable[[Any], Any], input: Input) -> None:
    """Refuse a function that cannot be called, and an unknown kind of input."""
    if not callable(function):
        raise InvalidArgument(f"the function is {function!r}: give something that can be called with a batch")
    if input not in get_args(Input):
        raise InvalidArgument(f"input={input!r}: one of {', '.join(map(repr, get_args(Input)))}")


def check_ordered(ordered: bool) -> None:
    """Refuse anything but True and False: names of columns are for `keyed(order_by=...)`."""
    if not isinstance(ordered, bool):
        raise InvalidArgument(f"ordered={ordered!r}: give True, or False if the order of rows does not matter")


def check_emulated(emulate: Emulate | None, workers: int) -> None:
    """Refuse emulated capacities of workers that the cluster does not have."""
    if emulate is not None and max(emulate.slowdown, default=0) >= workers:
        raise InvalidArgument(
            f"emulate slows worker {max(emulate.slowdown)} of {workers} workers: ids go from 0 to {workers - 1}"
        )


def check_transfer(transfer: Transfer, stored: bool) -> None:
    """Refuse an unknown way to move units, and the store in a cluster without one."""
    if transfer not in get_args(Transfer) or (transfer == "store" and not stored):
        raise InvalidArgument(f"transfer={transfer!r}: give 'direct', or 'store' in a cluster with a checkpoint")


def check_operator(operator: KeyedOperator) -> None:
    """Refuse anything but a keyed operator."""
    if not isinstance(operator, KeyedOperator):
        raise InvalidArgument(f"the operator is {operator!r}: give an object of a subclass of KeyedOperator")


def check_sharing(operator: KeyedOperator, balance: KeyedBalance, split_keys: bool) -> None:
    """Refuse a balance with which an operator does not see all rows of a key, unless that is wanted."""
    if not balance.by_content and operator.content_sensitive and not split_keys:
        raise InvalidArgument(
            f"balance {balance.name!r} sends rows of one key to several workers, and {type(operator).__name__} is "
            "content sensitive: use another balance, set content_sensitive = False if rows need not meet by key, "
            "or give split_keys=True if each worker's own, wrong results are wanted"
        )


def check_units(units: int, workers: int) -> None:
    """Refuse a number of units that is not at least the number of workers, or too large."""
    if not isinstance(units, int) or isinstance(units, bool) or not workers <= units <= MOST_UNITS:
        raise InvalidArgument(f"units={units!r}: give a number from {workers} (the workers) to {MOST_UNITS:,}")


def checkpoint_of(checkpoint: str | Path | None, checkpoint_key: bytes | str | None) -> tuple[str, bytes]:
    """The place of the checkpoint and its key; both empty if not given."""
    where, key = where_of(checkpoint), key_of(checkpoint_key)
    if key and not where:
        raise InvalidArgument("checkpoint_key is given and checkpoint is not: give both, or neither")
    return where, key


def where_of(checkpoint: str | Path | None) -> str:
    """The place of the checkpoint for every process; a path is made absolute, since executors start elsewhere."""
    if checkpoint is None:
        return ""
    text = str(checkpoint)
    if not isinstance(checkpoint, str | Path):
        raise InvalidArgument(f"checkpoint={checkpoint!r}: give a directory or a URI, or leave it out")
    if not text:
        raise InvalidArgument("checkpoint is empty: give a directory or a URI, or leave it out")
    check_scheme(text)
    return text if "://" in text else str(Path(text).absolute())


def weights_of(qos: Mapping[str, float | Qos] | None) -> dict[str, float]:
    """The weights in `qos`, by the names of operators."""
    if not isinstance(qos, Mapping | None):
        raise InvalidArgument(f"qos={qos!r}: give a dict of weights by the names of operators")
    for name, weight in (qos or {}).items():
        if isinstance(weight, Qos):
            continue
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise InvalidArgument(f"qos of {name!r} is {weight!r}: give a weight above 0 (all others have 1), or a Qos")
    return weights_in(qos or {})


def check_move(units: Any, target: Any, most: int, workers: int) -> list[int]:
    """The units to be moved, as a list; refuses wrong units, and a target that is no worker."""
    fit = isinstance(units, Iterable) and not isinstance(units, str) and all(_among(unit, most) for unit in units)
    if not fit or not _among(target, workers):
        raise InvalidArgument(
            f"units {units!r:.100} to worker {target!r:.100}: give a list of units from 0 to {most - 1}, and a worker "
            f"from 0 to {workers - 1}"
        )
    return [int(unit) for unit in units]


def _among(number: Any, count: int) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(0 <= number < count)


def check_name(name: str) -> None:
    """Refuse a name that a region cannot have."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise InvalidArgument(f"name={name!r:.60}: give a string of at most {LONGEST_NAME} characters")


def bytes_of(memory: str | int | None) -> int:
    """A budget in bytes, given in the way of Spark's memory settings; 0 for none."""
    if memory is None:
        return 0
    size = _parsed_size(memory)
    if size is None or size < LEAST_MEMORY:
        raise InvalidArgument(f'memory={memory!r}: give bytes, or a string like "512m", from 64k up')
    return size


def budgets_of(memory: str | int | Mapping[int, str | int], workers: int, limited: bool) -> dict[int, int]:
    """By worker, a new budget in bytes; refuses a cluster that has none, and workers that there are not."""
    if not limited:
        raise InvalidArgument(
            "this cluster has no memory budget: give Cluster(memory=...) one, and it can be changed while it runs"
        )
    if memory is None or (isinstance(memory, Mapping) and not memory):
        raise InvalidArgument(f'memory={memory!r}: give bytes, or a string like "512m", or these by worker')
    if not isinstance(memory, Mapping):
        return dict.fromkeys(range(workers), bytes_of(memory))
    for worker, size in memory.items():
        if not _among(worker, workers) or size is None:
            raise InvalidArgument(f"memory of worker {worker!r} is {size!r}: give workers from 0 to {workers - 1}")
    return {int(worker): bytes_of(size) for worker, size in memory.items()}


def gap_of(t_gap: float | Literal["read"] | None, limited: bool) -> float | Literal["read"] | None:
    """How units on disk take turns; refuses it in a cluster without a memory budget."""
    number = isinstance(t_gap, int | float) and not isinstance(t_gap, bool) and 0 <= t_gap < math.inf
    if t_gap is not None and not number and t_gap != "read":
        raise InvalidArgument(f't_gap={t_gap!r}: give seconds from 0 up, "read", or nothing')
    if t_gap is not None and not limited:
        raise InvalidArgument(f"t_gap={t_gap!r} and no memory: nothing goes to disk without a memory budget, give both")
    return t_gap


def room_of(skew_bytes: str | int) -> int:
    """The bytes of rows that may wait in a feeder; 0 is allowed."""
    size = _parsed_size(skew_bytes)
    if size is None or size > MOST_SKEW:
        raise InvalidArgument(f'skew_bytes={skew_bytes!r}: give bytes, or a string like "256k", from 0 to 1g')
    return size


def _parsed_size(text: object) -> int | None:
    """Bytes, given as a number or like "512m"; None if they are not."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", str(text).strip().lower())
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " ")) if match else None


def check_numbers(workers: int, **seconds: float) -> None:
    """Refuse a wrong number of workers, and wrong seconds."""
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise InvalidArgument(f"workers={workers!r}: a cluster needs at least 1 worker")
    check_seconds(**seconds)


def check_seconds(**seconds: float) -> None:
    """Refuse seconds that are not numbers above 0."""
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InvalidArgument(f"{name}={value!r}: give seconds, above 0")


def classic_context(spark: SparkSession) -> Any:
    """The SparkContext of a session; refuses a session that has none, or is stopped."""
    try:
        context = spark.sparkContext
    except Exception as error:
        raise InvalidArgument(
            f"{type(spark).__name__} has no SparkContext (Spark Connect?): Cluster needs a classic SparkSession"
        ) from error
    if context._jsc is None:
        raise InvalidArgument("the Spark session is stopped: start one first")
    return context


def balance_of(balance: str | Balance, options: dict[str, Any]) -> Balance:
    """A balance of the region's own, so that no two regions learn in one object."""
    if isinstance(balance, str):
        return balance_named(balance, **options)
    _check_balance(balance, getattr(balance, "splitting", None) in get_args(Splitting), BALANCES, options)
    return copy.deepcopy(balance)


def keyed_balance_of(balance: str | KeyedBalance, options: dict[str, Any]) -> KeyedBalance:
    """A balance of the operator's own, so that no two operators learn in one object."""
    if isinstance(balance, str):
        return keyed_balance_named(balance, **options)
    _check_balance(balance, isinstance(getattr(balance, "by_content", None), bool), KEYED_BALANCES, options)
    return copy.deepcopy(balance)


def _check_balance(balance: object, fits: bool, names: Iterable[str], options: dict[str, Any]) -> None:
    if isinstance(balance, type) or not fits:
        raise InvalidArgument(
            f"balance={balance!r}: give one of {', '.join(sorted(names))}, or an object of evenflow.policy"
        )
    if options:
        raise InvalidArgument(f"{', '.join(options)}: give these to {type(balance).__name__}(...) itself")


def schema_of(schema: StructType | str) -> StructType:
    """The declared schema; a wrong string gives one clear error, not a Java stack trace."""
    parsed: DataType = schema if isinstance(schema, StructType) else _parsed(schema)
    if not isinstance(parsed, StructType):
        raise InvalidArgument(f"schema {schema!r} is a {parsed.simpleString()}, not columns: write 'name type, ...'")
    if not parsed.fields:
        raise InvalidArgument(f"schema {schema!r} declares no columns: Spark would lose the rows. Declare at least one")
    return parsed


def _parsed(schema: str) -> DataType:
    try:
        return StructType.fromDDL(schema)
    except (PySparkException, Py4JError, ValueError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"schema {schema!r} is not one: {first_line(error)}") from None


def arrow_schema(spark: SparkSession, schema: StructType) -> Any:
    """The Arrow schema with which Spark gives these columns to Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(
        schema,
        timezone=spark.conf.get("spark.sql.session.timeZone"),
        prefers_large_types=spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true",
    )


def case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ only in case are different names in this session."""
    return spark.conf.get("spark.sql.caseSensitive") == "true"


def pickled(operator: MapOperator | Hosted) -> bytes:
    """An operator pickled, as it is sent to the workers."""
    what = "the operator" if isinstance(operator, Hosted) else "the function"
    from pyspark import cloudpickle

    try:
        code: bytes = cloudpickle.dumps(operator)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InvalidArgument(f"{what} cannot be shipped to the workers: {error}") from error
    if len(code) > MAX_BODY:
        raise InvalidArgument(
            f"{what} pickles to {len(code)} bytes, over {MAX_BODY}: load what it holds on the worker instead"
        )
    return code
