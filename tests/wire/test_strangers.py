"""Whoever connects without the secret, or without sense, is dropped; everybody else is unharmed."""

from contextlib import ExitStack, contextmanager

import pytest
from msgspec import msgpack, to_builtins

from evenflow.model.messages import CodeWanted, OpenKeyed, OpenOrdered
from evenflow.runtime.driver import eventlog
from evenflow.runtime.wire import poller
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import packed
from tests.support.rig import IDS, PATIENCE_S, SECRET, Peer, batches, ids, until

HELLO = {"type": "WorkerHello", "worker": 0, "host": "127.0.0.1", "port": 1, "pid": 1, "task": [0, 0]}
FEEDER = {"type": "FeederHello", "region": "r1", "partition": 0, "attempt": 0, "query": "", "epoch": 0}


@pytest.fixture
def cluster(rig):
    made = rig(2)
    assert serves(made)
    return made


def serves(cluster):
    rows = batches(200, 50)
    return cluster.map(lambda batch: batch, rows)["id"].to_pylist() == list(range(200))


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def send_garbage(peer):
    peer.sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)


def send_nothing(peer):
    pass


def send_half_a_hello(peer):
    peer.sock.sendall(peer.handshake.start()[:20])


def send_a_wrong_version(peer):
    hello = peer.handshake.start()
    peer.sock.sendall(hello[:4] + b"\x63" + hello[5:])


def send_a_wrong_proof(peer):
    peer.sock.sendall(peer.handshake.start())
    peer.sock.sendall(flipped(peer.handshake.receive(peer.exactly(peer.handshake.expects))))


def send_no_proof(peer):
    peer.sock.sendall(peer.handshake.start())
    peer.exactly(peer.handshake.expects)


def hang_up(peer):
    peer.sock.sendall(peer.handshake.start()[:7])
    peer.sock.close()


STRANGERS = [
    (send_garbage, "not an Evenflow process"),
    (send_nothing, "did not finish the handshake in time"),
    (send_half_a_hello, "did not finish the handshake in time"),
    (send_a_wrong_version, "not an Evenflow process"),
    (send_a_wrong_proof, "the client does not hold this cluster's secret"),
    (send_no_proof, "did not finish the handshake in time"),
    (hang_up, "closed the connection"),
]


