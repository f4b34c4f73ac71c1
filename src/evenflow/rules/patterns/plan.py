"""A pattern, checked and prepared: its operators, compiled filters, and the place of each tag in a match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import nearest
from evenflow.rules.expressions.binding import Scope, matching
from evenflow.rules.expressions.code import Compiled
from evenflow.rules.expressions.compiling import compile_condition
from evenflow.rules.expressions.functions import UserFunction
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.patterns.filters import Bound, Filter
from evenflow.rules.patterns.parts import (
    AndPart,
    AtomPart,
    EveryPart,
    FollowedPart,
    IntervalPart,
    NotPart,
    OrPart,
    PatternPart,
    RepeatPart,
    UntilPart,
    WithinPart,
)

LONGEST = 1e12
"""Seconds that a timer may wait, at most."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass
class Plan:
    """A prepared pattern."""

    root: PatternPart
    filters: list[Filter]
    places: dict[str, int]
    """The place of each tag's row in a match; `tag` is the last row of a repeated tag, `tag[0]` the first."""
    sources: dict[str, pa.Schema]
    """The columns of each tag that can be selected."""
    streams: dict[str, str]
    """The stream of each tag."""
    waits: bool
    """Whether it has a timer:interval, so that time alone can complete a match."""


def plan(
    pattern: s.Pattern,
    streams: Mapping[str, pa.Schema],
    text: Text,
    functions: Mapping[str, UserFunction] | None = None,
) -> Plan:
    """Check and prepare a pattern; RuleError at the place of a part that is not valid."""
    planner = _Planner(streams, text, functions or {})
    try:
        root = planner.part(pattern, {}, _Inside())
    except RecursionError:
        raise text.error("the pattern is nested too deeply: split it", pattern) from None
    waits = any(isinstance(node, s.Interval) for node in tree.walk(pattern))
    return Plan(root, planner.filters, planner.places, planner.sources, planner.stream_of, waits)


@dataclass(frozen=True)
class _Inside:
    """Which operators a node of a pattern stands inside of; `conjunct`: directly below `and`."""

    every: bool = False
    repeat: bool = False
    never: bool = False
    conjunct: bool = False


