"""`evenflow demo`: four streams, each without and with balancing, live in the terminal, and a report of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.rule import Rule
from rich.table import Table

from evenflow.cli.demo.graph import run_graph
from evenflow.cli.demo.keyed import run_keyed
from evenflow.cli.demo.ordered import run_ordered
from evenflow.cli.demo.report import report
from evenflow.cli.demo.stage import DemoPart, Stage
from evenflow.cli.demo.stories import run_stories
from evenflow.cli.terminal import embedded_spark
from evenflow.dashboard.web.serving import DashboardServer
from evenflow.dashboard.web.sources import FileSource
from evenflow.errors import EvenflowError

SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "500"}
"""Rows that Spark hands over at once: a demo has not many of them."""
PARTS: dict[str, tuple[str, Callable[[Stage], DemoPart]]] = {
    "ordered": ("an ordered region with a slow worker", run_ordered),
    "keyed": ("a keyed operator with a hot key", run_keyed),
    "stories": ("First Story Detection", run_stories),
    "graph": ("a graph of operators, placed anew", run_graph),
}


def run_demo(console: Console, names: list[str], seconds: float, workers: int, file: Path) -> list[DemoPart]:
    """Run parts of the demo, compare what each brought, and leave a report behind."""
    began = time.monotonic()
    with (
        TemporaryDirectory(prefix="evenflow-demo-") as folder,
        embedded_spark(workers, 3, name="evenflow-demo", conf=SMALL_BATCHES) as spark,
        live_page(Path(folder) / "events.jsonl") as address,
    ):
        console.print(f"live page: {address}", highlight=False, soft_wrap=True)
        stage = Stage(console, spark, seconds, workers, Path(folder) / "events.jsonl")
        parts = []
        for number, name in enumerate(names, 1):
            console.print(Rule(f"{number} of {len(names)}: {PARTS[name][0]}", align="left", style="dim"))
            parts.append(PARTS[name][1](stage))
            right = parts[-1].checked if parts[-1].sound else f"[red]NOT so: {parts[-1].checked}[/red]"
            console.print(f"  checked: {right}", highlight=False)
        file.write_text(report(parts, workers, time.monotonic() - began))
    console.print(_summary(parts, workers))
    console.print(f"took {time.monotonic() - began:.0f} s; with pictures: {file.resolve()}", soft_wrap=True)
    wrong = [part.title for part in parts if not part.sound]
    if wrong:
        raise EvenflowError(f"results are not as they should be: {', '.join(wrong)}")
    return parts


@contextmanager
def live_page(log: Path) -> Iterator[str]:
    """The live page over an event log for as long as the context lasts; its address.

    That the page has failed is logged, and does not make a demo fail that went well.
    """
    log.touch()
    server = DashboardServer(FileSource(log))
    try:
        yield server.link
    finally:
        with suppress(EvenflowError):
            server.close()


def _summary(parts: list[DemoPart], workers: int) -> Table:
    table = Table(title=f"What balancing brought on {workers} workers (their speed is emulated)")
    for heading in ("", "without", "with", "gain"):
        table.add_column(heading, justify="right" if heading == "gain" else "left", min_width=5)
    for part in parts:
        runs = (f"{run.label} {run.figure:,.0f} {part.unit}" for run in (part.without, part.balanced))
        table.add_row(part.title, *runs, f"[bold]{part.gain:.1f} x[/bold]")
    return table
