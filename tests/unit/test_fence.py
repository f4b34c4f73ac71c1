"""Generations: whoever was frozen while another took its checkpoint harms nobody when it wakes, and is told."""

import itertools
from collections import deque
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.control.controller import Controller
from evenflow.control.events import (
    CheckpointTakenEvent,
    FeederJoinedEvent,
    RegionOpenedEvent,
    SaveInstruction,
    SendInstruction,
    StageFacts,
)
from evenflow.errors import BlobMissing, CorruptState, StoreError, StoreInUse
from evenflow.model.checkpoint import Base, BatchLog, Begun
from evenflow.model.messages import EvaluationLost
from evenflow.policy import Hash
from evenflow.runtime.driver import checkpoint as vault_module
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.manifests import ManifestWriter
from evenflow.runtime.driver.operator_names import Kept, OperatorNames
from evenflow.state.checkpoint.manifest import epochs, read_manifest
from evenflow.state.store.base import CLAIM_S
from evenflow.state.store.blob_names import epoch_name, log_name, parse, prefix_of
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.claims.fence import Fence, FencedView
from evenflow.state.store.claims.generations import CLAIMS, Mark, marks, split
from evenflow.state.store.retry import RetryingStore
from evenflow.state.store.sealed import SealedStore, key_of
from tests.support.records import record
from tests.support.state_memory import Memory

PREFIX = prefix_of("r", "q")
ABOUT = {"owner": "somebody", "host": "h", "pid": 1, "since": 0.0}


