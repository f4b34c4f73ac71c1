"""A million mutated frames, handshakes, messages, movements and blobs: no crash, nothing wrong, bounded memory.

Each kind runs in processes of its own, several rounds of them with other seeds. A process that ends by a signal is a
crash, one that does not end a hang; whatever a case finds wrong ends its process and names the case.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests.support.fuzz import run_apart, shares

GROWTH_MB = 64
"""What a process may take above what it took for its first ten cases."""
PATIENCE_S = 3600.0

console = Console()


def main(
    cases: Annotated[int, typer.Option(help="In all.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Of the first round.")] = 1,
    rounds: Annotated[int, typer.Option(help="Processes of each kind, one after the other.")] = 4,
    only: Annotated[str, typer.Option(help="One kind.")] = "",
    out: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
) -> None:
    """Try them all; the exit status is 1 if anything was wrong."""
    sums: dict[str, dict[str, Any]] = defaultdict(lambda: defaultdict(float))
    wrong: list[str] = []
    for kind, count in shares(cases).items():
        for number in range(rounds if not only or only == kind else 0):
            found = run_apart(kind, seed + number, count // rounds, PATIENCE_S)
            if "wrong" in found:
                wrong.append(f"{kind}, seed {seed + number}: {found['wrong']}")
                continue
            for name in ("cases", "refused", "harmless", "seconds"):
                sums[kind][name] += found.get(name, 0)
            grown = found["peak_mb"] - found["first_mb"]
            sums[kind]["peak_mb"] = max(sums[kind]["peak_mb"], found["peak_mb"])
            sums[kind]["growth_mb"] = max(sums[kind]["growth_mb"], grown)
            if grown > GROWTH_MB:
                wrong.append(f"{kind}, seed {seed + number}: memory grew by {grown} MB")
    _show(sums, wrong)
    if out is not None:
        out.write_text(json.dumps({"kinds": sums, "wrong": wrong}, indent=1))
    raise typer.Exit(1 if wrong else 0)


def _show(sums: dict[str, dict[str, Any]], wrong: list[str]) -> None:
    table = Table("kind", "cases", "refused", "harmless", "seconds", "peak MB", "grown MB")
    for kind, found in sums.items():
        figures = (found[name] for name in ("cases", "refused", "harmless", "seconds", "peak_mb", "growth_mb"))
        table.add_row(kind, *(f"{figure:,.0f}" for figure in figures))
    total = sum(found["cases"] for found in sums.values())
    console.print(table)
    console.print(f"{total:,.0f} cases, {len(wrong)} wrong")
    for each in wrong:
        console.print(each)


if __name__ == "__main__":
    typer.run(main)
