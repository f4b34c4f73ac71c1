"""Replay against a plain model: units that move among workers, segments cut anywhere, memory for little or nothing."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import CorruptState
from evenflow.operators.hosted import units_of
from evenflow.state.checkpoint.replay import replay
from evenflow.state.checkpoint.segments import SegmentWriter
from tests.support.state_memory import Memory

SCHEMA = pa.schema({"row": pa.int64(), "hash": pa.int64()})
UNITS, WORKERS = 5, 3

rows = st.lists(st.integers(0, UNITS - 1), max_size=6)
moves = st.tuples(st.sets(st.integers(0, UNITS - 1), min_size=1), st.integers(0, WORKERS - 1))
cuts = st.integers(0, WORKERS - 1)
steps = st.lists(rows | moves | cuts, max_size=30)


class World:
    """Workers that own units, log what they get, and take over units from each other."""

    def __init__(self):
        self.owner = [unit % WORKERS for unit in range(UNITS)]
        self.expected = defaultdict(list)
        self.store, self.names = Memory(), [[] for _ in range(WORKERS)]
        self.writers = [SegmentWriter(SCHEMA) for _ in range(WORKERS)]
        self.next_row = self.moves = 0

    def feed(self, units):
        """Rows of these units, in this order, in one frame to each owner."""
        numbers = range(self.next_row, self.next_row + len(units))
        self.next_row += len(units)
        for worker in range(WORKERS):
            mine = [(row, unit) for row, unit in zip(numbers, units, strict=True) if self.owner[unit] == worker]
            for row, unit in mine:
                self.expected[unit].append(row)
            hashes = [None if unit == UNITS - 1 else unit for _, unit in mine]
            columns = [pa.array([row for row, _ in mine], pa.int64()), pa.array(hashes, pa.int64())]
            self.writers[worker].rows(memoryview(pa.record_batch(columns, SCHEMA).serialize()))

    def move(self, units, target):
        self.moves += 1
        self.writers[target].tenure(self.moves, sorted(units))
        for unit in units:
            self.owner[unit] = target

    def cut(self, worker):
        name = f"log/{worker}.{len(self.names[worker])}"
        self.store.put(name, self.writers[worker].finish())
        self.names[worker].append(name)
        self.writers[worker] = SegmentWriter(SCHEMA)


def played(steps):
    world = World()
    for step in steps:
        match step:
            case list():
                world.feed(step)
            case (units, target):
                world.move(units, target)
            case worker:
                world.cut(worker)
    for worker in range(WORKERS):
        world.cut(worker)
    return world


def found(world, wanted, held):
    """Rows by unit, in the order of the replay."""
    mask = np.isin(np.arange(UNITS), list(wanted))
    seen = defaultdict(list)
    for batch in replay(world.store, world.names, mask, units_of, held):
        assert batch.num_rows
        assert batch.schema == SCHEMA
        for row, unit in zip(batch["row"].to_pylist(), units_of(batch["hash"], UNITS).tolist(), strict=True):
            seen[unit].append(row)
    return seen


@given(steps, st.sets(st.integers(0, UNITS - 1)), st.sampled_from([0, 1, 40, 100, 1 << 20]))
def test_every_unit_gets_its_rows_in_order(steps, wanted, held):
    world = played(steps)
    assert found(world, wanted, held) == {unit: rows for unit, rows in world.expected.items() if unit in wanted}


def there_and_back(count):
    """A unit that goes round the workers, a row between any two moves."""
    world = World()
    for place in range(count):
        world.feed([1])
        world.move({1}, place % WORKERS)
    for worker in range(WORKERS):
        world.cut(worker)
    return world


def test_what_does_not_fit_is_read_again():
    world = there_and_back(30)
    for held, passes in ((1 << 20, 1), (16 * 10, 3), (0, 29)):
        world.store.reads.clear()
        assert found(world, {1}, held) == {1: list(range(30))}
        assert len(world.store.reads) <= passes * WORKERS


def test_rows_that_stand_still_are_not_held_or_copied():
    world = World()
    world.feed([0, 0])
    world.move({2}, 0)
    world.feed([0, 2])
    for worker in range(WORKERS):
        world.cut(worker)
    stream = replay(world.store, world.names, np.ones(UNITS, np.bool_), units_of)
    assert next(stream)["row"].to_pylist() == [0, 1]
    assert len(world.store.reads) == 1
    assert [batch["row"].to_pylist() for batch in stream] == [[2], [3]]


def test_tenures_outlive_their_segment():
    world = World()
    world.feed([1])
    world.move({1}, 0)
    world.cut(0)
    world.feed([1, 0])
    for worker in range(WORKERS):
        world.cut(worker)
    assert found(world, {0, 1}, 1 << 20) == {0: [2], 1: [0, 1]}


def test_no_logs_and_no_units():
    assert list(replay(Memory(), [], np.ones(UNITS, np.bool_), units_of)) == []
    world = played([[0, 1, 2]])
    assert list(replay(world.store, world.names, np.zeros(UNITS, np.bool_), units_of)) == []


def test_units_that_cannot_be():
    world = World()
    world.writers[0].tenure(1, [UNITS])
    for worker in range(WORKERS):
        world.cut(worker)
    with pytest.raises(CorruptState, match=r"blob log/0\.0 .* units \[5\] where there are 5"):
        found(world, {0}, 100)


def test_damage_ends_the_replay():
    world = there_and_back(5)
    name = world.names[1][0]
    world.store.blobs[name] = world.store.blobs[name][:-40]
    with pytest.raises(CorruptState, match=name):
        found(world, {1}, 100)
