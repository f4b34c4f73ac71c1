"""Where the boxes and edges of a graph's picture go: layers from left to right, few crossings, no overlaps.

Boxes lie in the layer of their depth. An edge that skips layers gets a lane of its own in each, as if there were a
thin box. Within layers, boxes are ordered by the mean place of their neighbours, and then moved towards these as far as
the gaps between them allow. All lengths are in points, y grows downwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

CHARACTER, LINE = 6.4, 15.0
"""The width of a character and the height of a line of text."""
PADDING, LAYER_GAP, BOX_GAP, LANE = 10.0, 56.0, 18.0, 14.0
MOST_TEXT = 32
"""Characters of a line in a box, at most."""
SWEEPS = 12
OUTSIDE = ("source", "endpoint")
"""Kinds of boxes that are on no worker."""

Spot = tuple[float, float]


@dataclass(frozen=True)
class Sketch:
    """What a picture shows: boxes as (kind, name, detail), and edges as pairs of their numbers.

    Each box comes behind those that have an edge to it. Kinds are source, filter, map, keyed, detect, join, endpoint.
    """

    boxes: tuple[tuple[str, str, str], ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the boxes that are on workers."""
        return frozenset(name for kind, name, _ in self.boxes if kind not in OUTSIDE)


@dataclass
class Box:
    """A source, a node or an endpoint, or the lane of an edge that passes through a layer (`kind` is then empty)."""

    kind: str
    name: str = ""
    detail: str = ""
    room: int = 0
    """Characters to be written behind the name."""
    layer: int = 0
    x: float = 0.0
    """The left side."""
    y: float = 0.0
    """The middle."""
    width: float = 0.0
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The text, cut to fit."""
        return [cut(text) for text in (self.name, self.detail) if text]

    @property
    def characters(self) -> int:
        """The length of the longest line."""
        return max((len(line) + (0 if place else self.room) for place, line in enumerate(self.lines)), default=0)

    @property
    def height(self) -> float:
        """The height of a box's text and padding; of a lane, the distance that keeps edges apart."""
        return LINE * len(self.lines) + PADDING if self.kind else LANE


@dataclass(frozen=True)
class EdgeLine:
    """An edge as points that a curve goes through, horizontally at each; `start` and `end` are numbers of boxes."""

    start: int
    end: int
    points: tuple[Spot, ...]


@dataclass(frozen=True)
class Layout:
    """A picture: boxes, edges between them, and its size."""

    boxes: tuple[Box, ...]
    edges: tuple[EdgeLine, ...]
    width: float
    height: float


def cut(text: str) -> str:
    """A text of one line that is not too long."""
    text = " ".join(text.split())
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def layout(sketch: Sketch, room: int = 0) -> Layout:
    """The picture of a sketch; nodes have room for so many characters more behind their names."""
    boxes = [
        Box(kind=kind, name=name, detail=detail, room=0 if kind in OUTSIDE else room)
        for kind, name, detail in sketch.boxes
    ]
    return arrange(boxes, sketch.edges)


