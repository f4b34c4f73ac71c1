"""The parent of a torture run: gives schedules to drivers, replaces drivers that die, notices hangs, checks outputs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from evenflow.errors import InvalidArgument
from evenflow_lab.torture import processes
from evenflow_lab.torture.drawing import draw
from evenflow_lab.torture.drivers import LOG, Driver, Drivers
from evenflow_lab.torture.faults.hooks import DONE, ENDED, SCHEDULE, WORK, hooks_of
from evenflow_lab.torture.jobs import check, graph_check, rows
from evenflow_lab.torture.report import ScheduleOutcome, TortureReport
from evenflow_lab.torture.schedule import JobKind, Schedule, SessionKind, ends_driver
from evenflow_lab.torture.servers.all import Servers

POLL_S = 0.05
LOOK_S = 1.0
"""How often waiting drivers are prepared, and processes of ended drivers are swept."""
START_S = 150.0
"""Further patience with a job that has not begun: its driver starts."""
LIVES = 4
"""How often a driver may die without a fault that kills it."""
AHEAD = 4
"""So many schedules ahead, drivers with another session are started."""
VERDICTS = {"keyed": check.verdict, "graph": graph_check.verdict}
"""By kind of job, how its output is compared with a plain run."""

Watch = Callable[[TortureReport], None]
"""Called when a schedule has ended; its outcome is the last of the report."""


def torture(
    seed: int,
    minutes: float = 0.0,
    schedules: int = 0,
    watch: Watch = lambda report: None,
    keep: Path | None = None,
    report: TortureReport | None = None,
    kind: JobKind = "keyed",
) -> TortureReport:
    """Run the schedules of `seed`, `seed + 1` and so on, for `minutes`, or as many as `schedules` if that is not 0.

    Folders of runs that went wrong are copied to `keep`. Schedules that are in `report` already are skipped.
    """
    report = report or TortureReport(seed, kind=kind)
    if report.kind != kind:
        raise InvalidArgument(f"jobs of kind {kind} cannot go on with a report on jobs of kind {report.kind}")
    done = {outcome.schedule.seed for outcome in report.outcomes}
    until = time.monotonic() + minutes * 60
    seeds = range(seed, seed + schedules) if schedules else count(seed)
    drawn = (draw(each, kind) for each in seeds if each not in done)
    run_all(drawn, report, watch, keep, (lambda: False) if schedules else (lambda: time.monotonic() >= until))
    return report


def run_all(
    schedules: Iterable[Schedule],
    report: TortureReport,
    watch: Watch,
    keep: Path | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Run schedules one after the other, until there is no further one or it is `enough`."""
    waiting = iter(schedules)
    coming = deque(islice(waiting, AHEAD))
    with processes.interrupted_by_signals(), _folder() as folder, ScheduleRunner(folder, keep) as runner:
        while coming and not enough():
            schedule = coming.popleft()
            coming.extend(islice(waiting, 1))
            report.outcomes.append(runner.run(schedule, coming))
            watch(report)
        report.leaked += runner.finish()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="evenflow-torture-"))
    try:
        yield folder
    finally:
        with processes.undisturbed():
            works = folder / WORK
            for work in works.read_text().splitlines() if works.exists() else ():
                shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(slots=True)
class Life:
    """How far a schedule has come."""

    schedule: Schedule
    folder: Path
    number: int = 0
    """Of its driver, from 0 on."""
    frozen: set[int] = field(default_factory=set)
    """Numbers of the faults that were seen to have frozen a driver."""

    @property
    def expected(self) -> int:
        """How many drivers its faults end."""
        return sum(map(ends_driver, self.schedule.faults))

    def struck(self, number: int) -> bool:
        """Whether a fault has happened."""
        return (self.folder / DONE / str(number)).exists() or self.schedule.faults[number].kind in ("slow", "fails")

    def next_sessions(self) -> list[SessionKind]:
        """The session of its next driver, if one of its faults is still to end the present one."""
        faults = enumerate(self.schedule.faults)
        more = any(ends_driver(fault) and not self.struck(number) for number, fault in faults)
        return [self.schedule.job.session(self.number + 1)] if more else []

    @property
    def patience_s(self) -> float:
        """Seconds, since its last driver began, after which it counts as hanging."""
        return self.schedule.patience_s + (0 if self.begun > self.number else START_S)

    @property
    def begun(self) -> int:
        """The number of drivers that have begun it."""
        return hooks_of(self.folder).begun


