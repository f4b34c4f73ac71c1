"""Random DataFrames through operators, rules and actions, against Spark SQL, for as long as it is asked to.

    python -m benchmarks.differential --cases 500 [--seed 1] [--what time-batch] [--action persist] [--json FILE]

A case is a seed: `--seed 17 --cases 1` runs it again. What differs is printed as it comes, with the plan of the case
and the first rows that differ; tables at the end tell how many were wrong or refused, by operator or rule and by
action.
The cases are those of `tests/differential`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.differential.cases import Case, draw
from tests.differential.run import Clusters, Outcome, run_case

import evenflow as ef

WORKERS, STORED, SLOTS = 3, 2, 7
SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
console = Console(width=150)


def wanted(seed: int, cases: int, what: str, action: str) -> Iterator[Case]:
    """The cases from a seed on that are of an operator or rule, and of an action, if those are given."""
    while cases:
        case = draw(seed)
        seed += 1
        if what in ("", case.what) and action in ("", case.action):
            cases -= 1
            yield case


class Bench:
    """A session, and clusters that are replaced once one of their workers is gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.spark: SparkSession = ef.local_session(workers=WORKERS + STORED, slots=SLOTS, conf=SETTINGS)
        self._started: dict[str, ef.Cluster] = {}
        self._places = 0

    def close(self) -> None:
        for cluster in self._started.values():
            cluster.stop()
        self.spark.stop()

    def clusters(self) -> Clusters:
        return Clusters(self._cluster("plain"), lambda: self._cluster("stored"))

    def _cluster(self, name: str) -> ef.Cluster:
        known = self._started.get(name)
        if known is not None and all(worker.state == "live" for worker in known.workers()):
            return known
        if known is not None:
            known.stop()
        self._places += 1
        options = {"checkpoint": self._folder / f"state-{self._places}"} if name == "stored" else {}
        count = STORED if name == "stored" else WORKERS
        self._started[name] = ef.Cluster(self.spark, workers=count, start_timeout=150, **options)
        return self._started[name]


def table_of(title: str, outcomes: list[Outcome], by: str) -> Table:
    table = Table(title=title)
    for name in (by, "cases", "wrong", "refused", "seconds"):
        table.add_column(name, justify="left" if name == by else "right")
    for name in [*sorted({getattr(one.case, by) for one in outcomes}), "all"]:
        mine = [one for one in outcomes if name in (getattr(one.case, by), "all")]
        wrong, refused = sum(bool(one.wrong) for one in mine), sum(bool(one.refused) for one in mine)
        table.add_row(name, f"{len(mine):,}", f"{wrong:,}", f"{refused:,}", f"{sum(one.seconds for one in mine):,.0f}")
    return table


def told(outcomes: list[Outcome]) -> str:
    """All of it as JSON."""
    cases = [
        asdict(one.case) | {"wrong": one.wrong, "refused": one.refused, "seconds": one.seconds} for one in outcomes
    ]
    words = Counter(said for one in outcomes for said in one.refused)
    return json.dumps({"cases": cases, "refusals": words}, indent=1)


def main(
    cases: Annotated[int, typer.Option(min=1)] = 100,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    what: str = "",
    action: str = "",
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Run cases; exit code 1 if one is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="evenflow-differential-"))
    bench, outcomes = Bench(folder), []
    try:
        for case in wanted(seed, cases, what, action):
            place = folder / str(case.seed)
            place.mkdir()
            outcome = run_case(bench.spark, bench.clusters(), case, place)
            shutil.rmtree(place, ignore_errors=True)
            outcomes.append(outcome)
            if outcome.wrong:
                console.print(f"WRONG {outcome}\n", highlight=False, markup=False)
            if json_file is not None:
                json_file.write_text(told(outcomes))
    finally:
        for by in ("what", "action"):
            console.print(table_of(f"differential, from seed {seed}", outcomes, by))
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    typer.run(main)
