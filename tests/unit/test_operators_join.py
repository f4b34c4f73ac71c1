import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.joins.join import WindowJoin
from tests.support import operators_model as model


def some(count, keys, seed=0):
    random = np.random.default_rng(seed)
    keys, units = model.hashed(random.integers(0, keys, count) - 5, 7)
    late = random.integers(0, 30_000, count) * (random.random(count) < 0.3)
    columns = {
        "tag": np.array(["L", "R"], object)[(random.random(count) < 0.6).astype(int)],
        "n": np.arange(count),
        "s": pa.array([None if n % 7 == 0 else str(n) for n in range(count)]),
        "ts": pa.array(np.arange(count) * 1000 - late, pa.timestamp("us", "UTC")),
    }
    return pa.record_batch(columns), units, keys


def check(operator, batch, units, keys, expected, **how):
    table, origin = model.moving(operator, batch, units, keys, **how)
    assert table.schema == operator.schema(batch.schema)
    found = list(zip(table["left_n"].to_pylist(), table["right_n"].to_pylist(), origin.tolist(), strict=True))
    assert found == expected
    texts = batch["s"].to_pylist()
    assert table["left_s"].to_pylist() == [texts[left] for left, _, _ in expected]
    assert table["right_s"].to_pylist() == [texts[right] for _, right, _ in expected]


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("keys", [1, 30])
def test_last_rows(rows, keys):
    batch, units, hashes = some(1500, keys)
    expected = model.joined(hashes.tolist(), batch["tag"].to_pylist(), rows=rows)
    assert len(expected) > 1000
    check(WindowJoin("tag", "L", "R", rows=rows), batch, units, hashes, expected)


@pytest.mark.parametrize("keys", [1, 20])
def test_last_seconds(keys):
    batch, units, hashes = some(1500, keys)
    times = batch["ts"].cast(pa.int64()).to_pylist()
    expected = model.joined(hashes.tolist(), batch["tag"].to_pylist(), times=times, seconds=20_000)
    assert len(expected) > 200
    check(WindowJoin("tag", "L", "R", seconds=0.02, time="ts"), batch, units, hashes, expected)


@pytest.mark.parametrize("size", [1, 5000])
def test_small_and_large_batches(size):
    batch, units, hashes = some(5000 if size > 1 else 1000, 200)
    expected = model.joined(hashes.tolist(), batch["tag"].to_pylist(), rows=4)
    check(WindowJoin("tag", "L", "R", rows=4), batch, units, hashes, expected, sizes=(size,))


@pytest.mark.parametrize("window", [{"rows": 2}, {"seconds": 0.02, "time": "ts"}])
def test_rows_out_of_the_window_are_dropped(window):
    operator = WindowJoin("tag", "L", "R", **window)
    batch, units, keys = some(50_000, 10)
    for at in range(0, 50_000, 500):
        operator.process(batch.slice(at, 500), units[at : at + 500], keys[at : at + 500])
    assert operator._state.store.length < 4000
    every = np.arange(8, dtype=np.int32)
    assert ((operator.sizes(every) > 0) == (np.bincount(units, minlength=8) > 0)).all()
    states = [operator.extract(unit) for unit in range(7)]
    assert not operator.sizes(every).any()
    unit = int(units[0])
    operator.install(unit, states[unit])
    with pytest.raises(InvalidArgument, match=f"unit {unit} is installed but has keys"):
        operator.install(unit, states[unit])


@pytest.mark.parametrize(("tag", "named"), [("X", "'X'"), (None, "None")])
def test_a_tag_of_neither_side(tag, named):
    operator = WindowJoin("tag", "L", "R", rows=1)
    with pytest.raises(FunctionError, match=f"column 'tag' is {named} in a row.*knows 'L' and 'R'"):
        operator.process(
            pa.record_batch({"tag": ["L", tag], "v": [1, 2]}), np.zeros(2, np.int32), np.zeros(2, np.int64)
        )
    assert operator.extract(0) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tag", "L", "L", {"rows": 1}), "need different tags"),
        (("tag", "L", 3, {"rows": 1}), "right=3: give a string"),
        (("tag", "L", "R", {}), "give one of the two"),
        (("tag", "L", "R", {"seconds": 2.0}), "name the column that holds the time"),
        (("tag", "L", "R", {"seconds": 2.0, "time": "tag"}), "give two columns"),
    ],
)
def test_joins_that_cannot_be(arguments, message):
    *places, window = arguments
    with pytest.raises(InvalidArgument, match=message):
        WindowJoin(*places, **window)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"v": pa.int8()}, "needs column 'tag', which does not exist; there are: 'v'"),
        ({"tag": pa.int8()}, "tells sides apart by strings, column 'tag' is int8"),
        ({"tag": pa.string(), "ts": pa.string()}, "needs a time, column 'ts' is string"),
    ],
)
def test_columns_that_do_not_fit(rows, message):
    with pytest.raises(InvalidArgument, match=message):
        WindowJoin("tag", "L", "R", seconds=1.0, time="ts").schema(pa.schema(rows))


@pytest.mark.parametrize("window", [{"rows": 2}, {"seconds": 1, "time": "ts"}])
def test_warming_up_leaves_no_state(window):
    operator = WindowJoin("tag", "L", "R", **window)
    operator.warm_up(pa.schema({"tag": pa.large_string(), "ts": pa.timestamp("us"), "v": pa.list_(pa.int8())}))
    assert operator.extract(0) is None
