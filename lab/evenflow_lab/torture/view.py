"""The output of `evenflow torture`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from evenflow_lab.torture.report import VERDICTS, ScheduleOutcome, TortureReport

COLUMNS = ("schedules", *(name.replace("_", " ") for name in VERDICTS), "hangs", "errors", "refused")


def show_outcome(console: Console, outcome: ScheduleOutcome) -> None:
    """Print a line for one schedule, and a second one if something is wrong."""
    schedule = outcome.schedule
    struck = ", ".join(outcome.struck) or "no fault struck"
    state = "[green]ok[/green]" if outcome.good else "[red]BAD[/red]"
    refused = f"; refused {', '.join(outcome.refused)}" if outcome.refused else ""
    console.print(
        f"{schedule.job.kind} job, seed {schedule.seed}: {state}, {outcome.seconds:.0f} s: {struck}{refused}",
        highlight=False,
    )
    if not outcome.good:
        found = outcome.verdict
        wrong = f"lost {found.lost}, doubled {found.doubled}, out of order {found.out_of_order}, wrong {found.wrong}"
        hang = "hangs; " if outcome.hang else ""
        console.print(f"  {hang}{wrong} of {found.rows} rows; {outcome.error}", highlight=False, markup=False)


def show_report(console: Console, report: TortureReport) -> None:
    """Print a table of all schedules together."""
    told = report.to_json()
    names = ("schedules", "faults", *VERDICTS, "hangs", "errors", "refused")
    table = Table(title=f"torture of {report.kind} jobs, from seed {report.seed}")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_row(*(f"{told[name]:,}" for name in names))
    console.print(table)
    for process in report.leaked:
        console.print(f"[red]left over:[/red] {process}")


def markdown(report: TortureReport) -> str:
    """A table of all schedules by kind of fault; a schedule with several kinds is in several rows."""
    lines = [f"| {' | '.join(('what struck', *COLUMNS))} |", "|---" * (len(COLUMNS) + 1) + "|"]
    kinds: dict[str, list[ScheduleOutcome]] = {}
    for outcome in report.outcomes:
        for kind in dict.fromkeys(_kind(struck) for struck in outcome.struck) or ("nothing",):
            kinds.setdefault(kind, []).append(outcome)
    for kind, outcomes in [*sorted(kinds.items()), ("all", report.outcomes)]:
        verdicts = [outcome.verdict for outcome in outcomes]
        counts = (
            len(outcomes),
            *(sum(getattr(verdict, name) for verdict in verdicts) for name in VERDICTS),
            sum(outcome.hang for outcome in outcomes),
            sum(bool(outcome.error) for outcome in outcomes),
            sum(len(outcome.refused) for outcome in outcomes),
        )
        lines.append(f"| {kind} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines) + "\n"


def _kind(struck: str) -> str:
    """The kind of a fault from its text: "kill worker at restore" from "kill worker at restore 2"."""
    what, _, where = struck.partition(" at ")
    return f"{what} at {where.rpartition(' ')[0]}" if where else what.partition(" in batch ")[0]
