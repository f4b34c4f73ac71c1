"""Keyed operators: state per key, kept in units that can be taken out of one worker and put into another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Units = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Origin = npt.NDArray[np.int64]
Result: TypeAlias = pa.RecordBatch | tuple[pa.RecordBatch, Origin]
UnitState: TypeAlias = Any
"""The state of a unit as `extract` returns it, or a part of it: each operator has its own form, which is pickled."""


class KeyedOperator(ABC):
    """The base class of operators for `Cluster.keyed`; subclass it, and keep all state by unit.

    `Cluster.keyed` pickles the object it is given; every worker starts each evaluation from a copy of that. A copy gets
    the rows of the units its worker owns; rows of one key from one Spark partition come in their order. The smallest
    useful one:

        class Running(KeyedOperator):
            def __init__(self):
                self.totals = {}  # unit -> key -> total

            def process(self, rows, units, keys):  # a batch with many keys
                ...
                return result

            def extract(self, unit):
                return self.totals.pop(unit, None)

            def install(self, unit, state):
                self.totals[unit] = state

    `evenflow.testing.check_operator` checks that extract and install fit together.
    """

    content_sensitive: ClassVar[bool] = True
    """Whether all rows of one key must go to one worker. If not, several may take them (`balance="river"`)."""
    order_sensitive: ClassVar[bool] = True
    """Whether results depend on the order in which rows of one key come. If so, `order_by=` makes them the same every
    time; without it, rows of several Spark partitions meet in the order of arrival, and a warning says so."""
    hashed: tuple[str, ...] = ()
    """Columns whose 64-bit hashes the operator needs; its rows come with further columns `xxhash64(name)`."""

    naming: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold column names: users may write these in any case, as in Spark."""

    inputs: tuple[str, tuple[str, ...]] | None = None
    """Where rows of several streams come as one: the column that tells the stream of a row, and the names of the
    streams (the column holds these names, or numbers from 0 on). Event time is that of the slowest stream."""
    waits: bool = True
    """Whether rows wait for their time where there is a `lateness=`. False if results do not depend on the order of
    rows, and `on_time` only drops state that is no longer needed."""

    adds: ClassVar[bool] = False
    """Whether the result is always the given rows, in their order, with further columns. Then only the new columns are
    sent back to the feeder."""

    into: Any = ()
    """With `adds`: the name or names of the further columns."""
    other_name: ClassVar[str] = "give another into="
    """What to do if the rows have a column of that name already."""

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        """The columns that `process` needs (all by default); others are not sent to the workers."""
        return list(rows.names)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the result, given those of the rows. Needed where `Cluster.keyed` is not told a schema."""
        raise NotImplementedError(f"{type(self).__name__} does not say what columns it returns: give keyed a schema")

    def warm_up(self, rows: pa.Schema) -> None:  # noqa: B027 - nothing to do is a fine default
        """Compile and import all that the first row would otherwise wait for; state must stay empty."""

    def planned(self, *, ansi: bool) -> KeyedOperator:
        """The operator as it is to run in a session with this `spark.sql.ansi.enabled`: itself, or a copy."""
        return self

    @abstractmethod
    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> Result:
        """Process rows and return the result.

        `units` and `keys` hold the unit and the key of each row (a 64-bit hash, the same for equal keys; the key itself
        with `spread="modulo"`). Rows of one key are in order. State must be kept so that `extract` finds all that
        belongs to a unit.

        A result with as many rows as came in is taken to correspond to them one to one. Otherwise, where order matters
        (`ordered=True`), return the result and, for each of its rows, the position of the row it comes from; positions
        must not decrease.
        """

    def on_time(self, now: int, units: Units) -> pa.RecordBatch | None:
        """Event time has reached `now` for these units: no row of theirs with an earlier time comes any more.

        Called where `Cluster.keyed` is given `order_by=` and `lateness=`, with many units at once and after all their
        rows before `now` went through `process`; also for units that never had a row. `now` is in microseconds since
        1970 (UTC) and never decreases for a unit. The result has the same columns as that of `process` and is treated
        the same way. It must not depend on how units are grouped into calls. Not called unless overridden.
        """
        return None

    def on_end(self, units: Units) -> pa.RecordBatch | None:
        """No more rows of these units will ever come: the end of a batch DataFrame, where there is `order_by=`.

        Like `on_time` with an infinite `now`. A stream has no end: its state is kept for the next run.
        """
        return None

    def on_late(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch | None:
        """Rows whose time is earlier than the last `now`: they are counted as late and do not go through `process`.

        What is returned is treated as a result; nothing by default.
        """
        return None

    @abstractmethod
    def extract(self, unit: int) -> UnitState:
        """Remove a unit's state from this copy and return it: a picklable value, or None if there is none."""

    @abstractmethod
    def install(self, unit: int, state: UnitState) -> None:
        """Add the state that another copy's `extract` returned for this unit."""

    def snapshot(self, unit: int) -> UnitState:
        """A unit's state as `extract` returns it, without removing it. It is pickled before any other call."""
        state = self.extract(unit)
        if state is not None:
            self.install(unit, state)
        return state

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of state of each unit, roughly; 0 where that is not known."""
        return np.array([self.size(int(unit)) for unit in units], dtype=np.int64)

    def size(self, unit: int) -> int:
        """Bytes of state of one unit, roughly."""
        return 0

    def tallies(self) -> dict[str, int]:
        """Named counts since this copy was made; their sums over workers are in snapshots and in the event log."""
        return {}


def overrides(operator: KeyedOperator, method: str) -> bool:
    """Whether an operator's class overrides a method of `KeyedOperator`."""
    return getattr(type(operator), method) is not getattr(KeyedOperator, method)


def identity(operator: KeyedOperator) -> str:
    """A text that is the same for operators that may share stored state: the class and its public attributes."""
    given = {
        name: value
        for name, value in sorted(vars(operator).items())
        if not name.startswith("_") and isinstance(value, (str, int, float, bool, tuple, list, dict, set, frozenset))
    }
    inside = ", ".join(f"{name}={_shown(value)}" for name, value in given.items() if value not in ((), [], {}, set()))
    return f"{type(operator).__qualname__}({inside})"


def typed(rows: pa.Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Columns with their types, for texts that tell stored state apart. The zone of times plays no part in state."""
    kinds = [(name, rows.field(name).type) for name in names]
    return tuple(f"{name} {'timestamp' if getattr(kind, 'tz', None) else kind}" for name, kind in kinds)


def _shown(value: object) -> str:
    """The `repr` of a value, with sets in an order that is the same in every process."""
    match value:
        case set() | frozenset():
            inside = "{" + ", ".join(sorted(map(_shown, value))) + "}"
            return inside if isinstance(value, set) else f"frozenset({inside})"
        case dict():
            return "{" + ", ".join(f"{_shown(key)}: {_shown(each)}" for key, each in value.items()) + "}"
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case tuple():
            return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
