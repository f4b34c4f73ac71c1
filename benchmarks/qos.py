"""Two keyed operators on the same emulated workers, both with more rows than they can serve: what `qos` does.

    .venv/bin/python -m benchmarks.qos --seconds 25 --target 400

Prints rows a second and latency of each in the second half of the run; the operator "alerts" has a weight, or a target.
"""

from __future__ import annotations

import argparse
import threading
import time

import evenflow as ef
from evenflow.model.latency import Latencies
from evenflow.testing import Emulate

WORKERS, COST_US = 2, 20.0
CONF = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
"""Rows of one Arrow batch arrive together, and the last of them waits for all."""


def main() -> None:
    """Run without `qos`, with a weight, and with a target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--target", type=float, default=400.0, help="ms")
    options = parser.parse_args()
    spark = ef.local_session(workers=WORKERS, slots=2, conf=CONF)
    print("| qos of alerts | alerts rows/s | p50 / p99 ms | means rows/s | p50 / p99 ms | weights in turn |")
    print("|---|---|---|---|---|---|")
    for qos in (None, 4.0, ef.Qos(latency_ms=options.target)):
        print(f"| {qos} | {' | '.join(measured(spark, qos, options.seconds))} |", flush=True)
    spark.stop()


def measured(spark, qos, seconds: float) -> list[str]:
    """Run both operators for so long; the cells of a row."""
    given = {} if qos is None else {"alerts": qos}
    with ef.Cluster(spark, WORKERS, emulate=Emulate(COST_US), qos=given, period=0.5) as cluster:
        rows = int(1.5 * seconds * WORKERS * 1e6 / COST_US)
        for name in ("alerts", "means"):
            keyed = spark.range(0, rows, 1, 1).selectExpr("id", "id % 1000 as key")
            out = cluster.keyed(keyed, "key", ef.RunningMean("id", into="mean"), name=name)
            threading.Thread(target=quietly, args=(out,), daemon=True).start()
        time.sleep(seconds / 2)
        half = {name: cluster.region(name).snapshot().performance.latencies for name in ("alerts", "means")}
        time.sleep(seconds / 2)
        cells = []
        for name, before in half.items():
            took: Latencies = cluster.region(name).snapshot().performance.latencies - before
            found = took.summary
            cells += (
                ["0", "-"] if found is None else [rate(found.rows, seconds), f"{found.p50:,.0f} / {found.p99:,.0f}"]
            )
        weights = [f"{event['weight']:g}" for event in cluster.events() if event["event"] == "qos"]
    return [*cells, " ".join(weights) or "-"]


def rate(rows: int, seconds: float) -> str:
    """Rows a second in half the time."""
    return f"{rows / seconds * 2:,.0f}"


def quietly(df) -> None:
    """Evaluate a DataFrame until its cluster is stopped."""
    try:
        df.write.format("noop").mode("overwrite").save()
    except Exception as error:  # the cluster was stopped under it, as planned
        if "cluster" not in str(error):
            print(error)


if __name__ == "__main__":
    main()
