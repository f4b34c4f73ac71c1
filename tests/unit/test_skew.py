"""The transient-skew buffer: rows go to their unit's owner, wait while it moves, and never overtake each other."""

from collections import defaultdict, deque

from hypothesis import given
from hypothesis import strategies as st

from tests.support.skew_rows import UNITS, batch, buffer


def taken(skew, worker, most=1000):
    """The ids a worker gets."""
    return [row for piece in skew.retrieve(worker, most) for row in piece.rows.column(0).to_pylist()]


def test_rows_go_to_the_owner_in_their_order():
    skew = buffer()
    skew.insert(batch([0, 1, 2, 3, 0, 1]))
    assert (skew.rows, skew.waiting(0), skew.waiting(1), skew.waiting(2)) == (6, 3, 3, 0)
    assert taken(skew, 0) == [0, 2, 4]
    assert taken(skew, 1) == [1, 3, 5]
    assert (skew.rows, skew.bytes) == (0, 0)


def test_null_keys_are_in_the_last_unit():
    skew = buffer(owners=(1, 1, 1, 1, 0))
    skew.insert(batch([None, 3, None]))
    assert taken(skew, 0) == [0, 2]


def test_no_more_than_asked_for():
    skew = buffer()
    skew.insert(batch([0] * 10))
    assert [taken(skew, 0, 3), taken(skew, 0, 3), taken(skew, 0, 100)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    assert skew.waiting(0) == 0
    assert skew.bytes == 0


def test_places_follow_their_rows():
    skew = buffer()
    skew.insert(batch([1, 0, 1, 0]), chunk=7, ordered=True)
    skew.pause(1, [1])
    skew.release(1, 0)
    pieces = skew.retrieve(0, 100)
    assert [(piece.chunk, piece.places.tolist()) for piece in pieces] == [(7, [1, 3]), (7, [0, 2])]


def test_paused_rows_wait_and_others_do_not():
    skew = buffer()
    skew.insert(batch([0, 2, 0]))
    assert skew.pause(5, [0]) == set()
    skew.insert(batch([0, 2], start=3))
    assert skew.waiting(0) == 2
    assert taken(skew, 0) == [1, 4]
    assert skew.rows == 3
    skew.release(5, 1)
    assert taken(skew, 1) == [0, 2, 3]
    assert (skew.rows, skew.bytes) == (0, 0)


def test_released_units_stay_where_they_are():
    skew = buffer()
    skew.pause(1, [0])
    skew.release(1, 1)
    skew.insert(batch([0]))
    assert taken(skew, 1) == [0]


def test_paused_again_before_it_was_released():
    skew = buffer()
    skew.pause(1, [0, 2])
    skew.insert(batch([0, 2, 0]))
    assert skew.pause(2, [0]) == {1}
    skew.insert(batch([0, 2], start=3))
    skew.release(1, 1)
    assert taken(skew, 1) == [1, 4]
    skew.release(2, 3)
    assert taken(skew, 3) == [0, 2, 3]


def test_paused_again_after_it_was_released():
    skew = buffer()
    skew.pause(1, [0])
    skew.insert(batch([0, 0]))
    skew.release(1, 1)
    assert skew.pause(2, [0]) == set()
    assert skew.waiting(1) == 0
    skew.release(2, 0)
    assert taken(skew, 0) == [0, 1]


def test_a_unit_may_go_back_to_where_it_came_from():
    skew = buffer()
    skew.insert(batch([0, 2]))
    skew.pause(1, [0])
    skew.release(1, 0)
    assert sorted(taken(skew, 0)) == [0, 1]


def test_bytes_are_bounded_by_what_came_in():
    skew = buffer()
    given_bytes = 0
    for start in range(0, 30, 3):
        rows = batch([0, 1, 2], start)
        given_bytes += rows.nbytes
        skew.insert(rows)
        skew.pause(start + 1, [0])
        skew.release(start + 1, start % 2)
        assert 0 < skew.bytes <= given_bytes


def test_full_by_all_rows_or_by_those_of_one_worker():
    skew = buffer()
    assert not skew.full(0)
    assert not skew.full(0, divided=True)
    skew.insert(batch([0, 0, 0, 1]))  # 16 bytes a row
    assert [skew.full(limit) for limit in (0, 64, 65)] == [True, True, False]
    assert [skew.full(limit, divided=True) for limit in (0, 48, 49)] == [True, True, False]
    skew.pause(1, [0])
    assert [skew.full(limit, divided=True) for limit in (48, 49)] == [True, False]  # rows of a unit on its way count
    taken(skew, 1)
    skew.release(1, 1)
    taken(skew, 1)
    assert not skew.full(0)
    assert not skew.full(0, divided=True)


def test_any_worker_takes_any_row_where_content_does_not_matter():
    skew = buffer(by_content=False)
    skew.insert(batch([0, 1, 2]))
    assert (skew.waiting(0), skew.waiting(9)) == (3, 3)
    assert taken(skew, 9, 2) == [0, 1]
    assert taken(skew, 0) == [2]
    assert (skew.rows, skew.bytes) == (0, 0)


class Model:
    """The same with one queue a unit: a unit is at a worker, or held by a movement."""

    def __init__(self, owners):
        self.place = {unit: ("at", owner) for unit, owner in enumerate(owners)}
        self.rows = defaultdict(deque)

    def pause(self, move, units):
        for unit in units:
            self.place[unit] = ("held", move)

    def release(self, move, worker):
        for unit, place in self.place.items():
            if place == ("held", move):
                self.place[unit] = ("at", worker)

    def waiting(self, worker):
        return sum(len(self.rows[unit]) for unit, place in self.place.items() if place == ("at", worker))

    def held(self):
        return sorted({place[1] for place in self.place.values() if place[0] == "held"})


keys = st.lists(st.integers(0, 11) | st.none(), min_size=1, max_size=12)
units = st.sets(st.integers(0, UNITS), min_size=1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), keys),
        st.tuples(st.just("retrieve"), st.integers(0, 2), st.integers(1, 6)),
        st.tuples(st.just("pause"), units),
        st.tuples(st.just("release"), st.integers(0, 5), st.integers(0, 2)),
    ),
    max_size=30,
)


