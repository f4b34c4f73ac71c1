"""check_operator passes what keeps the laws and names the law that is broken."""

import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.distinct import DistinctCount
from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.aggregates.rolling import RollingMean, RollingStd, RunningSum
from evenflow.operators.joins.join import WindowJoin
from evenflow.operators.keyed import KeyedOperator
from evenflow.testing import check_operator


class Counting(KeyedOperator):
    """How many rows the key has had: what the broken ones below are made of."""

    def __init__(self):
        self.counts = {}

    def schema(self, rows):
        return pa.schema({"n": pa.int64()})

    def process(self, rows, units, keys):
        out = []
        for unit, key in zip(units.tolist(), keys.tolist(), strict=True):
            mine = self.counts.setdefault(unit, {})
            mine[key] = mine.get(key, 0) + 1
            out.append(mine[key])
        return pa.record_batch({"n": pa.array(out, pa.int64())})

    def extract(self, unit):
        return self.counts.pop(unit, None)

    def install(self, unit, state):
        self.counts[unit] = state


class LosesState(Counting):
    def install(self, unit, state):
        super().install(unit, {key: count for key, count in state.items() if key != min(state)})


class LeavesState(Counting):
    def extract(self, unit):
        return self.counts.get(unit)


class NeverEmpty(Counting):
    def extract(self, unit):
        return self.counts.pop(unit, {})


class CannotBePickled(Counting):
    def extract(self, unit):
        state = super().extract(unit)
        return state and (lambda: state)


class DependsOnBatches(Counting):
    def process(self, rows, units, keys):
        return pa.record_batch({"n": pa.array([rows.num_rows] * rows.num_rows, pa.int64())})


class MixesUnits(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, np.zeros_like(units), np.zeros_like(keys))


class WrongOrigin(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, units, keys), np.zeros(len(units), np.int64)


class FallingOrigin(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, units, keys), np.arange(len(units))[::-1]


class OriginElsewhere(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, units, keys), np.arange(len(units)) + 1


class TooFewOrigins(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, units, keys), np.arange(len(units))[1:]


class NotWhatSchemaTells(Counting):
    def schema(self, rows):
        return pa.schema({"m": pa.int64()})


class NotABatch(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, units, keys).to_pandas()


class NegativeSizes(Counting):
    def size(self, unit):
        return -1


class HoldsALock(Counting):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class OnlyOdd(Counting):
    """A filter that does not tell which rows are left."""

    def process(self, rows, units, keys):
        out = super().process(rows, units, keys)
        return out.filter(pa.array([n % 2 == 1 for n in out["n"].to_pylist()], pa.bool_()))


class OnlyOddLosesState(OnlyOdd):
    def install(self, unit, state):
        pass


class Adds(Counting):
    """Gives its rows back with their count; needs none of their columns."""

    adds = True

    def reads(self, rows):
        return []

    def schema(self, rows):
        return rows.append(pa.field("n", pa.int64()))

    def process(self, rows, units, keys):
        counts = super().process(rows, units, keys).column("n")
        return pa.RecordBatch.from_arrays([*rows.columns, counts], schema=self.schema(rows.schema))


class AddsInFront(Adds):
    def schema(self, rows):
        return pa.schema([("n", pa.int64()), *rows])

    def process(self, rows, units, keys):
        counts = Counting.process(self, rows, units, keys).column("n")
        return pa.RecordBatch.from_arrays([counts, *rows.columns], schema=self.schema(rows.schema))


class ReadsMore(Adds):
    def process(self, rows, units, keys):
        assert len(rows.column("v")) == len(keys)
        return super().process(rows, units, keys)


class ReadsWhatIsNot(Adds):
    def reads(self, rows):
        return ["x"]


class CountsColumns(Adds):
    def process(self, rows, units, keys):
        counts = pa.array([rows.num_columns] * rows.num_rows, pa.int64())
        return pa.RecordBatch.from_arrays([*rows.columns, counts], schema=self.schema(rows.schema))


class UntypedWhenEmpty(Counting):
    def process(self, rows, units, keys):
        counted = super().process(rows, units, keys).column("n").to_pylist()
        return pa.record_batch({"n": pa.array(counted)})


class NothingWhenEmpty(Counting):
    def process(self, rows, units, keys):
        return super().process(rows, units, keys) if len(keys) else None


class FailsWhenEmpty(Counting):
    def process(self, rows, units, keys):
        assert keys.max() > keys.min() - 1
        return super().process(rows, units, keys)


def sample(count=200, seed=0):
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "k": pa.array(random.choice(["a", "b", "c", "d", "e", "f", None], count), pa.string()),
            "j": random.integers(0, 3, count),
            "v": pa.array(random.normal(size=count), mask=random.random(count) < 0.2),
            "s": pa.array([None if n % 5 == 0 else str(n % 17) for n in range(count)]),
            "tag": random.choice(["L", "R"], count),
            "t": np.arange(count) * 0.1,
        }
    )


