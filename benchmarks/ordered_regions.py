"""The table of docs/ordered-regions.md: every balance on 2 to 64 emulated workers, half of them slow.

    .venv/bin/python benchmarks/ordered_regions.py --json out/ordered.json [--workers 2,4,8] [--seconds 8]
    .venv/bin/python benchmarks/ordered_regions.py --static --balance oracle,blocking-rate,lb-adaptive

Each cell is one run: rows in order and complete are checked in it. Time a row is over Oracle*'s in the same cell. The
cost of a row grows with the workers, so that the rows a second stay within what one feeder on two cores can carry.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evenflow.runtime.cluster.spark.session import local_session
from evenflow_lab.bench import ordered

BASIC = ["oracle", "credits", "blocking-rate"]


def balances(setting: ordered.OrderedSetting) -> list[str]:
    """Round-robin where it hurts most, LB-adaptive and LB-static where adapting pays."""
    if setting.factor < 100:
        return BASIC
    return [*BASIC, "lb-adaptive", "lb-static"] if setting.until else [*BASIC, "round-robin"]


def settings(workers: int, seconds: float, period: float, static: bool) -> list[ordered.OrderedSetting]:
    """Half of the workers slow by 10x and 100x: for good, and, unless `static`, until an eighth of the run."""
    cost = max(20.0, 5.0 * workers)
    return [
        ordered.OrderedSetting(workers, workers // 2, factor, cost, seconds, until, period)
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
    json_file: Annotated[Path, typer.Option("--json", help="Where the figures go.")] = Path("out/ordered.json"),
) -> None:
    """Run all cells and print the table."""
    console = Console(width=130)
    counts = [int(number) for number in workers.split(",")]
    cells = [setting for count in counts for setting in settings(count, seconds, period, static)]
    spark = local_session(max(counts), slots=1, conf=ordered.FINE)
    done: list[dict[str, Any]] = []
    json_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        ordered.warm_up(spark)
        for number, setting in enumerate(cells, 1):
            console.print(f"[{number}/{len(cells)}] {asdict(setting)}", highlight=False)
            for name in balance.split(",") if balance else balances(setting):
                log = event_log and event_log / f"{number}-{name}.jsonl"
                outcome = ordered.run(spark, setting, name, log)
                console.print(f"    {name:14} {outcome.of_ideal:.3f} {outcome.steady_of_ideal:.3f}", highlight=False)
                done.append({"setting": asdict(setting), "outcome": asdict(outcome)})
                json_file.write_text(json.dumps(done, indent=1) + "\n")
    finally:
        spark.stop()
    console.print(table(done), highlight=False)


def table(done: list[dict[str, Any]]) -> str:
    """The cells as Markdown: steady throughput over the ideal, and time a row over Oracle*'s."""
    cells: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in done:
        cells.setdefault(json.dumps(entry["setting"]), {})[entry["outcome"]["balance"]] = entry["outcome"]
    others = ["credits", "blocking-rate", "lb-adaptive", "lb-static", "round-robin"]
    heads = ["workers", "slow", "load", "reaction", "oracle", *others]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for text, found in cells.items():
        setting = json.loads(text)
        reaction = found["credits"]["reaction_s"] if "credits" in found else None
        row = [
            str(setting["workers"]),
            f"{setting['factor']:g}x",
            "until 1/8" if setting["until"] else "static",
            "" if not setting["until"] else "never" if reaction is None else f"{reaction:.1f} s",
            f"{found['oracle']['steady_of_ideal']:.2f}",
            *(_against(found, name) for name in others),
        ]
        lines.append("| " + " | ".join(row) + " |")
    wrong = [entry for entry in done if not entry["outcome"]["in_order"]]
    return "\n".join([*lines, "", f"{len(done)} runs, rows missing or out of order in {len(wrong)}."])


def _against(found: dict[str, dict[str, Any]], name: str) -> str:
    """Steady throughput over the ideal, and time a row over Oracle*'s."""
    if name not in found:
        return ""
    ratio = found["oracle"]["rows_per_s"] / found[name]["rows_per_s"]
    return f"{found[name]['steady_of_ideal']:.2f}, {ratio:.2f}x"


if __name__ == "__main__":
    typer.run(main)
