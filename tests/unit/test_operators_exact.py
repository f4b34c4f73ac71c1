"""Sums that do not fit, states that do not belong, and types as Spark has them."""

import decimal
import pickle

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.aggregates import rolling as home
from evenflow.operators.aggregates.measures import measure
from evenflow.rules.operator import RuleOperator

LARGE = 2**53


def run(operator, values, kind):
    batch = pa.record_batch({"v": pa.array(values, kind)})
    keys = np.zeros(len(values), np.int64)
    result = operator.process(batch, keys.astype(np.int32), keys)
    rows = result[0] if isinstance(result, tuple) else result
    return rows.column(rows.num_columns - 1)


def test_ten_longs_above_2_to_the_53():
    values = [LARGE + 1] * 10
    for operator in (home.RunningSum("v"), home.RollingSum("v", rows=10), RuleOperator("select sum(v) as s from T")):
        found = run(operator, values, pa.int64())
        assert found.type == pa.int64()
        assert found[-1].as_py() == 10 * (LARGE + 1)
    for name in ("Min", "Max"):
        found = run(getattr(home, f"Rolling{name}")("v", rows=3), [LARGE + 1, LARGE + 1, LARGE + 1], pa.int64())
        assert set(found.to_pylist()) == {LARGE + 1}


def test_ten_times_ten_cents():
    kind = pa.decimal128(9, 2)
    values = [decimal.Decimal("0.10")] * 10
    assert run(home.RunningSum("v"), values, kind)[-1].as_py() == decimal.Decimal("1.00")
    assert run(home.RollingMean("v", rows=3), values, kind)[-1].as_py() == decimal.Decimal("0.100000")


@pytest.mark.parametrize(
    ("kind", "name", "made"),
    [
        (pa.int8(), "sum", pa.int64()),
        (pa.int32(), "max", pa.int32()),
        (pa.int64(), "mean", pa.float64()),
        (pa.int64(), "std", pa.float64()),
        (pa.float32(), "sum", pa.float64()),
        (pa.float32(), "min", pa.float32()),
        (pa.decimal128(9, 2), "sum", pa.decimal128(19, 2)),
        (pa.decimal128(30, 2), "sum", pa.decimal128(38, 2)),
        (pa.decimal128(9, 2), "mean", pa.decimal128(13, 6)),
        (pa.decimal128(38, 37), "mean", pa.decimal128(38, 38)),
        (pa.decimal128(38, 37), "min", pa.decimal128(38, 37)),
        (pa.decimal128(9, 2), "std", pa.float64()),
        (pa.timestamp("us", "UTC"), "max", pa.timestamp("us", "UTC")),
        (pa.uint64(), "sum", pa.decimal128(30, 0)),
    ],
)
def test_types(kind, name, made):
    assert measure(name, kind, "it").type == made
    operator = getattr(home, f"Running{name.title()}")("v")
    assert (
        run(operator, [None, 1] if not pa.types.is_decimal(kind) else [None, decimal.Decimal("0.5")], kind).type == made
    )


def test_a_sum_overflows_only_if_the_sum_of_its_window_does():
    most = 2**63 - 1
    values = [most, most, -most, 5, most, None, -most, -most, -3]
    found = run(home.RollingSum("v", rows=3).planned(ansi=False), values, pa.int64()).to_pylist()
    assert found == [most, None, most, 5, 5, None, 0, None, None]
    with pytest.raises(FunctionError, match=r"RunningSum\('v'\) is too large for bigint: cast the column .*ansi"):
        run(home.RunningSum("v"), values, pa.int64())
    with pytest.raises(FunctionError, match=r"sum\(v\) is too large for bigint"):
        run(RuleOperator("select sum(v) as s from T.win:length(2)"), values, pa.int64())
    rule = RuleOperator("select sum(v) as s from T.win:length(2)").planned(ansi=False)
    assert run(pickle.loads(pickle.dumps(rule)), values[:2], pa.int64()).to_pylist() == [most, None]


def test_decimals_that_have_too_many_digits():
    kind, most, least = pa.decimal128(38, 0), decimal.Decimal(10**38 - 1), decimal.Decimal(1 - 10**38)
    values = [most, most, least, least, decimal.Decimal(-1)]
    found = run(home.RollingSum("v", rows=3).planned(ansi=False), values, kind).to_pylist()
    assert found == [most, None, most, least, None]
    with pytest.raises(FunctionError, match=r"too large for decimal\(38, 4\)"):
        run(home.RunningMean("v"), [most], kind)


def test_state_of_another_type_is_refused():
    old = home.RollingSum("v", rows=3)
    run(old, [1.5], pa.float64())
    state = old.extract(0)
    new = home.RollingSum("v", rows=3)
    new.install(0, state[:5])  # as it was before aggregates were exact
    with pytest.raises(InvalidArgument, match="the state is of values of type double, and the column is bigint now"):
        run(new, [1], pa.int64())
    cents = home.RunningSum("v")
    run(cents, [decimal.Decimal("0.10")], pa.decimal128(9, 2))
    with pytest.raises(InvalidArgument, match="decimal of 2 digits behind the point, and the column is decimal of 3"):
        run(cents, [decimal.Decimal("0.100")], pa.decimal128(9, 3))


def test_what_has_no_aggregate():
    with pytest.raises(InvalidArgument, match="needs numbers, strings, dates, times or booleans, column 'v' is list"):
        home.RollingMin("v", rows=2).schema(pa.schema({"v": pa.list_(pa.string())}))
    with pytest.raises(InvalidArgument, match="needs numbers, column 'v' is date32"):
        home.RollingSum("v", rows=2).schema(pa.schema({"v": pa.date32()}))
    with pytest.raises(InvalidArgument, match=r"max\(v\) needs a window, such as win:length\(100\)"):
        RuleOperator("select max(v) as m from T").schema(pa.schema({"v": pa.string()}))
