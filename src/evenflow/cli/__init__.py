"""The command line: one module a verb; `main` is the command `evenflow`."""

from __future__ import annotations

import sys

from evenflow.errors import MissingPackage, extra


def main() -> None:
    """Run the command line; without its packages, say in a line which extra brings them."""
    try:
        with extra("cli", "the command line"):
            from evenflow.cli.app import app
    except MissingPackage as error:
        sys.exit(f"error: {error}")
    app()
