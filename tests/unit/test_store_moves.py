"""Units that move by way of the store: what the controller tells whom, and what a worker does."""

import pytest

from evenflow.model.messages import AbandonMoves, DiscardUnits, FetchUnits, RestoreUnits, UnitsMoved
from evenflow.runtime.worker.events import DeliveryFailedEvent, FetchFailedEvent, UnitsStoredEvent
from evenflow.runtime.worker.moves.direct_transfer import Parcel
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from tests.support.keyed_rig import Nth
from tests.support.keyed_site import Site
from tests.support.movements import FEEDERS, ask, brief, move, movements
from tests.support.state_memory import Memory


def by_store():
    moves = movements()
    moves.transfer = "store"
    return moves


def test_the_source_is_told_to_use_the_store():
    told = list(by_store().ask(0.0, move([0], 0, 2), {}, FEEDERS))
    assert told[-1].message.store is True
    assert not list(movements().ask(0.0, move([0], 0, 2), {}, FEEDERS))[-1].message.store


def test_the_target_fetches_what_is_stored():
    moves = by_store()
    ask(moves, [0], 0, 2)
    moves.quiet(1.0, 1, 0)
    assert brief(moves.stored(5.0, 1, 0)) == [(12, "FetchUnits", 1)]
    assert brief(moves.installed(6.0, 1, 2, 10, FEEDERS))[-1] == ("moved", 1)


def test_what_is_stored_too_late_is_not_fetched():
    moves = by_store()
    ask(moves, [0], 0, 2)
    assert brief(moves.stored(1.0, 1, 1)) == []
    assert brief(moves.failed(1.0, 1, 0, "the store is full", False)) == [(12, "DiscardUnits", 1)]
    assert brief(moves.stored(2.0, 1, 0)) == []
    assert brief(moves.discarded(3.0, 1, 2)) == [(10, "RestoreUnits", 1)]
    assert brief(moves.restored(4.0, 1, 0, FEEDERS))[-1] == ("move-undone", 1)
    assert brief(moves.stored(5.0, 1, 0)) == []


def test_the_target_cannot_fetch():
    moves = by_store()
    ask(moves, [0], 0, 2)
    list(moves.stored(1.0, 1, 0))
    assert brief(moves.failed(2.0, 1, 2, "the store is gone", False)) == [(12, "DiscardUnits", 1)]


class Transfers(StoreTransfer):
    """A store transfer that does things at once, in a store in memory."""

    def __init__(self, store):
        super().__init__("nowhere", "c", lambda: None)
        self._store = store
        self.closing.wait = lambda _seconds: False

    def submit(self, job):
        job()


@pytest.fixture
def store():
    return Memory()


@pytest.fixture
def sites(store):
    made = [Site(Nth()) for _ in range(2)]
    for site in made:
        site.use_store(Transfers(store))
        site.open()
    return made


def leave(source, move, units):
    source.move(move, units, store=True)
    source.server.collect()


def test_units_go_over(sites, store):
    source, target = sites
    source.feed(1, 1, 2)
    leave(source, 1, [1])
    assert source.outcomes() == [(1, "stored")]
    assert not source.courier.sent
    assert [name for name, _ in store.names()] == ["evenflow.moves/r/c.1"]
    target.say(FetchUnits(1, "r"))
    target.server.collect()
    assert target.outcomes() == [(1, "installed")]
    assert target.feed(1) == [3]
    source.say(UnitsMoved(1))
    assert not store.names()


@pytest.mark.parametrize("how", [RestoreUnits(1, "r"), AbandonMoves("r", (1,))], ids=["restore", "abandon"])
def test_what_was_stored_for_nothing_goes(sites, store, how):
    source, target = sites
    source.feed(1)
    leave(source, 1, [1])
    source.say(how)
    assert not store.names()
    assert isinstance(how, AbandonMoves) or source.feed(1) == [2]
    target.say(FetchUnits(1, "r"))
    target.server.collect()
    assert target.outcomes() == [(1, "undelivered")]
    assert "there is no blob" in target.told[-1].reason


def test_what_was_discarded_is_not_fetched(sites):
    source, target = sites
    source.feed(1)
    leave(source, 1, [1])
    target.say(DiscardUnits(1, "r"))
    target.say(FetchUnits(1, "r"))
    target.server.collect()
    assert target.outcomes() == [(1, "discarded")]


def test_news_of_movements_that_are_over(sites):
    source, _ = sites
    for news in (UnitsStoredEvent(7), DeliveryFailedEvent(7, "no")):
        source.server.mover.handle(news)
    assert source.outcomes() == []


def test_a_damaged_blob_is_not_taken(sites, store):
    source, target = sites
    source.feed(1)
    leave(source, 1, [1])
    name = "evenflow.moves/r/c.1"
    content = store.get(name)
    content[-70] ^= 1
    store.put(name, [content])
    target.say(FetchUnits(1, "r"))
    target.server.collect()
    assert target.outcomes() == [(1, "undelivered")]
    assert "damaged" in target.told[-1].reason


def test_parts_come_back_as_they_were(store):
    store_transfer = Transfers(store)
    parts = [b"label", b"", bytearray(b"x" * 100), memoryview(bytearray(b"abc"))]
    store_transfer.put("r", Parcel(3, parts))
    store_transfer.get("r", 3)
    store_transfer.get("r", 4)
    stored, parcel, missing = (store_transfer.inbox.get() for _ in range(3))
    assert stored == UnitsStoredEvent(3)
    assert [bytes(part) for part in parcel.parts] == [bytes(part) for part in parts]
    assert [memoryview(part).readonly for part in parcel.parts] == [True, True, False, False]
    assert isinstance(missing, FetchFailedEvent)


def test_a_worker_without_a_store_says_so():
    site = Site(Nth())
    site.open()
    site.feed(1)
    site.move(1, [1], store=True)
    site.say(FetchUnits(2, "r"))
    site.say(UnitsMoved(1))
    assert site.outcomes() == [(1, "undelivered"), (2, "undelivered")]
    assert {report.reason for report in site.told if report.move == 2} == {"this worker has no store"}
