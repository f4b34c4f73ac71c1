"""Seeded query graphs of filters and binary joins, and what flows in them (potential-driven §5.2).

A graph is drawn as a list of operators, from which follow the rates of all streams, by key, and the graph to be run.
A join pairs a row with the last rows of the same key from the other side. Of its keys only some are met on the right
side, so that a row makes `pairs` pairs in the mean, which may be less than one; the operator before the right side sees
to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.graph.build.builder import Graph, Stream
from evenflow.workloads.sieves import KEYS, RightSide, Sieve

Floats = npt.NDArray[np.float64]

SHARED = 0.2
"""The probability that an operator of a hybrid graph reads a stream that has a reader already."""


@dataclass(frozen=True)
class Drawn:
    """One operator. Inputs are numbers of streams: sources come first, then what the operators give, in order."""

    name: str
    inputs: tuple[int, ...]
    selectivity: float = 1.0
    """Of a filter."""
    window: int = 0
    """Of a join: rows of the key on the other side that a row is paired with."""
    met: tuple[int, ...] = ()
    """Of a join: the keys that are met."""

    @property
    def join(self) -> bool:
        """Whether it is a join."""
        return len(self.inputs) == 2


def chains(random: np.random.Generator, count: int, operators: int, selectivity: tuple[float, float]) -> list[Drawn]:
    """Independent chains of filters, of the same length but for one."""
    found: list[Drawn] = []
    last = list(range(count))
    for number in range(operators):
        chain = number * count // operators
        found.append(Drawn(f"f{number}", (last[chain],), float(random.uniform(*selectivity))))
        last[chain] = count + number
    return found


def hybrid(
    random: np.random.Generator,
    sources: int,
    operators: int,
    filters: float,
    selectivity: tuple[float, float],
    pairs: tuple[tuple[float, float], tuple[float, float]],
) -> list[Drawn]:
    """Filters and joins, of which `filters` is the share of filters; every source is read by a filter first.

    `pairs` are the bounds of a join's window and of its selectivity; their product is what a row is paired with.
    """
    joins = min(round(operators * (1 - filters)), max(0, operators - sources))
    later = operators - sources
    places = set(random.choice(np.arange(later), joins, replace=False).tolist()) if later else set()
    streams = _Streams(random, sources)
    found: list[Drawn] = []
    for number in range(operators):
        if number < sources:
            inputs: tuple[int, ...] = (number,)
        else:
            inputs = streams.pair() if number - sources in places else (streams.one(),)
        if len(inputs) == 2:
            met, window = _met(random, float(random.uniform(*pairs[0]) * random.uniform(*pairs[1])))
            found.append(Drawn(f"j{number}", inputs, window=window, met=met))
        else:
            found.append(Drawn(f"f{number}", inputs, float(random.uniform(*selectivity))))
        streams.add(sources + number, inputs, len(inputs) == 1)
    return found


def _met(random: np.random.Generator, pairs: float) -> tuple[tuple[int, ...], int]:
    """Keys and a window such that a row has so many partners in the mean."""
    window = max(1, int(np.ceil(pairs)))
    count = min(KEYS, max(1, round(pairs / window * KEYS)))
    return tuple(sorted(random.choice(KEYS, count, replace=False).tolist())), window


class _Streams:
    """The streams that operators may still read, while a hybrid graph is drawn."""

    def __init__(self, random: np.random.Generator, sources: int) -> None:
        self._random = random
        self._open = list(range(sources))
        """Streams that nobody reads yet."""
        self._filters: list[int] = []
        """Streams among these that filters give; the right side of a join is one of them."""
        self._shared: list[int] = []
        """Streams that have readers and may have more."""

    def one(self) -> int:
        """A stream for a filter to read."""
        if self._shared and (not self._open or self._random.random() < SHARED):
            return int(self._random.choice(self._shared))
        return int(self._random.choice(self._open))

    def pair(self) -> tuple[int, ...]:
        """Two streams for a join to read; one, if there is no filter for its right side."""
        if not self._filters:
            return (self.one(),)
        right = int(self._random.choice(self._filters))
        left = [stream for stream in self._open if stream != right] or self._shared
        if not left:
            return (self.one(),)
        return int(self._random.choice(left)), right

    def add(self, stream: int, inputs: tuple[int, ...], sieve: bool) -> None:
        """An operator was drawn: it gives a stream, and reads others."""
        for place, each in enumerate(inputs):
            self._open = [known for known in self._open if known != each]
            self._filters = [known for known in self._filters if known != each]
            if place == 0 and each not in self._shared:
                self._shared.append(each)
        self._open.append(stream)
        if sieve:
            self._filters.append(stream)


def arrivals(drawn: list[Drawn], sources: list[float]) -> Floats:
    """By operator, the rows a second that it takes, if sources give rows at these rates."""
    return flows(drawn, sources)[0]


def flows(drawn: Sequence[Drawn], sources: Sequence[float]) -> tuple[Floats, Floats]:
    """By operator, the rows a second that it takes and those that it gives, if sources give rows at these rates."""
    streams = [np.full(KEYS, rate / KEYS) for rate in sources]
    taken = []
    for operator in drawn:
        given = [streams[each] for each in operator.inputs]
        taken.append(sum(float(each.sum()) for each in given))
        if operator.join:
            left, right = given
            paired = np.isin(np.arange(KEYS), operator.met) & (left > 0) & (right > 0)
            streams.append(np.where(paired, operator.window * (left + right), 0.0))
        else:
            streams.append(given[0] * operator.selectivity)
    return np.array(taken), np.array([float(each.sum()) for each in streams[len(sources) :]])


def built(drawn: list[Drawn], sources: list[str], seed: int) -> Graph:
    """The graph; streams that no operator reads are its endpoints."""
    graph = Graph("scheme")
    streams: list[Stream] = [graph.source(name) for name in sources]
    rights = {operator.inputs[1]: operator for operator in drawn if operator.join}
    for number, operator in enumerate(drawn, len(sources)):
        first = streams[operator.inputs[0]]
        salt = seed * 1_000_003 + number
        if operator.join:
            right = streams[operator.inputs[1]]
            key = [("k", f"k_{operator.name}")]
            streams.append(first.join(right, key, rows=operator.window, name=operator.name))
        elif number in rights:
            side = RightSide(Sieve(salt, operator.selectivity), rights[number].met, f"_{rights[number].name}")
            streams.append(first.map(side, side.schema, name=operator.name))
        else:
            streams.append(first.filter(Sieve(salt, operator.selectivity), name=operator.name))
    read = {each for operator in drawn for each in operator.inputs}
    for number, stream in enumerate(streams):
        if number not in read:
            graph.endpoint(f"end_{stream.name}", stream)
    return graph
