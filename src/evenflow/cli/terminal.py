"""The common part of the commands: consoles, files, a Spark session, and errors as one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from evenflow.errors import EvenflowError, InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

console = Console()
errors = Console(stderr=True)


def touch(*files: Path | None) -> None:
    """Create the files, to find out before a long run whether they can be written."""
    for file in files:
        if file is not None:
            make_folder(file.parent)
            file.open("a").close()


def make_folder(folder: Path) -> None:
    """Create a directory, with those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidArgument(f"{folder} cannot be a directory, since there is a file of that name") from None


def write_figures(file: Path | None, figures: dict[str, Any]) -> None:
    """Write the figures of a run as JSON, if a file is given."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2) + "\n")
        console.print(f"written: {file}")


@contextmanager
def embedded_spark(workers: int, slots: int, **options: Any) -> Iterator[SparkSession]:
    """An embedded Spark that is stopped at the end; `options` are those of `local_session`."""
    from evenflow.runtime.cluster.session import local_session

    with console.status("starting Spark"):
        spark = local_session(workers, slots=slots, **options)
    try:
        yield spark
    finally:
        spark.stop()


def guard(work: Callable[[], None]) -> None:
    """Run a command: errors that we raise on purpose, and Ctrl-C, are printed as one line, without a traceback."""
    try:
        work()
    except (EvenflowError, OSError) as error:
        errors.print(f"[red]error:[/red] {error}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("interrupted")
        raise typer.Exit(130) from None
