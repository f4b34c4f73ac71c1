"""What `evenflow torture` prints."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from evenflow.torture.run import Outcome, Report


def show_outcome(console: Console, outcome: Outcome) -> None:
    """A line for one schedule, and another for what is wrong with it."""
    schedule = outcome.schedule
    struck = ", ".join(outcome.struck) or "no fault struck"
    state = "[green]ok[/green]" if outcome.good else "[red]BAD[/red]"
    refused = f"; refused {', '.join(outcome.refused)}" if outcome.refused else ""
    console.print(f"seed {schedule.seed}: {state}, {outcome.seconds:.0f} s: {struck}{refused}", highlight=False)
    if not outcome.good:
        found = outcome.verdict
        wrong = f"lost {found.lost}, doubled {found.doubled}, out of order {found.out_of_order}, wrong {found.wrong}"
        hang = "hangs; " if outcome.hang else ""
        console.print(f"  {hang}{wrong} of {found.rows} rows; {outcome.error}", highlight=False, markup=False)


def show_report(console: Console, report: Report) -> None:
    """All schedules together."""
    told = report.to_json()
    names = ("schedules", "faults", "rows", "lost", "doubled", "out_of_order", "wrong", "hangs", "errors", "refused")
    table = Table(title=f"torture, from seed {report.seed}")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_row(*(f"{told[name]:,}" for name in names))
    console.print(table)
    for process in report.leaked:
        console.print(f"[red]left over:[/red] {process}")
