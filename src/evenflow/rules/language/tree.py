"""Walks through a syntax tree, and properties of a rule that they find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from evenflow.rules.language import syntax as s


def children(node: s.Node) -> Iterator[s.Node]:
    """The direct children of a node, in the order of its fields."""
    for part in fields(node):
        yield from _nodes(getattr(node, part.name))


def _nodes(value: object) -> Iterator[s.Node]:
    if isinstance(value, s.Node):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)


def walk(node: s.Node) -> Iterator[s.Node]:
    """The node and all its descendants, each before its children."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(children(node)))


def depth(node: s.Node) -> int:
    """The number of levels of the tree: 1 for a node without children."""
    levels, row = 0, [node]
    while row:
        levels, row = levels + 1, [child for each in row for child in children(each)]
    return levels


def chained(operator: str, parts: Sequence[s.Expression], **place: int) -> s.Expression:
    """Conditions joined by `and` or `or` as a balanced tree: n conditions are log2(n) levels deep."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    left, right = chained(operator, parts[:half], **place), parts[half:]
    return s.Binary(operator, left, chained(operator, right, line=right[0].line, column=right[0].column), **place)


def conjuncts(expression: s.Expression | None) -> list[s.Expression]:
    """The conditions that `and` joins in an expression; an empty list if there is no expression."""
    if expression is None:
        return []
    if isinstance(expression, s.Binary) and expression.operator == "and":
        return conjuncts(expression.left) + conjuncts(expression.right)
    return [expression]


def atoms(pattern: s.Pattern) -> list[s.Atom]:
    """The atoms of a pattern, in the order of its text."""
    return [node for node in walk(pattern) if isinstance(node, s.Atom)]


def goes_by_time(rule: s.Rule) -> bool:
    """Whether the rows of a rule need a time."""
    if rule.pace is not None and rule.pace.seconds is not None:
        return True
    found = (node for node in walk(rule) if isinstance(node, s.Within | s.Interval | s.View))
    return any(not isinstance(node, s.View) or "time" in node.name.lower() for node in found)


def looks_at_one_row(rule: s.Rule) -> bool:
    """Whether the result for a row depends on that row alone."""
    plain = rule.pattern is None and len(rule.sources) == 1 and not rule.sources[0].views and rule.pace is None
    return plain and not any(isinstance(node, s.Aggregate) for node in walk(rule))
