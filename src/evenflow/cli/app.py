"""The command line: `evenflow demo | bench | dashboard | plot | reproduce | simulate | state | torture`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from evenflow._version import __version__
from evenflow.cli.bench import bench
from evenflow.cli.dashboard import dashboard
from evenflow.cli.reproduce import reproduce
from evenflow.cli.simulate import simulate
from evenflow.cli.terminal import console, guard, touch, write_figures
from evenflow.errors import InvalidArgument

app = typer.Typer(help="Keeps streaming pipelines on Apache Spark balanced while they run.", no_args_is_help=True)
app.add_typer(bench, name="bench")
app.command()(dashboard)
app.command()(reproduce)
app.command()(simulate)
state = typer.Typer(help="What a checkpoint holds, and whether it is sound.", no_args_is_help=True)
app.add_typer(state, name="state")


@app.command()
def version() -> None:
    """Print the version."""
    console.print(__version__)


@app.command()
def demo(
    part: Annotated[str, typer.Option(help="ordered, stories, or all.")] = "all",
    seconds: Annotated[float, typer.Option(help="How long to show each balance.", min=3)] = 12.0,
    workers: Annotated[int, typer.Option(help="Workers; in the first part, the first is the slow one.", min=2)] = 4,
    factor: Annotated[float, typer.Option(help="How many times slower the slow worker is.", min=1)] = 10.0,
    balance: Annotated[str, typer.Option(help="Balances of the ordered region.")] = "round-robin,credits",
    keyed_balance: Annotated[str, typer.Option(help="Balances of First Story Detection.")] = "kg,dlb-h",
) -> None:
    """Show streams going through an ordered region with one slow worker, and through First Story Detection, live."""

    def work() -> None:
        from evenflow.cli.demo import run_demo

        if part not in ("ordered", "stories", "all"):
            raise typer.BadParameter(f"{part!r}: choose ordered, stories or all", param_hint="--part")
        ordered = balance.split(",") if part != "stories" else []
        keyed = keyed_balance.split(",") if part != "ordered" else []
        run_demo(console, seconds, workers, factor, ordered, keyed)

    guard(work)


@app.command()
def plot(
    log: Annotated[Path, typer.Argument(help="An event log, as written by Cluster(event_log=...).")],
    out: Annotated[Path | None, typer.Option(help="The picture to write; beside the log if not given.")] = None,
    region: Annotated[str | None, typer.Option(help="The region to draw; the first if not given.")] = None,
) -> None:
    """Draw weights, blocking rates, clusters and throughput over time; of a graph, where its operators were and are."""

    def work() -> None:
        from evenflow.cli import plot as figures

        target = out or log.with_suffix(".png")
        figures.draw(figures.read(log, region)).savefig(target, dpi=110)
        console.print(f"written: {target}")

    guard(work)


@app.command()
def torture(
    seed: Annotated[int, typer.Option(help="The first schedule; the next one is seed + 1, and so on.")] = 1,
    minutes: Annotated[float, typer.Option(help="How long to begin new schedules.", min=0)] = 5.0,
    job: Annotated[str, typer.Option(help="The kind of job: keyed (with rules in some), or graph.")] = "keyed",
    schedules: Annotated[int, typer.Option(help="How many schedules, however long they take; 0: see --minutes.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Directory for all that is left of runs that went wrong.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the figures.")] = None,
    table: Annotated[Path | None, typer.Option(help="File for a table by kind of fault, in Markdown.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what the file of --json has.")] = False,
) -> None:
    """Run streaming jobs under schedules of faults, and compare their output and state with a plain run."""

    def work() -> None:
        from evenflow.torture import run, view
        from evenflow.torture.report import TortureReport
        from evenflow.torture.schedule import kind_named

        before = None
        if resume and json_file is not None and json_file.exists() and json_file.stat().st_size:
            before = TortureReport.from_json(json.loads(json_file.read_text()))
        else:
            touch(json_file)

        def watch(report: TortureReport) -> None:
            view.show_outcome(console, report.outcomes[-1])
            if json_file is not None:  # each time: a run of hours that is ended early has its figures
                beside = json_file.with_name(f"{json_file.name}.new")
                beside.write_text(json.dumps(report.to_json(), indent=2) + "\n")
                beside.replace(json_file)
            if table is not None:
                table.write_text(view.markdown(report))

        report = run.torture(seed, minutes, schedules, watch, keep, before, kind_named(job))
        view.show_report(console, report)
        write_figures(json_file, report.to_json())
        if not report.good:
            raise typer.Exit(1)

    guard(work)


Where = Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint: a path or a URI.")]
KEY_VARIABLE = "EVENFLOW_CHECKPOINT_KEY"
KeyFile = Annotated[
    Path | None,
    typer.Option(help=f"A file with the checkpoint_key, if there is one; else it is taken from {KEY_VARIABLE}."),
]


def _key(file: Path | None) -> bytes:
    """The checkpoint_key; a newline at the end of the file is not part of it."""
    from evenflow.state.store.sealed import key_of

    if file is None:
        return key_of(os.environ.get(KEY_VARIABLE) or None)
    try:
        return key_of(file.read_bytes().rstrip(b"\r\n"))
    except OSError as error:
        raise InvalidArgument(f"cannot read --key-file {file}: {error.strerror}") from None


@state.command("ls")
def state_ls(
    where: Where,
    key_file: KeyFile = None,
) -> None:
    """List the operators and queries that have state here."""
    from evenflow.cli import state_view

    guard(lambda: state_view.show_queries(console, where, _key(key_file)))


@state.command("show")
def state_show(
    where: Where,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The operator; its query, if it has several.")],
    key_file: KeyFile = None,
) -> None:
    """Show the latest manifest of an operator and query, its snapshots and its log."""
    from evenflow.cli import state_view

    guard(lambda: state_view.show_query(console, where, names, _key(key_file)))


@state.command("verify")
def state_verify(
    where: Where,
    key_file: KeyFile = None,
) -> None:
    """Read everything and check every checksum; exit code 1 if a blob is bad."""

    def work() -> None:
        from evenflow.cli import state_view

        if not state_view.verify_all(console, where, _key(key_file)):
            raise typer.Exit(1)

    guard(work)
