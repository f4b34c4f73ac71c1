"""The surroundings that all rules of one operator share: streams, functions, key and state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from evenflow.errors import nearest
from evenflow.operators.keyed import Units
from evenflow.operators.slots import Longs
from evenflow.rules.expressions.binding import Scope, listed, matching
from evenflow.rules.expressions.code import Compiled, cast, require_bytewise
from evenflow.rules.expressions.compiling import compile_condition, compile_expression, compile_group
from evenflow.rules.expressions.frame import Intake, Results, RuleFrame
from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.expressions.outputs import Output, aggregates, canonical
from evenflow.rules.expressions.values.arithmetic import family
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Text
from evenflow.rules.language.printing import show
from evenflow.rules.windows.cells import Reduced, reduced
from evenflow.rules.windows.clock import KeyClocks, UnitState
from evenflow.rules.windows.listed import DISTINCT, FIRST, LAST, MAX_TEXT, MIN_TEXT, PREVIOUS, ListedAggregate
from evenflow.rules.windows.views import Window, window


class KeyedState(Protocol):
    """State of keys, by unit. Extracted state is made of numbers, texts, tuples, dicts, numpy arrays and Arrow data."""

    def extract(self, unit: int) -> UnitState:
        """Remove a unit's state and return it; None if there is none."""

    def install(self, unit: int, state: UnitState) -> None:
        """Add a unit's extracted state."""

    def sizes(self, units: Units) -> Longs:
        """Bytes of each unit's state, roughly."""


T = TypeVar("T", bound=KeyedState)


