"""Pictures of the live page, docs/images/dashboard-*.png, from the event log of a real run on Spark.

    python scripts/screenshots.py                   # runs the job, some minutes, and takes the pictures
    python scripts/screenshots.py --log LOG         # takes them from a log that is there

The job has one cluster of six workers, whose capacity is emulated: an ordered map while a worker gets slow, a keyed
operator with hot keys, checkpointed, while another one gets slow, and a graph of operators.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SIZES = {"wide": (1440, 1000), "phone": (390, 844)}
WORKERS = 6
AFTER_S, KNOWN_S, SETTLE_MS = 12.0, 5.0, 1500
CUSTOMER = "case when value % 10 < 3 then concat('hot', value % 20) else concat('c', pmod(hash(value), 9000)) end"


def same(batch: Any) -> Any:
    """The function of the ordered map: its cost is emulated."""
    return batch


def make_log(path: Path, seconds: float) -> None:
    """Run the job, each part for so many seconds, with its event log in `path`."""
    import evenflow as ef

    spark = ef.local_session(WORKERS, slots=2)
    spark.sparkContext.setLogLevel("OFF")
    work = Path(tempfile.mkdtemp())
    slow = {1: [(0, 1), (seconds / 4, 5), (seconds, 1)], 4: [(1.4 * seconds, 5), (2.2 * seconds, 1)]}
    emulate = ef.testing.Emulate(200, slow, {"large": 60, "mean": 150, "rising": 40, "audit": 60})
    try:
        with ef.Cluster(
            spark, WORKERS, event_log=path, emulate=emulate, checkpoint=work / "state", memory="2m", dashboard=True
        ) as cluster:
            for number, (name, out) in enumerate(_parts(spark, cluster).items()):
                where = str(work / f"spark-{number}")
                query = out.option("checkpointLocation", where).start()
                query.awaitTermination(seconds)
                query.stop()
                print(f"{name}: {query.exception() or 'done'}")
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)


def _parts(spark: Any, cluster: Any) -> dict[str, Any]:
    """The writers of the three streaming queries, by name."""
    import evenflow as ef

    def stream(rows: int, partitions: int) -> Any:
        return spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=partitions).load()

    def sales(rows: int) -> Any:
        return stream(rows, 2).selectExpr("value", f"{CUSTOMER} customer", "cast(value % 97 as double) amount")

    scored = cluster.ordered_map(
        stream(300_000, 1), same, "timestamp timestamp, value long", name="score", balance="blocking-rate"
    )
    means = cluster.keyed(
        sales(500_000), "customer", ef.RollingMean("amount", rows=50), tuning=ef.Tuning(units=512), name="spending"
    )
    graph = ef.Graph("alerts")
    large = graph.source("sales").filter("amount > 40", name="large")
    mean = large.keyed("customer", ef.RollingMean("amount", rows=20), name="mean", tuning=ef.Tuning(units=32))
    graph.endpoint("rising", mean.filter("amount_mean > 60", name="rising"))
    graph.endpoint("audit", large.map(same, "value long, customer string, amount double", name="audit"))
    out = cluster.run(graph, inputs={"sales": sales(80_000)}, placement="potential")
    return {
        "score": scored.writeStream.format("noop"),
        "spending": means.writeStream.format("noop"),
        "alerts": out.writeStream(lambda batch, endpoint: batch.write.format("noop").mode("append").save()),
    }


def moment(log: Path) -> float:
    """The time that is shown: what the largest round of moves brought is known, and nothing was done since."""
    from evenflow.dashboard.view import PageView
    from evenflow.eventlog.reading import LogReader

    view, reader = PageView(), LogReader(log)
    for entry in reader.entries():
        view.apply(entry)
    done = [action for action in view.actions.all if action.kind in ("move", "weights")]
    nexts = [action.time for action in done[1:]] + [view.heard]
    seen = [
        (each.units, min(each.until + AFTER_S, then - 0.5), each.until) for each, then in zip(done, nexts, strict=True)
    ]
    known = [(units, at) for units, at, until in seen if at > until + KNOWN_S]
    return max(known)[1] if known else view.heard


def take_pictures(log: Path, at: float, folder: Path) -> None:
    """The page at a time, wide and on a phone, light and dark."""
    from playwright.sync_api import sync_playwright

    from evenflow.dashboard.web.serving import DashboardServer
    from evenflow.dashboard.web.sources import FileSource

    chromium = subprocess.run(["scripts/chromium.sh"], capture_output=True, text=True, check=True).stdout.strip()
    server = DashboardServer(FileSource(log), port=0)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    file = folder / f"dashboard-{size}-{scheme}.png"
                    _picture(browser, server.link, file, at, (width, height, scheme))
                    print(f"written: {file.name}")
            browser.close()
    finally:
        server.close()


def _picture(browser: Any, link: str, file: Path, at: float, how: tuple[int, int, str]) -> None:
    width, height, scheme = how
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
    page.goto(link)
    page.wait_for_selector("#headline .says")
    page.locator("#slider").fill(str(at))
    page.locator("#state", has_text="replay").wait_for()
    if width > 500:  # all of it; a phone shows what fits
        page.set_viewport_size({"width": width, "height": page.evaluate("document.documentElement.scrollHeight") + 20})
    page.locator("#slider").blur()
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=file)
    page.close()


def main() -> None:
    """Make the log, if none is given, and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, help="an event log; if not given, the job is run")
    parser.add_argument("--keep", type=Path, help="where to keep the log of the job")
    parser.add_argument("--seconds", type=float, default=45.0, help="how long each part of the job runs")
    parser.add_argument("--at", type=float, help="the time that is shown; if not given, some seconds after a move")
    given = parser.parse_args()
    log = given.log
    if log is None:
        log = given.keep or Path(tempfile.mkdtemp()) / "events.jsonl"
        started = time.monotonic()
        make_log(log, given.seconds)
        print(f"the job took {time.monotonic() - started:.0f} s: {log}")
    take_pictures(log, given.at or moment(log), IMAGES)


if __name__ == "__main__":
    main()
