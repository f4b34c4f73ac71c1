"""`evenflow doctor`: whether this machine can run Evenflow, and what to do if it cannot."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from evenflow.cli.state import KeyFile, checkpoint_key
from evenflow.cli.terminal import FAILED, JsonFile, check_writable, console, guard, write_figures

if TYPE_CHECKING:
    from evenflow.cli.checks import Diagnosis

MARKS = {"good": "[green]ok[/]", "poor": "[yellow]poor[/]", "bad": "[red]mend[/]"}


def doctor(
    checkpoint: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Also check this checkpoint: a path, a URI or postgresql://...")
    ] = "",
    key_file: KeyFile = None,
    workers: Annotated[int, typer.Option(help="Workers that are to run here.", min=1)] = 4,
    json_file: JsonFile = None,
) -> None:
    """Check Python, Java, packages, slots, ports, disk, clock and checkpoint, and say what to do.

    The exit code is 1 if something has to be mended before a cluster can run on this machine.
    """

    def work() -> None:
        from evenflow.cli import checks

        check_writable(json_file)
        folder = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with console.status("looking around"):
            found = [
                checks.check_python(),
                checks.check_java(),
                checks.check_packages(),
                checks.check_slots(workers, cores, checks.free_memory()),
                checks.check_loopback(),
                checks.check_disk(folder),
                checks.check_clock(folder),
            ]
            if checkpoint:
                found.append(checks.check_checkpoint(checkpoint, checkpoint_key(key_file)))
        _show(found)
        good = all(each.state != "bad" for each in found)
        write_figures(json_file, {"good": good, "findings": [asdict(each) for each in found]})
        if not good:
            raise typer.Exit(FAILED)

    guard(work)


def _show(found: list[Diagnosis]) -> None:
    table = Table("", "check", "found", "what to do")
    table.columns[2].overflow = table.columns[3].overflow = "fold"
    for each in found:
        table.add_row(MARKS[each.state], each.check, escape(each.found), escape(each.remedy))
    console.print(table)
    bad = [each.check for each in found if each.state == "bad"]
    console.print(f"to be mended: {', '.join(bad)}" if bad else "this machine can run Evenflow")
