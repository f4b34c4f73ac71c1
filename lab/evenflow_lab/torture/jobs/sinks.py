"""Sinks of the jobs: one that looks at a batch before it writes it, and one that keeps what it has already."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from evenflow.errors import EvenflowError
from evenflow_lab.torture.faults.hooks import Hooks, kill
from evenflow_lab.torture.jobs.check import WRITTEN
from evenflow_lab.torture.schedule import Fault, Job


def peek_and_write(rows: DataFrame, target: Path) -> None:
    """Look at the rows of a batch before they are written."""
    rows.persist()
    try:
        if rows.count():
            rows.head(1)
        overwrite(rows, target)
    finally:
        rows.unpersist()


def overwrite(rows: DataFrame, target: Path) -> None:
    """Write the rows of a batch, over what an earlier attempt wrote."""
    rows.write.mode("overwrite").parquet(str(target))


def write_all(rows: DataFrame, job: Job, out: Path, number: int, hooks: Hooks) -> None:
    """Write a batch in each of its places; without `persists` each write evaluates it again."""
    if job.persists:
        rows.persist()
    try:
        for place in job.writes:
            keep_first(rows, out / place / str(number), hooks)
    finally:
        if job.persists:
            rows.unpersist()


def keep_first(rows: DataFrame, target: Path, hooks: Hooks) -> None:
    """Write the rows of a batch, unless an earlier attempt has; then something may go wrong."""
    if not (target / WRITTEN).exists():
        overwrite(rows, target)

    def strike(number: int, fault: Fault) -> None:
        if hooks.claim(number):
            if fault.kind == "breaks":
                raise EvenflowError("the sink breaks, as the schedule says")
            kill(hooks.folder, fault.victim)

    hooks.reach("written", strike)
