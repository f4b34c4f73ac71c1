"""The nodes of a rule's syntax tree. Each has its line and column, which do not count for equality.

A rule is `SELECT items FROM sources WHERE ... GROUP BY ... HAVING ...`, or the same over a pattern:

    every a=Tick(price > 100) -> [2:3] b=Tick(price < a.price) where timer:within(10 sec)

is `Followed(Every(Atom("a", "Tick", ...)), Repeat(Within(Atom("b", "Tick", ...), 10.0), 2, 3))`. Operators by how
tightly they bind, tightest first, as in Esper: `where timer:within`, after an atom or a parenthesis; `until`, between
two such; `every`, `not` and repetition, before their operand; `and`; `or`; `->`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import TypeAlias, TypedDict

AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev", "first", "last", "prev")

EDGES = ("window_start", "window_end")
"""Functions without an argument: when a batch window of time begins and ends."""


class TextPlace(TypedDict):
    """Where a node begins, as the arguments that every node takes."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Any part of a rule, and where it begins, counted from 1; 0 if it was not parsed."""

    line: int = field(default=0, compare=False, repr=False)
    column: int = field(default=0, compare=False, repr=False)


# Expressions


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; None is null. A time without a zone is in the zone of the column that it is compared with."""

    value: bool | int | float | str | date | None
    text: str = field(default="", compare=False, repr=False)
    """A number with a point or an exponent as it is written: it may have more digits than a double."""


@dataclass(frozen=True, slots=True)
class Stretch(Node):
    """A span of time, such as `1 min 30 sec`: added to a time, or else a number of seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column; `owner` is the stream, alias or tag before its dot, such as `a` or `a[0]`."""

    owner: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`not` or `-`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`+ - * / % ||`, `= != < <= > >=`, `and`, `or`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class In(Node):
    """`operand [not] in (options)`."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Node):
    """`operand [not] between low and high`, both included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Node):
    """`operand [not] like pattern`."""

    operand: Expression
    pattern: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """`operand is [not] null`."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`case when condition then value ... [else otherwise] end`."""

    whens: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A call of a function that is no aggregate; `owner` is the name before its dot."""

    owner: str | None
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`cast(operand as type)`."""

    operand: Expression
    type: str


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """A call of one of `AGGREGATES` or `EDGES`; `argument` is None for `count(*)` and `EDGES`.

    `prev` is the value in the row that is `offset` rows before.
    """

    name: str
    argument: Expression | None
    distinct: bool = False
    offset: int = 1


Expression: TypeAlias = (
    Literal | Stretch | Column | Unary | Binary | In | Between | Like | IsNull | Case | Call | Cast | Aggregate
)


# Patterns


@dataclass(frozen=True, slots=True)
class Atom(Node):
    """`tag=stream(filter)`: a row that passes the filter; `tag` is its name in later filters and in the select list."""

    tag: str | None
    stream: str
    filter: Expression | None = None


@dataclass(frozen=True, slots=True)
class Every(Node):
    """`every pattern`: begins again whenever `pattern` has matched."""

    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Followed(Node):
    """`left -> right`: right begins after left has matched. In longer chains, the left side is the nested one."""

    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class And(Node):
    """`left and right`: both match, in any order."""

    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Or(Node):
    """`left or right`: one of the two matches."""

    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`not pattern`: it does not match."""

    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """`[least:most] pattern`: so many matches, one after the other; `[n]` is `[n:n]`."""

    pattern: Pattern
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Until(Node):
    """`[least:most] pattern until until`: matches one after the other, until the other one matches, or `most` have."""

    pattern: Pattern
    until: Pattern
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Within(Node):
    """`pattern where timer:within(seconds)`: it fails if it has not matched by then."""

    pattern: Pattern
    seconds: float


@dataclass(frozen=True, slots=True)
class Interval(Node):
    """`timer:interval(seconds)`: matches when so much time has passed since it began."""

    seconds: float


Pattern: TypeAlias = Atom | Every | Followed | And | Or | Not | Repeat | Until | Within | Interval


# Rules


@dataclass(frozen=True, slots=True)
class Star(Node):
    """`*`, or `owner.*`."""

    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Item(Node):
    """An expression of the select list, and its name after AS."""

    expression: Expression
    name: str | None = None


@dataclass(frozen=True, slots=True)
class View(Node):
    """`space:name(arguments)`: an argument is a number, a column, or a time in seconds if `timed`."""

    space: str
    name: str
    arguments: tuple[int | float | str, ...] = ()
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Source(Node):
    """`stream(filter).view().view() as alias`."""

    stream: str
    filter: Expression | None = None
    views: tuple[View, ...] = ()
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Pacing(Node):
    """`output first every 10 events` or `output last every 5 sec`: the results that come out.

    `which` tells the first or the last result of every n, or of every stretch of time.
    """

    which: str
    events: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """A whole rule: over sources, or over a pattern."""

    select: tuple[Star | Item, ...]
    sources: tuple[Source, ...] = ()
    pattern: Pattern | None = None
    where: Expression | None = None
    group: tuple[Expression, ...] = ()
    having: Expression | None = None
    pace: Pacing | None = None
    limit: int | None = None
    """The results of a batch window, at most."""
