"""The common part of the commands: consoles, files, a Spark session, and errors as one line.

Exit codes: 0 all went well; 1 it failed, or what was checked does not hold; 2 the command was used wrongly, or a file
that it was given is not what it should be; 130 it was interrupted; 141 nobody reads on what it prints.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from evenflow.errors import EvenflowError, InvalidArgument, StoreMissing, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

console = Console()
errors = Console(stderr=True)
FAILED, MISUSED, INTERRUPTED = 1, 2, 130
MISTAKES = InvalidArgument, StoreMissing, FileNotFoundError, IsADirectoryError, NotADirectoryError
"""Errors that mean: the command was given something that cannot be."""
STDOUT = Path("-")
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Also write the figures as JSON; -: to standard output, all else to the other."
    ),
]


def check_writable(*files: Path | None) -> None:
    """Find out before a long run whether files can be written; none is left behind that was not there before.

    Their directories are not made: a wrong path is told, not followed. If one of them is standard output, tables and
    progress go to standard error from now on.
    """
    console.stderr = STDOUT in files
    for file in files:
        if file is not None and file != STDOUT:
            if not file.parent.is_dir():
                raise InvalidArgument(f"there is no directory {file.parent} for {file.name}: make it, or give another")
            if file.is_dir():
                raise InvalidArgument(f"{file} is a directory: give the path of a file")
            there = file.exists() or file.is_symlink()
            file.open("a").close()
            if not there:
                file.unlink()


def make_folder(folder: Path) -> None:
    """Create a directory, with those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidArgument(f"{folder} cannot be a directory, since there is a file of that name") from None


def write_figures(file: Path | None, figures: object) -> None:
    """Write the figures of a run as JSON, if a file is given; what is no finite number is null, as JSON has none."""
    if file is None:
        return
    text = json.dumps(_finite(figures), indent=2, default=str, allow_nan=False) + "\n"
    if file == STDOUT:
        typer.echo(text, nl=False)
    else:
        file.write_text(text)
        console.print(f"written: {file}", soft_wrap=True)


def _finite(value: object) -> object:
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value


def progress_bars() -> Progress:
    """Bars with a description, the part that is done, and the time it took."""
    text = TextColumn("{task.description}")
    return Progress(text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console)


@contextmanager
def embedded_spark(workers: int, slots: int, **options: Any) -> Iterator[SparkSession]:
    """An embedded Spark that is stopped at the end; `options` are those of `local_session`."""
    from pyspark.errors import PySparkRuntimeError

    from evenflow.cli.chatter import less_chatter
    from evenflow.runtime.cluster.spark.session import local_session

    try:
        with console.status("starting Spark"), less_chatter():
            spark = local_session(workers, slots=slots, **options)
    except PySparkRuntimeError as error:  # its process ended at once
        raise EvenflowError(f"Spark does not start: {first_line(error)}. `evenflow doctor` says why") from None
    try:
        yield spark
    finally:
        spark.stop()


def guard(work: Callable[[], None]) -> None:
    """Run a command: errors that we raise on purpose, and Ctrl-C, are printed as one line, without a traceback."""
    try:
        work()
    except (EvenflowError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _unread():
            raise  # which `Verbs` knows how to end
        errors.print(f"[red]error:[/red] {_escaped(error)}", highlight=False, soft_wrap=True)
        raise typer.Exit(MISUSED if isinstance(error, MISTAKES) else FAILED) from None
    except KeyboardInterrupt:
        errors.print("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _unread() -> bool:
    """Whether nobody reads what is printed any more; other pipes and connections may break, too."""
    printed = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
        with suppress(OSError, ValueError):  # a stream of a test or a notebook, without a descriptor
            printed.register(stream.fileno(), 0)
    return any(found & select.POLLERR for _, found in printed.poll(0))


def _escaped(error: Exception) -> str:
    """An error's text, in which names in brackets are no markup."""
    from rich.markup import escape

    return escape(str(error) or type(error).__name__)