@given(steps)
def test_like_one_queue_a_unit(steps):
    skew, model = buffer(), Model((0, 1, 0, 1, 0))
    moves, open_moves, count = 0, [], 0
    for step, *rest in steps:
        match step, rest:
            case "insert", [drawn]:
                skew.insert(batch(drawn, count))
                for place, key in enumerate(drawn):
                    model.rows[UNITS if key is None else key % UNITS].append(count + place)
                count += len(drawn)
            case "pause", [chosen]:
                moves += 1
                earlier = {model.place[unit][1] for unit in chosen if model.place[unit][0] == "held"}
                assert skew.pause(moves, sorted(chosen)) == earlier
                model.pause(moves, chosen)
                open_moves.append(moves)
            case "release", [which, worker] if open_moves:
                move = open_moves.pop(which % len(open_moves))
                skew.release(move, worker)
                model.release(move, worker)
            case "retrieve", [worker, most]:
                _retrieve(skew, model, worker, most)
        _compare(skew, model)
    for move in open_moves:
        skew.release(move, 0)
        model.release(move, 0)
    for worker in range(3):
        _retrieve(skew, model, worker, 10_000)
    assert (skew.rows, skew.bytes) == (0, 0)


def _retrieve(skew, model, worker, most):
    """What comes is, unit by unit, the head of the unit's queue; and as much as there is."""
    pieces = skew.retrieve(worker, most)
    rows = [row for piece in pieces for row in zip(*(c.to_pylist() for c in piece.rows.columns), strict=True)]
    assert len(rows) == min(most, model.waiting(worker))
    for row, key in rows:
        unit = UNITS if key is None else key % UNITS
        assert model.place[unit] == ("at", worker)
        assert model.rows[unit].popleft() == row


def _compare(skew, model):
    assert skew.rows == sum(map(len, model.rows.values()))
    assert [skew.waiting(worker) for worker in range(3)] == [model.waiting(worker) for worker in range(3)]
    assert (skew.bytes > 0) == (skew.rows > 0)
