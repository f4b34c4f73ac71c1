"""Rows that wait for their time: in order, whatever the arrival; on time; late; moved."""

import math

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.aggregates.rolling import RollingMean
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.time.ordering import arranged
from evenflow.operators.time.timed import END, FLUSH, Timed
from evenflow.testing import check_operator
from tests.support.timed_model import SESSIONS, Sessions, World, expected_sessions, sessions

ROWS = pa.schema({"who": pa.int64(), "at": pa.int64(), "v": pa.float64()})
S = 1_000_000


def sample(count, seed=0, span=200, keys=12):
    random = np.random.default_rng(seed)
    columns = random.integers(0, keys, count), random.integers(0, span, count), random.integers(0, 100, count) / 2
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=ROWS)


class Seen(KeyedOperator):
    """The rows as they are seen, numbered by key."""

    def __init__(self):
        self.counts = {}

    def schema(self, rows):
        return rows.append(pa.field("n", pa.int64()))

    def process(self, rows, units, keys):
        numbers = []
        for unit, key in zip(units.tolist(), keys.tolist(), strict=True):
            mine = self.counts.setdefault(unit, {})
            mine[key] = mine.get(key, 0) + 1
            numbers.append(mine[key])
        return rows.append_column("n", pa.array(numbers, pa.int64()))

    def extract(self, unit):
        return self.counts.pop(unit, None)

    def install(self, unit, state):
        self.counts[unit] = state

    def sizes(self, units):
        return np.array([100 * len(self.counts.get(unit, ())) for unit in units.tolist()], np.int64)


class Keeps(Seen):
    """Late rows come out, with -1 for their number."""

    def on_late(self, rows, units, keys):
        return rows.append_column("n", pa.array([-1] * rows.num_rows, pa.int64()))


def keys_of(rows):
    return rows["who"].to_numpy()


def seen(world):
    """By key, the rows in the order of their numbers."""
    rows = sorted(world.rows(), key=lambda row: (row["who"], row["n"]))
    return [tuple(row.values()) for row in rows]


def shuffled(rows, seed):
    return rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", [[1], [1, 2], [2], [1, 0, 2]])
def test_order_does_not_depend_on_arrival_nor_on_moves(seed, order):
    rows = sample(300, span=20)  # many at the same time
    plain = World(Seen(), ROWS, order)
    plain.feed(rows, keys_of(rows))
    plain.tick(FLUSH)
    other = World(Seen(), ROWS, order, copies=3, seed=seed)
    mixed = shuffled(rows, seed)
    other.feed(mixed, keys_of(mixed))
    assert other.rows() == []
    other.tick(FLUSH)
    assert seen(other) == seen(plain)
    by_order = [(row[0], *(row[place] for place in order)) for row in seen(plain)]
    assert by_order == sorted(by_order)
    assert len(by_order) == 300


@pytest.mark.parametrize("seed", range(3))
def test_an_operator_that_adds_sees_the_same_as_sorted_rows(seed):
    rows = sample(400)
    operator = RollingMean("v", rows=5)
    ordered = rows.sort_by([("at", "ascending"), ("who", "ascending"), ("v", "ascending")])
    keys = keys_of(ordered)
    want = operator.process(ordered, (keys % 8).astype(np.int32), keys).to_pylist()
    world = World(RollingMean("v", rows=5), ROWS, [1], copies=3, seed=seed)
    mixed = shuffled(rows, seed)
    world.feed(mixed, keys_of(mixed))
    world.tick(END)
    assert sorted(map(repr, world.rows())) == sorted(map(repr, want))
    assert len(want) == 400


