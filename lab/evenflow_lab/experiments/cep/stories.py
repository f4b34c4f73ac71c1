"""Which first stories engines find: rows go through the operator of each engine, and keys move with their state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model import RoutingTable
from evenflow.model.compiled import compiled
from evenflow.sim.keyed.feeding import two_workers
from evenflow.stories.operator import HISTORY, FirstStory
from evenflow_lab.workloads.story_rows import KEYS, StoryRows, first_stories

Longs = npt.NDArray[np.int64]
Move = tuple[float, list[int], int, int]
"""When, which keys, from which engine to which."""


def stories_with_moves(rows: StoryRows, engines: int, moves: list[Move], seconds: float, keys: int = KEYS) -> int:
    """The first stories that engines find while keys move; a move comes at its part of the run, so of the rows."""
    table, operators = rows.table(), [FirstStory(history=HISTORY) for _ in range(engines)]
    owners = RoutingTable.even(keys, range(engines)).owners.copy()
    found = done = 0
    for second, units, source, target in [*moves, (seconds, [], 0, 0)]:
        reached = min(len(rows.keys), round(len(rows.keys) * second / seconds))
        part = table.slice(done, max(0, reached - done))
        found += _by_engine(part, owners[rows.keys[done : max(done, reached)]], operators)
        done = max(done, reached)
        for unit in units:
            state = operators[source].extract(unit)
            if state is not None:  # the key has had rows
                operators[target].install(unit, state)
            owners[unit] = target
    return found


def stories_by_choice(rows: StoryRows, engines: int, counted: npt.NDArray[np.bool_]) -> int:
    """The first stories that engines find when each text goes to the one of two engines that has had fewer (PKG).

    Only those of some rows are counted; where a row goes depends on all of them.
    """
    given = np.zeros(engines, np.int64)
    chosen = np.empty(len(rows.keys), np.int64)
    _choose(rows.keys.astype(np.int64), given, chosen)
    return _by_engine(
        rows.some(counted).table(), chosen[counted], [FirstStory(history=HISTORY) for _ in range(engines)]
    )


def _by_engine(table: pa.Table, engine: npt.NDArray[Any], operators: list[FirstStory]) -> int:
    parts = (table.filter(pa.array(engine == number)) for number in range(len(operators)))
    return sum(len(first_stories(part, operator)) for part, operator in zip(parts, operators, strict=True))


@compiled
def _choose(keys: Any, given: Any, chosen: Any) -> None:
    for row in range(len(keys)):
        one, other = two_workers(keys[row], len(given))
        pick = one if given[one] <= given[other] else other
        given[pick] += 1
        chosen[row] = pick
