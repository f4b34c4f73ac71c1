"""Rows that are not sent yet: into which frames they go, and for how long those of moving units wait."""

import pytest

from evenflow.runtime.feeder import keyed_splitter
from evenflow.runtime.feeder.keyed_splitter import KeyedSplitter
from tests.support.skew_rows import batch, buffer


def frames(splitter, worker):
    """The ids of each frame a worker gets."""
    groups = splitter.frames(worker, 1000)
    return [[row for piece in group for row in piece.rows.column(0).to_pylist()] for group in groups]


@pytest.fixture
def splitter():
    """Unit 1 is worker 1's, and has rows 1 and 3; the others are worker 0's."""
    made = KeyedSplitter(buffer(owners=(0, 1, 0, 0, 0)))
    made.skew.insert(batch([0, 1, 2, 1]))
    return made


def test_rows_wait_for_the_marker_and_for_the_units(splitter):
    splitter.pause(1, [1], marked=True)
    assert frames(splitter, 1) == []
    splitter.arrived(1, 2)
    assert frames(splitter, 2) == []
    splitter.echo(1)
    assert frames(splitter, 2) == [[1, 3]]
    assert frames(splitter, 0) == [[0, 2]]


def test_without_a_marker_rows_wait_for_the_units_only(splitter):
    splitter.pause(1, [1], marked=False)
    splitter.arrived(1, 2)
    assert frames(splitter, 2) == [[1, 3]]


def test_the_next_movement_waits_for_the_markers_of_those_before(splitter):
    splitter.pause(1, [1], marked=True)
    splitter.pause(2, [1], marked=True)
    splitter.arrived(2, 3)
    splitter.echo(2)
    assert frames(splitter, 3) == []
    splitter.echo(1)
    assert frames(splitter, 3) == [[1, 3]]


def test_news_of_movements_nobody_waits_for(splitter):
    splitter.arrived(7, 2)
    splitter.echo(7)
    assert frames(splitter, 1) == [[1, 3]]


def test_frames_have_about_so_many_bytes(splitter, monkeypatch):
    monkeypatch.setattr(keyed_splitter, "FRAME_BYTES", 48)  # three rows of 16 bytes
    splitter.skew.insert(batch([0] * 5, start=10))
    assert frames(splitter, 0) == [[0, 2], [10, 11, 12], [13, 14]]
