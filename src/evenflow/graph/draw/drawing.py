"""A graph as a picture of matplotlib, with nodes in the colours of the workers they are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch, Rectangle
from matplotlib.path import Path

from evenflow.errors import InvalidArgument, nearest
from evenflow.graph.draw.layout import LINE, OUTSIDE, Box, EdgeLine, Layout, Sketch, layout
from evenflow.graph.draw.picture import FILLS, bends, stroke

POINTS = 72.0
"""An inch."""
WORKERS = ("#8ecae6", "#ffb703", "#90be6d", "#f4978e", "#cdb4db", "#d4a373", "#f1c0e8", "#b7b7a4", "#e9edc9", "#56cfe1")
"""The colours of workers; there are more workers than colours in large clusters, so boxes also say their numbers."""
MOST_NUMBERS = 6
"""Workers that a box names, at most."""

_Workers = tuple[int, ...]


def plot(sketch: Sketch, path: str | PathLike[str] | None = None, placement: object = None) -> Figure:
    """The picture of a graph; saved to `path`, by its ending, if that is given.

    `placement` is {node: worker, or list of workers}, or a pair of these, which are drawn beside each other (a wide
    graph: below each other) as before and after; nodes that have moved then have a thick frame.
    """
    picture = PlacedPicture(sketch, placement)
    figure = Figure(figsize=picture.size, layout="constrained")
    picture.draw(figure)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


class PlacedPicture:
    """A graph with none, one or two placements, to be drawn into a figure or a part of one."""

    def __init__(self, sketch: Sketch, placement: object = None) -> None:
        self._placements = _placements(sketch, placement)
        suffixes = [len(_suffix(each)) for one in self._placements for each in one.values()]
        self._layout = found = layout(sketch, max(suffixes, default=0))
        count = max(1, len(self._placements))
        self._rows, self._columns = (count, 1) if found.width > 1.3 * found.height else (1, count)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches at which texts fit their boxes."""
        space = 40.0 if self._placements else 0.0
        height = self._rows * (self._layout.height + space)
        return self._columns * self._layout.width / POINTS, height / POINTS

    def draw(self, figure: FigureBase) -> None:
        """Draw all placements into a figure, or into a part of one."""
        placements = self._placements
        axes = figure.subplots(self._rows, self._columns, squeeze=False).ravel()
        moved = _moved(placements)
        for number, ax in enumerate(axes):
            _draw(ax, self._layout, placements[number] if placements else None, moved if number else set())
            if len(placements) > 1:
                ax.set_title(("before", "after")[number], fontsize=11, loc="left")
        if placements:
            _legend(figure, placements)


def _draw(ax: Axes, found: Layout, placement: Mapping[str, _Workers] | None, moved: set[str]) -> None:
    ax.set_xlim(0, found.width)
    ax.set_ylim(found.height, 0)
    ax.set_aspect("equal")
    ax.axis("off")
    for edge in found.edges:
        _draw_edge(ax, edge)
    for box in found.boxes:
        is_node = box.kind not in OUTSIDE
        workers = placement.get(box.name, ()) if placement is not None and is_node else None
        _draw_box(ax, box, workers, is_node and box.name in moved)


def _draw_edge(ax: Axes, edge: EdgeLine) -> None:
    vertices, codes = [edge.points[0]], [Path.MOVETO]
    for bend in bends(edge.points):
        vertices += bend
        codes += [Path.CURVE4] * 3
    curve, colour = Path(vertices, codes), stroke(edge.start)
    ax.add_patch(PathPatch(curve, fill=False, edgecolor="white", linewidth=4))
    ax.add_patch(PathPatch(curve, fill=False, edgecolor=colour, linewidth=1.4))
    x, y = edge.points[-1]
    ax.fill([x, x - 7, x - 7], [y, y - 3.5, y + 3.5], color=colour, linewidth=0)


def _draw_box(ax: Axes, box: Box, workers: _Workers | None, moved: bool) -> None:
    """A box; `workers` is None if no placement is to be seen in it."""
    top = box.y - box.height / 2
    frame = FancyBboxPatch(
        (box.x + 4, top + 4),
        box.width - 8,
        box.height - 8,
        boxstyle="round,pad=4",
        facecolor=FILLS[box.kind] if workers is None else "white",
        edgecolor="#222" if moved else "#666",
        linewidth=2.4 if moved else 1.0,
        zorder=2,
    )
    ax.add_patch(frame)
    shares = workers or ()
    for place, worker in enumerate(shares):
        width = box.width / len(shares)
        part = Rectangle((box.x + place * width, top), width, box.height, facecolor=colour_of(worker), zorder=2.1)
        ax.add_patch(part)
        part.set_clip_path(frame)
    lines = box.lines if not shares else [box.lines[0] + _suffix(shares), *box.lines[1:]]
    for place, line in enumerate(lines):
        y = box.y + LINE * (place - (len(lines) - 1) / 2)
        weight = "bold" if place == 0 else "normal"
        ax.text(box.x + box.width / 2, y, line, ha="center", va="center", fontsize=8.5, weight=weight, zorder=3)


def colour_of(worker: int) -> str:
    """The colour of a worker."""
    return WORKERS[worker % len(WORKERS)]


def _suffix(workers: Sequence[int]) -> str:
    """What is written behind the name of a node."""
    shown = ",".join(map(str, workers[:MOST_NUMBERS]))
    return f" @ {shown},…" if len(workers) > MOST_NUMBERS else f" @ {shown}"


def _legend(figure: FigureBase, placements: Sequence[Mapping[str, _Workers]]) -> None:
    known = sorted({worker for placement in placements for workers in placement.values() for worker in workers})
    handles = [Patch(facecolor=colour_of(worker), edgecolor="#666", label=f"worker {worker}") for worker in known]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(8, len(known)) or 1, fontsize=8, frameon=False)


def _moved(placements: Sequence[Mapping[str, _Workers]]) -> set[str]:
    """The nodes that two placements have in different places."""
    if len(placements) < 2:
        return set()
    before, after = placements
    return {name for name in {*before, *after} if set(before.get(name, ())) != set(after.get(name, ()))}


def _placements(sketch: Sketch, given: object) -> list[dict[str, _Workers]]:
    """None, one or two placements; filters that are one node together are named together, as 'a+b'."""
    if given is None:
        return []
    several = [given] if isinstance(given, Mapping) else given
    if not isinstance(several, Sequence) or not 1 <= len(several) <= 2 or isinstance(several, str):
        raise InvalidArgument(f"placement={given!r:.100}: give a dict of workers by node, or a pair of them")
    return [_placement(sketch, one) for one in several]


def _placement(sketch: Sketch, given: object) -> dict[str, _Workers]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"a placement is {given!r:.100}: give a dict of workers by node")
    nodes = sketch.nodes
    found: dict[str, _Workers] = {}
    for name, workers in given.items():
        parts = [name] if name in nodes else str(name).split("+")
        if not set(parts) <= nodes:
            hint = nearest(str(name), nodes)
            raise InvalidArgument(f"placement has {name!r:.100}, and the graph has no such node; {hint}")
        numbers = workers if isinstance(workers, Sequence) else [workers]
        if not all(isinstance(worker, int) and worker >= 0 for worker in numbers):
            raise InvalidArgument(f"placement has {name!r} on {workers!r:.100}: give the number of a worker, or a list")
        found.update(dict.fromkeys(parts, tuple(sorted(set(numbers)))))
    return found
