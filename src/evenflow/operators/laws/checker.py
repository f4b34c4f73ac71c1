"""The laws that `evenflow.testing.check_operator` checks."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.columns import Array
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.laws.runs import LawRun, Places, bag, same, same_table

NULL_HASH = 42
"""Spark's xxhash64 of null."""


class Trial:
    """One operator and one sample of rows, on which runs of the operator are compared."""

    def __init__(
        self,
        operator: KeyedOperator,
        rows: object,
        *,
        key: str | Sequence[str],
        units: int,
        rounds: int,
        copies: int,
        seed: int,
        time: str | None = None,
    ) -> None:
        if not isinstance(operator, KeyedOperator):
            raise InvalidArgument(
                f"operator is {type(operator).__name__}: give an object of a subclass of KeyedOperator"
            )
        for name, value in (("units", units), ("rounds", rounds), ("copies", copies)):
            if value < 1:
                raise InvalidArgument(f"{name} is {value}: give at least 1")
        self.operator, self.name = operator, type(operator).__name__
        sample = _batch(rows)
        names = [key] if isinstance(key, str) else list(key)
        for name in [*names, *operator.hashed]:
            if name not in sample.schema.names:
                raise InvalidArgument(f"column '{name}' does not exist; there are: {', '.join(sample.schema.names)}")
        hashes = sum((_hash(sample, name) * np.uint64(2 * place + 1) for place, name in enumerate(names)), np.uint64(0))
        self.keys = np.asarray(hashes, np.uint64).view(np.int64)
        self.units = (self.keys.view(np.uint64) % np.uint64(units)).astype(np.int32)
        self.schema = sample.schema
        for name in operator.hashed:
            sample = sample.append_column(f"xxhash64({name})", pa.array(_hash(sample, name).view(np.int64)))
        self.rows = sample
        self.count, self.rounds, self.copies = units, rounds, copies
        self.time = time
        """The column of the time, which the laws for time need."""
        self.random = np.random.default_rng(seed)
        self._columns: dict[tuple[str, ...], pa.Schema] = {}
        """The columns of results, by the columns that the operator was given."""

    def run(self) -> None:
        """Check all laws: results must be the same as those of one copy that gets all rows in one batch."""
        everything = np.arange(self.rows.num_rows)
        whole = self._gather(self._process(self._copy(), everything))
        self._check_schema(whole)
        self._check_columns(whole)
        self._check_units(whole)
        for _ in range(self.rounds):
            lone = self._copy()
            cut = self._gather(part for batch in self._cut(everything) for part in self._process(lone, batch))
            self._compare(whole, cut, "batches", "its results change when the rows are cut into other batches")
            moved = self._gather(self._moving(everything))
            self._compare(
                whole, moved, "move", "its results change when units are moved: extract or install loses state"
            )

    def _check_schema(self, whole: LawRun) -> None:
        try:
            schema = self.operator.schema(self.schema)
        except NotImplementedError:
            return
        if self.rows.num_rows and not whole.rows.schema.equals(schema):
            self._fail("operator", f"schema() tells\n{schema}\nand results have\n{whole.rows.schema}")

    def _check_columns(self, whole: LawRun) -> None:
        """Check what `reads` and `adds` promise, where the operator has them."""
        rows, read = self.rows, list(self.operator.reads(self.rows.schema))
        if self.operator.adds:
            own = whole.rows.select(list(range(min(len(self.schema), whole.rows.num_columns))))
            if not same_table(own, pa.Table.from_batches([rows.select(range(len(self.schema)))])):
                self._fail("columns", "it says that it only adds columns, and its results do not begin with its rows")
        if len(read) == rows.num_columns:
            return
        missing = [name for name in read if name not in rows.schema.names]
        if missing:
            self._fail("columns", f"reads() names {missing[0]!r}; there are: {', '.join(rows.schema.names)}")
        self.rows = rows.select([name for name in rows.schema.names if name in read])
        try:
            partial = self._gather(self._process(self._copy(), np.arange(rows.num_rows)))
        except KeyError as error:
            self._fail("columns", f"process needs a column that reads() does not name: {error}")
        finally:
            self.rows = rows
        if self.operator.adds:
            whole = LawRun(_after(whole.rows, self.schema.names), whole.origin)
            partial = LawRun(_after(partial.rows, self.schema.names), partial.origin)
        self._compare(whole, partial, "columns", "its results change when it is given only the columns it reads")

    def _check_units(self, whole: LawRun) -> None:
        alone = self._gather(
            part
            for unit in range(self.count)
            for part in self._process(self._copy(), np.flatnonzero(self.units == unit))
        )
        self._compare(whole, alone, "units", "its results change with the rows of other units")

    def _moving(self, places: Places) -> Iterator[tuple[pa.RecordBatch, Places | None]]:
        """Results of several copies; units move between them before every batch."""
        copies = [self._copy() for _ in range(self.copies + 1)]
        owner = self.random.integers(0, len(copies), self.count)
        begun = np.zeros(self.count, np.bool_)
        for batch in self._cut(places):
            self._shuffle(copies, owner, begun)
            for place, copy in enumerate(copies):
                yield from self._process(copy, batch[owner[self.units[batch]] == place])
            begun[self.units[batch]] = True
        for unit in range(self.count):
            self._move(unit, copies[owner[unit]], copies[0], bool(begun[unit]))

    def _shuffle(self, copies: list[KeyedOperator], owner: Places, begun: npt.NDArray[np.bool_]) -> None:
        """Move about half of the units, each to a copy drawn at random; `owner` is brought up to date."""
        for unit in np.flatnonzero(self.random.random(self.count) < 0.5).tolist() if len(copies) > 1 else ():
            target = int(self.random.integers(0, len(copies)))
            self._move(unit, copies[owner[unit]], copies[target], bool(begun[unit]))
            owner[unit] = target

    def _move(self, unit: int, source: KeyedOperator, target: KeyedOperator, begun: bool) -> None:
        self._check_sizes(source)
        state = source.extract(unit)
        if state is not None and not begun:
            self._fail("empty", "extract gives something for a unit that has had no rows: return None", unit)
        left = source.extract(unit)
        if left is not None:
            self._fail("empty", f"extract leaves state behind: called again it gives {left!r:.100}", unit)
        if state is None:
            return
        try:
            state = pickle.loads(pickle.dumps(state, pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            self._fail("pickle", f"what extract gives, {type(state).__name__}, cannot be pickled: {error}", unit)
        target.install(unit, state)

    def _check_sizes(self, copy: KeyedOperator) -> None:
        sizes = np.asarray(copy.sizes(np.arange(self.count, dtype=np.int32)))
        if sizes.shape != (self.count,) or (sizes < 0).any():
            self._fail(
                "operator", f"sizes() of {self.count} units gives {sizes!r:.100}: give a number of bytes for each"
            )

    def _copy(self) -> KeyedOperator:
        try:
            copy: KeyedOperator = pickle.loads(pickle.dumps(self.operator, pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            self._fail("operator", f"it cannot be pickled: {error}")
        return copy

    def _cut(self, places: Places) -> list[Places]:
        """The places in order, cut into batches of random lengths; the first batch is empty."""
        most = self.random.choice([1, 3, 10, 100, len(places) + 1])
        lengths = [0]
        while sum(lengths) < len(places):
            lengths.append(int(self.random.integers(0, most + 1)) or 1)
        return np.split(places, np.cumsum(lengths)[:-1])

    def _process(self, copy: KeyedOperator, places: Places) -> Iterator[tuple[pa.RecordBatch, Places | None]]:
        """The results for the rows at `places`, and the place each comes from; None if the operator does not tell."""
        size = f"a batch of {len(places)} rows" if len(places) else "an empty batch"
        try:
            result: object = copy.process(self.rows.take(pa.array(places)), self.units[places], self.keys[places])
        except Exception as error:
            error.add_note(f"{self.name}.process raised this for {size}, while check_operator tried it")
            raise
        batch, origin = result if isinstance(result, tuple) else (result, None)
        if not isinstance(batch, pa.RecordBatch):
            self._fail("operator", f"process gives {type(batch).__name__} for {size}: give a pyarrow.RecordBatch")
        first = self._columns.setdefault(tuple(self.rows.schema.names), batch.schema)
        if not batch.schema.equals(first):
            self._fail("operator", f"results for {size} have other columns:\n{batch.schema}\ninstead of\n{first}")
        if origin is not None:
            yield batch, places[self._check_origin(batch, np.asarray(origin), len(places))]
        else:
            yield batch, places if batch.num_rows == len(places) else None

    def _check_origin(self, batch: pa.RecordBatch, origin: Array, count: int) -> Array:
        if len(origin) != batch.num_rows:
            self._fail("origin", f"there are {batch.num_rows} result rows and {len(origin)} origins")
        if not len(origin):
            return np.empty(0, np.int64)
        if origin.dtype.kind not in "iu":
            self._fail("origin", f"origins are {origin.dtype}: give whole numbers")
        if origin.min() < 0 or origin.max() >= count:
            self._fail("origin", f"origins run from {origin.min()} to {origin.max()} in a batch of {count} rows")
        if (np.diff(origin.astype(np.int64)) < 0).any():
            self._fail("origin", "origins fall: give results in the order of the rows they come from")
        return origin

    def _gather(self, parts: Iterable[tuple[pa.RecordBatch, Places | None]]) -> LawRun:
        batches, origins = zip(*parts, strict=True)
        rows = pa.Table.from_batches(list(batches))
        if any(origin is None for origin in origins):
            return LawRun(rows, None)
        origin = np.concatenate(origins)
        order = np.argsort(origin, kind="stable")
        return LawRun(rows.take(pa.array(order)), origin[order])

    def _compare(self, expected: LawRun, found: LawRun, law: str, wrong: str) -> None:
        if expected.origin is None or found.origin is None:
            if bag(expected.rows) != bag(found.rows):
                self._fail(law, f"{wrong} (in some unit: results do not tell the rows they come from)")
            return
        if np.array_equal(expected.origin, found.origin) and same_table(expected.rows, found.rows):
            return
        for unit in range(self.count):
            ours, theirs = self._part(expected, unit), self._part(found, unit)
            if not same(ours, theirs):
                if bag(expected.rows) == bag(found.rows):
                    law, wrong = "origin", "the same results are said to come from other rows"
                place = next(i for i in range(len(ours) + 1) if not same(ours[i : i + 1], theirs[i : i + 1]))
                one, other = (str(rows[place : place + 1])[1:-1] or "nothing" for rows in (ours, theirs))
                self._fail(law, f"{wrong}; (row, result) {one:.300} became {other:.300}", unit)

    def _part(self, outcome: LawRun, unit: int) -> list[tuple[int, object]]:
        """The results of a unit's rows, as (place, result)."""
        assert outcome.origin is not None
        places = np.flatnonzero(self.units[outcome.origin] == unit)
        rows = outcome.rows.take(pa.array(places)).to_pylist()
        return list(zip(outcome.origin[places].tolist(), rows, strict=True))

    def _fail(self, law: str, wrong: str, unit: int | None = None) -> NoReturn:
        where = "" if unit is None else f", unit {unit}"
        raise AssertionError(f"{self.name} breaks law '{law}'{where}: {wrong}")


def _after(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows without the columns of these names."""
    return rows.drop_columns([name for name in names if name in rows.column_names])


def _batch(rows: object) -> pa.RecordBatch:
    table = pa.Table.from_pandas(rows, preserve_index=False) if isinstance(rows, pd.DataFrame) else rows
    if isinstance(table, pa.Table):
        parts = [pa.concat_arrays(column.chunks or [pa.array([], column.type)]) for column in table.columns]
        return pa.RecordBatch.from_arrays(parts, schema=table.schema)
    if not isinstance(table, pa.RecordBatch):
        raise InvalidArgument(f"rows is {type(rows).__name__}: give a RecordBatch, a Table or a DataFrame")
    return table


def _hash(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each value, equal for equal values."""
    column = rows.column(name)
    text = np.array([repr(value) for value in column.to_pylist()], dtype=object)
    hashes: npt.NDArray[np.uint64] = pd.util.hash_array(text, categorize=False)
    hashes[~column.is_valid().to_numpy(zero_copy_only=False)] = NULL_HASH
    return hashes
