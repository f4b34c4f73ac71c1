"""Random DataFrames through operators, rules and actions, against Spark SQL; as many cases as wanted.

A case is a seed: `--seed 17 --cases 1` runs it again. What differs is printed as it comes, with the plan of the case
and the first rows that differ; tables at the end tell how many were wrong or refused, by operator or rule and by
action.
The cases are those of `tests/differential`.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.table import Table
from tests.differential.cases import Case, draw
from tests.differential.run import Clusters, Outcome, run_case

from evenflow.cli.terminal import JsonFile, check_writable, console, embedded_spark, write_figures
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.bench.measuring import Figures, table_of, workplace

WORKERS, STORED, SLOTS = 3, 2, 7
SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def wanted(seed: int, cases: int, what: str, action: str) -> Iterator[Case]:
    """The cases from a seed on that are of an operator or rule, and of an action, if those are given."""
    while cases:
        case = draw(seed)
        seed += 1
        if what in ("", case.what) and action in ("", case.action):
            cases -= 1
            yield case


class LastingClusters:
    """Clusters that are replaced once one of their workers is gone."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._started: dict[str, Cluster] = {}
        self._places = 0

    def close(self) -> None:
        for cluster in self._started.values():
            cluster.stop()

    def clusters(self) -> Clusters:
        """The clusters for the next case."""
        return Clusters(self._cluster("plain"), lambda: self._cluster("stored"))

    def _cluster(self, name: str) -> Cluster:
        known = self._started.get(name)
        if known is not None and all(worker.state == "live" for worker in known.workers()):
            return known
        if known is not None:
            known.stop()
        self._places += 1
        stored = name == "stored"
        checkpoint = self._folder / f"state-{self._places}" if stored else None
        workers = STORED if stored else WORKERS
        self._started[name] = Cluster(self._spark, workers, start_timeout=150, checkpoint=checkpoint)
        return self._started[name]


def counted(title: str, outcomes: list[Outcome], by: str) -> Table:
    """How many cases were wrong or refused, by one of their fields."""
    rows = []
    for name in [*sorted({getattr(one.case, by) for one in outcomes}), "all"]:
        mine = [one for one in outcomes if name in (getattr(one.case, by), "all")]
        wrong, refused = sum(bool(one.wrong) for one in mine), sum(bool(one.refused) for one in mine)
        seconds = sum(one.seconds for one in mine)
        rows.append((name, f"{len(mine):,}", f"{wrong:,}", f"{refused:,}", f"{seconds:,.0f}"))
    return table_of(title, (by, "cases", "wrong", "refused", "seconds"), rows)


def figures(outcomes: list[Outcome]) -> Figures:
    """All cases, and how often each refusal came."""
    about = ({"wrong": one.wrong, "refused": one.refused, "seconds": one.seconds} for one in outcomes)
    cases = [asdict(one.case) | more for one, more in zip(outcomes, about, strict=True)]
    return {"cases": cases, "refusals": Counter(said for one in outcomes for said in one.refused)}


def main(
    cases: Annotated[int, typer.Option(help="How many.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Of the first case.", min=0)] = 1,
    what: Annotated[str, typer.Option(help="Only cases of this operator or rule.")] = "",
    action: Annotated[str, typer.Option(help="Only cases with this action.")] = "",
    json_file: JsonFile = None,
) -> None:
    """Run cases; exit code 1 if one is wrong."""
    check_writable(json_file)
    outcomes: list[Outcome] = []
    try:
        with ExitStack() as stack:
            spark = stack.enter_context(embedded_spark(WORKERS + STORED, SLOTS, conf=SETTINGS))
            folder = stack.enter_context(workplace())
            lasting = LastingClusters(spark, folder)
            stack.callback(lasting.close)
            for case in wanted(seed, cases, what, action):
                place = folder / str(case.seed)
                place.mkdir()
                outcomes.append(run_case(spark, lasting.clusters(), case, place))
                shutil.rmtree(place, ignore_errors=True)
                if outcomes[-1].wrong:
                    console.print(f"WRONG {outcomes[-1]}\n", highlight=False, markup=False)
    finally:
        for by in ("what", "action"):
            console.print(counted(f"differential, from seed {seed}", outcomes, by))
        write_figures(json_file, figures(outcomes))
    raise typer.Exit(any(outcome.wrong for outcome in outcomes))
