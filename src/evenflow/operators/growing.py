"""Operators that may get further parts while they keep their state, as aggregates do: new parts begin empty.

A log notes which operator its rows went through (NOTE). When the log is read again, rows that went through fewer parts
go through those parts only. So a new part never gets rows from before it was added, however often state is loaded.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from evenflow.operators.keyed import KeyedOperator, identity

NOTE = b"evenflow.operator"
"""The key in the metadata of logged rows for the `identity` of the operator that they went through."""


class Growing(KeyedOperator):
    """An operator of several parts, each with a state of its own."""

    @abstractmethod
    def earlier(self, stored: Mapping[str, Any]) -> Self | None:
        """The operator with these public attributes, if all of its parts are parts of this one; else None."""

    @abstractmethod
    def only(self, earlier: Self | None) -> None:
        """From now on rows go through the parts of `earlier` only; None: through all parts."""

    @abstractmethod
    def more(self, earlier: Self) -> Sequence[str]:
        """The names of the parts that `earlier` lacks."""


def earlier_of(operator: KeyedOperator, text: str) -> Growing | None:
    """The operator whose `identity` is `text`, if `operator` has all of its parts; None if it is another one."""
    if not isinstance(operator, Growing):
        return None
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != type(operator).__qualname__:
            return None
        return operator.earlier({str(each.arg): ast.literal_eval(each.value) for each in call.keywords})
    except (SyntaxError, ValueError, KeyError):  # a class inside a function, a value that is no literal
        return None


def new_parts(operator: KeyedOperator, text: str) -> Sequence[str]:
    """The names of the parts of `operator` that the operator with identity `text` lacks; none if it is not related."""
    earlier = earlier_of(operator, text)
    return operator.more(earlier) if earlier is not None and isinstance(operator, Growing) else ()


def noted(operator: KeyedOperator) -> bytes:
    """The note of an operator; empty if its parts are always the same."""
    return identity(operator).encode() if isinstance(operator, Growing) else b""
