"""What a worker gives again of an attempt that was whole, whichever rows come first this time."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.row_marks import ROW, marks_of
from evenflow.runtime.worker.rows.instances import Instances
from evenflow.runtime.worker.saving.repeats import LoggedResults, LoggedRows, OtherRows, rows_to_repeat

UNITS = 5
ADDED = pa.schema([("nth", pa.int64())])


class Nth(KeyedOperator):
    """Counts the rows of each unit."""

    def __init__(self):
        self.counts = {}

    def process(self, rows, units, keys):
        nth = []
        for unit in units.tolist():
            self.counts[unit] = self.counts.get(unit, 0) + 1
            nth.append(self.counts[unit])
        return pa.RecordBatch.from_arrays([*rows.columns, pa.array(nth)], names=[*rows.schema.names, "nth"])

    def extract(self, unit):
        return self.counts.pop(unit, None)

    def install(self, unit, state):
        self.counts[unit] = state


def sent(values, keys, marks=None):
    """Rows as they are sent and logged."""
    columns = {"value": pa.array(values, pa.int64())} | ({} if marks is None else {ROW: pa.array(marks, pa.int64())})
    return pa.RecordBatch.from_pydict(columns | {"key": pa.array(keys, pa.int64())})


def repeat(*logged, adds=False, ordered=False):
    schema = ADDED if adds else pa.schema([("value", pa.int64()), *ADDED])
    hosted = Hosted(Nth(), pa.schema([("value", pa.int64())]), schema, UNITS, adds=adds, ordered=ordered)
    instance = Instances().fresh(hosted)
    made = rows_to_repeat((3, 2), iter(logged), instance, hosted)

    def given(batch):
        (answer,) = made.answers(instance, hosted, "tag", batch, hosted.unpacked(batch)[1])
        assert (answer.tag, answer.last) == ("tag", True)
        return answer.batch.to_pydict()

    return made, given


def test_rows_that_come_bring_those_of_the_log():
    made, given = repeat(sent([1, 2, 3], [0, 1, 0]), sent([4, 5], [1, 0]))
    assert isinstance(made, LoggedRows)
    assert made.units.tolist() == [0, 1]
    assert given(sent([5, 4], [0, 1])) == {"value": [1, 2], "nth": [1, 1]}
    assert made.left == 3
    assert given(sent([2, 3, 1], [1, 0, 0])) == {"value": [3, 4, 5], "nth": [2, 2, 3]}
    assert made.left == 0
    with pytest.raises(OtherRows, match="more rows of unit 1 come than the 2 of then"):
        given(sent([9], [1]))


@pytest.mark.parametrize(("adds", "ordered"), [(True, False), (True, True), (False, True)])
def test_each_row_gets_its_own_result_again(adds, ordered):
    made, given = repeat(sent([1, 2, 3], [0, 1, 0]), sent([4, 1], [1, 0]), adds=adds, ordered=ordered)
    assert isinstance(made, LoggedResults)
    assert given(sent([4, 1, 3], [1, 0, 0]))["nth"] == [2, 1, 2]
    assert given(sent([1, 2], [0, 1]))["nth"] == [3, 1], "of two rows that are alike, the second"
    assert made.left == 0
    for other in (sent([1], [0]), sent([2], [0]), sent([77], [0])):
        with pytest.raises(OtherRows, match="1 of 1 rows of a frame were not among those of then"):
            given(other)


def test_rows_that_differ_in_what_stays_with_the_feeder():
    _, given = repeat(sent([1, 1, 1], [0, 0, 0], [7, 8, 7]), adds=True)
    assert given(sent([1, 1], [0, 0], [8, 7]))["nth"] == [2, 1]
    assert given(sent([1], [0], [7]))["nth"] == [3]


@pytest.mark.parametrize("adds", [True, False])
def test_a_log_without_marks_is_not_repeated_row_by_row(adds):
    """It was written when results did not go back to their own rows, and has strings."""
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"], "key": pa.array([0, 1])})
    hosted = Hosted(Nth(), batch.schema.remove(1), ADDED, UNITS, adds=adds, ordered=not adds)
    instance = Instances().fresh(hosted)
    made = rows_to_repeat((3, 2), iter([batch]), instance, hosted)
    assert made.left == 2
    with pytest.raises(OtherRows, match="its results went back to their rows in another way then"):
        made.answers(instance, hosted, "tag", batch, hosted.unpacked(batch)[1])


@pytest.mark.parametrize("adds", [True, False])
def test_a_file_is_let_go_when_all_rows_have_come(adds):
    made, given = repeat(sent([1, 2], [0, 1]), adds=adds)
    given(sent([1, 2], [0, 1]))
    assert made.left == 0
    made.free()
    with pytest.raises(OtherRows):
        given(sent([1], [0]))
    assert made.left == 0


def test_a_repeat_that_has_failed_is_never_through():
    made, given = repeat(sent([1], [0]))
    given(sent([1], [0]))
    made.failed = True
    assert made.left == 1


def test_marks_tell_rows_apart():
    values = {
        "long": pa.array([0, 1, None, 0, 0, 0], pa.int64()),
        "double": pa.array([0.0, 0.0, 0.0, -0.0, None, float("nan")]),
        "time": pa.array([0, 0, 0, 0, 0, 0], pa.timestamp("us", "UTC")),
        "key": pa.array([5, 5, 5, 5, 5, 5], pa.int64()),
    }
    marks = marks_of(pa.RecordBatch.from_pydict(values))
    assert len(np.unique(marks)) == 6
    swapped = pa.RecordBatch.from_arrays([pa.array([None, 1]), pa.array([1, None]), pa.array([0, 0])], names="abc")
    assert len(np.unique(marks_of(swapped))) == 2
