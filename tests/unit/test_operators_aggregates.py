"""Several aggregates in one operator: types, names and refusals; tests/property/test_operators.py has their values."""

import datetime as dt
import decimal
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow import functions as F
from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.declared import COLLATION, COLUMN, check_apart, spelled
from evenflow.operators.keyed import identity

DAY = dt.date(2024, 3, 10)
VALUES = {
    pa.int8(): [3, None, -4, 3],
    pa.int64(): [2**53 + 1, None, -(2**63), 5],
    pa.float32(): [0.5, None, float("inf"), -1.25],
    pa.decimal128(30, 2): [decimal.Decimal("1.10"), None, decimal.Decimal("-99999999999999999999.99"), 0],
    pa.bool_(): [True, None, False, True],
    pa.date32(): [DAY, None, DAY - dt.timedelta(9), DAY],
    pa.timestamp("us", "UTC"): [
        dt.datetime(2024, 3, 10, 2, 30, tzinfo=dt.UTC),
        None,
        *[dt.datetime(1900, 1, 1, tzinfo=dt.UTC)] * 2,
    ],
    pa.string(): ["b", None, "a", "ä"],
    pa.large_string(): ["b", None, "a", "ä"],
    pa.binary(): [b"\xff", None, b"", b"\x00"],
}
PICKED = {"low": F.min("v"), "top": F.max("v"), "begin": F.first("v"), "end": F.last("v", ignorenulls=True)}


def run(operator, columns, keys=None):
    batch = pa.record_batch(columns)
    keys = np.zeros(batch.num_rows, np.int64) if keys is None else np.asarray(keys, np.int64)
    return operator.process(batch, (keys % 7).astype(np.int32), keys)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("window", [{}, {"rows": 3}, {"seconds": 3, "time": "t"}], ids=str)
def test_values_of_any_type_stay_what_they_are(kind, window):
    values = pa.array(VALUES[kind], kind)
    operator = ef.Aggregates(PICKED, n=F.count(), known=F.count("v"), **window)
    columns = {"v": values, "t": [1, 2, 3, 4]}
    operator.warm_up(pa.record_batch(columns).schema)
    found = run(operator, columns)
    assert found.schema == operator.schema(pa.schema({"v": kind, "t": pa.int64()}))
    seen = values.to_pylist()
    kept = seen[1:] if window else seen
    there = [value for value in kept if value is not None]
    last = {name: found[name][3].as_py() for name in found.schema.names[2:]}
    assert last == {
        "low": min(there),
        "top": max(there),
        "begin": kept[0],
        "end": seen[3],
        "n": len(kept),
        "known": len(there),
    }


def test_a_column_each_as_the_operators_with_one_column_have_it():
    random = np.random.default_rng(0)
    columns = {"v": pa.array(random.normal(size=500), mask=random.random(500) < 0.2), "t": np.sort(random.random(500))}
    keys = random.integers(0, 9, 500)
    for window in ({"rows": 5}, {"seconds": 0.05, "time": "t"}):
        several = ef.Aggregates(
            sum=F.sum("v"), mean=F.mean("v"), min=F.min("v"), max=F.max("v"), std=F.stddev("v"), **window
        )
        found = run(several, columns, keys=keys)
        for name in ("sum", "mean", "min", "max", "std"):
            alone = getattr(ef, f"Rolling{name.title()}")("v", **window)
            assert found[name].equals(run(alone, columns, keys=keys)[f"v_{name}"])