@contextmanager
def patience(seconds):
    """With all who connect meanwhile, ours too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poller, "HANDSHAKE_S", seconds)
        yield


def patience_for(reason):
    """Little with those that fall silent; the others are to be dropped for what they say."""
    return patience(0.3 if reason.endswith("in time") else PATIENCE_S)


@pytest.mark.parametrize(("behave", "reason"), STRANGERS, ids=lambda value: getattr(value, "__name__", ""))
def test_stranger_at_the_controller(cluster, behave, reason):
    with patience_for(reason), Peer(cluster.settings.port) as peer:
        behave(peer)
        [entry] = until(lambda: cluster.events("stranger-refused"), "the refusal")
        assert reason in entry["reason"]
        if behave is not hang_up:
            assert peer.is_dropped()
    assert serves(cluster)
    assert [worker.state for worker in cluster.workers()] == ["live", "live"]


@pytest.mark.parametrize(("behave", "reason"), STRANGERS, ids=lambda value: getattr(value, "__name__", ""))
def test_stranger_at_a_worker(cluster, behave, reason):
    port = cluster.workers()[0].port
    with patience_for(reason), Peer(port) as peer:
        behave(peer)
        if behave is not hang_up:
            assert peer.is_dropped()
    assert serves(cluster)
    assert [worker.state for worker in cluster.workers()] == ["live", "live"]


def test_a_crowd_of_strangers(cluster):
    with patience(3.0), ExitStack() as stack:
        peers = [stack.enter_context(Peer(cluster.settings.port)) for _ in range(30)]
        for number, peer in enumerate(peers):
            STRANGERS[number % 6][0](peer)
        assert serves(cluster)
        assert all(peer.is_dropped() for peer in peers)
    until(lambda: len(cluster.events("stranger-refused")) == 30, "30 refusals")


def test_a_crowd_cannot_fill_the_log(rig, monkeypatch):
    made = rig(1, start=False, period=0.05)
    made.driver._errors.quota = eventlog.Quota(most=5, per_s=0.5)
    for _ in range(20):
        with Peer(made.settings.port) as peer:
            send_garbage(peer)
            assert peer.is_dropped()
    told = until(lambda: made.events("entries-left-out"), "the number of those left out")
    written = len(made.events("stranger-refused"))
    assert written < 20
    assert until(lambda: written + sum(entry["count"] for entry in made.events("entries-left-out")) == 20, told)


def test_another_clusters_process(cluster):
    with patience(3.0), Peer(cluster.settings.port, secret=b"another") as peer:
        peer.sock.sendall(peer.handshake.start())
        answer = peer.exactly(64)
        honest = Peer(cluster.settings.port, secret=SECRET).shake()
        honest.sock.close()
        assert len(answer) == 64
        assert peer.is_dropped()


# -- peers that hold the secret and make no sense: another version, or a bug


@pytest.mark.parametrize(
    "messages",
    [
        [{}],
        [{"type": "nonsense"}],
        [{"type": "WorkerReport", "rows": 1, "frames": 1, "busy_s": 0.0}],
        [{"type": "WorkerHello"}],
        [HELLO | {"worker": "first"}],
        [HELLO | {"task": 3}],
        [FEEDER, {"type": "FeederReport", "feeding_s": "long", "rows_out": 0, "connections": {}}],
        [FEEDER, {"type": "FeederReport", "feeding_s": 1.0, "rows_out": 0, "connections": [1]}],
        [FEEDER, {"type": "FeederReport", "feeding_s": 1.0, "rows_out": 0, "connections": {0: 7}}],
        [FEEDER, {"type": "FeederReport", "feeding_s": 1.0, "rows_out": float("inf"), "connections": {}}],
        [FEEDER, {"type": "CodeWanted", "operator": "unheard-of"}],
        [FEEDER, FEEDER],
    ],
    ids=str,
)
def test_nonsense_to_the_controller(cluster, messages):
    with Peer(cluster.settings.port).shake() as peer:
        for message in messages:
            peer.say(message)
        assert peer.is_dropped()
    assert until(lambda: cluster.events("feeder-left")[1:] or cluster.events("peer-refused"))
    assert serves(cluster)
    assert [worker.state for worker in cluster.workers()] == ["live", "live"]
    assert cluster.driver.ask(lambda c: c.region("r1").snapshot(0.0)).feeders == 0


def test_frames_that_hold_no_message(cluster):
    with Peer(cluster.settings.port).shake() as peer:
        peer.send(Frame(Kind.CONTROL, b"\x91" * 100_000))
        assert peer.is_dropped()
    assert serves(cluster)


def opening(operator="op1"):
    return Frame(Kind.OPEN, packed(OpenOrdered(operator, "r")))


def keyed(**changed):
    request = to_builtins(OpenKeyed("op1", "r9", "e", 1, 9)) | changed
    return Frame(Kind.OPEN, msgpack.encode(request))


SCHEMA = Frame(Kind.SCHEMA, bytes(IDS.serialize()))


def rows(body=None):
    return Frame(Kind.DATA, bytes(ids(0, 5).serialize()) if body is None else body)


@pytest.mark.parametrize(
    "frames",
    [
        [Frame(Kind.OPEN, b"nonsense")],
        [Frame(Kind.OPEN, msgpack.encode({}))],
        [Frame(Kind.OPEN, msgpack.encode({"type": "OpenKeyed", "operator": "op1", "region": "r1"}))],
        [Frame(Kind.OPEN, packed(OpenOrdered("", "r")))],
        [keyed(region=5)],
        [keyed(nonsense=1)],
        [keyed(evaluation=None)],
        [keyed(feeder="first")],
        [keyed(units=10**12)],
        [keyed(units=["O", 0, b""])],
        [keyed(attempt=[])],
        [keyed(), keyed()],
        [keyed(), keyed(units=7)],
        [Frame(Kind.OPEN, b"\x91" * 100_000)],
        [opening(), Frame(Kind.SCHEMA, b"")],
        [opening(), Frame(Kind.SCHEMA, b"nonsense" * 9)],
        [rows()],
        [SCHEMA, rows()],
        [opening(), rows()],
        [opening(), SCHEMA, rows(b"")],
        [opening(), SCHEMA, rows(b"nonsense" * 9)],
        [opening(), SCHEMA, rows(b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16))],
        [opening(), SCHEMA, rows(bytes(ids(0, 5).serialize())[:-30])],
        [Frame(Kind.RESULT, b"")],
        [Frame(Kind.CODE, b"x\ncode")],
    ],
    ids=lambda frames: ", ".join(f"{frame.kind.name} {bytes(frame.body[:12])!r}" for frame in frames),
)
def test_nonsense_to_a_worker(cluster, frames):
    with Peer(cluster.workers()[0].port).shake() as peer:
        peer.send(*frames)
        assert peer.is_dropped()
    assert serves(cluster)
    assert [(worker.state, worker.restarts) for worker in cluster.workers()] == [("live", 0), ("live", 0)]


def test_a_worker_that_dies_while_its_code_is_on_the_way(cluster):
    """The controller's thread must survive a peer that is gone by the time it answers."""
    cluster.driver.add_code("large", bytes(8_000_000))
    for _ in range(10):
        with Peer(cluster.settings.port).shake() as peer:
            peer.say(FEEDER)
            for _ in range(3):
                peer.say(CodeWanted("large"))
    assert serves(cluster)
