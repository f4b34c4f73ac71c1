"""Which streams of a graph become one node: most stand alone, neighbouring filters that commute go together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from evenflow.graph.build.builder import Graph, Stream
from evenflow.graph.build.verbs import FilterSpec


@dataclass(frozen=True)
class FusedNode:
    """One node to be: a stream, or a chain of filters each of which is read by the next one only."""

    streams: tuple[Stream, ...]

    @property
    def last(self) -> Stream:
        """The stream that the node gives."""
        return self.streams[-1]

    @property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams that the node reads."""
        return self.streams[0].inputs

    @property
    def name(self) -> str:
        """The names of all its streams."""
        return "+".join(stream.name for stream in self.streams)


def fused_of(graph: Graph, alive: set[Stream], ends: set[Stream]) -> list[FusedNode]:
    """The nodes of a graph among its streams that are `alive`, each behind those that it reads from.

    `ends` are the streams that endpoints give. A chain stops at such a stream, since some node has to give it.
    """
    nodes = [stream for stream in graph.nodes if stream in alive]
    readers = Counter(stream for node in nodes for stream in node.inputs)
    chains: dict[Stream, tuple[Stream, ...]] = {}  # by the last stream
    for stream in nodes:
        before = stream.inputs[0]
        joins = _commutes(stream) and _commutes(before) and readers[before] == 1 and before not in ends
        chains[stream] = (*chains.pop(before), stream) if joins else (stream,)
    return [FusedNode(chain) for chain in chains.values()]


def _commutes(stream: Stream) -> bool:
    return isinstance(stream.spec, FilterSpec) and stream.spec.commutative
