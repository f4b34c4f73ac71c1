"""A rolling mean in less memory than its state takes: rows a second, units read and written, memory of the process.

Every budget runs in a process of its own. Ratios are given by the clock and by CPU time, which other programs on the
machine disturb less. Rows come in batches of 10,000; a micro-batch is a million, and drained.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from typing import Annotated, Any

import numpy as np
import psutil
import pyarrow as pa
import typer
from rich.console import Console

from evenflow.operators.aggregates.rolling import RollingMean
from evenflow.operators.hosted import Hosted
from evenflow.state.paging.paged import Paged
from evenflow.state.paging.pool import Pool

UNITS = 1025
FRAME = 10_000
MICRO = 1_000_000
console = Console()


def hosted(window: int) -> Hosted:
    operator = RollingMean("v", rows=window)
    rows = pa.schema({"v": pa.float64()})
    return Hosted(operator, rows, pa.schema([operator.schema(rows).field(1)]), UNITS, adds=True)


def frames(keys: int, rows: int, seed: int) -> list[tuple[pa.RecordBatch, np.ndarray, np.ndarray]]:
    random = np.random.default_rng(seed)
    made = []
    for _ in range(rows // FRAME):
        which = random.integers(0, keys, FRAME)
        values = pa.record_batch({"v": random.normal(size=FRAME)})
        made.append((values, (which & (UNITS - 2)).astype(np.int32), which * 0x9E3779B9))
    return made


def run(keys: int, window: int, batches: int, budget: int | None) -> dict[str, Any]:
    host = hosted(window)
    host.warm_up()
    process = psutil.Process()
    made = frames(keys, MICRO, 0)
    with tempfile.TemporaryDirectory() as directory:
        pool = Pool(budget)
        paged = Paged(host, pool, directory, time.perf_counter)
        for frame in frames(keys, FRAME, 1):
            paged.process(-1, *frame)
        floor = process.memory_info().rss
        most, rates, cpu_rates, done, loads = 0, [], [], 0, 0
        for batch in range(batches + 4):
            read = paged.traffic[0]
            start, cpu = time.perf_counter(), time.process_time()
            for tag, frame in enumerate(made):
                done += sum(len(each.places) for each in paged.process((batch, tag), *frame))
                done += sum(len(each.places) for each in paged.rotate(time.perf_counter()))
                if tag % 10 == 0:
                    most = max(most, process.memory_info().rss)
            done += sum(len(each.places) for each in paged.drain())
            if batch >= 4:  # by then windows are full
                rates.append(MICRO / (time.perf_counter() - start))
                cpu_rates.append(MICRO / (time.process_time() - cpu))
                loads = max(loads, paged.traffic[0] - read)
        state = int(paged.sizes(np.arange(UNITS, dtype=np.int32)).sum())
        found = {
            "budget": budget,
            "state": state,
            "rows_per_s": float(np.median(rates)),
            "rows_per_cpu_s": float(np.median(cpu_rates)),
            "loads_per_unit_and_batch": loads / (UNITS - 1),
            "grown_by": most - floor,
            "held_peak": pool.peak,
            "files": paged.files,
        }
        paged.close()
    assert done >= (batches + 4) * MICRO
    return found


def main(
    keys: Annotated[int, typer.Option(help="How many.")] = 16_384,
    window: Annotated[int, typer.Option(help="Rows of a key.")] = 100,
    batches: Annotated[int, typer.Option(help="Micro-batches of a million rows, after four.")] = 3,
) -> None:
    """Run with all memory, with half of what state takes, and with a tenth."""
    context = multiprocessing.get_context("spawn")
    whole: dict[str, Any] = {}
    for share in (0, 2, 10):
        budget = whole["state"] // share if share else None
        with context.Pool(1) as pool:
            found = pool.apply(run, (keys, window, batches, budget))
        whole = whole or found
        found["throughput"] = found["rows_per_s"] / whole["rows_per_s"]
        found["throughput_cpu"] = found["rows_per_cpu_s"] / whole["rows_per_cpu_s"]
        if budget:
            found["memory_over_budget"] = found["grown_by"] / budget
        console.print(json.dumps(found, indent=1), highlight=False)


if __name__ == "__main__":
    typer.run(main)
