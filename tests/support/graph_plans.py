"""Random graphs for the simulated world: chains, diamonds, shared results, keyed operators and joins."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.graph.plan import EndpointPlan, GraphPlan, NodePlan, PortPlan, StreamPlan
from tests.support.graph_nodes import SCHEMA, Collect, Keep, Mark, Pairs

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
        made.streams = [Stream(f"source{number}") for number in range(made.sources)]
        for number in range(rng.choice((1, 2, 3, 5, 7))):
            made._add(rng, f"node{number}", fails)
        last = [number for number, stream in enumerate(made.streams) if not stream.read]
        others = [number for number in range(len(made.streams)) if number not in last and rng.random() < 0.2]
        made.endpoints = [*last, *others]
        return made

    def _add(self, rng, name, fails):
        """One node more, most often behind the last ones."""
        choices = range(len(self.streams))
        some = [rng.choice(choices[-3:] if rng.random() < 0.7 else choices) for _ in range(2)]
        kind = rng.choice(("keep", "keep", "mark", "mark", "merge", "collect", "collect", "pairs", "pairs"))
        weights = [self.streams[number].weight for number in some]
        if kind == "pairs" and max(weights) > HEAVY:
            kind = "collect"
        reads = some if kind in ("merge", "pairs") else some[:1]
        units = rng.choice((1, SPREAD + 1)) if kind in ("collect", "pairs") else 1
        times = rng.choice((1, 1, 2)) if max(weights[: len(reads)]) <= HEAVY else 1
        least, fragile = rng.choice((2, 3, 5)), fails(units) if kind in ("collect", "pairs") else None
        make = {
            "keep": lambda place: Keep(name, place, least),
            "mark": lambda place: Mark(name, place, times),
            "merge": lambda place: Mark(name, place, 1),
            "collect": lambda place: Collect(name, place, units, fragile),
            "pairs": lambda place: Pairs(name, place, units, fragile),
        }[kind]
        self.nodes.append((name, make, reads))
        weight = {"mark": weights[0] * times, "merge": sum(weights), "pairs": 10.0}.get(kind, weights[0])
        orderly = kind in ("keep", "mark", "collect") and units == 1 and self.streams[reads[0]].orderly
        for number in reads:
            self.streams[number].read = True
        self.streams.append(Stream(name, weight, orderly))

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
        """A batch as Spark gives it to the task with this number: see `runtime.feeder.graph_feed`."""
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
