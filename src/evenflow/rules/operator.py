"""The keyed operator that runs rules."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.keyed import KeyedOperator, Keys, Origin, Units, typed
from evenflow.rules.expressions.functions import UserFunction, normalised
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.language.parser import parse
from evenflow.rules.language.variables import Variables
from evenflow.rules.windows.views import TIME_BATCH

if TYPE_CHECKING:
    from evenflow.rules.engine import Engine
    from evenflow.rules.windows.clock import UnitState


class RuleOperator(KeyedOperator):
    """Runs one rule or several over the rows of each key (`docs/cep.md` explains the language).

    `rules` is a text, or several in a dict or a list: then results have a first column `rule` with the rule's name, and
    the union of the rules' columns. `functions` are `UserFunction`s, or plain callables, which return doubles.
    `variables` are the values of names in the rules. `key` names the columns of the rows' keys, `time` the column with
    the time. Without `lateness_s` no row is late; with it there is a last column `late`. `streams` are the columns of
    each stream; `stream_column` holds the stream of each row, by name or by number. Without them all rows are one
    stream, with the name that the first rule uses.

    With `in_order`, the caller gives the rows of a key in the order of their times, and calls `on_time` and `on_late`,
    as `Cluster.keyed` does with `order_by` and `lateness`. Otherwise rows may come in any order, and a row is late by
    the latest time of its key so far; `as_they_come` says that this is intended.

    A copy of an operator, also a pickled one, has no state.
    """

    def __init__(
        self,
        rules: Mapping[str, str] | str | Sequence[str],
        functions: Mapping[str, UserFunction | Callable[..., object]] | None = None,
        *,
        variables: Mapping[str, object] | None = None,
        key: Sequence[str] = (),
        time: str | None = None,
        lateness_s: float | None = None,
        streams: Mapping[str, Sequence[str]] | None = None,
        stream_column: str | None = None,
        in_order: bool = False,
        as_they_come: bool = False,
    ) -> None:
        self.several = not isinstance(rules, str)
        self.rules = _named(rules)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.time, self.lateness_s = time, lateness_s
        self.streams = None if streams is None else {name: tuple(columns) for name, columns in streams.items()}
        self.stream_column = stream_column
        _check(self)
        self._functions = normalised(functions)
        texts = {name: Text(text, name if self.several else "") for name, text in self.rules.items()}
        self._variables = Variables(variables)
        self.variables = self._variables.values
        self._parsed = {name: (text, parse(text, self._variables)) for name, text in texts.items()}
        self._variables.check_used()
        self._in_order, self._as_they_come = in_order, as_they_come
        self.columns: tuple[str, ...] = ()
        """The columns that rules read, with their types, once these are known: stored state depends on them."""
        self._rows: pa.Schema | None = None
        """The columns that rows will have, from `schema` or `reads`: `on_time` may be called before any row comes."""
        self._ansi = True
        self._engine: Engine | None = None
        self._waiting: dict[int, UnitState] = {}

    @property
    def stream(self) -> str:
        """The name of the stream in the first rule."""
        _, rule = next(iter(self._parsed.values()))
        return rule.sources[0].stream if rule.pattern is None else tree.atoms(rule.pattern)[0].stream

    @property
    def inputs(self) -> tuple[str, tuple[str, ...]] | None:  # type: ignore[override]
        """The column with the stream, and the names of the streams, if there are several: each has its own progress."""
        return None if self.stream_column is None or self.streams is None else (self.stream_column, tuple(self.streams))

    @property
    def timed(self) -> bool:
        """Whether any rule goes by time."""
        return any(tree.goes_by_time(rule) for _, rule in self._parsed.values())

    @property
    def order_sensitive(self) -> bool:  # type: ignore[override]
        """False with `as_they_come`, or if all rules look at one row at a time."""
        return not self._as_they_come and not all(tree.looks_at_one_row(rule) for _, rule in self._parsed.values())

    @property
    def awaits_time(self) -> str:
        """The first part of the rules that gives results as time passes, such as win:time_batch; empty if none."""
        for node in (node for _, rule in self._parsed.values() for node in tree.walk(rule)):
            if isinstance(node, s.Interval):
                return "timer:interval"
            if isinstance(node, s.Pacing) and node.which == "last" and node.seconds is not None:
                return "OUTPUT LAST by time"
            if isinstance(node, s.View) and node.name.lower() == TIME_BATCH:
                return f"win:{TIME_BATCH}"
        return ""

    def __reduce__(self) -> tuple[object, ...]:
        rules = self.rules if self.several else self.rules[""]
        more = {
            "variables": self.variables,
            "key": self.key,
            "time": self.time,
            "lateness_s": self.lateness_s,
            "streams": self.streams,
            "stream_column": self.stream_column,
            "in_order": self._in_order,
            "as_they_come": self._as_they_come,
        }
        return _make, (type(self), rules, self._functions, more, self._rows, self._ansi)

    def planned(self, *, ansi: bool) -> RuleOperator:
        actor = copy.copy(self)
        actor._ansi = ansi
        return actor

    def schema(self, rows: pa.Schema) -> pa.Schema:
        self._rows = rows
        return self._bind(rows).schema

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        names = self._bind(rows).reads()
        self._rows = pa.schema([rows.field(name) for name in names])
        self.columns = typed(rows, names)
        return names

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> tuple[pa.RecordBatch, Origin]:
        return self._running(rows.schema).process(rows, units, keys)

    def on_time(self, now: int, units: Units) -> pa.RecordBatch | None:
        engine = self._begun()
        return None if engine is None else engine.on_time(now, units)

    def on_end(self, units: Units) -> pa.RecordBatch | None:
        engine = self._begun()
        return None if engine is None else engine.on_end(units)

    def on_late(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch | None:
        return self._running(rows.schema).on_late(rows)

    def extract(self, unit: int) -> UnitState:
        return self._waiting.pop(unit, None) if self._engine is None else self._engine.extract(unit)

    def install(self, unit: int, state: UnitState) -> None:
        if self._engine is None:  # columns are known only when rows come
            self._waiting[unit] = state
        else:
            self._engine.install(unit, state)

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        if self._engine is not None:
            return self._engine.sizes(units)
        waiting = [self._waiting.get(int(unit)) for unit in units]
        return np.array([0 if state is None else len(pickle.dumps(state)) for state in waiting], np.int64)

    def tallies(self) -> dict[str, int]:
        """The number of late rows since this copy was made."""
        return {"late": 0 if self._engine is None else self._engine.late}

    def warm_up(self, rows: pa.Schema) -> None:
        from evenflow.rules.warming import REHEARSAL, warm_up

        warm_up(self._bind(rows), rows, lambda: RuleOperator(REHEARSAL, key=["k"], time="t", lateness_s=100))

    def _begun(self) -> Engine | None:
        """The engine; None if there have been neither rows nor state."""
        if self._engine is None and self._waiting:
            if self._rows is None:
                raise InvalidArgument(f"{self} is told the time before it knows the columns of its rows: call reads")
            return self._running(self._rows)
        return self._engine

    def _running(self, rows: pa.Schema) -> Engine:
        if self._engine is None:
            self._engine = self._bind(rows)
            for unit, state in self._waiting.items():
                self._engine.install(unit, state)
            self._waiting.clear()
        return self._engine

    def _bind(self, rows: pa.Schema) -> Engine:
        from evenflow.rules.engine import Engine  # numba comes with it: only those who use it pay

        streams = self.streams or {self.stream: tuple(rows.names)}
        self._variables.check_columns(rows.names)
        return Engine(
            self._parsed,
            rows,
            self._functions,
            named=self.several,
            key=self.key,
            time=self.time,
            lateness=self.lateness_s,
            streams=streams,
            stream_column=self.stream_column,
            in_order=self._in_order,
            ansi=self._ansi,
        )

    def __str__(self) -> str:
        return f"RuleOperator({', '.join(self.rules) or 'one rule'})"


def _make(
    kind: type[RuleOperator],
    rules: Mapping[str, str] | str,
    functions: Mapping[str, UserFunction],
    more: Mapping[str, Any],  # keyword arguments
    rows: pa.Schema | None,
    ansi: bool,
) -> RuleOperator:
    operator = kind(rules, functions, **more)
    operator._rows, operator._ansi = rows, ansi
    return operator


def _named(rules: object) -> dict[str, str]:
    if isinstance(rules, str):
        return {"": rules}
    if not isinstance(rules, Mapping | Sequence) or isinstance(rules, bytes | bytearray):
        raise InvalidArgument(f"rules={rules!r:.100}: give a text, or several by name or in a list")
    if not isinstance(rules, Mapping):
        rules = {f"rule{place}": text for place, text in enumerate(rules, 1)}
    if not rules:
        raise InvalidArgument("rules is empty: give at least one")
    for name, text in rules.items():
        if not isinstance(name, str) or not name or not isinstance(text, str):
            raise InvalidArgument(f"rules has {name!r}: {text!r}: give names and texts")
    return dict(rules)


def _check(operator: RuleOperator) -> None:
    lateness, time = operator.lateness_s, operator.time
    if not isinstance(time, str | None):
        raise InvalidArgument(f"time={time!r}: give the name of a column")
    if lateness is not None:
        if time is None:
            raise InvalidArgument(f"lateness is {lateness} and time is None: name the column that holds the time")
        number = isinstance(lateness, int | float) and not isinstance(lateness, bool)
        if not number or not 0 <= lateness <= 1e9 or math.isnan(lateness):
            raise InvalidArgument(f"lateness is {lateness!r}: give seconds from 0 on")
    if operator.streams is not None and not operator.streams:
        raise InvalidArgument("streams is empty: give at least one")
    if (operator.stream_column is None) != (operator.streams is None or len(operator.streams) == 1):
        given = None if operator.streams is None else list(operator.streams)
        raise InvalidArgument(
            f"streams are {given} and stream_column is {operator.stream_column!r}: several streams need a column that "
            "tells which a row is of"
        )
