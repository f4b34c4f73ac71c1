"""A store that is slow keeps only those waiting whose state is in it."""

import threading
import time
from pathlib import Path
from random import Random

import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import RegionOpenedEvent, StageFacts
from evenflow.errors import StoreError, StoreInUse
from evenflow.model.messages import FeederBegan, FeederHello
from evenflow.policy import Hash
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.driver.operator_names import Kept
from evenflow.state.store import retry as patience
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import Place
from tests.support.rig import HOST, PATIENCE_S, SECRET, Peer, until
from tests.support.stages import Told

UNITS = 4


class SlowVault(CheckpointThread):
    """Reads only when it is let."""

    def __init__(self, where):
        self.let = threading.Event()
        self.reads = 0
        super().__init__(where, "a test")

    def saved(self, region, query, epoch=0, new=True):
        self.reads += 1
        assert self.let.wait(PATIENCE_S)
        return super().saved(region, query, epoch, new)


def feeder(partition, query="q"):
    return FeederHello("r", partition, 0, query, 0, "1", run="1", mark="r")


def test_a_slow_store_does_not_stop_the_controller(tmp_path):
    log = EventLog(None)
    checkpoint_thread = SlowVault(str(tmp_path))
    checkpoint_thread.add("r", Kept("Nth", UNITS))
    told = StageFacts(3, 3, inputs=3)
    driver = ControllerThread(
        Controller(1), SECRET, HOST, 0.05, log, checkpoint_thread=checkpoint_thread, stages=Told(told)
    )
    links = []
    try:
        driver.open_region(RegionOpenedEvent(0.0, "r", "op", Hash(), UNITS, durable=True))
        for partition in range(2):
            links.append(Peer(driver.port).shake())
            links[-1].say(feeder(partition))
            links[-1].say(FeederBegan(partition))
        until(lambda: checkpoint_thread.reads, "a look at the store")
        began = time.monotonic()
        driver.open_region(RegionOpenedEvent(0.0, "other", "op", Hash(), UNITS))  # waits for the controller
        assert time.monotonic() - began < PATIENCE_S / 3
        links.append(Peer(driver.port).shake())
        links[-1].say(feeder(2))
        until(lambda: len(driver._newcomers.early) == 3, "three tasks that wait")
        links.pop().sock.close()  # it does not wait for the answer
        until(lambda: len(driver._newcomers.early) == 2, "one that is gone")
        assert not [entry for entry in driver.events() if entry["event"] == "feeder-joined"]
        checkpoint_thread.let.set()
        joined = until(lambda: [e for e in driver.events() if e["event"] == "feeder-joined"][1:], "both to join")
        assert len(joined) == 1
        region = driver.ask(lambda controller: controller.region("r"))
        until(lambda: len(region.begun) == 2, "both to begin: what they said meanwhile is not forgotten")
        assert checkpoint_thread.reads == 1
        assert not driver._newcomers.early
        assert not driver._newcomers.looking
    finally:
        checkpoint_thread.let.set()
        for link in links:
            link.sock.close()
        driver.close()


def test_a_store_that_cannot_be_opened_at_first(tmp_path):
    opened = iter([StoreError("not now"), OSError("not now"), None])

    def open_when_it_can(where):
        error = next(opened)
        if error is not None:
            raise error
        return open_store(where)

    checkpoint_thread = CheckpointThread(Place(str(tmp_path), opener=open_when_it_can), "a test")
    with pytest.raises(StoreInUse, match="is in use by a test"):
        claim(open_store(str(tmp_path)), "another")
    checkpoint_thread.close()


def test_a_busy_vault_renews_its_claim(tmp_path, monkeypatch):
    class Short(DiskStore):
        claim_s = 0.08

    checkpoint_thread = CheckpointThread(Place(str(tmp_path), opener=lambda where: Short(Path(where))), "a test")
    beats, rounds = [], 0
    monkeypatch.setattr(checkpoint_thread._claim, "beat", lambda: beats.append(rounds))

    def busy():
        nonlocal rounds
        rounds += 1
        time.sleep(0.005)
        if len(beats) < 3 and rounds < 1000:
            checkpoint_thread._orders.put(busy)

    checkpoint_thread._orders.put(busy)
    until(lambda: len(beats) >= 3 or rounds >= 1000)
    checkpoint_thread.close()
    assert len(beats) >= 3


def test_a_store_that_fails_now_and_then_can_be_claimed(tmp_path, monkeypatch):
    """Every fifth operation, whichever it is."""
    monkeypatch.setattr(patience, "PAUSE_S", 0.001)
    random = Random(1)

    class Failing(DiskStore):
        def names(self, prefix=""):
            fail()
            return super().names(prefix)

        def put(self, name, parts):
            fail()
            super().put(name, parts)

    def fail():
        if random.random() < 0.2:
            raise StoreError("not now")

    for _ in range(20):
        CheckpointThread(Place(str(tmp_path), opener=lambda _where: Failing(tmp_path)), "a test").close()
    claims = [name for name, _ in DiskStore(tmp_path).names("evenflow.claims/")]
    newest = max(int(name.split("/")[1].split(".")[0]) for name in claims)
    assert newest >= 20, "each had one of its own"
