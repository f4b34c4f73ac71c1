"""Values of keys of the hottest units: found in batches of rows, only where the user asked for them."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.control.regions.statistics import KEPT_KEYS, Statistics
from evenflow.dashboard.view import PageView
from evenflow.errors import ProtocolError
from evenflow.model.entries import entry_of
from evenflow.model.messages import MOST_KEY_TEXT, MOST_KEYS, FeederArrivals
from evenflow.runtime.feeder.keyed.key_values import EVERY_S, KeyValues
from evenflow.runtime.wire.messages import TO_CONTROLLER, packed
from tests.support import event_logs as logs


def rows(*names, numbers=None):
    """Rows of customers; the hash of a key is the number of its first letter, and its unit that modulo 4."""
    columns = {"customer": pa.array(names), "number": pa.array(numbers or range(len(names)))}
    return pa.RecordBatch.from_pydict(columns | {"hash": pa.array([ord(name[0]) if name else 0 for name in names])})


def units_of(batch):
    return (batch.column(2).to_numpy() % 4).astype(np.int32)


def found(batch, places=(0,)):
    keys = KeyValues(places)
    keys.look(0.0, batch, units_of)
    return keys.take()


def test_the_most_frequent_key_of_each_unit_is_found():
    assert found(rows("a", "e", "e", "b", "e")) == {1: "e", 2: "b"}  # a and e are of one unit
    assert found(rows("a", "b", numbers=[7, 8]), places=(0, 1)) == {1: "a, 7", 2: "b, 8"}


def test_nothing_is_looked_at_if_nobody_asked():
    def never(batch):
        raise AssertionError("units are not computed")

    keys = KeyValues(())
    keys.look(0.0, rows("a"), never)
    assert keys.take() == {}


def test_one_batch_a_second_is_looked_at_and_told_once():
    keys = KeyValues((0,))
    for time, name in ((0.0, "a"), (EVERY_S / 2, "b"), (EVERY_S, "c")):
        keys.look(time, rows(name), units_of)
    assert keys.take() == {3: "c"}, "the last look alone, so that there are never too many"
    assert keys.take() == {}


def test_values_are_cut_and_few():
    assert found(rows("a" * 500)) == {1: "a" * MOST_KEY_TEXT}
    keys = KeyValues((0,))
    many = pa.RecordBatch.from_pydict({"customer": [str(n) for n in range(50)], "x": range(50), "hash": range(50)})
    keys.look(0.0, many, lambda batch: batch.column(2).to_numpy().astype(np.int32))
    assert len(keys.take()) == MOST_KEYS


def arrivals(keys):
    return FeederArrivals(np.array([1], np.int32), np.array([5], np.int64), keys)


@pytest.mark.parametrize("keys", [{1: "x" * (MOST_KEY_TEXT + 1)}, dict.fromkeys(range(MOST_KEYS + 1), "x"), {-1: "x"}])
def test_more_than_that_is_refused(keys):
    with pytest.raises(ProtocolError, match="FeederArrivals"):
        TO_CONTROLLER.decode(packed(arrivals(keys)), "it")
    assert TO_CONTROLLER.decode(packed(arrivals({1: "alice"})), "it").keys == {1: "alice"}


def test_the_controller_keeps_the_latest():
    known = Statistics(2 * KEPT_KEYS)
    for unit in range(KEPT_KEYS + 5):
        known.arrived(arrivals({unit: str(unit), 0: "again"}))
    assert len(known.keys) == KEPT_KEYS
    assert (known.keys[0], known.keys[KEPT_KEYS + 4], 1 in known.keys) == ("again", str(KEPT_KEYS + 4), False)


def test_the_page_shows_them_beside_the_hottest_units():
    log = [logs.joined(0), logs.opened(units=4)]
    for second in (1.0, 2.0):
        hottest = [(3, 900 * second), (1, 100 * second)]
        told = [logs.consumer(0, second, 0.1)]
        log.append(logs.keyed_sample(second, told, hottest=hottest, keys={"3": "alice"}))
    view = PageView()
    for entry in log:
        view.apply(entry_of(entry))
    assert not view.unread
    shown = view.frame()["regions"][0]["hottest"]
    assert [(each["unit"], each.get("key")) for each in shown] == [(3, "alice"), (1, None)]
    assert view.regions["orders"].heaviest(0).key == "alice"
