"""The event log of a graph as a figure: where its operators were and are, loads of workers, latency, and the moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from evenflow.cli.plots.keyed import grid
from evenflow.cli.plots.latency import LatencySeries, draw_latency, latency_series
from evenflow.eventlog.reading import entries_of
from evenflow.graph.draw.drawing import PlacedPicture, colour_of
from evenflow.graph.draw.layout import Sketch
from evenflow.model.entries import (
    GraphResultsEntry,
    GraphSampleEntry,
    MovedEntry,
    OperatorPart,
    RegionEntry,
    RegionOpenedEntry,
)

LEAST_WIDTH, PANEL_HEIGHT = 12.0, 3.2
"""Inches."""
MOST_LABELS = 16
"""Workers that a legend names."""


@dataclass(frozen=True)
class GraphSeries:
    """A graph over time: one row a sample, one column a worker. Seconds count from its first sample or result."""

    region: str
    placement: str
    sketch: Sketch
    before: dict[str, int]
    """By operator that is in one place, its worker in the first sample."""
    after: dict[str, int]
    """The same in the last sample, with what moved since."""
    workers: list[int]
    seconds: np.ndarray
    loads: np.ndarray
    latency: LatencySeries
    move_seconds: np.ndarray


def graph_series(name: str, mine: list[RegionEntry]) -> GraphSeries:
    """The series of a graph, from its entries in an event log."""
    samples, moves = entries_of(mine, GraphSampleEntry), entries_of(mine, MovedEntry)
    opened = next(iter(entries_of(mine, RegionOpenedEntry)), None)
    results = [entry for entry in entries_of(mine, GraphResultsEntry) if entry.results]
    zero = min(entry.time for entry in [*samples, *results])
    workers = sorted({host.worker for entry in samples for host in entry.hosts})
    before, after = (_placed(sample) for sample in (samples[0], samples[-1]))
    operators = (opened and opened.operators) or []
    after |= _moved_since(operators, moves, samples[-1].time)
    return GraphSeries(
        region=name,
        placement=(opened and opened.placement) or samples[0].placement,
        sketch=_sketch(opened, samples[0]),
        before=before,
        after=after,
        workers=workers,
        seconds=np.array([entry.time for entry in samples]) - zero,
        loads=grid([entry.hosts for entry in samples], workers, "load"),
        latency=latency_series(results, zero),
        move_seconds=np.array([entry.time for entry in moves]) - zero,
    )


def draw_graph(series: GraphSeries) -> Figure:
    """The graph before and after, above loads and latency over the same seconds."""
    same = series.before == series.after
    picture = PlacedPicture(series.sketch, series.before if same else (series.before, series.after))
    width, height = picture.size
    figure = Figure(figsize=(max(LEAST_WIDTH, width), height + PANEL_HEIGHT + 0.5), layout="constrained")
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, PANEL_HEIGHT])
    upper, lower = parts.ravel()
    picture.draw(upper)
    _panels(lower, series)
    count = len(series.sketch.nodes)
    what = f"{count} operators on {len(series.workers)} workers, {len(series.move_seconds)} moves"
    figure.suptitle(f"graph {series.region}, placement {series.placement}: {what}")
    return figure


def _panels(figure: SubFigure, series: GraphSeries) -> None:
    loads, latency = figure.subplots(1, 2, sharex=True)
    for place, worker in enumerate(series.workers):
        label = f"worker {worker}" if len(series.workers) <= MOST_LABELS else None
        loads.plot(
            series.seconds, series.loads[:, place], color=colour_of(worker), linewidth=2, marker=".", label=label
        )
    loads.axhline(1.0, color="#999", linewidth=0.8, linestyle="--")
    loads.set(xlabel="seconds", ylabel="load", ylim=(0, max(1.1, float(np.max(series.loads, initial=0)) * 1.05)))
    if len(series.workers) <= MOST_LABELS:
        loads.legend(fontsize=8, ncols=3, loc="upper right")
    draw_latency(latency, series.latency)
    for axes in (loads, latency):
        _mark_moves(axes, series.move_seconds)


def _mark_moves(axes: Axes, seconds: np.ndarray) -> None:
    """A thin line for each move."""
    for place, second in enumerate(seconds):
        axes.axvline(second, color="#d1602b", linewidth=0.6, alpha=0.5, zorder=0, label=None if place else "a move")


def _placed(sample: GraphSampleEntry) -> dict[str, int]:
    return {operator.name: operator.worker for operator in sample.operators}


def _moved_since(operators: list[OperatorPart], moves: list[MovedEntry], time: float) -> dict[str, int]:
    """Where operators went that moved after the last sample."""
    names: dict[int, str] = {}
    first = 0
    for operator in operators:
        if operator.units == 1:
            names[first] = operator.name
        first += operator.units
    late = [entry for entry in moves if entry.time > time]
    return {names[unit]: entry.target for entry in late for unit in entry.units if unit in names}


def _sketch(opened: RegionOpenedEntry | None, sample: GraphSampleEntry) -> Sketch:
    """The boxes and edges; only operators, if the log does not say how the graph was opened."""
    if opened is None:
        return Sketch(tuple(("map", operator.name, "") for operator in sample.operators), ())
    sources, operators = opened.sources or [], opened.operators or []
    boxes = [("source", name, "source") for name in sources]
    boxes += [(each.kind, each.name, _detail(each)) for each in operators]
    told = opened.edges or []
    edges = [(-1 - start if start < 0 else start + len(sources), end + len(sources)) for start, end in told]
    for number, operator in enumerate(operators, len(sources)):
        if operator.endpoint:
            edges.append((number, len(boxes)))
            boxes.append(("endpoint", f"results of {operator.name}", ""))
    return Sketch(tuple(boxes), tuple(edges))


def _detail(operator: OperatorPart) -> str:
    units = operator.units if operator.kind == "ordered map" else operator.units - 1  # one is of null keys
    return operator.kind if operator.units == 1 else f"{operator.kind}, {units} units"
