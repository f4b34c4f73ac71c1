import decimal
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.aggregates import rolling as home
from evenflow.operators.windows.rings import ROOM
from tests.support import operators_model as model

HOWS = ("count", "sum", "mean", "min", "max", "std")
SPECIAL = (None, math.nan, math.inf, -math.inf)


def rolling(how, *args, **kwargs):
    return getattr(home, f"Rolling{how.title()}")(*args, **kwargs)


def running(how, *args, **kwargs):
    return getattr(home, f"Running{how.title()}")(*args, **kwargs)


def some(count, keys, seed=0, special=0.2):
    """Keys, values with nulls and infinities among them, and times that mostly rise."""
    random = np.random.default_rng(seed)
    values = random.normal(10, 5, count).tolist()
    for place in np.flatnonzero(random.random(count) < special):
        values[place] = SPECIAL[random.integers(len(SPECIAL))]
    times = (np.arange(count) * 1000 + random.integers(-20_000, 20_000, count) * (random.random(count) < 0.3)).tolist()
    return (random.integers(0, keys, count) * 7919 - 40_000).tolist(), values, times


def outcome(operator, keys, values, times=None, units=13, seed=0, **more):
    keys, homes = model.hashed(keys, units)
    columns = {"k": keys, "v": pa.array(values, more.get("kind", pa.float64()))}
    if times is not None:
        columns["ts"] = pa.array(times, pa.timestamp("us"))
    table, _ = model.moving(operator, pa.RecordBatch.from_pydict(columns), homes, keys, seed=seed)
    assert table.schema.names == [*columns, operator.into]
    return table.column(operator.into).to_pylist()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_last_rows(how, rows):
    keys, values, _ = some(3000, 20)
    model.assert_close(outcome(rolling(how, "v", rows=rows), keys, values), model.rolling(how, keys, values, rows))


@pytest.mark.parametrize("how", HOWS)
def test_last_seconds(how):
    keys, values, times = some(3000, 10, special=0.1)
    found = outcome(rolling(how, "v", seconds=0.05, time="ts"), keys, values, times)
    model.assert_close(found, model.rolling_time(how, keys, values, times, 50_000))


@pytest.mark.parametrize("how", HOWS)
def test_all_rows(how):
    keys, values, _ = some(2000, 20, special=0.02)
    model.assert_close(outcome(running(how, "v"), keys, values), model.rolling(how, keys, values, 10**9))


@pytest.mark.parametrize("how", HOWS)
def test_keys_at_the_ends_of_int64_and_a_hundred_thousand_units(how):
    keys = [-(2**63), 2**63 - 1, 0, -1] * 200
    values = np.random.default_rng(3).normal(size=800).tolist()
    found = outcome(rolling(how, "v", rows=7), keys, values, units=100_001)
    model.assert_close(found, model.rolling(how, keys, values, 7))


def test_many_keys_in_as_many_of_a_hundred_thousand_units():
    random = np.random.default_rng(5)
    some_units = np.append(random.choice(100_000, 15_000, replace=False), 100_000)
    which = random.choice(some_units, 60_000)
    rows = pa.record_batch({"v": random.normal(size=len(which))})
    operator = home.RollingSum("v", rows=3)
    homes, keys = which.astype(np.int32), which * 2**40 - 2**60
    found = []
    for at in range(0, len(which), 20_000):
        end = at + 20_000
        found += operator.process(rows[at:end], homes[at:end], keys[at:end])["v_sum"].to_pylist()
    model.assert_close(found, model.rolling("sum", which.tolist(), rows["v"].to_pylist(), 3))

    every = np.arange(100_002, dtype=np.int32)
    sizes, used = operator.sizes(every), len(next(iter(operator._state.parts.values())).state.cells)
    assert ((sizes > 0) == (np.bincount(which, minlength=100_002) > 0)).all()
    states = {unit: operator.extract(unit) for unit in some_units.tolist()}
    assert not operator.sizes(every).any()
    for unit, state in states.items():
        if state is not None:
            operator.install(unit, state)
    assert (operator.sizes(every) == sizes).all()
    assert len(next(iter(operator._state.parts.values())).state.cells) < 2 * used


