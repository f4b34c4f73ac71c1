"""Drops state that no later row can see, as time passes: empty time windows, and the latest times of idle keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from evenflow.operators.columns import EVER
from evenflow.operators.compiled import grown
from evenflow.operators.keyed import Units
from evenflow.operators.windows.arena import LATEST
from evenflow.operators.windows.rings import Rings
from evenflow.rules.windows.clock import Counter, KeyClocks
from evenflow.rules.windows.grouped import Grouped
from evenflow.rules.windows.memory import Memory

SHARE = 4
"""Windows are searched when time has moved on by 1/SHARE of their span; they may stay that much longer than needed."""
MINUTE = 60_000_000
Lapsed: TypeAlias = KeyClocks | Rings | Memory
"""The states that go by time."""


class Lapsing:
    """Drops the state of keys that get no more rows. Results are the same with and without it.

    No row comes with a time before the time that has been reached. So a window whose latest row is a span behind that
    time has no effect any more; nor has a key's latest time that is before it.
    """

    def __init__(self, states: Iterable[object]) -> None:
        spans = {state: _span(state) for state in states if isinstance(state, Lapsed)}
        longest = max((span for span in spans.values() if span), default=MINUTE)
        self._steps = {state: (span or longest) // SHARE for state, span in spans.items() if span is not None}
        self._seen = {state: np.full(1, EVER, np.int64) for state in self._steps}

    def pass_time(self, units: Units, now: int) -> None:
        """Time has reached `now`, in microseconds, for these units."""
        reach = int(units.max(initial=0)) + 1
        for state, step in self._steps.items():
            seen = self._seen[state]
            if len(seen) < reach:
                seen = self._seen[state] = grown(seen, 2 * reach, EVER)
            due = units[seen[units] < now - step]
            if len(due):
                seen[due] = now
                _lapse(state, due, now)


def _span(state: Lapsed) -> int | None:
    """The span of a state's windows in microseconds; 0 if it holds only times, None if it does not go by time."""
    if isinstance(state, KeyClocks):
        return 0
    if isinstance(state, Grouped) and isinstance(state.reached, Counter):
        return None  # rows leave by number, not by time
    return state.span or None


def _lapse(state: Lapsed, units: Units, now: int) -> None:
    if isinstance(state, Memory):
        state.lapse(units, now)
        return
    slots = state.slots.of(units)
    over = (
        state.values[slots] <= now if isinstance(state, KeyClocks) else state.rings[slots, LATEST] <= now - state.span
    )
    gone = slots[over]
    if len(gone):
        state.forget(gone)
