"""What tests of query logs and checkpointers share: a blob writer that only notes, an operator, rows."""

import pyarrow as pa

from evenflow.operators.keyed import KeyedOperator
from evenflow.runtime.worker.saving.blob_writer import PutOutcome
from evenflow.state.checkpoint.unit_snapshots import load_units, read_index
from evenflow.state.store.blob_names import parse

UNITS = 4
SCHEMA = pa.schema([("v", pa.int64())])


class FakeBlobWriter:
    """Notes what is to be put; `done` says what became of it."""

    def __init__(self, *_where):
        self.puts = []
        self.outcomes = []
        self.unsaved = 0

    def put(self, name, parts, about):
        self.puts.append((name, b"".join(bytes(part) for part in parts), about))

    def collect(self):
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def done(self, place=0, error=""):
        self.outcomes.append(PutOutcome(self.puts.pop(place)[2], error))

    def close(self):
        pass


class Sums(KeyedOperator):
    def __init__(self, **sums):
        self.sums = {int(unit[1:]): total for unit, total in sums.items()}

    def process(self, rows, units, keys):
        return rows

    def extract(self, unit):
        return self.sums.pop(unit, None)

    def install(self, unit, state):
        self.sums[unit] = state

    def size(self, unit):
        return 100


def rows(*values):
    return memoryview(pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA).serialize())


def saved(put):
    """The batch and the units of a snapshot, with their state."""
    name, content, about = put

    def get(start, length):
        return content[start : start + length]

    return parse(name).epoch, load_units(get, read_index(get, name).entries, name), about
