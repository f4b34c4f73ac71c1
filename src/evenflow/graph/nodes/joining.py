"""The node that joins two streams: rows of the same key that come within a window of each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InvalidArgument
from evenflow.graph.build.dialect import Dialect
from evenflow.graph.build.verbs import JoinSpec
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.columns import EVER, NO_TIMES, microseconds, require_time
from evenflow.operators.conform import one_batch
from evenflow.operators.keyed import Keys, Units, UnitState, typed


@dataclass(frozen=True)
class JoinSide:
    """One input of a join."""

    rows: pa.Schema
    key: list[int]
    time: int | None
    kept: list[int]
    """The columns that are in the result, in their order there; of the right side without what `on` gives by one name.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns that are in the result."""
        return pa.schema([self.rows.field(place) for place in self.kept])

    @property
    def stored(self) -> list[int]:
        """The columns that are kept in the window: at least one, since rows without columns cannot be counted."""
        return self.kept or self.key[:1]

    @property
    def window(self) -> pa.Schema:
        """The columns that are kept in the window."""
        return pa.schema([self.rows.field(place) for place in self.stored])


class JoinNode(NodeOperator):
    """Pairs each row with the rows of its key from the other side that are still in the window.

    Results are in the order of the rows that complete them, oldest partner first. A row with a null in its key is
    paired with none, and not kept. It has one unit, or several and one for null keys.

    A window in time has the rows less than `span` from the row's time. When a micro-batch begins, rows leave it that
    are `span` behind what both sides had reached before, in their unit, less the lateness. So it does not matter which
    side is quicker, and a row may be behind the latest one of its side by the lateness. A unit keeps the rows of
    one side while it gets none of the other: what other units have reached says nothing here, since units move, and
    results must not depend on where they are. In a batch DataFrame none leaves.
    """

    kind: ClassVar[str] = "join"
    stateful: ClassVar[bool] = True
    by_batch: ClassVar[bool] = True

    def __init__(
        self, sides: tuple[JoinSide, JoinSide], rows: int, span: int, units: int, schema: pa.Schema, lateness: int = 0
    ) -> None:
        from evenflow.operators.joins.sided_pairs import SidedPairs  # numba comes with it: only those who use it pay

        self.units = units if units == 1 else units + 1
        self.by_rows = not span
        self._sides, self._schema, self._lateness = sides, schema, lateness
        self._pairs = SidedPairs(rows, span, sides[0].window, sides[1].window, told=True)
        self._begun = np.full(self.units, -1, np.int64)
        """By unit, the micro-batch of its latest rows."""
        self._reached = np.full((self.units, 2), EVER, np.int64)
        """By unit and side, its latest time."""

    def key_places(self, side: int) -> list[int]:
        return self._sides[side].key

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        known = self._sides[side]
        columns = [rows.column(place) for place in known.key]
        if any(column.null_count for column in columns):
            whole = reduce(pc.and_, (column.is_valid() for column in columns))
            mask = whole.to_numpy(zero_copy_only=False)
            rows, units, keys = rows.filter(whole), units[mask], keys[mask]
        times = NO_TIMES
        if known.time is not None:
            times = microseconds(rows.column(known.time), known.rows.names[known.time])
            self._pass_time(side, units, times)
        left, right = self._pairs.push_side(side, units, keys, times, rows.select(known.stored))
        chosen = (*left.columns, *right.columns[: len(self._sides[1].kept)])  # the left side keeps what `on` names
        return one_batch(chosen, self._schema)

    def _pass_time(self, side: int, units: Units, times: npt.NDArray[np.int64]) -> None:
        """Note what a side has reached; in a new micro-batch, rows leave by what was reached before."""
        here = np.unique(units)
        new = here[self._begun[here] < self.batch]
        if len(new):
            reached = np.maximum(self._reached[new].min(axis=1), EVER + self._lateness)
            self._pairs.pass_time(new, reached - self._lateness)
            self._begun[new] = self.batch
        np.maximum.at(self._reached[:, side], units, times)

    def tallies(self) -> dict[str, int]:
        return self._pairs.tallies()

    def warm_up(self) -> None:
        from evenflow.operators.aggregates.adding import sample

        actor = self.fresh()
        assert isinstance(actor, JoinNode)
        for side in (0, 1, 0):
            some = sample(self._sides[side].rows).slice(1)
            many = some.take(pa.array(np.zeros(200, np.int64)))  # more keys than there are slots at first
            actor.keys(side, many)
            hashes = np.arange(200, dtype=np.int64)
            actor._pair_up(side, many, hashes)
        actor.sizes(np.array([0], np.int32))
        actor.install(0, actor.extract(0))
        actor._pairs.pass_time(np.array([0], np.int32), np.zeros(1, np.int64))

    def _pair_up(self, side: int, rows: pa.RecordBatch, keys: Keys) -> None:
        """Rows with made-up keys, in unit 0."""
        times = np.zeros(0 if self._sides[side].time is None else len(keys), np.int64)
        kept = rows.select(self._sides[side].stored)
        self._pairs.push_side(side, np.zeros(len(keys), np.int32), keys, times, kept)

    def stored_as(self) -> str:
        sides = [f"{_typed(side.rows, side.key)} of {_typed(side.rows, side.kept)}" for side in self._sides]
        window = f"{self._pairs.most} rows" if not self._pairs.span else f"{self._pairs.span} us"
        return f"join of {' and '.join(sides)} within {window}"

    def extract(self, unit: int) -> UnitState:
        pairs, about = self._pairs.extract(unit), (int(self._begun[unit]), self._reached[unit].tolist())
        self._begun[unit], self._reached[unit] = -1, EVER
        return None if pairs is None else (about, pairs)

    def install(self, unit: int, state: UnitState) -> None:
        if len(state) == 2:  # an earlier version has stored the pairs alone
            (self._begun[unit], self._reached[unit]), state = state
        self._pairs.install(unit, state)

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        return self._pairs.sizes(units)


def bind_join(
    name: str, spec: JoinSpec, left: pa.Schema, right: pa.Schema, dialect: Dialect
) -> tuple[JoinNode, pa.Schema]:
    """The node, and the columns that it gives."""
    who = f"join '{name}'"
    pairs = [
        (dialect.column(left, one, f"the left side of {who}"), dialect.column(right, other, f"the right side of {who}"))
        for one, other in spec.on
    ]
    for one, other in pairs:
        _check_alike(who, left.field(one), right.field(other))
    shared = [(one, other) for (one, other), given in zip(pairs, spec.on, strict=True) if given[0] == given[1]]
    once, dropped = [one for one, _ in shared], {other for _, other in shared}
    kept = [*once, *(place for place in range(len(left)) if place not in once)]
    others = [place for place in range(len(right)) if place not in dropped]
    times = (None, None) if spec.time is None else _times(who, spec.time, left, right, dialect)
    sides = (
        JoinSide(left, [one for one, _ in pairs], times[0], kept),
        JoinSide(right, [other for _, other in pairs], times[1], others),
    )
    schema = pa.schema([*sides[0].schema, *sides[1].schema])
    twice = dialect.twice(schema.names)
    if twice is not None:
        raise InvalidArgument(
            f"{who} would have two columns '{twice}', one of each side: rename one of them with map, before the join"
        )
    return JoinNode(sides, spec.rows or 0, spec.span, spec.units, schema, round(spec.lateness * 1e6)), schema


def _check_alike(who: str, left: pa.Field, right: pa.Field) -> None:
    """Refuse two columns whose values cannot be equal, or cannot be hashed."""
    from evenflow.graph.hashing import check_hashable

    if left.type != right.type:
        raise InvalidArgument(
            f"{who} compares column '{left.name}', which is {left.type}, with '{right.name}', which is {right.type}: "
            "cast one of them with map, before the join"
        )
    for side in (left, right):
        check_hashable(side, f"column '{side.name}' of {who}")


def _times(who: str, names: tuple[str, str], left: pa.Schema, right: pa.Schema, dialect: Dialect) -> tuple[int, int]:
    """The places of the time columns of both sides."""
    found = []
    for side, rows, name in (("left", left, names[0]), ("right", right, names[1])):
        place = dialect.column(rows, name, f"the {side} side of {who}")
        require_time(who, rows.names[place], rows.field(place).type)
        found.append(place)
    return found[0], found[1]


def _typed(rows: pa.Schema, places: list[int]) -> list[str]:
    return list(typed(rows, [rows.names[place] for place in places]))
