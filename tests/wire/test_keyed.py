"""Keyed operators over real sockets, without Spark."""

import itertools
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from evenflow.model.capacity import Emulate
from evenflow.policy import DlbH, DlbL, Hash, KeyGrouping, Lptf, PartialKeyGrouping, River
from evenflow.runtime.feeder.keyed.ranges import Ranges
from tests.support.keyed_rig import OUT, ROWS, UNITS, Flow, Keyed, Nth, check, rows
from tests.support.rig import Rig, until


@pytest.fixture
def rig():
    rig = Rig(3)
    yield rig
    rig.close()


def test_rows_go_through(rig):
    keyed = Keyed(rig)
    counts = check(keyed.run(rows(5000)), 5000)
    expected = np.bincount(np.concatenate([b.column(1).to_numpy() for b in rows(5000)]))
    assert counts == {key: int(n) for key, n in enumerate(expected) if n}


def test_units_move_while_rows_flow(rig):
    keyed = Keyed(rig)
    stop = threading.Event()

    def shuffle():
        turn = 0
        while not stop.is_set():
            turn += 1
            keyed.move([turn % UNITS, (turn + 5) % UNITS], turn % 3)
            time.sleep(0.002)

    flow = Flow(rows, lambda: keyed.known().movements.moved > 20)
    shuffling = threading.Thread(target=shuffle)
    shuffling.start()
    try:
        made = keyed.run(flow)
    finally:
        stop.set()
        shuffling.join()
    assert sum(check(made, flow.count).values()) == flow.count


class Watching(Hash):
    """Notes the shortest time that a report covers."""

    report_s = 0.02

    def __init__(self):
        self.before, self.least = {}, 1.0

    def decide(self, snapshot):
        for consumer in snapshot.consumers:
            self.least = min(self.least, consumer.seconds - self.before.get(consumer.worker, -1.0))
            self.before[consumer.worker] = consumer.seconds
        return []


def test_balances_say_how_often_workers_report(rig):
    balance = Watching()
    keyed = Keyed(rig, balance=balance, report_s=balance.report_s)
    flow = Flow(rows, lambda: balance.least < 0.05)
    check(keyed.run(flow), flow.count)
    assert balance.least >= balance.report_s


def frames_of(count, report_s):
    """The frames in which one worker, at 0.1 ms a row, gets rows that all wait for it at once."""
    rig = Rig(1, emulate=Emulate(100))
    try:
        check(Keyed(rig, report_s=report_s).run(rows(count, size=count)), count)
        statuses = until(
            lambda: [each for each in rig.driver.ask(lambda known: known.workers(0.0)) if each.rows == count]
        )
        return statuses[0].frames
    finally:
        rig.close()


def test_frames_are_longer_while_many_rows_wait_unless_reports_are_frequent():
    """Two seconds of work: frames of 10 ms are 200."""
    assert frames_of(20_000, report_s=0.1) < 170
    assert frames_of(20_000, report_s=0.02) > 190


@pytest.mark.parametrize("ordered", [False, True])
def test_how_long_rows_took(rig, ordered):
    keyed = Keyed(rig, ordered=ordered)
    for partition in range(2):
        keyed.run(rows(3000), partition, stage=str(partition))
    told = until(lambda: rows_told(keyed.known().performance.total, 6000))
    assert sum(by_worker.summary.rows for by_worker in told.workers.values()) == 6000
    assert 0 < max(by_worker.summary.mean for by_worker in told.workers.values()) <= told.latencies.summary.mean


def rows_told(performance, count):
    """The performance, once all rows are in it."""
    found = performance.latencies.summary
    return performance if found is not None and found.rows == count == performance.rows_in else None


def test_ordered_gives_back_the_order(rig):
    keyed = Keyed(rig, ordered=True)
    result = keyed.run(rows(5000, size=700))
    assert pa.Table.from_batches(result, OUT).column("id").to_pylist() == list(range(5000))


def test_state_lasts_from_batch_to_batch(rig):
    keyed = Keyed(rig)
    totals = {}
    for epoch in range(3):
        counts = check(
            keyed.run(rows(1000, start=1000 * epoch, seed=epoch), query="q", epoch=epoch), 1000, 1000 * epoch
        )
        totals |= counts
        keyed.move([epoch, epoch + 7], epoch)
    assert sum(totals.values()) == 3000
    until(lambda: not keyed.known().movements.moving)


def test_each_batch_evaluation_starts_afresh(rig):
    keyed = Keyed(rig)
    first = check(keyed.run(rows(1000), stage="1"), 1000)
    assert check(keyed.run(rows(1000), stage="2"), 1000) == first