@pytest.mark.parametrize("great", [1e300, 1e308, math.inf, math.nan])
@pytest.mark.parametrize("how", ["sum", "mean", "std"])
def test_nothing_is_left_of_what_has_left_the_window(how, great):
    values = [great, great, 0.1, 0.2, 0.3, -great, 0.1, 0.2, 0.3]
    found = outcome(rolling(how, "v", rows=3), [1] * 9, values)
    assert [found[4], found[8]] == pytest.approx([model.aggregate(how, [0.1, 0.2, 0.3])] * 2, rel=1e-14)


def test_no_drift():
    random = np.random.default_rng(0)
    values = random.normal(1e6, 1, 50_000)
    batch = pa.record_batch({"v": values})
    found = home.RollingStd("v", rows=50).process(batch, np.zeros(50_000, np.int32), np.zeros(50_000, np.int64))
    assert found["v_std"][-1].as_py() == pytest.approx(values[-50:].std(ddof=1), rel=1e-10)


def test_the_state_that_moves_is_exact_and_does_not_alias():
    keys, values, _ = some(500, 5, special=0)
    keys, homes = model.hashed(keys, 1)
    batch = pa.record_batch({"v": values})
    moved, stayed = home.RollingMean("v", rows=20), home.RollingMean("v", rows=20)
    for at in range(0, 500, 10):
        part = batch.slice(at, 10), homes[at : at + 10], keys[at : at + 10]
        state = moved.extract(0)
        moved = home.RollingMean("v", rows=20)
        if state is not None:
            moved.install(0, state)
        assert moved.process(*part).equals(stayed.process(*part))


def test_a_key_with_few_rows_costs_little():
    operator = home.RollingMean("v", rows=1_000_000)
    count = 5000
    operator.process(pa.record_batch({"v": np.ones(count)}), np.zeros(count, np.int32), np.arange(count))
    assert next(iter(operator._state.parts.values())).state.cells.nbytes < 1_000_000
    assert operator.sizes(np.array([0], np.int32))[0] < 1_500_000


def test_a_burst_makes_room_and_gives_it_back():
    operator = home.RollingSum("v", seconds=10, time="t")

    def push(times, key):
        count = len(times)
        batch = pa.record_batch({"v": np.ones(count), "t": times})
        return operator.process(batch, np.zeros(count, np.int32), np.full(count, key))["v_sum"].to_pylist()

    assert push(np.zeros(100_000), 1) == list(range(1, 100_001))
    assert next(iter(operator._state.parts.values())).state.rings[:, ROOM].max() >= 100_000
    assert push(np.full(3, 20.0), 1) == [1, 2, 3]
    for key in range(2, 20):
        push(np.zeros(20_000), key)
    assert next(iter(operator._state.parts.values())).state.rings[0, ROOM] < 100
    assert push(np.full(1, 29.0), 1) == [4]


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint64(), pa.decimal128(30, 0)),
        (pa.int64(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.float16(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(19, 2)),
    ],
)
def test_any_number(kind, made):
    values = [decimal.Decimal(value) for value in (1, 2, 3)] if pa.types.is_decimal(kind) else np.array([1, 2, 3])
    values = pa.array(values, kind) if pa.types.is_decimal(kind) else pa.array(values).cast(kind)
    batch = pa.record_batch({"v": pa.concat_arrays([values, pa.nulls(1, kind)])})
    operator = home.RollingSum("v", rows=2)
    operator.warm_up(batch.schema)
    out = operator.process(batch, np.zeros(4, np.int32), np.zeros(4, np.int64))
    assert out.schema == operator.schema(batch.schema) == pa.schema({"v": kind, "v_sum": made})
    assert out["v_sum"].to_pylist() == [1.0, 3.0, 5.0, 3.0]


