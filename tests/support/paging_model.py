"""Operators to page, rows for them, and a run of paged copies that is checked against one plain copy."""

import numpy as np
import pyarrow as pa

from evenflow.operators.aggregates.distinct import DistinctCount
from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.aggregates.rolling import RollingMean
from evenflow.operators.hosted import Hosted
from evenflow.operators.joins.join import WindowJoin
from evenflow.operators.keyed import KeyedOperator
from evenflow.scratch.files import pack
from evenflow.state.paging.paged import Paged
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.sizing import bytes_of


class Clock:
    """Time that passes when somebody looks."""

    def __init__(self, step=0.001):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


class Accounts(KeyedOperator):
    """All values of each key in a dict, as a user would write it; it does not tell sizes."""

    def __init__(self):
        self.values = {}

    def schema(self, rows):
        return pa.schema({"n": pa.int64(), "v": pa.float64()})

    def process(self, rows, units, keys):
        out = []
        for unit, key, value in zip(units.tolist(), keys.tolist(), rows["v"].to_pylist(), strict=True):
            seen = self.values.setdefault(unit, {}).setdefault(key, [])
            seen.append(value)
            out.append(len(seen))
        return pa.record_batch({"n": pa.array(out, pa.int64()), "v": rows["v"]})

    def extract(self, unit):
        return self.values.pop(unit, None)

    def install(self, unit, state):
        assert unit not in self.values
        self.values[unit] = state


class Thirds(Accounts):
    """Tells every third row of a key and nothing of others, nor where they come from."""

    def schema(self, rows):
        return pa.schema({"key": pa.int64(), "count": pa.int64()})

    def process(self, rows, units, keys):
        found = []
        for unit, key in zip(units.tolist(), keys.tolist(), strict=True):
            seen = self.values.setdefault(unit, {})
            seen[key] = seen.get(key, 0) + 1
            if seen[key] % 3 == 0:
                found.append((key, seen[key]))
        return pa.record_batch(
            {
                "key": pa.array([key for key, _ in found], pa.int64()),
                "count": pa.array([count for _, count in found], pa.int64()),
            }
        )


OPERATORS = {
    "mean": lambda: RollingMean("v", rows=20),
    "time": lambda: RollingMean("v", seconds=5, time="t"),
    "last": lambda: LastValue("name"),
    "distinct": lambda: DistinctCount("v"),
    "join": lambda: WindowJoin("side", "L", "R", rows=3),
    "accounts": Accounts,
}


def rows_of(random, count):
    """Rows that any of the operators can take."""
    values = np.round(random.normal(size=count), 1)
    names = [None if value > 1 else f"{value:.1f}" * (1 + int(abs(value) * 5)) for value in values]
    return pa.record_batch(
        {
            "v": pa.array(values),
            "xxhash64(v)": pa.array((values * 10).astype(np.int64)),
            "t": pa.array(np.cumsum(random.random(count))),
            "name": pa.array(names, pa.string()),
            "side": pa.array(np.where(random.random(count) < 0.5, "L", "R")),
        }
    )


def hosted(operator, rows, units):
    schema = operator.schema(rows.schema)
    if operator.adds:
        schema = pa.schema([schema.field(len(schema) - 1)])
    return Hosted(operator, rows.schema, schema, units, operator.adds)


def paged(host, tmp_path, budget, *, pool=None, ordered=True, t_gap=None, clock=None):
    return Paged(host, Pool(budget) if pool is None else pool, tmp_path, clock or Clock(), ordered=ordered, t_gap=t_gap)


def plain(host, batches):
    """What one copy with all memory in the world gives for batches of (rows, units, keys), each by place."""
    operator = host.fresh()
    found = {}
    for tag, (rows, units, keys) in enumerate(batches):
        out, origin = host.process(operator, rows, units, keys, True)
        places = np.arange(rows.num_rows) if origin is None else origin
        found[tag] = list(zip(places.tolist(), out.to_pylist(), strict=True))
    return found


class Collected:
    """Results as they come; each row of each batch may be done once."""

    def __init__(self, batches):
        self.results = {tag: [] for tag in range(len(batches))}
        self.done = {tag: np.zeros(batch[0].num_rows, int) for tag, batch in enumerate(batches)}
        self.parts = {}
        """By tag, where a batch has been cut: which batch it is, and the places there of its rows."""

    def take(self, given):
        for each in given:
            tag, places = self.parts.get(each.tag, (each.tag, np.arange(1 << 16)))
            done = places[each.places]
            self.done[tag][done] += 1
            assert (self.done[tag] <= 1).all()
            origin = done if each.origin is None else places[each.origin]
            assert set(origin.tolist()) <= set(done.tolist())
            self.results[tag] += zip(origin.tolist(), each.batch.to_pylist(), strict=True)

    def check(self, expected):
        assert all((done == 1).all() for done in self.done.values())
        for tag, results in self.results.items():
            assert sorted(results, key=lambda each: each[0]) == expected[tag]


def state_bytes(host, batches):
    """What the state of each unit takes in the end, and what the largest took at any time."""
    operator = host.fresh()
    every = np.arange(host.units, dtype=np.int32)
    largest = 1
    for rows, units, keys in batches:
        host.process(operator, rows, units, keys, True)
        largest = max(largest, int(operator.sizes(every).max()))
    sizes = operator.sizes(every)
    for unit in every.tolist():
        state = operator.extract(unit)
        real = sum(memoryview(part).nbytes for part in pack(state)) if state is not None else 0
        sizes[unit] = max(sizes[unit], real, bytes_of(state))
    return sizes, max(largest, int(sizes.max()))


def batches_of(seed, count, most, keys, units):
    """Batches of rows, the units of the rows and their keys."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        size = int(random.integers(0, most + 1))
        which = random.integers(0, keys, size)
        made.append((rows_of(random, size), (which % units).astype(np.int32), which * 2**33 - 5))
    return made
