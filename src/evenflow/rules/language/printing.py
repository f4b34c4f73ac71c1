"""A syntax tree as text that parses to the same tree."""

from __future__ import annotations

import re
from datetime import date

from evenflow.rules.language import moments
from evenflow.rules.language import syntax as s

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "select from where group by having as and or not in between like is null true false case when then else end "
        "every pattern distinct",
    )
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def show(node: s.Node) -> str:
    """The text of a node of any kind."""
    match node:
        case s.Rule():
            return _rule(node)
        case s.Pacing():
            return _pace(node)
        case s.Source() | s.View() | s.Star() | s.Item():
            return _clause(node)
        case (
            s.Atom()
            | s.Every()
            | s.Followed()
            | s.And()
            | s.Or()
            | s.Not()
            | s.Repeat()
            | s.Within()
            | s.Interval()
            | s.Until()
        ):
            return _pattern(node)
        case _:
            return _expression(node)


def name(text: str) -> str:
    """An identifier, in backquotes where it needs them."""
    if _PLAIN.match(text) and text.lower() not in KEYWORDS:
        return text
    return "`" + text.replace("`", "``") + "`"


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, date):
        return moments.shown(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _part(node: s.Node) -> str:
    """An operand: anything with an operator of its own is put in parentheses."""
    text = _expression(node)
    return (
        text
        if isinstance(node, s.Literal | s.Stretch | s.Column | s.Call | s.Cast | s.Aggregate | s.Case)
        else f"({text})"
    )


def _expression(node: s.Node) -> str:
    no = "not " if getattr(node, "negated", False) else ""
    match node:
        case s.Literal(value=value, text=text):
            return text or _literal(value)
        case s.Stretch(seconds=seconds):
            return f"{seconds!r} sec"
        case s.Column(owner=owner, name=text):
            return name(text) if owner is None else f"{name(owner)}.{name(text)}"
        case s.Unary(operator=operator, operand=operand):
            return f"{operator} {_part(operand)}"
        case s.Binary(operator=operator, left=left, right=right):
            return f"{_part(left)} {operator} {_part(right)}"
        case s.In(operand=operand, options=options):
            return f"{_part(operand)} {no}in ({', '.join(map(_expression, options))})"
        case s.Between(operand=operand, low=low, high=high):
            return f"{_part(operand)} {no}between {_part(low)} and {_part(high)}"
        case s.Like(operand=operand, pattern=pattern):
            return f"{_part(operand)} {no}like {_part(pattern)}"
        case s.IsNull(operand=operand, negated=negated):
            return f"{_part(operand)} is {'not ' if negated else ''}null"
        case s.Case(whens=whens, otherwise=otherwise):
            parts = [f"when {_expression(condition)} then {_expression(value)}" for condition, value in whens]
            parts += [] if otherwise is None else [f"else {_expression(otherwise)}"]
            return f"case {' '.join(parts)} end"
        case s.Call(owner=owner, name=text, arguments=arguments):
            called = name(text) if owner is None else f"{name(owner)}.{name(text)}"
            return f"{called}({', '.join(map(_expression, arguments))})"
        case s.Cast(operand=operand, type=kind):
            return f"cast({_expression(operand)} as {kind})"
        case s.Aggregate(name=text, argument=argument, distinct=distinct, offset=offset):
            inside = ("" if text in s.EDGES else "*") if argument is None else _expression(argument)
            before = "distinct " if distinct else f"{offset}, " if offset != 1 else ""
            return f"{text}({before}{inside})"
    raise TypeError(f"{type(node).__name__} is no expression")


def _operand(node: s.Node) -> str:
    return _pattern(node) if isinstance(node, s.Atom | s.Interval) else f"({_pattern(node)})"


def _pattern(node: s.Node) -> str:
    match node:
        case s.Atom(tag=tag, stream=stream, filter=filter_):
            head = name(stream) if tag is None else f"{name(tag)}={name(stream)}"
            return head if filter_ is None else f"{head}({_expression(filter_)})"
        case s.Every(pattern=pattern):
            return f"every {_operand(pattern)}"
        case s.Not(pattern=pattern):
            return f"not {_operand(pattern)}"
        case s.Repeat(pattern=pattern, least=least, most=most):
            return f"[{least if least == most else f'{least}:{most}'}] {_operand(pattern)}"
        case s.Until(pattern=pattern, until=until, least=least, most=most):
            head = f"[{least}:{'' if most is None else most}] " if least or most is not None else ""
            return f"{head}{_operand(pattern)} until {_operand(until)}"
        case s.Within(pattern=pattern, seconds=seconds):
            return f"{_operand(pattern)} where timer:within({seconds!r} sec)"
        case s.Interval(seconds=seconds):
            return f"timer:interval({seconds!r} sec)"
        case s.Followed(left=left, right=right) | s.And(left=left, right=right) | s.Or(left=left, right=right):
            operator = {s.Followed: "->", s.And: "and", s.Or: "or"}[type(node)]
            return f"{_operand(left)} {operator} {_operand(right)}"
    raise TypeError(f"{type(node).__name__} is no pattern")


def _clause(node: s.Node) -> str:
    match node:
        case s.Star(owner=owner):
            return "*" if owner is None else f"{name(owner)}.*"
        case s.Item(expression=expression, name=given):
            return _expression(expression) + ("" if given is None else f" as {name(given)}")
        case s.View(space=space, name=text, arguments=arguments, timed=timed):
            inside = [
                f"{each!r} sec" if timed else name(each) if isinstance(each, str) else repr(each) for each in arguments
            ]
            return f"{name(space)}:{name(text)}({', '.join(inside)})"
        case s.Source(stream=stream, filter=filter_, views=views, alias=alias):
            text = name(stream) + ("" if filter_ is None else f"({_expression(filter_)})")
            return (
                text + "".join(f".{_clause(view)}" for view in views) + ("" if alias is None else f" as {name(alias)}")
            )
    raise TypeError(f"{type(node).__name__} is no clause")


def _pace(pace: s.Pacing) -> str:
    every = f"{pace.events} events" if pace.seconds is None else f"{pace.seconds!r} sec"
    return f"output {pace.which} every {every}"


def _rule(rule: s.Rule) -> str:
    parts = [f"select {', '.join(map(_clause, rule.select))}"]
    if rule.pattern is None:
        parts.append(f"from {', '.join(map(_clause, rule.sources))}")
    else:
        parts.append(f"from pattern [{_pattern(rule.pattern)}]")
    parts += [] if rule.where is None else [f"where {_expression(rule.where)}"]
    parts += [f"group by {', '.join(map(_expression, rule.group))}"] if rule.group else []
    parts += [] if rule.having is None else [f"having {_expression(rule.having)}"]
    parts += [] if rule.pace is None else [_pace(rule.pace)]
    parts += [] if rule.limit is None else [f"limit {rule.limit}"]
    return " ".join(parts)
