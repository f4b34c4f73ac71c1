"""The arguments of a graph's verbs: a frozen value for each kind of node, checked when the verb is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, get_args

from evenflow.errors import InvalidArgument
from evenflow.model.given import is_one_of, number_of, whole_of
from evenflow.model.routing import MOST_UNITS
from evenflow.operators.aggregates.aggregating import GivenWindow, check_window
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.map import BatchFunction, Input

Rules: TypeAlias = str | Sequence[str] | Mapping[str, str]
LONGEST_S = 1e9
Pair: TypeAlias = tuple[str, str]
"""A column of the left side of a join, and one of the right side."""


@dataclass(frozen=True)
class FilterSpec:
    """Keeps the rows for which a condition holds."""

    condition: str | BatchFunction
    commutative: bool

    def __post_init__(self) -> None:
        if not isinstance(self.condition, str) and not callable(self.condition):
            raise InvalidArgument(
                f"the condition is {self.condition!r:.100}: give a SQL expression such as 'price > 100', or a function "
                "that takes a pyarrow.RecordBatch and returns a boolean for each row"
            )
        if isinstance(self.condition, str) and not self.condition.strip():
            raise InvalidArgument("the condition is empty: give a SQL expression such as 'price > 100'")
        _check_flag("commutative", self.commutative)

    def __str__(self) -> str:
        return self.condition if isinstance(self.condition, str) else called(self.condition)


@dataclass(frozen=True)
class MapSpec:
    """Applies a function to whole batches of rows."""

    function: BatchFunction
    schema: object
    input: Input
    ordered: bool

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument(
                f"the function is {self.function!r:.100}: give something that can be called with a batch"
            )
        if self.schema is None or (isinstance(self.schema, str) and not self.schema.strip()):
            raise InvalidArgument(
                f"schema={self.schema!r}: give the columns that the function returns, such as 'symbol string, x double'"
            )
        if not is_one_of(self.input, get_args(Input)):
            raise InvalidArgument(f"input={self.input!r}: one of {', '.join(map(repr, get_args(Input)))}")
        _check_flag("ordered", self.ordered)

    def __str__(self) -> str:
        return called(self.function) + (", ordered" if self.ordered else "")


@dataclass(frozen=True)
class KeyedSpec:
    """Applies a keyed operator: rows of one key meet, in units that are spread over workers."""

    key: tuple[str, ...]
    operator: KeyedOperator
    schema: object
    units: int

    def __post_init__(self) -> None:
        if not isinstance(self.operator, KeyedOperator):
            raise InvalidArgument(
                f"the operator is {self.operator!r:.100}: give an object of a subclass of KeyedOperator"
            )
        object.__setattr__(self, "units", check_units(self.units))

    def __str__(self) -> str:
        shown = str(self.operator)
        return f"{type(self.operator).__name__ if ' object at 0x' in shown else shown} by {', '.join(self.key)}"


@dataclass(frozen=True)
class DetectSpec:
    """Runs rules over the rows of each key, in the order of their arrival."""

    rules: Rules
    key: tuple[str, ...]
    functions: Mapping[str, Callable[..., object]] | None
    variables: Mapping[str, object] | None
    time: str | None
    units: int

    def __post_init__(self) -> None:
        from evenflow.rules.operator import RuleOperator  # the parser comes with it: only those who use it pay

        rules = RuleOperator(
            self.rules, self.functions, variables=self.variables
        )  # refuses what is wrong with the texts, at the call
        if not isinstance(self.time, str | None):
            raise InvalidArgument(f"time={self.time!r}: give the name of a column")
        if rules.timed and self.time is None:
            raise InvalidArgument("the rules go by time and time is None: name the column that holds the time")
        object.__setattr__(self, "units", check_units(self.units))

    def __str__(self) -> str:
        several = not isinstance(self.rules, str)
        return f"{len(self.rules)} rules by {', '.join(self.key)}" if several else f"a rule by {', '.join(self.key)}"


@dataclass(frozen=True)
class JoinSpec:
    """Pairs rows of two streams that have the same key and come within a window of each other."""

    on: tuple[Pair, ...]
    rows: int | None
    seconds: float | None
    time: Pair | None
    units: int
    lateness: float = 0.0
    """Seconds that a row may be behind the latest of its own side, if the window is in time."""

    def __post_init__(self) -> None:
        if not 0 <= number_of(self.lateness) <= LONGEST_S:
            raise InvalidArgument(f"lateness={self.lateness!r}: give seconds from 0 on")
        if self.lateness and self.seconds is None:
            raise InvalidArgument(f"lateness={self.lateness!r} and rows={self.rows!r}: it is for windows in seconds")
        window = check_window("join", self.rows, self.seconds, None if self.time is None else self.time[0])
        object.__setattr__(self, "rows", window.rows)
        object.__setattr__(self, "seconds", window.seconds)
        object.__setattr__(self, "units", check_units(self.units))

    @property
    def span(self) -> int:
        """The window in microseconds; 0 if it is given in rows."""
        return GivenWindow(self.rows, self.seconds).span

    def __str__(self) -> str:
        names = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        return f"on {names}, {f'{self.rows} rows' if self.rows is not None else f'{self.seconds:g} s'}"


Spec: TypeAlias = FilterSpec | MapSpec | KeyedSpec | DetectSpec | JoinSpec


def check_name(what: str, name: object) -> None:
    """Refuse a name that is no text, or empty."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgument(f"{what} is called {name!r:.100}: give a name that is a string and not empty")


