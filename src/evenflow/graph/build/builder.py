"""What a user builds: a graph of streams, each made from others by a verb, and endpoints where results leave.

    g = ef.Graph()
    ticks, news = g.source("ticks"), g.source("news")
    hot = ticks.filter("price > 100")
    means = hot.keyed("symbol", ef.RollingMean("price", rows=100))
    g.endpoint("alerts", means.join(news, on="symbol", rows=10))
    g.endpoint("audit", hot)

A verb reads streams that are there already, so a graph has no cycles, and the order in which streams were made is one
in which each comes behind those that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from evenflow.errors import InvalidArgument, extra, nearest
from evenflow.graph.build import verbs
from evenflow.graph.build.verbs import DetectSpec, FilterSpec, JoinSpec, KeyedSpec, MapSpec, Pair, Rules, Spec
from evenflow.graph.draw.layout import Sketch
from evenflow.model.given import with_known_keywords
from evenflow.operators.keyed import KeyedOperator
from evenflow.operators.map import BatchFunction, Input

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS = 256
"""Units of a keyed operator, unless told otherwise."""


class Stream:
    """Rows that flow in a graph: those of a source, or what a node makes of others. Its verbs add nodes that read it.

    A stream may be read by any number of nodes and endpoints. It never changes.
    """

    def __init__(self, graph: Graph, name: str, spec: Spec | None, inputs: tuple[Stream, ...]) -> None:
        self.graph, self.name, self.spec, self.inputs = graph, name, spec, inputs

    @property
    def kind(self) -> str:
        """What made it: source, filter, map, keyed, detect or join."""
        return "source" if self.spec is None else type(self.spec).__name__.removesuffix("Spec").lower()

    @property
    def detail(self) -> str:
        """What it is, for pictures, without what its name says already."""
        if self.spec is None:
            return self.kind
        said = re.fullmatch(rf"{self.kind}(-\d+)?", self.name)
        return str(self.spec) if said else f"{self.kind} {self.spec}"

    @with_known_keywords
    def filter(self, condition: str | BatchFunction, *, commutative: bool = False, name: str | None = None) -> Stream:
        """The rows for which `condition` holds.

        It is a SQL expression over the columns, such as "price > 100" (rows for which it is null are left out), or a
        function that takes a pyarrow.RecordBatch and returns a boolean for each row, or the rows to keep.

        `commutative=True` says that the filter may change places with its neighbours that say so too: such filters are
        applied in the order that costs least, by measured cost and selectivity, while rows flow.
        """
        return self.graph._add(name, FilterSpec(condition, commutative), self)

    @with_known_keywords
    def map(
        self,
        function: BatchFunction,
        schema: object,
        input: Input = "arrow",
        ordered: bool = False,
        *,
        name: str | None = None,
    ) -> Stream:
        """What `function` returns for batches of rows; `schema` has its columns, as DDL text or Spark's StructType.

        With `input="pandas"` it takes and returns pandas DataFrames. `ordered=True` makes it an ordered region: batches
        are shared among workers by what they can do, and results come in the order of the rows; only filters and maps
        may lie between the source and it.
        """
        spec = MapSpec(function, schema, input, ordered)
        if ordered:
            self._check_linear()
        return self.graph._add(name, spec, self)

    @with_known_keywords
    def keyed(
        self,
        key: str | Sequence[str],
        operator: KeyedOperator,
        schema: object = None,
        *,
        units: int = UNITS,
        name: str | None = None,
    ) -> Stream:
        """What a keyed operator returns, as with `Cluster.keyed`: rows of one key meet, keys are spread over `units`.

        The operator sees the rows of a key in the order of their arrival; its `on_time` and `on_end` are never called.
        `schema` is what it returns; ready-made operators know it.
        """
        return self.graph._add(name, KeyedSpec(verbs.key_of(key), operator, schema, units), self)

    @with_known_keywords
    def detect(
        self,
        rules: Rules,
        *,
        key: str | Sequence[str],
        functions: Mapping[str, Callable[..., object]] | None = None,
        variables: Mapping[str, object] | None = None,
        time: str | None = None,
        units: int = UNITS,
        name: str | None = None,
    ) -> Stream:
        """What rules detect in the rows of each key, as with `Cluster.detect` and `order="arrival"`.

        Rules see the rows of a key as they arrive, and may call the stream by any name. `time` is the column that
        windows in time and timers use; each key has its own time, and what ends by time ends with a row of its key.
        """
        return self.graph._add(name, DetectSpec(rules, verbs.key_of(key), functions, variables, time, units), self)

    @with_known_keywords
    def join(
        self,
        other: Stream,
        on: str | Sequence[str] | Sequence[Pair],
        *,
        rows: int | None = None,
        seconds: float | None = None,
        time: str | Pair | None = None,
        lateness: float = 0.0,
        units: int = 1,
        name: str | None = None,
    ) -> Stream:
        """Pairs of rows of this stream and `other` with equal `on` columns, whichever of the two comes later.

        A row is paired with the rows of its key from the other side that are still in the window, oldest first.
        `rows=n`: the last n rows of the key on that side. `seconds=s, time=column` (or a (left, right) pair): those
        whose time is less than s seconds from the row's. In a stream, a row stays in the window until both sides are so
        far, at the end of a micro-batch, that no row can come that is as near to it: rows of one side may be `lateness`
        seconds behind rows of earlier micro-batches. Rows that come later are counted, and warned of.

        `on` is a column, a list of columns, or a list of (left, right) pairs; null equals nothing. The result has the
        columns that `on` gives by one name once, then the others of the left side, then those of the right. `units`
        spreads the windows over workers by key.
        """
        if not isinstance(other, Stream):
            raise InvalidArgument(f"the other side of the join is {other!r:.100}: give a stream of the same graph")
        spec = JoinSpec(verbs.on_of(on), rows, seconds, verbs.time_of(time), units, lateness)
        return self.graph._add(name, spec, self, other)

    def _check_linear(self) -> None:
        """Refuse an ordered map behind anything but filters and maps."""
        stream: Stream = self
        while stream.inputs:
            if not isinstance(stream.spec, FilterSpec | MapSpec):
                raise InvalidArgument(
                    f"ordered=True behind {stream.kind} {stream.name!r}: rows that several workers give race there, so "
                    "there is no order to keep. Leave ordered=True out, or put the map before it"
                )
            (stream,) = stream.inputs

    def __repr__(self) -> str:
        inputs = ", ".join(stream.name for stream in self.inputs)
        return f"<{self.kind} {self.name!r}{f' of {inputs}' if inputs else ''}{f': {self.spec}' if self.spec else ''}>"


class Graph:
    """A graph of operators: sources, nodes that read from them and from each other, and endpoints."""

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            verbs.check_name("the graph", name)
        self.name = name or "graph"
        self._streams: dict[str, Stream] = {}
        self._endpoints: dict[str, Stream] = {}

    @property
    def sources(self) -> tuple[Stream, ...]:
        """The sources, in the order in which they were made."""
        return tuple(stream for stream in self._streams.values() if stream.spec is None)

    @property
    def nodes(self) -> tuple[Stream, ...]:
        """What the nodes give, in an order in which each node comes behind those that it reads from."""
        return tuple(stream for stream in self._streams.values() if stream.spec is not None)

    @property
    def endpoints(self) -> Mapping[str, Stream]:
        """The streams that leave the graph, by the name of their endpoint."""
        return dict(self._endpoints)

    def source(self, name: str) -> Stream:
        """A stream whose rows come from outside: from the DataFrame that `inputs` has by this name."""
        verbs.check_name("a source", name)
        self._check_free(name, "source")
        return self._keep(Stream(self, name, None, ()))

    def endpoint(self, name: str, stream: Stream | None = None) -> None:
        """Let the rows of a stream leave the graph, as the result of this name."""
        verbs.check_name("an endpoint", name)
        if not isinstance(stream, Stream):
            raise InvalidArgument(
                f"endpoint {name!r} is to give {stream!r:.100}: give a stream, as g.endpoint({name!r}, stream)"
            )
        self._check_own(stream, f"endpoint {name!r}")
        if name in self._endpoints:
            raise InvalidArgument(
                f"endpoint {name!r} gives {self._endpoints[name].name!r} already: give each endpoint another name"
            )
        self._endpoints[name] = stream

    def unread(self) -> tuple[str, ...]:
        """The names of nodes from which no way leads to an endpoint: they would work for nothing."""
        alive = ancestors(self._endpoints.values())
        return tuple(stream.name for stream in self.nodes if stream not in alive)

    def sketch(self) -> Sketch:
        """What pictures of the graph show."""
        streams = list(self._streams.values())
        place = {stream: number for number, stream in enumerate(streams)}
        boxes = [(stream.kind, stream.name, stream.detail) for stream in streams]
        edges = [(place[each], place[stream]) for stream in streams for each in stream.inputs]
        edges += [(place[stream], number) for number, stream in enumerate(self._endpoints.values(), len(boxes))]
        return Sketch((*boxes, *(("endpoint", name, "endpoint") for name in self._endpoints)), tuple(edges))

    def plot(self, path: str | PathLike[str] | None = None, placement: object = None) -> Figure:
        """Draw the graph, sources left and endpoints right; saved to `path`, by its ending, if that is given.

        `placement` colours nodes by the worker they are on: {node: worker, or list of workers}. A pair of placements is
        drawn side by side, as before and after.
        """
        with extra("plot", "Graph.plot"):
            from evenflow.graph.draw.drawing import plot  # matplotlib comes with it: only those who use it pay

        return plot(self.sketch(), path, placement)

    def _add(self, name: str | None, spec: Spec, *inputs: Stream) -> Stream:
        kind = type(spec).__name__.removesuffix("Spec").lower()
        if name is None:
            count, name = 1, kind
            while name in self._streams:
                count, name = count + 1, f"{kind}-{count + 1}"
        verbs.check_name(f"a {kind}", name)
        self._check_free(name, kind)
        for stream in inputs:
            self._check_own(stream, f"{kind} {name!r}")
        return self._keep(Stream(self, name, spec, inputs))

    def _keep(self, stream: Stream) -> Stream:
        self._streams[stream.name] = stream
        return stream

    def _check_free(self, name: str, kind: str) -> None:
        if name in self._streams:
            raise InvalidArgument(
                f"{kind} {name!r}: the graph has a {self._streams[name].kind} of this name already, give another name"
            )

    def _check_own(self, stream: Stream, reader: str) -> None:
        if stream.graph is not self:
            raise InvalidArgument(
                f"{reader} of graph {self.name!r} is to read {stream.name!r} of another graph, {stream.graph.name!r}: "
                "build all of it in one graph"
            )

    def __repr__(self) -> str:
        ends = {name: stream.name for name, stream in self._endpoints.items()}
        lines = [f"Graph {self.name!r}: {len(self.sources)} sources, {len(self.nodes)} nodes, {len(ends)} endpoints"]
        lines += [f"  source {stream.name}" for stream in self.sources]
        for stream in self.nodes:
            inputs = ", ".join(each.name for each in stream.inputs)
            lines.append(f"  {inputs} -> {stream.kind} {stream.name}: {stream.spec}")
        return "\n".join([*lines, *(f"  {stream} -> endpoint {name}" for name, stream in ends.items())])

    def _repr_html_(self) -> str:
        from evenflow.graph.draw.picture import svg

        return svg(self.sketch())


def ancestors(streams: Iterable[Stream]) -> set[Stream]:
    """The streams themselves, and all streams that they are made from."""
    found: set[Stream] = set()
    waiting = list(streams)
    while waiting:
        stream = waiting.pop()
        if stream not in found:
            found.add(stream)
            waiting += stream.inputs
    return found


def endpoint_named(graph: Graph, name: str) -> Stream:
    """The stream of an endpoint; InvalidArgument if there is none of this name."""
    if name not in graph.endpoints:
        raise InvalidArgument(f"there is no endpoint {name!r:.100}; {nearest(str(name), graph.endpoints)}")
    return graph.endpoints[name]
