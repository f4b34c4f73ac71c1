"""A keyed operator on the rig: an operator in plain Python, rows with units and keys, feeders as different tasks."""

import itertools
import time
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from evenflow.control.events import RegionOpenedEvent
from evenflow.model import MoveUnits
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator
from evenflow.policy import Hash
from evenflow.runtime.feeder.keyed.feed import KeyedFeed
from evenflow.runtime.feeder.keyed.feeder import KeyedFeeder
from evenflow.runtime.feeder.task import Environment
from tests.support.rig import PATIENCE_S

UNITS = 16
ROWS = pa.schema([("id", pa.int64()), ("__evenflow_key", pa.int64())])
OUT = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("nth", pa.int64())])
"""What Nth returns: the how manieth row of its key each row is."""


@dataclass
class Nth(KeyedOperator):
    """Counts the rows of each key: any row lost, doubled or applied to the wrong copy shows in the numbers after it."""

    padding: int = 0

    def __post_init__(self):
        self.counts = {}

    def process(self, rows, units, keys):
        nth = []
        for unit, key in zip(units.tolist(), keys.tolist(), strict=True):
            counts = self.counts.setdefault(unit, {})
            counts[key] = counts.get(key, 0) + 1
            nth.append(counts[key])
        return pa.RecordBatch.from_arrays([rows.column(0), pa.array(keys), pa.array(nth, pa.int64())], schema=OUT)

    def extract(self, unit):
        counts = self.counts.pop(unit, None)
        return None if counts is None else (counts, bytes(self.padding))

    def install(self, unit, state):
        assert unit not in self.counts, f"unit {unit} is here already"
        self.counts[unit] = state[0]

    def size(self, unit):
        return len(self.counts.get(unit, ())) * 100 + self.padding


def rows(count, keys=50, size=100, seed=0, start=0):
    """Batches of rows: key k is in unit k mod UNITS."""
    drawn = np.random.default_rng(seed).integers(0, keys, count)
    for at in range(0, count, size):
        part = drawn[at : at + size]
        ids = np.arange(start + at, start + at + len(part))
        yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array(part)], schema=ROWS)


def numbered(batches, partition):
    """The batches as they come from Spark: the partition is their last column."""
    for batch in batches:
        yield batch.append_column("__evenflow_partition", pa.array(np.full(batch.num_rows, partition, np.int32)))


class Keyed:
    """One keyed operator on a rig."""

    _numbers = itertools.count(1)

    def __init__(self, rig, operator=None, *, balance=None, ordered=False, schema=OUT, **feed):
        self.rig = rig
        number = next(self._numbers)
        self.region = f"keyed-{number}"
        balance = balance or Hash()
        code = cloudpickle.dumps(Hosted(operator or Nth(), pa.schema([ROWS.field(0)]), schema, UNITS + 1))
        rig.driver.add_code(f"keyed-op{number}", code)
        rig.driver.open_region(
            RegionOpenedEvent(rig.driver.now(), self.region, f"keyed-op{number}", balance, UNITS + 1)
        )
        encoded = schema.serialize().to_pybytes()
        self.feed = KeyedFeed(
            rig.settings, self.region, f"keyed-op{number}", encoded, balance.by_content, ordered, tuple(ROWS.names),
            choices=getattr(balance, "choices", 0), **feed,
        )  # fmt: skip

    def run(self, batches, partition=0, epoch=0, query="", stage="1", attempt=0):
        """One task over some batches; its result."""
        identity = {"partition": partition, "attempt": attempt, "query": query, "epoch": epoch, "stage": stage}
        feed = replace(self.feed, streaming=bool(query))
        return list(KeyedFeeder(feed, Environment(identity=lambda: identity)).serve(numbered(batches, partition)))

    def table(self):
        return self.known().movements.table

    def known(self):
        return self.rig.driver.ask(lambda controller: controller.region(self.region))

    def move(self, units, target):
        """Ask for units to go to a worker."""
        owners = self.table().owners
        for source in sorted({int(owners[unit]) for unit in units} - {target}):
            mine = tuple(unit for unit in units if owners[unit] == source)
            self.rig.driver.move(MoveUnits(self.region, mine, source, target, "a test"))


class Flow:
    """Rows that do not end before something has happened; how many there were."""

    def __init__(self, make, happened, least=10_000, pause_s=0.002):
        self.make, self.happened, self.least, self.pause_s = make, happened, least, pause_s
        self.count = 0

    def __iter__(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.count < self.least or not self.happened():
            assert time.monotonic() < deadline, "it did not happen"
            for batch in self.make(2_000, start=self.count):
                time.sleep(self.pause_s)
                yield batch
            self.count += 2_000


def check(batches, count, start=0):
    """Every row once, each key's numbers 1, 2, 3, ... in the order of its rows."""
    table = pa.Table.from_batches(batches, OUT)
    ids, keys, nth = (table.column(name).to_numpy() for name in OUT.names)
    assert sorted(ids) == list(range(start, start + count))
    for key in np.unique(keys):
        mine = keys == key
        assert (np.diff(ids[mine]) > 0).all(), f"rows of key {key} changed their order"
        assert nth[mine].tolist() == list(range(int(nth[mine][0]), int(nth[mine][0]) + int(mine.sum())))
    return {int(key): int(nth[keys == key].max()) for key in np.unique(keys)}
