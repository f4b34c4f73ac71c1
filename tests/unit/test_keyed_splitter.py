"""Rows that are not sent yet: into which frames they go, and for how long those of moving units wait."""

from types import SimpleNamespace

import numpy as np
import pytest

from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.keyed.splitter import WHOLE_ROWS, KeyedSplitter
from evenflow.runtime.feeder.link import DEPTH
from tests.support.skew_rows import batch, buffer


class Splitter(KeyedSplitter):
    """Unit 1 is worker 1's, and has rows 1 and 3; the others are worker 0's."""

    def __init__(self, frame_bytes=1000):
        self.links = {worker: SimpleNamespace(worker=worker, open=True, under_way={}) for worker in range(4)}
        self.skew = buffer(owners=(0, 1, 0, 0, 0))
        self.skew.insert(batch([0, 1, 2, 1]))
        super().__init__(self.links, self.skew, FrameSize(dict.fromkeys(range(4), 1e-9), 0.0), frame_bytes)
        self.hurry()


def frames(splitter, worker):
    """The ids of each frame a worker gets."""
    for other, link in splitter.links.items():
        link.open = other == worker
    return [[row for piece in group for row in piece.rows.column(0).to_pylist()] for _, group in splitter.frames()]


@pytest.fixture
def splitter():
    return Splitter()


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


def river(rows, seed="", under_way=()):
    """Workers 0 to 3 with these frames under way, and so many rows that any of them may take."""
    links = {worker: SimpleNamespace(worker=worker, open=True, under_way={}) for worker in range(4)}
    for worker, frames in enumerate(under_way):
        links[worker].under_way = dict.fromkeys(range(frames), 1)
    skew = buffer(by_content=False)
    skew.insert(batch([0] * rows))
    made = KeyedSplitter(links, skew, FrameSize(dict.fromkeys(range(4), 1e-9), 0.0), seed=seed)
    made.hurry()
    return made, skew


def drawn(seed, frames, **more):
    """Who gets each of so many frames of one row, one after the other is answered."""
    splitter, skew = river(0, seed, **more)
    got = []
    for _ in range(frames):
        skew.insert(batch([0]))
        got += [link.worker for link, _ in splitter.frames()]
    return got


def test_a_cluster_with_little_to_do_shares_rows_that_anybody_may_take():
    got = np.bincount(drawn("a", 4000), minlength=4)
    assert got.min() > 900
    assert drawn("a", 50) == drawn("a", 50) != drawn("b", 50)


def test_rows_that_anybody_may_take_go_by_how_empty_queues_are():
    got = np.bincount(drawn("a", 4000, under_way=(0, 1, 1, DEPTH)), minlength=4)
    assert got[3] == 0
    assert abs(got[0] - 2000) < 150
    assert abs(got[1] - got[2]) < 150


def test_who_was_drawn_gets_the_next_whole_frame():
    splitter, skew = river(10)
    splitter.hurry(False)
    assert list(splitter.frames()) == []
    chosen = splitter._drawn
    for start in range(10, WHOLE_ROWS, 1000):
        assert list(splitter.frames()) == []
        assert splitter._drawn is chosen
        skew.insert(batch([0] * 1000, start))
    assert next(splitter.frames())[0] is chosen


def test_nobody_has_room():
    splitter, _ = river(10, under_way=[DEPTH] * 4)
    assert list(splitter.frames()) == []


def test_news_of_movements_nobody_waits_for(splitter):
    splitter.arrived(7, 2)
    splitter.echo(7)
    assert frames(splitter, 1) == [[1, 3]]


def test_frames_have_about_so_many_bytes():
    splitter = Splitter(frame_bytes=48)  # three rows of 16 bytes
    splitter.skew.insert(batch([0] * 5, start=10))
    assert frames(splitter, 0) == [[0, 2], [10, 11, 12], [13, 14]]


def test_frames_are_longer_for_a_worker_for_which_many_rows_wait():
    """Rows of 0.1 ms: 100 are a frame. If 3 s of work wait, a frame may have a 64th of it, but at most 40 ms."""
    links = {worker: SimpleNamespace(worker=worker, open=True, under_way={}) for worker in range(2)}
    skew = buffer()
    splitter = KeyedSplitter(links, skew, FrameSize({0: 1e-4, 1: 1e-4}, 0.0), longest_s=0.04)
    skew.insert(batch([0] * 30_000 + [1] * 1_000))
    splitter.hurry()
    got = {}
    for link, pieces in splitter.frames():
        link.under_way[len(link.under_way)] = 1
        got.setdefault(link.worker, []).append(sum(piece.rows.num_rows for piece in pieces))
    assert got == {0: [400, 400], 1: [100, 100]}


def test_rows_that_anybody_may_take_are_a_backlog_of_all_workers():
    """3 s of work are 0.75 s for each of four workers."""
    links = {worker: SimpleNamespace(worker=worker, open=True, under_way={}) for worker in range(4)}
    skew = buffer(by_content=False)
    skew.insert(batch([0] * 30_000))
    splitter = KeyedSplitter(links, skew, FrameSize(dict.fromkeys(range(4), 1e-4), 0.0), longest_s=0.04)
    _, pieces = next(splitter.frames())
    assert sum(piece.rows.num_rows for piece in pieces) == 117


def test_workers_with_enough_to_do_get_nothing(splitter):
    splitter.links[0].under_way = dict.fromkeys(range(DEPTH), 1)
    assert frames(splitter, 0) == []
    del splitter.links[0].under_way[0]
    assert frames(splitter, 0) == [[0, 2]]


def test_frames_wait_to_be_whole_unless_no_more_rows_come(splitter):
    splitter.hurry(False)
    assert frames(splitter, 0) == []
    splitter.skew.insert(batch([0] * (WHOLE_ROWS - 2), start=10))
    assert sum(map(len, frames(splitter, 0))) == WHOLE_ROWS
