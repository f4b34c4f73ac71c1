"""`evenflow demo`, live in the terminal: each balance without and with, one part after the other."""

from __future__ import annotations

from rich.console import Console

from evenflow.cli.demo_ordered import run_ordered
from evenflow.cli.demo_stories import run_stories
from evenflow.policy import balance_named, keyed_balance_named
from evenflow.runtime.cluster.session import local_session


def run_demo(
    console: Console, seconds: float, workers: int, factor: float, ordered: list[str], keyed: list[str]
) -> None:
    """Run each balance for `seconds`, show it live, and compare those of each part at its end."""
    for name in ordered:
        balance_named(name)
    for name in keyed:
        keyed_balance_named(name)
    with console.status("starting Spark"):
        spark = local_session(workers, name="evenflow-demo")
    try:
        if ordered:
            run_ordered(console, spark, seconds, workers, factor, ordered)
        if keyed:
            run_stories(console, spark, seconds, workers, keyed)
    finally:
        spark.stop()
