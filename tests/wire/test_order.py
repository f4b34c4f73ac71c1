"""Rows that wait for their time over real sockets, without Spark: rows from several tasks, then ticks."""

import itertools
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from evenflow.control.events import RegionOpenedEvent
from evenflow.errors import StateLost
from evenflow.model import MoveUnits
from evenflow.operators.hosted import Hosted
from evenflow.operators.time.timed import NOW, Timed
from evenflow.policy import Hash
from evenflow.runtime.cluster.plans.keys import KEY
from evenflow.runtime.feeder.keyed.feed import KeyedFeed
from evenflow.runtime.feeder.task import Environment
from evenflow.runtime.feeder.ticks import RowTask, TickTask, TimeColumn
from tests.support.keyed_rig import Keyed, numbered, rows
from tests.support.rig import Rig, until
from tests.support.timed_model import SESSIONS, Sessions, expected_sessions

UNITS, SHARES = 16, 3
ROWS = pa.schema({"who": pa.int64(), "at": pa.int64(), "id": pa.int64()})


@pytest.fixture
def rig():
    rig = Rig(3)
    yield rig
    rig.close()


class Ordered:
    """`Sessions` over rows in the order of `at`, as `Cluster.keyed` would give it to Spark."""

    _numbers = itertools.count(1)

    def __init__(self, rig, lateness=None, streaming=False, key_values=()):
        self.rig = rig
        number = next(self._numbers)
        self.region, operator = f"ordered-{number}", f"ordered-op{number}"
        timed = Timed(Sessions(), ROWS, [0, 1, 2], [1], lateness is not None, UNITS + 1, SESSIONS)
        rig.driver.add_code(operator, cloudpickle.dumps(Hosted(timed, ROWS.append(NOW), SESSIONS, UNITS + 1)))
        rig.driver.open_region(RegionOpenedEvent(rig.driver.now(), self.region, operator, Hash(), UNITS + 1))
        encoded = SESSIONS.serialize().to_pybytes()
        names, more = (*ROWS.names, KEY), {"streaming": streaming, "key_values": key_values}
        feed = KeyedFeed(rig.settings, self.region, operator, encoded, True, False, names, **more)
        clock = None if lateness is None else TimeColumn(1, "at")
        self.rows = RowTask(feed, UNITS + 1, SHARES, clock)
        self.ticks = TickTask(feed.for_ticks([NOW.name]), UNITS + 1, SHARES, lateness)
        self.identity = {}
        self.environment = Environment(identity=lambda: dict(self.identity))

    def run(self, parts, epoch=0, query="", stage="1"):
        """One evaluation of rows (who, at, id) in some partitions; results, and how the ticks' tasks were."""
        notes = [
            note for partition, part in enumerate(parts) for note in self.feed(part, partition, epoch, query, stage)
        ]
        return [row for share in range(SHARES) for row in self.tell(notes, share, epoch, query, f"{stage}-ticks")]

    def feed(self, rows, partition, epoch=0, query="", stage="1"):
        self.identity = self._task(partition, epoch, query, stage)
        columns = [pa.array([row[place] for row in rows], pa.int64()) for place in (0, 1, 2, 0)]
        batch = pa.RecordBatch.from_arrays(columns, names=[*ROWS.names, KEY])
        return list(self.rows(numbered([batch], partition), self.environment))

    def tell(self, notes, share, epoch=0, query="", stage="2"):
        self.identity = self._task(share, epoch, query, stage)
        mine = [note.filter(pa.array(np.array(note.column("share")) == share)) for note in notes]
        return [tuple(row.values()) for batch in self.ticks(mine, self.environment) for row in batch.to_pylist()]

    def _task(self, partition, epoch, query, stage):
        return {"partition": partition, "attempt": 0, "query": query, "epoch": epoch, "stage": stage, "run": "r"}

    def move(self, units, target):
        owners = self.rig.driver.ask(lambda controller: controller.region(self.region)).movements.table.owners
        for source in sorted({int(owners[unit]) for unit in units} - {target}):
            mine = tuple(unit for unit in units if owners[unit] == source)
            self.rig.driver.move(MoveUnits(self.region, mine, source, target, "a test"))


