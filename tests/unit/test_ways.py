"""Which way rows of a graph go: to all who read them, once a worker; what is for units that move is held."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.graph.routing import HASH, Ways, port_schema
from tests.support.graph_nodes import SCHEMA
from tests.support.graph_plans import Sketch

TURN = 5


def plan():
    """Stream 0 is read by two whole operators (ports 0 and 1), a spread one (port 2) and an ordered map (port 3)."""
    made = Sketch(1)
    for kind, units in (("keep", 1), ("mark", 1), ("collect", 5), ("lanes", 1)):
        made.add(kind, 0, units=units)
    return made.ended().plan()


def ways(owners=(0, 0, 0, 1, 2, 1, 0, 2, 2, 2, 2, 2, 0), paused=None):
    """Units: two of whole operators, five of the spread one, four lanes, that of the order, and one never used."""
    return Ways(plan(), np.array(owners, np.int32), paused)


def rows(keys):
    columns = [pa.array(keys if name == "key" else range(len(keys)), pa.int64()) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def split(known, keys, turn=TURN):
    """By worker and ports, the keys of the rows that go there."""
    found = {}
    for bundle in known.split(0, rows(keys), turn):
        assert bundle.turn == turn
        assert (bundle.worker, bundle.ports) not in found
        found[bundle.worker, bundle.ports] = bundle.rows.column(2).to_pylist()
    return found


KEYS = [0, 1, 2, 3, 5, 4, 1]
SPREAD = {(0, (2,)): [0, 4], (1, (2,)): [1, 3, 5, 1], (2, (2,)): [2]}
LANES = {(2, (3,)): KEYS}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda known: None, {(0, (0, 1)): KEYS} | SPREAD | LANES),
        (lambda known: known.pause(9, [0]), {(-9, (0,)): KEYS, (0, (1,)): KEYS} | SPREAD | LANES),
        (lambda known: known.pause(9, [0, 1]), {(-9, (0, 1)): KEYS} | SPREAD | LANES),
        (
            lambda known: known.pause(9, [3]),
            {(0, (0, 1)): KEYS, (0, (2,)): [0, 4], (-9, (2,)): [1, 5, 1], (1, (2,)): [3], (2, (2,)): [2]} | LANES,
        ),
        (lambda known: known.pause(9, [8]), {(0, (0, 1)): KEYS, (-9, (3,)): KEYS} | SPREAD),
        (lambda known: known.pause(9, [7]), {(0, (0, 1)): KEYS} | SPREAD | LANES),
        (
            lambda known: (known.pause(9, [0, 1]), known.release(9, 2)),
            {(2, (0, 1, 3)): KEYS} | SPREAD,
        ),
        (
            lambda known: (known.pause(9, [0, 1]), known.release(9, 0)),
            {(0, (0, 1)): KEYS} | SPREAD | LANES,
        ),
        (lambda known: known.release(9, 2), {(0, (0, 1)): KEYS} | SPREAD | LANES),
    ],
    ids=[
        "as they are",
        "one of two readers moves",
        "both move",
        "a unit with keys moves",
        "the lane of this turn moves",
        "the lane of another turn moves",
        "both have moved to where another reader is",
        "the movement was taken back",
        "a movement that was never heard of",
    ],
)
def test_rows_go_to_their_readers(change, wanted):
    known = ways()
    change(known)
    assert split(known, KEYS) == wanted


def test_a_movement_goes_by_the_units_that_it_still_has():
    """A second movement of a unit, told before the end of the first, is what counts."""
    known = ways()
    known.pause(1, [0, 1])
    known.pause(2, [1])
    assert known.moving == {1, 2}
    assert known.release(1, 2)
    assert split(known, [7])[-2, (1,)] == [7]
    assert not known.release(1, 2)


def test_who_joins_during_a_movement_holds_its_units():
    assert (-4, (0,)) in split(ways(paused={4: (0,)}), KEYS)


def test_rows_of_a_unit_keep_their_order():
    given = [bundle for bundle in ways().split(0, rows(list(range(40)) * 3), 0) if bundle.ports == (2,)]
    for bundle in given:
        assert bundle.rows.column(1).to_pylist() == sorted(bundle.rows.column(1).to_pylist())
        assert bundle.rows.schema.field(bundle.rows.num_columns - 1) == HASH
    assert sum(bundle.rows.num_rows for bundle in given) == 120


def test_a_turn_without_rows_goes_only_where_it_is_waited_for():
    assert list(split(ways(), [])) == [(2, (3,))]
    assert all(bundle.uncut for bundle in ways().split(0, rows([]), 0))


@pytest.mark.parametrize(
    ("worker", "paused", "used"),
    [(0, {}, True), (1, {}, True), (3, {}, False), (3, {4: (0,)}, True)],
    ids=["whole operators", "units", "nothing", "perhaps, before a movement"],
)
def test_which_workers_rows_go_to(worker, paused, used):
    assert ways(paused=paused).uses(worker) is used


def test_rows_for_a_spread_operator_travel_with_their_hashes():
    assert [port_schema(plan(), port).names[-1] for port in range(4)] == ["value", "value", HASH.name, "value"]
