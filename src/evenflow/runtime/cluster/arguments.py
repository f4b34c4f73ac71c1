"""Arguments of `Cluster`, checked: a wrong one gives one clear error that names the value and the remedy."""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from evenflow.control.events import Transfer
from evenflow.errors import InvalidArgument, first_line
from evenflow.model.capacity import Emulate
from evenflow.model.given import number_of, whole_of
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
MOST_BYTES = 1 << 62
LONGEST_S = 1e9
"""Thirty years: what waits longer overflows somewhere."""
LEAST_PERIOD_S, MOST_PERIOD_S = 0.001, 3600
"""More often, and a process would do nothing but report; beyond, a poller cannot wait as long."""


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
    if not isinstance(emulate, Emulate | None):
        raise InvalidArgument(f"emulate={emulate!r:.100}: give an Emulate of evenflow.testing, or leave it out")
    if emulate is not None and max(emulate.slowdown, default=0) >= workers:
        raise InvalidArgument(
            f"emulate slows worker {max(emulate.slowdown)} of {workers} workers: ids go from 0 to {workers - 1}"
        )
    for pair in () if emulate is None else (*emulate.link_ms, *emulate.link_rows_s):
        if max(pair) >= workers:
            raise InvalidArgument(f"emulate has link {pair} of {workers} workers: ids go from 0 to {workers - 1}")


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


def check_units(units: int, workers: int) -> int:
    """The number of units; refuses one that is not at least the number of workers, or too large."""
    if not workers <= whole_of(units) <= MOST_UNITS:
        raise InvalidArgument(f"units={units!r}: give a number from {workers} (the workers) to {MOST_UNITS:,}")
    return whole_of(units)


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
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InvalidArgument(
                f"qos has {name!r:.100} for {weight!r:.100}: give the name of an operator, as {{'prices': 4}}"
            )
        if not isinstance(weight, Qos) and not 0 < number_of(weight) < math.inf:
            raise InvalidArgument(f"qos of {name!r} is {weight!r}: give a weight above 0 (all others have 1), or a Qos")
    return {name: number_of(weight) for name, weight in weights_in(qos or {}).items()}


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
    return 0 <= whole_of(number) < count


def check_event_log(path: str | Path | None) -> None:
    """Refuse anything but a path: a number would be an open file of this process."""
    if not isinstance(path, str | os.PathLike | None) or path == "":
        raise InvalidArgument(f"event_log={path!r:.100}: give the path of a file, or leave it out")


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
        raise InvalidArgument(f'memory={memory!r}: give bytes as a whole number, or a string like "512m", from 64k up')
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
    seconds = number_of(t_gap)
    if t_gap is not None and not 0 <= seconds <= LONGEST_S and not (isinstance(t_gap, str) and t_gap == "read"):
        raise InvalidArgument(f't_gap={t_gap!r}: give seconds from 0 up, "read", or nothing')
    if t_gap is not None and not limited:
        raise InvalidArgument(f"t_gap={t_gap!r} and no memory: nothing goes to disk without a memory budget, give both")
    return t_gap if t_gap is None or t_gap == "read" else seconds


def room_of(skew_bytes: str | int) -> int:
    """The bytes of rows that may wait in a feeder; 0 is allowed."""
    size = _parsed_size(skew_bytes)
    if size is None or size > MOST_SKEW:
        raise InvalidArgument(
            f'skew_bytes={skew_bytes!r}: give bytes as a whole number, or a string like "256k", from 0 to 1g'
        )
    return size


def _parsed_size(text: object) -> int | None:
    """Bytes, given as a whole number or like "512m"; None if they are not."""
    if not isinstance(text, str):
        return whole_of(text) if 0 <= whole_of(text) <= MOST_BYTES else None
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?)i?b?", text.strip().lower())
    size = int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " ")) if match else MOST_BYTES + 1
    return size if size <= MOST_BYTES else None


def workers_of(workers: int) -> int:
    """The number of workers."""
    if not 1 <= whole_of(workers) < 1 << 31:
        raise InvalidArgument(f"workers={workers!r}: a cluster needs at least 1 worker, and a whole number of them")
    return whole_of(workers)


def period_of(period: float) -> float:
    """The seconds between samples."""
    if not LEAST_PERIOD_S <= number_of(period) <= MOST_PERIOD_S:
        raise InvalidArgument(f"period={period!r}: give seconds from {LEAST_PERIOD_S} to {MOST_PERIOD_S}")
    return number_of(period)


def seconds_given(**seconds: float) -> list[float]:
    """The seconds; refuses those that are not numbers above 0."""
    for name, value in seconds.items():
        if not 0 < number_of(value) <= LONGEST_S:
            raise InvalidArgument(f"{name}={value!r}: give seconds, above 0 and at most {LONGEST_S:g}")
    return [number_of(value) for value in seconds.values()]


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


def balance_of(balance: str | Balance, options: dict[str, Any], workers: int) -> Balance:
    """A balance of the region's own, so that no two regions learn in one object."""
    if isinstance(balance, str):
        chosen = balance_named(balance, **options)
    else:
        _check_balance(balance, getattr(balance, "splitting", None) in get_args(Splitting), BALANCES, options)
        chosen = copy.deepcopy(balance)
    check_workers = getattr(chosen, "check_workers", None)  # those that are given numbers by worker
    if check_workers is not None:
        check_workers(workers)
    return chosen


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