def drawn(count, seed=0, span=2000, keys=30):
    random = np.random.default_rng(seed)
    at = random.integers(0, span, count).tolist()
    return [
        (int(who), at, place) for place, (who, at) in enumerate(zip(random.integers(0, keys, count), at, strict=True))
    ]


def wanted(rows):
    return expected_sessions([row[0] for row in rows], [row[1] for row in rows])


@pytest.mark.parametrize("partitions", [1, 4, 7])
def test_all_sessions_of_a_batch_come_out_whatever_the_partitions(rig, partitions):
    given = drawn(3000)
    ordered = Ordered(rig)
    made = ordered.run([given[start::partitions] for start in range(partitions)])
    assert sorted(made) == wanted(given)
    region = rig.driver.ask(lambda controller: controller.region(ordered.region))
    until(lambda: rows_of(region.performance.total) == (3000, 3000), "all rows in the latencies, once")


def rows_of(performance):
    return performance.rows_in, sum(performance.latencies.rows.values())


def test_an_empty_partition_and_an_empty_dataframe(rig):
    given = drawn(100)
    assert sorted(Ordered(rig).run([[], given, []])) == wanted(given)
    assert Ordered(rig).run([[], []]) == []


def test_time_passes_for_all_keys_across_batches_while_units_move(rig):
    lateness = 50 * 1_000_000
    ordered = Ordered(rig, lateness, streaming=True)
    given = drawn(6000, span=3000)
    arrival = sorted(given, key=lambda row: row[1] + np.random.default_rng(row[2]).integers(0, 45))
    want = wanted(given)
    stop = threading.Event()

    def shuffle():
        for turn in itertools.count():
            if stop.is_set():
                return
            ordered.move([turn % UNITS, (turn + 5) % UNITS], turn % 3)
            time.sleep(0.005)

    shuffling = threading.Thread(target=shuffle)
    shuffling.start()
    made, latest = [], 0
    try:
        for epoch in range(10):
            batch = arrival[600 * epoch : 600 * (epoch + 1)]
            parts = 1 + epoch % 4
            made += ordered.run([batch[start::parts] for start in range(parts)], epoch, "q", str(epoch))
            latest = max(latest, *(row[1] for row in batch))
            over = [session for session in want if session[2] + 10_000_000 <= latest * 1_000_000 - lateness]
            assert set(over) <= set(made) <= set(want)
    finally:
        stop.set()
        shuffling.join()
    assert len(made) > 0.8 * len(want)


def test_values_of_keys_are_those_of_rows_and_not_of_ticks(rig):
    """The key is in the third column, which ticks lack; in the first one they have the time."""
    given = drawn(2000)
    ordered = Ordered(rig, 50 * 1_000_000, streaming=True, key_values=(2, 0))
    assert ordered.run([given], query="q")
    keys = rig.driver.ask(lambda controller: controller.region(ordered.region)).statistics.keys
    assert keys
    who = {str(row[2]): str(row[0]) for row in given}
    assert all(who[number] == name for number, name in (text.split(", ") for text in keys.values()))


def test_rows_of_several_partitions_are_warned_of(rig, caplog):
    keyed = Keyed(rig)
    keyed.known()._order_warning = "give order_by="
    keyed.run(rows(100), partition=0)
    assert not caplog.records
    keyed.run(rows(100), partition=1)
    keyed.run(rows(100), partition=2)
    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        ("evenflow", "WARNING", "give order_by=")
    ]


def test_the_same_ticks_twice_give_the_same_twice(rig):
    """Spark runs the second stage again for a second action, or after a failure, and not the first."""
    ordered = Ordered(rig)
    notes = ordered.feed(drawn(100), 0)
    first = [ordered.tell(notes, share) for share in range(SHARES)]
    assert sum(map(len, first)) > 0
    assert [ordered.tell(notes, share) for share in range(SHARES)] == first


def test_the_same_ticks_twice_are_refused_in_a_stream(rig):
    ordered = Ordered(rig, streaming=True)
    notes = ordered.feed(drawn(100), 0, query="q")
    ordered.tell(notes, 0, query="q")
    with pytest.raises(StateLost, match=r"put in order and processed before .* Start again from the beginning"):
        ordered.tell(notes, 0, query="q")
    with pytest.raises(StateLost, match=r"put in order and processed before .* persist"):
        ordered.tell(notes, 0, query="q", stage="3")
