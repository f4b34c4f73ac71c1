"""Three executors, each a JVM of its own. One run in a process of its own: Spark allows one context a process."""

import json
import os
import shutil
import sys

import pytest

from tests.support.scripts import ROOT, Script

pytestmark = pytest.mark.timeout(700)  # all of it happens before the first test
SOURCE = """
from pathlib import Path

from tests.support import local_cluster

local_cluster.main(Path.cwd())
"""


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """What the run has said, by step."""
    folder = tmp_path_factory.mktemp("local-cluster")
    said = {}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with Script(SOURCE, folder, PYTHONPATH=path, PYSPARK_PYTHON=sys.executable) as script:
        try:
            script.finish(600)
        finally:
            lines = [line for line in script.output().splitlines() if line.startswith('{"step"')]
            said = {step["step"]: step for step in map(json.loads, lines)}
            if "session" in said:
                shutil.rmtree(said["session"]["work"], ignore_errors=True)
    return said


def test_workers_are_spread_over_the_executors(steps):
    assert len(set(steps["workers"]["executors"])) == 3
    assert "" not in steps["workers"]["executors"]


def test_order_and_rows(steps):
    assert "batch" in steps


def test_stream(steps):
    assert "stream" in steps


def test_units_moved_between_executors(steps):
    """Compared with the reference there, before and after an executor was lost."""
    for step in ("keyed", "keyed again"):
        assert steps[step]["moved"] > 0
        assert steps[step]["across"] > 0


def test_executor_killed(steps):
    """All its workers replaced, the others untouched, the committed rows right."""
    lost = steps["lost"]
    assert lost["killed"]
    restarts = {int(worker): count for worker, count in lost["restarts"].items()}
    assert all(restarts[worker] >= 1 for worker in lost["killed"])
    assert all(count == 0 for worker, count in restarts.items() if worker not in lost["killed"])
    assert "batch again" in steps


def test_end(steps):
    assert "stopped" in steps
    assert "end" in steps
