"""Rows that wait for their time within a budget of memory: the same results, with most of them on disk."""

import numpy as np
import pyarrow as pa

from evenflow.operators.hosted import Hosted
from evenflow.operators.rolling import RunningCount
from evenflow.operators.timed import END, NOW, Timed
from evenflow.state.paging import Paged
from evenflow.state.pool import Pool

UNITS = 33
ROWS = pa.schema({"who": pa.int64(), "at": pa.int64(), "text": pa.string()})
S = 1_000_000


def hosted():
    operator = RunningCount("who", into="n")
    schema = operator.schema(ROWS)
    return Hosted(Timed(operator, ROWS, [0, 1, 2], [1], True, UNITS, schema), ROWS.append(NOW), schema, UNITS)


def frames(seed):
    """Frames of rows, and after every tenth of ticks, until all rows are through."""
    random = np.random.default_rng(seed)
    for batch in range(6):
        for _ in range(10):
            who = random.integers(0, 100, 200)
            at = 100 * batch + random.integers(0, 100, 200)
            text = ["x" * 100 + str(one) for one in random.integers(0, 1000, 200)]
            yield pa.RecordBatch.from_arrays([*map(pa.array, (who, at, text, who))], names=[*ROWS.names, "key"])
        yield ticks((100 * batch - 50) * S)
    yield ticks(END)


def ticks(now):
    units = np.arange(UNITS)
    hashes = pa.array(units, mask=units == UNITS - 1)
    return pa.RecordBatch.from_arrays([pa.array(np.full(UNITS, now)), hashes], names=[NOW.name, "key"])


def run(budget, directory, seed):
    """All results, and the most that was on disk."""
    code, clock = hosted(), iter(range(1_000_000_000))
    state = Paged(code, Pool(budget), directory, lambda: float(next(clock)))
    results, spilled, resident = [], 0, 0
    for number, frame in enumerate(frames(seed)):
        done = state.process(number, *code.unpacked(frame))
        if NOW.name in frame.schema.names:
            done += state.drain()
        results += [row for each in done for row in each.batch.to_pylist()]
        spilled, resident = max(spilled, state.spilled_bytes), max(resident, state.resident_bytes)
    assert state.pending_rows == 0
    state.close()
    return sorted(tuple(row.values()) for row in results), spilled, resident


def test_most_of_what_waits_is_on_disk_and_results_are_the_same(tmp_path):
    want, nothing, _ = run(None, tmp_path, 0)
    got, spilled, resident = run(128 * 1024, tmp_path, 0)
    assert nothing == 0
    assert len(want) == 12_000
    assert got == want
    assert spilled > 64 * 1024
    assert resident < 256 * 1024
    by_key = sorted((who, n, at) for who, at, _, n in got)
    assert [at for _, _, at in by_key] == [at for _, at, _ in sorted((who, at, n) for who, n, at in by_key)]
