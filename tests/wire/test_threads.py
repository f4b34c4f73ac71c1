"""No thread ends unheard: something is thrown in each, and whoever waits for it hears what, and soon."""

import queue
import re
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import evenflow
import evenflow_lab
from evenflow.control.events import (
    CheckpointTakenEvent,
    RegionOpenedEvent,
    SaveInstruction,
    SendInstruction,
    TickEvent,
)
from evenflow.errors import ClusterStopped, EvenflowError
from evenflow.model.checkpoint import Base, BatchLog
from evenflow.model.messages import ForgetEvaluation, LoadState
from evenflow.policy import Hash
from evenflow.runtime.cluster.spark import session, worker_jobs
from evenflow.runtime.cluster.spark.interrupts import Interrupts
from evenflow.runtime.driver.checkpoint import CheckpointThread, Unpassing
from evenflow.runtime.driver.operator_names import Kept
from evenflow.runtime.threads import BackgroundThread, JobThread
from evenflow.runtime.wire import poller
from evenflow.runtime.wire.messages import control
from evenflow.runtime.worker.environment import REAL
from evenflow.runtime.worker.events import DeliveryFailedEvent, FetchFailedEvent
from evenflow.runtime.worker.moves.direct_transfer import DirectTransfer, Parcel
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.runtime.worker.rows.instances import Instances
from evenflow.runtime.worker.saving import loader
from evenflow.runtime.worker.saving.blob_writer import BlobWriter, PutOutcome
from evenflow.runtime.worker.saving.loader import Loader
from tests.support.keyed_rig import Keyed, rows
from tests.support.rig import ids, until

THREADS = {
    "runtime/worker/moves/store_transfer.py": "store transfer",
    "runtime/driver/controller_thread.py": "controller",
    "runtime/cluster/spark/interrupts.py": "interrupt",
    "runtime/worker/saving/blob_writer.py": "blob writer",
    "runtime/worker/saving/loader.py": "loader",
    "runtime/worker/moves/direct_transfer.py": "direct transfer",
    "runtime/cluster/spark/session.py": "cancel",
    "runtime/cluster/spark/worker_jobs.py": "worker {worker}",
    "runtime/driver/checkpoint.py": "checkpoint",
    "evenflow_lab/torture/faults/inject.py": "torture",
    "evenflow_lab/torture/jobs/job.py": "torture parent",
    "evenflow_lab/experiments/runner.py": "experiment parent",
    "cli/chatter.py": "stderr",
    "dashboard/web/serving.py": "dashboard",
}
"""The owners of all threads of ours. Whoever adds one adds a test in which it fails, and who hears of it."""
MADE = re.compile(r'(?:\bBackgroundThread|\bJobThread|super\(\)\.__init__)\(\s*f?"([^"]+)"')


def boom(*_args, **_kwargs):
    raise MemoryError("on purpose")


def test_these_are_all_threads_and_each_is_heard():
    source, lab = Path(evenflow.__file__).parent, Path(evenflow_lab.__file__).parent
    found = {}
    for path in (*source.rglob("*.py"), *lab.rglob("*.py")):
        name, text = str(path.relative_to(lab.parent if path.is_relative_to(lab) else source)), path.read_text()
        assert ("Thread(target" in text or "threading.Thread" in text) == (name == "runtime/threads.py"), name
        if "runtime.threads" in text:
            (found[name],) = MADE.findall(text)
    assert found == THREADS


def test_what_ends_a_thread_is_told_and_a_thread_that_hangs_too():
    told, hold = [], threading.Event()
    failing = BackgroundThread("first", boom, told.append)
    failing.begin()
    assert failing.join(30)
    assert failing.failure == "MemoryError: on purpose"
    assert isinstance(told[0], MemoryError)
    hanging = JobThread("second", told.append)
    hanging.submit(hold.wait)
    with pytest.raises(EvenflowError, match=r"the second's thread did not end within 0.01 s: it holds$"):
        hanging.end(0.01, "it holds")
    hold.set()
    assert hanging.join(30)
    assert not hanging.failure


