"""The table of docs/ordered-regions.md: every balance on 2 to 64 emulated workers, half of them slow.

Each cell is one run: rows in order and complete are checked in it. Time a row is over Oracle*'s in the same cell. The
cost of a row grows with the workers, so that the rows a second stay within what one feeder on two cores can carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.terminal import JsonFile, check_writable, console, embedded_spark, write_figures
from evenflow_lab.bench import ordered
from evenflow_lab.bench.measuring import named

BASIC = ["oracle", "credits", "blocking-rate"]
OTHERS = ["credits", "blocking-rate", "lb-adaptive", "lb-static", "round-robin"]
Cells = Mapping[ordered.OrderedSetting, dict[str, ordered.OrderedResult]]
"""By setting and balance."""


def balances(setting: ordered.OrderedSetting) -> list[str]:
    """Round-robin where it hurts most, LB-adaptive and LB-static where adapting pays."""
    if setting.factor < 100:
        return BASIC
    return [*BASIC, "lb-adaptive", "lb-static"] if setting.until else [*BASIC, "round-robin"]


def settings(workers: int, seconds: float, period: float, static: bool) -> list[ordered.OrderedSetting]:
    """Half of the workers slow by 10x and 100x: for good, and, unless `static`, until an eighth of the run."""
    return [
        ordered.OrderedSetting(
            workers=workers,
            slow=workers // 2,
            factor=factor,
            cost_us=max(20.0, 5.0 * workers),
            seconds=seconds,
            until=until,
            period=period,
        )
        for factor in (10.0, 100.0)
        for until in ((0.0,) if static else (0.0, seconds / 8))
    ]


def main(
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "2,4,8,16,32,64",
    seconds: Annotated[float, typer.Option(help="Seconds rows are fed in each run.")] = 8.0,
    period: Annotated[float, typer.Option(help="Seconds between samples.")] = 0.1,
    static: Annotated[bool, typer.Option("--static", help="Only loads that stay.")] = False,
    balance: Annotated[str, typer.Option(help="Balances instead of the usual ones, oracle among them.")] = "",
    event_log: Annotated[Path | None, typer.Option(help="Directory for one event log a run.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run all cells and print the table."""
    counts = [int(number) for number in named(workers)]
    cells: dict[ordered.OrderedSetting, dict[str, ordered.OrderedResult]] = {
        setting: {} for number in counts for setting in settings(number, seconds, period, static)
    }
    check_writable(json_file)
    try:
        with embedded_spark(max(counts), 1, conf=ordered.FINE) as spark:
            ordered.warm_up(spark)
            for number, (setting, found) in enumerate(cells.items(), 1):
                console.print(f"[{number}/{len(cells)}] {asdict(setting)}", highlight=False)
                for name in named(balance) if balance else balances(setting):
                    log = event_log and event_log / f"{number}-{name}.jsonl"
                    found[name] = one = ordered.run(spark, setting, name, log)
                    console.print(f"    {name:14} {one.of_ideal:.3f} {one.steady_of_ideal:.3f}", highlight=False)
    finally:
        runs = ((setting, each) for setting, found in cells.items() for each in found.values())
        write_figures(json_file, [{"setting": asdict(setting), "outcome": asdict(each)} for setting, each in runs])
    console.print(table(cells), highlight=False, soft_wrap=True)


def table(cells: Cells) -> str:
    """The cells as Markdown: steady throughput over the ideal, and time a row over Oracle*'s."""
    heads = ["workers", "slow", "load", "reaction", "oracle", *OTHERS]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for setting, found in cells.items():
        reaction = found["credits"].reaction_s if "credits" in found else None
        row = [
            str(setting.workers),
            f"{setting.factor:g}x",
            "until 1/8" if setting.until else "static",
            "" if not setting.until else "never" if reaction is None else f"{reaction:.1f} s",
            f"{found['oracle'].steady_of_ideal:.2f}",
            *(_against(found, name) for name in OTHERS),
        ]
        lines.append("| " + " | ".join(row) + " |")
    runs = [each for found in cells.values() for each in found.values()]
    wrong = sum(not each.in_order for each in runs)
    return "\n".join([*lines, "", f"{len(runs)} runs, rows missing or out of order in {wrong}."])


def _against(found: Mapping[str, ordered.OrderedResult], name: str) -> str:
    """Steady throughput over the ideal, and time a row over Oracle*'s."""
    if name not in found:
        return ""
    ratio = found["oracle"].rows_per_s / found[name].rows_per_s
    return f"{found[name].steady_of_ideal:.2f}, {ratio:.2f}x"
