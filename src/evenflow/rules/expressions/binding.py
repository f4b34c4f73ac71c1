"""Finds the columns, streams and functions that the names in a rule stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import nearest
from evenflow.rules.expressions.functions import BUILTINS, Builtin, UserFunction
from evenflow.rules.language.errors import Text
from evenflow.rules.language.syntax import AGGREGATES, Call, Column, Node


@dataclass(frozen=True)
class Scope:
    """The columns and functions that an expression may use."""

    text: Text
    sources: Mapping[str, pa.Schema]
    """The columns of each alias (or tag, or stream that has no alias)."""
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    first: str | None = None
    """The alias in which a column name without alias is looked up first, as in a filter."""
    streams: frozenset[str] = frozenset()
    """Further names that may stand before a function's name and a dot."""
    aggregates: Mapping[str, tuple[str, pa.DataType]] = field(default_factory=dict)
    """The known aggregates: by text, the column (of alias '') and type of each."""
    clause: str = "this condition"
    """The name, in messages, of the place where the expression stands."""
    ansi: bool = True
    """Whether a whole number that is too large is an error; if not, it wraps around."""
    spark: bool = False
    """Whether the expression must have the results of Spark (`as_spark`), as a filter of a graph."""

    def owner(self, name: str, at: Node) -> str:
        """The alias that a name means."""
        found = matching(name, self.sources)
        if len(found) == 1:
            return found[0]
        if found:
            raise self.text.error(f"'{name}' may be {listed(found)}: write it as one of them", at)
        raise self.text.error(f"unknown stream or alias '{name}'; {nearest(name, self.sources)}", at)

    def column(self, node: Column) -> tuple[str, str, pa.DataType]:
        """Alias, name and type of the column that a node means: an exact match, else the only match in another case."""
        if node.owner is not None:
            return self._in([self.owner(node.owner, node)], node)
        if self.first is not None and matching(node.name, self.sources[self.first].names):
            return self._in([self.first], node)
        return self._in(list(self.sources), node)

    def _in(self, owners: list[str], node: Column) -> tuple[str, str, pa.DataType]:
        names = [(owner, name) for owner in owners for name in self.sources[owner].names]
        found = [pair for pair in names if pair[1] == node.name]
        found = found or [pair for pair in names if pair[1].lower() == node.name.lower()]
        if len(found) == 1:
            owner, name = found[0]
            return owner, name, self.sources[owner].field(name).type
        if found:
            choices = [f"{owner}.{name}" for owner, name in found]
            raise self.text.error(f"column '{node.name}' may be {listed(choices)}: write it as one of them", node)
        of = f" of '{owners[0]}'" if node.owner is not None else ""
        hint = nearest(node.name, (name for _, name in names))
        more = "" if of else f"; if it is a variable, give it by variables={{'{node.name}': ...}}"
        raise self.text.error(f"unknown column '{node.name}'{of}; {hint}{more}", node)

    def function(self, node: Call) -> tuple[str, UserFunction | Builtin]:
        """The function that a call means; text before the dot is part of the function's name, a stream, or an alias."""
        known: dict[str, UserFunction | Builtin] = {**BUILTINS, **self.functions}
        if node.owner is not None:
            whole = f"{node.owner}.{node.name}"
            if matching(whole, self.functions):
                return self._one(whole, self.functions, node)
            if not matching(node.owner, {*self.sources, *self.streams}):
                hint = nearest(node.owner, {*self.sources, *self.streams})
                raise self.text.error(f"unknown stream or alias '{node.owner}' before '{node.name}'; {hint}", node)
        return self._one(node.name, known, node)

    def _one(
        self, name: str, known: Mapping[str, UserFunction | Builtin], node: Call
    ) -> tuple[str, UserFunction | Builtin]:
        found = matching(name, known)
        if len(found) == 1:
            return found[0], known[found[0]]
        if found:
            raise self.text.error(f"function '{name}' may be {listed(found)}: write it as one of them", node)
        hint = nearest(name, {*known, *AGGREGATES})
        hint = f"{hint} There are the" if hint.startswith("did") else "there are the"
        there = f"aggregates {', '.join(AGGREGATES)} and the functions {', '.join(known)}"
        raise self.text.error(f"unknown function '{name}'; {hint} {there}", node)


def matching(name: str, known: Iterable[str]) -> list[str]:
    """The name itself if it is known, else the known names that differ from it in case only."""
    names = list(known)
    return [name] if name in names else [other for other in names if other.lower() == name.lower()]


def listed(names: list[str]) -> str:
    """Names to choose from, for a message."""
    return " or ".join(f"'{name}'" for name in names)
