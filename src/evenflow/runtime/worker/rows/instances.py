"""Instances of keyed operators on a worker: state in memory, or within the worker's budget (`state.paging`).

With a budget answers come in parts: rows for units on disk wait, and are answered when their units are brought back, at
the latest when their feeder asks for it (`drain`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.graph.hosted import GraphState
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator, Keys, Origin, Units
from evenflow.scratch.files import sweep
from evenflow.state.paging.operator import Operator
from evenflow.state.paging.paged import Paged
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.processing import Done
from evenflow.state.paging.rotation import Gap

Instance = KeyedOperator | Paged
"""An instance of an operator, which has the state of one evaluation."""
Tag = Any
"""Names a frame in its answers, or anything else: it is given back as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Results of a frame, or of some of its rows."""

    tag: Tag
    """Names the frame."""
    batch: pa.RecordBatch
    origin: Origin | None
    """For each result, the place in the frame of the row that it comes from; None if the feeder does not need it."""
    last: bool
    """Whether these are the last results of the frame."""


class Instances:
    """Makes instances of operators, and has the pool they share.

    State that does not fit goes to the directory for temporary files; files that killed workers left there are removed.
    """

    def __init__(
        self, budget: int | None = None, clock: Callable[[], float] = time.perf_counter, t_gap: Gap = None
    ) -> None:
        self._clock, self._t_gap = clock, t_gap
        self.pool = Pool(budget) if budget else None
        if budget:
            sweep(tempfile.gettempdir())
            pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own keeps a third of a budget of freed rows

    def fresh(self, hosted: Hosted) -> Instance:
        """An instance without state."""
        if self.pool is None:
            return hosted.fresh()
        where, gap = tempfile.gettempdir(), self._t_gap
        return Paged(hosted, self.pool, where, self._clock, ordered=hosted.ordered, t_gap=gap)


def apply(state: Instance, port: int, rows: pa.RecordBatch, units: Units, local: Units, keys: Keys) -> pa.RecordBatch:
    """Apply rows to the node of a graph's port: rows of units on disk after the others, when these are in memory.

    `units` are numbered through the graph, `local` within the node; `local` and `keys` are empty without keys.
    """
    graph = graph_of(state)
    if not isinstance(state, Paged):
        return graph.apply(port, rows, local, keys)
    given = []
    for part in state.parts(np.broadcast_to(units, rows.num_rows)):  # to its end: a part is weighed after it was given
        if part.all():
            given.append(graph.apply(port, rows, local, keys))
        else:
            given.append(graph.apply(port, rows.filter(pa.array(part)), local[part], keys[part]))
    return given[0] if len(given) == 1 else pa.concat_batches(given)


def operator_of(state: Instance) -> Operator:
    """The operator whose state it is, wherever that is kept."""
    return state.operator if isinstance(state, Paged) else state


def graph_of(state: Instance) -> GraphState:
    """The state of a graph, wherever it is kept."""
    found = operator_of(state)
    if not isinstance(found, GraphState):
        raise ProtocolError("rows of a graph came for another operator")
    return found


def process(state: Instance, hosted: Hosted, tag: Tag, rows: pa.RecordBatch, units: Units, keys: Keys) -> list[Answer]:
    """Apply the rows of a frame; returns answers to this frame and to earlier ones."""
    if isinstance(state, Paged) and isinstance(state.operator, GraphState):  # rows of a log
        for part in state.parts(units):
            mine = rows.filter(pa.array(part)), units[part], keys[part] if len(keys) else keys
            hosted.process(state.operator, *mine, ordered=False)
        return [Answer(tag, rows.slice(0, 0), None, True)]
    if isinstance(state, Paged):
        return answers(hosted, state.process(tag, rows, units, keys))
    out, origin = hosted.process(state, rows, units, keys, hosted.ordered)
    return [Answer(tag, out, origin, True)]


def answers(hosted: Hosted, done: list[Done]) -> list[Answer]:
    """The results of paged state as answers."""
    told = hosted.ordered or hosted.adds
    return [
        Answer(
            each.tag, each.batch, (each.places if each.origin is None else each.origin) if told else None, not each.left
        )
        for each in done
    ]


def let_go(state: Instance | None) -> None:
    """Drop an instance, and the files of its state."""
    if isinstance(state, Paged):
        state.close()
