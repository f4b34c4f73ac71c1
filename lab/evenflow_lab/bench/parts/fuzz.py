"""A million mutated frames, handshakes, messages, movements and blobs: no crash, nothing wrong, bounded memory.

Each kind runs in processes of its own, several rounds of them with other seeds. A process that ends by a signal is a
crash, one that does not end a hang; whatever a case finds wrong ends its process and names the case.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

import typer
from tests.support.fuzz import run_apart, shares

from evenflow.cli.terminal import JsonFile, check_writable, console, write_figures
from evenflow_lab.bench.measuring import table_of

GROWTH_MB = 64
"""What a process may take above what it took for its first ten cases."""
PATIENCE_S = 3600.0
COLUMNS = "cases", "refused", "harmless", "seconds", "peak_mb", "growth_mb"


def main(
    cases: Annotated[int, typer.Option(help="In all.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Of the first round.")] = 1,
    rounds: Annotated[int, typer.Option(help="Processes of each kind, one after the other.")] = 4,
    only: Annotated[str, typer.Option(help="One kind.")] = "",
    json_file: JsonFile = None,
) -> None:
    """Try them all; the exit status is 1 if anything was wrong."""
    check_writable(json_file)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0.0))
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
    write_figures(json_file, {"kinds": sums, "wrong": wrong})
    raise typer.Exit(1 if wrong else 0)


def _show(sums: dict[str, dict[str, float]], wrong: list[str]) -> None:
    rows = [(kind, *(f"{found[name]:,.0f}" for name in COLUMNS)) for kind, found in sums.items()]
    console.print(table_of("fuzz", ("kind", "cases", "refused", "harmless", "seconds", "peak MB", "grown MB"), rows))
    console.print(f"{sum(found['cases'] for found in sums.values()):,.0f} cases, {len(wrong)} wrong")
    for each in wrong:
        console.print(each)