@dataclass
class _Planner:
    streams: Mapping[str, pa.Schema]
    text: Text
    functions: Mapping[str, UserFunction]
    filters: list[Filter] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    sources: dict[str, pa.Schema] = field(default_factory=dict)
    stream_of: dict[str, str] = field(default_factory=dict)

    def part(self, node: s.Pattern, known: dict[str, pa.Schema], inside: _Inside) -> PatternPart:
        """The operator for a node. `known` are the tags that its filters may read; the node's own tags are added."""
        below = _Inside(inside.every, inside.repeat, inside.never)
        match node:
            case s.Atom():
                return self._atom(node, known, inside)
            case s.Every():
                if inside.every or inside.repeat:
                    outer = "every" if inside.every else "a repetition"
                    raise self.text.error(f"every cannot stand inside {outer}: write one every, before all of it", node)
                self._check_rows("every", node)
                return EveryPart(self.part(node.pattern, known, _Inside(True, False, inside.never)))
            case s.Followed():
                return FollowedPart([self.part(each, known, below) for each in _chained(node)])
            case s.And():
                return self._and(node, known, below)
            case s.Or():
                return OrPart(self._beside(_chained(node), known, below)[0])
            case s.Not():
                if not inside.conjunct:
                    raise self.text.error("not needs something to wait for beside it: write `b and not c`", node)
                self._check_rows("not", node)
                return NotPart(self.part(node.pattern, dict(known), _Inside(inside.every, inside.repeat, True)))
            case s.Repeat():
                return self._repeat(node, known, inside)
            case s.Until():
                return self._until(node, known, inside)
            case s.Within():
                return WithinPart(self.part(node.pattern, known, below), self._span("within", node))
            case s.Interval():
                return IntervalPart(self._span("interval", node))

    def _span(self, timer: str, node: s.Within | s.Interval) -> int:
        """A time in microseconds."""
        if not 1e-6 <= node.seconds <= LONGEST:
            raise self.text.error(f"timer:{timer}({node.seconds:g} sec) is no span of time to wait for", node)
        return round(node.seconds * 1e6)

    def _check_rows(self, what: str, node: s.Every | s.Not | s.Until) -> None:
        """Refuse a pattern that must need a row and does not: time alone would begin it again and again."""
        if _rowless(node.pattern):
            remedy = "... where timer:within(...)" if what == "not" else "a=Stream -> timer:interval(...)"
            raise self.text.error(f"{what} repeats something that needs no row: write {remedy}", node)

    def _atom(self, node: s.Atom, known: dict[str, pa.Schema], inside: _Inside) -> PatternPart:
        found = matching(node.stream, self.streams)
        if len(found) != 1:
            raise self.text.error(f"unknown stream '{node.stream}'; {nearest(node.stream, self.streams)}", node)
        schema = self.streams[found[0]]
        self.filters.append(self._filter(node, found[0], schema, known))
        index, place, first = len(self.filters) - 1, None, None
        if node.tag is not None:
            if matching(node.tag, self.places):
                raise self.text.error(f"tag '{node.tag}' is given twice: give each its own", node)
            self.places[node.tag] = place = len(set(self.places.values()))
            if inside.repeat:
                self.places[f"{node.tag}[0]"] = first = place + 1
            names = [node.tag, f"{node.tag}[0]"] if inside.repeat else [node.tag]
            known.update(dict.fromkeys(names, schema))
            self.stream_of.update(dict.fromkeys(names, found[0]))
            if not inside.never:
                self.sources.update(dict.fromkeys(names, schema))
        return AtomPart(index, place, first)

    def _filter(self, node: s.Atom, stream: str, schema: pa.Schema, known: dict[str, pa.Schema]) -> Filter:
        own = node.tag or stream
        sources = {**known, own: schema}
        if not matching(stream, sources):
            sources[stream] = schema
        calls = frozenset(self.streams)
        scope = Scope(self.text, sources, self.functions, own, calls, clause="a filter")
        names = frozenset({own, stream}) - known.keys()
        alone: list[s.Expression] = []
        together: list[s.Expression] = []
        for condition in tree.conjuncts(node.filter):
            columns = compile_condition(condition, scope).columns
            (alone if all(owner in names for owner, _ in columns) else together).append(condition)
        bounds = [bound for bound in (_bound(condition, scope, names) for condition in together) if bound is not None]
        simple = len(bounds) == len(together)
        return Filter(stream, names, _joined(alone, scope), _joined(together, scope), bounds, simple)

    def _and(self, node: s.And, known: dict[str, pa.Schema], inside: _Inside) -> PatternPart:
        nodes = _chained(node)
        if all(isinstance(each, s.Not) for each in nodes):
            raise self.text.error("not needs something to wait for beside it: write `b and not c`", node)
        parts, tags = self._beside(nodes, known, _Inside(inside.every, inside.repeat, inside.never, True))
        return AndPart(parts, [[self.places[tag] for tag in each] for each in tags])

    def _beside(
        self, nodes: list[s.Pattern], known: dict[str, pa.Schema], inside: _Inside
    ) -> tuple[list[PatternPart], list[list[str]]]:
        """Operands that cannot read each other's tags, and the tags of each."""
        parts, tags, given = [], [], dict(known)
        for node in nodes:
            seen = dict(known)
            parts.append(self.part(node, seen, inside))
            tags.append([tag for tag in seen if tag not in known])
            given.update(seen)
        known.update(given)
        return parts, tags

    def _repeat(self, node: s.Repeat, known: dict[str, pa.Schema], inside: _Inside) -> PatternPart:
        if inside.repeat and node.least != node.most:
            raise self.text.error(f"[{node.least}:{node.most}] cannot stand inside a repetition: give one number", node)
        if not 1 <= node.least <= node.most:
            raise self.text.error(f"[{node.least}:{node.most}] repeats nothing: count from 1, and upwards", node)
        return RepeatPart(
            self.part(node.pattern, known, _Inside(inside.every, True, inside.never)), node.least, node.most
        )

    def _until(self, node: s.Until, known: dict[str, pa.Schema], inside: _Inside) -> PatternPart:
        if inside.repeat:
            raise self.text.error("until cannot stand inside a repetition: give [n]", node)
        self._check_rows("until", node)
        first, other = dict(known), dict(known)
        parts = [
            self.part(node.pattern, first, _Inside(inside.every, True, inside.never)),
            self.part(node.until, other, _Inside(inside.every, inside.repeat, inside.never)),
        ]
        places = [self.places[tag] for tag in other if tag not in known]
        known.update({**first, **other})
        return UntilPart(parts, node.least, node.most, places)


def _chained(node: s.Followed | s.And | s.Or) -> list[s.Pattern]:
    """The operands of a chain of one operator, whose left side is the nested one."""
    operands, left = [node.right], node.left
    while isinstance(left, s.Followed | s.And | s.Or) and type(left) is type(node):
        operands.append(left.right)
        left = left.left
    return [left, *reversed(operands)]


def _rowless(node: s.Pattern) -> bool:
    """Whether time alone, without any row, can make a pattern true."""
    match node:
        case s.Interval():
            return True
        case s.Atom() | s.Not():
            return False
        case s.Or():
            return _rowless(node.left) or _rowless(node.right)
        case s.Followed():
            return _rowless(node.left) and _rowless(node.right)
        case s.And():
            return all(isinstance(each, s.Not) or _rowless(each) for each in (node.left, node.right))
        case s.Until():
            return node.least == 0 and _rowless(node.until)
        case _:
            return _rowless(node.pattern)


def _bound(condition: s.Expression, scope: Scope, own: frozenset[str]) -> Bound | None:
    """A condition as a comparison of numbers; None if it is something else."""
    if not isinstance(condition, s.Binary) or condition.operator not in _TURNED:
        return None
    if not isinstance(condition.left, s.Column) or not isinstance(condition.right, s.Column):
        return None
    operator, sides = condition.operator, [scope.column(condition.left), scope.column(condition.right)]
    if sides[0][0] not in own:
        operator, sides = _TURNED[operator], sides[::-1]
    (owner, column, one), (tag, other, two) = sides
    number = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, two)]
    if owner not in own or tag in own or not all(number):
        return None
    return Bound(column, operator, tag, other)


def _joined(conditions: list[s.Expression], scope: Scope) -> Compiled | None:
    if not conditions:
        return None
    return compile_condition(tree.chained("and", conditions), scope)
