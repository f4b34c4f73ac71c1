"""Rows of units: as values, and in scratch files, from which those of each group of units are read by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.scratch.files import Part, Segment

BUFFER = 1 << 20
"""Bytes that are written at a time, about."""

Numbers: TypeAlias = npt.NDArray[np.int64]
Bounds: TypeAlias = tuple[int, int]
"""The place of the first row, and the one after the last."""
NewFile: TypeAlias = Callable[[], Segment]
"""Makes a file without entries: `Spill.segment`."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitRows:
    """Rows, and for each its unit and its key; subclasses have further arrays with a number for each row."""

    rows: pa.RecordBatch
    units: npt.NDArray[np.int32]
    keys: Numbers

    def __len__(self) -> int:
        return len(self.units)

    def pick(self, places: npt.NDArray[np.integer]) -> Self:
        """A copy of the rows at some places."""
        return type(self)(
            rows=self.rows.take(pa.array(places)), **{name: array[places] for name, array in self._numbers().items()}
        )

    def part(self, start: int, stop: int) -> Self:
        """Consecutive rows; nothing is copied."""
        some = slice(start, stop)
        rows = self.rows.slice(start, stop - start)
        return type(self)(rows=rows, **{name: array[some] for name, array in self._numbers().items()})

    def packed(self) -> pa.RecordBatch:
        """One batch of the rows' columns and, behind them, one column without a name for each array."""
        numbers = [pa.array(array) for array in self._numbers().values()]
        fields = [*self.rows.schema, *(pa.field("", column.type) for column in numbers)]
        return pa.RecordBatch.from_arrays([*self.rows.columns, *numbers], schema=pa.schema(fields))

    @classmethod
    def unpacked(cls, batch: pa.RecordBatch) -> Self:
        """The reverse of `packed`."""
        names = cls._names()
        width = batch.num_columns - len(names)
        numbers = {name: batch.column(width + place).to_numpy() for place, name in enumerate(names)}
        return cls(rows=batch.select(list(range(width))), **numbers)

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The rows of all parts, one part after the other; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        rows = pa.concat_batches([part.rows for part in parts])
        names = cls._names()
        return cls(rows=rows, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in cls.__dataclass_fields__ if name != "rows"]

    def _numbers(self) -> dict[str, npt.NDArray[Any]]:
        return {name: getattr(self, name) for name in self._names()}


class RowFile:
    """Rows in a scratch file, with an entry for each group of units."""

    def __init__(self, batch: pa.RecordBatch, bounds: Mapping[int, Bounds], file: NewFile) -> None:
        """Write a batch in which the rows of each group lie within its bounds; with a SpillError no file is left."""
        self._schema = batch.schema
        self._plain = not any(_has_dictionary(field.type) for field in batch.schema)
        """Whether batches can be written without their schema."""
        self._segment = file()
        items: list[tuple[int, list[Part]]] = []
        size = 0
        try:
            for group, (start, stop) in bounds.items():
                piece = batch.slice(start, stop - start)
                content = piece.serialize() if self._plain else _stream(piece)
                items.append((group, [content]))
                size += content.size
                if size >= BUFFER:
                    self._segment.append(items)
                    items, size = [], 0
            self._segment.append(items)
        except BaseException:
            self.drop(list(self._segment.entries))
            raise

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._segment.live

    def read(self, groups: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """The rows of each of some groups; they stay."""
        for _, (content,) in self._segment.read(groups):
            if self._plain:
                yield pa.ipc.read_record_batch(pa.py_buffer(content), self._schema)
            else:
                yield one(pa.ipc.open_stream(pa.py_buffer(content)).read_all())

    def drop(self, groups: Iterable[int]) -> None:
        """Forget some groups; the file is removed with the last of them."""
        self._segment.drop(groups)


def bounds_of(groups: npt.NDArray[np.integer]) -> dict[int, Bounds]:
    """Where each group's rows lie, given the group of each row, in order."""
    return {int(groups[start]): (start, stop) for start, stop in runs(groups)}


def runs(values: npt.NDArray[np.integer]) -> list[Bounds]:
    """The bounds of each series of equal neighbours."""
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)).tolist()
    return list(zip(starts, [*starts[1:], len(values)], strict=True)) if starts else []


def order_of(values: npt.NDArray[np.integer]) -> Numbers:
    """A stable order of the values; in linear time if they are close to each other."""
    least = int(values.min())
    if int(values.max()) - least < 1 << 16:
        return np.argsort((values - least).astype(np.uint16), kind="stable")
    return np.argsort(values, kind="stable")


def joined_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all batches as one batch, also where they have dictionaries of their own."""
    return batches[0] if len(batches) == 1 else one(pa.Table.from_batches(batches))


def one(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    columns = table.unify_dictionaries().columns
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in columns], schema=table.schema)


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))
