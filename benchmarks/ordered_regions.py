"""The table of docs/ordered-regions.md: every balance on 2 to 64 emulated workers, half of them slow.

    .venv/bin/python benchmarks/ordered_regions.py --json out/ordered.json [--workers 2,4,8] [--seconds 12]

Each cell is one run: rows in order and complete are checked in it. Time is over Oracle*'s in the same cell. The cost of
a row grows with the workers, so that the rows a second stay within what one feeder on two cores can carry.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from evenflow.bench import ordered
from evenflow.runtime.session import local_session

BALANCES = ["oracle", "credits", "blocking-rate", "lb-static", "round-robin"]


def settings(workers: int, seconds: float, period: float) -> list[ordered.Setting]:
    """Half of the workers slow by 10x and 100x, for good and until an eighth of the run."""
    cost = max(20.0, 5.0 * workers)
    return [
        ordered.Setting(workers, workers // 2, factor, cost, seconds, until, period)
        for factor in (10.0, 100.0)
        for until in (0.0, seconds / 8)
    ]


def main(
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "2,4,8,16,32,64",
    seconds: Annotated[float, typer.Option(help="Seconds rows are fed in each run.")] = 12.0,
    period: Annotated[float, typer.Option(help="Seconds between samples.")] = 0.25,
    balances: Annotated[str, typer.Option(help="Balances; the oracle goes first.")] = ",".join(BALANCES),
    json_file: Annotated[Path, typer.Option("--json", help="Where the figures go.")] = Path("out/ordered.json"),
) -> None:
    """Run all cells and print the table."""
    console = Console(width=130)
    counts = [int(number) for number in workers.split(",")]
    cells = [setting for count in counts for setting in settings(count, seconds, period)]
    names = balances.split(",")
    spark = local_session(max(counts), slots=1)
    done: list[dict[str, object]] = []
    json_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        ordered.warm_up(spark)
        for number, setting in enumerate(cells, 1):
            console.print(f"[{number}/{len(cells)}] {asdict(setting)}", highlight=False)
            for name in names:
                outcome = ordered.run(spark, setting, name)
                console.print(f"    {name:14} {outcome.of_ideal:.3f} {outcome.steady_of_ideal:.3f}", highlight=False)
                done.append({"setting": asdict(setting), "outcome": asdict(outcome)})
                json_file.write_text(json.dumps(done, indent=1) + "\n")
    finally:
        spark.stop()
    console.print(table(done))


def table(done: list[dict[str, object]]) -> Table:
    """One row a cell and balance."""
    columns = [
        "workers",
        "slow",
        "load",
        "balance",
        "of ideal",
        "steady",
        "time over oracle",
        "final rows/s",
        "reaction",
    ]
    made = Table(*columns, "in order", title="ordered regions (emulated)")
    oracle = {json.dumps(d["setting"]): d["outcome"]["rows_per_s"] for d in done if d["outcome"]["balance"] == "oracle"}
    for entry in done:
        setting, outcome = entry["setting"], entry["outcome"]
        best = oracle.get(json.dumps(setting))
        made.add_row(
            str(setting["workers"]),
            f"{setting['factor']:g}x",
            "until 1/8" if setting["until"] else "static",
            outcome["balance"],
            f"{outcome['of_ideal']:.3f}",
            f"{outcome['steady_of_ideal']:.3f}",
            f"{best / outcome['rows_per_s']:.2f}" if best else "",
            f"{outcome['final_rows_per_s']:,.0f}",
            "" if outcome["reaction_s"] is None else f"{outcome['reaction_s']:.1f} s",
            "yes" if outcome["in_order"] else "NO",
        )
    return made


if __name__ == "__main__":
    typer.run(main)