def test_as_pandas_has_it():
    random = np.random.default_rng(1)
    rows = pd.DataFrame({"k": random.integers(0, 5, 400), "v": random.normal(size=400)})
    window = rows.groupby("k")["v"].rolling(6, min_periods=1)
    operator = ef.Aggregates(sum=F.sum("v"), var=F.variance("v"), top=F.max("v"), rows=6)
    found = run(operator, {"v": rows["v"].to_numpy()}, keys=rows["k"]).to_pandas()
    for name, expected in (("sum", window.sum()), ("var", window.var()), ("top", window.max())):
        np.testing.assert_allclose(found[name], expected.droplevel(0).sort_index(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("window", [{}, {"rows": 4}, {"seconds": 3.0, "time": "t"}], ids=str)
def test_the_laws(window):
    random = np.random.default_rng(2)
    texts = pa.array(random.choice(["x", "yy", "zzz"], 300), mask=random.random(300) < 0.3)
    sample = pa.table(
        {
            "k": random.integers(0, 20, 300),
            "s": texts,
            "t": random.random(300) * 60,
            "d": pa.array(range(300), pa.int64()),
        }
    )
    operator = ef.Aggregates(
        n=F.count(),
        top=F.max("s"),
        begin=F.first("s"),
        end=F.last("s"),
        kinds=F.count_distinct("s"),
        total=F.sum("d"),
        spread=F.variance("t"),
        **window,
    )
    ef.testing.check_operator(operator, sample, key="k", rounds=4)  # seven columns: each round takes a second


@pytest.mark.parametrize("window", [{}, {"rows": 50}, {"seconds": 50, "time": "t"}], ids=str)
def test_what_no_window_holds_any_more_is_dropped(window):
    operator = ef.Aggregates(PICKED, kinds=F.count_distinct("v"), **window)
    for at in range(0, 40_000, 500):
        numbers = np.arange(at, at + 500)
        texts = [f"{number:06}" for number in numbers]
        run(operator, {"v": texts, "t": numbers, "xxhash64(v)": numbers})
    low, _, begin, _, kinds = (part.state for part in operator._state.parts.values())
    assert max(low.store.length, begin.store.length) < 3000
    if window:
        assert len(kinds.members) < 3000
    assert operator.sizes(np.zeros(1, np.int32))[0] < (50_000 if window else 6_000_000)


def test_state_of_another_type_is_refused():
    operator = ef.Aggregates(top=F.max("v"))
    run(operator, {"v": ["a"]})
    with pytest.raises(InvalidArgument, match="state is of values of type string, and the column is bigint now"):
        run(operator, {"v": [1]})
    state = pickle.loads(pickle.dumps(operator.extract(0)))
    other = ef.Aggregates(top=F.max("v"))
    run(other, {"v": [1]}, keys=[1])
    with pytest.raises(InvalidArgument, match="state is of values of type bigint, and the column is string now"):
        other.install(0, state)


def test_a_sum_that_does_not_fit_is_named():
    operator = ef.Aggregates(n=F.count(), total=F.sum("v"))
    with pytest.raises(FunctionError, match=r"sum\('v'\) is too large for bigint"):
        run(operator, {"v": [2**63 - 1, 1]})
    found = run(ef.Aggregates(total=F.sum("v")).planned(ansi=False), {"v": [2**63 - 1, 1, -1]})
    assert found["total"].to_pylist() == [2**63 - 1, None, 2**63 - 1]


def test_names_are_spelled_as_the_columns_are():
    operator = ef.Aggregates(n=F.count(), top=F.max("PRICE"), kinds=F.count_distinct("price"), seconds=1, time="AT")
    found = spelled(operator, ["Price", "at"], case_sensitive=False)
    assert (found.columns, found.hashed, found.time) == ((None, "Price", "Price"), ("Price",), "at")
    assert list(found.reads(pa.schema({"Price": pa.int64(), "at": pa.int64()}))) == ["Price", "at", "xxhash64(Price)"]
    assert "columns=(None, 'Price', 'Price')" in identity(found)
    with pytest.raises(InvalidArgument, match=r"adds column 'top', and the rows have 'TOP', .*: give it another name"):
        check_apart(operator, ["TOP"], case_sensitive=False)
    both = ef.Aggregates(n=F.count(), N=F.count("v"))
    with pytest.raises(InvalidArgument, match="Aggregates adds column 'n', and adds 'N', which Spark does not tell"):
        check_apart(both, ["v"], case_sensitive=False)
    check_apart(both, ["v"], case_sensitive=True)


def test_only_what_is_needed_travels():
    rows = pa.schema({"a": pa.int64(), "b": pa.int64()})
    assert ef.Aggregates(top=F.max("b"), low=F.min("b")).reads(rows) == ["b"]
    assert len(ef.Aggregates(n=F.count()).reads(rows)) == 1  # a batch without columns would have no rows


def test_picked_values_keep_what_spark_knows_of_them():
    field = pa.field("s", pa.string(), metadata={COLUMN: b"{}", COLLATION: b"UTF8_LCASE"})
    made = ef.Aggregates(begin=F.first("s"), n=F.count("s")).schema(pa.schema([field]))
    assert made.field("begin").metadata == field.metadata
    assert made.field("n").metadata is None
    with pytest.raises(InvalidArgument, match=r"max\('s'\) compares strings by their bytes, and column 's' has coll"):
        ef.Aggregates(top=F.max("s")).schema(pa.schema([field]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ef.Aggregates(), "got no aggregate: give some"),
        (lambda: ef.Aggregates(n=3), r"got n=3: give an aggregate, as ef\.functions\.max\('price'\)"),
        (lambda: ef.Aggregates(n=max), "got n=<built-in function max>: give an aggregate"),
        (lambda: ef.Aggregates([F.count()]), "give aggregates by the names of their columns"),
        (lambda: ef.Aggregates({"": F.count()}), "an aggregate called '': give the name"),
        (lambda: ef.Aggregates({"n": F.count()}, n=F.count()), "column 'n' twice"),
        (lambda: ef.Aggregates(rows=F.count()), r"got rows=count\(\), and rows= tells the window: .* a dictionary"),
        (lambda: ef.Aggregates(n=F.count(), rows=3, seconds=1), "rows=3 and seconds=1: give one"),
        (lambda: ef.Aggregates(n=F.count(), seconds=1), "time=None: name the column"),
        (lambda: ef.Aggregates(n=F.count(), time="t"), "rows=None and seconds=None: give one"),
        (lambda: F.max(None), "an aggregate is of None: give the name of a column"),
        (lambda: F.count(3), "an aggregate is of 3: give the name of a column"),
        (lambda: F.first("v", ignorenulls="yes"), "ignorenulls='yes': give True or False"),
    ],
)
def test_what_is_none(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (F.max("w"), r"max\('w'\) needs column 'w', which does not exist"),
        (F.sum("s"), r"sum\('s'\) needs numbers, column 's' is string"),
        (F.variance("s"), r"variance\('s'\) needs numbers"),
        (F.min("l"), r"min\('l'\) needs numbers, strings, dates, times or booleans, column 'l' is list"),
    ],
)
def test_columns_that_do_not_fit(aggregate, message):
    rows = pa.schema({"s": pa.string(), "l": pa.list_(pa.int64())})
    with pytest.raises(InvalidArgument, match=message):
        ef.Aggregates(n=F.count(), x=aggregate).schema(rows)
    with pytest.raises(InvalidArgument, match="adds column 's', which the rows have already: give it another name"):
        ef.Aggregates(s=F.count()).schema(rows)
