"""The ordered region end to end: all rows, in order, whatever the workers do."""

import random
import threading
import time
from types import SimpleNamespace
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evenflow.errors import ClusterStopped
from evenflow.model.routing import Splitting
from evenflow.runtime.feeder.ordered.merge import OrderedMerge
from evenflow.runtime.feeder.ordered.splitter import FeederLimits, OrderedSplitter
from evenflow.runtime.wire import channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.rows import codec as bodies
from evenflow.testing import Emulate
from tests.support.rig import IDS, PATIENCE_S, Even, Impostor, batches, ids, until

MODES = {mode: type(f"Even_{mode}", (Even,), {"splitting": mode}) for mode in get_args(Splitting)}
"""Every splitter must pass the same tests."""


@pytest.fixture(params=MODES)
def balance(request):
    return MODES[request.param]()


def identity(batch):
    return batch


def uneven(batch):
    """Takes its time, a different one each call."""
    time.sleep(random.random() * 0.003)
    return batch


def table(*batches):
    return pa.Table.from_batches(batches, IDS)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_identity(rig, balance, workers):
    rows = batches(20_000, 1000)
    assert rig(workers).map(identity, rows, balance=balance) == table(*rows)


@pytest.mark.parametrize("size", [1, 7, 100_000], ids=lambda size: f"batches of {size}")
def test_batches_of_any_size(rig, size):
    rows = batches(1000 if size < 10 else 300_000, size)
    assert rig(3).map(identity, rows) == table(*rows)


def test_workers_of_uneven_pace(rig, balance):
    rows = batches(5_000, 50)
    assert rig(4).map(uneven, rows, balance=balance) == table(*rows)


def test_emulated_slow_worker(rig, balance):
    rows = batches(3_000, 500)
    emulate = Emulate(cost_us=20, slowdown={0: 50})
    made = rig(3, emulate=emulate)
    assert made.map(identity, rows, balance=balance) == table(*rows)
    region = made.driver.ask(lambda controller: controller.region("r1"))
    until(lambda: sum(region.performance.total.latencies.rows.values()) == 3_000, "the last report")
    assert region.performance.total.rows_in == 3_000


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], 0),
        ([ids(0, 0)], 0),
        ([ids(0, 0), ids(0, 1), ids(1, 1)], 1),
        ([ids(0, 1)], 1),
        ([ids(0, 3), ids(3, 3), ids(3, 5)], 5),
    ],
    ids=["nothing", "an empty batch", "one row among empty batches", "one row", "a gap"],
)
def test_little_input(rig, rows, expected):
    assert rig(2).map(identity, rows)["id"].to_pylist() == list(range(expected))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda b: b.filter(pc.equal(pc.bit_wise_and(b["id"], 1), 0)), [i for i in range(3000) if i % 2 == 0]),
        (lambda b: b.slice(0, 0), []),
        (lambda b: pa.Table.from_batches([b.take([i // 3 for i in range(3 * len(b))])]), [i // 3 for i in range(9000)]),
    ],
    ids=["drops rows", "drops all rows", "adds rows"],
)
def test_functions_that_change_the_number_of_rows(rig, function, expected):
    assert rig(3).map(function, batches(3000, 250))["id"].to_pylist() == expected


def test_pandas(rig):
    schema = pa.schema([("id", pa.int64()), ("half", pa.float64())])
    made = rig(2).map(lambda data: data.assign(half=data.id / 2), batches(500, 100), schema, form="pandas")
    assert made.to_pydict() == {"id": list(range(500)), "half": [number / 2 for number in range(500)]}


def test_two_feeders_at_once(rig):
    cluster = rig(2)
    feed = cluster.feed(uneven)
    outputs = {}

    def run(name, rows):
        outputs[name] = table(*feed(iter(rows)))

    inputs = {
        name: [ids(name * 10_000 + start, name * 10_000 + start + 50) for start in range(0, 2000, 50)]
        for name in range(3)
    }
    threads = [threading.Thread(target=run, args=item) for item in inputs.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert outputs == {name: table(*rows) for name, rows in inputs.items()}


def test_one_cluster_many_regions(rig):
    cluster = rig(2)
    for factor in range(1, 25):  # more operators than a worker keeps loaded
        made = cluster.map(lambda b, f=factor: b.set_column(0, "id", pc.multiply(b["id"], f)), batches(20, 10))
        assert made["id"].to_pylist() == [number * factor for number in range(20)]


def test_a_task_that_takes_only_some_rows(rig):
    cluster = rig(2)
    feed = cluster.feed(identity)(iter(batches(100_000, 1000)))
    first = next(feed)
    feed.close()  # Spark does this when a limit is reached
    assert first["id"][0].as_py() == 0
    assert cluster.map(identity, batches(100, 10)).num_rows == 100


# -- blocking time


def test_blocking_is_no_more_than_the_time_that_passes(rig):
    """Frames above the socket buffers: three workers stop to read, all sockets are full, one is waited for."""
    cluster, rows = rig(3, start=False), batches(60, 60, blobs(1024 * 1024))
    answered = dict.fromkeys(range(3), 0)

    def answer(worker):
        def echo(feeder, frame):
            answered[worker] += 1
            feeder.send(Frame(Kind.RESULT, frame.body, frame.sequence, micros=5000))
            feeder.reading = answered[worker] < 4

        return echo

    for worker in range(3):
        Impostor(cluster, worker, answer(worker))
    cluster.await_live(3)
    feed, ended = cluster.feed(identity, rows[0].schema), []

    def run():
        try:
            list(feed(iter(rows)))
        except ClusterStopped as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def figures():
        return [(s["feeding_s"], sum(c["blocked_s"] for c in s["connections"])) for s in cluster.events("sample")]

    until(lambda: figures() and figures()[-1][1] > 0.5, "blocking")
    cluster.close()
    thread.join(PATIENCE_S)
    assert ended
    assert all(blocked <= feeding for feeding, blocked in figures())


# -- large things


def wide(start, stop):
    return pa.RecordBatch.from_pydict({f"c{n}": [f"{n}.{row}" for row in range(start, stop)] for n in range(300)})


def test_wide_rows(rig):
    rows = batches(200, 50, wide)
    schema = rows[0].schema
    assert rig(2).map(identity, rows, schema) == pa.Table.from_batches(rows)


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.struct([("x", pa.float64()), ("when", pa.timestamp("us", "UTC"))]))),
        ("map", pa.map_(pa.string(), pa.binary())),
        ("price", pa.decimal128(20, 4)),
    ]
)