def test_an_interrupt_that_spark_does_not_hear_of_is_told(caplog):
    context = SimpleNamespace(_jsc=object(), statusTracker=boom)
    interrupts = Interrupts(SimpleNamespace(sparkContext=context, streams=SimpleNamespace(active=[])))
    with pytest.raises(KeyboardInterrupt):
        interrupts._interrupted(2, None)
    until(lambda: "may still run in Spark" in caplog.text, "a warning")


# -- a worker's threads


def test_a_mover_that_fails_ends_its_worker_which_says_why(rig, monkeypatch):
    cluster = rig(2)
    keyed = Keyed(cluster)
    keyed.run(rows(200), query="q")
    original = DirectTransfer._dispatch

    def fails(self, parcel):
        monkeypatch.setattr(self, "inbox", SimpleNamespace(put=boom, empty=self.inbox.empty))
        original(self, parcel)
        boom()

    monkeypatch.setattr(DirectTransfer, "_dispatch", fails)
    began = time.monotonic()
    owners = keyed.table().owners
    keyed.move([1], 1 - int(owners[1]))
    told = until(lambda: cluster.events("worker-trouble"), "that the worker says why it ends")
    assert "the direct transfer's thread has failed: MemoryError: on purpose" in told[0]["reason"]
    ended = until(lambda: cluster.events("evaluation-ended"), "that the query hears of it")
    assert "the direct transfer's thread has failed: MemoryError: on purpose" in ended[0]["why"]
    assert time.monotonic() - began < 30
    source = until(lambda: [number for number, why in cluster.ended.items() if "MemoryError" in str(why)])
    assert source == [int(owners[1])]


def test_a_mover_without_descriptors_loses_a_movement_and_nothing_else(monkeypatch):
    woken = []
    made = DirectTransfer(poller.Poller(b"s" * 32), lambda: woken.append(1), "key")
    made.start("127.0.0.1")
    try:
        monkeypatch.setattr(poller.socket, "socket", partial(_no_files))
        made.send(Parcel(1, [b"state"], "127.0.0.1", 9))
        found = made.inbox.get(timeout=30)
        assert isinstance(found, DeliveryFailedEvent)
        assert "Too many open files" in found.reason
        assert not made.failure
    finally:
        monkeypatch.undo()
        made.close()


def _no_files(*_args, **_kwargs):
    raise OSError(24, "Too many open files")


def test_a_movers_thread(monkeypatch):
    woken = []
    monkeypatch.setattr(DirectTransfer, "_run", boom)
    made = DirectTransfer(poller.Poller(b"s" * 32), lambda: woken.append(1), "key")
    made.start("127.0.0.1")
    until(lambda: woken, "that the worker is woken")
    assert made.failure == "MemoryError: on purpose"
    made.close()


class Store:
    """A store in which everything throws what no store throws."""

    put = get = names = delete = boom

    def close(self):
        pass


def test_a_blob_that_cannot_be_written():
    woken = []
    made = BlobWriter("nowhere", lambda: woken.append(1), opened=lambda _where: Store())
    made.put("a", [b"x"], "first")
    made.put("b", [b"x"], "second")
    found = until(lambda: made.inbox.qsize() == 2 and made.collect(), "both outcomes")
    assert found == [PutOutcome("first", "MemoryError: on purpose"), PutOutcome("second", "MemoryError: on purpose")]
    assert made.unsaved == 0
    assert woken
    made.close()


