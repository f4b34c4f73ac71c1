"""Arguments of `Cluster`, checked: a wrong one gives one clear error that names the value and the remedy."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any, get_args

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from evenflow.control.events import Transfer
from evenflow.errors import InvalidArgument, close_to, first_line
from evenflow.model.capacity import Emulate
from evenflow.model.given import is_one_of, number_of
from evenflow.model.qos import Qos, weights_in
from evenflow.model.routing import Splitting
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.map import Input, MapOperator
from evenflow.policy import BALANCES, KEYED_BALANCES, Balance, KeyedBalance, balance_named, keyed_balance_named
from evenflow.runtime.cluster.arguments.tuning import Tuning, tuning_of
from evenflow.runtime.wire.frames import MAX_BODY
from evenflow.state.store.layout import check_scheme
from evenflow.state.store.sealed import Place, key_of

LONGEST_NAME = 80


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
    if not is_one_of(input, get_args(Input)):
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


def check_transfer(transfer: Transfer | None, stored: bool) -> None:
    """Refuse the store in a cluster without one."""
    if transfer == "store" and not stored:
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
            "or give tuning=ef.Tuning(split_keys=True) if each worker's own, wrong results are wanted"
        )


def checkpoint_of(checkpoint: str | Path | Place | None, checkpoint_key: bytes | str | None) -> Place:
    """The place of the checkpoint, with its key; an empty address if none is given."""
    opener = checkpoint.opener if isinstance(checkpoint, Place) else None
    where = where_of(checkpoint.where if isinstance(checkpoint, Place) else checkpoint)
    key = key_of(checkpoint_key)
    if key and not where:
        raise InvalidArgument("checkpoint_key is given and checkpoint is not: give both, or neither")
    return Place(where, key, opener)


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


def check_event_log(path: str | Path | None) -> None:
    """Refuse anything but a path: a number would be an open file of this process."""
    if not isinstance(path, str | os.PathLike | None) or path == "":
        raise InvalidArgument(f"event_log={path!r:.100}: give the path of a file, or leave it out")


def check_name(name: str, was: str | None = None) -> None:
    """Refuse a name that a region cannot have, and one that it cannot have had."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise InvalidArgument(f"name={name!r:.60}: give a string of at most {LONGEST_NAME} characters")
    if not isinstance(was, str | None) or (was is not None and was == name):
        raise InvalidArgument(
            f"was={was!r:.60} and name={name!r}: give the name that the operator had before, '' if it had none, or "
            "leave it out"
        )


def absent_of(absent: Sequence[str], checkpoint: str) -> frozenset[str]:
    """The names of operators that are left out on purpose."""
    if isinstance(absent, str) or not isinstance(absent, Sequence) or not all(isinstance(each, str) for each in absent):
        raise InvalidArgument(f"absent={absent!r:.100}: give a list of names of operators")
    if absent and not checkpoint:
        raise InvalidArgument(f"absent={absent!r:.100} and no checkpoint: without one, no operator has stored state")
    return frozenset(absent)


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


def check_options(options: dict[str, Any], choice: Mapping[str, Any], chosen: object, *verbs: Any) -> None:
    """Refuse an option that the chosen balance or placement does not have, if a verb has a keyword much like it.

    `verbs` are the methods that were called, each with the options of the one before; `choice` has what can be chosen.
    """
    if isinstance(chosen, str) and chosen not in choice:
        return  # that is said elsewhere
    verb = verbs[0].__name__
    keywords = {name for each in verbs for name in signature(each).parameters} - {"options"}
    tunings = [name for each in verbs for name in getattr(each, "settings", ())]
    if "tuning" in options:  # the verb takes none: None and an empty one say nothing
        tuning_of(verb, options.pop("tuning"), {})
    own = signature(choice[chosen]).parameters if isinstance(chosen, str) else ()
    for name in sorted(options.keys() - keywords.union(own)):
        if name in {each.name for each in fields(Tuning)}.difference(tunings):
            raise InvalidArgument(f"{verb} does not take {name}: it is a setting of another verb's ef.Tuning")
        meant = close_to(name, keywords.union(tunings)).strip()
        inside = [f" Give {each} as tuning=ef.Tuning({each}=…)" for each in tunings if f"'{each}'" in meant]
        if meant:
            raise InvalidArgument(f"{verb} does not take {name}: {meant}{''.join(inside[:1])}")


def balance_of(balance: str | Balance, options: dict[str, Any], workers: int) -> Balance:
    """A balance of the region's own, so that no two regions learn in one object."""
    if isinstance(balance, str):
        chosen = balance_named(balance, **options)
    else:
        _check_balance(balance, Balance, BALANCES, options)
        if not is_one_of(balance.splitting, get_args(Splitting)):
            raise InvalidArgument(
                f"splitting of {balance!r:.100} is {balance.splitting!r}: give one of {', '.join(get_args(Splitting))}"
            )
        chosen = copy.deepcopy(balance)
    chosen.check_workers(workers)
    return chosen


def keyed_balance_of(balance: str | KeyedBalance, options: dict[str, Any]) -> KeyedBalance:
    """A balance of the operator's own, so that no two operators learn in one object."""
    if isinstance(balance, str):
        return keyed_balance_named(balance, **options)
    _check_balance(balance, KeyedBalance, KEYED_BALANCES, options)
    return copy.deepcopy(balance)


def _check_balance(balance: object, base: type, names: Iterable[str], options: dict[str, Any]) -> None:
    if not isinstance(balance, base):
        raise InvalidArgument(
            f"balance={balance!r}: give one of {', '.join(sorted(names))}, or an object of evenflow.policy, or of a "
            f"class of your own that derives from evenflow.policy.{base.__name__}"
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


def check_columns(schema: StructType) -> None:
    """Refuse columns that Spark cannot give to Python, such as intervals of months."""
    from pyspark.sql.pandas.types import to_arrow_type

    for field in schema.fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException:
            raise InvalidArgument(
                f"column '{field.name}' is {field.dataType.simpleString()}, which Spark cannot give to Python: leave "
                "it out, or cast it, an interval of months to int or to string"
            ) from None


def resolvable(df: DataFrame) -> DataFrame:
    """The rows with names that `mapInArrow` can look up: columns with dots, stars or backquotes get others."""
    names = df.schema.names
    odd = {place: f"evenflow column {place}" for place, name in enumerate(names) if name == "*" or set(name) & {*".`"}}
    return df.toDF(*(odd.get(place, name) for place, name in enumerate(names))) if odd else df


def arrow_schema(spark: SparkSession, schema: StructType) -> Any:
    """The Arrow schema with which Spark gives these columns to Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    check_columns(schema)
    return to_arrow_schema(
        schema,
        timezone=spark.conf.get("spark.sql.session.timeZone"),
        prefers_large_types=spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true",
    )


def case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ only in case are different names in this session."""
    return spark.conf.get("spark.sql.caseSensitive") == "true"


def extension_integers(spark: SparkSession) -> bool:
    """Whether whole numbers have pandas' nullable dtypes in this session, with nulls and without."""
    return spark.conf.get("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype") == "true"


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
