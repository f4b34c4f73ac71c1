"""Operators that live by time, and a run of `Timed` whose units move between copies all the time."""

import pickle

import numpy as np
import pyarrow as pa

from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.time.timed import Timed, tick_fields

GAP = 10_000_000
"""Microseconds without a row that end a session."""
SESSIONS = pa.schema({"who": pa.int64(), "start": pa.int64(), "end": pa.int64(), "n": pa.int64()})


class Sessions(KeyedOperator):
    """Rows of one key less than GAP apart, as a user would write it: who, first and last second, how many."""

    def __init__(self):
        self.open = {}  # unit -> key -> [who, start, end, n]

    def schema(self, rows):
        return SESSIONS

    def process(self, rows, units, keys):
        done = []
        whos, times = rows["who"].to_pylist(), micros(rows["at"])
        for unit, key, who, at in zip(units.tolist(), keys.tolist(), whos, times, strict=True):
            mine = self.open.setdefault(unit, {})
            if key in mine and at - mine[key][2] >= GAP:
                done.append(mine.pop(key))
            session = mine.setdefault(key, [who, at, at, 0])
            session[2], session[3] = at, session[3] + 1
        return sessions(done)

    def on_time(self, now, units):
        return self._close(units, lambda session: session[2] + GAP <= now)

    def on_end(self, units):
        return self._close(units, lambda session: True)

    def _close(self, units, over):
        done = []
        for unit in units.tolist():
            mine = self.open.get(unit, {})
            for key in [key for key, session in mine.items() if over(session)]:
                done.append(mine.pop(key))
            if not mine:
                self.open.pop(unit, None)
        return sessions(done)

    def extract(self, unit):
        return self.open.pop(unit, None)

    def install(self, unit, state):
        self.open[unit] = state


def sessions(found):
    columns = list(zip(*found, strict=True)) or [()] * 4
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=SESSIONS)


def micros(column):
    """Of seconds, or of timestamps."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [int(value * 1_000_000) for value in column.to_pylist()]


def expected_sessions(whos, times):
    """Of seconds: (who, start, end, n) in microseconds."""
    found, running = [], {}
    for at, who in sorted(zip(times, whos, strict=True)):
        at = int(at * 1_000_000)
        if who in running and at - running[who][2] >= GAP:
            found.append(tuple(running.pop(who)))
        session = running.setdefault(who, [who, at, at, 0])
        session[2], session[3] = at, session[3] + 1
    return sorted(found + [tuple(session) for session in running.values()])


class World:
    """Copies of a `Timed`, rows that go to whoever owns their unit, and units that move."""

    def __init__(
        self, inner, rows, order, *, timed=False, units=8, copies=1, seed=0, result=None, mine=None, inputs=None
    ):
        mine = range(len(rows)) if mine is None else mine
        schema = result or inner.schema(pa.schema([rows.field(place) for place in mine]))
        self.code = pickle.dumps(Timed(inner, rows, mine, order, timed, units, schema, inputs))
        self.told = [field.name for field in tick_fields(inputs)]
        self.copies = [pickle.loads(self.code) for _ in range(copies)]
        self.units = units
        self.random = np.random.default_rng(seed)
        self.owner = np.zeros(units, np.int64)
        self.results = []

    def feed(self, rows, keys):
        """Rows in pieces of any length, with moves between them."""
        keys = np.asarray(keys, np.int64)
        units = (keys % self.units).astype(np.int32)
        for places in self._cut(len(keys)):
            self._move()
            for number, copy in enumerate(self.copies):
                mine = places[self.owner[units[places]] == number]
                batch = copy.whole(rows.take(pa.array(mine)))
                self.results.append(copy.process(batch, units[mine], keys[mine]))

    def tick(self, *now):
        """The time; with inputs, it is followed by what each has reached, and the driver's clock."""
        for places in self._cut(self.units):
            self._move()
            for number, copy in enumerate(self.copies):
                mine = places[self.owner[places] == number]
                told = [pa.array(np.full(len(mine), each)) for each in now]
                batch = copy.whole(pa.RecordBatch.from_arrays(told, names=self.told[: len(now)]))
                self.results.append(copy.process(batch, mine.astype(np.int32), mine))

    def rows(self):
        """All results so far."""
        return pa.Table.from_batches(self.results).to_pylist()

    @property
    def late(self):
        return sum(copy.tallies().get("late", 0) for copy in self.copies)

    def _cut(self, count):
        cuts = np.sort(self.random.integers(0, count + 1, int(self.random.integers(0, 5))))
        return np.split(np.arange(count), cuts)

    def _move(self):
        for unit in np.flatnonzero(self.random.random(self.units) < 0.3).tolist() if len(self.copies) > 1 else ():
            target = int(self.random.integers(0, len(self.copies)))
            source = self.copies[self.owner[unit]]
            looked = pickle.dumps(source.snapshot(unit))
            state = source.extract(unit)
            assert (state is None) == (pickle.loads(looked) is None)
            assert source.extract(unit) is None
            if state is not None:
                self.copies[target].install(unit, pickle.loads(pickle.dumps(state)))
            self.owner[unit] = target
