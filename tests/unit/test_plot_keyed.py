"""Figures of keyed operators from an event log."""

import json

import numpy as np
import pytest

from evenflow.cli import plot
from evenflow.errors import InvalidArgument


def consumer(worker, units, rows, busy):
    return {"worker": worker, "units": units, "rows": rows, "bytes": 0, "busy_s": busy, "idle_s": 0, "seconds": 1}


@pytest.fixture
def log(tmp_path):
    """Two workers; 4 units go from the first to the second at second 1.5."""
    events = [{"time": 0.0, "event": "region-opened", "region": "sums", "balance": "flux-auto", "units": 9}]
    for second, units in enumerate([(5, 4), (5, 4), (1, 8)]):
        consumers = [
            consumer(0, units[0], 100 * second, 0.9 * second),
            consumer(1, units[1], 50 * second, 0.5 * second),
        ]
        events.append({"time": float(second), "event": "keyed-sample", "region": "sums", "consumers": consumers})
    events.append({"time": 2.5, "event": "moved", "region": "sums", "units": [1, 2, 3, 4], "source": 0, "target": 1})
    for second, entry in ((1.0, {}), (2.0, {"latency_ms": {"mean": 5.0, "p50": 4.0, "p99": 9.0}})):
        events.append({"time": second, "event": "performance", "region": "sums", "rows_in": 0, **entry})
    events.sort(key=lambda event: event["time"])
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_what_is_read(log):
    series = plot.read(log)
    assert (series.region, series.balance, series.workers) == ("sums", "flux-auto", [0, 1])
    assert series.rows_per_s.tolist() == [150, 150]
    assert series.units.tolist() == [[5, 4], [1, 8]]
    assert np.allclose(series.used, [[0.9, 0.5], [0.9, 0.5]])
    assert (series.move_seconds.tolist(), series.move_units.tolist()) == ([2.5], [4])
    assert (series.latency.seconds.tolist(), series.latency.ms["p99"].tolist()) == ([2.0], [9.0])


def test_what_is_drawn(log, tmp_path):
    figure = plot.draw(plot.read(log))
    panels = ["rows/s", "latency (ms)", "busy (s/s)", "units owned", "units in a move"]
    assert [axes.get_ylabel() for axes in figure.axes] == panels
    figure.savefig(tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_an_unknown_region(log):
    with pytest.raises(InvalidArgument, match="has no region 'other': it has sums"):
        plot.read(log, "other")
