"""Errors in a rule, and where in its text they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from evenflow.errors import InvalidArgument

TOO_DEEP = "the rule is nested too deeply: split it"


class RuleError(InvalidArgument):
    """An invalid rule. `line` and `column`, counted from 1, are the place in its text; 0 if that is not known."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class Placed(Protocol):
    """Anything that has a place in a rule's text."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a rule, and its name if there are several rules."""

    text: str
    name: str = ""
    kind: str = "rule"
    """What the text is, for messages: a rule, or the condition of a filter."""

    @property
    def title(self) -> str:
        """The rule's name in messages."""
        return f"{self.kind} '{self.name}'" if self.name else f"the {self.kind}"

    def error(self, message: str, at: Placed) -> RuleError:
        """An error that shows the place of `at`."""
        return self.error_at(message, at.line, at.column)

    def error_at(self, message: str, line: int, column: int) -> RuleError:
        """An error that shows line and column; 0 if the place is not known."""
        title = f"{self.title}: " if self.name else ""
        lines = self.text.splitlines()
        if not 1 <= line <= len(lines):
            return RuleError(f"{title}{message}", line, column)
        shown = lines[line - 1]
        start = max(0, column - 1 - 80)  # a line may be very long
        before, part = shown[start : column - 1], shown[start : start + 160]
        caret = "".join(c if c == "\t" else " " for c in before) + "^"
        return RuleError(f"{title}line {line}, column {column}: {message}\n    {part}\n    {caret}", line, column)
