"""Binds a graph to the columns of its inputs: types flow from sources to endpoints, and everything gets a number."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import pyarrow as pa

from evenflow.errors import InvalidArgument, nearest
from evenflow.graph.build.builder import Graph, Stream, ancestors, endpoint_named
from evenflow.graph.build.dialect import Dialect, SchemaOf
from evenflow.graph.build.fusing import FusedNode, fused_of
from evenflow.graph.build.plan import EndpointPlan, GraphPlan, NodePlan, PortPlan, StreamPlan
from evenflow.graph.build.verbs import DetectSpec, FilterSpec, JoinSpec, KeyedSpec, MapSpec
from evenflow.graph.nodes.detecting import bind_detect
from evenflow.graph.nodes.filtering import FilterNode, condition_of
from evenflow.graph.nodes.filters import Filters
from evenflow.graph.nodes.joining import bind_join
from evenflow.graph.nodes.keying import bind_keyed
from evenflow.graph.nodes.mapping import bind_map
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.graph.nodes.ordering import OrderNode


def bind(
    graph: Graph,
    inputs: Mapping[str, pa.Schema],
    *,
    endpoints: Sequence[str] | None = None,
    schema_of: SchemaOf | None = None,
    case_sensitive: bool = False,
    ansi: bool = True,
    extension_integers: bool = False,
) -> GraphPlan:
    """The plan of a graph whose sources have the columns in `inputs`.

    With `endpoints`, only what these need. `schema_of` makes an Arrow schema of the schemas that maps and keyed
    operators declare; `case_sensitive`, `ansi` and `extension_integers` are those of Spark's session. Nodes that
    no endpoint of the graph needs are left out, with a warning.
    """
    if not isinstance(graph, Graph):
        raise InvalidArgument(f"the graph is {graph!r:.100}: give an evenflow.Graph")
    wanted = _endpoints(graph, endpoints)
    alive = ancestors(wanted.values())
    _check_inputs(graph, inputs, alive)
    unread = graph.unread()
    if unread:
        warnings.warn(
            f"graph {graph.name!r}: nothing reads {', '.join(map(repr, unread))}, so it is left out. Give it an "
            "endpoint, or do not build it",
            stacklevel=2,
        )
    numbering = _Numbering(graph, inputs, alive, Dialect(schema_of, case_sensitive, ansi, extension_integers))
    for fused in fused_of(graph, alive, set(wanted.values())):
        numbering.add(fused)
    return numbering.plan(wanted)


class _Numbering:
    """Gives numbers to streams, ports and units, one node after the other."""

    def __init__(self, graph: Graph, inputs: Mapping[str, pa.Schema], alive: set[Stream], dialect: Dialect) -> None:
        self._dialect = dialect
        sources = [stream for stream in graph.sources if stream in alive]
        self._numbers = {stream: number for number, stream in enumerate(sources)}
        self._schemas = [inputs[stream.name] for stream in sources]
        self._names = [stream.name for stream in sources]
        self._sources = len(sources)
        self._ports: list[PortPlan] = []
        self._nodes: list[NodePlan] = []
        self._units = 0

    def add(self, fused: FusedNode) -> None:
        """Add the next node; the streams that it reads have numbers already."""
        reads = [self._numbers[stream] for stream in fused.inputs]
        operator, schema = self._bound(fused, reads)
        stream = self._numbers[fused.last] = self._append(fused.name, operator, reads, schema)

        if operator.lanes:
            self._append(f"{fused.name} order", OrderNode(), [stream], schema)
            self._numbers[fused.last] = stream + 1

    def _append(self, name: str, operator: NodeOperator, reads: list[int], schema: pa.Schema) -> int:
        """Add a node that reads these streams; the number of the stream that it gives."""
        ports = range(len(self._ports), len(self._ports) + len(reads))
        self._ports += [PortPlan(len(self._nodes), side, stream) for side, stream in enumerate(reads)]
        self._nodes.append(NodePlan(name, operator, tuple(ports), len(self._schemas), self._units))
        self._units += operator.units
        self._schemas.append(schema)
        self._names.append(name)
        return len(self._schemas) - 1

    def _bound(self, fused: FusedNode, reads: list[int]) -> tuple[NodeOperator, pa.Schema]:
        name, rows, dialect = fused.name, self._schemas[reads[0]], self._dialect
        match fused.last.spec:
            case FilterSpec():
                source = self._names[reads[0]]
                found = [condition_of(each.name, _filter(each), source, rows, dialect) for each in fused.streams]
                return FilterNode(found[0]) if len(found) == 1 else Filters(found), rows
            case MapSpec() as spec:
                return bind_map(name, spec, rows, dialect)
            case KeyedSpec() as spec:
                return bind_keyed(name, spec, rows, dialect)
            case DetectSpec() as spec:
                return bind_detect(name, spec, rows, dialect)
            case JoinSpec() as spec:
                return bind_join(name, spec, rows, self._schemas[reads[1]], dialect)
        raise AssertionError(fused.last)

    def plan(self, wanted: Mapping[str, Stream]) -> GraphPlan:
        ends = [EndpointPlan(name, self._numbers[stream]) for name, stream in wanted.items()]
        streams = [
            StreamPlan(
                self._names[number],
                schema,
                tuple(place for place, port in enumerate(self._ports) if port.stream == number),
                tuple(place for place, end in enumerate(ends) if end.stream == number),
            )
            for number, schema in enumerate(self._schemas)
        ]
        sources = tuple(self._names[: self._sources])
        return GraphPlan(sources, tuple(streams), tuple(self._ports), tuple(self._nodes), tuple(ends))


def _filter(stream: Stream) -> FilterSpec:
    assert isinstance(stream.spec, FilterSpec)
    return stream.spec


def _endpoints(graph: Graph, endpoints: Sequence[str] | None) -> dict[str, Stream]:
    """The streams of the endpoints that are wanted, by name."""
    if not graph.endpoints:
        raise InvalidArgument(f"graph {graph.name!r} has no endpoint: say what leaves it, by g.endpoint(name, stream)")
    if endpoints is None:
        return dict(graph.endpoints)
    names = [endpoints] if isinstance(endpoints, str) else list(endpoints)
    if not names:
        raise InvalidArgument(f"endpoints is empty; {nearest('', graph.endpoints)}: leave it out for all of them")
    return {name: endpoint_named(graph, name) for name in names}


def _check_inputs(graph: Graph, inputs: object, alive: set[Stream]) -> None:
    """Refuse inputs that are no schemas, that no source takes, or that are missing."""
    if not isinstance(inputs, Mapping):
        raise InvalidArgument(f"inputs={inputs!r:.100}: give the input of each source by the source's name")
    known = [stream.name for stream in graph.sources]
    strange = [name for name in inputs if name not in known]
    if strange:
        raise InvalidArgument(
            f"inputs has {', '.join(map(repr, strange))}, and the graph has no such source; "
            f"{nearest(str(strange[0]), known)}"
        )
    missing = [stream.name for stream in graph.sources if stream in alive and stream.name not in inputs]
    if missing:
        raise InvalidArgument(f"inputs does not have {', '.join(map(repr, missing))}: give an input for each source")
    for name, schema in inputs.items():
        if not isinstance(schema, pa.Schema):
            raise InvalidArgument(f"input {name!r} is {schema!r:.100}: give its columns as a pyarrow.Schema")
        if not len(schema):
            raise InvalidArgument(f"input {name!r} has no columns: give it at least one")
        twice = [column for column in schema.names if schema.names.count(column) > 1]
        if twice:
            raise InvalidArgument(f"input {name!r} has two columns '{twice[0]}': rename one of them")
