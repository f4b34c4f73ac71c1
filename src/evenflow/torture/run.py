"""The parent of a torture run: starts drivers, restarts those that die, notices hangs, and checks the output."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from evenflow.errors import InvalidArgument
from evenflow.torture import check, graph_check, processes, rows
from evenflow.torture.bucket import Server
from evenflow.torture.drawing import draw
from evenflow.torture.hooks import BEGUN, BUCKET, DONE, ENDED, SCHEDULE, WORK
from evenflow.torture.report import ScheduleOutcome, TortureReport
from evenflow.torture.schedule import BLOCK, JobKind, Schedule

POLL_S = 0.1
START_S = 150.0
"""A driver that has begun no job after this time hangs."""
LEAVE_S = 30.0
"""A process that runs for longer after the end of its driver is left over."""
LIVES = 4
"""How often a driver may die without a fault that kills it."""
LOG = "driver.log"
VERDICTS = {"keyed": check.verdict, "graph": graph_check.verdict}
"""By kind of job, how its output is compared with a plain run."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options with which Java starts fast."""

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

    What is left of runs that went wrong is copied to `keep`. Schedules that are in `report` already are skipped.
    """
    report = report or TortureReport(seed, kind=kind)
    if report.kind != kind:
        raise InvalidArgument(f"jobs of kind {kind} cannot go on with a report on jobs of kind {report.kind}")
    done = {outcome.schedule.seed for outcome in report.outcomes}
    began = time.monotonic()
    number = 0
    with processes.interrupted_by_signals():  # nothing is left behind
        while (number < schedules) if schedules else (time.monotonic() - began < minutes * 60):
            some = BLOCK - (seed + number) % BLOCK
            count = min(some, schedules - number) if schedules else some
            group = [draw(seed + number + more, kind) for more in range(count)]
            number += count
            run_all([schedule for schedule in group if schedule.seed not in done], report, watch, keep)
    return report


def run_all(group: Sequence[Schedule], report: TortureReport, watch: Watch, keep: Path | None = None) -> None:
    """Run some schedules; those with different sessions by different drivers."""
    for kind in sorted({schedule.session for schedule in group}):
        some = [schedule for schedule in group if schedule.session == kind]
        with _folder() as folder:
            for outcome in ScheduleGroup(folder, some, report, keep).run():
                report.outcomes.append(outcome)
                watch(report)


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


class ScheduleGroup:
    """Schedules that one driver runs one after the other; all files are in one folder."""

    def __init__(self, folder: Path, schedules: Sequence[Schedule], report: TortureReport, keep: Path | None) -> None:
        self._folder, self._report, self._keep = folder, report, keep
        self._mark = uuid.uuid4().hex
        self._schedules = {folder / str(schedule.seed): schedule for schedule in schedules}
        self._lives: dict[Path, int] = dict.fromkeys(self._schedules, 0)
        self._bucket: Server | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[tuple[subprocess.Popen[bytes], float]] = []
        """Drivers that are frozen, and the time at which each is woken."""
        self._seen: set[tuple[Path, int]] = set()
        """Freezes that were noticed: the folder of the run and the number of the fault."""

    def run(self) -> Iterator[ScheduleOutcome]:
        """The outcome of each schedule, as soon as it has ended."""
        for folder, schedule in self._schedules.items():
            (folder / DONE).mkdir(parents=True)
            (folder / SCHEDULE).write_text(schedule.to_json())
            for name, given in rows.inputs_of(schedule).items():
                rows.write(given, schedule.job, folder / "in" / name)
        try:
            if any(schedule.job.store == "s3" for schedule in self._schedules.values()):
                self._bucket = Server()
                (self._folder / BUCKET).write_text(str(self._bucket.port))
            for folder in self._schedules:
                yield self._one(folder)
            self._wake(float("inf"))
            if self._process is not None:
                with suppress(subprocess.TimeoutExpired):  # then it is left over, and `sweep` ends it
                    self._process.wait(60)
                self._report.leaked += processes.sweep(self._mark, LEAVE_S)
        finally:
            with processes.undisturbed():
                processes.sweep(self._mark, 0)
                if self._process is not None:
                    self._process.wait(30)
                for process, _ in self._frozen:
                    process.wait(30)
                if self._bucket is not None:
                    self._bucket.close()

    def _one(self, folder: Path) -> ScheduleOutcome:
        """Wait until a schedule has ended, well or not; its driver is restarted whenever it has died."""
        schedule = self._schedules[folder]
        began = time.monotonic()
        hang, error = False, ""
        while not (folder / ENDED).exists():
            self._watch_frozen(folder)
            if self._process is None or self._process.poll() is not None:
                if self._process is not None:
                    self._lives[folder] += 1
                expected = sum(fault.victim == "driver" for fault in schedule.faults)
                if self._lives[folder] > expected + LIVES:
                    error = f"its driver died {self._lives[folder]} times: {self._last_words()}"
                    break
                self._start()
            patience = schedule.patience_s if (folder / BEGUN).exists() else schedule.patience_s + START_S
            if time.monotonic() - began > patience:
                hang = True
                self._dump(schedule)
                break
            time.sleep(POLL_S)
        if hang or error:
            self._kill()
            (folder / ENDED).touch()  # so that the next driver skips it
        return self._outcome(folder, time.monotonic() - began, hang, error)

    def _watch_frozen(self, folder: Path) -> None:
        """Treat a frozen driver as gone, so that another is started; wake frozen drivers whose time is over."""
        for number, fault in enumerate(self._schedules[folder].faults):
            struck = fault.kind == "freeze" and (folder / DONE / str(number)).exists()
            if struck and (folder, number) not in self._seen and self._process is not None:
                self._seen.add((folder, number))
                self._frozen.append((self._process, time.monotonic() + fault.seconds))
                self._process = None
                self._lives[folder] += 1
        self._wake(time.monotonic())

    def _wake(self, now: float) -> None:
        for process, until in self._frozen:
            if until <= now and process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGCONT)

    def _outcome(self, folder: Path, seconds: float, hang: bool, error: str) -> ScheduleOutcome:
        schedule = self._schedules[folder]
        told = json.loads((folder / ENDED).read_text() or "{}")
        struck = [str(fault) for number, fault in enumerate(schedule.faults) if self._struck(folder, number)]
        outcome = ScheduleOutcome(
            schedule,
            VERDICTS[schedule.job.kind](schedule, folder / "out"),
            tuple(struck),
            round(seconds, 1),
            self._lives[folder] + 1,
            told.get("starts", 0),
            tuple(told.get("refused", ())),
            hang,
            error or told.get("error", ""),
        )
        if self._keep is not None and not outcome.good:
            target = self._keep / str(schedule.seed)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
            shutil.copy(self._folder / LOG, target / LOG)
        return outcome

    def _struck(self, folder: Path, number: int) -> bool:
        fault = self._schedules[folder].faults[number]
        return (folder / DONE / str(number)).exists() or fault.kind in ("slow", "fails")

    def _start(self) -> None:
        """Start a driver for all schedules that have not ended; processes of an earlier one may still run."""
        temporary = self._folder / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = os.environ | {
            processes.MARK: self._mark,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(temporary),
            "TMPDIR": str(temporary),
            "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={temporary} {QUICK}",
        }
        with (self._folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "evenflow.torture.job", *map(str, self._schedules)],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _kill(self) -> None:
        processes.sweep(self._mark, 0)
        if self._process is not None:
            self._process.wait(30)
            self._process = None

    def _last_words(self) -> str:
        text = (self._folder / LOG).read_text(errors="replace").strip()
        return text.splitlines()[-1] if text else "(nothing)"

    def _dump(self, schedule: Schedule) -> None:
        """Write the stacks of all processes that hang: Python's by py-spy, Java's into the driver's log."""
        if self._keep is None:
            return
        self._keep.mkdir(parents=True, exist_ok=True)
        spy = Path(sys.executable).with_name("py-spy")
        running = processes.marked(self._mark)
        processes.send([pid for pid in running if processes.name(pid) == "java"], signal.SIGQUIT)
        with (self._keep / f"hang-{schedule.seed}.txt").open("w") as file:
            for pid in running:
                file.write(f"\n== {processes.name(pid)} {pid}\n")
                file.flush()
                if spy.exists() and processes.name(pid) != "java":
                    subprocess.run([spy, "dump", "--pid", str(pid)], stdout=file, stderr=file, timeout=60, check=False)
        time.sleep(1)