def arrange(boxes: list[Box], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes; `edges` are pairs of their numbers, and each box comes behind those that have an edge to it."""
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        boxes[end].layer = max(boxes[end].layer, boxes[start].layer + 1)
    real = len(boxes)
    ways = [_way(boxes, start, end) for start, end in edges]
    layers: list[list[int]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))]
    for number, box in enumerate(boxes):
        layers[box.layer].append(number)
    _order(boxes, layers)
    _spread(boxes, layers)
    _tighten(boxes)
    width = _columns(boxes, layers)
    top = min((box.y - box.height / 2 for box in boxes), default=0.0) - PADDING
    for box in boxes:
        box.y -= top
    height = max((box.y + box.height / 2 for box in boxes), default=0.0) + PADDING
    lines = tuple(_line(boxes, way) for way in ways)
    return Layout(tuple(boxes[:real]), lines, width, height)


def _way(boxes: list[Box], start: int, end: int) -> list[int]:
    """The boxes and lanes that an edge goes through; lanes are added."""
    way = [start]
    for layer in range(boxes[start].layer + 1, boxes[end].layer):
        way.append(len(boxes))
        boxes.append(Box("", layer=layer))
    way.append(end)
    for one, other in pairwise(way):
        boxes[one].after.append(other)
        boxes[other].before.append(one)
    return way


def _order(boxes: list[Box], layers: list[list[int]]) -> None:
    """Order the boxes within layers so that few edges cross: sweeps to and fro, of which the best order is kept."""
    best, fewest = [list(layer) for layer in layers], _crossings(boxes, layers)
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers[1:] if forth else layers[-2::-1]:
            rank = {number: place for each in layers for place, number in enumerate(each)}
            means = {}
            for number in layer:
                others = boxes[number].before if forth else boxes[number].after
                means[number] = sum(rank[other] for other in others) / len(others) if others else rank[number]
            layer.sort(key=means.__getitem__)
        found = _crossings(boxes, layers)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    layers[:] = best


def _crossings(boxes: list[Box], layers: list[list[int]]) -> int:
    """How many pairs of edges between neighbouring layers cross."""
    count = 0
    for layer, following in pairwise(layers):
        rank = {number: place for place, number in enumerate(following)}
        ends = [rank[other] for number in layer for other in sorted(boxes[number].after, key=rank.__getitem__)]
        count += sum(early > late for place, early in enumerate(ends) for late in ends[place + 1 :])
    return count


def _spread(boxes: list[Box], layers: list[list[int]]) -> None:
    """Give each box a height: as near to its neighbours as the order and the gaps allow."""
    for layer in layers:
        y = 0.0
        for number in layer:
            boxes[number].y = y + boxes[number].height / 2
            y += boxes[number].height + BOX_GAP
    for sweep in range(2 * SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            wanted = []
            for number in layer:
                others = boxes[number].before if forth else boxes[number].after
                others = others or [*boxes[number].before, *boxes[number].after]
                mean = sum(boxes[other].y for other in others) / len(others) if others else boxes[number].y
                wanted.append(mean)
            for number, y in zip(layer, _apart([boxes[number] for number in layer], wanted), strict=True):
                boxes[number].y = y


def _tighten(boxes: list[Box]) -> None:
    """Narrow the bands in which no layer has a box: they lie between parts of a graph without edges between them."""
    shift, bottom = 0.0, math.inf
    for box in sorted(boxes, key=lambda box: box.y - box.height / 2):
        shift += max(0.0, box.y - box.height / 2 - bottom - 2 * BOX_GAP)
        bottom = max(box.y + box.height / 2, bottom if bottom < math.inf else -math.inf)
        box.y -= shift


def _apart(boxes: list[Box], wanted: list[float]) -> list[float]:
    """The heights nearest to the wanted ones (least squares) at which boxes keep their order and their gaps."""
    offsets, total = [], 0.0
    for box, following in zip(boxes, boxes[1:] + boxes[-1:], strict=True):
        offsets.append(total)
        total += (box.height + following.height) / 2 + BOX_GAP
    blocks: list[tuple[float, int]] = []  # sums and counts of heights that are pressed together
    for y, offset in zip(wanted, offsets, strict=True):
        blocks.append((y - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (one, few), (other, more) = blocks[-2:]
            blocks[-2:] = [(one + other, few + more)]
    level = [total / count for total, count in blocks for _ in range(count)]
    return [y + offset for y, offset in zip(level, offsets, strict=True)]


def _columns(boxes: list[Box], layers: list[list[int]]) -> float:
    """Give each layer its width; returns that of the picture."""
    x = PADDING
    for layer in layers:
        most = max((boxes[number].characters for number in layer), default=0)
        width = CHARACTER * most + 2 * PADDING
        for number in layer:
            boxes[number].x, boxes[number].width = x, width
        x += width + LAYER_GAP
    return x - LAYER_GAP + PADDING


def _line(boxes: list[Box], way: list[int]) -> EdgeLine:
    """An edge, which leaves the right side of a box and ends at the left side of another."""
    start, end = boxes[way[0]], boxes[way[-1]]
    points = [(start.x + start.width, start.y + _port(boxes, start, start.after, way[1]))]
    for number in way[1:-1]:
        lane = boxes[number]
        points += [(lane.x, lane.y), (lane.x + lane.width, lane.y)]
    points.append((end.x, end.y + _port(boxes, end, end.before, way[-2])))
    return EdgeLine(way[0], way[-1], tuple(points))


def _port(boxes: list[Box], box: Box, others: list[int], other: int) -> float:
    """How far from the middle of its side an edge touches a box: edges to several boxes are spread, in their order."""
    ordered = sorted(set(others), key=lambda number: boxes[number].y)
    share = (ordered.index(other) + 0.5) / len(ordered) - 0.5
    return share * (box.height - PADDING)
