import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.distinct import DistinctCount
from tests.support import operators_model as model


def some(count, keys, nulls, seed=0):
    random = np.random.default_rng(seed)
    values = [None if random.random() < nulls else int(random.integers(-50, 50)) for _ in range(count)]
    keys, units = model.hashed(random.integers(0, keys, count) * 2**50, 11)
    hashes = [42 if value is None else value * 0x9E3779B97F4A7 for value in values]
    return pa.record_batch({"k": keys, "v": pa.array(values, pa.int64()), "xxhash64(v)": hashes}), units, keys


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("keys", [1, 30, 3000])
def test_against_sets(keys, nulls):
    batch, units, hashes = some(3000, keys, nulls)
    table, _ = model.moving(DistinctCount("v"), batch, units, hashes)
    assert table.schema == pa.schema({"k": pa.int64(), "v": pa.int64(), "v_distinct": pa.int64()})
    assert table["v_distinct"].to_pylist() == model.distinct(hashes.tolist(), batch["v"].to_pylist())


def test_the_hash_is_asked_for_and_is_no_column_of_the_result():
    operator = DistinctCount("v", into="n")
    assert operator.hashed == ("v",)
    result = pa.schema({"v": pa.string(), "n": pa.int64()})
    assert operator.schema(pa.schema({"v": pa.string()})) == result
    assert operator.schema(pa.schema({"v": pa.string(), "xxhash64(v)": pa.int64()})) == result


@pytest.mark.parametrize("more", [{}, {"xxhash64(v)": pa.int64()}])
def test_warming_up_leaves_no_state(more):
    operator = DistinctCount("v")
    operator.warm_up(pa.schema({"v": pa.string(), **more}))
    assert operator.extract(0) is None


def test_sizes_and_double_installs():
    operator = DistinctCount("v")
    batch, units, keys = some(2000, 50, 0.1)
    operator.process(batch, units, keys)
    sizes = operator.sizes(np.arange(12, dtype=np.int32))
    assert ((sizes > 0) == (np.bincount(units, minlength=12) > 0)).all()
    unit = int(units[0])
    state = operator.extract(unit)
    assert operator.extract(unit) is None
    operator.install(unit, state)
    assert (operator.sizes(np.arange(12, dtype=np.int32)) == sizes).all()
    with pytest.raises(InvalidArgument, match=f"unit {unit} is installed but has keys"):
        operator.install(unit, state)
