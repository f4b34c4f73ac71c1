"""The window that the views behind a stream's name define."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.errors import nearest
from evenflow.rules.language.errors import Text
from evenflow.rules.language.syntax import Column, Source, View

EVERYTHING, LENGTH, TIME, LENGTH_BATCH, TIME_BATCH = "everything", "length", "time", "length_batch", "time_batch"
VIEWS = ("std:lastevent", "std:groupwin", "win:length", "win:time", "win:length_batch", "win:time_batch")


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a key in a window: the last `rows`, or those less than `span` microseconds old."""

    kind: str = EVERYTHING
    rows: int = 0
    span: int = 0
    groups: tuple[str, ...] = ()
    """The columns of std:groupwin: each combination of their values has a window of its own."""
    last: bool = False
    """Whether it is std:lastevent."""

    @property
    def batch(self) -> bool:
        """Whether rows leave all together."""
        return self.kind in (LENGTH_BATCH, TIME_BATCH)

    @property
    def timed(self) -> bool:
        """Whether it needs the rows' time."""
        return self.kind in (TIME, TIME_BATCH)


def window(source: Source, text: Text) -> Window:
    """The window of a source; RuleError if its views are not valid."""
    groups: tuple[str, ...] = ()
    found: Window | None = None
    for view in source.views:
        name = f"{view.space}:{view.name}".lower()
        if name not in VIEWS:
            raise text.error(f"unknown view '{view.space}:{view.name}'; {nearest(name, VIEWS)}", view)
        if found is not None:
            raise text.error(f"{name} comes after another window: a stream has one, and std:groupwin before it", view)
        if name == "std:groupwin":
            groups += _columns(view, text)
        elif name == "std:lastevent":
            if view.arguments:
                raise text.error("std:lastevent() takes no argument", view)
            found = Window(LENGTH, rows=1, groups=groups, last=True)
        elif "time" in name:
            found = Window(view.name.lower(), span=_microseconds(view, text), groups=groups)
        else:
            found = Window(view.name.lower(), rows=_rows(view, text), groups=groups)
    if groups and found is None:
        raise text.error("std:groupwin needs a window behind it, such as win:length(100)", source.views[-1])
    return found or Window()


def grouping(source: Source, name: str) -> Column:
    """The column `name` of std:groupwin, placed where it stands in the text."""
    view = next(view for view in source.views if name in view.arguments)
    return Column(None, name, line=view.line, column=view.column)


def _columns(view: View, text: Text) -> tuple[str, ...]:
    if view.timed or not view.arguments or not all(isinstance(each, str) for each in view.arguments):
        raise text.error("std:groupwin takes the names of columns, such as std:groupwin(symbol)", view)
    return tuple(str(each) for each in view.arguments)


def _rows(view: View, text: Text) -> int:
    value = view.arguments[0] if len(view.arguments) == 1 and not view.timed else None
    if not isinstance(value, int) or not 1 <= value < 1 << 31:
        raise text.error(f"{view.space}:{view.name} takes a number of rows from 1 to 2147483647{_unknown(value)}", view)
    return value


def _microseconds(view: View, text: Text) -> int:
    value = view.arguments[0] if len(view.arguments) == 1 else None
    if isinstance(value, str) or value is None or not 1e-6 <= value <= 1e9:
        name = f"{view.space}:{view.name}"
        raise text.error(
            f"{name} takes a time, such as {name}(10 sec), of at most 1000000000 sec (11574 days){_unknown(value)}",
            view,
        )
    return round(value * 1e6)


def _unknown(value: object) -> str:
    """What to say of a name where a number belongs."""
    return f"; '{value}' is no variable: give it by variables={{'{value}': ...}}" if isinstance(value, str) else ""
