"""The past in bounded room: columns of figures over time that get coarser as they get longer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

MOST_STEPS = 720
"""Steps that are kept: when there are more, two neighbours become one."""
MOST_COLUMNS = 640
"""Columns that are kept: 64 workers in some regions, and the totals. New ones take the place of the oldest."""

Figure = float | None


class Chronicle:
    """Figures by column and step; a step is `step_s` seconds long, which doubles whenever the history is full.

    `generation` counts the doublings, and how often columns were given up: whoever holds a copy can go on from its end
    as long as it stays the same.
    """

    def __init__(self, most: int = MOST_STEPS, generation: int = 0) -> None:
        self.step_s = 1.0
        self.generation = generation
        self.times: list[float] = []
        self.columns: dict[str, list[Figure]] = {}
        self._most = most

    def add(self, time: float, figures: Mapping[str, Figure]) -> None:
        """Append a step; columns that it does not name have no figure there."""
        if len(self.times) >= self._most:
            self._halve()
        new = figures.keys() - self.columns.keys()
        if new and len(self.columns) + len(new) > MOST_COLUMNS:
            self._give_up(len(new), figures)
        for name in new:
            if len(self.columns) < MOST_COLUMNS:
                self.columns[name] = [None] * len(self.times)
        self.times.append(time)
        for name, column in self.columns.items():
            column.append(figures.get(name))

    def _give_up(self, needed: int, figures: Mapping[str, Figure]) -> None:
        """Drop columns of regions, those first whose last figure is oldest; some more, so that this happens rarely."""
        idle = [name for name in self.columns if ":" in name and not name.startswith("load:") and name not in figures]
        idle.sort(key=lambda name: _last_figure(self.columns[name]))
        for name in idle[: max(needed, MOST_COLUMNS // 8)]:
            del self.columns[name]
        self.generation += bool(idle)

    def mean(self, column: str, since: float, until: float, only_above: float = -1.0) -> Figure:
        """The mean of a column between two times, of figures above a limit; None if there are none."""
        found = [figure for figure in self._between(column, since, until) if figure > only_above]
        return sum(found) / len(found) if found else None

    def most(self, column: str, since: float, until: float) -> Figure:
        """The largest figure of a column between two times; None if nothing is known of it."""
        return max(self._between(column, since, until), default=None)

    def _between(self, column: str, since: float, until: float) -> list[float]:
        first, last = bisect_right(self.times, since), bisect_right(self.times, until)
        return [figure for figure in self.columns.get(column, ())[first:last] if figure is not None]

    def since(self, place: int) -> dict[str, object]:
        """All steps from a place on, as the page takes them."""
        columns = {name: column[place:] for name, column in self.columns.items()}
        known = {name: column for name, column in columns.items() if any(each is not None for each in column)}
        return {
            "generation": self.generation,
            "step_s": self.step_s,
            "from": place,
            "times": self.times[place:],
            "columns": known,
        }

    def _halve(self) -> None:
        self.step_s *= 2
        self.generation += 1
        self.times = self.times[1::2] if len(self.times) % 2 == 0 else [*self.times[1::2], self.times[-1]]
        for name, column in self.columns.items():
            pairs = zip(column[::2], [*column[1::2], None], strict=False)
            self.columns[name] = [_merged(pair, name == "p99") for pair in pairs]


def _last_figure(column: list[Figure]) -> int:
    """The place of the last figure of a column; -1 if it has none."""
    return next((place for place in reversed(range(len(column))) if column[place] is not None), -1)


def _merged(pair: tuple[Figure, Figure], worst: bool) -> Figure:
    """Two figures as one: the higher of them, or their mean; of one that is not known, the other."""
    known = [figure for figure in pair if figure is not None]
    if not known:
        return None
    return max(known) if worst else sum(known) / len(known)
