"""The values of the names that a rule leaves open, such as the H and the tau of `win:length(H)` and `... <= tau`."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Placed, Text

Value = bool | int | float | str | Decimal | date | timedelta
_GREEK = re.compile(r"GREEK (SMALL|CAPITAL) LETTER (\w+)")


class Variables:
    """Values by name. In a rule, a variable stands for its value as if that were written there.

    A name is taken as it is written or, if only one fits, in another case; a Greek letter may be given by its name, so
    that `tau` is the variable for a rule that is printed with the letter. `used` are the names that rules have read.
    """

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        if not isinstance(given, Mapping | None):
            raise InvalidArgument(f"variables={given!r:.100}: give a dict of values by their names")
        self.values = {name: _checked(name, value) for name, value in sorted((given or {}).items(), key=repr)}
        self.used: set[str] = set()

    def find(self, name: str, at: Placed, text: Text) -> Value | None:
        """The value of a variable; None if there is none of this name."""
        found = _fitting(name, self.values)
        if len(found) > 1:
            raise text.error(f"variable '{name}' may be {' or '.join(map(repr, found))}: write it as one of them", at)
        self.used.update(found)
        return self.values[found[0]] if found else None

    def literal(self, name: str, at: Placed, text: Text) -> s.Expression | None:
        """The value of a variable as a constant of a rule; None if there is none of this name."""
        value = self.find(name, at, text)
        if value is None:
            return None
        place = s.TextPlace(line=at.line, column=at.column)
        if isinstance(value, bool | str | date):
            return s.Literal(value, **place)
        if isinstance(value, timedelta):
            return s.Stretch(value.total_seconds(), **place)
        number: int | float | Decimal = value
        size = -number if number < 0 else number
        written = format(size, "f") if isinstance(size, Decimal) else repr(size)
        literal = s.Literal(size if isinstance(size, int) else float(size), written, **place)
        return s.Unary("-", literal, **place) if number < 0 else literal

    def number(self, name: str, at: Placed, text: Text, *, before_unit: bool = False) -> int | float:
        """The value of a variable that stands for a number or, if no unit follows, for a time in seconds."""
        value = self.find(name, at, text)
        if value is None:
            there = f"; there are: {', '.join(self.values)}" if self.values else ""
            raise text.error(f"unknown variable '{name}': give it by variables={{'{name}': ...}}{there}", at)
        if isinstance(value, timedelta) and before_unit:
            raise text.error(f"variable '{name}' is a span of time: leave out the unit behind it", at)
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, bool | str | date):
            raise text.error(f"variable '{name}' is {value!r}: a number is needed here", at)
        return float(value) if isinstance(value, Decimal) else value

    def check_used(self) -> None:
        """Refuse variables that no rule has read."""
        unused = [name for name in self.values if name not in self.used]
        if unused:
            raise InvalidArgument(f"variables has '{unused[0]}', which no rule uses: leave it out")

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse variables with the name of a column: a rule could mean either."""
        for name in self.values:
            same = [column for column in columns if _spelled(column).lower() == _spelled(name).lower()]
            if same:
                raise InvalidArgument(
                    f"variables has '{name}', and there is a column '{same[0]}': give the variable another name"
                )


def _checked(name: object, value: object) -> Value:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"variables has the name {name!r}: give a string")
    if isinstance(value, np.datetime64 | np.timedelta64):  # `item` would turn nanoseconds into whole numbers
        value = value.astype(f"{type(value).__name__}[us]")
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, Value) or (plain != plain and not isinstance(plain, float | Decimal)):
        raise InvalidArgument(
            f"variables has {name}={value!r:.100}: give a number, a text, a boolean, a date, a datetime or a timedelta"
        )
    if isinstance(plain, float | Decimal) and not math.isfinite(plain):
        raise InvalidArgument(f"variables has {name}={value!r}: give a number that can be written down")
    return plain


def _fitting(name: str, known: Iterable[str]) -> list[str]:
    """The known names that `name` may mean; one if it is clear."""
    names, wanted = list(known), _spelled(name)
    exact = [name] if name in names else [other for other in names if _spelled(other) == wanted]
    return exact or [other for other in names if _spelled(other).lower() == wanted.lower()]


def _spelled(name: str) -> str:
    """A name; for a Greek letter the name of the letter, capitalised for a capital letter."""
    found = _GREEK.fullmatch(unicodedata.name(name, "")) if len(name) == 1 else None
    if found is None:
        return name
    return found[2].lower() if found[1] == "SMALL" else found[2].capitalize()