class Freezing(Memory):
    """Before its operation number `at` the process that uses it is frozen: others do `meanwhile`."""

    def __init__(self):
        super().__init__()
        self.left, self.meanwhile = None, None

    def freeze(self, at, meanwhile):
        self.left, self.meanwhile = at, meanwhile

    def _operate(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                self.meanwhile()

    def put(self, name, parts):
        self._operate()
        super().put(name, parts)

    def get(self, name, start=0, length=None):
        self._operate()
        return super().get(name, start, length)

    def names(self, prefix=""):
        self._operate()
        return super().names(prefix)

    def delete(self, names):
        self._operate()
        super().delete(names)


def fence(store, owner="somebody"):
    return Fence(store, ABOUT | {"owner": owner}, lambda: 0.0)


def content(store):
    return {name: bytes(store.get(name)) for name, _ in store.names()}


def test_names_that_carry_a_generation():
    assert split("r/q/task/5.1.0~3.00ff.17") == ("r/q/task/5.1.0", (Mark(3, "00ff"), 17))
    assert parse("r/q/epoch/5~3.00ff.17") == parse("r/q/epoch/5") is not None
    for plain in ("r/q/task/5.1.0", "a~b/q/log/1.2", "evenflow.moves/a~1.b/c.1"):
        assert split(plain) == (plain, (Mark(0, ""), 0))


@given(at=st.integers(0, 12), mine=st.integers(0, 3), theirs=st.integers(0, 3), again=st.booleans())
def test_frozen_at_any_operation(at, mine, theirs, again):
    """What was confirmed is there for who comes next; what was not changes nothing that it has seen."""
    store = Freezing()
    first = fence(store, "first")
    seen = {}
    others = []
    confirmed = {"x": b"before"}
    first.put("x", [b"before"])

    def take_over():
        second = fence(store, "second")
        seen.update(content(second))
        assert {name: seen[name] for name in confirmed if name != pending} == {
            name: text for name, text in confirmed.items() if name != pending
        }
        for number in range(theirs):
            second.put(f"n{number}", [b"second"])
            seen[f"n{number}"] = b"second"
        others.append(fence(store, "third") if again else second)

    pending = ""
    store.freeze(at, take_over)
    told = ""
    for number in range(mine):
        pending = f"n{number}"
        try:
            first.put(pending, [b"first"])
            confirmed[pending] = b"first"
        except StoreInUse as error:
            told = str(error)
            break
    if others:
        assert told or mine == len(confirmed) - 1, "a put was not confirmed, and nobody was told"
        with pytest.raises(StoreInUse, match=r"taken over by (second|third)"):
            first.put("y", [b"stale"])
        with pytest.raises(StoreInUse):
            first.delete(["x"])
        first.release()
        assert content(others[0]) == content(FencedView(store)) == content(fence(store)) == seen


def test_a_stale_beat_does_not_bring_a_claim_back():
    """It looks, is frozen, another takes the checkpoint, and it writes that it is still there."""
    store = Freezing()
    first = fence(store, "first")
    later = []
    store.freeze(1, lambda: later.append(fence(store, "second")))
    first.beat()
    later[0].put("a", [b"second"])
    with pytest.raises(StoreInUse, match="second"):
        first.beat()
    assert marks(store)[-1] == later[0].mark


def test_two_that_claim_in_the_same_instant():
    """Both see the same generation; one of the two has it, and what the other had confirmed is there."""
    for tokens in (("aaaaaaaa", "bbbbbbbb"), ("bbbbbbbb", "aaaaaaaa")):
        store, others = Freezing(), []

        def claimed(store=store, others=others, token=tokens[1]):
            others.append(_with_token(store, token))
            others[0].put("a", [b"x"])

        store.freeze(3, claimed)  # when it has listed the claims
        if tokens[0] > tokens[1]:
            held = _with_token(store, tokens[0])
            assert content(held) == {"a": b"x"}
            with pytest.raises(StoreInUse):
                others[0].put("b", [b"y"])
        else:
            with pytest.raises(StoreInUse):
                _with_token(store, tokens[0])
            others[0].put("b", [b"y"])


def _with_token(store, token):
    import evenflow.state.store.claims.fence as module

    kept, module.secrets = module.secrets, type("S", (), {"token_hex": staticmethod(lambda _n: token)})
    try:
        return fence(store, token)
    finally:
        module.secrets = kept


def test_a_claim_whose_blob_is_gone_is_missed():
    store = Memory()
    first = fence(store)
    first.put("a", [b"x"])
    store.delete([f"{CLAIMS}{first.mark}"])
    with pytest.raises(StoreInUse, match="was deleted by somebody"):
        first.put("a", [b"x"])
    for look in (lambda: FencedView(store), lambda: fence(store)):
        with pytest.raises(StoreError, match=r"blob a~1\..* is of claim 1\..*, and there is no blob evenflow.claims/1"):
            look()


def test_a_claim_that_could_not_be_taken_is_not_held():
    store = Freezing()
    fence(store).release()

    def fail():
        raise StoreError("not now")

    store.freeze(6, fail)
    with pytest.raises(StoreError, match="not now"):
        claim(store, "first", lambda: 5.0)
    claim(store, "second", lambda: 6.0).store.put("a", [b"x"])


def test_a_claim_that_cannot_be_read_is_named():
    store = Memory()
    first = fence(store)
    store.put(f"{CLAIMS}{first.mark}", [b"{"])
    with pytest.raises(CorruptState, match=rf"blob {CLAIMS}{first.mark} is damaged .*bring it back from a copy"):
        fence(store)
    assert marks(store) == [first.mark]


def test_what_was_put_without_a_claim_is_read():
    """As checkpoints of format 1 have it; a put under a claim is above it, and both are deleted."""
    store = Memory()
    store.put("r/q/epoch/4", [b"old"])
    held = fence(store)
    assert content(held) == {"r/q/epoch/4": b"old"}
    held.put("r/q/epoch/4", [b"new"])
    assert content(held) == content(FencedView(store)) == {"r/q/epoch/4": b"new"}
    held.delete(["r/q/epoch/4"])
    assert content(held) == {}
    with pytest.raises(BlobMissing):
        held.get("r/q/epoch/4")


@pytest.mark.parametrize("key", [b"", key_of("correct horse battery staple")])
def test_what_vanished_is_brought_back_under_its_plain_name(key):
    """Under the name that it had it would be the late put of a driver that was frozen."""
    inner = Memory()
    store = SealedStore(inner, key, "here") if key else inner
    first = fence(store)
    first.put("r/q/whole/1.1", [b"one"])
    first.put("r/q/whole/2.1", [b"two"])
    newest = max(name for name in inner.blobs if name.startswith("r/q/"))
    copy = inner.blobs.pop(newest)
    second = fence(store)
    inner.blobs[newest] = copy
    assert content(second) == {"r/q/whole/1.1": b"one"}
    inner.blobs["r/q/whole/2.1"] = copy
    for held in (second, fence(store)):
        assert content(held) == {"r/q/whole/1.1": b"one", "r/q/whole/2.1": b"two"}


def test_which_names_carry_a_claim():
    """All that drivers put, the store's own among them; not what processes put under names of their own."""
    store = Memory()
    held = fence(store)
    for name in ("evenflow.queries/q", "r/q/epoch/1", "r/q/begun/1.1", "evenflow.moves/r/c.1", "r/q/log/1.1.0.7.0"):
        held.put(name, [b"x"])
    plain = {name for name, _ in store.names() if split(name)[0] == name and not name.startswith(CLAIMS)}
    assert plain == {"evenflow.moves/r/c.1", "r/q/log/1.1.0.7.0"}
    assert len(held.names()) == len(FencedView(store).names()) == 5


@pytest.mark.parametrize("key", [b"", key_of("correct horse battery staple")])
def test_an_altered_number_in_a_claim_is_refused_and_may_be_put_back(key):
    """It hides notes, which are still there when the number is put back."""
    inner = Memory()
    store = SealedStore(inner, key, "here") if key else inner
    first = fence(store)
    for number in range(3):
        first.put(f"r/q/whole/{number}.1", [b"x"])
    second = fence(store)
    name = f"{CLAIMS}{second.mark}"
    right = inner.blobs[name]
    inner.blobs[name] = right.replace(f'"{first.mark}":3'.encode(), f'"{first.mark}":1'.encode())
    assert inner.blobs[name] != right
    before = dict(inner.blobs)
    for look in (lambda: FencedView(store), lambda: fence(store)):
        with pytest.raises(CorruptState, match=f"blob {name} is damaged"):
            look()
    assert inner.blobs == before
    inner.blobs[name] = right
    assert len(content(fence(store))) == 3


def settled_batch(thread, store, epoch, region="r"):
    """One batch of a query, with all its notes."""
    for content in (Begun(epoch, 1, (epoch - 1, 1), "run"), Base(epoch, 1)):
        assert thread._tried(SaveInstruction(region, "q", "", content)) == ""


def test_of_a_list_that_is_put_again_only_the_newest_is_kept():
    """If the newest were lost, an older one would count without a word. Notes stay: each has a name of its own."""
    store = Memory()
    first = fence(store)
    first.put("evenflow.queries/q", [b"1"])
    first.put("r/q/whole/1.1", [b"1"])
    first.put("r/q/whole/1.1", [b"2"])
    first.release()
    second = fence(store)
    reader = FencedView(store)
    assert bytes(reader.get("evenflow.queries/q")) == b"1"
    for number in (1, 2):
        second.put("evenflow.queries/q", [b"%d" % (1 + number)])
        kept = [name for name in store.blobs if name.startswith("evenflow.queries")]
        assert kept == [f"evenflow.queries/q~{second.mark}.{number}"]
    assert bytes(FencedView(store).get("evenflow.queries/q")) == b"3"
    assert len([name for name in store.blobs if name.startswith("r/q/whole")]) == 2
    with pytest.raises(BlobMissing):
        reader.get("evenflow.queries/q")  # of a time before these puts counted


def test_claims_do_not_pile_up():
    """Lower claims, and what does not count, are deleted when a batch was settled under the new claim."""
    store = Memory()
    clock = itertools.count(0.0, CLAIM_S + 1)
    for epoch in range(3):
        thread = Still(store, f"{epoch}", lambda: next(clock))
        store.put(f"r/q/whole/{epoch}.7~1.00ff.9", [b"of a driver that was frozen"])
        assert len(marks(store)) <= 2
        settled_batch(thread, store, epoch)
        assert marks(store) == [thread._store.mark]
        assert not [name for name in store.blobs if "~1.00ff" in name]


def test_claims_stay_until_all_queries_are_found_complete():
    """Another query's state may be what a claim is needed for."""
    store, clock = Memory(), itertools.count(0.0, CLAIM_S + 1)
    settled_batch(Still(store, "first", lambda: next(clock)), store, 0)
    second = Still(store, "second", lambda: next(clock))
    second.add("s", Kept("op", 4))
    claims = marks(store)
    assert len(claims) == 2
    assert second._tried(SaveInstruction("s", "q", "", Base())) == "", "a first state"
    assert marks(store) == claims
    begun = next(name for name in store.blobs if name.startswith("r/q/begun/"))
    content = store.blobs.pop(begun)
    settled_batch(second, store, 0, "s")
    assert marks(store) == claims, "query q of operator r lacks a note"
    store.blobs[begun] = content
    settled_batch(Still(store, "third", lambda: next(clock)), store, 1)
    assert len(marks(store)) == 1


# -- the checkpoint thread


class Still(CheckpointThread):
    """Without its thread; what it is asked for is done at once."""

    def __init__(self, store, owner, now):
        self._claim = claim(store, owner, now)
        self._store = self._claim.store
        self._patient = RetryingStore(self._store, lambda _seconds: None)
        self._kept = {"r": Kept("op", 4)}
        self.names, self._writer = OperatorNames(self._kept), ManifestWriter(self._store, self._kept)
        self.told = []
        self.on_lost = self.told.append


def batch(checkpoint_thread, store, epoch, writer, logs):
    """One batch of query q: rows in a log, and the manifest that needs it and the one before; what went wrong."""
    name = log_name(PREFIX, epoch, 1, f"0.{writer}", 0)
    store.put(name, [b"rows"])
    logs.append(BatchLog(epoch, 1, {f"0.{writer}": 1}, (0,)))
    while len(logs) > 2:
        logs.popleft()
    return checkpoint_thread._tried(SaveInstruction("r", "q", "epoch", Base(epoch, 1, (), tuple(logs))))


def newest(checkpoint_thread):
    return read_manifest(checkpoint_thread._store, epoch_name(PREFIX, epochs(checkpoint_thread._store, PREFIX)[0]))


@pytest.mark.parametrize("at", range(24))
def test_a_driver_that_wakes_deletes_nothing_that_is_needed(at, monkeypatch):
    """It is frozen at any operation of a batch, and its successor is batches ahead when it wakes."""
    monkeypatch.setattr(vault_module, "time", SimpleNamespace(sleep=lambda _seconds: None))
    store, clock = Freezing(), itertools.count(0.0, CLAIM_S + 1)
    first = Still(store, "first", lambda: next(clock))
    logs = deque()
    for epoch in range(3):
        assert batch(first, store, epoch, 7, logs) == ""
    later = []

    def take_over():
        second = Still(store, "second", lambda: next(clock))
        found = newest(second)
        mine = deque(BatchLog(log.epoch, log.attempt, log.segments, (0,)) for log in found.logs)
        for epoch in range(found.epoch + 1, found.epoch + 4):
            assert batch(second, store, epoch, 8, mine) == ""
        later.append((second, found.epoch, content(second._store)))

    store.freeze(at, take_over)
    error = batch(first, store, 3, 7, logs)
    if not later:
        return
    second, epoch, seen = later[0]
    assert epoch in (2, 3)
    now = content(second._store)
    assert {name: now.get(name) for name in seen if "/log/" not in name} == {
        name: text for name, text in seen.items() if "/log/" not in name
    }
    manifest = newest(second)
    assert manifest.epoch == epoch + 3
    assert all(name in now for name in manifest.blobs())
    first._beat()
    assert first.lost.startswith("the checkpoint was taken over by second")
    assert first.told == [first.lost]
    assert error in ("", first.lost)
    assert first.saved("r", "q") == first.lost


def test_queries_of_a_cluster_that_lost_its_checkpoint_end():
    controller = Controller(1)
    controller.handle(RegionOpenedEvent(0.0, "r", "op", Hash(), 4, durable=True))
    feeder = FeederJoinedEvent(0.0, 5, "r", query="q", stage="1", run="1", facts=StageFacts(1, 1, inputs=1))
    controller.handle(feeder)
    said = controller.handle(CheckpointTakenEvent(1.0, "taken by B"))
    assert record(1.0, "checkpoint-taken", {"why": "taken by B"}) in said
    assert SendInstruction(5, EvaluationLost("taken by B")) in said
    again = controller.handle(FeederJoinedEvent(2.0, 6, "r", query="q", stage="2", run="2"))
    assert SendInstruction(6, EvaluationLost("taken by B")) in again
