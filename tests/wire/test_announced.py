"""State that arrives over the wire is read only if the controller has announced the movement, whoever brings it."""

import pickle

import pytest

from evenflow.model.tickets import ticket
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.moves import direct_transfer
from evenflow.runtime.worker.moves.label import Label
from tests.support.keyed_rig import Keyed, check, rows
from tests.support.rig import Peer, until

READ = []
"""What was unpickled, and must not be."""


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return READ.append, ("a bomb",)


@pytest.fixture
def cluster(rig):
    READ.clear()
    return rig(2)


def key_of(cluster, worker):
    return cluster.driver.ask(lambda controller: controller._workers[worker].life)


def parcel(move, states, **changed):
    """The frames of a movement; as it was announced, but for what is `changed` after."""
    label = {"move": move, "region": "r", "operator": "op", "source": 1, "units": [1], "evaluations": ["e"]} | changed
    parts = [Label(**label).packed(), pickle.dumps(states)]
    return [Frame(Kind.STATE, part, move, part=number, more=not number) for number, part in enumerate(parts)]


def bring(cluster, frames):
    """Bring frames to worker 0 as another worker would; whether that cost the connection."""
    with Peer(key_of(cluster, 0).transfer_port).shake() as peer:
        peer.send(*frames)
        return peer.is_dropped()


@pytest.mark.parametrize("forged", ["", "0" * 64, "of another move", "of another worker", "for other units", "later"])
def test_what_nobody_announced_is_not_read(cluster, forged):
    keyed = Keyed(cluster)
    assert check(keyed.run(rows(500)), 500)
    keys = [key_of(cluster, worker).key for worker in range(2)]
    known = {
        "of another move": ticket(keys[0], 8, "r", 1, [1], ["e"]),
        "of another worker": ticket(keys[1], 7, "r", 1, [1], ["e"]),
        "for other units": ticket(keys[0], 7, "r", 1, [2], ["e"]),
        "later": ticket(keys[0], 7, "r", 1, [1], ["f"]),
    }
    assert bring(cluster, parcel(7, Bomb(), ticket=known.get(forged, forged)))
    told = until(lambda: cluster.events("worker-trouble"), "that it is told")
    assert "in movement 7, which the controller has not announced: they are not read" in told[0]["reason"]
    assert not READ
    assert check(keyed.run(rows(500), stage="2"), 500)
    assert [(worker.state, worker.restarts) for worker in cluster.workers()] == [("live", 0), ("live", 0)]


def test_little_is_kept_of_what_was_not_let_in(cluster, monkeypatch):
    monkeypatch.setattr(direct_transfer, "LABEL_BYTES", 1000)
    cut = [Frame(Kind.STATE, bytes(400), 7, part=0, more=True) for _ in range(100)]
    assert bring(cluster, cut)
    assert bring(cluster, [Frame(Kind.STATE, b"{}", 7, part=3)])
    assert bring(cluster, [Frame(Kind.STATE, b"{}", 7, part=0, more=True), Frame(Kind.STATE, b"{}", 8, part=0)])
    assert bring(cluster, [Frame(Kind.DATA, b"{}", 7)])
    assert len(until(lambda: cluster.events("worker-trouble")[3:] and cluster.events("worker-trouble"))) == 4


def test_no_movement_comes_twice_or_brings_more_than_was_announced(cluster):
    keyed = Keyed(cluster)
    keyed.run(rows(500))
    life = key_of(cluster, 0)
    given = {"region": keyed.region, "operator": keyed.feed.operator}
    honest = ticket(life.key, 900, keyed.region, 1, [1], ["e"])
    frames = parcel(900, {"e": {2: ({}, b"")}}, ticket=honest, **given)
    with Peer(life.transfer_port).shake() as peer:
        peer.send(*frames)
        peer.send(*frames)
        assert peer.is_dropped()
    assert "movement 900 comes again" in until(lambda: cluster.events("worker-trouble"))[0]["reason"]
    assert not cluster.events("moved")
