"""The reorder buffer."""

import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.feeder.ordered.merge import OrderedMerge


def expecting(*owners, ordered=True):
    merger = OrderedMerge(ordered)
    for sequence, owner in enumerate(owners):
        merger.expect(owner, sequence)
    return merger


def empty(merger):
    return (len(merger), merger.held_bytes, merger.head_owners) == (0, 0, set())


@pytest.mark.parametrize(
    ("arrival", "released"),
    [
        ([0, 1, 2], [[0], [1], [2]]),
        ([2, 1, 0], [[], [], [0, 1, 2]]),
        ([1, 0, 2], [[], [0, 1], [2]]),
        ([0, 2, 1], [[0], [], [1, 2]]),
    ],
)
def test_order(arrival, released):
    merger = expecting(5, 5, 5)
    seen = []
    for sequence in arrival:
        assert merger.add(5, sequence, sequence, size=1, last=True)
        seen.append(merger.ready())
    assert seen == released
    assert empty(merger)


def test_parts_of_one_answer_stay_together():
    merger = expecting(0, 1)
    assert not merger.add(1, 1, "d", size=4, last=False)
    assert not merger.add(0, 0, "a", size=1, last=False)
    assert merger.ready() == []
    assert merger.add(1, 1, "e", size=5, last=True)
    assert not merger.add(0, 0, "b", size=2, last=False)
    assert merger.held_bytes == 12
    assert merger.add(0, 0, "c", size=3, last=True)
    assert merger.ready() == ["a", "b", "c", "d", "e"]
    assert empty(merger)


def test_who_is_waited_for():
    merger = expecting(4, 7, 4)
    assert (merger.head_owners, len(merger)) == ({4}, 3)
    merger.add(4, 0, "x", size=1, last=True)
    assert merger.head_owners == {7}  # the first may leave, so it is the second that is waited for
    merger.add(7, 1, "y", size=1, last=False)
    merger.ready()
    assert (merger.head_owners, len(merger)) == ({7}, 2)


# -- frames that more than one worker has


def test_the_first_answer_counts_and_the_other_is_thrown_away():
    merger = expecting(0)
    merger.expect(1, 0)
    assert merger.head_owners == {0, 1}
    assert not merger.add(0, 0, "half", size=5, last=False)
    assert merger.add(1, 0, "whole", size=9, last=True)
    assert merger.held_bytes == 9
    assert merger.ready() == ["whole"]
    assert not merger.add(0, 0, "other half", size=4, last=True)
    assert empty(merger)


def test_the_late_answer_comes_before_its_frame_may_leave():
    merger = expecting(0, 1)
    merger.expect(2, 1)
    assert merger.add(2, 1, "b", size=1, last=True)
    assert not merger.add(1, 1, "b again", size=1, last=False)
    assert not merger.add(1, 1, "b again", size=1, last=True)
    assert merger.held_bytes == 1
    assert merger.add(0, 0, "a", size=1, last=True)
    assert merger.ready() == ["a", "b"]
    assert empty(merger)


# -- workers that are lost


def test_the_frames_of_a_lost_worker_wait_for_others():
    merger = expecting(0, 1, 0, 0)
    merger.add(0, 0, "a", size=1, last=True)
    merger.add(0, 2, "half of c", size=5, last=False)
    merger.expect(1, 3)
    merger.lose(0)
    assert merger.held_bytes == 1
    assert merger.head_owners == {1}  # 0 is answered
    assert len(merger) == 4
    merger.expect(1, 2)
    for sequence, part in [(1, "b"), (2, "c"), (3, "d")]:
        assert merger.add(1, sequence, part, size=1, last=True)
    assert merger.ready() == ["a", "b", "c", "d"]
    assert empty(merger)


def test_an_orphaned_head_has_no_owner():
    merger = expecting(0)
    merger.lose(0)
    assert merger.head_owners == set()
    assert len(merger) == 1
    merger.lose(0)
    assert (merger.head_owners, len(merger)) == (set(), 1)
    merger.expect(1, 0)
    assert merger.head_owners == {1}


def test_a_head_that_another_worker_has_too_is_still_waited_for():
    merger = expecting(0)
    merger.expect(1, 0)
    merger.lose(0)
    assert merger.head_owners == {1}


# -- answers nobody waits for


@pytest.mark.parametrize(
    ("owner", "sequence"),
    [(0, 0), (0, 1), (1, 2), (0, 3), (0, -1)],
    ids=["already gone", "already complete", "somebody else's", "never sent", "nonsense"],
)
def test_unasked(owner, sequence):
    merger = expecting(0, 0, 0)
    merger.add(0, 0, "a", size=1, last=True)
    assert merger.ready() == ["a"]
    merger.add(0, 1, "b", size=1, last=True)
    with pytest.raises(ProtocolError, match=f"worker {owner} answered frame {sequence}, which is not waiting"):
        merger.add(owner, sequence, "again", size=1, last=True)
    assert merger.held_bytes == 1
    assert merger.ready() == ["b"]


def test_thrown_away_once_only():
    merger = expecting(0)
    merger.expect(1, 0)
    merger.add(1, 0, "x", size=1, last=True)
    merger.add(0, 0, "late", size=1, last=True)
    with pytest.raises(ProtocolError, match="worker 0 answered frame 0"):
        merger.add(0, 0, "later", size=1, last=True)


def test_a_lost_worker_answers_nothing():
    merger = expecting(0, 1)
    merger.expect(1, 0)
    merger.add(1, 0, "x", size=1, last=True)
    merger.lose(0)
    with pytest.raises(ProtocolError, match="worker 0 answered frame 0"):
        merger.add(0, 0, "late", size=1, last=True)


# -- without an order


def test_answers_leave_as_they_come():
    merger = expecting(0, 1, 2, 0, ordered=False)
    assert merger.add(2, 2, "c", size=1, last=True)
    assert not merger.add(1, 1, "b", size=1, last=False)
    assert merger.ready() == ["c"]
    assert merger.add(0, 3, "d", size=1, last=True)
    assert merger.add(1, 1, "more b", size=1, last=True)
    assert merger.ready() == ["d", "b", "more b"]
    assert (len(merger), merger.held_bytes) == (1, 0)  # nothing waits for the first
    assert merger.add(0, 0, "a", size=1, last=True)
    assert merger.ready() == ["a"]
    assert empty(merger)


def test_without_an_order_too_each_frame_leaves_once():
    merger = expecting(0, 1, ordered=False)
    merger.expect(1, 0)
    merger.add(0, 0, "half of a", size=1, last=False)
    merger.add(1, 0, "a", size=1, last=True)
    assert merger.ready() == ["a"]
    assert not merger.add(0, 0, "the other half", size=1, last=True)
    merger.add(1, 1, "half of b", size=1, last=False)
    merger.lose(1)
    merger.expect(0, 1)
    merger.add(0, 1, "b", size=1, last=True)
    assert merger.ready() == ["b"]
    assert empty(merger)


def test_without_an_order_room_comes_from_an_answer_that_has_begun():
    merger = expecting(0, 1, 2, ordered=False)
    assert merger.head_owners == set()
    merger.add(2, 2, "half of c", size=9, last=False)
    merger.add(1, 1, "half of b", size=9, last=False)
    assert merger.head_owners == {1}
    merger.add(1, 1, "b", size=9, last=True)
    assert merger.head_owners == {2}
    merger.lose(2)
    assert (merger.head_owners, merger.held_bytes) == (set(), 18)
