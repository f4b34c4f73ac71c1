"""Builds the syntax tree from what the grammar finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lark import v_args
from lark.tree import Meta

from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.amounts import AmountBuilder, Duration, Part, Parts, Word, at

Method: TypeAlias = Callable[[AmountBuilder, Meta, Parts], s.Node]
"""A method of `Builder`, which has one for each rule of the grammar."""


def _pair(kind: Callable[..., s.Node]) -> Method:
    """A method that builds a node from its parts, placed where its first part begins."""
    return lambda self, meta, parts: kind(*parts, **at(meta))


def _chain(operator: str) -> Method:
    return lambda self, meta, parts: tree.chained(operator, parts, **at(meta))


def _prefix(operator: str) -> Method:
    return lambda self, meta, parts: s.Unary(operator, parts[-1], **at(meta))


def _negatable(kind: Callable[..., s.Node]) -> Method:
    """A node with an operand, an optional `not`, and further parts."""
    return lambda self, meta, parts: kind(parts[0], *parts[2:], parts[1] is not None, **at(meta))


def _constant(value: object) -> Method:
    return lambda self, meta, parts: s.Literal(value, **at(meta))  # type: ignore[arg-type]


@v_args(meta=True)
class Builder(AmountBuilder):
    """Has one method for each rule of the grammar."""

    def start(self, meta: Meta, parts: Parts) -> Part:
        return parts[0]

    def condition(self, meta: Meta, parts: Parts) -> Part:
        return parts[0]

    def rule(self, meta: Meta, parts: Parts) -> s.Rule:
        select, source, where, group, having, pace, limit = parts
        most = None if limit is None else self.rows_of("LIMIT", limit, meta)
        sources, pattern = (source, None) if isinstance(source, tuple) else ((), self._with_rows(source))
        return s.Rule(
            select,
            sources=sources,
            pattern=pattern,
            where=where,
            group=group or (),
            having=having,
            pace=pace,
            limit=most,
            **at(meta),
        )

    def pace(self, meta: Meta, parts: Parts) -> s.Pacing:
        which, many = (str(parts[0] or "all").lower(), parts[1])
        if which not in ("first", "last"):
            such = "OUTPUT FIRST EVERY ... or OUTPUT LAST EVERY ..."
            raise self.text.error_at(f"OUTPUT {which.upper()} is not there: write {such}", meta.line, meta.column)
        if isinstance(many, Duration):
            if not 1e-6 <= many.seconds <= 1e9:
                raise self.text.error_at("OUTPUT takes a time such as 10 sec", meta.line, meta.column)
            return s.Pacing(which, seconds=many.seconds, **at(meta))
        return s.Pacing(which, self.rows_of("OUTPUT EVERY", many, meta), **at(meta))

    def bare(self, meta: Meta, parts: Parts) -> s.Rule:
        return s.Rule((s.Star(**at(meta)),), pattern=self._with_rows(parts[0]), **at(meta))

    def _with_rows(self, pattern: s.Pattern) -> s.Pattern:
        """A pattern that waits for some row."""
        if not tree.atoms(pattern):
            raise self.text.error("the pattern waits for no row: let it begin with one, such as a=Stream", pattern)
        return pattern

    # FROM and SELECT

    def select(self, meta: Meta, parts: Parts) -> tuple[Part, ...]:
        return tuple(parts)

    values = sources = when = select

    def star(self, meta: Meta, parts: Parts) -> s.Star:
        owner = next((part.text for part in parts if isinstance(part, Word)), None)
        return s.Star(owner, **at(meta))

    def item(self, meta: Meta, parts: Parts) -> s.Item:
        return s.Item(parts[0], parts[1] and parts[1].text, **at(meta))

    from_pattern = start

    def source(self, meta: Meta, parts: Parts) -> s.Source:
        stream, condition, *views, alias = parts
        return s.Source(stream.text, condition, tuple(views), alias and alias.text, **at(meta))

    def view(self, meta: Meta, parts: Parts) -> s.View:
        space, name, *arguments = (part for part in parts if part is not None)
        timed = any(isinstance(argument, Duration) for argument in arguments)
        if timed and len(arguments) > 1:
            raise self.text.error(f"{space.text}:{name.text} takes one time", space)
        columns = name.text.lower() == "groupwin"
        given = tuple(each.text if columns and isinstance(each, Word) else self._argument(each) for each in arguments)
        return s.View(space.text, name.text, given, timed, line=space.line, column=space.column)

    def _argument(self, value: Part) -> int | float | str:
        """A number, a time in seconds, or a name that is no variable."""
        if isinstance(value, Duration):
            return value.seconds
        known = not isinstance(value, Word) or self.variables.find(value.text, value, self.text) is not None
        return self.number_of(value) if known else str(value.text)

    # Patterns

    either, both = _pair(s.Or), _pair(s.And)
    every, never = _pair(s.Every), _pair(s.Not)

    def followed(self, meta: Meta, parts: Parts) -> s.Followed:
        return s.Followed(parts[0], parts[-1], **at(meta))

    def within(self, meta: Meta, parts: Parts) -> s.Within:
        return s.Within(parts[0], self.span_of(parts[-1]), **at(meta))

    def interval(self, meta: Meta, parts: Parts) -> s.Interval:
        return s.Interval(self.span_of(parts[-1]), **at(meta))

    def repeat(self, meta: Meta, parts: Parts) -> s.Repeat:
        (low, high, _), pattern = parts
        if low is None or high is None:
            raise self.text.error_at("a repetition without a last number needs UNTIL", meta.line, meta.column)
        return s.Repeat(pattern, low, high, **at(meta))

    def until(self, meta: Meta, parts: Parts) -> s.Until:
        given, pattern, until = parts
        low, high, begin = given or (0, None, meta)
        return s.Until(pattern, until, low or 0, high, **at(begin))

    def atom(self, meta: Meta, parts: Parts) -> s.Atom:
        tag, stream, condition = parts
        return s.Atom(tag and tag.text, stream.text, condition, **at(meta))

    # Expressions

    disjunction, conjunction = _chain("or"), _chain("and")
    negation, minus = _prefix("not"), _prefix("-")
    in_, between = _negatable(s.In), _negatable(s.Between)
    like, is_null = _negatable(s.Like), _negatable(s.IsNull)

    def binary(self, meta: Meta, parts: Parts) -> s.Binary:
        left, operator, right = parts
        return s.Binary("!=" if operator == "<>" else str(operator), left, right, **at(meta))

    def case(self, meta: Meta, parts: Parts) -> s.Case:
        *whens, otherwise = parts
        return s.Case(tuple(whens), otherwise, **at(meta))

    def call(self, meta: Meta, parts: Parts) -> s.Call | s.Aggregate:
        name: str = parts[0].text
        arguments: tuple[s.Expression, ...] = parts[1] or ()
        if name.lower() in s.EDGES and not arguments:
            return s.Aggregate(name.lower(), None, **at(meta))
        if name.lower() not in s.AGGREGATES:
            return s.Call(None, name, arguments, **at(meta))
        offset = 1
        if name.lower() == "prev" and len(arguments) == 2:
            given = arguments[0].value if isinstance(arguments[0], s.Literal) else 0
            if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given < 1 << 31:
                raise self.text.error("prev(n, value) takes a number of rows from 1 on", parts[0])
            offset, arguments = given, arguments[1:]
        if len(arguments) != 1:
            raise self.text.error(f"{name} takes one argument, here are {len(arguments)}", parts[0])
        return s.Aggregate(name.lower(), arguments[0], offset=offset, **at(meta))

    def count(self, meta: Meta, parts: Parts) -> s.Aggregate:
        if parts[0].text.lower() != "count":
            raise self.text.error(f"{parts[0].text}(*) does not exist: only count(*) does", parts[0])
        return s.Aggregate("count", None, **at(meta))

    def distinct(self, meta: Meta, parts: Parts) -> s.Aggregate:
        name, argument = parts
        if name.text.lower() not in s.AGGREGATES:
            raise self.text.error(f"'{name.text}' is no aggregate: distinct cannot stand in it", name)
        return s.Aggregate(name.text.lower(), argument, True, **at(meta))

    def cast(self, meta: Meta, parts: Parts) -> s.Cast:
        if parts[0].text.lower() != "cast":
            raise self.text.error(f"'{parts[0].text}' does not take AS: only cast(value as type) does", parts[0])
        return s.Cast(parts[1], parts[2], **at(meta))

    def type(self, meta: Meta, parts: Parts) -> str:
        name, *numbers = parts
        given = ", ".join(str(each) for each in numbers if each is not None)
        return f"{name.text}({given})" if given else str(name.text)

    def dotted_call(self, meta: Meta, parts: Parts) -> s.Call:
        owner, name, arguments = parts
        return s.Call(owner.text, name.text, arguments or (), **at(meta))

    def bare_column(self, meta: Meta, parts: Parts) -> s.Expression:
        variable = self.variables.literal(parts[0].text, parts[0], self.text)
        return s.Column(None, parts[0].text, **at(meta)) if variable is None else variable

    def column(self, meta: Meta, parts: Parts) -> s.Column:
        return s.Column(parts[0].text, parts[1].text, **at(meta))

    def indexed(self, meta: Meta, parts: Parts) -> s.Column:
        return s.Column(f"{parts[0].text}[{int(parts[1])}]", parts[2].text, **at(meta))

    def integer(self, meta: Meta, parts: Parts) -> s.Literal:
        if len(parts[0]) > 30:
            raise self.text.error_at("this number is too long", meta.line, meta.column)
        return s.Literal(int(parts[0]), **at(meta))

    def decimal(self, meta: Meta, parts: Parts) -> s.Literal:
        return s.Literal(float(parts[0]), str(parts[0]), **at(meta))

    def string(self, meta: Meta, parts: Parts) -> s.Literal:
        text = str(parts[0])
        return s.Literal(text[1:-1].replace(text[0] * 2, text[0]), **at(meta))

    true, false, null = _constant(True), _constant(False), _constant(None)