class States:
    """All states of an operator. Their order depends on the rules only, since extracted state is stored by position."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, KeyedState] = {}

    def share(self, key: Hashable, make: Callable[[], T]) -> T:
        """The state of this key, which is created on first use."""
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = make()
        return found  # type: ignore[return-value]

    def extract(self, unit: int) -> UnitState:
        parts = {place: state.extract(unit) for place, state in enumerate(self._shared.values())}
        found = {place: part for place, part in parts.items() if part is not None}
        return found or None

    def install(self, unit: int, content: UnitState) -> None:
        for place, state in enumerate(self._shared.values()):
            if place in content:
                state.install(unit, content[place])

    def sizes(self, units: Units) -> Longs:
        return sum((state.sizes(units) for state in self._shared.values()), np.zeros(len(units), np.int64))

    def __iter__(self) -> Iterator[KeyedState]:
        return iter(self._shared.values())


class BoundRule(Protocol):
    """A rule that is bound to columns and state."""

    output: Output
    reads: set[str]

    def process(self, frame: RuleFrame) -> Results:
        """The result rows for a frame."""


@dataclass(frozen=True)
class Side:
    """An item of FROM: which rows it takes, and its window."""

    source: s.Source
    alias: str
    stream: str
    intake: Intake
    window: Window
    schema: pa.Schema

    @property
    def label(self) -> str:
        """Equal for items with the same rows."""
        return f"{self.stream}({self.intake.label}){self.window}"


@dataclass
class World:
    """The streams, functions, key, clock and state that rules are bound to."""

    streams: Mapping[str, pa.Schema]
    functions: Mapping[str, UserFunction]
    key: tuple[str, ...]
    timed: bool
    lateness: int
    """In microseconds; 0 if rows are never late."""
    states: States = field(default_factory=States)
    clock: KeyClocks | None = None
    """The latest time of each key; None if no rule needs it."""
    ansi: bool = True
    """Whether a sum that does not fit its type is an error; if not, it is null."""
    exact: bool = False
    """Whether any aggregate is of whole numbers or decimals."""
    moments: pa.DataType = pa.null()  # noqa: RUF009 - types cannot change
    """The type of the column with the time; null if there is none."""

    def stream(self, name: str, at: s.Node, text: Text) -> str:
        """The stream that a name means: an exact match, else the only match in another case."""
        found = matching(name, self.streams)
        if len(found) > 1:
            raise text.error(f"stream '{name}' may be {listed(found)}: write it as one of them", at)
        if not found:
            raise text.error(f"unknown stream '{name}'; {nearest(name, self.streams)}", at)
        return found[0]

    def scope(self, text: Text, sources: Mapping[str, pa.Schema], clause: str = "WHERE") -> Scope:
        """The scope of expressions over these aliases."""
        return Scope(text, sources, self.functions, streams=frozenset(self.streams), clause=clause, ansi=self.ansi)

    def side(self, source: s.Source, text: Text) -> Side:
        """Bind an item of FROM."""
        stream = self.stream(source.stream, source, text)
        schema, alias = self.streams[stream], source.alias or stream
        view = window(source, text)
        if view.timed and not self.timed:
            raise text.error("a window in time needs the time of the rows: give time=", source.views[-1])
        condition, label = None, ""
        if source.filter is not None:
            scope = self.scope(text, {alias: schema}, "a filter")
            condition, label = compile_condition(source.filter, scope), canonical(source.filter, scope)
        intake = Intake(list(self.streams).index(stream), label, condition)
        return Side(source, alias, stream, intake, view, schema)

    def aggregates(
        self, rule: s.Rule, scope: Scope, edges: Set[str] = frozenset()
    ) -> dict[str, tuple[s.Aggregate, Reduced | ListedAggregate]]:
        """The aggregates of a rule by their text, without `edges`: for each its node and the bound aggregate."""
        found: dict[str, tuple[s.Aggregate, Reduced | ListedAggregate]] = {}
        inside = replace(scope, first=None, aggregates={}, clause="an aggregate")
        for text, node in aggregates(rule).items():
            if text in edges:
                continue
            if node.name in s.EDGES:
                raise scope.text.error(f"{text} stands in rules over win:time_batch of one stream", node)
            value = None if node.argument is None else compile_expression(node.argument, inside)
            made = _listed(node, value, inside) or reduced(node.name, text, value, self.ansi)
            if made is None:
                assert node.argument is not None
                assert value is not None
                wanted = "a number, a text, a date, a time or a boolean" if node.name in ("min", "max") else "a number"
                raise scope.text.error(
                    f"{node.name} needs {wanted}, {show(node.argument)} is {value.type}", node.argument
                )
            self.exact |= isinstance(made, Reduced) and made.measure.words > 0
            found[text] = node, made
        return found

    def in_key(self, expression: s.Expression, scope: Scope) -> bool:
        """Whether an expression is a column of the key, so that all rows of a key have the same value."""
        return isinstance(expression, s.Column) and scope.column(expression)[1] in self.key


def _listed(node: s.Aggregate, value: Compiled | None, scope: Scope) -> ListedAggregate | None:
    """An aggregate that needs the list of its window's values; None if it is of another kind."""
    if node.distinct:
        if node.name != "count" or node.argument is None:
            raise scope.text.error(f"{show(node)} is not to be had: only count takes distinct", node)
        return ListedAggregate(DISTINCT, compile_group(node.argument, scope))
    if value is None:
        return None
    if node.name in (FIRST, LAST, PREVIOUS):
        require_bytewise(node, [value], scope)  # the result has no collation, and would be compared by bytes
        return ListedAggregate(node.name, value, node.offset)
    if node.name in (MIN_TEXT, MAX_TEXT) and family(value.type) == "text":
        require_bytewise(node, [value], scope)
        return ListedAggregate(node.name, cast(value, pa.string()) if pa.types.is_string_view(value.type) else value)
    return None


def aggregated(
    scope: Scope,
    found: Mapping[str, tuple[s.Aggregate, Reduced | ListedAggregate]],
    edges: Mapping[str, pa.DataType] | None = None,
) -> Scope:
    """The scope of SELECT and HAVING, which may read aggregates and `edges` of windows, given with their types."""
    types = {text: (text, made.type) for text, (_, made) in found.items()}
    types |= {text: (text, kind) for text, kind in (edges or {}).items()}
    return replace(scope, first=None, aggregates=types, clause="SELECT")


def forbid_previous(found: Mapping[str, tuple[s.Aggregate, Reduced | ListedAggregate]], text: Text) -> None:
    """Refuse prev in a rule that is not over a sliding window of one stream."""
    for name, (node, made) in found.items():
        if isinstance(made, ListedAggregate) and made.name == PREVIOUS:
            raise text.error(f"{name} stands in rules over win:length or win:time of one stream", node)
