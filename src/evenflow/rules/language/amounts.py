"""Builds names, numbers, times and ranges, for which rules may have variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from lark import Token, Transformer, v_args
from lark.tree import Meta

from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Text
from evenflow.rules.language.moments import date_of, time_of
from evenflow.rules.language.variables import Variables

Part: TypeAlias = Any
"""A value that a method of `Builder` has made of a part of the text: the grammar decides its type, unseen by mypy."""
Parts: TypeAlias = list[Part]
SECONDS = {"ms": 1e-3, "mi": 60, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Word(s.Node):
    """A name as it is written, without backquotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time."""

    seconds: float


def at(meta: Meta) -> s.TextPlace:
    """The place of a match of the grammar, for a node."""
    return s.TextPlace(line=0, column=0) if meta.empty else s.TextPlace(line=meta.line, column=meta.column)


@v_args(meta=True)
class AmountBuilder(Transformer[Token, Part]):
    """The part of `Builder` for amounts; a name that is no column may be one of `variables`."""

    def __init__(self, source: Text, variables: Variables) -> None:
        super().__init__()
        self.text, self.variables = source, variables

    def name(self, meta: Meta, parts: Parts) -> Word:
        text = str(parts[0])
        return Word(text[1:-1].replace("``", "`") if text.startswith("`") else text, **at(meta))

    def number_of(self, value: Part, before_unit: bool = False) -> int | float:
        """A number as written, or the value of a variable."""
        if isinstance(value, Word):
            return self.variables.number(value.text, value, self.text, before_unit=before_unit)
        given: int | float = value
        return given

    def rows_of(self, what: str, given: Part, meta: Meta) -> int:
        """A number of rows, from 1 on."""
        value = self.number_of(given)
        if not isinstance(value, int) or value < 1:
            raise self.text.error_at(f"{what} {value} is no number of rows: give one from 1 on", meta.line, meta.column)
        return value

    def whole(self, meta: Meta, parts: Parts) -> int:
        return int(parts[0])

    def variable(self, meta: Meta, parts: Parts) -> Word:
        return Word(str(parts[0]), **at(meta))

    def fraction(self, meta: Meta, parts: Parts) -> float:
        return float(parts[0])

    def duration(self, meta: Meta, parts: Parts) -> Duration:
        seconds = 0.0
        for amount, unit in zip(parts[::2], parts[1::2], strict=True):
            seconds += self.number_of(amount, before_unit=True) * _seconds(str(unit).lower())
        return Duration(seconds)

    def amounts(self, meta: Meta, parts: Parts) -> Duration:
        return self.duration(meta, parts)

    def stretch(self, meta: Meta, parts: Parts) -> s.Stretch:
        return s.Stretch(parts[0].seconds, **at(meta))

    def moment(self, meta: Meta, parts: Parts) -> s.Literal:
        kind, text = parts[0].text.lower(), str(parts[1])[1:-1]
        if kind not in ("date", "timestamp"):
            raise self.text.error(f"'{parts[0].text}' stands before a text: only date and timestamp do", parts[0])
        value = date_of(text) if kind == "date" else time_of(text)
        if value is None:
            such = "2026-01-31" if kind == "date" else "2026-01-31 12:30:00"
            raise self.text.error(f"{kind} '{text}' is none: write it as in {kind} '{such}'", parts[0])
        return s.Literal(value, **at(meta))

    def span_of(self, value: Part) -> float:
        """A time in seconds."""
        return value.seconds if isinstance(value, Duration) else float(self.number_of(value))

    def range(self, meta: Meta, parts: Parts) -> tuple[int | None, int | None, Meta]:
        """The least and the most number of a repetition, each None where it is left out, and the place."""
        if len(parts) == 1:
            parts = [parts[0], ":", parts[0]]
        low = None if parts[0] == ":" else self.number_of(parts[0])
        high = None if parts[-1] == ":" else self.number_of(parts[-1])
        whole = all(isinstance(each, int | None) for each in (low, high))
        if not whole or (low or 0) < 0 or (high is not None and high < max(low or 0, 1)):
            raise self.text.error_at(
                f"[{'' if low is None else low}:{'' if high is None else high}] repeats nothing: give whole numbers "
                "from 1 on, the second not below the first",
                meta.line,
                meta.column + 1,
            )
        return low, high, meta  # type: ignore[return-value]


def _seconds(unit: str) -> float:
    for start in ("ms", "milli", "mi", "m", "s", "h", "d"):
        if unit.startswith(start):
            return SECONDS["ms" if start == "milli" else start]
    raise AssertionError(unit)
