"""A store that fails now and then, also when it is opened."""

import pytest

from evenflow.control.events import SaveInstruction
from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.model.checkpoint import Begun
from evenflow.runtime.driver import checkpoint
from evenflow.runtime.driver.manifests import ManifestWriter
from evenflow.runtime.driver.operator_names import Kept
from evenflow.runtime.worker.events import FetchFailedEvent, UnitsStoredEvent
from evenflow.runtime.worker.moves.direct_transfer import Parcel
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.runtime.worker.saving.blob_writer import BlobWriter, PutOutcome
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.retry import PAUSE_S, TRIES, retry
from tests.support.state_memory import Memory


class Failing:
    """Fails so many times."""

    def __init__(self, times, error=StoreError):
        self.left, self.error, self.calls = times, error, 0

    def __call__(self):
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            raise self.error("not now")
        return "there"


def test_what_fails_is_tried_again_with_pauses():
    pauses = []
    assert retry(Failing(TRIES - 1), pauses.append) == "there"
    assert pauses == [PAUSE_S * 2**attempt for attempt in range(TRIES - 1)]
    hopeless = Failing(TRIES, OSError)
    with pytest.raises(OSError, match="not now"):
        retry(hopeless, pauses.append)
    assert hopeless.calls == TRIES


def test_pauses_have_a_longest_and_a_pause_that_is_cut_short_ends_it():
    pauses = []
    assert retry(Failing(3), pauses.append, tries=4, longest_s=0.15) == "there"
    assert pauses == [0.1, 0.15, 0.15]
    action = Failing(2)
    with pytest.raises(StoreError):
        retry(action, lambda _seconds: True)
    assert action.calls == 1


@pytest.mark.parametrize("error", [BlobMissing, StoreInUse])
def test_what_will_not_pass_is_raised_at_once(error):
    action = Failing(1, error)
    with pytest.raises(error):
        retry(action, lambda _seconds: pytest.fail("there is nothing to wait for"))
    assert action.calls == 1


class Forgetful(Memory):
    """Takes what is put, and cannot read it back the first time."""

    def __init__(self):
        super().__init__()
        self.failing = 2

    def get(self, name, start=0, length=None):
        self.failing -= 1
        if self.failing == 0:
            raise StoreError("not now")
        return super().get(name, start, length)


def test_a_claim_that_failed_half_way_is_not_taken_for_anothers():
    store = Forgetful()
    held = retry(lambda: claim(store, "cluster 1", lambda: 5.0), lambda _seconds: None)
    held.beat()
    with pytest.raises(StoreInUse, match="is in use by cluster 1"):
        claim(store, "cluster 2", lambda: 6.0)


# -- who tries what again


def at_once(made):
    """A thread's owner that does its jobs at once, without pauses."""
    made.submit = lambda job: job()
    made.closing.wait = lambda _seconds: False
    return made


class Flawed(Memory):
    """Every second call fails."""

    def __init__(self, error):
        super().__init__()
        self._error, self._calls = error, 0

    def _fail(self):
        self._calls += 1
        if self._calls % 2:
            raise self._error("not now")

    def put(self, name, parts):
        self._fail()
        super().put(name, parts)

    def get(self, name, start=0, length=None):
        self._fail()
        return super().get(name, start, length)


@pytest.mark.parametrize("error", [StoreError, OSError, BlobMissing, StoreInUse])
def test_a_blob_is_put_again_whatever_the_store_says(error):
    """Rows that were applied would be lost otherwise; nothing can be missing, and who may write is known to others."""
    store = Flawed(error)
    writer = at_once(BlobWriter("nowhere", lambda: None, opened=lambda _where: store))
    writer.put("a", [b"x"], "first")
    assert writer.collect() == [PutOutcome("first")]


@pytest.mark.parametrize("error", [StoreError, OSError, StoreInUse])
def test_units_are_put_again_and_fetched_again_unless_they_are_missing(error):
    store = Flawed(error)
    transfer = at_once(StoreTransfer("nowhere", "c", lambda: None, opened=lambda _where: store))
    transfer.put("r", Parcel(1, [b"x"]))
    assert transfer.inbox.get() == UnitsStoredEvent(1)
    store._calls, store._error = 0, BlobMissing
    transfer.get("r", 1)
    assert isinstance(transfer.inbox.get(), FetchFailedEvent)


class Manifests(checkpoint.CheckpointThread):
    """The checkpoint thread without its thread and its claim."""

    def __init__(self, store):
        self._writer = ManifestWriter(store, {"r": Kept("op", 8)})
        self.on_lost = lambda _why: None


@pytest.mark.parametrize("error", [StoreError, OSError, BlobMissing])
def test_a_manifest_is_put_again_while_the_checkpoint_is_ours(error, monkeypatch):
    monkeypatch.setattr(checkpoint.time, "sleep", lambda _seconds: None)
    assert Manifests(Flawed(error))._tried(SaveInstruction("r", "q", "", Begun())) == ""
    thread = Manifests(Flawed(StoreInUse))
    assert thread._tried(SaveInstruction("r", "q", "", Begun())) == thread.lost == "not now"
