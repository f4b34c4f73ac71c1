"""No JIT pause on the row path: after `warm_up` nothing is compiled any more, whatever rows and states come."""

import os
import pickle
import pkgutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest

import evenflow.operators
from evenflow.operators.aggregates import functions, rolling
from evenflow.operators.aggregates.distinct import DistinctCount
from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.aggregates.several import Aggregates
from evenflow.operators.hosted import Hosted
from evenflow.operators.joins.join import WindowJoin
from evenflow.operators.joins.sided_join import SIDE, SidedJoin

pytestmark = pytest.mark.slow

ROWS = pa.schema(
    {
        "v": pa.float64(),
        "t": pa.timestamp("us"),
        "tag": pa.string(),
        "xxhash64(v)": pa.int64(),
        "n": pa.int64(),
        "d": pa.decimal128(30, 2),
        SIDE: pa.int32(),
    }
)
AGGREGATES = [kind for kind in vars(rolling).values() if isinstance(kind, type) and getattr(kind, "name", "")]
ROLLING = [kind for kind in AGGREGATES if issubclass(kind, rolling.Rolling)]
SEVERAL = {
    "rows": functions.count(),
    "top": functions.max("tag"),
    "var": functions.variance("v"),
    "first": functions.first("d"),
    "last": functions.last("tag", ignorenulls=True),
    "distinct": functions.count_distinct("v"),
}


def operators():
    yield from (kind("v", rows=5) for kind in ROLLING)
    yield from (kind("v", seconds=2.0, time="t") for kind in ROLLING)
    yield from (kind("v") for kind in AGGREGATES if kind not in ROLLING)
    yield rolling.RollingSum("n", rows=5)
    yield rolling.RollingMean("d", seconds=2.0, time="t")
    yield rolling.RunningMean("d")
    yield LastValue("v")
    yield DistinctCount("v")
    for window in ({}, {"rows": 5}, {"seconds": 2.0, "time": "t"}):
        yield Aggregates(SEVERAL, **window)
    yield WindowJoin("tag", "a", "b", rows=3)
    yield WindowJoin("tag", "a", "b", seconds=2.0, time="t")
    yield SidedJoin(ROWS, {"v": "v"}, {"tag": "tag"}, last=3)
    yield SidedJoin(ROWS, {"v": "v"}, {"tag": "tag"}, span=2_000_000, time="t")


def compiled_functions():
    for found in pkgutil.walk_packages(evenflow.operators.__path__, "evenflow.operators."):
        module = import_module(found.name)
        yield from (value for value in vars(module).values() if hasattr(value, "signatures"))


def signatures():
    return {function.__qualname__: list(function.signatures) for function in compiled_functions()}


def batch(random, count, nulls):
    values = pa.array(random.normal(size=count), mask=random.random(count) < 0.3 if nulls else None)
    times = pa.array(np.sort(random.integers(0, 10**7, count)), pa.timestamp("us"))
    tags = pa.array(random.choice(["a", "b"], count))
    hashes = pa.array(random.integers(0, 9, count))
    exact = [hashes, values.cast(pa.decimal128(30, 2), safe=False)]
    sides = pa.array(random.integers(0, 2, count), pa.int32())
    return pa.RecordBatch.from_arrays([values, times, tags, hashes, *exact, sides], schema=ROWS)


def work(operator):
    """All that happens to an operator on a worker: frames off the wire, units in and out, sizes."""
    random = np.random.default_rng(1)
    for count, nulls in ((1, False), (300, True), (0, False), (2_000, False)):
        rows = pa.ipc.read_record_batch(pa.py_buffer(bytearray(batch(random, count, nulls).serialize())), ROWS)
        keys = random.integers(-(2**63), 2**63 - 1, 200)[random.integers(0, 200, count)]
        operator.process(rows, (keys % 16).astype(np.int32), keys)
        for unit in range(0, 16, 3):
            buffers = []
            body = pickle.dumps(operator.extract(unit), protocol=5, buffer_callback=buffers.append)
            state = pickle.loads(body, buffers=[bytearray(buffer.raw()) for buffer in buffers])
            if state is not None:
                operator.install(unit, state)
        operator.sizes(np.arange(16, dtype=np.int32))
        operator.snapshot(1)


def compiles(operator):
    """What is compiled although the operator has been warmed up."""
    reads = list(operator.reads(ROWS)) if operator.adds else ROWS.names
    seen = pa.schema([ROWS.field(name) for name in ROWS.names if name in reads])
    Hosted(operator, seen, seen, 16).warm_up()
    before = signatures()
    work(operator)
    return {name: found for name, found in signatures().items() if found != before[name]}


def each_alone():
    """Try each operator in a process of its own: what one has compiled must not help another."""
    list(compiled_functions())
    for operator in operators():
        if not os.fork():
            found = compiles(operator)
            print(f"{type(operator).__name__} {vars(operator).get('rows')} {found or 'fine'}", flush=True)
            os._exit(0)
        os.wait()


def test_nothing_is_compiled_after_the_warm_up():
    command = [sys.executable, "-c", "from tests.unit.test_operators_warm import each_alone; each_alone()"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == len(list(operators()))
    assert [line for line in told if not line.endswith(" fine")] == []
