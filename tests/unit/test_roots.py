"""A root frame is through when all that descends from it has been processed, in whatever order that is heard."""

from itertools import permutations

import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.graph.roots import Roots
from evenflow.runtime.feeder.link import DEPTH


def roots(rows=100, size=1000, nodes=1):
    return Roots(rows, size, FrameSize(), nodes)


SAID = (1 ^ 2 ^ 4, 2 ^ 8, 4, 8)
"""Frame 1 caused 2 and 4, and 2 caused 8."""


@pytest.mark.parametrize("order", list(permutations(SAID)))
def test_all_that_descends_counts(order):
    """Who caused a frame may be heard after that frame."""
    known = roots()
    number = known.begin(0.0, 10, 100)
    known.sent(number, 1)
    assert [known.done(number, mark, 0.1) is not None for mark in order] == [False, False, False, True]
    assert len(known) == 0


def test_a_root_frame_without_readers_is_through_at_once():
    known = roots()
    number = known.begin(2.0, 10, 100)
    assert known.born(number) == 2.0
    assert known.check(number).rows == 10
    assert len(known) == 0


def test_one_frame_for_each_worker_is_waited_for():
    known = roots()
    number = known.begin(0.0, 10, 100)
    known.sent(number, 3)
    known.sent(number, 4)
    assert known.done(number, 4, 0.1) is None
    assert known.done(number, 3, 0.3).longest_s == 0.3


def test_what_waits_is_known_by_source():
    known = roots()
    first, second, third = (known.begin(0.0, rows, 100, source) for rows, source in ((10, 0), (20, 2), (5, 2)))
    for number in (first, second, third):
        known.sent(number, 7)
    assert known.waiting == {0: 10, 2: 25}
    known.done(second, 7, 0.0)
    known.done(first, 7, 0.0)
    assert known.waiting == {2: 5}
    known.done(third, 7, 0.0)
    assert known.waiting == {}


def test_root_frames_are_apart():
    known = roots()
    first, second = known.begin(0.0, 10, 100), known.begin(0.0, 20, 100)
    for number in (first, second):
        known.sent(number, 7)
    assert known.done(second, 7, 0.0).rows == 20
    assert known.done(first, 7, 0.0).rows == 10


@pytest.mark.parametrize("call", [lambda k: k.done(1, 3, 0.0), lambda k: k.born(1), lambda k: k.sent(1, 3)])
def test_a_root_frame_that_is_not_on_its_way_is_refused(call):
    known = roots()
    known.check(known.begin(0.0, 1, 1))
    with pytest.raises(ProtocolError, match="root frame 1, which is not on its way"):
        call(known)


@pytest.mark.parametrize(
    ("frames", "full"),
    [([], False), ([(99, 1)], False), ([(100, 1)], True), ([(1, 1000)], True), ([(1, 1)] * DEPTH, True)],
    ids=["nothing is under way", "little", "as many rows as may be", "as many bytes", "as many frames"],
)
def test_what_may_be_under_way(frames, full):
    known = roots()
    for rows, size in frames:
        known.sent(known.begin(0.0, rows, size), 3)
    assert known.full(1) is full


def test_there_is_room_again_when_a_root_frame_is_through():
    known = roots()
    number = known.begin(0.0, 100, 100)
    known.sent(number, 3)
    assert known.full(1)
    known.done(number, 3, 0.0)
    assert not known.full(1)
    assert known.rows(1, 10.0) >= 1
