"""The command line: `evenflow demo | doctor | dashboard | plot | metrics | simulate | state`, and verbs of others.

Other packages add verbs by the entry point `evenflow.verbs`, as the lab does: a function that is given the app.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from evenflow._version import __version__
from evenflow.cli.dashboard import dashboard
from evenflow.cli.doctor import doctor
from evenflow.cli.simulate import simulate
from evenflow.cli.state import state
from evenflow.cli.terminal import STDOUT, JsonFile, check_writable, console, errors, guard, write_figures
from evenflow.cli.verbs import Verbs
from evenflow.errors import extra

HELP = """Keeps streaming pipelines on Apache Spark balanced while they run.

New here? `evenflow doctor` checks this machine, `evenflow demo` shows in under two minutes what balancing brings.
"""
CODES = "Exit codes: 0 fine; 1 failed, or a check does not hold; 2 wrong usage; 130 interrupted; 141 nobody reads on."
app = Verbs(help=HELP, epilog=CODES, pretty_exceptions_show_locals=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take options that stand before the verb."""


@app.command("version")
def version_verb() -> None:
    """Print the version, as --version does."""
    typer.echo(__version__)


app.command()(doctor)
app.command()(dashboard)


@app.command()
def demo(
    part: Annotated[str, typer.Option(help="ordered, keyed, stories, graph, or all; several: ordered,keyed.")] = "all",
    seconds: Annotated[float, typer.Option(help="About how long each run takes if all goes well.", min=3)] = 3.5,
    workers: Annotated[int, typer.Option(help="Workers.", min=2)] = 4,
    report: Annotated[Path, typer.Option(help="The page with pictures that is left behind.")] = Path(
        "demo-report.html"
    ),
    json_file: JsonFile = None,
) -> None:
    """Show what balancing brings: four streams, each without and with it, in under two minutes.

    A slow worker in an ordered region, a hot key, First Story Detection, and a graph that is placed anew. The speed of
    workers is emulated, so two cores are enough. Ends with a table of what was gained, and a page with pictures.
    """

    def work() -> None:
        with extra("all", "evenflow demo"):
            from evenflow.cli.demo import show

        names = list(show.PARTS) if part == "all" else [name.strip() for name in part.split(",")]
        unknown = [name for name in names if name not in show.PARTS]
        if unknown:
            what = f"{unknown[0]!r}: choose among {', '.join(show.PARTS)}, or all"
            raise typer.BadParameter(what, param_hint="--part")
        check_writable(json_file, report)
        found = show.run_demo(console, names, seconds, workers, report)
        figures = [asdict(each) | {"gain": each.gain} for each in found]
        write_figures(json_file, {"workers": workers, "seconds": seconds, "parts": figures})

    guard(work)


@app.command()
def plot(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="An event log, as written by Cluster(event_log=...).")],
    out: Annotated[Path | None, typer.Option(help="The picture to write; beside the log if not given.")] = None,
    region: Annotated[str | None, typer.Option(help="The region to draw; the first if not given.")] = None,
) -> None:
    """Draw what an event log tells of a region, as a picture.

    Of an ordered region: weights, blocking and throughput over time; of a keyed operator: how busy workers were, units
    and moves; of a graph: where its operators were. Rotated logs are read as one.
    """

    def work() -> None:
        with extra("plot", "evenflow plot"):
            from evenflow.cli import plot as figures

        if out is not None and out.suffix.lower() not in (".png", ".svg", ".pdf", ".jpg"):
            raise typer.BadParameter(f"{out.name!r}: end it in .png, .svg, .pdf or .jpg", param_hint="--out")
        with console.status(f"reading {log}"):
            series = figures.read(log, region)
        target = out or log.with_suffix(".png")
        check_writable(target)
        figures.draw(series).savefig(target, dpi=110)
        console.print(f"written: {target}", soft_wrap=True)

    guard(work)


@app.command()
def metrics(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="An event log, as written by Cluster(event_log=...).")],
    out: Annotated[Path, typer.Option(help="The file to write, as for node_exporter's textfile collector.")] = STDOUT,
) -> None:
    """Print what an event log comes to as metrics for Prometheus; docs/metrics.md lists them."""

    def work() -> None:
        from evenflow.eventlog.reading import read_log
        from evenflow.metrics.exposition import Metrics

        found = Metrics()
        found.add(read_log(log))
        check_writable(out)
        if out == STDOUT:
            typer.echo(found.exposition(), nl=False)
            return
        beside = out.with_name(f"{out.name}.new")  # whoever reads it sees all of the old one or all of the new
        beside.write_bytes(found.exposition())
        beside.replace(out)
        console.print(f"written: {out}", soft_wrap=True)

    guard(work)


app.command()(simulate)
app.add_typer(state, name="state")
for added in entry_points(group="evenflow.verbs"):
    try:
        added.load()(app)
    except ImportError as error:
        errors.print(f"the verbs {added.value} are left out: {error}", highlight=False, soft_wrap=True)
