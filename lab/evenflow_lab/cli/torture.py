"""The verb `torture`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.terminal import FAILED, STDOUT, JsonFile, check_writable, console, guard, write_figures
from evenflow.errors import InvalidArgument


def torture(
    seed: Annotated[int, typer.Option(help="The first schedule; the next one is seed + 1, and so on.")] = 1,
    minutes: Annotated[float, typer.Option(help="How long to begin new schedules.", min=0)] = 5.0,
    job: Annotated[str, typer.Option(help="The kind of job: keyed (with rules in some), or graph.")] = "keyed",
    schedules: Annotated[int, typer.Option(help="How many schedules, however long they take; 0: see --minutes.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Directory for all that is left of runs that went wrong.")] = None,
    json_file: JsonFile = None,
    table: Annotated[Path | None, typer.Option(help="File for a table by kind of fault, in Markdown.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what the file of --json has.")] = False,
) -> None:
    """Run streaming jobs under schedules of faults, and compare their output and state with a plain run.

    A schedule is drawn from a seed: workers are killed, stores fail, disks fill, queries are stopped. The exit code is
    1 if any output or state differs; the same seed runs the same schedule again.
    """

    def work() -> None:
        from evenflow_lab.torture import run, view
        from evenflow_lab.torture.report import TortureReport
        from evenflow_lab.torture.schedule import kind_named

        before = None
        if resume and json_file is not None and json_file.exists() and json_file.stat().st_size:
            before = TortureReport.from_json(_read(json_file))
        else:
            check_writable(json_file, table)

        def watch(report: TortureReport) -> None:
            view.show_outcome(console, report.outcomes[-1])
            _keep(report.to_json(), json_file)
            if table is not None:
                table.write_text(view.markdown(report))

        report = run.torture(seed, minutes, schedules, watch, keep, before, kind_named(job))
        view.show_report(console, report)
        write_figures(json_file, report.to_json())
        if not report.good:
            raise typer.Exit(FAILED)

    guard(work)


def _keep(figures: dict[str, object], file: Path | None) -> None:
    """Write the figures so far: a run of hours that is ended early has them, too."""
    if file not in (None, STDOUT):
        beside = file.with_name(f"{file.name}.new")
        beside.write_text(json.dumps(figures, indent=2) + "\n")
        beside.replace(file)


def _read(file: Path) -> Any:
    """What a file of --json has."""
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise InvalidArgument(f"{file} is not what --json writes: {error}; give another file, or no --resume") from None
