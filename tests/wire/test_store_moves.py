"""Units that move by way of the store, over real sockets: to files, and to a real PostgreSQL server."""

import itertools
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from evenflow.errors import StoreError
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.wire.channel import PeerGone
from evenflow.runtime.worker.environment import REAL, WorkerEnvironment
from evenflow.runtime.worker.moves.direct_transfer import DirectTransfer
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.state.store import retry
from evenflow.state.store.blob_names import MOVES, move_name
from evenflow.state.store.claims.fence import FencedView
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.opening import open_store
from tests.support.keyed_rig import UNITS, Flow, Keyed, Nth, check, rows
from tests.support.postgres_server import Server
from tests.support.rig import Rig, until

_schemas = itertools.count()


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture(params=["files", "postgresql"])
def where(request, tmp_path):
    if request.param == "files":
        return str(tmp_path / "state")
    return request.getfixturevalue("server").uri(f"moves{next(_schemas)}")


@pytest.fixture
def keyed(monkeypatch):
    """Makes keyed operators whose units move by way of a store; workers cannot reach each other."""

    def unreachable(_self, _host, _port):
        raise PeerGone("this worker reaches no other")

    monkeypatch.setattr(DirectTransfer, "_channel", unreachable)
    rigs = []

    def make(where, operator=None, workers=3, environment=REAL):
        rig = Rig(workers, start=False, environment=environment)
        rigs.append(rig)
        rig.settings = replace(rig.settings, checkpoint=where)
        for number in range(workers):
            rig.start_thread(number)
        rig.await_live(workers)
        made = Keyed(rig, operator)
        made.known().movements.transfer = "store"
        return made

    yield make
    for rig in rigs:
        rig.close()


class Shuffling:
    """Moves units about for as long as it is entered."""

    def __init__(self, keyed, workers=3, pause_s=0.002):
        self.keyed, self.workers, self.pause_s = keyed, workers, pause_s
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_error):
        self.over.set()
        self.thread.join()

    def run(self):
        turn = 0
        while not self.over.is_set():
            turn += 1
            self.keyed.move([turn % UNITS, (turn + 5) % UNITS], turn % self.workers)
            time.sleep(self.pause_s)


def idle(keyed):
    until(lambda: not keyed.known().movements.moving, "the end of all movements")


def test_units_move_while_rows_flow(keyed, where):
    made = keyed(where)
    flow = Flow(rows, lambda: made.known().movements.moved > 5)
    with Shuffling(made):
        counts = check(made.run(flow, query="q"), flow.count)
    idle(made)
    assert sum(counts.values()) == flow.count
    assert not made.rig.events("move-undone")
    more = check(made.run(rows(1000, start=flow.count), query="q", epoch=1), 1000, flow.count)
    assert sum(more.values()) > 1000, "state is not where rows go"
    with open_store(where, create=False) as store:
        until(lambda: not store.names(MOVES), "the deletion of what has arrived")


def test_the_same_from_worker_to_worker_fails(keyed, tmp_path):
    """Or the test above would prove nothing."""
    made = keyed(str(tmp_path / "state"))
    made.known().movements.transfer = "direct"
    check(made.run(rows(1000), query="q"), 1000)
    made.move(range(UNITS), 0)
    until(lambda: made.rig.events("move-undone"), "a move that is undone")
    assert "reaches no other" in made.rig.events("move-undone")[0]["why"]


@dataclass
class Arrays(Nth):
    """Nth with an array beside its counts, which has to arrive as numba wants it."""

    def extract(self, unit):
        counts = self.counts.pop(unit, None)
        return None if counts is None else (counts, np.arange(1_300_001, dtype=np.float64), b"odd")

    def install(self, unit, state):
        counts, array, odd = state
        assert array.flags.aligned
        assert array.flags.writeable
        assert array[-1] == 1_300_000
        assert odd == b"odd"
        self.counts[unit] = counts


def test_large_state_moves(keyed, where):
    made = keyed(where, Arrays())
    check(made.run(rows(1000), query="q"), 1000)
    for unit in range(6):
        made.move([unit], 2)
    until(lambda: made.known().movements.moved == 4, "four moves")
    assert made.known().movements.bytes_moved > 3 * 10_000_000
    assert not made.rig.events("move-undone")
    assert sum(check(made.run(rows(1000, start=1000), query="q", epoch=1), 1000, 1000).values()) == 2000


class Failing(DiskStore):
    """A store in which nothing of a movement can be put, or got."""

    def __init__(self, where, what):
        super().__init__(where)
        self.what = what

    def put(self, name, parts):
        if self.what == "put":
            raise StoreError("the disk is full")
        super().put(name, parts)

    def get(self, name, start=0, length=None):
        if self.what == "get":
            raise StoreError("the disk is gone")
        return super().get(name, start, length)


@pytest.mark.parametrize("what", ["put", "get"])
def test_a_store_that_fails(keyed, tmp_path, monkeypatch, what):
    """Units stay where they are, and no row is lost."""
    monkeypatch.setattr(retry, "PAUSE_S", 0.01)

    def transfer(where, cluster, wake):
        return StoreTransfer(where, cluster, wake, opened=lambda _where: Failing(tmp_path / "failing", what))

    made = keyed(str(tmp_path / "state"), environment=WorkerEnvironment(store_transfer=transfer))
    flow = Flow(rows, lambda: made.rig.events("move-undone"), pause_s=0.005)
    with Shuffling(made):
        counts = check(made.run(flow, query="q"), flow.count)
    idle(made)
    assert sum(counts.values()) == flow.count
    assert made.known().movements.moved == 0
    undone = made.rig.events("move-undone")
    assert all(f"the disk is {'full' if what == 'put' else 'gone'}" in entry["why"] for entry in undone)
    with DiskStore(tmp_path / "failing") as store:
        until(lambda: not store.names(MOVES), "the deletion of what was not fetched")


def test_what_a_killed_cluster_has_left_is_removed(where):
    with open_store(where) as store:
        store.put(move_name("r", "dead", 7), [b"x"])
        store.put("r/q/epoch/7", [b"x"])
        CheckpointThread(where, "the next").close()
        assert FencedView(store).names() == [("r/q/epoch/7", 1)]


def test_the_database_goes_away_and_comes_back(keyed, server):
    made = keyed(server.uri(f"moves{next(_schemas)}"))
    result, back = [], threading.Event()
    flow = Flow(rows, back.is_set, pause_s=0.008)
    with Shuffling(made, pause_s=0.01):
        feeding = threading.Thread(target=lambda: result.extend(made.run(flow, query="q")), daemon=True)
        feeding.start()
        until(lambda: made.known().movements.moved > 2, "some moves")
        server.stop()
        server.start()
        before = made.known().movements.moved
        until(lambda: made.known().movements.moved > before + 2, "moves after the restart")
        back.set()
        feeding.join(60)
    idle(made)
    assert sum(check(result, flow.count).values()) == flow.count
