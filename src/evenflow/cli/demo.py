"""`evenflow demo`: streams under several balances, shown live in the terminal, one part after the other."""

from __future__ import annotations

from rich.console import Console

from evenflow.cli.demo_ordered import run_ordered
from evenflow.cli.demo_stories import run_stories
from evenflow.cli.terminal import embedded_spark
from evenflow.policy import balance_named, keyed_balance_named


def run_demo(
    console: Console, seconds: float, workers: int, factor: float, ordered: list[str], keyed: list[str]
) -> None:
    """Run each balance for `seconds`, show it live, and compare the balances at the end of each part."""
    for name in ordered:
        balance_named(name)
    for name in keyed:
        keyed_balance_named(name)
    with embedded_spark(workers, 2, name="evenflow-demo") as spark:
        if ordered:
            run_ordered(console, spark, seconds, workers, factor, ordered)
        if keyed:
            run_stories(console, spark, seconds, workers, keyed)
