"""What needs a process of its own: sessions of other sizes, ends of all kinds. Nothing may be left afterwards."""

import os
import re
import signal
import sys
import textwrap

import pytest

from tests.support.scripts import ROOT, Script

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


def test_ctrl_c_while_workers_start_and_in_the_middle_of_queries(tmp_path):
    """First all slots are taken by somebody else, and the user loses patience with a cluster that waits for them.

    Then a stream runs in the background, a batch in the foreground.
    """
    source = """
    import threading

    spark = ef.local_session(workers=2)
    jobs = spark.sparkContext.parallelize(range(4), 4)
    holder = threading.Thread(target=lambda: jobs.foreach(lambda _: time.sleep(600)), daemon=True)
    threading.excepthook = lambda _: None  # its job is cancelled
    holder.start()
    while not spark.sparkContext.statusTracker().getActiveStageIds():
        time.sleep(0.1)
    try:
        print("starting", flush=True)
        ef.Cluster(spark, workers=2, start_timeout=100)
    except KeyboardInterrupt:
        print("lost patience", flush=True)
    spark.sparkContext.cancelAllJobs()
    holder.join(60)
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
        script.wait_for("starting")
        script.sleep(3)
        script.process.send_signal(signal.SIGINT)
        script.wait_for("lost patience")
        script.wait_for("ready")
        script.sleep(2)
        script.process.send_signal(signal.SIGINT)
        script.ended()
        assert script.process.returncode not in (0, None)
        assert script.output().rstrip().endswith("KeyboardInterrupt") or "\nKeyboardInterrupt\n" in script.output()
        assert "ERROR:root" not in script.output(), "a page of what py4j makes of it"
        script.gone()


OWN_SESSION = """
import os
import sys
import traceback
sys.path.insert(0, {package!r})
from pyspark.sql import SparkSession
import evenflow as ef


def session(path):
    builder = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false")
    return builder.config("spark.executorEnv.PYTHONPATH", path).getOrCreate()


spark = session({package!r})
with ef.Cluster(spark, workers=1) as cluster:
    print(cluster.ordered_map(spark.range(10), lambda batch: batch, "id long").count(), "rows")
spark.stop()

os.environ["PYSPARK_PYTHON"] = {bare!r}
spark = session("")
try:
    ef.Cluster(spark, workers=1)
except ef.EvenflowError:
    traceback.print_exc()
print("the end")
"""


def test_interpreters_of_sessions_that_the_user_makes(tmp_path):
    """From an environment that is not activated Spark would take the first python3 on the PATH, which may lack the
    package: the driver's own is taken instead. Where the user has said which to take, and it lacks the package, that is
    one line, and at once.
    """
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYSPARK_PYTHON": "", "SPARK_LOCAL_IP": "127.0.0.1"}
    source = OWN_SESSION.format(package=str(ROOT / "src"), bare=f"{sys.base_prefix}/bin/python3")
    with Script(source, tmp_path, PYTHONPATH="", **environment) as script:
        output = script.finish()
    assert "10 rows" in output
    *_, said, end = output.splitlines()
    assert end == "the end"
    assert said.startswith(
        "evenflow.errors.ClusterStartError: the executors' Python has no evenflow: set PYSPARK_PYTHON"
    )


def test_reproduce_killed(tmp_path):
    """Experiments take minutes; without the command, nobody waits for them."""
    source = """
    from pathlib import Path
    from evenflow_lab.experiments import runner
    from evenflow_lab.experiments.base import Setting

    def watch(name, part):
        if part:
            print("ready", flush=True)

    if __name__ == "__main__":
        runner.run_all(Path("report"), ["O-f9", "O-f10"], Setting(), 2, watch)
    """
    with Script(textwrap.dedent(source), tmp_path) as script:
        script.wait_for("ready")
        script.process.kill()
        script.ended()
        script.gone()


def test_small_sessions_and_stopped_ones(tmp_path):
    """Too few slots, no slot left, a session stopped under its cluster: errors that say what to do.

    The user's own exception is told once. The last cluster is stopped by nobody: with the script everything ends.
    """
    source = """
    import traceback
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
    with ef.Cluster(spark, workers=1) as cluster:
        error(ClusterStartError, lambda: ef.Cluster(spark, workers=1))
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

    def bad(batch):
        raise ValueError("my own mistake")

    try:
        cluster.ordered_map(spark.range(10), bad, "id long").collect()
    except Exception:
        traceback.print_exc()
    """
    with Script(script_of(source), tmp_path) as script:
        output = script.finish()
    need = "and at least one task of the query need 3 task slots, and this session has 2"
    remedy = "Use master local[3,4] or more, or evenflow.local_session(workers=2)"
    assert f"ClusterStartError | 2 workers {need}. {remedy}" in output
    assert re.search(
        rf"Error \| 1 workers, 1 of cluster \w+, {need}. Stop a cluster that is done. {re.escape(remedy)}", output
    )
    assert "1000 rows" in output
    assert "ClusterStopped | the Spark session of this cluster was stopped" in output
    assert "the worker is stopped" in output
    assert "InvalidArgument | the Spark session is stopped: start one first" in output
    assert "500 more rows" in output
    assert output.count('raise ValueError("my own mistake")') == 1, output
    assert "\tat org.apache" not in output, "no Java stack is of any use here"
