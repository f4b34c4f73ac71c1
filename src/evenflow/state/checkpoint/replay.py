"""Reads the rows of one epoch back from the segments of all workers, each unit's in the order they were applied in.

A unit that did not move has all its rows in the log of one worker. A unit that moved has them in several: first in that
of the worker that had it when the epoch began (tenure 0), then in that of the worker it went to by movement M (tenure
M), and so on; movements are numbered in the order in which they happen. So rows are given by tenure: those of tenure 0
as they are read, all others after the logs have been read, in order. If these take too much memory the later tenures
are dropped and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.state.checkpoint.segments import Tenure, read_segment
from evenflow.state.store.base import Store, corrupt

HELD = 64 * 1024 * 1024
"""Bytes of rows held back, at most; rows of a single movement may be more."""

Mask = npt.NDArray[np.bool_]
UnitsOf = Callable[[pa.Array, int], npt.NDArray[np.int32]]
"""The unit of each row, given the column of hashes and the number of units (`evenflow.operators.hosted.units_of`)."""


def replay(
    store: Store, logs: Sequence[Sequence[str]], wanted: Mask, units_of: UnitsOf, held: int = HELD
) -> Iterator[pa.RecordBatch]:
    """The rows of the wanted units, in batches as they came over the wire, with the key's hash in the last column.

    `logs` has the names of the segments of one attempt, a list for each worker (`segment_names`); `wanted` marks units.
    """
    floor, waiting = 0, list(logs)
    while waiting:
        hold = _Hold(held)
        for place, names in enumerate(waiting):
            for tenure, rows in _tenures(store, names, wanted, units_of, floor):
                if tenure:
                    hold.add(tenure, rows, place)
                else:
                    yield rows
        yield from hold.rows()
        if hold.dropped is None:
            return
        floor, waiting = hold.dropped, [waiting[place] for place in hold.places()]


class _Hold:
    """Rows by tenure; if not all fit, those of the lowest tenures."""

    def __init__(self, limit: int) -> None:
        self.dropped: int | None = None
        """Rows of this tenure and above were dropped; None if none were."""
        self._limit = limit
        self._bytes = 0
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._homes: dict[int, set[int]] = {}

    def add(self, tenure: int, rows: pa.RecordBatch, place: int) -> None:
        """Hold rows from the log at `place`, or at least note that it has rows of this tenure."""
        self._homes.setdefault(tenure, set()).add(place)
        if self.dropped is not None and tenure >= self.dropped:
            return
        self._held.setdefault(tenure, []).append(rows)
        self._bytes += rows.nbytes
        while self._bytes > self._limit and len(self._held) > 1:
            self.dropped = max(self._held)
            self._bytes -= sum(batch.nbytes for batch in self._held.pop(self.dropped))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Give away the rows that are held, tenure by tenure."""
        for tenure in sorted(self._held):
            yield from self._held.pop(tenure)

    def places(self) -> list[int]:
        """The places of logs from which rows were dropped."""
        lost = (homes for tenure, homes in self._homes.items() if self.dropped is not None and tenure >= self.dropped)
        return sorted(set().union(*lost))


def _tenures(
    store: Store, names: Sequence[str], wanted: Mask, units_of: UnitsOf, floor: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """One worker's rows of the wanted units in tenures from `floor` up, in the order of its log."""
    tenures = np.zeros(len(wanted), np.int64)
    for name in names:
        _, records = read_segment(store.get(name), name)
        for record in records:
            if isinstance(record, Tenure):
                if any(not 0 <= unit < len(wanted) for unit in record.units):
                    raise corrupt(name, 0, f"it tells of units {record.units} where there are {len(wanted)}")
                tenures[record.units] = record.move
            else:
                yield from _split(record.batch, wanted & (tenures >= floor), tenures, units_of)


def _split(
    batch: pa.RecordBatch, wanted: Mask, tenures: npt.NDArray[np.int64], units_of: UnitsOf
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The wanted rows of one batch, by tenure."""
    units = units_of(batch.column(batch.num_columns - 1), len(wanted))
    for tenure in np.unique(tenures[wanted]).tolist():
        rows = (wanted & (tenures == tenure))[units]
        if rows.all() and not tenure:
            if len(rows):
                yield tenure, batch
        elif rows.any():
            yield (
                tenure,
                batch.filter(pa.array(rows)),
            )  # a copy: held rows must not keep their segment