@pytest.mark.parametrize(
    ("time", "found"),
    [
        (pa.array([0, 1, 3], pa.timestamp("s")), [1, 2, 1]),
        (pa.array([0, 1500, 2000], pa.timestamp("ms", "UTC")), [1, 2, 2]),
        (pa.array([0, 10**9, 2 * 10**9], pa.timestamp("ns")), [1, 2, 2]),
        (pa.array([0, 1, 1], pa.date32()), [1, 1, 2]),
        (pa.array([5, 6, 7], pa.int32()), [1, 2, 2]),
        (pa.array([0.0, 1.999999, 2.0]), [1, 2, 2]),
    ],
)
def test_any_time(time, found):
    batch = pa.record_batch({"v": ["a", "b", "c"], "t": time})
    operator = home.RollingCount("v", seconds=2, time="t")
    operator.schema(batch.schema)
    operator.warm_up(batch.schema)
    out = operator.process(batch, np.zeros(3, np.int32), np.zeros(3, np.int64))
    assert out["v_count"].to_pylist() == found


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (pa.array([1, None]), "column 't' is the time and is null in 1 rows"),
        (
            pa.array([1, 2**62]),
            "column 't' is the time and is 4611686018427387904 in 1 row: numbers are seconds, at most",
        ),
        (pa.array([1.0, -math.inf]), "column 't' is the time and is -inf in 1 row: numbers are seconds, at most"),
        (pa.array([1.0, math.nan]), "column 't' is the time and is nan in 1 row: give seconds, or filter them out"),
    ],
)
def test_times_that_are_none(time, message):
    operator = home.RollingCount("v", seconds=2, time="t")
    with pytest.raises(FunctionError, match=message):
        operator.process(pa.record_batch({"v": [1, 2], "t": time}), np.zeros(2, np.int32), np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "rows=None and seconds=None: give one"),
        ({"rows": 3, "seconds": 1.0, "time": "t"}, "rows=3 and seconds=1.0: give one"),
        ({"rows": 0}, "rows=0: give a whole number"),
        ({"rows": 2.5}, r"rows=2\.5: give a whole number"),
        ({"rows": True}, "rows=True: give a whole number"),
        ({"rows": 3, "time": "t"}, "time='t' and rows=3"),
        ({"seconds": 1.0}, "time=None: name the column"),
        ({"seconds": 0.0, "time": "t"}, "seconds=0.0: give a number"),
        ({"seconds": math.nan, "time": "t"}, "seconds=nan: give a number"),
        ({"seconds": math.inf, "time": "t"}, "seconds=inf: give a number"),
        ({"rows": 3, "into": ""}, "into is '': give the name"),
    ],
)
def test_windows_that_cannot_be(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        home.RollingMean("v", **arguments)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            lambda: home.RollingMean("w", rows=3),
            "needs column 'w', which does not exist; there are: 'b', 'l', 's', 'v', 'v_sum'",
        ),
        (lambda: home.RollingMean("b", rows=3), "needs numbers, column 'b' is bool"),
        (lambda: home.RunningMax("l"), "needs numbers, strings, dates, times or booleans, column 'l' is list"),
        (lambda: home.RunningSum("v"), "adds column 'v_sum', which the rows have already"),
        (lambda: home.RollingMean("v", seconds=1, time="w"), "needs column 'w', which does not exist"),
        (lambda: home.RollingMean("v", seconds=1, time="s"), "needs a time, column 's' is string"),
    ],
)
def test_columns_that_do_not_fit(operator, message):
    kinds = {"v": pa.int32(), "b": pa.bool_(), "s": pa.string(), "l": pa.list_(pa.int32()), "v_sum": pa.float64()}
    schema = pa.schema(kinds)
    with pytest.raises(InvalidArgument, match=message):
        operator().schema(schema)


def test_warming_up_compiles_and_leaves_no_state():
    from evenflow.operators.windows import arena, rings

    operator = home.RollingMean("v", seconds=1.0, time="t")
    schema = pa.schema({"v": pa.int32(), "t": pa.timestamp("us", "UTC")})
    operator.warm_up(schema)
    assert operator.extract(0) is None
    assert len(operator._state.slots) == 0
    kernels = {name: each for name, each in {**vars(arena), **vars(rings)}.items() if hasattr(each, "signatures")}
    before = {name: len(kernel.signatures) for name, kernel in kernels.items()}
    batch = pa.record_batch([pa.array([1, None], pa.int32()), pa.array([0, 1], schema.field("t").type)], schema=schema)
    homes = np.zeros(2, np.int32)
    homes.flags.writeable = False
    operator.process(batch, homes, np.zeros(4, np.int64)[::2])
    operator.install(1, pickle.loads(pickle.dumps(operator.extract(0))))
    assert before == {name: len(kernel.signatures) for name, kernel in kernels.items()}


def test_installing_twice_is_refused():
    operator = home.RunningMean("v")
    operator.process(pa.record_batch({"v": [1.0]}), np.array([4], np.int32), np.array([9]))
    state = operator.extract(4)
    operator.install(4, state)
    with pytest.raises(InvalidArgument, match="unit 4 is installed but has keys here already"):
        operator.install(4, state)
