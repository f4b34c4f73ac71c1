"""The join of two DataFrames: rows of both sides in one batch, each side with columns of its own."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import InvalidArgument
from evenflow.operators.joins.sided_join import SIDE, SidedJoin
from tests.support import operators_model as model

ROWS = pa.schema(
    {
        SIDE: pa.int32(),
        "k": pa.int64(),
        "t": pa.int64(),
        "left.n": pa.int64(),
        "left.s": pa.string(),
        "right.n": pa.int64(),
        "right.x": pa.list_(pa.int64()),
    }
)
LEFT, RIGHT = {"k": "k", "left.n": "n", "left.s": "s"}, {"right.n": "m", "right.x": "x"}
WINDOWS = [{"last": 3}, {"span": 20_000_000, "time": "t"}]


def some(count, keys, seed=0):
    random = np.random.default_rng(seed)
    keys, units = model.hashed(random.integers(0, keys, count) - 5, 7)
    sides, numbers = random.integers(0, 2, count), range(count)
    times = (np.arange(count) - random.integers(0, 30, count) * (random.random(count) < 0.3)).tolist()
    ours, theirs = ([n if side == which else None for n, side in zip(numbers, sides, strict=True)] for which in (0, 1))
    texts = [None if n is None or n % 5 == 0 else str(n) for n in ours]
    lists = [None if n is None else [n] * (n % 3) for n in theirs]
    columns = [sides, keys, times, ours, texts, theirs, lists]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS), units, keys


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_pairs_have_the_columns_of_both_sides(window):
    batch, units, keys = some(1500, 20)
    operator = SidedJoin(ROWS, LEFT, RIGHT, **window)
    table, origin = model.moving(operator, batch, units, keys)
    tags = ["LR"[side] for side in batch[SIDE].to_pylist()]
    times = batch["t"].to_pylist()
    expected = model.joined(keys.tolist(), tags, rows=3) if "last" in window else near(keys.tolist(), tags, times, 20)
    assert len(expected) > 500
    assert list(zip(table["n"].to_pylist(), table["m"].to_pylist(), origin.tolist(), strict=True)) == expected
    assert (
        table.schema
        == operator.schema(ROWS)
        == pa.schema({"k": pa.int64(), "n": pa.int64(), "s": pa.string(), "m": pa.int64(), "x": pa.list_(pa.int64())})
    )
    left, right = batch["left.s"].to_pylist(), batch["right.x"].to_pylist()
    assert table["s"].to_pylist() == [left[place] for place, _, _ in expected]
    assert table["x"].to_pylist() == [right[place] for _, place, _ in expected]


def near(keys, tags, times, seconds):
    """(left place, right place, origin) of all pairs of a key that are so near, by origin and then by the partner's
    time: no row has left its window, as nobody has told the time."""
    found, seen = [], {}
    for place, (key, tag, time) in enumerate(zip(keys, tags, times, strict=True)):
        others = seen.get((key, "LR"[tag == "L"]), [])
        mates = sorted(
            (other for other in others if abs(times[other] - time) < seconds), key=lambda other: (times[other], other)
        )
        found += [(place, other, place) if tag == "L" else (other, place, place) for other in mates]
        seen.setdefault((key, tag), []).append(place)
    return found


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_laws(window):
    ef.testing.check_operator(SidedJoin(ROWS, LEFT, RIGHT, **window), some(400, 9)[0], key="k", time="t")


def test_a_side_may_have_nothing_but_its_key():
    batch, units, keys = some(50, 2)
    table, _ = model.moving(SidedJoin(ROWS, {"k": "k"}, {}, last=1), batch, units, keys)
    tags = ["LR"[side] for side in batch[SIDE].to_pylist()]
    assert table.column_names == ["k"]
    assert table.num_rows == len(model.joined(keys.tolist(), tags, rows=1))


def test_a_time_that_is_none():
    with pytest.raises(InvalidArgument, match=r"join needs a time, column 'left\.s' is string"):
        SidedJoin(ROWS, LEFT, RIGHT, span=1, time="left.s")
