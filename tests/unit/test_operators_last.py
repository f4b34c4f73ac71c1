import datetime

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.last import LastValue
from tests.support import operators_model as model

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
KINDS = {
    "double": (pa.float64(), [0.5, 1.5, float("inf")]),
    "string": (pa.string(), ["", "one", "two" * 50]),
    "bool": (pa.bool_(), [True, False]),
    "time": (pa.timestamp("us", "UTC"), [NOON, NOON + datetime.timedelta(days=1)]),
    "list": (pa.list_(pa.int32()), [[], [1], [2, None, 3]]),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)]]),
    "binary": (pa.binary(), [b"", b"\0\xff"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c"]),
    "null": (pa.null(), [None]),
}


def some(kind, count=1500, keys=40, nulls=0.5, seed=0):
    random = np.random.default_rng(seed)
    kind, choice = KINDS[kind]
    values = [None if random.random() < nulls else choice[random.integers(len(choice))] for _ in range(count)]
    keys, units = model.hashed(random.integers(0, keys, count) - 20, 7)
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["v"]), units, keys


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nulls", [0.0, 0.5, 0.95])
def test_any_type(kind, nulls):
    batch, units, keys = some(kind, nulls=nulls)
    table, _ = model.moving(LastValue("v"), batch, units, keys)
    assert table.schema == LastValue("v").schema(batch.schema)
    assert table["v_last"].to_pylist() == model.last(keys.tolist(), batch["v"].to_pylist())


@pytest.mark.parametrize("size", [1, 5000])
def test_many_keys_in_small_and_large_batches(size):
    batch, units, keys = some("string", count=size * 4 if size > 1 else 3000, keys=2000)
    table, _ = model.moving(LastValue("v"), batch, units, keys, sizes=(size,), share=0.0)
    assert table["v_last"].to_pylist() == model.last(keys.tolist(), batch["v"].to_pylist())


def test_values_that_are_not_the_last_are_dropped():
    operator = LastValue("v")
    for at in range(300):
        operator.process(
            pa.record_batch({"v": np.arange(100) + at}),
            np.arange(100, dtype=np.int32) % 3,
            np.arange(100, dtype=np.int64),
        )
    assert next(iter(operator._state.parts.values())).state.store.length < 2000
    assert (operator.sizes(np.arange(3, dtype=np.int32)) > 0).all()
    assert operator.extract(7) is None
    for unit in range(3):
        assert operator.extract(unit) is not None
    assert operator.sizes(np.arange(3, dtype=np.int32)).tolist() == [0, 0, 0]


def test_a_key_without_a_value_is_state_too():
    operator = LastValue("v", into="w")
    batch = pa.record_batch({"v": pa.array([None, 3, None], pa.int64())})
    out = operator.process(batch, np.zeros(3, np.int32), np.array([1, 2, 2]))
    assert out["w"].to_pylist() == [None, 3, 3]
    state = operator.extract(0)
    assert operator.extract(0) is None
    operator.install(0, state)
    with pytest.raises(InvalidArgument, match="unit 0 is installed but has keys"):
        operator.install(0, state)


@pytest.mark.parametrize("kind", KINDS)
def test_warming_up_leaves_no_state(kind):
    operator = LastValue("v")
    operator.warm_up(pa.schema({"v": KINDS[kind][0], "other": pa.string()}))
    assert operator.extract(0) is None


def test_a_column_that_is_not_there():
    with pytest.raises(
        InvalidArgument, match=r"LastValue\('v'\) needs column 'v', which does not exist; there are: 'a'"
    ):
        LastValue("v").schema(pa.schema({"a": pa.int8()}))
