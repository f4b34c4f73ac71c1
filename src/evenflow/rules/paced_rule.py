"""Rules with OUTPUT: of each key, only the first or last result of every n, or of every stretch of time, comes out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.rules.expressions.frame import Columns, Moment, Results, RuleFrame
from evenflow.rules.language import syntax as s
from evenflow.rules.language.errors import Text
from evenflow.rules.language.printing import show
from evenflow.rules.match_rule import MatchRule
from evenflow.rules.windows.batches import OpenBatches, Released
from evenflow.rules.windows.clock import Counter, Paces
from evenflow.rules.world import BoundRule, World

Longs = npt.NDArray[np.int64]


class PacedRule:
    """Thins out the results of another rule, `inner`, for each key: the first or the last of each stretch is passed on.

    A stretch is n results, or a time. The first result of a stretch is passed on at once; the last one with the n-th
    result, or when the time is over. Times begin at multiples of their length (UTC), as in win:time_batch.
    """

    def __init__(self, rule: s.Rule, text: Text, inner: BoundRule, world: World) -> None:
        assert rule.pace is not None
        self._inner, self._pace = inner, rule.pace
        self.output, self.reads, self._lateness = inner.output, inner.reads, world.lateness
        self._span = 0 if rule.pace.seconds is None else round(rule.pace.seconds * 1e6)
        if self._span and not world.timed:
            raise text.error("OUTPUT by time needs the time of the rows: give time=", rule.pace)
        self._state = world.states.share(("pace", text.name, show(rule)), self._made_state)

    def _made_state(self) -> Counter | Paces | OpenBatches:
        if not self._span:
            return Counter()
        if self._pace.which == "first":
            return Paces(self._span)
        batches = OpenBatches(0, self._span)
        batches.columns |= {str(place) for place in range(len(self.output.names))}
        return batches

    def process(self, frame: RuleFrame) -> Results:
        """The results that pass: first ones, n-th ones, or the last ones of stretches that end with these rows."""
        found = self._inner.process(frame)
        units, keys = frame.units[found.places], frame.keys[found.places]
        if isinstance(self._state, OpenBatches):
            return self._kept(self._state, found, frame)
        if isinstance(self._state, Paces):
            passing = self._state.begins(units, keys, frame.times[found.places])
        else:
            many = self._pace.events or 1
            passing = self._state.push(units, keys) % many == (1 % many if self._pace.which == "first" else 0)
        index = pa.array(np.flatnonzero(passing))
        return Results([column.take(index) for column in found.columns], found.places[passing])

    def on_time(self, moment: Moment) -> Results | None:
        """The last results of the stretches that have ended by now; None if there are none."""
        if isinstance(self._inner, MatchRule):
            self._inner.on_time(moment)  # no results, without timer:interval; old matches are forgotten
        if not isinstance(self._state, OpenBatches):
            return None
        released = self._state.leave(moment.units, moment.now)
        return None if released is None else self._last(released)

    def _kept(self, batches: OpenBatches, found: Results, frame: RuleFrame) -> Results:
        rows = pa.record_batch({str(place): column for place, column in enumerate(found.columns)})
        places = found.places
        marks = frame.latest[places] - self._lateness
        released = batches.enter(
            frame.units[places], frame.keys[places], rows, index=None, times=frame.times[places], marks=marks
        )
        if released is None:
            return Results([pa.array([], item.type) for item in self.output.items], np.empty(0, np.int64))
        last = self._last(released)
        return Results(last.columns, places[last.places])

    def _last(self, released: Released) -> Results:
        """The last row of each batch."""
        ends = np.append(np.flatnonzero(np.diff(released.batch)), len(released.batch) - 1)
        columns = Columns(released.table).at(ends)
        return Results([columns["", str(place)] for place in range(len(self.output.names))], released.ends)