def test_nulls_come_first_and_nan_last():
    values = [2.0, None, math.nan, -math.inf, -0.0, 0.0, math.inf, -3.5]
    schema = pa.schema({"who": pa.int64(), "v": pa.float64()})
    rows = pa.RecordBatch.from_arrays([pa.array([1] * 8), pa.array(values)], schema=schema)
    for seed in range(5):
        world = World(Seen(), schema, [1])
        mixed = shuffled(rows, seed)
        world.feed(mixed, keys_of(mixed))
        world.tick(FLUSH)
        got = [row[1] for row in seen(world)]
        assert repr(got) == repr([None, -math.inf, -3.5, -0.0, 0.0, 2.0, math.inf, math.nan])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["b", "a", None, "ä", ""]),
        (pa.decimal128(5, 2), [3, 1, None, -2]),
        (pa.date32(), [3, None, 1]),
        (pa.bool_(), [True, None, False]),
        (pa.float32(), [1.5, None, -1.5]),
        (pa.binary(), [b"b", b"a"]),
        (pa.timestamp("us", "UTC"), [5, 3, None]),
    ],
)
def test_types_that_rows_are_ordered_by(kind, values):
    schema = pa.schema({"who": pa.int64(), "v": kind})
    columns = [pa.array([1] * len(values)), pa.array(values, kind)]
    world = World(Seen(), schema, [1])
    world.feed(pa.RecordBatch.from_arrays(columns, schema=schema), [1] * len(values))
    world.tick(FLUSH)
    got = [row[1] for row in seen(world)]
    assert got == sorted(got, key=lambda value: (value is not None, value if value is not None else 0))


def test_ties_go_by_all_that_is_in_a_row():
    schema = pa.schema({"who": pa.int64(), "at": pa.int64(), "tags": pa.list_(pa.string()), "f": pa.float64()})
    tags = [["b"], ["a", "c"], None, ["a"], []]
    floats = [0.0, -0.0, math.nan, None, 1.0]
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1] * 5), pa.array([7] * 5), pa.array(tags), pa.array(floats)], schema=schema
    )
    got = set()
    for seed in range(8):
        world = World(Seen(), schema, [1])
        mixed = shuffled(rows, seed)
        world.feed(mixed, keys_of(mixed))
        world.tick(FLUSH)
        got.add(repr(seen(world)))
    assert len(got) == 1


@pytest.mark.parametrize("seed", range(4))
def test_rows_wait_across_batches_and_late_ones_are_counted(seed):
    rows = sample(600, seed, span=300)
    at = rows["at"].to_numpy()
    arrival = np.argsort(at + np.random.default_rng(seed).integers(0, 40, len(at)), kind="stable")
    arrived = rows.take(pa.array(arrival))
    plain, moved = (World(Keeps(), ROWS, [1], timed=True, copies=copies, seed=seed) for copies in (1, 3))
    latest, clock, late = 0, -math.inf, 0
    for start in range(0, 600, 100):
        part = arrived.slice(start, 100)
        late += int((part["at"].to_numpy() < clock).sum())
        latest = max(latest, int(part["at"].to_numpy().max()))
        clock = max(clock, latest - 15)
        for world in (plain, moved):
            world.feed(part, keys_of(part))
            world.tick((latest - 15) * S)
            out = [row for row in world.rows() if row["n"] > 0]
            assert max(row["at"] for row in out) < clock
            assert len(world.rows()) == int((arrived.slice(0, start + 100)["at"].to_numpy() < clock).sum())
    for world in (plain, moved):
        world.tick(END)
        assert len(world.rows()) == 600
        assert world.late == late == sum(row["n"] < 0 for row in world.rows())
    assert late > 0
    on_time = [row for row in seen(plain) if row[3] > 0]
    assert on_time == [row for row in seen(moved) if row[3] > 0]
    assert [row[:2] for row in on_time] == sorted(row[:2] for row in on_time)


def test_late_rows_are_dropped_unless_the_operator_has_on_late():
    world = World(Seen(), ROWS, [1], timed=True)
    rows = pa.RecordBatch.from_pydict({"who": [1, 1], "at": [50, 100], "v": [0.0, 0.0]}, schema=ROWS)
    world.feed(rows, [1, 1])
    world.tick(90 * S)
    world.feed(rows, [1, 1])
    world.tick(90 * S)
    assert [row["at"] for row in world.rows()] == [50]
    assert world.late == 1
    world.tick(END)
    assert [row["at"] for row in world.rows()] == [50, 100, 100]


def test_time_does_not_go_back():
    world = World(Sessions(), ROWS, [1], timed=True, result=SESSIONS)
    rows = pa.RecordBatch.from_pydict({"who": [1, 2], "at": [50, 100], "v": [0.0, 0.0]}, schema=ROWS)
    world.feed(rows, [1, 2])
    world.tick(90 * S)
    world.tick(20 * S)
    early = pa.RecordBatch.from_pydict({"who": [1], "at": [30], "v": [0.0]}, schema=ROWS)
    world.feed(early, [1])
    world.tick(20 * S)
    assert world.late == 1
    assert [row["who"] for row in world.rows()] == [1]