def test_a_blob_writer_that_cannot_start_is_told_before_any_row(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", _no_threads)
    with pytest.raises(RuntimeError, match="too many"):
        REAL.blob_writer("nowhere", lambda: None)


def test_a_journals_thread(monkeypatch):
    woken = []
    monkeypatch.setattr(BlobWriter, "_put", boom)
    made = BlobWriter("nowhere", lambda: woken.append(1))
    made.put("a", [b"x"], "first")
    until(lambda: woken, "that the worker is woken")
    assert made.failure == "MemoryError: on purpose"
    made.close()


def test_units_that_cannot_be_stored_or_fetched():
    made = StoreTransfer("nowhere", "c", lambda: None, opened=lambda _where: Store())
    made.put("r", Parcel(1, [b"x"]))
    made.get("r", 2)
    made.delete("r", 1)
    assert made.inbox.get(timeout=30) == DeliveryFailedEvent(1, "MemoryError: on purpose")
    assert made.inbox.get(timeout=30) == FetchFailedEvent(2, "r", "MemoryError: on purpose")
    assert not made.failure
    made.close()
    assert not made.alive


def test_a_depots_thread(monkeypatch):
    monkeypatch.setattr(StoreTransfer, "_get", boom)
    woken = []
    made = StoreTransfer("nowhere", "c", lambda: woken.append(1))
    made.get("r", 2)
    until(lambda: woken, "that the worker is woken")
    assert made.failure == "MemoryError: on purpose"
    made.close()


@pytest.mark.parametrize("where", ["store", "memory", "thread", "all of it"])
def test_state_that_cannot_be_loaded(where, monkeypatch):
    if where == "memory":
        monkeypatch.setattr(loader, "np", SimpleNamespace(full=boom, empty=np.empty, int64=np.int64))
    elif where == "thread":
        monkeypatch.setattr(threading.Thread, "start", _no_threads)
    elif where == "all of it":
        monkeypatch.setattr(Loader, "_run", boom)
    woken = []
    made = Loader("nowhere", lambda: woken.append(1), Instances(), opened=boom)
    made.start(LoadState("r", "q", "op", 9, 1, 0, 1, (), (), np.arange(9, dtype=np.int32)), None)
    until(lambda: woken, "that the worker is woken")
    assert made.inbox.get().error == ("RuntimeError: too many" if where == "thread" else "MemoryError: on purpose")
    monkeypatch.undo()
    made.close()


def _no_threads(_self):
    raise RuntimeError("too many")


# -- the driver's threads


@pytest.fixture
def kept(tmp_path):
    made = CheckpointThread(str(tmp_path), "a test")
    made.add("r", Kept("op", 9))
    yield made
    with suppress(EvenflowError):
        made.close()


def saved(kept, epoch):
    """What becomes of the manifest of a batch."""
    found = []
    base = Base(epoch, 1, (), (BatchLog(epoch, 1, {"0.1": 1}, (0,)),))
    kept.save(SaveInstruction("r", "q", "epoch", base), lambda _save, error: found.append(error))
    return until(lambda: found, "that the manifest is put")[0]


def test_what_is_not_the_stores_fault_is_named_at_once(kept, monkeypatch):
    assert saved(kept, 1) == ""
    began = time.monotonic()
    with monkeypatch.context() as broken:
        broken.setattr("evenflow.runtime.driver.manifests.put_manifest", boom)
        why = saved(kept, 2)
    assert isinstance(why, Unpassing)
    assert why == "MemoryError: on purpose"
    assert time.monotonic() - began < 10
    assert saved(kept, 3) == "", "the thread goes on"
    assert kept.failure == ""


def test_a_checkpoint_that_cannot_be_used_any_more_costs_no_query_without_state(rig, kept, monkeypatch):
    cluster = rig(1)
    monkeypatch.setattr(kept, "_tried", boom)
    monkeypatch.setattr(kept, "on_lost", lambda why: cluster.driver.post(CheckpointTakenEvent(0.0, why)))
    kept.save(SaveInstruction("r", "q", "epoch", Base()), boom)
    until(lambda: kept.lost, "that it is noticed")
    assert kept.lost == "the checkpoint cannot be used any more: MemoryError: on purpose"
    assert kept.saved("r", "q") == kept.lost, "whoever asks is told"
    assert kept.failure == "", "the thread goes on"
    until(lambda: [e for e in cluster.driver.events() if e["event"] == "checkpoint-taken"], "that it is told")
    assert cluster.map(lambda batch: batch, [ids(0, 5)]).num_rows == 5


def test_a_name_that_no_store_takes_costs_its_query_alone(kept):
    kept.add("x" * 300, Kept("op", 9))
    told = queue.SimpleQueue()
    kept.look("x" * 300, "q", 0, True, told.put)
    assert "takes 300 bytes, over 255: give a shorter one" in told.get(timeout=30)
    assert kept.failure == kept.lost == ""


def test_what_cannot_be_carried_out_ends_its_region_alone(rig, monkeypatch):
    cluster = rig(1)
    keyed = Keyed(cluster)
    cluster.driver.open_region(RegionOpenedEvent(0.0, "bad", "op", Hash(), 9))

    def refuses(message):
        return boom() if isinstance(message, ForgetEvaluation) else control(message)

    monkeypatch.setattr("evenflow.runtime.driver.peer_channels.control", refuses)
    cluster.driver.ask(
        lambda controller: cluster.driver._carry_out([SendInstruction(1, ForgetEvaluation("bad", "query q"))])
    )
    cluster.driver.post(TickEvent(0.0))
    until(lambda: cluster.driver.ask(lambda controller: controller.failure("bad")), "that the region is closed")
    assert "on purpose" in cluster.driver.ask(lambda controller: controller.failure("bad"))
    assert keyed.run(rows(1_000, size=100))


def test_a_controller_that_fails_tells_everybody(rig, monkeypatch, caplog):
    cluster = rig(1)
    keyed = Keyed(cluster)
    monkeypatch.setattr(cluster.driver._errors, "tell_left_out", lambda closing=False: closing or boom())
    began = time.monotonic()
    with pytest.raises(ClusterStopped, match="the controller has failed: MemoryError: on purpose"):
        keyed.run(_slowly(rows(100_000, size=10)))
    with pytest.raises(ClusterStopped, match="has failed, MemoryError: on purpose: start a new Cluster"):
        cluster.driver.open_region(RegionOpenedEvent(0.0, "r9", "op", Hash(), 9))
    assert time.monotonic() - began < 30
    assert "on purpose" in str(until(lambda: cluster.ended.get(0), "that the worker ends"))
    assert "controller has failed" in caplog.text


def _slowly(batches):
    for batch in batches:
        time.sleep(0.01)
        yield batch


def test_an_event_that_goes_wrong_is_told_to_whoever_waits(rig, monkeypatch, caplog):
    cluster = rig(1)
    controller = cluster.driver._controller
    monkeypatch.setattr(controller, "_region_opened", boom)
    with pytest.raises(EvenflowError, match="region r9 could not be opened: MemoryError: on purpose"):
        cluster.driver.open_region(RegionOpenedEvent(0.0, "r9", "op", Hash(), 9))
    monkeypatch.undo()
    monkeypatch.setattr(controller, "_feeder_joined", boom)
    with pytest.raises(ClusterStopped, match="MemoryError: on purpose"):
        cluster.map(lambda batch: batch, [ids(0, 5)])
    monkeypatch.undo()
    assert cluster.map(lambda batch: batch, [ids(0, 5)]).num_rows == 5
    assert "could not handle RegionOpened" in caplog.text


def test_a_supervisors_thread(monkeypatch, caplog):
    ended = []
    monkeypatch.setattr(worker_jobs.WorkerJobs, "_run", boom)
    made = worker_jobs.WorkerJobs(None, SimpleNamespace(cluster="c"), 2, lambda *why: ended.append(why))
    until(lambda: len(ended) == 2, "that both are told")
    assert {worker for worker, _ in ended} == {0, 1}
    assert all("is not started again" in why and "MemoryError: on purpose" in why for _, why in ended)
    assert made._join(30)
    assert "worker 1 is not started again" in caplog.text


def test_a_stage_that_cannot_be_cancelled(caplog):
    session.cancel_stage(SimpleNamespace(_jsc=SimpleNamespace(sc=boom)), "3", "in vain")
    until(lambda: "stage 3 could not be cancelled" in caplog.text, "the warning")
    assert "MemoryError: on purpose" in caplog.text
