"""What the parts of the demo have in common: what a part gives, and how a stream is shown while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, RenderableType
from rich.live import Live

from evenflow.cli.polling import polled
from evenflow.errors import EvenflowError

T = TypeVar("T")
REFRESH_S = 0.5
FIRST_ROWS_S = 60.0
"""How long the first rows of a stream may take."""
BATCH_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Stage:
    """Where the demo plays."""

    console: Console
    spark: SparkSession
    seconds: float
    """How long a run takes, about: that of a stream is stopped then, others have the rows for it at full speed."""
    workers: int
    log: Path
    """The event log of all runs, one after the other."""


@dataclass(frozen=True)
class DemoRun:
    """One run: what it was balanced by, its figure, and how that went over time."""

    label: str
    figure: float
    seconds: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class DemoPart:
    """One part of the demo: the same stream without and with balancing, measured in the same way."""

    title: str
    trouble: str
    """What is wrong, in one sentence."""
    unit: str
    without: DemoRun
    balanced: DemoRun
    sound: bool
    """Whether the results were checked and are right, in both runs."""
    checked: str
    """What was checked."""
    lower: bool = False
    """Whether a lower figure is the better one."""

    @property
    def gain(self) -> float:
        """How many times better the run with balancing is."""
        worse, better = (self.balanced, self.without) if self.lower else (self.without, self.balanced)
        return better.figure / worse.figure if worse.figure else float("nan")

    @property
    def sentence(self) -> str:
        """What was gained, in one line."""
        what = f"the {self.unit.partition('/')[0]} a second" if not self.lower else "as fast"
        return f"{self.title}: {self.gain:.1f} times {what}"


class Look(NamedTuple):
    """A look at a run: its clock, which stands still while no rows are fed, rows that are through, what to show."""

    time: float
    rows: int
    page: Callable[[float], RenderableType]


def play_stream(stage: Stage, label: str, query: StreamingQuery, look: Callable[[], Look]) -> DemoRun:
    """Show a query for as long as the stage says, and stop it; its figure is rows a second in the second half."""
    stage.spark.sparkContext.setLogLevel("ERROR")
    seen: list[Look] = []
    deadline, started = time.monotonic() + FIRST_ROWS_S, 0.0
    try:
        with Live(console=stage.console, refresh_per_second=4, transient=True) as live:
            while query.isActive and not (started and time.monotonic() - started > stage.seconds):
                time.sleep(REFRESH_S)
                now = look()
                if not started and now.rows:
                    started = time.monotonic()
                if not started and time.monotonic() > deadline:
                    raise EvenflowError(f"{label}: no row came through within {FIRST_ROWS_S:.0f} s")
                if started:
                    seen.append(now)
                live.update(now.page(time.monotonic() - started if started else 0.0))
        if (error := query.exception()) is not None:
            raise EvenflowError(f"{label}: the query has failed: {error}")
        stage.spark.sparkContext.setLogLevel("OFF")  # stopping an endless query is no error
        _await_batch(query)
    finally:
        query.stop()
    return _told(stage, run_of(label, seen, settled=True))


def play_rows(stage: Stage, label: str, work: Callable[[], T], look: Callable[[], Look]) -> tuple[DemoRun, T]:
    """Show a Spark action until all its rows are through, which gives the figure; also what the action gives."""
    seen: list[Look] = []
    began = time.monotonic()

    def poll() -> None:
        now = look()
        if now.rows and (not seen or now.rows > seen[-1].rows):
            seen.append(now)
        live.update(now.page(time.monotonic() - began))

    with Live(console=stage.console, refresh_per_second=4, transient=True) as live:
        result = polled(work, poll, REFRESH_S / 2)
    return _told(stage, run_of(label, seen)), result


def run_of(label: str, seen: list[Look], settled: bool = False) -> DemoRun:
    """The figures of a run from looks at it: rows a second over time, and in all, or once it has `settled`.

    That is in the second half of the steps between looks in which its clock went on.
    """
    steps = [(one, other) for one, other in pairwise(seen) if other.time > one.time]
    counted = steps[len(steps) // 2 :] if settled else steps
    span = sum(other.time - one.time for one, other in counted)
    return DemoRun(
        label,
        sum(other.rows - one.rows for one, other in counted) / span if span else float("nan"),
        tuple(other.time - seen[0].time for _, other in steps),
        tuple((other.rows - one.rows) / (other.time - one.time) for one, other in steps),
    )


def _told(stage: Stage, run: DemoRun) -> DemoRun:
    stage.console.print(f"  {run.label:<12} {run.figure:>9,.0f} a second", highlight=False)
    return run


def _await_batch(query: StreamingQuery) -> None:
    """Wait for the end of the present micro-batch: processes that are stopped inside one print tracebacks."""
    before, deadline = query.lastProgress, time.monotonic() + BATCH_TIMEOUT_S
    while query.isActive and query.lastProgress == before and time.monotonic() < deadline:
        time.sleep(0.01)
