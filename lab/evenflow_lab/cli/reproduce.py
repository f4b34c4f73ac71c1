"""`evenflow reproduce`: the papers' claims beside ours, with pictures and one page."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from evenflow._version import __version__
from evenflow.cli.terminal import JsonFile, check_writable, console, guard, make_folder, progress_bars, write_figures
from evenflow_lab.experiments.base import Setting
from evenflow_lab.experiments.runner import JudgedClaim, Watch

GIT_S = 5.0


def reproduce(
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Claims (F-f7), experiments or groups (O, F, C, P), which alone are reported; all if none is given.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for data, claims.json, pictures and report.html.")] = Path(
        "report"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="At reduced size: every claim, in minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn at random.", min=0)] = 1,
    jobs: Annotated[int, typer.Option(help="Experiments side by side; 0: one for each core.", min=0)] = 0,
    redraw: Annotated[bool, typer.Option("--redraw", help="Run nothing: judge and draw what is there.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Simulate the experiments of the papers, and put each published claim beside ours.

    What is there already from the same code is not run again, so an interrupted run can be gone on with. That a claim
    does not hold is a result, not a failure.
    """
    guard(lambda: _reproduce(claims or [], out, None if redraw else Setting(quick, seed), jobs, json_file))


def _reproduce(names: list[str], out: Path, setting: Setting | None, jobs: int, json_file: Path | None) -> None:
    """Run experiments, if a setting is given; then judge, draw and report the data in the folder."""
    from evenflow_lab.experiments import catalogue, report, runner

    catalogue.chosen(names)
    check_writable(json_file)
    if setting is None:
        experiments, missing = runner.with_data(out, names)
        if missing:
            console.print(f"no data, left out: {', '.join(each.name for each in missing)}")
    else:
        for part in ("data", "figures"):
            make_folder(out / part)
        with _bars() as watch:
            experiments = runner.run_all(out, names, setting, jobs or os.cpu_count() or 1, watch)
    found = runner.judged(out, experiments)
    runner.draw(out, experiments)
    file = runner.write_claims(out, found)
    (out / "claims.md").write_text(report.markdown(found))
    made = report.made_by(out, experiments)
    (out / "report.html").write_text(report.page(out, experiments, found, _about() | made))
    console.print(_table(found))
    for name, text in made.items():
        console.print(f"{name}: {text}", highlight=False, soft_wrap=True)
    console.print(f"{sum(each.holds for each in found)} of {len(found)} claims hold")
    console.print(f"written: {file}, {out / 'report.html'}")
    write_figures(json_file, [asdict(each) for each in found])


def _about() -> dict[str, str]:
    """Who made the page, and with which command; `report.made_by` says who made its data."""
    return {
        "judged and drawn by": f"evenflow {__version__}, commit {_commit()}",
        "command": shlex.join(["evenflow-lab", *sys.argv[1:]]),
    }


def _commit() -> str:
    """The commit of the checkout that the code lies in."""
    try:
        asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=GIT_S, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "not known"


@contextmanager
def _bars() -> Iterator[Watch]:
    """One bar for all, and one for each experiment that is being run."""
    with progress_bars() as progress:
        parts: dict[str, float] = {}
        total = progress.add_task("all experiments", total=1.0)
        bars = {}

        def watch(name: str, part: float) -> None:
            parts[name] = part
            progress.update(total, completed=sum(parts.values()), total=len(parts))
            if 0.0 < part < 1.0 and name not in bars:
                bars[name] = progress.add_task(f"  {name}", total=1.0)
            if name in bars:
                progress.update(bars[name], completed=part, visible=part < 1.0)

        yield watch


def _table(claims: list[JudgedClaim]) -> Table:
    table = Table("claim", "the paper", "ours", "holds")
    for claim in claims:
        table.add_row(claim.id, claim.paper, claim.ours, "[green]yes[/]" if claim.holds else "[yellow]no[/]")
    return table
