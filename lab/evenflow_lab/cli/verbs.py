"""The verbs of the lab, for its own command and for `evenflow`."""

from __future__ import annotations

import typer

from evenflow_lab.cli.bench import bench
from evenflow_lab.cli.reproduce import reproduce
from evenflow_lab.cli.torture import torture


def add_verbs(app: typer.Typer) -> None:
    """Add all of them; `evenflow` calls this where the lab is installed (the entry point `evenflow.verbs`)."""
    app.add_typer(bench, name="bench")
    app.command()(reproduce)
    app.command()(torture)