@pytest.mark.parametrize("seed", range(4))
def test_sessions_come_out_when_time_has_passed(seed):
    rows = sample(400, seed, span=900, keys=5)
    whos, times = rows["who"].to_pylist(), rows["at"].to_pylist()
    want = expected_sessions(whos, times)
    world = World(Sessions(), ROWS, [1], timed=True, copies=3, seed=seed, result=SESSIONS)
    order = np.argsort(times, kind="stable")
    for start in range(0, 400, 80):
        part = rows.take(pa.array(order[start : start + 80]))
        part = shuffled(part, seed)
        world.feed(part, keys_of(part))
        now = max(part["at"].to_pylist()) * S
        world.tick(now)
        assert {session for session in want if session[2] + 10 * S <= now} == {
            tuple(row.values()) for row in world.rows()
        }
    world.tick(END)
    assert sorted(tuple(row.values()) for row in world.rows()) == want
    assert world.late == 0


def test_rows_and_ticks_may_come_in_one_batch():
    timed = Timed(Seen(), ROWS, [0, 1, 2], [1], True, 4, Seen().schema(ROWS))
    ats, nows = [5, 3, None, 9, 6, None], [None, None, 6 * S, None, None, 10 * S]
    rows = pa.RecordBatch.from_pydict(
        {"who": [1, 1, None, 1, 1, None], "at": ats, "v": [0.0] * 6, "now": pa.array(nows, pa.int64())}
    )
    out = timed.process(rows, np.ones(6, np.int32), np.ones(6, np.int64))
    assert out["at"].to_pylist() == [3, 5, 6, 9]


def test_sizes_tell_of_waiting_rows():
    world = World(Seen(), ROWS, [1])
    copy = world.copies[0]
    units = np.arange(8, dtype=np.int32)
    assert copy.sizes(units).tolist() == [0] * 8
    rows = sample(10_000)
    world.feed(rows, keys_of(rows))
    assert rows.nbytes < copy.sizes(units).sum() < 3 * rows.nbytes
    state = copy.extract(3)
    assert copy.sizes(units)[3] == 0
    copy.install(3, state)
    assert copy.sizes(units)[3] > 0
    world.tick(FLUSH)
    assert copy.sizes(units).sum() == 100 * 12
    assert len(copy._room) == 0
    assert not copy._room._joined


def test_memory_of_rows_that_left_comes_free():
    world = World(Seen(), ROWS, [1], timed=True)
    rows = sample(10_000, span=1000)
    world.feed(rows, keys_of(rows))
    room = world.copies[0]._room
    for until in range(100, 1000, 100):
        world.tick(until * S)
        kept = sum(chunk.nbytes for chunk in room._joined)
        assert kept <= 2 * 44 * len(room) + 1000
    assert 800 < len(room) < 1200


def test_rows_that_wait_count_whatever_the_operator_says():
    world = World(Sessions(), ROWS, [1], timed=True, result=SESSIONS)
    rows = sample(10)
    world.feed(rows, keys_of(rows))
    sizes = world.copies[0].sizes(np.arange(8, dtype=np.int32))
    assert (sizes > 0).sum() == len(np.unique(keys_of(rows) % 8))  # the others are left to be weighed


def test_waiting_rows_of_an_earlier_run_fit_or_are_refused():
    world = World(Seen(), ROWS, [1])
    rows = sample(10, keys=1)
    world.feed(rows, keys_of(rows))
    state = world.copies[0].extract(0)
    other = pa.schema([ROWS.field("who"), ROWS.field("at"), pa.field("v", pa.string())])
    with pytest.raises(FunctionError, match="an earlier run of the query have column 'v' as double, and it is string"):
        World(Seen(), other, [1]).copies[0].install(0, state)
    wider = pa.schema([ROWS.field("who"), ROWS.field("at"), pa.field("more", pa.string())])
    with pytest.raises(FunctionError, match="lack column 'more', which the operator reads"):
        World(Seen(), wider, [1]).copies[0].install(0, state)
    passing = Timed(Seen(), wider, [0, 1], [1], False, 4, wider)
    passing.install(0, state)
    assert passing.extract(0) is not None, "a new column that only passes through is null in them"
    turned = pa.schema([ROWS.field("v"), ROWS.field("who"), ROWS.field("at")])
    other = World(Seen(), turned, [2])
    other.copies[0].install(0, state)
    other.tick(FLUSH)
    assert len(other.rows()) == 10


