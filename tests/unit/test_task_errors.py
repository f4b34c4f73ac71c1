"""What Spark shows of an error in a task: nothing of ours that says nothing."""

import traceback
from unittest.mock import Mock

import pytest
from pyspark.util import try_simplify_traceback

from evenflow.errors import FunctionError, RegionStalled
from evenflow.runtime.feeder.keyed.feeder import KeyedFeeder
from evenflow.runtime.feeder.ordered.feeder import OrderedFeeder


def failing(kind, error):
    """A feeder whose rows fail after the first result."""
    feeder = kind.__new__(kind)
    feeder._connections = Mock(registered=False)
    feeder._told_why = feeder._input_failed = feeder._measured = False

    def run(batches):
        yield from batches
        raise error

    feeder._run = run
    return feeder


def shown(feeder, error):
    with pytest.raises(type(error)) as caught:
        list(feeder.serve(["rows"]))
    frames = traceback.extract_tb(try_simplify_traceback(caught.value.__traceback__))
    return [frame.line for frame in frames if "feeder" in frame.filename]


@pytest.mark.parametrize("kind", [OrderedFeeder, KeyedFeeder])
def test_an_error_of_the_users_function_has_one_line_of_ours(kind):
    error = FunctionError("the function failed")
    feeder = failing(kind, error)
    assert shown(feeder, error) == ["raise error.with_traceback(None) from None"]
    feeder._connections.close.assert_called_once_with()


@pytest.mark.parametrize("kind", [OrderedFeeder, KeyedFeeder])
def test_other_errors_end_where_they_were_raised(kind):
    error = RegionStalled("no worker answered")
    feeder = failing(kind, error)
    assert shown(feeder, error) == ["raise"]
    feeder._connections.close.assert_called_once_with()


@pytest.mark.parametrize("kind", [OrderedFeeder, KeyedFeeder])
def test_results_that_nobody_reads_to_their_end(kind):
    feeder = failing(kind, AssertionError("nobody asks for the second result"))
    results = feeder.serve(["rows", "more"])
    assert next(results) == "rows"
    results.close()
    feeder._connections.close.assert_called_once_with()
