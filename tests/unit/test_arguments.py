"""Arguments of the wrong kind: one clear error each."""

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.runtime.arguments import check_move
from evenflow.runtime.supervise import supervise


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"restarts": "x"}, "restarts='x': give a number of at least 0"),
        ({"restarts": 1.5}, "restarts=1.5"),
        ({"restarts": -1}, "restarts=-1"),
        ({"restarts": True}, "restarts=True"),
        ({"backoff": "1"}, "backoff='1': give seconds, above 0"),
        ({"backoff": None}, "backoff=None"),
        ({"healthy": "long"}, "healthy='long'"),
        ({"cluster": "local"}, "cluster is 'local': give a Cluster"),
    ],
)
def test_supervise(wrong, said):
    with pytest.raises(InvalidArgument, match=said):
        supervise(lambda: pytest.fail("it must not be started"), **wrong)


def test_supervise_needs_a_function():
    with pytest.raises(InvalidArgument, match="start_query is 'query': give a function that starts the query"):
        supervise("query")


@pytest.mark.parametrize(
    ("units", "target"),
    [
        *((units, 0) for units in ("3", 3, [3.0], ["3"], None, [True], [9], [-1])),
        *(([0], target) for target in (None, "1", 1.0, 4, -1, True)),
    ],
)
def test_moves(units, target):
    with pytest.raises(InvalidArgument, match=r"give a list of units from 0 to 8, and a worker from 0 to 3"):
        check_move(units, target, 9, 4)


def test_a_move_that_makes_sense():
    assert check_move(np.array([1, 8]), np.int32(3), 9, 4) == [1, 8]
    assert check_move(range(2), 0, 9, 4) == [0, 1]
