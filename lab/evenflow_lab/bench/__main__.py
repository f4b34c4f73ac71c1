"""Measurements that docs cite or developers run: `python -m evenflow_lab.bench NAME`, in a checkout of the source."""

from __future__ import annotations

import ast
import sys
from functools import wraps
from importlib import import_module
from pathlib import Path

import typer

from evenflow.cli.terminal import guard

PROGRAM = "python -m evenflow_lab.bench"
FOLDERS = "cluster", "parts"


def measurements() -> dict[str, Path]:
    """By name, the file of each measurement: its `main` takes the options."""
    files = (file for folder in FOLDERS for file in sorted((Path(__file__).parent / folder).glob("[!_]*.py")))
    return {file.stem.replace("_", "-"): file for file in files if "\ndef main(" in file.read_text()}


def main() -> None:
    """Run a measurement, or list all of them."""
    known = measurements()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in known:
        print(f"usage: {PROGRAM} NAME [OPTIONS]\n")
        for each, file in known.items():
            print(f"{each:>18}  {(ast.get_docstring(ast.parse(file.read_text())) or '').splitlines()[0]}")
        raise SystemExit(name not in ("", "--help"))
    file = known[name]
    module = import_module(f"{__package__}.{file.parent.name}.{file.stem}")

    @wraps(module.main)
    def guarded(**options: object) -> None:
        guard(lambda: module.main(**options))

    app = typer.Typer(add_completion=False)
    app.command(help=module.__doc__)(guarded)
    app(args=sys.argv[2:], prog_name=f"{PROGRAM} {name}")


if __name__ == "__main__":
    main()
