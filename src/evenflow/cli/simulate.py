"""`evenflow simulate`: a scenario under each balance, on a virtual clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from evenflow.cli.terminal import JsonFile, check_writable, console, guard, make_folder, progress_bars, write_figures

if TYPE_CHECKING:
    from evenflow.sim.runs import SimulatedRun
    from evenflow.sim.scenario import Scenario

COLUMNS = (
    "rows/s", "second\nhalf", "of\nbest", "deci-\nsions", "units\nmoved", "p50\nms", "p99\nms", "messages\n/s"
)  # fmt: skip
"""Of the table, beside the balance: in two lines, since figures are narrower than their names."""


def simulate(
    scenario: Annotated[
        Path | None, typer.Argument(metavar="SCENARIO", help="A scenario, a TOML file (docs/simulator.md).")
    ] = None,
    balance: Annotated[
        list[str] | None,
        typer.Option("--balance", "--policy", help="Balances to compare; of a graph, placements. May be repeated."),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option("--from", help="Instead of a scenario: the event log of a live run, whose load is simulated."),
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="With --from: the region to simulate; needed if the log has several.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Virtual seconds; 0: as the scenario says.", min=0)] = 0.0,
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a balance.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Ask what other workers, loads or balances would do to a job, without Spark and faster than it would run.

    It runs the controller and the balances of live clusters on a virtual clock, over a scenario that you write, or over
    the load of a run that was recorded: evenflow simulate --from events.jsonl --balance hash,auto
    """

    def work() -> None:
        chosen = _scenario(scenario, recorded, region, seconds)
        asked = [name.strip() for given in balance or [] for name in given.split(",")]
        names = list(dict.fromkeys(asked)) or list(chosen.balances)
        for name in names:
            chosen.plane(name)
        check_writable(json_file)
        if event_log is not None:
            make_folder(event_log)
        results = _runs(chosen, names, event_log)
        console.print(_table(results))
        figures = {"simulated": True, "kind": chosen.kind, "workers": chosen.workers, "seconds": chosen.seconds}
        write_figures(json_file, figures | {"results": [result.figures() for result in results]})

    guard(work)


def _runs(scenario: Scenario, names: list[str], event_log: Path | None) -> list[SimulatedRun]:
    """A run under each balance, with a bar that shows how far it is."""
    from evenflow.sim import runs

    results = []
    with progress_bars() as progress:
        for name in names:
            bar = progress.add_task(name, total=scenario.seconds)
            file = event_log / f"{name.replace(':', '-')}.jsonl" if event_log is not None else None
            watch = lambda second, bar=bar: progress.update(bar, completed=second)  # noqa: E731
            results.append(runs.simulate(scenario, name, event_log=file, watch=watch))
    return results


def _scenario(file: Path | None, recorded: Path | None, region: str | None, seconds: float) -> Scenario:
    """The scenario of a file, or of a recorded run."""
    from evenflow.sim.recorded import recorded_scenario
    from evenflow.sim.scenario import Scenario

    if region is not None and recorded is None:
        raise typer.BadParameter("a scenario has one region: it is for --from LOG", param_hint="--region")
    if file is not None and recorded is None:
        chosen = Scenario.read(file)
    elif recorded is not None and file is None:
        chosen = recorded_scenario(recorded, region)
    else:
        raise typer.BadParameter("give a scenario or --from LOG, one of them", param_hint="SCENARIO")
    return replace(chosen, seconds=seconds) if seconds else chosen


def _table(results: list[SimulatedRun]) -> Table:
    """What came of each balance, narrow enough for 80 columns; what is wider yet is folded, never cut."""
    best = max(result.late_rows_per_s for result in results) or 1.0
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("balance", overflow="fold")
    for name in COLUMNS:
        table.add_column(name, overflow="fold", no_wrap=True, justify="right")
    for result in results:
        latency = result.latency_ms
        figures = (
            f"{result.rows_per_s:,.0f}",
            f"{result.late_rows_per_s:,.0f}",
            f"{result.late_rows_per_s / best:.2f}",
            f"{result.decisions:,}",
            f"{result.units_moved:,}",
            f"{latency['p50']:,.1f}" if latency else "",
            f"{latency['p99']:,.1f}" if latency else "",
            f"{result.messages_per_s:,.0f}",
        )
        table.add_row(result.balance, *figures)
    return table
