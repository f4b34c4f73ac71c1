"""A store that fails now and then, also when it is opened."""

import pytest

from evenflow.errors import BlobMissing, StoreError, StoreInUse
from evenflow.state.store.claim import claim
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
