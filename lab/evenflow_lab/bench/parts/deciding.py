"""How long deciding takes: 10,000 to 1,000,000 keys on 10 to 1,000 engines with Zipf loads, balances of the CEP paper.

Rows are drawn at random, `--rows` times as many as there are keys; keys are dealt out in turn. Times are of one whole
decision: loads, scores, Algorithm 1 or LPTF, and the list of moves; by the clock and on the CPU, which other programs
on the machine disturb less; the least of three each.
"""

from __future__ import annotations

import sys
from time import perf_counter, process_time
from typing import Annotated

import numpy as np
import typer

from evenflow.model import KeyedSnapshot, KeyedWorker, RoutingTable
from evenflow.policy import keyed_balance_named

BALANCES = ("dlb-h", "dlb-l", "lptf", "kg", "pkg")


def snapshots(keys: int, engines: int, zipf: float, rows: int) -> tuple[KeyedSnapshot, KeyedSnapshot]:
    """The begin and the end of a window."""
    rng = np.random.default_rng(1)
    share = np.arange(1, keys + 1) ** -zipf
    load = rng.permutation(rng.multinomial(rows * keys, share / share.sum()))
    table = RoutingTable.even(keys, range(engines))
    consumers = tuple(KeyedWorker(engine, 1) for engine in range(engines))
    nothing = np.zeros(keys, np.int64)
    return (
        KeyedSnapshot(0.0, "r", 1, table, consumers, nothing, nothing, unit_arrived=nothing),
        KeyedSnapshot(10.0, "r", 1, table, consumers, load, nothing, unit_arrived=load),
    )


def main(
    zipf: Annotated[float, typer.Option(help="Exponent of Zipf's law.")] = 1.0,
    rows: Annotated[int, typer.Option(help="Rows a key on average.")] = 20,
    theta: Annotated[float, typer.Option(help="Percent.")] = 15.0,
    most: Annotated[int, typer.Option(help="Keys, at most.")] = 1_000_000,
) -> None:
    """Print the table."""
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}; Zipf {zipf}, {rows} rows a key")
    print(f"{'balance':>8} {'keys':>10} {'engines':>8} {'ms':>9} {'CPU ms':>9} {'moved':>8} {'score':>8} {'after':>8}")
    for name in BALANCES:
        options = {} if name in ("kg", "pkg") else {"theta": theta, "least_rows": 0, "least_gain": 0}
        for keys in (10_000, 100_000, 1_000_000) if options else (1_000_000,):  # the others have nothing to decide
            for engines in (10, 100, 1_000) if keys <= most else ():
                first, last = snapshots(keys, engines, zipf, rows)
                times, moves = [], []
                for _ in range(3):
                    balance = keyed_balance_named(name, **options)
                    balance.decide(first)
                    start, used = perf_counter(), process_time()
                    moves = balance.decide(last)
                    times.append((perf_counter() - start, process_time() - used))
                seen = dict(moves[0].detail) if moves else {"keys": 0, "score": np.nan, "score_after": np.nan}
                figures = f"{seen['keys']:>8,} {seen['score']:>8.1f} {seen['score_after']:>8.1f}"
                clock, cpu = (1e3 * min(column) for column in zip(*times, strict=True))
                print(f"{name:>8} {keys:>10,} {engines:>8,} {clock:>9.1f} {cpu:>9.1f} {figures}", flush=True)
