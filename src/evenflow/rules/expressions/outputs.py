"""The output of a rule: its select list and HAVING."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.declared import as_new
from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.code import Compiled, Name, Values
from evenflow.rules.expressions.compiling import compile_condition, compile_expression
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.printing import show


@dataclass(frozen=True)
class Output:
    """The selected columns, for rows where HAVING is true."""

    names: tuple[str, ...]
    items: tuple[Compiled, ...]
    having: Compiled | None

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the selected columns."""
        named = zip(self.names, self.items, strict=True)
        return pa.schema(
            [as_new(pa.field(name, item.type)) if item.of is None else item.of.with_name(name) for name, item in named]
        )

    @property
    def columns(self) -> frozenset[Name]:
        """The columns that the select list and HAVING read."""
        parts = [*self.items, *([] if self.having is None else [self.having])]
        return frozenset[Name]().union(*(part.columns for part in parts))

    def passing(self, values: Values, rows: int) -> npt.NDArray[np.int64] | None:
        """The places of rows where HAVING is true; None for all rows."""
        return None if self.having is None else np.flatnonzero(self.having.holds(values, rows))

    def select(self, values: Values, rows: int) -> list[pa.Array]:
        """The selected columns of all rows."""
        return [item.evaluate(values, rows) for item in self.items]


def output(rule: s.Rule, scope: Scope, stars: Mapping[str, str]) -> Output:
    """Bind the select list and HAVING. `stars`: the aliases that `*` stands for, each with a prefix for its columns."""
    named: dict[str, Compiled] = {}
    spelled: dict[str, str] = {}
    for item in rule.select:
        for name, expression in _expanded(item, scope, stars):
            other = spelled.setdefault(name.lower(), name)
            if name in named or other != name:
                what = f"are called '{name}'" if name in named else f"'{other}' and '{name}' differ in case only"
                raise scope.text.error(f"two columns {what}: give one of them another name with AS", item)
            named[name] = compile_expression(expression, scope)
            if pa.types.is_null(named[name].type):
                raise scope.text.error(f"column '{name}' is always null: it has no type", item)
    having = None if rule.having is None else compile_condition(rule.having, replace(scope, clause="HAVING"))
    return Output(tuple(named), tuple(named.values()), having)


def _expanded(item: s.Star | s.Item, scope: Scope, stars: Mapping[str, str]) -> list[tuple[str, s.Expression]]:
    place = {"line": item.line, "column": item.column}
    if isinstance(item, s.Item):
        name = item.name or (item.expression.name if isinstance(item.expression, s.Column) else show(item.expression))
        if item.name is None and isinstance(item.expression, s.Column):
            name = scope.column(item.expression)[1]
        return [(name, item.expression)]
    if item.owner is not None:
        stars = {scope.owner(item.owner, item): ""}
    return [
        (start + name, s.Column(alias, name, **place))
        for alias, start in stars.items()
        for name in scope.sources[alias].names
    ]


def aggregates(rule: s.Rule) -> dict[str, s.Aggregate]:
    """The aggregates in the select list and in HAVING, by their text."""
    parts = [*rule.select, *([] if rule.having is None else [rule.having])]
    found = [node for part in parts for node in tree.walk(part) if isinstance(node, s.Aggregate)]
    return {show(node): node for node in found}


def canonical(expression: s.Expression, scope: Scope) -> str:
    """The text of an expression with all columns fully named: equal texts mean equal expressions."""
    return show(_resolved(expression, scope))


def _resolved(node: s.Node, scope: Scope) -> s.Node:
    if isinstance(node, s.Column):
        owner, name, _ = scope.column(node)
        return s.Column(None if len(scope.sources) == 1 else owner, name)
    changes: dict[str, Any] = {part.name: _each(getattr(node, part.name), scope) for part in fields(node)}
    return replace(node, **changes)


def _each(value: object, scope: Scope) -> object:
    if isinstance(value, s.Node):
        return _resolved(value, scope)
    return tuple(_each(each, scope) for each in value) if isinstance(value, tuple) else value
