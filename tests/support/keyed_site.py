"""A worker's keyed server alone: its messages and parcels are noted, nothing is sent."""

import queue
import time
from dataclasses import dataclass

import pyarrow as pa

from evenflow.model.messages import MoveReport, SendUnits
from evenflow.model.tickets import ticket
from evenflow.operators.hosted import Hosted
from evenflow.runtime.worker.assembly import keyed_server
from evenflow.runtime.worker.moves.direct_transfer import Parcel
from evenflow.runtime.worker.rows.instances import Instances
from tests.support.keyed_rig import OUT, ROWS, Nth

KEY = "every worker's here"
UNITS = 9
"""Key k is in unit k mod 8."""


class Courier:
    """A direct transfer that only notes what it is to send."""

    def __init__(self):
        self.inbox = queue.SimpleQueue()
        self.sent = []
        self.key = KEY

    def send(self, parcel):
        self.sent.append(parcel)


class NoGraphs:
    """Stands in for the rows of graphs: there are none."""

    def flush(self, _move, _region):
        return False

    def take_rows(self, _region, _units):
        return []

    def keep_rows(self, _region, _move, _units, _rows):
        return False


NOTHING = {
    "give": lambda _answers: None,
    "graph_rows": NoGraphs(),
    "checkpointer": None,
    "store_transfer": None,
    "loader": None,
    "clock": time.perf_counter,
}


@dataclass
class Site:
    """A keyed server alone."""

    operator: Nth
    units: int = UNITS

    def __post_init__(self):
        self.told = []
        self.given = []
        """Answers that came later than their rows."""
        self.courier = Courier()
        self.code = Hosted(self.operator, pa.schema([ROWS.field(0)]), OUT, self.units)
        self.use_store(None)

    def use_store(self, transfer):
        """Have a server that moves units by way of a store, too."""
        self.server = self.made(store_transfer=transfer)

    def made(self, **parts):
        """A server with some parts of a worker, and without the others."""
        own = {"tell": self.told.append, "code": lambda _name: self.code, "direct_transfer": self.courier}
        return keyed_server(**{**NOTHING, "instances": Instances(), **own, **parts})

    def use_memory(self, budget):
        """Have a server whose state may take so many bytes of memory; its clock is `seconds`."""
        self.seconds = 0.0
        self.instances = Instances(budget, lambda: self.seconds)
        self.server = self.made(instances=self.instances, clock=lambda: self.seconds, give=self.given.extend)

    def open(self, region="r"):
        self.server.open(region, "op", self.units, 0.0, 0.0)

    def leave(self, region="r"):
        self.server.leave(region, 0.0, 0.0)

    def feed(self, *keys, evaluation="query q", region="r"):
        """The numbers that Nth gives these keys; without those of units on disk, which come later."""
        arrays = [pa.array(range(len(keys)), pa.int64()), pa.array(keys, pa.int64())]
        answers = self.server.process(region, evaluation, pa.RecordBatch.from_arrays(arrays, schema=ROWS))
        return [number for answer in answers for number in answer.batch.column(2).to_pylist()]

    def say(self, order):
        self.server.obey(order)

    def move(self, move, units, feeders=(), region="r", evaluations=("query q",), store=False):
        announced = ticket(KEY, move, region, 0, units, evaluations)
        to = (1, "h", 1, tuple(feeders), tuple(evaluations), announced, store)
        self.say(SendUnits(move, region, tuple(units), 0, *to))

    def take(self, parcel):
        """Have a parcel brought."""
        self.courier.inbox.put(Parcel(parcel.move, parcel.parts))
        self.server.collect()

    def outcomes(self):
        moves = [each for each in self.told if isinstance(each, MoveReport)]
        return [(each.move, each.outcome) for each in moves if each.outcome != "quiet"]
