"""A graph as SVG, for notebooks: self-contained, and without matplotlib."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from evenflow.graph.draw.layout import LINE, Box, EdgeLine, Sketch, Spot, layout

FILLS = {
    "source": "#dbe9f6",
    "filter": "#e2f0d9",
    "map": "#fff2cc",
    "keyed": "#f8d9c4",
    "detect": "#f6cfd6",
    "join": "#e4d7ee",
    "endpoint": "#e7e6e6",
}
"""The colour of each kind of box."""
STROKES = ("#4c6a92", "#7a5195", "#2f7f6f", "#a65628", "#5f5f5f", "#8c6d31", "#98446c", "#3f6fb5")
"""The colours of edges: all edges of one stream have one, so that edges which cross can be told apart."""


def svg(sketch: Sketch) -> str:
    """The picture of a graph as an SVG element."""
    found = layout(sketch)
    parts = [_edge(edge, edge.start) for edge in found.edges] + [_box(box) for box in found.boxes]
    size = f'width="{found.width:.0f}" height="{found.height:.0f}" viewBox="0 0 {found.width:.0f} {found.height:.0f}"'
    style = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="10" style="max-width:none"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>'


def stroke(stream: int) -> str:
    """The colour of the edges of a stream."""
    return STROKES[stream % len(STROKES)]


def bends(points: tuple[Spot, ...]) -> list[tuple[Spot, Spot, Spot]]:
    """An edge behind its first point as cubic curves: two control points and the end of each."""
    found = []
    for (x, y), (end, low) in pairwise(points):
        middle = (x + end) / 2
        found.append(((middle, y), (middle, low), (end, low)))
    return found


def _edge(edge: EdgeLine, stream: int) -> str:
    *_, (x, y) = edge.points
    curve = f"M{edge.points[0][0]:.1f},{edge.points[0][1]:.1f}"
    for bend in bends(edge.points):
        curve += " C" + " ".join(f"{a:.1f},{b:.1f}" for a, b in bend)
    head = f'<path d="M{x:.1f},{y:.1f} l-7,-3.5 v7 z" fill="{stroke(stream)}"/>'
    halo = f'<path d="{curve}" fill="none" stroke="white" stroke-width="4"/>'
    return f'{halo}<path d="{curve}" fill="none" stroke="{stroke(stream)}" stroke-width="1.4"/>{head}'


def _box(box: Box) -> str:
    top = box.y - box.height / 2
    shape = f'x="{box.x:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5"'
    parts = [f'<rect {shape} fill="{FILLS[box.kind]}" stroke="#555"/>']
    middle = box.x + box.width / 2
    for place, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if place == 0 else ' fill="#333"'
        y = top + box.height / 2 + LINE * (place - (len(box.lines) - 1) / 2) + 3.5
        parts.append(f'<text x="{middle:.1f}" y="{y:.1f}" text-anchor="middle"{weight}>{escape(line)}</text>')
    return f"<g><title>{escape(f'{box.name}: {box.detail}')}</title>{''.join(parts)}</g>"