def test_large_state_moves(rig):
    keyed = Keyed(rig, Nth(padding=10 * 1024 * 1024))
    check(keyed.run(rows(1000), query="q"), 1000)
    for unit in range(4):
        keyed.move([unit], 2)
    until(lambda: not keyed.known().movements.moving and keyed.known().movements.moved >= 2)
    assert sum(check(keyed.run(rows(1000, start=1000), query="q", epoch=1), 1000, 1000).values()) == 2000
    assert not rig.events("move-undone")


def skewed(count, size=100, **more):
    """Rows of which every other one has key 3; the others are spread over 50 keys."""
    for batch in rows(count, size=size, **more):
        ids, keys = batch.column(0).to_numpy(), batch.column(1).to_numpy()
        yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(np.where(ids % 2, keys, 3))], schema=ROWS)


@pytest.mark.parametrize("balance", [DlbH, DlbL, Lptf])
def test_balances_by_load_move_units_and_lose_nothing(rig, balance):
    keyed = Keyed(rig, balance=balance(theta=5, window=0.2, least_rows=1))
    flow = Flow(skewed, lambda: rig.events("rebalance"), pause_s=0.003)
    assert sum(check(keyed.run(flow), flow.count).values()) == flow.count
    until(lambda: not keyed.known().movements.moving, "the end of all movements")
    decided = rig.events("rebalance")
    assert decided
    for event in decided:
        assert event["balance"] == balance.name
        assert event["detail"]["score"] > event["detail"]["score_after"]
        assert event["detail"]["keys"] == event["units"] == len(event["unit_rows"]) > 0
    assert keyed.known().movements.moved == sum(event["units"] for event in decided)


def test_key_grouping_moves_nothing(rig):
    keyed = Keyed(rig, balance=KeyGrouping())
    check(keyed.run(skewed(10_000)), 10_000)
    assert keyed.known().movements.moved == 0


@pytest.mark.parametrize("ordered", [True, False])
def test_partial_key_grouping_splits_keys_between_two_workers(rig, ordered):
    keyed = Keyed(rig, balance=PartialKeyGrouping(), ordered=ordered)
    table = pa.Table.from_batches(keyed.run(skewed(10_000)), OUT)
    ids, keys, nth = (table.column(name).to_numpy() for name in OUT.names)
    assert (ids if ordered else np.sort(ids)).tolist() == list(range(10_000))
    split = 0
    for key in np.unique(keys):
        times = np.bincount(nth[keys == key])[1:]  # 1, 2, 3, ... on one worker, and again on the other
        assert times.max() <= 2
        assert (np.diff(times) <= 0).all()
        split += times.max() == 2
    assert split > 40
    done = until(lambda: (found := consumed(keyed)) and sum(found) == 10_000 and found)
    assert max(done) - min(done) < 1_000  # half of all rows are of one key


def test_workers_with_little_to_do_share_rows_that_anybody_may_take(rig):
    keyed = Keyed(rig, balance=River())
    flow = Flow(rows, lambda: True, least=8_000, pause_s=0.012)  # each batch is sent before the next is asked for
    result = pa.Table.from_batches(keyed.run(flow), OUT)
    assert sorted(result.column("id").to_pylist()) == list(range(flow.count))
    done = until(lambda: (found := consumed(keyed)) and sum(found) == flow.count and found)
    assert min(done) > flow.count / 10


def consumed(keyed):
    return [consumer.rows for consumer in keyed.known().snapshot(0.0).consumers]


def test_keys_in_ranges_move_while_rows_flow(rig):
    """Keys 0 to 49 in ranges of 10: the unit does not follow from the key, and goes where its range goes."""
    ranges = Ranges(pa.array([10, 20, 30, 40]), 1, UNITS + 1)
    keyed = Keyed(rig, ranges=ranges)
    turns = itertools.count()

    def moved():
        turn = next(turns)
        keyed.move([turn % 5], turn % 3)
        return keyed.known().movements.moved > 5

    flow = Flow(rows, moved)
    counts = check(keyed.run(flow), flow.count)
    until(lambda: sum(consumed(keyed)) == flow.count)
    expected = [sum(counts.get(key, 0) for key in range(unit * 10, unit * 10 + 10)) for unit in range(UNITS + 1)]
    assert keyed.known().snapshot(0.0).unit_rows.tolist() == expected


def test_keys_are_units_with_modulo(rig):
    """The feeder takes the key from its column, and negative ones have units too."""
    keyed = Keyed(rig, key_place=0, modulo=True)
    ids = np.arange(-40, 200)
    given = pa.RecordBatch.from_arrays([pa.array(ids)], schema=pa.schema([ROWS.field(0)]))
    result = pa.Table.from_batches(keyed.run([given]), OUT)
    assert sorted(result.column("key").to_pylist()) == ids.tolist()
    until(lambda: sum(consumed(keyed)) == len(ids))
    assert keyed.known().snapshot(0.0).unit_rows.tolist() == [*np.bincount(ids % UNITS), 0]