@pytest.mark.parametrize(
    "operator",
    [
        Counting(),
        OnlyOdd(),
        Adds(),
        RollingMean("v", rows=5),
        RollingStd("v", seconds=3.0, time="t"),
        RunningSum("v"),
        LastValue("s"),
        DistinctCount("s"),
        WindowJoin("tag", "L", "R", rows=3),
        WindowJoin("tag", "L", "R", seconds=2.0, time="t"),
    ],
    ids=lambda operator: type(operator).__name__,
)
@pytest.mark.parametrize("key", ["k", ["k", "j"]])
def test_what_keeps_the_laws_passes(operator, key):
    check_operator(operator, sample(), key=key, rounds=4)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (LosesState, r"law 'move', unit \d: its results change when units are moved.*became"),
        (LeavesState, r"law 'empty', unit \d: extract leaves state behind"),
        (NeverEmpty, r"law 'empty', unit \d: extract gives something for a unit that has had no rows"),
        (CannotBePickled, r"law 'pickle', unit \d: what extract gives, function, cannot be pickled"),
        (DependsOnBatches, r"law 'units', unit \d: its results change with the rows of other units"),
        (MixesUnits, r"law 'units', unit \d: its results change with the rows of other units"),
        (WrongOrigin, r"law 'origin', unit \d: the same results are said to come from other rows"),
        (FallingOrigin, "law 'origin': origins fall"),
        (OriginElsewhere, "law 'origin': origins run from 1 to 200 in a batch of 200 rows"),
        (TooFewOrigins, "law 'origin': there are 200 result rows and 199 origins"),
        (NotWhatSchemaTells, r"law 'operator': schema\(\) tells\nm: int64"),
        (NotABatch, "law 'operator': process gives DataFrame"),
        (NothingWhenEmpty, "law 'operator': process gives NoneType for an empty batch: give a pyarrow.RecordBatch"),
        (
            UntypedWhenEmpty,
            "law 'operator': results for an empty batch have other columns:\nn: null\ninstead",
        ),
        (NegativeSizes, r"law 'operator': sizes\(\) of 8 units gives"),
        (HoldsALock, "law 'operator': it cannot be pickled"),
        (AddsInFront, "law 'columns': it says that it only adds columns"),
        (ReadsMore, r"law 'columns': process needs a column that reads\(\) does not name"),
        (ReadsWhatIsNot, r"law 'columns': reads\(\) names 'x'; there are: k, j"),
        (CountsColumns, r"law 'columns', unit \d: its results change when it is given only the columns it reads"),
        (OnlyOddLosesState, r"law 'move': its results change.*\(in some unit"),
    ],
)
def test_what_breaks_a_law_is_told(operator, message):
    with pytest.raises(AssertionError, match=f"^{operator.__name__} breaks {message}"):
        check_operator(operator(), sample(), key="k")


def test_an_error_for_an_empty_batch_says_so():
    with pytest.raises(ValueError, match="zero-size array") as caught:
        check_operator(FailsWhenEmpty(), sample(), key="k")
    assert caught.value.__notes__ == [
        "FailsWhenEmpty.process raised this for an empty batch, while check_operator tried it"
    ]


def test_results_that_change_with_the_batches():
    with pytest.raises(AssertionError, match=r"law 'batches', unit 0: its results change when the rows are cut"):
        check_operator(DependsOnBatches(), sample(), key="k", units=1)


@pytest.mark.parametrize("form", [lambda t: t, lambda t: t.to_pandas(), lambda t: t.to_batches()[0], lambda t: t[:0]])
def test_any_form_of_sample(form):
    check_operator(RunningSum("v"), form(sample(50)), key="k", rounds=2)


def test_the_seed_decides():
    def message(seed):
        with pytest.raises(AssertionError) as caught:
            check_operator(LosesState(), sample(), key="k", seed=seed)
        return str(caught.value)

    assert message(1) == message(1)
    assert len({message(seed) for seed in range(5)}) > 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "x"}, "column 'x' does not exist; there are: k, j, v"),
        ({"units": 0}, "units is 0: give at least 1"),
        ({"rows": [1, 2]}, "rows is list: give a RecordBatch"),
        ({"operator": Counting}, "operator is ABCMeta: give an object"),
    ],
)
def test_what_cannot_be_checked(change, message):
    arguments = {"operator": Counting(), "rows": sample(), "key": "k"} | change
    with pytest.raises(InvalidArgument, match=message):
        check_operator(arguments.pop("operator"), arguments.pop("rows"), **arguments)


def test_a_data_frame_with_keys_of_any_kind():
    frame = pd.DataFrame({"k": pd.date_range("2026", periods=30).repeat(3), "v": range(90)})
    check_operator(RunningSum("v"), frame, key="k", rounds=2)


@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        (
            "from evenflow.operators.aggregates import distinct, last, rolling",
            False,
        ),
        ("import evenflow.operators.joins.join, evenflow.testing", False),
        ("from evenflow.operators.aggregates.rolling import RunningSum; RunningSum('v')", True),
    ],
)
def test_numba_comes_with_the_first_operator(statement, loaded):
    code = f"import sys\n{statement}\nprint('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loaded)