def test_null_times_are_refused():
    world = World(Seen(), ROWS, [1], timed=True)
    rows = pa.RecordBatch.from_pydict({"who": [1], "at": [None], "v": [0.0]}, schema=ROWS)
    with pytest.raises(FunctionError, match="'at' is the time and is null"):
        world.feed(rows, [1])


def test_only_columns_that_the_operator_reads_reach_it():
    class Narrow(Seen):
        def process(self, rows, units, keys):
            assert rows.schema.names == ["who"]
            return super().process(rows, units, keys)

    inner = Narrow()
    timed = Timed(inner, ROWS, [0], [1], False, 4, inner.schema(pa.schema([ROWS.field(0)])))
    rows = sample(20)
    keys = keys_of(rows)
    timed.process(timed.whole(rows), (keys % 4).astype(np.int32), keys)
    ticks = timed.whole(pa.RecordBatch.from_arrays([pa.array([FLUSH] * 4)], names=["__evenflow_now"]))
    out = timed.process(ticks, np.arange(4, dtype=np.int32), np.arange(4))
    assert out.num_rows == 20
    assert out.schema.names == ["who", "n"]


def test_rows_that_must_not_be_null_wait_with_those_that_came_from_elsewhere():
    """Ticks have no columns, so all that comes may be null; what is installed must look the same."""
    inner, strict = Seen(), pa.schema([field.with_nullable(False) for field in ROWS])
    timed = Timed(inner, strict, [0], [1], False, 4, inner.schema(pa.schema([ROWS.field(0)])))
    rows = sample(20)
    keys = keys_of(rows)
    units = (keys % 4).astype(np.int32)
    timed.process(timed.whole(rows), units, keys)
    for unit in range(4):
        timed.install(unit, timed.extract(unit))
    timed.process(timed.whole(rows), units, keys)
    ticks = timed.whole(pa.RecordBatch.from_arrays([pa.array([FLUSH] * 4)], names=["__evenflow_now"]))
    assert timed.process(ticks, np.arange(4, dtype=np.int32), np.arange(4)).num_rows == 40


def test_logged_rows_with_columns_in_another_order():
    """A query that was started again may have them so: they go by their names."""
    timed = Timed(Seen(), ROWS, [0], [1], False, 4, Seen().schema(pa.schema([ROWS.field(0)])))
    rows = sample(20)
    assert timed.whole(rows.select(rows.schema.names[::-1])).equals(timed.whole(rows))


def test_ties_beside_columns_without_values():
    rows = pa.record_batch({"at": pa.array([1, 1, 1]), "void": pa.nulls(3), "v": pa.array([3, 1, 2])})
    places = arranged(rows, np.zeros(3, np.int32), np.zeros(3, np.int64), [0])
    assert rows.take(pa.array(places)).column("v").to_pylist() == [1, 2, 3]


class LosesSessions(Sessions):
    def install(self, unit, state):
        self.open[unit] = {key: session for key, session in state.items() if session[3] > 1}


class CountsUnits(Sessions):
    def on_time(self, now, units):
        return sessions([[0, 0, now, len(units)]])


def test_laws_of_time():
    rows = pa.table({"who": list(range(7)) * 10, "at": [place * 2 for place in range(70)]})
    check_operator(Sessions(), rows, key="who", time="at", rounds=3)
    with pytest.raises(AssertionError, match="LosesSessions breaks law"):
        check_operator(LosesSessions(), rows, key="who", time="at")
    with pytest.raises(AssertionError, match="CountsUnits breaks law 'time'"):
        check_operator(CountsUnits(), rows, key="who", time="at")
    with pytest.raises(InvalidArgument, match="Sessions has on_time: give check_operator"):
        check_operator(Sessions(), rows, key="who")
