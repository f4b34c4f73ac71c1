"""What a user is told of an error in a function: it begins with the function."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import evenflow
from evenflow.errors import FunctionError
from evenflow.graph.nodes.mapping import MapNode
from evenflow.model.messages import OperatorFailed
from evenflow.operators.map import MapOperator
from evenflow.rules.operator import RuleOperator
from evenflow.runtime.wire.messages import Reader
from evenflow.runtime.worker.rows.codec import error_body

OURS = str(Path(evenflow.__file__).parent)
ROWS = pa.record_batch({"x": [1, 2]})
PLACES = np.zeros(2, np.int32), np.zeros(2, np.int64)


def half(_rows):
    return 1 / 0


def told(call):
    """The traceback that is sent for the error of a call, which begins where the worker's own code does."""
    with pytest.raises((ZeroDivisionError, FunctionError)) as caught:
        call()
    caught.value.__traceback__ = caught.value.__traceback__.tb_next.tb_next  # this function, and the lambda
    found = Reader(OperatorFailed).decode(error_body(0, caught.value, "x=1"), "an error")
    return found.traceback.splitlines()


@pytest.mark.parametrize(
    "call",
    [
        lambda: MapOperator(half, ROWS.schema, "arrow").process(ROWS),
        lambda: MapNode("m", MapOperator(half, ROWS.schema, "arrow"), "arrow").process(0, ROWS, *PLACES),
        lambda: RuleOperator("select f(x) as y from T", {"f": half}).process(ROWS, *PLACES),
    ],
    ids=["map", "node", "rule"],
)
def test_a_traceback_begins_with_the_function(call):
    lines = told(call)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(", in half")
    assert not [line for line in lines if OURS in line]


def test_what_a_function_returns_is_no_error_in_our_code():
    assert told(lambda: MapOperator(lambda rows: 5, ROWS.schema, "arrow").process(ROWS)) == [
        "evenflow.errors.FunctionError: the function returned int, not a pyarrow.RecordBatch"
    ]
