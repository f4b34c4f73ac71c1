"""What the live page costs: CPU time of its server and of its page in Chromium, at 64 workers and 4,096 units.

A simulated run, in which workers get slow and units move, is written to a log as fast as a live cluster would write it.
The server is a process of its own; Chromium's processes are counted together. Needs Chromium (scripts/chromium.sh).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import psutil
import typer

from evenflow import sim
from evenflow.eventlog.reading import entries_of, read_log
from evenflow.model.entries import EventEntry, MovedEntry, as_dict
from evenflow_lab.bench.measuring import workplace
from evenflow_lab.bench.processes import children, cpu_s

WARM_S = 8.0
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def simulated(log: Path, workers: int, units: int, seconds: float) -> list[EventEntry]:
    """The entries of a simulated run; its log is left behind."""
    slow = tuple(sim.SlowWorkers("0-3", factor=4, since=at, until=at + 10) for at in range(10, int(seconds), 20))
    setup = sim.KeyedSetup(workers=workers, units=units, feeders=4, row_us=2000.0, unit_bytes=20_000)
    sim.simulate(sim.Scenario(seconds, keyed=setup, slow=slow), "auto", event_log=log)
    return read_log(log)


class Player:
    """Writes entries to a log when it is their time, as a live cluster would."""

    def __init__(self, entries: Iterable[EventEntry], path: Path) -> None:
        self._entries, self._path, self.began = list(entries), path, time.time()

    def play(self, until: float) -> None:
        """Write the entries up to a second."""
        due = [entry for entry in self._entries if entry.time <= until]
        self._entries = self._entries[len(due) :]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(
                json.dumps(as_dict(entry) | {"at": round(self.began + entry.time, 3)}, default=str) + "\n"
                for entry in due
            )


def main(
    workers: Annotated[int, typer.Option(help="Workers.")] = 64,
    units: Annotated[int, typer.Option(help="Units.")] = 4096,
    seconds: Annotated[float, typer.Option(help="How long the log is written.")] = 60.0,
    height: Annotated[int, typer.Option(help="Of the window; at 1800 all of the page is in view.")] = 1000,
) -> None:
    """Measure, and print the figures."""
    found = subprocess.run(["scripts/chromium.sh"], capture_output=True, text=True, check=True)
    with workplace() as folder:
        entries = simulated(folder / "simulated.jsonl", workers, units, seconds)
        figures = measure(entries, folder / "events.jsonl", found.stdout.strip(), seconds, height)
    moved = sum(len(entry.units) for entry in entries_of(entries, MovedEntry))
    size = f"{workers} workers, {units} units, {moved} units moved in {seconds:.0f} s"
    print(json.dumps({"load": size} | figures))


def measure(entries: list[EventEntry], log: Path, chromium: str, seconds: float, height: int) -> dict[str, float]:
    """Percent of a core for the server, and for the page."""
    from playwright.sync_api import sync_playwright

    player = Player(entries, log)
    player.play(0.0)
    with served(log) as (server, link), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": height})
        page.goto(link)
        start: list[float] = []
        while (passed := time.time() - player.began) < seconds:
            player.play(passed)
            page.wait_for_timeout(200)
            if passed >= WARM_S and not start:
                start = readings(server)
        end = readings(server)
        browser.close()
    server_s, chromium_s, wall = (after - before for after, before in zip(end, start, strict=True))
    return {
        "server_percent": round(100 * server_s / wall, 2),
        "page_percent": round(100 * chromium_s / wall, 2),
        "seconds": round(wall, 1),
    }


@contextmanager
def served(log: Path) -> Iterator[tuple[psutil.Process, str]]:
    """The page's server in a process of its own, and its address."""
    command = [sys.executable, "-m", "evenflow", "dashboard", str(log), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield psutil.Process(server.pid), server.stdout.readline().split()[1]
    finally:
        server.terminate()
        server.wait(20)


def readings(server: psutil.Process) -> list[float]:
    """CPU seconds of the server and of all of Chromium, and the wall clock."""
    return [cpu_s([server]), cpu_s(children("chrom")), time.time()]
