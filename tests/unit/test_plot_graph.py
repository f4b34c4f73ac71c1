"""Figures of graphs from an event log."""

import json

import numpy as np
import pytest

from evenflow.cli import plot
from evenflow.graph.draw.layout import Sketch

OPENED = {
    "sources": ["ticks", "news"],
    "operators": [
        {"name": "hot", "kind": "filter", "units": 1, "endpoint": False},
        {"name": "means", "kind": "keyed", "units": 9, "endpoint": False},
        {"name": "pairs", "kind": "join", "units": 1, "endpoint": True},
    ],
    "edges": [[-1, 0], [0, 1], [1, 2], [-2, 2]],
}


def event(time, kind, **fields):
    return {"time": time, "event": kind, "region": "alerts", **fields}


def sample(time, hot, pairs, loads):
    operators = [{"name": "hot", "worker": hot, "load": 0.1}, {"name": "pairs", "worker": pairs, "load": 0.2}]
    hosts = [{"worker": worker, "coefficient": 1.0, "load": load} for worker, load in enumerate(loads)]
    return event(time, "graph-sample", placement="greedy", operators=operators, hosts=hosts)


def results(time, mean):
    latency = {"mean": mean, "p50": mean / 2, "p99": mean * 3}
    return event(time, "graph-results", results=5, latency_ms=latency)


@pytest.fixture
def log(tmp_path):
    """The filter goes from worker 0 to worker 1, and the join, whose unit is the last, from 1 to 0 at the very end."""
    events = [
        event(0.0, "region-opened", placement="greedy", units=12, **OPENED),
        results(2.0, 90.0),
        sample(3.0, 0, 1, (0.9, 0.1)),
        event(4.0, "moved", units=[0], source=0, target=1),
        event(4.5, "graph-results", results=0),
        results(5.0, 30.0),
        sample(6.0, 1, 1, (0.5, 0.4)),
        event(7.0, "moved", units=[10], source=1, target=0),
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    return path


def test_what_is_read(log):
    series = plot.read(log)
    assert (series.region, series.placement, series.workers) == ("alerts", "greedy", [0, 1])
    assert (series.before, series.after) == ({"hot": 0, "pairs": 1}, {"hot": 1, "pairs": 0})
    assert series.seconds.tolist() == [1.0, 4.0]
    assert np.allclose(series.loads, [[0.9, 0.1], [0.5, 0.4]])
    assert series.latency.seconds.tolist() == [0.0, 3.0]
    assert series.latency.ms["mean"].tolist() == [90.0, 30.0]
    assert series.move_seconds.tolist() == [2.0, 5.0]
    assert series.sketch == Sketch(
        (
            ("source", "ticks", "source"),
            ("source", "news", "source"),
            ("filter", "hot", "filter"),
            ("keyed", "means", "keyed, 8 units"),
            ("join", "pairs", "join"),
            ("endpoint", "results of pairs", ""),
        ),
        ((0, 2), (2, 3), (3, 4), (1, 4), (4, 5)),
    )


def test_what_is_drawn(log, tmp_path):
    figure = plot.draw(plot.read(log))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["before", "after", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes[2:]] == ["load", "latency (ms)"]
    assert "3 operators on 2 workers, 2 moves" in figure.get_suptitle()
    figure.savefig(tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_a_graph_that_stays_is_drawn_once(log):
    lines = [line for line in log.read_text().splitlines() if '"moved"' not in line]
    log.write_text("\n".join(lines[:-1]) + "\n")
    assert len(plot.draw(plot.read(log)).axes) == 3
