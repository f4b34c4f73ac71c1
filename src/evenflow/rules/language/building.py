"""Builds the syntax tree from what the grammar finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import Text
from evenflow.rules.language.moments import date_of, time_of
from evenflow.rules.language.variables import Variables

SECONDS = {"ms": 1e-3, "mi": 60, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class _Name(s.Node):
    text: str


@dataclass(frozen=True, slots=True)
class _Duration:
    seconds: float


def _at(meta: Meta) -> dict[str, Any]:
    return {} if meta.empty else {"line": meta.line, "column": meta.column}


def _pair(kind: Callable[..., Any]) -> Callable[..., Any]:
    """A method that builds a node from its parts, placed where its first part begins."""
    return lambda self, meta, parts: kind(*parts, **_at(meta))


def _chain(operator: str) -> Callable[..., Any]:
    return lambda self, meta, parts: tree.chained(operator, parts, **_at(meta))


def _prefix(operator: str) -> Callable[..., Any]:
    return lambda self, meta, parts: s.Unary(operator, parts[-1], **_at(meta))


def _negatable(kind: Callable[..., Any]) -> Callable[..., Any]:
    """A node with an operand, an optional `not`, and further parts."""
    return lambda self, meta, parts: kind(parts[0], *parts[2:], parts[1] is not None, **_at(meta))


def _constant(value: object) -> Callable[..., Any]:
    return lambda self, meta, parts: s.Literal(value, **_at(meta))  # type: ignore[arg-type]


@v_args(meta=True)
class Builder(Transformer[Token, Any]):
    """Has one method for each rule of the grammar; `variables` are what names that are no columns may stand for."""

    def __init__(self, source: Text, variables: Variables) -> None:
        super().__init__()
        self._source, self._variables = source, variables

    def start(self, meta: Meta, parts: list[Any]) -> Any:
        return parts[0]

    def condition(self, meta: Meta, parts: list[Any]) -> Any:
        return parts[0]

    def rule(self, meta: Meta, parts: list[Any]) -> s.Rule:
        select, source, where, group, having, pace, limit = parts
        most = None if limit is None else self._count("LIMIT", limit, meta)
        given: Any = {"sources": source} if isinstance(source, tuple) else {"pattern": self._with_rows(source)}
        return s.Rule(
            select, **given, where=where, group=group or (), having=having, pace=pace, limit=most, **_at(meta)
        )

    def _count(self, what: str, given: Any, meta: Meta) -> int:
        """A number of rows, from 1 on."""
        value = self._number(given)
        if not isinstance(value, int) or value < 1:
            raise self._source.error_at(
                f"{what} {value} is no number of rows: give one from 1 on", meta.line, meta.column
            )
        return value

    def pace(self, meta: Meta, parts: list[Any]) -> s.Pacing:
        which, many = (str(parts[0] or "all").lower(), parts[1])
        if which not in ("first", "last"):
            such = "OUTPUT FIRST EVERY ... or OUTPUT LAST EVERY ..."
            raise self._source.error_at(f"OUTPUT {which.upper()} is not there: write {such}", meta.line, meta.column)
        if isinstance(many, _Duration):
            if not 1e-6 <= many.seconds <= 1e9:
                raise self._source.error_at("OUTPUT takes a time such as 10 sec", meta.line, meta.column)
            return s.Pacing(which, seconds=many.seconds, **_at(meta))
        return s.Pacing(which, self._count("OUTPUT EVERY", many, meta), **_at(meta))

    def bare(self, meta: Meta, parts: list[Any]) -> s.Rule:
        return s.Rule((s.Star(**_at(meta)),), pattern=self._with_rows(parts[0]), **_at(meta))

    def _with_rows(self, pattern: Any) -> Any:
        """A pattern that waits for some row."""
        if not tree.atoms(pattern):
            raise self._source.error("the pattern waits for no row: let it begin with one, such as a=Stream", pattern)
        return pattern

    def name(self, meta: Meta, parts: list[Any]) -> _Name:
        text = str(parts[0])
        return _Name(text[1:-1].replace("``", "`") if text.startswith("`") else text, **_at(meta))

    # FROM and SELECT

    def select(self, meta: Meta, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    values = sources = when = select

    def star(self, meta: Meta, parts: list[Any]) -> s.Star:
        owner = next((part.text for part in parts if isinstance(part, _Name)), None)
        return s.Star(owner, **_at(meta))

    def item(self, meta: Meta, parts: list[Any]) -> s.Item:
        return s.Item(parts[0], parts[1] and parts[1].text, **_at(meta))

    from_pattern = start

    def source(self, meta: Meta, parts: list[Any]) -> s.Source:
        stream, condition, *views, alias = parts
        return s.Source(stream.text, condition, tuple(views), alias and alias.text, **_at(meta))

    def view(self, meta: Meta, parts: list[Any]) -> s.View:
        space, name, *arguments = (part for part in parts if part is not None)
        timed = any(isinstance(argument, _Duration) for argument in arguments)
        if timed and len(arguments) > 1:
            raise self._source.error(f"{space.text}:{name.text} takes one time", space)
        columns = name.text.lower() == "groupwin"
        given = tuple(each.text if columns and isinstance(each, _Name) else self._argument(each) for each in arguments)
        return s.View(space.text, name.text, given, timed, line=space.line, column=space.column)

    def _argument(self, value: Any) -> int | float | str:
        """A number, a time in seconds, or a name that is no variable."""
        if isinstance(value, _Duration):
            return value.seconds
        known = not isinstance(value, _Name) or self._variables.find(value.text, value, self._source) is not None
        return self._number(value) if known else str(value.text)

    def _number(self, value: Any) -> int | float:
        """A number that is written down, or that of a variable."""
        given: int | float = value
        return self._variables.number(value.text, value, self._source) if isinstance(value, _Name) else given

    def whole(self, meta: Meta, parts: list[Any]) -> int:
        return int(parts[0])

    def variable(self, meta: Meta, parts: list[Any]) -> _Name:
        return _Name(str(parts[0]), **_at(meta))

    def fraction(self, meta: Meta, parts: list[Any]) -> float:
        return float(parts[0])

    def duration(self, meta: Meta, parts: list[Any]) -> _Duration:
        seconds = 0.0
        for amount, unit in zip(parts[::2], parts[1::2], strict=True):
            seconds += self._number(amount) * _seconds(str(unit).lower())
        return _Duration(seconds)

    # Patterns

    either, both = _pair(s.Or), _pair(s.And)
    every, never = _pair(s.Every), _pair(s.Not)

    def followed(self, meta: Meta, parts: list[Any]) -> s.Followed:
        return s.Followed(parts[0], parts[-1], **_at(meta))

    def within(self, meta: Meta, parts: list[Any]) -> s.Within:
        return s.Within(parts[0], self._span(parts[-1]), **_at(meta))

    def interval(self, meta: Meta, parts: list[Any]) -> s.Interval:
        return s.Interval(self._span(parts[-1]), **_at(meta))

    def amounts(self, meta: Meta, parts: list[Any]) -> _Duration:
        return self.duration(meta, parts)

    def stretch(self, meta: Meta, parts: list[Any]) -> s.Stretch:
        return s.Stretch(parts[0].seconds, **_at(meta))

    def moment(self, meta: Meta, parts: list[Any]) -> s.Literal:
        kind, text = parts[0].text.lower(), str(parts[1])[1:-1]
        if kind not in ("date", "timestamp"):
            raise self._source.error(f"'{parts[0].text}' stands before a text: only date and timestamp do", parts[0])
        value = date_of(text) if kind == "date" else time_of(text)
        if value is None:
            such = "2026-01-31" if kind == "date" else "2026-01-31 12:30:00"
            raise self._source.error(f"{kind} '{text}' is none: write it as in {kind} '{such}'", parts[0])
        return s.Literal(value, **_at(meta))

    def _span(self, value: Any) -> float:
        """A time in seconds."""
        return value.seconds if isinstance(value, _Duration) else float(self._number(value))

    def repeat(self, meta: Meta, parts: list[Any]) -> s.Repeat:
        (low, high, _), pattern = parts
        if low is None or high is None:
            raise self._source.error_at("a repetition without a last number needs UNTIL", meta.line, meta.column)
        return s.Repeat(pattern, low, high, **_at(meta))

    def range(self, meta: Meta, parts: list[Any]) -> tuple[int | None, int | None, Meta]:
        """The least and the most of a repetition; None where it is left open."""
        if len(parts) == 1:
            parts = [parts[0], ":", parts[0]]
        low = None if parts[0] == ":" else self._number(parts[0])
        high = None if parts[-1] == ":" else self._number(parts[-1])
        whole = all(isinstance(each, int | None) for each in (low, high))
        if not whole or (low or 0) < 0 or (high is not None and high < max(low or 0, 1)):
            raise self._source.error_at(
                f"[{'' if low is None else low}:{'' if high is None else high}] repeats nothing: give whole numbers "
                "from 1 on, the second not below the first",
                meta.line,
                meta.column + 1,
            )
        return low, high, meta  # type: ignore[return-value]

    def until(self, meta: Meta, parts: list[Any]) -> s.Until:
        given, pattern, until = parts
        low, high, begin = given or (0, None, meta)
        return s.Until(pattern, until, low or 0, high, **_at(begin))

    def atom(self, meta: Meta, parts: list[Any]) -> s.Atom:
        tag, stream, condition = parts
        return s.Atom(tag and tag.text, stream.text, condition, **_at(meta))

    # Expressions

    disjunction, conjunction = _chain("or"), _chain("and")
    negation, minus = _prefix("not"), _prefix("-")
    in_, between = _negatable(s.In), _negatable(s.Between)
    like, is_null = _negatable(s.Like), _negatable(s.IsNull)

    def binary(self, meta: Meta, parts: list[Any]) -> s.Binary:
        left, operator, right = parts
        return s.Binary("!=" if operator == "<>" else str(operator), left, right, **_at(meta))

    def case(self, meta: Meta, parts: list[Any]) -> s.Case:
        *whens, otherwise = parts
        return s.Case(tuple(whens), otherwise, **_at(meta))

    def call(self, meta: Meta, parts: list[Any]) -> s.Call | s.Aggregate:
        name: str = parts[0].text
        arguments: tuple[Any, ...] = parts[1] or ()
        if name.lower() in s.EDGES and not arguments:
            return s.Aggregate(name.lower(), None, **_at(meta))
        if name.lower() not in s.AGGREGATES:
            return s.Call(None, name, arguments, **_at(meta))
        offset = 1
        if name.lower() == "prev" and len(arguments) == 2:
            offset = getattr(arguments[0], "value", 0)
            if not isinstance(offset, int) or isinstance(offset, bool) or not 1 <= offset < 1 << 31:
                raise self._source.error("prev(n, value) takes a number of rows from 1 on", parts[0])
            arguments = arguments[1:]
        if len(arguments) != 1:
            raise self._source.error(f"{name} takes one argument, here are {len(arguments)}", parts[0])
        return s.Aggregate(name.lower(), arguments[0], offset=offset, **_at(meta))

    def count(self, meta: Meta, parts: list[Any]) -> s.Aggregate:
        if parts[0].text.lower() != "count":
            raise self._source.error(f"{parts[0].text}(*) does not exist: only count(*) does", parts[0])
        return s.Aggregate("count", None, **_at(meta))

    def distinct(self, meta: Meta, parts: list[Any]) -> s.Aggregate:
        name, argument = parts
        if name.text.lower() not in s.AGGREGATES:
            raise self._source.error(f"'{name.text}' is no aggregate: distinct cannot stand in it", name)
        return s.Aggregate(name.text.lower(), argument, True, **_at(meta))

    def cast(self, meta: Meta, parts: list[Any]) -> s.Cast:
        if parts[0].text.lower() != "cast":
            raise self._source.error(f"'{parts[0].text}' does not take AS: only cast(value as type) does", parts[0])
        return s.Cast(parts[1], parts[2], **_at(meta))

    def type(self, meta: Meta, parts: list[Any]) -> str:
        name, *numbers = parts
        given = ", ".join(str(each) for each in numbers if each is not None)
        return f"{name.text}({given})" if given else str(name.text)

    def dotted_call(self, meta: Meta, parts: list[Any]) -> s.Call:
        owner, name, arguments = parts
        return s.Call(owner.text, name.text, arguments or (), **_at(meta))

    def bare_column(self, meta: Meta, parts: list[Any]) -> s.Expression:
        variable = self._variables.literal(parts[0].text, parts[0], self._source)
        return s.Column(None, parts[0].text, **_at(meta)) if variable is None else variable

    def column(self, meta: Meta, parts: list[Any]) -> s.Column:
        return s.Column(parts[0].text, parts[1].text, **_at(meta))

    def indexed(self, meta: Meta, parts: list[Any]) -> s.Column:
        return s.Column(f"{parts[0].text}[{int(parts[1])}]", parts[2].text, **_at(meta))

    def integer(self, meta: Meta, parts: list[Any]) -> s.Literal:
        if len(parts[0]) > 30:
            raise self._source.error_at("this number is too long", meta.line, meta.column)
        return s.Literal(int(parts[0]), **_at(meta))

    def decimal(self, meta: Meta, parts: list[Any]) -> s.Literal:
        return s.Literal(float(parts[0]), str(parts[0]), **_at(meta))

    def string(self, meta: Meta, parts: list[Any]) -> s.Literal:
        text = str(parts[0])
        return s.Literal(text[1:-1].replace(text[0] * 2, text[0]), **_at(meta))

    true, false, null = _constant(True), _constant(False), _constant(None)


def _seconds(unit: str) -> float:
    for start in ("ms", "milli", "mi", "m", "s", "h", "d"):
        if unit.startswith(start):
            return SECONDS["ms" if start == "milli" else start]
    raise AssertionError(unit)
