"""Common parts of measurements: turns, medians, tables, entries of the event log, and figures by part."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

from rich.table import Table

from evenflow.cli.terminal import check_writable, console, write_figures
from evenflow.errors import InvalidArgument, nearest
from evenflow.eventlog.reading import Wanted, entries_of
from evenflow.model import KeyedSnapshot
from evenflow.model.entries import entry_of
from evenflow.runtime.cluster.cluster import Cluster

Figures = dict[str, Any]
"""The figures of a measurement: anything that JSON can hold."""
Result = TypeVar("Result")


def seconds_of(job: Callable[[], object]) -> float:
    """How long a job takes, by the wall clock."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def in_turns(jobs: Mapping[str, Callable[[], Result]], rounds: int, warm: int = 0) -> dict[str, list[Result]]:
    """The results of each job in each of the rounds, after `warm` rounds that do not count.

    Machines are noisy and get warm: all jobs run in each round, and the order changes from round to round.
    """
    found: dict[str, list[Result]] = {name: [] for name in jobs}
    for number in range(warm + rounds):
        for name in list(jobs) if number % 2 == 0 else list(jobs)[::-1]:
            result = jobs[name]()
            if number >= warm:
                found[name].append(result)
    return found


def medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each job's results."""
    return {name: statistics.median(each) for name, each in found.items()}


def flat(runs: Iterable[Iterable[float]]) -> list[float]:
    """The figures of several runs as one list."""
    return [each for run in runs for each in run]


def named(text: str, known: Iterable[str] = ()) -> list[str]:
    """The names in a list with commas; each must be known, if any are given."""
    names, all_known = [name.strip() for name in text.split(",")], list(known)
    for name in names:
        if all_known and name not in all_known:
            raise InvalidArgument(f"there is no {name!r}; {nearest(name, all_known)}")
    return names


def table_of(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None) -> Table:
    """A table: its first column has names, the others have figures."""
    made = Table(title=title, caption=caption)
    for heading in headings:
        made.add_column(heading, justify="right" if made.columns else "left")
    for row in rows:
        made.add_row(*row)
    return made


def checked(good: bool, text: str = "yes") -> str:
    """The cell of a table that says whether rows are right; red where they are not."""
    return text if good else f"[red]{'NO' if text == 'yes' else text}[/red]"


def logged(cluster: Cluster, kind: type[Wanted]) -> list[Wanted]:
    """The entries of one kind in a cluster's event log."""
    return entries_of(map(entry_of, cluster.events()), kind)


def keyed_snapshot(cluster: Cluster, region: str) -> KeyedSnapshot:
    """The statistics of a keyed region or a graph."""
    return cast(KeyedSnapshot, cluster.region(region).snapshot())


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder that is deleted at the end."""
    with TemporaryDirectory(prefix="evenflow-bench-") as folder:
        yield Path(folder)


def run_parts(parts: Mapping[str, Callable[[], Figures]], only: str, file: Path | None) -> None:
    """Run the parts that `only` names, print the figures of each, and write those of all to a file, if one is given.

    A run that is interrupted writes the figures of the parts before.
    """
    chosen = named(only, parts)
    check_writable(file)
    found: Figures = {}
    try:
        for name in chosen:
            found[name] = parts[name]()
            console.print(name, json.dumps(found[name], indent=1), highlight=False)
    finally:
        write_figures(file, found)
