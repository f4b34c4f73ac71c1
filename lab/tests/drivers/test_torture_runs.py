"""Eleven short schedules of faults, as `evenflow torture` runs them: in other processes, the driver's among them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from evenflow_lab.torture import processes
from evenflow_lab.torture.jobs import graph_check
from evenflow_lab.torture.report import TortureReport
from evenflow_lab.torture.run import run_all
from evenflow_lab.torture.schedule import Fault, Job, Schedule

JOB = Job(batches=3, rows=200, keys=40, partitions=2, workers=2, units=16)
FAULTS = {
    "a worker and a task are killed": [
        Fault("kill", "worker", batch=1, delay_s=0.15),
        Fault("kill", "feeder", batch=2, delay_s=0.1),
    ],
    "a worker is killed as units move": [Fault("kill", "worker", "extract", nth=4), Fault("kill", "worker", "install")],
    "a worker is killed as it saves units": [Fault("kill", "worker", "snapshot", nth=2)],
    "a worker is killed as it loads state": [
        Fault("kill", "worker", batch=2, delay_s=0.1, worker=1),
        Fault("kill", "worker", "restore", nth=2),
    ],
    "a worker is stopped for a while": [Fault("stop", "worker", batch=1, delay_s=0.1, seconds=2.0)],
    "a store fails and is full": [Fault("fails", share=0.2), Fault("full", point="log", nth=2, seconds=2.0)],
    "a bit of the log is flipped": [
        Fault("flip", point="log", share=0.4),
        Fault("kill", "worker", "snapshot"),  # so its units are in no snapshot, and the log is needed
    ],
    "the driver is killed as it notes a batch, a rival comes, and a part of the log is gone": [
        Fault("rival", "checkpoint", batch=0),
        Fault("kill", "driver", "epoch", "half", nth=2),
        Fault("vanish", point="log", share=0.5),
    ],
    "the driver is killed between two writes of a sink that keeps what it has": [
        Fault("breaks", point="written", nth=1),
        Fault("kill", "driver", "written", nth=3),
    ],
    "an older copy of the state comes back, and a name is changed": [
        Fault("pause", "query", batch=1),
        Fault("older", point="ours"),
        Fault("rename", point="name"),
        Fault("pause", "query", batch=3),
    ],
    "another query has a mistake": [Fault("blunder", "query", batch=0, share=0.2)],  # others would wait for its end
}
OTHERS = {
    0: replace(JOB, queries=2),
    5: replace(JOB, key=True),
    7: replace(JOB, sink="peeks", packs=(0, 1)),
    8: replace(JOB, sink="skips", files=4, persists=False),
    9: replace(JOB, store="postgres", key=True),
}
"""Two queries on one cluster; a checkpoint with a key; each batch is looked at before it is written, by other
partitions after a restart; rows of a key race, and each batch is written twice; a database.
"""
GRAPH = replace(JOB, keys=20, units=4, kind="graph", sources=2, placement="potential")
GRAPHS = {
    "a worker is killed as operators of a graph move, then the driver": (
        905,  # all kinds of nodes, most of them in one chain
        [Fault("kill", "worker", "extract", nth=1), Fault("kill", "driver", "whole", "after", nth=3)],
    )
}
"""Seeds, which tell the graph, and faults."""
SCHEDULES = {
    name: Schedule(place, OTHERS.get(place, JOB), tuple(faults)) for place, (name, faults) in enumerate(FAULTS.items())
} | {name: Schedule(seed, GRAPH, tuple(faults)) for name, (seed, faults) in GRAPHS.items()}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What came of them, one after the other."""
    report = TortureReport(0)
    keep = tmp_path_factory.mktemp("torture")
    run_all(list(SCHEDULES.values()), report, lambda report: None, keep)
    return report


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCHEDULES)
def test_output_and_state_are_those_of_a_plain_run(report, name):
    outcome = next(each for each in report.outcomes if each.schedule == SCHEDULES[name])
    assert outcome.good, outcome
    ends = graph_check.expected(outcome.schedule) if name in GRAPHS else {}
    times = outcome.schedule.job.queries * len(outcome.schedule.job.writes)
    assert outcome.verdict.rows == (sum(rows.num_rows for rows in ends.values()) or times * (3 * 200 + 40))
    assert len(outcome.struck) == len(outcome.schedule.faults), f"struck: {outcome.struck}"


def test_damage_was_noticed(report):
    """What is gone may not have been needed any more; then the output tells that it was not."""
    refused = {name: bool(outcome.refused) for name, outcome in zip(SCHEDULES, report.outcomes, strict=True)}
    sure = {name for name in refused if refused[name] and "gone" not in name}
    assert sure == {"a bit of the log is flipped", next(name for name in SCHEDULES if "older" in name)}


def test_a_driver_was_started_again(report):
    assert [outcome.lives for outcome in report.outcomes] == [1 + ("driver" in name) for name in SCHEDULES]


def test_nothing_is_left(report):
    assert report.leaked == []


def test_what_is_left_over_is_found_and_killed(eventually):
    mark = f"test-{os.getpid()}"
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, processes.MARK: mark})
    try:  # a process has no environment yet when its program has only just been loaded
        eventually(lambda: processes.marked(mark) == [process.pid], 30, "a process with its mark")
        assert processes.sweep(mark, 0.0) == [f"sleep {process.pid}"]
        process.wait(60)
        assert processes.marked(mark) == []
    finally:
        process.kill()
        process.wait(60)


def using(folder):
    """Processes, other than this one, that were started with `folder` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if str(folder).encode() in (entry / "environ").read_bytes() and state != "Z":
                    found.append(int(entry.name))
    return found


@pytest.mark.timeout(300)
def test_a_run_that_is_interrupted_leaves_nothing(tmp_path, eventually):
    command = [sys.executable, "-m", "evenflow", "torture", "--schedules", "8", "--json", str(tmp_path / "out.json")]
    folder = tmp_path / "tmp"
    folder.mkdir()
    process = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(folder)}, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: len(using(folder)) > 2, 120, "a driver with its JVM")
        for _ in range(2):  # somebody is impatient
            process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        assert process.wait(120) == 130
        assert using(folder) == []
        assert list(folder.iterdir()) == []
        assert not (tmp_path / "out.json").exists()  # nothing was found yet
    finally:
        process.kill()
        process.wait(60)
