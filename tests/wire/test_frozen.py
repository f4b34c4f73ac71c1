"""A worker process that is stopped while its state is needed: another takes its place, and it wakes to no harm."""

import os
import signal
import time
from dataclasses import replace
from functools import partial

import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import RegionOpenedEvent, StageFacts
from evenflow.errors import StateLost
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.operator_names import Kept
from tests.support import keyed_rig
from tests.support.keyed_rig import UNITS, Keyed, check, rows
from tests.support.rig import HOST, PATIENCE_S, SECRET, Rig, until
from tests.support.stages import Told

STALL_S = 8.0


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Two processes, a checkpoint, and somebody who starts another process when he is asked to."""
    rig = Rig(2, start=False)
    rig.driver.close()
    checkpoint_thread = CheckpointThread(str(tmp_path), "a test")
    controller = Controller(2, stall_timeout=STALL_S)
    replaced = rig.start_process
    stages = Told(StageFacts(1, 1, inputs=1))
    rig.driver = ControllerThread(
        controller,
        SECRET,
        HOST,
        0.05,
        rig.log,
        checkpoint_thread=checkpoint_thread,
        stages=stages,
        replace_worker=replaced,
    )
    rig.settings = replace(rig.settings, port=rig.driver.port, checkpoint=str(tmp_path))
    for number in range(2):
        rig.start_process(number)
    rig.await_live(2)
    monkeypatch.setattr(keyed_rig, "RegionOpenedEvent", partial(RegionOpenedEvent, durable=True))
    rig.keyed = Keyed(rig, mark="nth")
    checkpoint_thread.add(rig.keyed.region, Kept("Nth", UNITS + 1))
    yield rig
    rig.close()


def test_a_stopped_worker_is_replaced_when_its_state_is_needed(cluster):
    keyed = cluster.keyed
    check(keyed.run(rows(1000), query="q", epoch=0, stage="1"), 1000)
    frozen, dead = cluster.processes[1], cluster.processes[0]
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        dead.kill()
        dead.wait()
        until(lambda: cluster.events("worker-lost"), "the loss of worker 0")
        cluster.start_process(0)
        cluster.await_live(2)
        began = time.monotonic()
        with pytest.raises(StateLost, match=r"worker 1 was lost \(it answered nothing for \d+ s while its state was"):
            keyed.run(rows(1000, seed=1, start=1000), query="q", epoch=1, stage="2")
        assert STALL_S <= time.monotonic() - began < PATIENCE_S
        cluster.await_live(2)
        assert [worker.incarnation for worker in cluster.workers()] == [2, 2]
        out = keyed.run(rows(1000, seed=1, start=1000), query="q", epoch=1, stage="3")
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    before, after = 0, check(out, 1000, start=1000)
    for batch in rows(1000):
        before += batch.num_rows
    assert sum(after.values()) == before + 1000, "each key goes on from the state of batch 0"
    assert frozen.wait(PATIENCE_S) == 0, "it ends by itself when it wakes"
    assert [worker.incarnation for worker in cluster.workers()] == [2, 2]
    check(keyed.run(rows(1000, seed=2, start=2000), query="q", epoch=2, stage="4"), 1000, start=2000)