class ScheduleRunner:
    """Runs schedules in a folder. One driver runs one after the other, for as long as it lives and its session fits."""

    def __init__(self, folder: Path, keep: Path | None) -> None:
        self._folder, self._keep = folder, keep
        self._drivers = Drivers(folder)
        self._servers = Servers(folder)
        self._driver: Driver | None = None
        self._frozen: list[tuple[Driver, float]] = []
        """Drivers that are frozen, and the time at which each is woken."""

    def __enter__(self) -> ScheduleRunner:
        return self

    def __exit__(self, *_error: object) -> None:
        with processes.undisturbed():
            self._retire()
            self._wake(float("inf"))
            self._drivers.abandon()
            self._servers.close()

    def finish(self) -> list[str]:
        """End all drivers in order; returns processes that outlived theirs."""
        self._retire()
        self._wake(float("inf"))
        self._drivers.close()
        return self._drivers.leaked

    def run(self, schedule: Schedule, coming: Iterable[Schedule] = ()) -> ScheduleOutcome:
        """Run a schedule to its end, well or not; `coming` are the next schedules."""
        folder = self._folder / str(schedule.seed)
        (folder / DONE).mkdir(parents=True)
        (folder / SCHEDULE).write_text(schedule.to_json())
        for name, given in rows.inputs_of(schedule).items():
            rows.write(given, schedule.job, folder / "in" / name)
        self._servers.need(schedule.job.store)
        try:
            return self._watched(Life(schedule, folder), list(coming))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _watched(self, life: Life, coming: list[Schedule]) -> ScheduleOutcome:
        """Wait until a schedule has ended; its driver is replaced whenever it has died."""
        schedule, folder = life.schedule, life.folder
        began, looked, since, lives = time.monotonic(), 0.0, time.monotonic(), 0
        hang, error = False, ""
        self._begin(life)
        while not (folder / ENDED).exists():
            self._watch_frozen(life)
            if self._driver is None or not self._driver.alive:
                life.number += 1
                if life.number > life.expected + LIVES:
                    said = self._driver.last_words() if self._driver is not None else ""
                    error = f"its driver died {life.number} times: {said}"
                    break
                self._begin(life)
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                self._drivers.prepare([*life.next_sessions(), *self._ahead(coming)])
            if life.begun != lives:  # how long a driver takes to start says nothing of the engine
                lives, since = life.begun, time.monotonic()
            if time.monotonic() - since > life.patience_s:
                hang = True
                self._dump(schedule)
                break
            time.sleep(POLL_S)
        if (hang or error) and self._driver is not None:
            self._drivers.kill(self._driver)
            self._retire()
        return self._outcome(life, time.monotonic() - began, hang, error)

    def _begin(self, life: Life) -> None:
        """Give the job to the present driver, or to another one if that is dead or has another session."""
        kind = life.schedule.job.session(life.number)
        if self._driver is not None and self._driver.alive and self._driver.kind != kind:
            self._drivers.park(self._driver)
            self._driver = None
        if self._driver is None or not self._driver.alive:
            self._retire()
            self._driver = self._drivers.take(kind)
        self._driver.give(life.folder)

    def _ahead(self, coming: Iterable[Schedule]) -> Iterator[SessionKind]:
        """Sessions that the next schedules need, and that the present driver does not have."""
        for schedule in coming:
            if self._driver is None or schedule.job.session(0) != self._driver.kind:
                yield schedule.job.session(0)
            if any(map(ends_driver, schedule.faults)):
                yield schedule.job.session(1)

    def _retire(self) -> None:
        if self._driver is not None:
            self._drivers.retire(self._driver)
            self._driver = None

    def _watch_frozen(self, life: Life) -> None:
        """Treat a frozen driver as gone, so that another takes over; wake frozen drivers whose time is over."""
        for number, fault in enumerate(life.schedule.faults):
            if fault.kind == "freeze" and life.struck(number) and number not in life.frozen and self._driver:
                life.frozen.add(number)
                self._frozen.append((self._driver, time.monotonic() + fault.seconds))
                self._driver = None
        self._wake(time.monotonic())

    def _wake(self, now: float) -> None:
        for each in [each for each in self._frozen if each[1] <= now]:
            each[0].wake()
            self._drivers.retire(each[0])
            self._frozen.remove(each)

    def _outcome(self, life: Life, seconds: float, hang: bool, error: str) -> ScheduleOutcome:
        schedule, folder = life.schedule, life.folder
        told = json.loads((folder / ENDED).read_text()) if (folder / ENDED).exists() else {}
        outcome = ScheduleOutcome(
            schedule=schedule,
            verdict=VERDICTS[schedule.job.kind](schedule, folder),
            struck=tuple(str(fault) for number, fault in enumerate(schedule.faults) if life.struck(number)),
            seconds=round(seconds, 1),
            lives=life.number + 1,
            starts=told.get("starts", 0),
            refused=tuple(told.get("refused", ())),
            hang=hang,
            error=error or told.get("error", ""),
        )
        if self._keep is not None and not outcome.good:
            target = self._keep / str(schedule.seed)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
            for log in self._folder.glob(LOG.format("*")):
                shutil.copy(log, target)
        return outcome

    def _dump(self, schedule: Schedule) -> None:
        """Write the stacks of all processes that hang: Python's by py-spy, Java's into the driver's log."""
        if self._keep is None or self._driver is None:
            return
        self._keep.mkdir(parents=True, exist_ok=True)
        spy = Path(sys.executable).with_name("py-spy")
        running = processes.marked(self._driver.mark)
        processes.send([pid for pid in running if processes.name(pid) == "java"], signal.SIGQUIT)
        with (self._keep / f"hang-{schedule.seed}.txt").open("w") as file:
            for pid in running:
                file.write(f"\n== {processes.name(pid)} {pid}\n")
                file.flush()
                if spy.exists() and processes.name(pid) != "java":
                    subprocess.run([spy, "dump", "--pid", str(pid)], stdout=file, stderr=file, timeout=60, check=False)
        time.sleep(1)