def nested(start, stop):
    rows = [
        {
            "id": row,
            "text": None if row % 3 else "ü" * (row % 50),
            "list": None if row % 5 == 0 else [{"x": row / 2, "when": row}] * (row % 4),
            "map": [(str(key), bytes(key)) for key in range(row % 3)],
            "price": row,
        }
        for row in range(start, stop)
    ]
    return pa.RecordBatch.from_pylist(rows, NESTED)


def test_nested_rows(rig):
    rows = batches(600, 100, nested)
    assert rig(3).map(identity, rows, NESTED) == pa.Table.from_batches(rows)


def blobs(size):
    def make(start, stop):
        return pa.RecordBatch.from_pydict(
            {"id": range(start, stop), "blob": [bytes([n % 256]) * size for n in range(start, stop)]}
        )

    return make


def test_rows_larger_than_a_frame(rig):
    rows = batches(12, 5, blobs(3 * 1024 * 1024))
    assert rig(2).map(identity, rows, rows[0].schema) == pa.Table.from_batches(rows)


def test_large_results_arrive_in_parts(rig, monkeypatch):
    monkeypatch.setattr(bodies, "RESULT_BYTES", 10_000)
    parts = recorded(monkeypatch).parts
    rows = batches(400, 100)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    made = rig(2).map(lambda b: b.append_column("text", pa.array(["x" * 1000] * len(b))), rows, schema)
    assert made["id"].to_pylist() == list(range(400))
    assert pc.all(pc.equal(made["text"], "x" * 1000)).as_py()
    assert max(parts) <= 12_000
    assert len(parts) >= 400 * 1000 / 12_000


# -- bounds


def recorded(monkeypatch):
    """Note the sizes of parts of answers, what the merge holds after each, and the rows that are under way."""
    seen = SimpleNamespace(parts=[], held=[], rows_under_way=[0])
    add, split, answered = OrderedMerge.add, OrderedSplitter.add, OrderedSplitter.answered

    def added(self, owner, sequence, part, size, last):
        first = add(self, owner, sequence, part, size, last)
        seen.parts.append(size)
        seen.held.append(self.held_bytes)
        return first

    def sent(self, batch):
        seen.rows_under_way.append(seen.rows_under_way[-1] + batch.num_rows)
        return split(self, batch)

    def finished(self, link, sequence, seconds):
        span = self.unanswered(sequence)
        seen.rows_under_way.append(seen.rows_under_way[-1] - (0 if span is None else span.rows))
        answered(self, link, sequence, seconds)

    monkeypatch.setattr(OrderedMerge, "add", added)
    monkeypatch.setattr(OrderedSplitter, "add", sent)
    monkeypatch.setattr(OrderedSplitter, "answered", finished)
    return seen


def dawdle(batch):
    time.sleep(0.005)
    return batch


BLOB = 4096
ROWS = 16
"""Rows a frame, so that its result takes ROWS * BLOB bytes."""
BLOBS = pa.schema([("id", pa.int64()), ("blob", pa.binary())])


def inflate(batch):
    """A little in, a lot out; the first worker is slow, so the others' results pile up behind its."""
    if threading.current_thread().name == "worker-0":
        time.sleep(0.01)
    return batch.append_column("blob", pa.array([bytes(BLOB)] * len(batch)))


def test_reorder_buffer_is_bounded(rig, balance, monkeypatch):
    bound = 4 * ROWS * BLOB
    monkeypatch.setattr(channel, "READ_BYTES", 1)
    held = recorded(monkeypatch).held
    limits = FeederLimits(reorder_bytes=bound, frame_bytes=8 * ROWS)
    made = rig(4).map(inflate, batches(2000, 500), BLOBS, balance=balance, limits=limits)
    assert made["id"].to_pylist() == list(range(2000))
    assert bound <= max(held) <= bound + 3 * 1.1 * ROWS * BLOB  # the last one in, and who everybody waits for


def test_window_is_bounded(rig, balance, monkeypatch):
    bound = 2 * ROWS * BLOB
    under_way = recorded(monkeypatch).rows_under_way
    rows = batches(2000, 500, blobs(BLOB))
    limits = FeederLimits(window_bytes=bound, frame_bytes=BLOB * ROWS)
    made = rig(4).map(dawdle, rows, rows[0].schema, balance=balance, limits=limits)
    assert made == pa.Table.from_batches(rows)
    assert max(under_way) * BLOB <= bound + ROWS * BLOB
