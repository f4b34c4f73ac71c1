"""What the commands share: where they write to, and how they end when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from evenflow.errors import EvenflowError

console = Console()
errors = Console(stderr=True)


def touch(*files: Path | None) -> None:
    """Find out before a long run whether its results can be written."""
    for file in files:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()


def write_figures(file: Path | None, figures: dict[str, Any]) -> None:
    """The figures of a run as JSON, if asked for."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2) + "\n")
        console.print(f"written: {file}")


def guard(work: Callable[[], None]) -> None:
    """One clear line for what we raise on purpose, and for Ctrl-C; a traceback is for bugs."""
    try:
        work()
    except (EvenflowError, OSError) as error:
        errors.print(f"[red]error:[/red] {error}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("interrupted")
        raise typer.Exit(130) from None
