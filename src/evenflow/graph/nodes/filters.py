"""Several filters as one node, applied in the order that costs least; the order follows the rows while they flow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from evenflow.graph.nodes.filtering import Condition
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.keyed import Keys, Units

DECAY = 0.95
"""What a measurement counts for when the next one comes."""
EXPLORE = 16
"""Every so many batches one filter goes first out of turn, so that it is measured on rows that no other has chosen."""


@dataclass
class Measurement:
    """What one filter costs and lets through: sums over batches, in which older batches count less."""

    rows: float = 0.0
    passed: float = 0.0
    seconds: float = 0.0

    def add(self, rows: int, passed: int, seconds: float) -> None:
        """Another batch."""
        self.rows = self.rows * DECAY + rows
        self.passed = self.passed * DECAY + passed
        self.seconds = self.seconds * DECAY + seconds

    @property
    def selectivity(self) -> float:
        """The part of the rows that passes; 1 as long as nothing is known."""
        return self.passed / self.rows if self.rows else 1.0

    @property
    def cost(self) -> float:
        """Seconds a row."""
        return self.seconds / self.rows if self.rows else 0.0

    @property
    def rank(self) -> float:
        """The cost over (1 - selectivity), seconds per row that is dropped: rising ranks are the cheapest order.

        0 as long as nothing is known, so that every filter gets rows soon.
        """
        if not self.rows:
            return 0.0
        dropped = 1.0 - self.selectivity
        return self.cost / dropped if dropped else math.inf


class Filters(NodeOperator):
    """Filters that commute: a row passes if it passes all of them, whatever their order.

    They are applied by rising rank. Every row meets a filter at most once, also in batches in which one goes first out
    of turn.
    """

    kind: ClassVar[str] = "filter"

    def __init__(self, conditions: Sequence[Condition], clock: Callable[[], float] = time.perf_counter) -> None:
        self._conditions, self._clock = list(conditions), clock
        self._measured = [Measurement() for _ in conditions]
        self._batches = 0

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        for place in self._turn():
            if not rows.num_rows:
                break
            start = self._clock()
            kept = self._conditions[place].kept(rows)
            self._measured[place].add(rows.num_rows, kept.num_rows, self._clock() - start)
            rows = kept
        return rows

    def warm_up(self) -> None:
        for condition in self._conditions:
            condition.warm_up()

    def measured(self) -> list[tuple[str, Measurement]]:
        """The filters in their order, by name, with what was measured of each."""
        return [(self._conditions[place].name, self._measured[place]) for place in self._order()]

    def _order(self) -> list[int]:
        return sorted(range(len(self._conditions)), key=lambda place: self._measured[place].rank)

    def _turn(self) -> list[int]:
        """The order for the next batch."""
        order = self._order()
        self._batches += 1
        turn, out_of_turn = divmod(self._batches, EXPLORE)
        if not out_of_turn:
            first = turn % len(order)
            order.remove(first)
            order.insert(0, first)
        return order
