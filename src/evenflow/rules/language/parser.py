"""Parses the text of a rule into a syntax tree; errors say in words where and why the text is not valid."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from lark import Lark, UnexpectedCharacters, UnexpectedInput
from lark.exceptions import VisitError

from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.amounts import Part
from evenflow.rules.language.building import Builder
from evenflow.rules.language.errors import TOO_DEEP, RuleError, Text
from evenflow.rules.language.variables import Variables

DEEPEST = 200
"""Levels of a rule's syntax tree, at most."""


def parse(text: str | Text, variables: Variables | None = None) -> s.Rule:
    """The syntax tree of a rule, in which variables are constants; RuleError if the text is not valid."""
    source = text if isinstance(text, Text) else Text(text)
    rule: s.Rule = _parsed(source, "start", variables or Variables())
    return rule


def parse_condition(source: Text) -> s.Expression:
    """The syntax tree of a condition that stands alone; RuleError if the text is not valid."""
    condition: s.Expression = _parsed(source, "condition", Variables())
    return condition


def _parsed(source: Text, start: str, variables: Variables) -> Part:
    """The syntax tree of a text; `start` names the rule of the grammar that the whole text must match."""
    if not isinstance(source.text, str):
        raise RuleError(f"a {source.kind} is {type(source.text).__name__}: give its text")
    try:
        found = Builder(source, variables).transform(_parser().parse(source.text, start=start))
    except UnexpectedInput as error:
        raise _unexpected(source, error) from None
    except (VisitError, RecursionError) as error:
        cause = error.orig_exc if isinstance(error, VisitError) else error
        if isinstance(cause, RecursionError):
            raise source.error_at(TOO_DEEP, 0, 0) from None
        raise cause from None
    if tree.depth(found) > DEEPEST:
        raise source.error_at(TOO_DEEP, 0, 0)
    return found


@cache
def _parser() -> Lark:
    grammar = files("evenflow.rules.language").joinpath("grammar.lark").read_text("utf-8")
    starts = ["start", "condition"]
    return Lark(
        grammar, start=starts, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True
    )


def _unexpected(source: Text, error: UnexpectedInput) -> RuleError:
    expected, more = _expected(error).replace("the rule", f"the {source.kind}"), ""
    if (
        source.kind == "rule"
        and re.search(r"\bfrom\b", source.text, re.I)
        and not re.search(r"\bselect\b", source.text, re.I)
    ):
        more = ": a rule starts with SELECT, or is a pattern"
    if isinstance(error, UnexpectedCharacters):
        place = error.pos_in_stream or 0
        at = source.text[place]
        if at.isdecimal():
            return source.error_at("a number runs into a name: put a space or an operator between", *_place(error))
        found = {"'": "a string that does not end", '"': "a string that does not end", "`": "a name that does not end"}
        return source.error_at(f"{found.get(at, repr(at))} where {expected} was expected{more}", *_place(error))
    token = getattr(error, "token", None)
    if token is None or token.type == "$END":
        lines = source.text.rstrip().split("\n")
        end = len(lines), len(lines[-1]) + 1
        return source.error_at(f"the {source.kind} ends where {expected} was expected", *end)
    if token.type == "JOINED":
        return source.error_at("a number runs into a name: put a space or an operator between", *_place(error))
    if token.type == "EQUAL" and source.text[: error.pos_in_stream].endswith("="):
        more += ": write = instead of =="
    return source.error_at(f"'{token}' where {expected} was expected{more}", *_place(error))


def _place(error: UnexpectedInput) -> tuple[int, int]:
    return error.line, error.column


_GROUPS = (
    ({"INT", "FLOAT", "STRING", "IDENT", "_CASE", "LPAR"}, "an expression"),
    ({"EQUAL", "LESS", "PLUS", "STAR", "_IN", "_IS"}, "an operator"),
    ({"PLUS", "MINUS", "STAR", "SLASH"}, "an operator"),
)
_COVERED = {
    "an expression": {"INT", "FLOAT", "STRING", "IDENT", "QUOTED", "_CASE", "LPAR", "MINUS", "PLUS", "_NOT", "_TRUE"}
    | {"_FALSE", "_NULL"},
    "an operator": {"EQUAL", "UNEQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "PLUS", "MINUS", "CONCAT"}
    | {"STAR", "SLASH", "PERCENT", "_IN", "_IS", "_LIKE", "_BETWEEN", "NOT"},
}
_WORDS = {
    "IDENT": "a name",
    "QUOTED": "a name",
    "INT": "a number",
    "VARIABLE": "a number",
    "JOINED": "a number",
    "EVENTS": "EVENTS",
    "FLOAT": "a number",
    "STRING": "a string",
    "UNIT": "a unit of time (msec, sec, min, hour, day)",
    "TIMER": "timer:within(...)",
    "INTERVAL": "timer:interval(...)",
    "$END": "the end of the rule",
    "SEMICOLON": "the end of the rule",
    "EQUAL": "'='",
    "ARROW": "'->'",
    "COLON": "':'",
    "STAR": "'*'",
    "PLUS": "'+'",
    "MINUS": "'-'",
}


def _expected(error: UnexpectedInput) -> str:
    """What the grammar allows where the error is, in words."""
    left = set(
        getattr(error, "accepts", None) or getattr(error, "expected", None) or getattr(error, "allowed", ()) or ()
    )
    words = []
    for needed, word in _GROUPS:
        if needed <= left:
            words.append(word)
            left -= _COVERED[word]
    words += [_word(name) for name in left]
    words = sorted(set(words), key=lambda word: (word == "the end of the rule", not word.startswith("a"), word))
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else "".join(words) or "something else"


def _word(terminal: str) -> str:
    if terminal in _WORDS:
        return _WORDS[terminal]
    if terminal.startswith("_") or terminal == "NOT":
        return terminal.strip("_")
    pattern = next((each.pattern.value for each in _parser().terminals if each.name == terminal), terminal)
    return f"'{pattern}'"
