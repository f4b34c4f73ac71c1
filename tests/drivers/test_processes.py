"""What needs a process of its own: sessions of other sizes, ends of all kinds. Nothing may be left afterwards."""

import re
import signal
import textwrap

import pytest

from tests.scripts import Script

pytestmark = pytest.mark.timeout(500)  # two cores, and others on them

START = """
import time
import evenflow as ef

def slow(batch):
    time.sleep(0.2)
    return batch

"""


def script_of(source):
    return START + textwrap.dedent(source)


def test_ctrl_c_in_the_middle_of_queries(tmp_path):
    """A stream in the background, a batch in the foreground."""
    source = """
    spark = ef.local_session(workers=2)
    with ef.Cluster(spark, workers=2) as cluster:
        rate = spark.readStream.format("rate").option("rowsPerSecond", 1000).load().select("value")
        query = cluster.ordered_map(rate, lambda batch: batch, "value long").writeStream.format("noop").start()
        while not query.recentProgress:
            time.sleep(0.1)
        out = cluster.ordered_map(spark.range(0, 1_000_000, 1, 2), slow, "id long")
        print("ready", flush=True)
        out.collect()
    """
    with Script(script_of(source), tmp_path) as script:
        script.wait_for("ready")
        script.sleep(2)
        script.process.send_signal(signal.SIGINT)
        script.ended()
        assert script.process.returncode not in (0, None)
        assert "KeyboardInterrupt" in script.output()
        script.gone()


def test_ctrl_c_while_workers_start(tmp_path):
    """More workers than slots: the cluster waits for them when the user loses patience."""
    source = """
    spark = ef.local_session(workers=2)
    print("ready", flush=True)
    ef.Cluster(spark, workers=9, start_timeout=100)
    """
    with Script(script_of(source), tmp_path) as script:
        script.wait_for("ready")
        script.sleep(3)
        script.process.send_signal(signal.SIGINT)
        script.ended()
        assert "KeyboardInterrupt" in script.output()
        script.gone()


def test_driver_killed(tmp_path):
    """No chance to clean up: the workers notice and go."""
    source = """
    spark = ef.local_session(workers=2)
    cluster = ef.Cluster(spark, workers=2)
    cluster.ordered_map(spark.range(0, 100, 1, 2), lambda batch: batch, "id long").count()
    print("ready", flush=True)
    time.sleep(600)
    """
    with Script(script_of(source), tmp_path) as script:
        script.wait_for("ready")
        script.process.kill()
        script.ended()
        script.gone()


def test_small_sessions_and_stopped_ones(tmp_path):
    """Too few slots, no slot left, a session stopped under its cluster: errors that say what to do.

    The last cluster is stopped by nobody: the script ends, and with it everything.
    """
    source = """
    from evenflow.errors import ClusterStartError, ClusterStopped, InvalidArgument

    def error(kind, action):
        try:
            action()
        except kind as failure:
            print(kind.__name__, "|", failure, flush=True)
            return
        raise SystemExit(f"no {kind.__name__}")

    spark = ef.local_session(workers=1, slots=1)
    df = spark.range(0, 1000, 1, 3)
    error(ClusterStartError, lambda: ef.Cluster(spark, workers=2))
    error(ClusterStartError, lambda: ef.Cluster(spark, workers=3, start_timeout=3))
    with ef.Cluster(spark, workers=1) as cluster:
        print(cluster.ordered_map(df, lambda batch: batch, "id long").count(), "rows")
    cluster = ef.Cluster(spark, workers=1)
    spark.stop()
    error(ClusterStopped, lambda: cluster.ordered_map(df, lambda batch: batch, "id long"))
    print("the worker is", cluster.workers()[0].state)
    cluster.stop()
    error(InvalidArgument, lambda: ef.Cluster(spark, workers=1))
    spark = ef.local_session(workers=1)
    cluster = ef.Cluster(spark, workers=1)
    print(cluster.ordered_map(spark.range(0, 500, 1, 3), lambda batch: batch, "id long").count(), "more rows")
    """
    with Script(script_of(source), tmp_path) as script:
        output = script.finish()
    assert "ClusterStartError | 2 workers hold all 2 task slots of this session and leave none for the query" in output
    assert "Use master local[3,4] or more, or evenflow.local_session(workers=2)" in output
    assert re.search(r"ClusterStartError \| [0-2] of 3 workers started within 3 s; the session has 2 task", output)
    assert "local[4,4]" in output
    assert "1000 rows" in output
    assert "ClusterStopped | the Spark session of this cluster was stopped" in output
    assert "the worker is stopped" in output
    assert "InvalidArgument | the Spark session is stopped: start one first" in output
    assert "500 more rows" in output