def check_units(units: object) -> int:
    """The number of units; refuses one that is no positive whole number, or too large."""
    if not 1 <= whole_of(units) <= MOST_UNITS:
        raise InvalidArgument(f"units={units!r}: give a whole number from 1 to {MOST_UNITS:,}")
    return whole_of(units)


def key_of(key: object) -> tuple[str, ...]:
    """The names of key columns, given as one name or several."""
    given = [key] if isinstance(key, str) or not isinstance(key, Sequence) else list(key)
    names = [name for name in given if isinstance(name, str) and name]
    if not names or len(names) < len(given):
        raise InvalidArgument(f"key={key!r:.100}: give the name of a column, or a list of names")
    if len(set(names)) < len(names):
        raise InvalidArgument(f"key={key!r:.100}: a column is named twice, leave it out once")
    return tuple(names)


def on_of(on: object) -> tuple[Pair, ...]:
    """Pairs of columns that must be equal, given as one name, a list of names, or a list of (left, right) pairs."""
    given = [on] if isinstance(on, str) or not isinstance(on, Sequence) else list(on)
    pairs = [pair_of(one) for one in given]
    found = tuple(pair for pair in pairs if pair is not None)
    if not found or len(found) < len(pairs):
        raise InvalidArgument(
            f"on={on!r:.100}: give the name of a column, a list of names, or a list of (left, right) pairs"
        )
    if len(set(found)) < len(found):
        raise InvalidArgument(f"on={on!r:.100}: a column is named twice, leave it out once")
    return found


def pair_of(given: object) -> Pair | None:
    """One name for both sides, or a pair of names; None if it is neither."""
    if isinstance(given, str):
        return (given, given) if given else None
    if not isinstance(given, Sequence) or len(given) != 2:
        return None
    left, right = given
    return (left, right) if isinstance(left, str) and isinstance(right, str) and left and right else None


def time_of(time: object) -> Pair | None:
    """The time columns of both sides of a join, given as a pair or as one name; None if there is no time."""
    found = None if time is None else pair_of(time)
    if time is not None and found is None:
        raise InvalidArgument(f"time={time!r:.100}: give the name of a column, or a (left, right) pair of names")
    return found


def called(function: Callable[..., object]) -> str:
    """The name of a function, for pictures and messages."""
    return str(getattr(function, "__name__", type(function).__name__))


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name}={value!r}: give True or False")
