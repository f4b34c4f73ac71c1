"""What the live page costs: CPU time of its server and of its page in Chromium, at 64 workers and 4,096 units.

    python -m benchmarks.dashboard --seconds 60

A simulated run, in which workers get slow and units move, is written to a log as fast as a live cluster would write it.
The server is a process of its own; Chromium's processes are counted together. Needs Chromium (scripts/chromium.sh).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

WARM_S = 8.0
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def simulated(folder: Path, workers: int, units: int, seconds: float) -> list[dict]:
    """The entries of a simulated run."""
    import evenflow as ef

    slow = tuple(ef.sim.SlowWorkers("0-3", factor=4, since=at, until=at + 10) for at in range(10, int(seconds), 20))
    setup = ef.sim.KeyedSetup(workers=workers, units=units, feeders=4, row_us=2000.0, unit_bytes=20_000)
    ef.sim.simulate(ef.sim.Scenario(seconds, keyed=setup, slow=slow), "auto", event_log=folder / "simulated.jsonl")
    return [json.loads(line) for line in (folder / "simulated.jsonl").read_text().splitlines()]


def cpu_s(processes: list[psutil.Process]) -> float:
    """CPU seconds of processes so far; of those that are gone, none."""
    total = 0.0
    for process in processes:
        if process.is_running():
            times = process.cpu_times()
            total += times.user + times.system
    return total


def chromium_processes() -> list[psutil.Process]:
    """All processes of the browser that this one started."""
    return [each for each in psutil.Process().children(recursive=True) if "chrom" in each.name()]


def play(entries: list[dict], path: Path, began: float, until: float) -> None:
    """Write the entries up to a time, as they would be written at that time."""
    with path.open("a", encoding="utf-8") as file:
        while entries and entries[0]["time"] <= until:
            entry = entries.pop(0)
            file.write(json.dumps(entry | {"at": round(began + entry["time"], 3)}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--units", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--height", type=int, default=1000, help="of the window; at 1800 all of the page is in view")
    given = parser.parse_args()
    found = subprocess.run(["scripts/chromium.sh"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries = simulated(folder, given.workers, given.units, given.seconds)
        moved = sum(len(entry["units"]) for entry in entries if entry["event"] == "moved")
        figures = measure(entries, folder / "events.jsonl", found.stdout.strip(), given.seconds, given.height)
    size = f"{given.workers} workers, {given.units} units, {moved} units moved in {given.seconds:.0f} s"
    print(json.dumps({"load": size} | figures))


def measure(entries: list[dict], log: Path, chromium: str, seconds: float, height: int) -> dict[str, float]:
    """Percent of a core for the server, and for the page."""
    from playwright.sync_api import sync_playwright

    began = time.time()
    play(entries, log, began, 0.0)
    server = subprocess.Popen(
        [sys.executable, "-m", "evenflow", "dashboard", str(log), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        link = server.stdout.readline().split()[1]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1440, "height": height})
            page.goto(link)
            start: list[float] = []
            while (passed := time.time() - began) < seconds:
                play(entries, log, began, passed)
                page.wait_for_timeout(200)
                if passed >= WARM_S and not start:
                    start = readings(server.pid)
            end = readings(server.pid)
            browser.close()
    finally:
        server.terminate()
        server.wait(20)
    server_s, chromium_s, wall = (after - before for after, before in zip(end, start, strict=True))
    return {
        "server_percent": round(100 * server_s / wall, 2),
        "page_percent": round(100 * chromium_s / wall, 2),
        "seconds": round(wall, 1),
    }


def readings(server: int) -> list[float]:
    """CPU seconds of the server and of all of Chromium, and the wall clock."""
    return [cpu_s([psutil.Process(server)]), cpu_s(chromium_processes()), time.time()]


if __name__ == "__main__":
    main()
