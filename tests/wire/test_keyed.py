"""Keyed operators over real sockets, without Spark."""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from .keyed_rig import OUT, UNITS, Keyed, Nth, check, rows
from .rig import Rig, until


@pytest.fixture
def rig():
    rig = Rig(3)
    yield rig
    rig.close()


def test_rows_go_through(rig, monkeypatch):
    keyed = Keyed(rig, monkeypatch)
    counts = check(keyed.run(rows(5000)), 5000)
    expected = np.bincount(np.concatenate([b.column(1).to_numpy() for b in rows(5000)]))
    assert counts == {key: int(n) for key, n in enumerate(expected) if n}


def test_units_move_while_rows_flow(rig, monkeypatch):
    keyed = Keyed(rig, monkeypatch)
    stop = threading.Event()

    def shuffle():
        turn = 0
        while not stop.is_set():
            turn += 1
            keyed.move([turn % UNITS, (turn + 5) % UNITS], turn % 3)
            time.sleep(0.002)

    mover = threading.Thread(target=shuffle)
    mover.start()
    try:
        counts = check(keyed.run(rows(60_000)), 60_000)
    finally:
        stop.set()
        mover.join()
    assert sum(counts.values()) == 60_000
    assert keyed.known().movements.moved > 20


def test_ordered_gives_back_the_order(rig, monkeypatch):
    keyed = Keyed(rig, monkeypatch, ordered=True)
    result = keyed.run(rows(5000, size=700))
    assert pa.Table.from_batches(result, OUT).column("id").to_pylist() == list(range(5000))


def test_state_lasts_from_batch_to_batch(rig, monkeypatch):
    keyed = Keyed(rig, monkeypatch)
    totals = {}
    for epoch in range(3):
        counts = check(
            keyed.run(rows(1000, start=1000 * epoch, seed=epoch), query="q", epoch=epoch), 1000, 1000 * epoch
        )
        totals |= counts
        keyed.move([epoch, epoch + 7], epoch)
    assert sum(totals.values()) == 3000
    until(lambda: not keyed.known().movements.moving)


def test_each_batch_evaluation_starts_afresh(rig, monkeypatch):
    keyed = Keyed(rig, monkeypatch)
    first = check(keyed.run(rows(1000), stage="1"), 1000)
    assert check(keyed.run(rows(1000), stage="2"), 1000) == first


def test_large_state_moves(rig, monkeypatch):
    keyed = Keyed(rig, monkeypatch, Nth(padding=10 * 1024 * 1024))
    check(keyed.run(rows(1000), query="q"), 1000)
    for unit in range(4):
        keyed.move([unit], 2)
    until(lambda: not keyed.known().movements.moving and keyed.known().movements.moved >= 2)
    assert sum(check(keyed.run(rows(1000, start=1000), query="q", epoch=1), 1000, 1000).values()) == 2000
    assert not rig.events("move-undone")
