"""Random graphs for the simulated world: chains, diamonds, shared results, keyed operators and joins."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.graph.build.plan import EndpointPlan, GraphPlan, NodePlan, PortPlan, StreamPlan
from evenflow.graph.nodes.ordering import OrderNode
from tests.support.graph_nodes import SCHEMA, Collect, Keep, Lanes, Mark, Number, Pairs

SPREAD = 4
"""Units of a spread operator, without that of null keys."""
HEAVY = 2
"""Streams in which a row makes more than so many rows are not joined: results would be endless."""


@dataclass
class Stream:
    """One stream of a graph that is being drawn."""

    name: str
    weight: float = 1.0
    """Rows of it a source row, about."""
    orderly: bool = True
    """Whether rows of one task are in their order: between them and their source are only whole operators."""
    plain: bool = True
    """Whether these are filters and maps only: others may not be before an ordered map."""
    read: bool = False


@dataclass
class Sketch:
    """What a graph is made of, drawn once; plans are made of it for the engine and for a plain evaluation."""

    sources: int
    nodes: list = field(default_factory=list)
    """What makes each operator, and the streams it reads."""
    streams: list = field(default_factory=list)
    endpoints: list = field(default_factory=list)
    """Streams."""

    @classmethod
    def drawn(cls, rng, fails=lambda units: None):
        """A random graph; `fails` says whether a stateful operator of so many units is to fail now and then."""
        made = cls(rng.choice((1, 1, 2, 3)))
        for _ in range(rng.choice((1, 2, 3, 5, 7))):
            made._draw(rng, fails)
        return made.ended(lambda: rng.random() < 0.2)

    def __post_init__(self):
        self.streams = [Stream(f"source{number}") for number in range(self.sources)]

    def ended(self, also=lambda: False):
        """With an endpoint for every stream that nobody reads, and for others that are wanted, too."""
        last = [number for number, stream in enumerate(self.streams) if not stream.read]
        self.endpoints = [*last, *(number for number in range(len(self.streams)) if number not in last and also())]
        return self

    def _draw(self, rng, fails):
        """One node more, most often behind the last ones."""
        choices = range(len(self.streams))
        some = [rng.choice(choices[-3:] if rng.random() < 0.7 else choices) for _ in range(2)]
        kind = rng.choice(("keep", "keep", "mark", "lanes", "merge", "collect", "collect", "pairs", "pairs"))
        weights = [self.streams[number].weight for number in some]
        if kind == "lanes" and not self.streams[some[0]].plain:
            kind = "mark"
        if kind == "pairs" and max(weights) > HEAVY:
            kind = "collect"
        units = rng.choice((1, SPREAD + 1)) if kind in ("collect", "pairs") else 1
        times = rng.choice((1, 1, 2)) if max(weights) <= HEAVY else 1
        fragile = fails(units) if kind in ("collect", "pairs") else None
        reads = some if kind in ("merge", "pairs") else some[:1]
        self.add(kind, *reads, units=units, times=times, least=rng.choice((2, 3, 5)), fails=fragile)

    def add(self, kind, *reads, units=1, times=1, least=3, fails=None):
        """One node more, which reads these streams; the number of the stream that it gives."""
        name = f"node{len(self.nodes)}"
        make = {
            "keep": lambda place: Keep(name, place, least),
            "mark": lambda place: Mark(name, place, times),
            "merge": lambda place: Mark(name, place, 1),
            "lanes": lambda place: Lanes(name, place, times, SPREAD),
            "collect": lambda place: Collect(name, place, units, fails),
            "pairs": lambda place: Pairs(name, place, units, fails),
            "number": lambda place: Number(name, place, units, fails),
        }[kind]
        self.nodes.append((name, make, reads))
        weights = [self.streams[number].weight for number in reads]
        grown = {"mark": weights[0] * times, "lanes": weights[0] * times, "merge": sum(weights), "pairs": 10.0}
        first = self.streams[reads[0]]
        orderly = kind in ("keep", "mark", "collect") and units == 1 and first.orderly
        plain = kind in ("keep", "mark", "lanes") and first.plain
        for number in reads:
            self.streams[number].read = True
        self.streams.append(Stream(name, grown.get(kind, weights[0]), orderly, plain))
        if kind == "lanes":
            self.nodes.append((f"{name} order", lambda _place: OrderNode(), [len(self.streams) - 1]))
            self.streams[-1].read = True
            self.streams.append(Stream(f"{name} order", self.streams[-1].weight))
        return len(self.streams) - 1

    def plan(self, place=None):
        """The plan; operators take notes at `place`, or none."""
        ports, nodes, first = [], [], 0
        for number, (name, make, reads) in enumerate(self.nodes):
            mine = tuple(range(len(ports), len(ports) + len(reads)))
            ports += [PortPlan(number, side, stream) for side, stream in enumerate(reads)]
            nodes.append(NodePlan(name, make(place), mine, self.sources + number, first))
            first += nodes[-1].units
        streams = [
            StreamPlan(
                stream.name,
                SCHEMA,
                tuple(at for at, port in enumerate(ports) if port.stream == number),
                tuple(at for at, end in enumerate(self.endpoints) if end == number),
            )
            for number, stream in enumerate(self.streams)
        ]
        ends = tuple(EndpointPlan(f"end{at}", stream) for at, stream in enumerate(self.endpoints))
        names = tuple(stream.name for stream in self.streams[: self.sources])
        return GraphPlan(names, tuple(streams), tuple(ports), tuple(nodes), ends)

    # -- rows

    def source_rows(self, batch, task=0):
        """By source, the rows that a batch of ids and keys stands for."""
        ids, keys = (column.to_numpy() for column in batch.columns)
        which = (ids * 7919 // 13) % self.sources
        for source in range(self.sources):
            mine = which == source
            columns = [np.full(int(mine.sum()), task), ids[mine], keys[mine], ids[mine] * 31 + 1]
            yield source, pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)

    def spark_rows(self, batch, task, partition):
        """A batch as Spark gives it to the task with this number: see `runtime.feeder.graph.feed`."""
        number = pa.array(np.full(batch.num_rows, partition, np.int32))
        if self.sources == 1:
            (rows,) = (rows for _, rows in self.source_rows(batch, task))
            return rows.append_column("__evenflow_partition", number)
        ids = batch.column(0).to_numpy()
        which, columns = (ids * 7919 // 13) % self.sources, []
        whole = dict(Sketch(1).source_rows(batch, task))[0]
        for source in range(self.sources):
            columns.append(
                pa.StructArray.from_arrays(whole.columns, fields=list(SCHEMA), mask=pa.array(which != source))
            )
        names = ["which", *(f"c{source}" for source in range(self.sources)), "__evenflow_partition"]
        return pa.RecordBatch.from_arrays([pa.array(which.astype(np.int32)), *columns, number], names=names)


def chain(*kinds, **about):
    """Nodes one behind the other."""
    made = Sketch(1)
    for kind in kinds:
        made.add(kind, len(made.streams) - 1, **about)
    return made.ended()
